"""Rules for the backing of the image and for the file systems of host and guest."""

from __future__ import annotations

from pytest_vmstorage.config.qcow2_cache import CACHE_FIELDS
from pytest_vmstorage.config.rules.rule import Cell, Rule

BLOCK_BACKINGS = ("partition", "lvm", "zvol", "device")
"""Backings that are a block device of the host."""

BACKINGS = ("file", *BLOCK_BACKINGS, "native", "null", "machine")

ON_THE_HOST = ("backing", "host_fs", "host_mkfs", "host_mount", "state", "size", "preallocation")
"""Fields that a cell without a guest has."""

OF_A_MACHINE = ("backing", "state", "size")
"""Fields that a cell on a machine which the plugin did not make has."""

OF_STORAGE = (
    *("format", "preallocation", "state", "subformat", "io", "discard", "detect_zeroes"),
    *("cluster_size", "lazy_refcounts", "extended_l2", *CACHE_FIELDS),
    *("compression", "encryption", "backing_chain", "snapshots", "host_fs", "host_mkfs", "host_mount"),
)
"""Fields of an image and its backing, which a cell whose disk is QEMU's null driver lacks."""

OF_AN_IMAGE = (
    *("format", "preallocation", "subformat", "cluster_size", "lazy_refcounts", "extended_l2"),
    *("compression", "encryption", "backing", "host_fs", "host_mkfs", "host_mount", "size"),
)
"""Fields that an image has without a guest."""

_SMALLEST_GUEST_FS = {"xfs": 300 * 2**20, "btrfs": 110 * 2**20}


def _too_small_for_its_guest_fs(cell: Cell) -> bool:
    """Whether mkfs would refuse the disk; a btrfs of mixed block groups fits on any cell's disk."""
    is_mixed = bool({"-M", "--mixed"} & {*cell.guest_mkfs.split()})
    return not is_mixed and cell.size < _SMALLEST_GUEST_FS.get(cell.guest_fs, 0)


def _chosen_for_a_guest(cell: Cell) -> bool:
    """Whether the cell has a value for a field that only a guest or an image format has."""
    return any(cell.is_chosen(name) for name in type(cell).model_fields if name not in ON_THE_HOST)


def lacks(cell: Cell, name: str) -> bool:
    """Whether the cell lacks that field: native a guest's, null an image's, a machine all that is made for a cell."""
    kind = cell.backing_kind
    if kind == "machine":
        return name not in OF_A_MACHINE
    return (kind == "native" and name not in ON_THE_HOST) or (kind == "null" and name in OF_STORAGE)


BACKING_RULES = (
    Rule(
        "native-has-no-guest",
        lambda cell: cell.backing_kind == "native" and _chosen_for_a_guest(cell),
        "backing=native is the workload on the host itself, which has no guest and no image format; only the state, the"
        " preallocation of its file and what lies under it can be chosen",
        "the meaning of backing=native",
        "VM121",
    ),
    Rule(
        "machine-is-as-it-is",
        lambda cell: (
            cell.backing_kind == "machine"
            and any(cell.is_chosen(name) for name in type(cell).model_fields if name not in OF_A_MACHINE)
        ),
        "backing=machine is a machine that the plugin did not make, so that only the state and the size can be chosen;"
        " what else it is its label in vmstorage.toml states",
        "the meaning of backing=machine",
        "VM122",
    ),
    Rule(
        "machine-has-a-name",
        lambda cell: cell.backing_kind == "machine" and not cell.backing_name,
        "backing=machine needs the name that vmstorage.toml has for it, such as backing=machine:esx-guest",
        "the meaning of backing=machine",
        "VM123",
    ),
    Rule(
        "null-has-no-storage",
        lambda cell: (
            cell.backing_kind == "null" and any(cell.is_chosen(name) for name in OF_STORAGE if name != "state")
        ),
        "backing=null is QEMU's null driver in the place of an image: it has no format, no io mode, no layers, and no"
        " blocks to allocate, find zero or give back; cache, bus and what else is the guest's can be chosen",
        "QEMU block/null.c and BlockdevOptionsNull in qapi/block-core.json",
        "VM124",
    ),
    Rule(
        "null-keeps-nothing",
        lambda cell: cell.backing_kind == "null" and (cell.state != "filled" or cell.guest_fs != "none"),
        "QEMU's null driver keeps nothing and reads zeroes, so that its disk has no state and holds no file system",
        'QEMU block/null.c; mkfs.ext4 succeeds and mount says "can\'t read superblock", tried',
        "VM125",
    ),
    Rule(
        "null-has-no-name",
        lambda cell: cell.backing_kind == "null" and bool(cell.backing_name),
        "backing=null lies on nothing, so that vmstorage.toml has no name for it",
        "the meaning of backing=null",
        "VM126",
    ),
    Rule(
        "block-formats",
        lambda cell: cell.backing_kind in BLOCK_BACKINGS and cell.format not in ("raw", "qcow2"),
        "on a block device an image is raw or qcow2 here; the other formats are for files, and hardly anyone lays them"
        " on a device",
        'this plugin; of qed qemu-img says "Cannot resize device files", a vmdk there takes no data, vdi and vpc do;'
        " tried",
        "VM127",
    ),
    Rule(
        "block-preallocation",
        lambda cell: cell.backing_kind in BLOCK_BACKINGS and cell.preallocation in ("falloc", "full"),
        "a block device has all its blocks; falloc and full are a file's",
        "qemu-img: \"Preallocation mode 'falloc' unsupported for this non-regular file\", tried",
        "VM128",
    ),
    Rule(
        "block-layers",
        lambda cell: (
            cell.backing_kind in BLOCK_BACKINGS
            and (cell.backing_chain > 0 or cell.compression != "off" or cell.snapshots > 0)
        ),
        "backing chains, compressed clusters and internal snapshots are made in files here",
        "this plugin; QEMU takes all three on a block device, tried",
        "VM129",
    ),
    Rule(
        "block-has-no-first-write",
        lambda cell: (
            cell.backing_kind in ("partition", "lvm", "device")
            and cell.format == "raw"
            and cell.state in ("fresh", "aged")
        ),
        "nothing is allocated when raw on a partition, a thick LVM volume or a device is written first, so that fresh"
        " and aged say nothing there",
        "lvmthin(7); what a device held before is not known",
        "VM130",
    ),
    Rule(
        "host-fs-needs-a-file",
        lambda cell: cell.host_fs != "as-found" and cell.backing_kind not in ("file", "native"),
        "host_fs is the file system that an image file lies on, and this backing has no file",
        "the meaning of host_fs",
        "VM131",
    ),
    Rule(
        "host-fs-options",
        lambda cell: cell.host_fs == "as-found" and bool(cell.host_mkfs or cell.host_mount),
        "host_mkfs and host_mount are options of a file system that is made, and host_fs=as-found makes none",
        "the meaning of host_fs",
        "VM132",
    ),
    Rule(
        "file-has-no-name",
        lambda cell: cell.backing_kind == "file" and cell.backing_name and cell.host_fs == "as-found",
        "backing=file:NAME puts the image on a file system made on that device, and host_fs=as-found makes none",
        "the meaning of backing",
        "VM133",
    ),
    Rule(
        "guest-fs-options",
        lambda cell: cell.guest_fs == "none" and bool(cell.guest_mkfs or cell.guest_mount),
        "guest_mkfs and guest_mount are options of a file system, and guest_fs=none is the disk without one",
        "the meaning of guest_fs",
        "VM134",
    ),
    Rule(
        "guest-fs-size",
        _too_small_for_its_guest_fs,
        "mkfs.xfs makes none on less than 300M, and mkfs.btrfs none on less than 110M",
        "xfsprogs 6.1 and btrfs-progs 6.2, tried",
        "VM135",
    ),
)

"""The rules that say which cells can exist, each with its reason and the source of it; pure.

"tried" means: started on libvirt 9.0 with QEMU 7.2, and refused, or accepted without effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

# A cell is a StorageConfig; this module lies below it, and reads its fields by name.
Cell = Any

VIRTIO_BUSES = ("virtio-blk", "virtio-scsi")
SCSI_MODELS = ("virtio-scsi", "lsilogic", "vmpvscsi")
"""Buses that are a SCSI controller, by libvirt's model names (virtio-scsi is one)."""

QCOW2_FIELDS = ("cluster_size", "lazy_refcounts", "extended_l2", "l2_cache_size")
PREALLOCATIONS = {"raw": ("off", "falloc", "full"), "qcow2": ("off", "metadata", "falloc", "full")}
SUBFORMATS = {
    "vmdk": ("monolithicSparse", "monolithicFlat", "twoGbMaxExtentSparse", "twoGbMaxExtentFlat"),
    "vpc": ("dynamic", "fixed"),
}


EXTENTS = ("monolithicFlat", "twoGbMaxExtentSparse", "twoGbMaxExtentFlat")
"""Subformats of vmdk whose data lies in files beside the descriptor."""


class Rule(NamedTuple):
    """What cannot be: `breaks` is true of a cell that breaks it; `reason` is a clause, `source` says who says so."""

    name: str
    breaks: Callable[[Cell], bool]
    reason: str
    source: str


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


RULES = (
    Rule(
        "raw-metadata",
        lambda cell: cell.format == "raw" and cell.preallocation == "metadata",
        "raw has no metadata to preallocate; qcow2 has, and raw can have off, falloc or full",
        'qemu-img: "Unexpected preallocation mode", tried',
    ),
    Rule(
        "preallocation-without-effect",
        lambda cell: cell.format not in PREALLOCATIONS and cell.preallocation != "off",
        "qemu-img takes the option for this format and does nothing; raw and qcow2 can be preallocated",
        "st_blocks of the image, tried",
    ),
    Rule(
        "subformat",
        lambda cell: cell.subformat is not None and cell.subformat not in SUBFORMATS.get(cell.format, ()),
        "the format has no such subformat; vmdk has monolithicSparse, monolithicFlat, twoGbMaxExtentSparse and"
        " twoGbMaxExtentFlat, vpc has dynamic and fixed",
        "qemu-img create -o help",
    ),
    Rule(
        "native-needs-direct",
        lambda cell: cell.io == "native" and cell.cache not in ("none", "directsync"),
        "io=native needs cache none or directsync",
        "libvirt error 67, QEMU block/file-posix.c, tried",
    ),
    Rule(
        "io-of-vmdk-extents",
        lambda cell: cell.format == "vmdk" and cell.subformat in EXTENTS and cell.io != "threads",
        "QEMU gives io to the vmdk's descriptor only, and serves its extent files by threads",
        "strace of qemu-io with native, tried",
    ),
    Rule(
        "zeroes-unmap-needs-discard",
        lambda cell: cell.detect_zeroes == "unmap" and cell.discard != "unmap",
        "detect_zeroes=unmap needs discard=unmap: libvirt makes it on without a word",
        "QMP query-named-block-nodes, tried; libvirt formatdomain",
    ),
    Rule(
        "ide-needs-pc",
        lambda cell: cell.bus == "ide" and cell.machine == "q35",
        "q35 has no IDE controller; machine pc has",
        'libvirt: "IDE controllers are unsupported for this QEMU binary or machine type", tried',
    ),
    Rule(
        "iothread-needs-virtio",
        lambda cell: cell.iothread and cell.bus not in VIRTIO_BUSES,
        "only virtio-blk and virtio-scsi have iothreads",
        'libvirt: "IOThreads not available for bus", tried',
    ),
    Rule(
        "queues-need-virtio",
        lambda cell: (cell.queues or cell.queue_size) and cell.bus not in VIRTIO_BUSES,
        "only virtio-blk and virtio-scsi have queues to set",
        "libvirt formatdomain: virtio devices only, tried",
    ),
    Rule(
        "queue-size",
        lambda cell: (
            cell.queue_size is not None and not (_is_power_of_two(cell.queue_size) and cell.queue_size <= 1024)
        ),
        "queue_size is a power of two up to 1024",
        "QEMU refuses it at start, tried; VIRTQUEUE_MAX_SIZE",
    ),
    Rule(
        "queue-size-of-scsi",
        lambda cell: cell.queue_size is not None and cell.bus == "virtio-scsi",
        "libvirt sets queue_size on a disk, and a virtio-scsi disk has none; use virtio-blk",
        "libvirt formatdomain, driver of a disk",
    ),
    Rule(
        "qcow2-only",
        lambda cell: cell.format != "qcow2" and any(getattr(cell, name) for name in QCOW2_FIELDS),
        f"{', '.join(QCOW2_FIELDS)} are qcow2's",
        'libvirt: "supported only with qcow2 images", qemu-img create -o help',
    ),
    Rule(
        "cluster-size",
        lambda cell: (
            cell.cluster_size is not None
            and not (_is_power_of_two(cell.cluster_size) and 512 <= cell.cluster_size <= 2**21)
        ),
        "cluster_size is a power of two from 512 to 2M",
        "QEMU docs/interop/qcow2.txt, tried",
    ),
    Rule(
        "extended-l2",
        lambda cell: cell.extended_l2 and cell.cluster_size is not None and cell.cluster_size < 2**14,
        "extended_l2 needs clusters of at least 16k",
        "qemu-img, tried",
    ),
)


def broken_rules(cell: Cell) -> Iterator[Rule]:
    """The rules that the cell breaks, in the order of the list."""
    return (rule for rule in RULES if rule.breaks(cell))

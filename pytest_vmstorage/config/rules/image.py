"""Rules for the format of an image and for its content."""

from __future__ import annotations

from pytest_vmstorage.config.qcow2_cache import (
    CACHE_FIELDS,
    cluster_bytes,
    combined_bytes,
    least_l2_bytes,
    refcount_bytes,
    slice_bytes,
)
from pytest_vmstorage.config.rules.rule import Cell, Rule, is_power_of_two

QCOW2_FIELDS = ("cluster_size", "lazy_refcounts", "extended_l2", *CACHE_FIELDS)
"""Fields of qcow2 in its header or its cache."""

LAYER_FIELDS = ("compression", "backing_chain", "snapshots")
"""Fields of qcow2 that consist of data: without any they show nothing."""

PREALLOCATIONS = {"raw": ("off", "falloc", "full"), "qcow2": ("off", "metadata", "falloc", "full")}
SUBFORMATS = {
    "vmdk": ("monolithicSparse", "monolithicFlat", "twoGbMaxExtentSparse", "twoGbMaxExtentFlat", "streamOptimized"),
    "vpc": ("dynamic", "fixed"),
}

EXTENTS = ("monolithicFlat", "twoGbMaxExtentSparse", "twoGbMaxExtentFlat")
"""Subformats of vmdk whose data lies in files next to the descriptor."""

VPC_MOST_BYTES = 0xFF000000 * 512


def arrives_filled(cell: Cell) -> bool:
    """Whether the image has data in every block before its guest starts, as the cell is about that data."""
    return bool(
        cell.compression != "off" or cell.backing_chain or cell.snapshots or cell.subformat == "streamOptimized"
    )


def _is_qcow2s(cell: Cell) -> bool:
    layered = cell.compression != "off" or cell.encryption != "off" or cell.backing_chain or cell.snapshots
    return bool(layered or any(getattr(cell, name) for name in QCOW2_FIELDS))


IMAGE_RULES = (
    Rule(
        "raw-metadata",
        lambda cell: cell.format == "raw" and cell.preallocation == "metadata",
        "raw has no metadata to preallocate; qcow2 has, and raw can have off, falloc or full",
        'qemu-img: "Unexpected preallocation mode", tried',
        "VM141",
    ),
    Rule(
        "preallocation-without-effect",
        lambda cell: cell.format not in PREALLOCATIONS and cell.preallocation != "off",
        "qemu-img takes the option for this format and does nothing; raw and qcow2 can be preallocated",
        "st_blocks of the image, tried",
        "VM142",
    ),
    Rule(
        "subformat",
        lambda cell: cell.subformat is not None and cell.subformat not in SUBFORMATS.get(cell.format, ()),
        "the format has no such subformat; vmdk has monolithicSparse, monolithicFlat, twoGbMaxExtentSparse,"
        " twoGbMaxExtentFlat and streamOptimized, vpc has dynamic and fixed",
        "qemu-img create -o help",
        "VM143",
    ),
    Rule(
        "vpc-size",
        lambda cell: cell.format == "vpc" and cell.size > VPC_MOST_BYTES,
        "a vpc image has 2040 GiB at most",
        "VHD_MAX_SECTORS in QEMU block/vpc.c; 3 TiB refused, tried",
        "VM144",
    ),
    Rule(
        "qcow2-only",
        lambda cell: cell.format != "qcow2" and _is_qcow2s(cell),
        f"{', '.join((*QCOW2_FIELDS, *LAYER_FIELDS))} and encryption are qcow2's",
        'libvirt: "supported only with qcow2 images", qemu-img create -o help',
        "VM145",
    ),
    Rule(
        "cluster-size",
        lambda cell: (
            cell.cluster_size is not None
            and not (is_power_of_two(cell.cluster_size) and 512 <= cell.cluster_size <= 2**21)
        ),
        "cluster_size is a power of two from 512 to 2M",
        "QEMU docs/interop/qcow2.txt, tried",
        "VM146",
    ),
    Rule(
        "extended-l2",
        lambda cell: cell.extended_l2 and cell.cluster_size is not None and cell.cluster_size < 2**14,
        "extended_l2 needs clusters of at least 16k",
        "qemu-img, tried",
        "VM147",
    ),
    Rule(
        "layers-arrive-filled",
        lambda cell: arrives_filled(cell) and cell.state != "filled",
        "compressed clusters, backing files and snapshots hold data before the guest starts, so that the disk is"
        " filled; any other state writes over them or has none",
        "qemu-img check and map, tried",
        "VM148",
    ),
    Rule(
        "layers-lie-under-files",
        lambda cell: arrives_filled(cell) and cell.guest_fs != "none",
        "a file system in the guest gives workloads a new file, whose blocks are not those that the image holds",
        "of 1.5 GiB that fio read of such a file the guest's disk moved 4 KiB, tried",
        "VM149",
    ),
    Rule(
        "layers-allocate-late",
        lambda cell: arrives_filled(cell) and cell.preallocation != "off",
        "data that arrive with the image are its allocation: on top of backing files and after snapshots a write"
        " allocates anew, and a cluster that is there cannot be compressed",
        'qemu-img: "Backing file and preallocation can only be used at the same time if extended_l2 is on",'
        ' "Compression and preallocation not supported at the same time", tried',
        "VM150",
    ),
    Rule(
        "snapshots-stand-alone",
        lambda cell: cell.snapshots > 0 and (cell.compression != "off" or cell.backing_chain > 0),
        "between snapshots a part of the disk is written anew: a compressed cluster cannot be, and the image on top of"
        " backing files holds none of the data",
        "qemu-io write -c over a compressed cluster: Input/output error, tried; QEMU block/qcow2-cluster.c,"
        " qcow2_alloc_compressed_cluster_offset",
        "VM151",
    ),
    Rule(
        "layers-need-room",
        lambda cell: cell.size // cluster_bytes(cell) < 8 * max(cell.backing_chain, cell.snapshots),
        "the disk has fewer than eight clusters for each of its layers, so that not every one could hold its share",
        "this plugin",
        "VM152",
    ),
    Rule(
        "l2-cache-of-layers",
        lambda cell: combined_bytes(cell) is not None and cell.backing_chain > 0 and cell.bus != "nvme",
        "libvirt gives the size of these caches to the top image alone, and the data lie in the images below it",
        "QEMU's command line (cache-size), tried",
        "VM153",
    ),
    Rule(
        "one-cache-size",
        lambda cell: cell.l2_cache_size is not None and cell.metadata_cache_size is not None,
        "metadata_cache_size is the sum of which l2_cache_size is a part, and libvirt takes one size",
        "QEMU docs/qcow2-cache.txt, libvirt's metadata_cache",
        "VM154",
    ),
    Rule(
        "l2-cache-of-whole-slices",
        lambda cell: (
            cell.l2_cache_size is not None
            and bool(cell.l2_cache_size % slice_bytes(cell) or cell.l2_cache_size < least_l2_bytes(cell))
        ),
        "QEMU caches L2 tables in slices of 4k (of the cluster size where that is smaller) and keeps two of them, so"
        " that l2_cache_size is a multiple of that and twice that or more",
        "QEMU docs/qcow2-cache.txt; its events qcow2_cache_get_done counted, tried",
        "VM155",
    ),
    Rule(
        "metadata-cache-too-small",
        lambda cell: (
            cell.metadata_cache_size is not None
            and cell.metadata_cache_size < refcount_bytes(cell) + least_l2_bytes(cell)
        ),
        "QEMU takes four clusters for refcounts and keeps two slices of L2 tables whatever metadata_cache_size is, so"
        " that all sizes below that sum (264k with clusters of 64k) are the same disk",
        "QEMU docs/qcow2-cache.txt; its events qcow2_cache_get_done counted, tried",
        "VM156",
    ),
    Rule(
        "compressed-or-encrypted",
        lambda cell: cell.compression != "off" and cell.encryption != "off",
        "a qcow2 image is compressed or encrypted, not both",
        'qemu-img convert: "Compression and encryption not supported at the same time", tried',
        "VM157",
    ),
    Rule(
        "aged-needs-allocation",
        lambda cell: cell.state == "aged" and cell.preallocation != "off",
        "an aged image is fragmented by the order of its first writes, and a preallocated one has all its places",
        "filefrag and qemu-img map, tried",
        "VM158",
    ),
)

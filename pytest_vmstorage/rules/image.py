"""What an image's format and what is inside it cannot be."""

from __future__ import annotations

from pytest_vmstorage.rules.rule import Cell, Rule, is_power_of_two

QCOW2_FIELDS = ("cluster_size", "lazy_refcounts", "extended_l2", "l2_cache_size")
"""Fields of qcow2 that its header or its cache has."""

LAYER_FIELDS = ("compression", "backing_chain", "snapshots")
"""Fields of qcow2 that are made of data: without any they show nothing."""

PREALLOCATIONS = {"raw": ("off", "falloc", "full"), "qcow2": ("off", "metadata", "falloc", "full")}
SUBFORMATS = {
    "vmdk": ("monolithicSparse", "monolithicFlat", "twoGbMaxExtentSparse", "twoGbMaxExtentFlat", "streamOptimized"),
    "vpc": ("dynamic", "fixed"),
}

EXTENTS = ("monolithicFlat", "twoGbMaxExtentSparse", "twoGbMaxExtentFlat")
"""Subformats of vmdk whose data lies in files beside the descriptor."""

VPC_MOST_BYTES = 0xFF000000 * 512


def arrives_filled(cell: Cell) -> bool:
    """Whether the image holds data in every block before its guest starts: its data is what the cell is about."""
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
        "the format has no such subformat; vmdk has monolithicSparse, monolithicFlat, twoGbMaxExtentSparse,"
        " twoGbMaxExtentFlat and streamOptimized, vpc has dynamic and fixed",
        "qemu-img create -o help",
    ),
    Rule(
        "vpc-size",
        lambda cell: cell.format == "vpc" and cell.size > VPC_MOST_BYTES,
        "a vpc image has 2040 GiB at most",
        "VHD_MAX_SECTORS in QEMU block/vpc.c; 3 TiB refused, tried",
    ),
    Rule(
        "qcow2-only",
        lambda cell: cell.format != "qcow2" and _is_qcow2s(cell),
        f"{', '.join((*QCOW2_FIELDS, *LAYER_FIELDS))} and encryption are qcow2's",
        'libvirt: "supported only with qcow2 images", qemu-img create -o help',
    ),
    Rule(
        "cluster-size",
        lambda cell: (
            cell.cluster_size is not None
            and not (is_power_of_two(cell.cluster_size) and 512 <= cell.cluster_size <= 2**21)
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
    Rule(
        "layers-arrive-filled",
        lambda cell: arrives_filled(cell) and cell.state != "filled",
        "compressed clusters, backing files and snapshots hold data before the guest starts, so that the disk is"
        " filled; any other state writes over them or has none",
        "qemu-img map, tried",
    ),
    Rule(
        "layers-allocate-late",
        lambda cell: arrives_filled(cell) and cell.preallocation != "off",
        "an image that is made of layers or compressed clusters cannot be preallocated too",
        "QEMU block/qcow2.c: preallocation with a backing file is metadata at most",
    ),
    Rule(
        "compressed-or-encrypted",
        lambda cell: cell.compression != "off" and cell.encryption != "off",
        "a qcow2 image is compressed or encrypted, not both",
        'qemu-img convert: "Compression and encryption not supported at the same time"',
    ),
    Rule(
        "aged-needs-allocation",
        lambda cell: cell.state == "aged" and cell.preallocation != "off",
        "an aged image is fragmented by the order of its first writes, and a preallocated one has all its places",
        "filefrag and qemu-img map, tried",
    ),
)

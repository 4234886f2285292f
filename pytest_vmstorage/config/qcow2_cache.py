"""Division of the memory in which QEMU keeps tables of a qcow2 image.

The rules are those of read_cache_sizes and qcow2_update_options_prepare in QEMU block/qcow2.c. `cache-size` is one sum:
QEMU takes four clusters of it for refcounts and gives the rest to L2 tables, at least two slices. libvirt knows the sum
alone (`<metadata_cache>`), so that an `l2-cache-size` is requested as the sum that leaves this rest. Tables are cached
in slices of 4 KiB, or of a cluster where that is smaller (`l2-cache-entry-size` since QEMU 4.0, docs/qcow2-cache.txt).
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_vmstorage.config.rules.rule import Cell

DEFAULT_CLUSTER_BYTES = 2**16
_LARGEST_SLICE_BYTES = 2**12
_REFCOUNT_CLUSTERS = 4
LEAST_SLICES = 2

CACHE_FIELDS = ("l2_cache_size", "metadata_cache_size")
"""The axes: QEMU's `l2-cache-size`, and its `cache-size`, which libvirt calls metadata_cache."""


def cluster_bytes(cell: Cell) -> int:
    """The size of the cell's clusters, QEMU's default where the cell has none."""
    return int(cell.cluster_size or DEFAULT_CLUSTER_BYTES)


def slice_bytes(cell: Cell) -> int:
    """The piece of an L2 table that QEMU caches at a time."""
    return min(cluster_bytes(cell), _LARGEST_SLICE_BYTES)


def refcount_bytes(cell: Cell) -> int:
    """The part of the sum that QEMU takes for refcounts before L2 tables get any."""
    return _REFCOUNT_CLUSTERS * cluster_bytes(cell)


def least_l2_bytes(cell: Cell) -> int:
    """The smallest cache of L2 tables that QEMU keeps, whatever was requested."""
    return LEAST_SLICES * slice_bytes(cell)


def combined_bytes(cell: Cell) -> int | None:
    """The `cache-size` of QEMU that gives the cell its caches; None for QEMU's default."""
    if cell.l2_cache_size is not None:
        return int(cell.l2_cache_size) + refcount_bytes(cell)
    return None if cell.metadata_cache_size is None else int(cell.metadata_cache_size)


def l2_bytes(cell: Cell) -> int | None:
    """The part of the cell's cache for L2 tables; None for QEMU's default."""
    combined = combined_bytes(cell)
    return None if combined is None else max(combined - refcount_bytes(cell), least_l2_bytes(cell))


def node_options(cell: Cell) -> Mapping[str, int]:
    """Options of a qcow2 block node, in QEMU's own words."""
    asked = {"l2-cache-size": cell.l2_cache_size, "cache-size": cell.metadata_cache_size}
    return {name: size for name, size in asked.items() if size is not None}


def found_sizes(cell: Cell, options: Mapping[str, int | None]) -> Mapping[str, int | None]:
    """The axes' values in a block node's options; a sum alone stands for the axis that the cell has."""
    combined, l2 = options.get("cache-size"), options.get("l2-cache-size")
    if combined is not None and l2 is None and cell.l2_cache_size is not None:
        l2, combined = combined - refcount_bytes(cell), None
    return dict(zip(CACHE_FIELDS, (l2, combined), strict=True))


def covered_bytes(cell: Cell) -> int | None:
    """The part of a disk that the cached L2 tables map: an entry has 8 bytes for a cluster, 16 with subclusters."""
    cached = l2_bytes(cell)
    if cached is None:
        return None
    entry = 16 if cell.extended_l2 else 8
    return cached // slice_bytes(cell) * slice_bytes(cell) // entry * cluster_bytes(cell)

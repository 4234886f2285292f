"""QEMU's caches of a qcow2's tables, against what read_cache_sizes in QEMU block/qcow2.c does."""

from __future__ import annotations

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.qcow2_cache import combined_bytes, covered_bytes, found_sizes, l2_bytes, node_options

KIB, MIB, GIB = 2**10, 2**20, 2**30


def cell(**values: object) -> StorageConfig:
    """A qcow2 with those fields."""
    return StorageConfig(format="qcow2", **values)


@pytest.mark.parametrize(
    ("values", "combined", "l2", "covers"),
    [
        ({}, None, None, None),
        # 256 KiB of the sum are for refcounts
        ({"metadata_cache_size": "1M"}, MIB, 768 * KIB, 6 * GIB),
        ({"l2_cache_size": "1M"}, 1280 * KIB, MIB, 8 * GIB),
        ({"l2_cache_size": "1M", "extended_l2": True}, 1280 * KIB, MIB, 4 * GIB),
        ({"l2_cache_size": "8k"}, 264 * KIB, 8 * KIB, GIB / 16),
        # whole slices of 4 KiB
        ({"metadata_cache_size": "386k"}, 386 * KIB, 130 * KIB, GIB),
        ({"metadata_cache_size": "256k", "cluster_size": 512}, 256 * KIB, 254 * KIB, 15.875 * MIB),
        ({"l2_cache_size": "128k", "cluster_size": "2M"}, 8320 * KIB, 128 * KIB, 32 * GIB),
    ],
    ids=str,
)
def test_what_a_cache_is_and_covers(
    values: dict[str, object], combined: int | None, l2: int | None, covers: float | None
) -> None:
    """The sum that QEMU is told of, its part for L2 tables, and the disk that these speak of."""
    config = cell(**values)
    assert (combined_bytes(config), l2_bytes(config), covered_bytes(config)) == (combined, l2, covers)


@pytest.mark.parametrize(
    ("values", "options", "l2", "combined"),
    [
        ({}, {}, None, None),
        ({"l2_cache_size": "1M"}, {"cache-size": 1280 * KIB}, MIB, None),
        ({"l2_cache_size": "1M"}, {"l2-cache-size": MIB}, MIB, None),
        ({"metadata_cache_size": "1M"}, {"cache-size": MIB}, None, MIB),
        ({}, {"cache-size": MIB}, None, MIB),
        ({"metadata_cache_size": "1M"}, {"cache-size": MIB, "l2-cache-size": 512 * KIB}, 512 * KIB, MIB),
    ],
    ids=str,
)
def test_what_a_nodes_options_mean(
    values: dict[str, object], options: dict[str, int | None], l2: int | None, combined: int | None
) -> None:
    """A sum is the L2 cache of a cell that asked for one, and the sum of any other."""
    assert found_sizes(cell(**values), options) == {"l2_cache_size": l2, "metadata_cache_size": combined}


def test_each_axis_is_an_option_of_its_own() -> None:
    """Of a block node that QEMU is told of without libvirt."""
    assert node_options(cell()) == {}
    assert node_options(cell(l2_cache_size="1M")) == {"l2-cache-size": MIB}
    assert node_options(cell(metadata_cache_size="1M")) == {"cache-size": MIB}

"""Room that a disk takes on the host, and the number of pieces in which its data lies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.qcow2_cache import cluster_bytes
from pytest_vmstorage.config.rules.backing import BLOCK_BACKINGS
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.storage.layers import PATTERN_BYTES, is_compressed, rewritten_bytes

HEADROOM_BYTES = 64 * 2**20
"""Bytes kept free in addition to the disk, for the console log and the like."""


def space_needed(config: StorageConfig) -> int:
    """Bytes that must be free in the folder for the cell's disk: its first contents and what a guest can add.

    A disk on a block device, or without storage, takes nothing of the folder.
    """
    if config.backing_kind in BLOCK_BACKINGS or config.is_null:
        return HEADROOM_BYTES
    return _data_bytes(config) + metadata_bytes(config) + HEADROOM_BYTES


def bytes_on_device(config: StorageConfig) -> int:
    """The smallest block device that holds the cell's disk, in bytes: raw takes its size, qcow2 has tables too."""
    return config.size + metadata_bytes(config)


def _data_bytes(config: StorageConfig) -> int:
    # a guest that writes all of the disk leaves the data of backing files and snapshots in place
    if config.backing_chain:
        return 2 * config.size
    if config.snapshots:
        return 2 * config.size + rewritten_bytes(config)
    if is_compressed(config):
        # a compressed cluster's place is freed piecemeal, and a whole cluster is put elsewhere
        return config.size + config.size * 5 // 8 + PATTERN_BYTES
    return config.size


def metadata_bytes(config: StorageConfig) -> int:
    """Bytes of a qcow2's tables when all of it is allocated: L2 and refcounts, both in whole clusters."""
    if config.format != "qcow2":
        return 0
    cluster = cluster_bytes(config)
    images = 1 + config.backing_chain + config.snapshots
    clusters = -(-config.size // cluster)
    # an L2 entry is 8 bytes, 16 with subclusters; a refcount is 2
    tables = -(-clusters * (16 if config.extended_l2 else 8) // cluster) + -(-clusters * 2 // cluster)
    # header, L1, refcount table, and refcounts of all of these; LUKS keeps 2 MiB for its keys
    others = 4 + 3 * -(-tables * 8 // cluster) + (-(-(2**21) // cluster) if config.encryption == "luks" else 0)
    return images * (tables + others) * cluster


_FOUND = re.compile(r": (\d+) extents? found")


def fragments(shell: Shell, config: StorageConfig, path: str) -> int | None:
    """The number of contiguous runs of data, in the guest's order; None where it cannot be seen.

    A raw file has the order that its file system gave it (filefrag), any other image its own order (qemu-img map):
    the fragments of its file on the file system come on top and are not counted.
    """
    shell.run(["sync", path])
    if config.format == "raw":
        found = _FOUND.search(shell.run(["filefrag", path]).stdout)
        return int(found[1]) if found else None
    # the format is given: a guest could have written the header of another one
    done = shell.run(["qemu-img", "map", "-U", "-f", config.format, "--output=json", path])
    return count_pieces(json.loads(done.stdout)) if done.ok else None


def count_pieces(extents: Iterable[Mapping[str, Any]]) -> int:
    """The number of pieces among the extents of `qemu-img map --output=json`, counting only those with data."""
    pieces, behind = 0, -1
    for extent in extents:
        if not extent["data"] or "offset" not in extent:
            continue
        pieces += extent["offset"] != behind
        behind = extent["offset"] + extent["length"]
    return pieces

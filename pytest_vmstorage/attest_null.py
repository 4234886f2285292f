"""What QEMU says of a disk without storage: that its null driver is all there is behind the device; pure."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_vmstorage.claim import BLOCK, BLOCK_NODES, claim
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.evidence import Evidence
from pytest_vmstorage.results import Proof
from pytest_vmstorage.units import format_size

DRIVERS = ("null-co", "null-aio")
"""QEMU's null drivers; both are leaves of the block graph, under which there can be nothing."""


def of_null(config: StorageConfig, evidence: Evidence) -> Iterator[Proof]:
    """Proofs for `backing` and `size`, from the node that the disk's device is on."""
    kind = evidence.nodes[0]["drv"] if evidence.nodes else "no block node"
    yield claim("backing", "null (null-co)", str(kind), BLOCK_NODES, holds=kind in DRIVERS)
    found = format_size(int(evidence.inserted.get("virtual-size", 0)))
    yield claim("size", format_size(config.size), found, BLOCK)

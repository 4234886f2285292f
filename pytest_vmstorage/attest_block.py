"""What the host says of what QEMU opened as the disk: is it the kind of thing the cell's `backing` says? Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_vmstorage.claim import claim
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.provision.block import BlockPlace
from pytest_vmstorage.provision.node import NodeFacts
from pytest_vmstorage.results import Proof

NODE = "stat and sysfs of what QEMU opened"


def block_proofs(config: StorageConfig, node: NodeFacts, place: BlockPlace | None = None) -> tuple[Proof, ...]:
    """Proofs for `backing`: the node's kind, and for a listed device that it is that one and no other.

    For `native` without a name the node is the file on the host that the workload runs on.
    """
    return tuple(_block_proofs(config, node, place))


def _block_proofs(config: StorageConfig, node: NodeFacts, place: BlockPlace | None) -> Iterator[Proof]:
    if place is None:
        yield claim("backing", config.backing, str(node), NODE, holds=_is_plain(config) and node.kind == "file")
        return
    # a listed device may be device mapper's (multipath), which is a whole device all the same
    kinds = ("device", "dm") if place.kind == "device" else (place.kind,)
    yield claim("backing", config.backing, str(node), NODE, holds=node.kind in kinds and not _is_plain(config))
    asked = f"{place.description} ({place.number})"
    yield claim("backing", asked, str(node), NODE, holds=node.number == place.number)


def _is_plain(config: StorageConfig) -> bool:
    """Whether the cell's disk is a file on the host."""
    return config.backing_kind == "file" or config.backing == "native" or config.host_fs != "as-found"

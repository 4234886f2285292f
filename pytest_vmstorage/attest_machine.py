"""What is known of a machine that the plugin did not make: its disk and no more; the rest is stated. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_vmstorage.attest import conclude
from pytest_vmstorage.claim import claim, unprovable
from pytest_vmstorage.inventory import ListedMachine
from pytest_vmstorage.provision.hostdisk import HostDisk
from pytest_vmstorage.provision.node import NodeFacts
from pytest_vmstorage.results import Proof
from pytest_vmstorage.units import format_size

STATED_BY = "stated by vmstorage.toml"
"""Why a field of a machine's label is not proven: what lies below the machine cannot be seen from in it."""


def conclude_machine(listed: ListedMachine, disk: HostDisk, node: NodeFacts, size_bytes: int) -> tuple[Proof, ...]:
    """A proof for each field that the row has, and one for each field of the label, none of which is proven.

    Raises AttestationError where the disk is not what the cell says.
    """
    return (*conclude(disk.config, _of_disk(listed, disk, node, size_bytes)), *_stated(listed))


def _of_disk(listed: ListedMachine, disk: HostDisk, node: NodeFacts, size_bytes: int) -> Iterator[Proof]:
    config, where = disk.config, f"stat on {listed.target}"
    is_right = node.kind != "file" if disk.is_block else node.kind == "file"
    if disk.block is not None:
        # the device that was checked is the one that is written to
        is_right = node.number == disk.block.number
    found = f"{disk.block.description if disk.block is not None else disk.path}, {node}"
    yield claim("backing", config.backing, found, where, holds=is_right)
    enough = size_bytes >= config.size if disk.is_block else size_bytes == config.size
    yield claim("size", format_size(config.size), format_size(size_bytes), where, holds=enough)
    yield unprovable("state", config, "it is made before the rounds, after this proof", where=where)


def _stated(listed: ListedMachine) -> Iterator[Proof]:
    for field, value in listed.label.items():
        yield Proof(
            field=field, asked=value, found="unknown", status="unprovable", where="vmstorage.toml", why=STATED_BY
        )

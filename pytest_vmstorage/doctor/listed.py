"""What vmstorage.toml lists, looked at one by one: may it be measured, and what would be lost."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_vmstorage.command import Shell
from pytest_vmstorage.config import SMALLEST_BYTES, StorageConfig
from pytest_vmstorage.doctor.finding import Finding
from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.inventory import Inventory, LabHost
from pytest_vmstorage.machines import Machines
from pytest_vmstorage.provision.block import find_block, plan_line


def look_at_listed(shell: Shell, host: LabHost) -> tuple[Finding, ...]:
    """A finding for each entry, as `backing` names it; nothing is written."""
    return tuple(_look(shell, host))


def look_at_machines(inventory: Inventory | None) -> tuple[Finding, ...]:
    """A finding for each machine that the plugin did not make; each is reached, and nothing is written."""
    machines = Machines(inventory)
    return tuple(_look_at_machine(machines, name) for name in (inventory.machines if inventory else ()))


def _look_at_machine(machines: Machines, name: str) -> Finding:
    backing = f"machine:{name}"
    try:
        said = machines.plan(StorageConfig(backing=backing, size=SMALLEST_BYTES))
    except VmStorageError as error:
        return Finding(axis="backing", value=backing, status="no", why=str(error))
    return Finding(axis="backing", value=backing, status="yes", why=said)


def _look(shell: Shell, host: LabHost) -> Iterator[Finding]:
    for entry in host.listed():
        backing = f"{entry.kind}:{entry.name}"
        try:
            place = find_block(shell, host, StorageConfig(backing=backing, size=SMALLEST_BYTES))
        except VmStorageError as error:
            yield Finding(axis="backing", value=backing, status="no", why=str(error))
        else:
            yield Finding(axis="backing", value=backing, status="yes", why=plan_line(place))

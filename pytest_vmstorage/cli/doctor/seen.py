"""What is known of a lab host and of what vmstorage.toml lists when its axes are judged, and what a finding is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.cli.doctor.trials import NOT_TRIED, Trial
from pytest_vmstorage.config.cell import SMALLEST_BYTES, StorageConfig
from pytest_vmstorage.config.inventory import Inventory, LabHost
from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.host.folders import FolderFacts
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.lab.machines import Machines
from pytest_vmstorage.storage.block import find_block, plan_line

Status = Literal["yes", "limited", "no"]


class AxisFinding(BaseModel):
    """`status` of one value, or one range of values, of an axis: "limited" where it can be, but not in every cell."""

    model_config = ConfigDict(frozen=True)

    axis: str
    value: str
    status: Status
    why: str


def look_at_listed(shell: Shell, host: LabHost) -> tuple[AxisFinding, ...]:
    """A finding for each entry, as `backing` names it; nothing is written."""
    return tuple(_look(shell, host))


def look_at_machines(inventory: Inventory | None) -> tuple[AxisFinding, ...]:
    """A finding for each machine that the plugin did not make; each is reached, and nothing is written."""
    machines = Machines(inventory)
    return tuple(_look_at_machine(machines, name) for name in (inventory.machines if inventory else ()))


def _look_at_machine(machines: Machines, name: str) -> AxisFinding:
    backing = f"machine:{name}"
    try:
        said = machines.plan(StorageConfig(backing=backing, size=SMALLEST_BYTES))
    except VmStorageError as error:
        return AxisFinding(axis="backing", value=backing, status="no", why=str(error))
    return AxisFinding(axis="backing", value=backing, status="yes", why=said)


def _look(shell: Shell, host: LabHost) -> Iterator[AxisFinding]:
    for entry in host.listed():
        backing = f"{entry.kind}:{entry.name}"
        try:
            place = find_block(shell, host, StorageConfig(backing=backing, size=SMALLEST_BYTES))
        except VmStorageError as error:
            yield AxisFinding(axis="backing", value=backing, status="no", why=str(error))
        else:
            yield AxisFinding(axis="backing", value=backing, status="yes", why=plan_line(place))


NO_GUEST = "no guest can run here"


class Seen(BaseModel):
    """Trials by name, and what libvirt and the guest appliance say; `buses` is libvirt's bus names by machine type.

    `accel` is that of guests here, kvm or tcg. Where no guest runs it is empty, and so are `libvirt`, `qemu`, `modules`
    (the guest kernel's) and `tools` (the guest's, with their versions). `listed` is what
    was found of the entries of vmstorage.toml.
    """

    model_config = ConfigDict(frozen=True)

    trials: Mapping[str, Trial]
    folder: FolderFacts | None = None
    libvirt: str = ""
    qemu: str = ""
    accel: str = ""
    buses: Mapping[str, frozenset[str]] = {}
    modules: frozenset[str] = frozenset()
    tools: Mapping[str, str] = {}
    listed: tuple[AxisFinding, ...] = ()

    def trial(self, name: str) -> Trial:
        """The trial of that name, a failed one where it was not tried."""
        return self.trials.get(name, NOT_TRIED)

    def number(self, name: str) -> int:
        """The number that a trial said, 0 where it said none."""
        said = self.trial(name).said
        return int(said) if said.isdigit() else 0

    @property
    def is_root(self) -> bool:
        """Whether commands on the host run as root."""
        return self.trial("user").said == "0"

    @property
    def has_guests(self) -> bool:
        """Whether guests can run, as far as is known."""
        return bool(self.libvirt)

    def tried(self, axis: str, value: str, name: str, done: str) -> AxisFinding:
        """Yes with what was `done` where that trial succeeded, no with what it said where it failed."""
        trial = self.trial(name)
        return AxisFinding(
            axis=axis, value=value, status="yes" if trial.ok else "no", why=done if trial.ok else trial.said
        )

    def needs_guest(self, axis: str, value: str, why: str) -> AxisFinding:
        """Yes where guests can run."""
        ok = self.has_guests
        return AxisFinding(axis=axis, value=value, status="yes" if ok else "no", why=why if ok else NO_GUEST)

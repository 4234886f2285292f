"""What is known of a lab host when its axes are judged: by trials, vmstorage.toml, libvirt and the guest appliance."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Literal

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import SMALLEST_BYTES, StorageConfig
from pytest_vmstorage.config.inventory import Inventory, LabHost
from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.host.folders import FolderFacts
from pytest_vmstorage.host.shell import Shell, check
from pytest_vmstorage.lab.machines import Machines
from pytest_vmstorage.storage.block import find_block, plan_line

_TIME_LIMIT_S = 60.0


class Trial(BaseModel):
    """The outcome of a command that was tried: whether its exit status was 0, and the last line of its output."""

    model_config = ConfigDict(frozen=True)

    ok: bool
    said: str


NOT_TRIED = Trial(ok=False, said="it was not tried")

Trials = Mapping[str, Trial]


def run_trials(shell: Shell, folder: str, emulator: str) -> Trials:
    """Every trial by its name, made in `folder`, which is made and removed; `emulator` is QEMU's path or "".

    Raises ProvisionError where the folder cannot be made.
    """
    script = (resources.files(__package__ or "") / "trials.sh").read_text()
    # QEMU's path is no word of the command: it is run, and not written to
    text = f"emulator={shlex.quote(emulator)}\n{script}"
    try:
        done = shell.run(["sh", "-s", "--", folder], stdin=text.encode(), timeout_s=_TIME_LIMIT_S)
        return read_trials(check(done, f"trying out the folder {folder}").stdout)
    finally:
        # the script removes the folder itself, unless it was killed
        shell.run(["rm", "-rf", "--", folder])


def read_trials(text: str) -> Trials:
    """The trials in the script's output, a line each: name, exit status and last words, separated by tabs."""
    lines = (line.split("\t", 2) for line in text.splitlines() if line.count("\t") >= 2)
    return {name: Trial(ok=status == "0", said=_reason(said.strip(), status)) for name, status, said in lines}


def _reason(said: str, status: str) -> str:
    """The last words without the name of the shell; the exit status of a command that failed silently."""
    missing = re.fullmatch(r"timeout: failed to run command '(.*)': No such file or directory", said)
    if missing:
        return f"{missing[1]}: command not found"
    # dash names the line, other shells do not
    said = re.sub(r"^sh: (line )?(\d+: )?", "", said)
    return said or ("" if status == "0" else f"exit status {status}")


Status = Literal["yes", "limited", "no"]


class AxisFinding(BaseModel):
    """`status` of one value, or one range of values, of an axis: "limited" where it can be, but not in every cell."""

    model_config = ConfigDict(frozen=True)

    axis: str
    value: str
    status: Status
    why: str


def finding(axis: str, value: str, status: Status, why: str) -> AxisFinding:
    """The finding of these four."""
    return AxisFinding(axis=axis, value=value, status=status, why=why)


def look_at_listed(shell: Shell, host: LabHost) -> tuple[AxisFinding, ...]:
    """A finding for each entry, as `backing` names it; nothing is written."""

    def plan(config: StorageConfig) -> str:
        return plan_line(find_block(shell, host, config))

    return tuple(_planned(f"{entry.kind}:{entry.name}", plan) for entry in host.listed())


def look_at_machines(inventory: Inventory | None) -> tuple[AxisFinding, ...]:
    """A finding for each machine that the plugin did not make; each is reached, and nothing is written."""
    machines = Machines(inventory)
    return tuple(_planned(f"machine:{name}", machines.plan) for name in (inventory.machines if inventory else ()))


def _planned(backing: str, plan: Callable[[StorageConfig], str]) -> AxisFinding:
    try:
        return finding("backing", backing, "yes", plan(StorageConfig(backing=backing, size=SMALLEST_BYTES)))
    except VmStorageError as error:
        return finding("backing", backing, "no", str(error))


NO_GUEST = "no guest can run here"


class Observations(BaseModel):
    """Trials by name, and the facts of libvirt and the guest appliance; `buses` has libvirt's names by machine type.

    `accel` is that of guests here, kvm or tcg. Where no guest runs it is empty, and so are `libvirt`, `qemu`, `modules`
    (the guest kernel's) and `tools` (the guest's, with their versions). `listed` are the findings of the entries of
    vmstorage.toml.
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
        """The number that a trial printed, 0 where it printed none."""
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
        """Yes with the text `done` where that trial succeeded, no with its last words where it failed."""
        trial = self.trial(name)
        return finding(axis, value, "yes" if trial.ok else "no", done if trial.ok else trial.said)

    def needs_guest(self, axis: str, value: str, why: str) -> AxisFinding:
        """Yes where guests can run."""
        return finding(axis, value, *(("yes", why) if self.has_guests else ("no", NO_GUEST)))

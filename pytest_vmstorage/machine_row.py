"""The row of a machine that the plugin did not make: workloads run in it as it was found."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from pytest_vmstorage.command import Shell
from pytest_vmstorage.errors import UnsupportedError
from pytest_vmstorage.guest import testinfra_host
from pytest_vmstorage.inventory import ListedMachine
from pytest_vmstorage.machine_facts import row_facts
from pytest_vmstorage.native import Native
from pytest_vmstorage.provision.hostdisk import HostDisk
from pytest_vmstorage.results import Proof

_BOOT_ID = "/proc/sys/kernel/random/boot_id"

BELOW = "out of reach: what lies below the machine is not the plugin's"
"""What a row says of caches of a host that nobody here can reach."""


class MachineRow(Native):
    """A machine in a guest's place: `disk` is a file or device on it, `facts` and `tools` are its own.

    `said` is what it told of itself when the row was made.
    """

    def __init__(
        self,
        listed: ListedMachine,
        disk: HostDisk,
        shell: Shell,
        folder: str,
        proof: tuple[Proof, ...],
        said: Mapping[str, str],
    ) -> None:
        super().__init__(disk, shell, folder, proof)
        self.listed = listed
        self.facts = row_facts(said)
        self._boot = said.get("boot", "")

    @functools.cached_property
    def host(self) -> Any:
        """The machine as a testinfra Host, over the shell that its workloads use."""
        return testinfra_host(self.listed.name, self.run)

    @property
    def notes(self) -> Mapping[str, str]:
        """What a reader of its row must know: what it was measured on, and that nobody proved what lies below."""
        made = self.host_disk.block.description if self.host_disk.block is not None else "a file, removed after the row"
        stated = ", ".join(f"{field} {value}" for field, value in self.listed.label.items())
        note = f"{made}; the plugin made neither the machine nor what lies below it"
        return {"machine": note, **({"stated by vmstorage.toml": stated} if stated else {})}

    def check_tool(self, tool: str, host: str) -> None:  # noqa: ARG002 (the lab's host, which has nothing to do with it)
        """Raise UnsupportedError where the machine lacks a workload's tool, or fio, which fills the disk."""
        wanted = dict.fromkeys((tool, *(() if self.config.state == "fresh" else ("fio",))))
        missing = [one for one in wanted if not self.shell.run(["sh", "-c", 'command -v "$1"', "sh", one]).ok]
        if missing:
            raise UnsupportedError(
                f"The machine {self.listed.name} ({self.listed.target}) lacks {' and '.join(missing)}.",
                hint="Install it there; the plugin installs nothing on a machine that it did not make.",
            )

    def changed(self) -> str:
        """What is no longer as when the row was made, in a clause; empty where all is."""
        now = self.shell.read(_BOOT_ID).strip()
        return "the machine was booted anew meanwhile" if now != self._boot else ""

    def __repr__(self) -> str:
        return f"<MachineRow {self.config.label}, {self.disk} of {self.listed.name}>"

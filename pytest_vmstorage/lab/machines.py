"""Machines that the plugin did not make: reached once, asked for their facts, measured, left as found."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Mapping
from contextlib import AbstractContextManager

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import Inventory, LabHost, ListedMachine
from pytest_vmstorage.errors import ConfigError, VmStorageError
from pytest_vmstorage.host.device_node import node_facts
from pytest_vmstorage.host.facts import PROBE, TOOL_VERSIONS, read_facts
from pytest_vmstorage.host.folders import find_folder, folder_facts, make_run_folder
from pytest_vmstorage.host.guard import Guard, Guarded
from pytest_vmstorage.host.lease import Lease, LeaseBook, is_dead, new_lease
from pytest_vmstorage.host.lock import WAIT_S, HostLease
from pytest_vmstorage.host.shell import LocalShell, Shell, SshShell, check, read_values
from pytest_vmstorage.lab.environments import ForeignEnvironment, Services
from pytest_vmstorage.lab.machine_disk import check_tools, make_machine_disk, plan_disk, remove_machine_disk
from pytest_vmstorage.measure.proof.without_guest import conclude_machine
from pytest_vmstorage.measure.system import Identity
from pytest_vmstorage.progress import Progress, silent
from pytest_vmstorage.results.host import HostFacts
from pytest_vmstorage.storage.disk import HostDisk
from pytest_vmstorage.storage.host_file_system import remove_folder
from pytest_vmstorage.text import read_pairs

SAID = "(said)"
"""Mark after a hypervisor's name that the machine itself reports and nothing here can confirm."""

_UNKNOWN = "unknown"

# systemd-detect-virt ends with 1 where it prints none; DMI and Xen's node are there without it
_PROBE = (
    PROBE
    + r"""
dmi() { cat "/sys/class/dmi/id/$1" 2>/dev/null; }
echo "cpus=$(getconf _NPROCESSORS_ONLN)"
echo "os=$(. /etc/os-release 2>/dev/null && echo "$PRETTY_NAME")"
if command -v systemd-detect-virt >/dev/null; then echo "hypervisor=$(systemd-detect-virt --vm)"
elif [ -r /sys/hypervisor/type ]; then echo "hypervisor=$(cat /sys/hypervisor/type)"
elif ! grep -qw hypervisor /proc/cpuinfo; then echo "hypervisor=none"; fi
echo "hardware=$(dmi sys_vendor) $(dmi product_name)"
echo "machine id=$(sha256sum 2>/dev/null </etc/machine-id | cut -c 1-12)"
echo "boot=$(cat /proc/sys/kernel/random/boot_id)"
"""
)

_OF_THE_ROW = ("kernel", "cpus", "os", "hypervisor", "hardware", "machine id")


def ask_machine(shell: Shell, name: str) -> Mapping[str, str]:
    """The machine's facts by name, "unknown" where it does not report them; raises HostError, ProvisionError."""
    said = read_pairs(check(shell.run(["sh", "-c", _PROBE]), f"asking {name} for its facts").stdout)
    return {key: " ".join(said.get(key, "").split()) or _UNKNOWN for key in (*said, *_OF_THE_ROW)}


def row_facts(said: Mapping[str, str]) -> Mapping[str, str]:
    """The facts that each of its rows shows, and that must be equal where rows are compared."""
    return {key: said[key] for key in _OF_THE_ROW}


def unreached(listed: ListedMachine) -> HostFacts:
    """The machine as vmstorage.toml describes it, before it was asked."""
    return HostFacts(name=listed.name, stated=listed.label, is_machine=True, qemu="none", libvirt="none")


def machine_facts(listed: ListedMachine, said: Mapping[str, str], shell: Shell, disk: HostDisk) -> HostFacts:
    """The machine as a host of its own; the disk or folder that is measured is identified by its unique id."""
    if disk.block is not None:
        place = {"folder": "its disk", "file_system": "none", "device": disk.block.description}
    else:
        found = folder_facts(shell, listed.folder or "/")
        place = {"folder": found.path, "file_system": found.file_system, "device": found.device}
    accel = _UNKNOWN if said["hypervisor"] == _UNKNOWN else f"{said['hypervisor']} {SAID}"
    return unreached(listed).model_copy(
        update={**read_facts(said), "accel": accel, "accel_reason": "it says so itself", **place}
    )


class Machines:
    """Makes rows of machines that vmstorage.toml lists, and removes what it made on them.

    With a `book` a folder is leased before it is made, so that a later run removes what a killed one left. `wait_s` is
    how long to wait for a machine that another job measures on; None where the user did not say.
    """

    def __init__(
        self, inventory: Inventory | None = None, book: LeaseBook | None = None, *, wait_s: float | None = None
    ) -> None:
        self._inventory = inventory
        self._book = book
        self._wait_s = WAIT_S if wait_s is None else wait_s
        self._shells: dict[str, Shell] = {}
        self._facts: dict[str, HostFacts] = {}
        self._leases: dict[str, Lease] = {}
        self._numbers = itertools.count(1)
        self._leftovers: list[VmStorageError] = []
        self._measuring: dict[str, HostLease] = {}
        self._asked_for: dict[str, ListedMachine] = {}

    def listed(self, config: StorageConfig) -> ListedMachine:
        """The machine that the cell is; raises ConfigError where vmstorage.toml has none of that name."""
        name, there = config.backing_name, self._inventory.machines if self._inventory else {}
        if name not in there:
            has = f"It has: {', '.join(there)}." if there else "It has none."
            raise ConfigError(
                f"backing={config.backing} needs a machine of that name in {self._source}.",
                hint=f'List it there: [machines.{name}] with ssh = "root@10.0.0.5" and disk or folder. {has}',
                code="VM431",
            )
        if name == socket.gethostname():
            raise ConfigError(
                f"{self._source}, [machines.{name}]: rows of this host bear that name.",
                hint="Name the machine anew.",
                code="VM222",
            )
        return self._asked_for.setdefault(name, there[name])

    @property
    def _source(self) -> str:
        return self._inventory.source if self._inventory else "vmstorage.toml"

    def plan(self, config: StorageConfig) -> str:
        """Reach the machine and describe what will be written there, without writing.

        Raises ConfigError, HostError, ProvisionError.
        """
        listed = self.listed(config)
        shell = self._shell(listed)
        check_tools(shell, listed)
        return plan_disk(shell, listed, config, self._source)

    def make(self, config: StorageConfig, services: Services, say: Progress = silent) -> ForeignEnvironment:
        """Make the cell's file on its machine, or take its disk; raises ConfigError, HostError, AttestationError."""
        listed = self.listed(config)
        say(f"reaching {listed.target}")
        shell = self._shell(listed)
        check_tools(shell, listed)
        said = ask_machine(shell, listed.name)
        folder = self._folder(listed, shell)
        disk = make_machine_disk(shell, listed, config, self._source, folder, next(self._numbers))
        try:
            node = node_facts(shell, disk.path)
            size_bytes = node.size_bytes or int(check(shell.run(["stat", "-c", "%s", disk.path]), "stat").stdout)
            proof = conclude_machine(listed, disk, node, size_bytes)
            self._facts[listed.name] = machine_facts(listed, said, shell, disk)
            tools = read_values(shell, TOOL_VERSIONS)
            identity = Identity(host=listed.name, facts=row_facts(said), tools=tools, proof=proof)
            boot_id, remove = said.get("boot", ""), self._remove
            return ForeignEnvironment(listed, disk, shell, identity, folder, services, boot_id=boot_id, remove=remove)
        except BaseException:
            self._remove(shell, disk)
            raise

    def facts(self, config: StorageConfig) -> HostFacts:
        """Facts of the cell's machine so far; its name alone where vmstorage.toml does not list it."""
        name, there = config.backing_name, self._inventory.machines if self._inventory else {}
        listed = self._asked_for.setdefault(name, there.get(name, ListedMachine(name=name)))
        return self._facts.get(name, unreached(listed))

    @property
    def all_facts(self) -> tuple[HostFacts, ...]:
        """Facts of each machine that was asked for; for one that was not reached, its stated ones."""
        return tuple(self._facts.get(one.name, unreached(one)) for one in self._asked_for.values())

    def alone(self, config: StorageConfig, say: Progress = silent) -> AbstractContextManager[None]:
        """Context in which no other job measures on the cell's machine; raises HostError."""
        listed = self.listed(config)
        if listed.name not in self._measuring:
            self._measuring[listed.name] = HostLease(self._shell(listed), listed.name, wait_s=self._wait_s)
        return self._measuring[listed.name].alone(say)

    def is_on(self, config: StorageConfig, host: LabHost) -> bool:
        """Whether the cell's machine is that host itself, so that the host's own lease is to be held."""
        return self.listed(config).ssh == host.ssh

    def close(self) -> None:
        """Remove the run's folders; raises the first error of a removal, and the lease then stays."""
        for name, lease in list(self._leases.items()):
            try:
                remove_folder(self._shells[name], lease.folder)
                self._drop(lease)
                del self._leases[name]
            except VmStorageError as error:
                self._leftovers.append(error)
        if self._leftovers:
            raise self._leftovers[0]

    def _shell(self, listed: ListedMachine) -> Shell:
        if listed.name not in self._shells:
            self._shells[listed.name] = LocalShell() if listed.ssh is None else SshShell(listed.ssh)
        return self._shells[listed.name]

    def _folder(self, listed: ListedMachine, shell: Shell) -> str:
        """The run's own folder on the machine, leased; where a disk is measured it holds the tools' output.

        From then on the run writes to no other file there.
        """
        if listed.name not in self._leases:
            self._reap(listed, shell)
            # the user chose that folder, on any file system; a name in /tmp is unknown before it exists
            folder = "/tmp" if listed.folder is None else find_folder(shell, listed.folder, chosen=True).path
            lease = new_lease(f"{folder}/vmstorage-", uri=None, ssh=listed.ssh)
            if self._book is not None:
                self._book.write(lease)
            try:
                make_run_folder(shell, lease.folder, shared=False)
            except VmStorageError:
                self._drop(lease)
                raise
            self._leases[listed.name] = lease
            if isinstance(shell, Guarded):
                shell.guard = Guard([f"{lease.folder}/"], of=listed.name)
        return self._leases[listed.name].folder

    def _reap(self, listed: ListedMachine, shell: Shell) -> None:
        """Remove the folders of dead runs there; this machine's own are removed where a lab is opened."""
        for lease in list(self._book or ()):
            is_theirs = lease.uri is None and lease.ssh == listed.ssh and lease.folder.endswith(f"-{lease.run_id}")
            if listed.ssh is not None and is_theirs and is_dead(lease):
                remove_folder(shell, lease.folder)
                self._drop(lease)

    def _drop(self, lease: Lease) -> None:
        if self._book is not None:
            self._book.drop(lease)

    def _remove(self, shell: Shell, disk: HostDisk) -> None:
        try:
            remove_machine_disk(shell, disk)
        except VmStorageError as error:
            self._leftovers.append(error)

"""The machines of a run that the plugin did not make: reached once, measured one cell at a time, left as found."""

from __future__ import annotations

import itertools
import socket
import time
import uuid
from contextlib import AbstractContextManager

from pytest_vmstorage.attest_machine import conclude_machine
from pytest_vmstorage.command import LocalShell, Shell, SshShell, check
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.errors import ConfigError, VmStorageError
from pytest_vmstorage.guard import Guard, Guarded
from pytest_vmstorage.inventory import Inventory, LabHost, ListedMachine
from pytest_vmstorage.machine_facts import ask_machine, machine_facts, unreached
from pytest_vmstorage.machine_row import MachineRow
from pytest_vmstorage.provision.exclusive import WAIT_S, HostLease
from pytest_vmstorage.provision.host_fs import remove_folder
from pytest_vmstorage.provision.hostdisk import HostDisk
from pytest_vmstorage.provision.lease import LIFETIME_S, Lease, LeaseBook, is_dead, this_process
from pytest_vmstorage.provision.machine_disk import check_tools, make_machine_disk, plan_disk, remove_machine_disk
from pytest_vmstorage.provision.node import node_facts
from pytest_vmstorage.provision.run_folder import find_folder, make_run_folder
from pytest_vmstorage.results import HostFacts
from pytest_vmstorage.say import Say, silent


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
            )
        if name == socket.gethostname():
            raise ConfigError(
                f"{self._source}, [machines.{name}]: rows of this host bear that name.", hint="Name the machine anew."
            )
        return self._asked_for.setdefault(name, there[name])

    @property
    def _source(self) -> str:
        return self._inventory.source if self._inventory else "vmstorage.toml"

    def plan(self, config: StorageConfig) -> str:
        """Reach the machine and say what will be written to there; nothing is written.

        Raises ConfigError, HostError, ProvisionError.
        """
        listed = self.listed(config)
        shell = self._shell(listed)
        check_tools(shell, listed)
        return plan_disk(shell, listed, config, self._source)

    def make(self, config: StorageConfig, say: Say = silent) -> MachineRow:
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
            return MachineRow(listed, disk, shell, folder, proof, said)
        except BaseException:
            self._remove(shell, disk)
            raise

    def release(self, row: MachineRow) -> None:
        """Remove the row's file, or what it left on its disk; what cannot be removed is told by `close`."""
        self._remove(row.shell, row.host_disk)

    def facts(self, config: StorageConfig) -> HostFacts:
        """What is known of the cell's machine by now; its name alone where vmstorage.toml has none of that name."""
        name, there = config.backing_name, self._inventory.machines if self._inventory else {}
        listed = self._asked_for.setdefault(name, there.get(name, ListedMachine(name=name)))
        return self._facts.get(name, unreached(listed))

    @property
    def all_facts(self) -> tuple[HostFacts, ...]:
        """What is known of each machine that was asked for: of one that nobody reached what it is stated to be."""
        return tuple(self._facts.get(one.name, unreached(one)) for one in self._asked_for.values())

    def alone(self, config: StorageConfig, say: Say = silent) -> AbstractContextManager[None]:
        """Let no other job measure on the cell's machine meanwhile; raises HostError."""
        listed = self.listed(config)
        if listed.name not in self._measuring:
            self._measuring[listed.name] = HostLease(self._shell(listed), listed.name, wait_s=self._wait_s)
        return self._measuring[listed.name].alone(say)

    def is_on(self, config: StorageConfig, host: LabHost) -> bool:
        """Whether the cell's machine is that host itself, whose own lease then is the one to hold."""
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
        """The run's own folder on the machine, leased; where a disk is measured it holds what tools write beside it.

        From then on nothing else is written there.
        """
        if listed.name not in self._leases:
            self._reap(listed, shell)
            # the user chose it, whatever it lies on; a name in /tmp is not known before it is there
            folder = "/tmp" if listed.folder is None else find_folder(shell, listed.folder, chosen=True).path
            run_id = uuid.uuid4().hex[:10]
            lease = Lease(
                run_id=run_id,
                owner=this_process(),
                expires=time.time() + LIFETIME_S,
                uri=None,
                ssh=listed.ssh,
                folder=f"{folder}/vmstorage-{run_id}",
            )
            if self._book is not None:
                self._book.write(lease)
            try:
                make_run_folder(shell, lease.folder, shared=False)
            except VmStorageError:
                self._drop(lease)
                raise
            self._leases[listed.name] = lease
            _guard(shell, listed, lease.folder)
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


def _guard(shell: Shell, listed: ListedMachine, folder: str) -> None:
    if isinstance(shell, Guarded):
        shell.guard = Guard([f"{folder}/"], of=listed.name)

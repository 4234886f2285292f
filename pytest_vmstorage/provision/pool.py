"""The guests of one run on one lab host: made under a lease, torn down in the background, nothing left behind."""

from __future__ import annotations

import contextlib
import threading
import uuid
from concurrent.futures import Future, ThreadPoolExecutor

from pytest_vmstorage.command import Shell, check
from pytest_vmstorage.config import DEFAULT_MEMORY_BYTES, StorageConfig
from pytest_vmstorage.errors import GuestDiedError, ProvisionError, VmStorageError
from pytest_vmstorage.provision.boot import BootFiles
from pytest_vmstorage.provision.disk import (
    FolderFacts,
    ImageFacts,
    check_space,
    folder_facts,
    make_disk,
    remove_disk,
)
from pytest_vmstorage.provision.domain import Accel, GuestSpec, domain_xml
from pytest_vmstorage.provision.hypervisor import Domain, Hypervisor
from pytest_vmstorage.provision.lease import Lease, LeaseBook
from pytest_vmstorage.say import Say, silent

CONSOLE_LINES = 20


class Machine:
    """A guest that was started: its domain, its disk's path and facts, its console."""

    def __init__(self, spec: GuestSpec, domain: Domain, image: ImageFacts | None, shell: Shell) -> None:
        self.spec = spec
        self.domain = domain
        self.image = image
        self._shell = shell

    @property
    def config(self) -> StorageConfig:
        """The cell; a canary has none and is never asked."""
        assert self.spec.config is not None
        return self.spec.config

    @property
    def domain_name(self) -> str:
        """libvirt's name of the guest."""
        return self.spec.name

    def console_tail(self, lines: int = CONSOLE_LINES) -> str:
        """The last lines the guest wrote to its serial console."""
        done = self._shell.run(["tail", "-n", str(lines), "--", self.spec.console])
        return done.stdout.replace("\r", "").strip()


class GuestPool:
    """Makes guests in a run's own folder on the host, and removes all that it made."""

    def __init__(
        self,
        *,
        shell: Shell,
        hypervisor: Hypervisor,
        boot: BootFiles,
        lease: Lease,
        book: LeaseBook,
    ) -> None:
        self._shell = shell
        self._hypervisor = hypervisor
        self._boot = boot
        self._lease = lease
        self._book = book
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="vmstorage-teardown")
        self._teardowns: list[Future[None]] = []
        self._leftovers: list[BaseException] = []
        self._alive: list[Machine] = []
        self._count = 0

    @property
    def folder(self) -> str:
        """The run's folder on the host."""
        return self._lease.folder

    @property
    def emulator(self) -> str:
        """QEMU's path on the host."""
        return self._boot.emulator

    def folder_facts(self) -> FolderFacts:
        """What the run's folder lies on, and how much is free now."""
        return folder_facts(self._shell, self.folder)

    def make(self, config: StorageConfig | None, accel: Accel, say: Say = silent) -> Machine:
        """Make the cell's disk and start its guest; a None config is a guest without one (a canary).

        Raises ProvisionError, HypervisorError, AttestationError; what was half made is removed.
        """
        self._count += 1
        name = f"vms-{self._lease.run_id}-{self._count}"
        disk = f"{self.folder}/disk-{self._count}.{config.format}" if config else ""
        spec = self.spec(name, config, disk, accel)
        self._note_domain(spec.uuid)
        try:
            image = self._make_disk(config, disk, say) if config else None
            say("booting")
            domain = self._hypervisor.start(domain_xml(spec, self._lease))
        except BaseException:
            self._undo(spec)
            raise
        machine = Machine(spec, domain, image, self._shell)
        self._alive.append(machine)
        return machine

    def _undo(self, spec: GuestSpec) -> None:
        """Remove what `make` left: after Ctrl-C libvirt may have started a guest that nobody holds yet."""
        try:
            domain = self._hypervisor.find(spec.uuid)
            if domain is not None:
                domain.destroy()
            if spec.disk:
                remove_disk(self._shell, spec.disk)
        except VmStorageError as error:
            # what made `make` fail is told first
            self._leftovers.append(error)

    def _make_disk(self, config: StorageConfig, disk: str, say: Say) -> ImageFacts:
        say("making disk")
        try:
            check_space(self.folder_facts(), config)
        except ProvisionError:
            # the disk of the guest before this one may be on its way out
            self.settle()
            check_space(self.folder_facts(), config)
        return make_disk(self._shell, config, disk)

    def spec(self, name: str, config: StorageConfig | None, disk: str, accel: Accel) -> GuestSpec:
        """What a guest of that cell and disk is made from."""
        return GuestSpec(
            name=name,
            uuid=str(uuid.uuid4()),
            config=config,
            disk=disk,
            kernel=self._boot.kernel,
            initrd=self._boot.initrd,
            root=self._boot.root,
            cmdline=self._boot.cmdline(config),
            console=f"{self.folder}/{name}.console",
            accel=accel,
            emulator=self._boot.emulator,
            vcpus=config.vcpus if config else 1,
            memory_bytes=config.memory if config else DEFAULT_MEMORY_BYTES,
        )

    def _note_domain(self, domain_uuid: str) -> None:
        with self._lock:
            self._lease = self._lease.model_copy(update={"domains": (*self._lease.domains, domain_uuid)})
            self._book.write(self._lease)

    def discard(self, machine: Machine) -> None:
        """Tear the guest down in the background; `settle` waits for it."""
        if machine in self._alive:
            self._alive.remove(machine)
            self._teardowns.append(self._worker.submit(self._tear_down, machine))

    def settle(self) -> None:
        """Wait until every teardown that was begun has ended, so that it disturbs no measurement."""
        while self._teardowns:
            error = self._teardowns.pop().exception()
            if error is not None:
                # not the fault of the cell at hand: told when the pool closes
                self._leftovers.append(error)

    def close(self, *, keep: Machine | None = None) -> None:
        """Remove every guest and the run's folder, then the lease; a kept guest keeps all three.

        Raises the first error of a teardown; the lease then stays, so that the next run tries again.
        """
        if keep is not None and keep in self._alive:
            self._alive.remove(keep)
        for machine in list(self._alive):
            self.discard(machine)
        self.settle()
        self._worker.shutdown()
        if keep is not None:
            self._lease = self._lease.model_copy(update={"kept": True})
            self._book.write(self._lease)
        else:
            check(self._shell.run(["rm", "-rf", "--", self.folder]), f"removing {self.folder}")
            if self._leftovers:
                raise self._leftovers[0]
            self._book.drop(self._lease)

    def _tear_down(self, machine: Machine) -> None:
        with contextlib.suppress(GuestDiedError):
            machine.domain.destroy()
        if machine.spec.disk:
            remove_disk(self._shell, machine.spec.disk)

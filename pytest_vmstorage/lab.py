"""A lab host in use by this process: one connection, one pool, the guest of the moment."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.accounting import IoCounters
from pytest_vmstorage.attest import attest, attest_guest, conclude
from pytest_vmstorage.command import LocalShell, Shell
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.errors import AttestationError, GuestDiedError, GuestError, VmStorageError
from pytest_vmstorage.evidence import gather, io_counters
from pytest_vmstorage.facts import host_facts
from pytest_vmstorage.guest import Guest, connect
from pytest_vmstorage.inventory import LabHost, find_host
from pytest_vmstorage.provision import appliance as appliances
from pytest_vmstorage.provision.accel import AccelChoice, AccelRequest, CanaryCache
from pytest_vmstorage.provision.appliance import Appliance
from pytest_vmstorage.provision.boot import find_emulator, place_appliance
from pytest_vmstorage.provision.canary import find_accel
from pytest_vmstorage.provision.disk import drop_caches, prepare_folder
from pytest_vmstorage.provision.exclusive import measuring_alone
from pytest_vmstorage.provision.hypervisor import Hypervisor, LibvirtHypervisor, connect_embedded
from pytest_vmstorage.provision.lease import LIFETIME_S, Lease, LeaseBook, this_process
from pytest_vmstorage.provision.pool import GuestPool, Machine
from pytest_vmstorage.provision.reaper import reap, reap_remote
from pytest_vmstorage.results import HostFacts
from pytest_vmstorage.say import Say, silent


class LabSettings(BaseModel):
    """What the user chose for this run; `timeout_s` is a guest's time to boot."""

    model_config = ConfigDict(frozen=True)

    host: str | None = None
    folder: str | None = None
    accel: AccelRequest = "auto"
    timeout_s: float = 120.0
    keep: bool = False


@dataclass
class Lab:
    """What a run needs of its host, opened once: hands out one guest per cell, and removes all of it at the end."""

    settings: LabSettings
    host: LabHost
    shell: Shell
    hypervisor: Hypervisor
    pool: GuestPool
    appliance: Appliance
    accel: AccelChoice
    facts: HostFacts
    lease: Lease
    remember_accel: Callable[[], None] = lambda: None
    _guest: Guest | None = None
    _kept: Machine | None = None
    _broken: dict[StorageConfig, VmStorageError] = field(default_factory=dict)

    def guest(self, config: StorageConfig, say: Say = silent) -> Guest:
        """The running guest of that cell, made if it is not the one at hand.

        A cell that failed once fails again with the same error, without another try.
        """
        if config in self._broken:
            raise self._broken[config]
        if self._guest is not None and self._guest.config == config:
            if self._guest.machine.domain.is_active():
                return self._guest
            error = GuestDiedError(
                f"The guest of {config} ended before this test.", console=self._guest.machine.console_tail()
            )
            self._broken[config] = error
            self.drop()
            raise error
        self.drop()
        try:
            self._guest = self._make(config, say)
        except VmStorageError as error:
            self._broken[config] = error
            raise
        return self._guest

    def _make(self, config: StorageConfig, say: Say) -> Guest:
        machine = self.pool.make(config, self.accel.used, say)
        try:
            # while it boots, and before it may be waited for in vain: a wrong controller's disk never comes
            seen = attest(config, machine.spec.accel, gather(machine, self.shell, self._log(machine)))
            conclude(config, seen)
            guest = connect(machine, timeout_s=self.settings.timeout_s, tools=self.appliance.manifest.tools)
            guest.proof = conclude(config, (*seen, *attest_guest(config, guest.facts)))
            self.remember_accel()
            return guest
        except BaseException as error:
            if self.settings.keep and self._kept is None and isinstance(error, GuestError | AttestationError):
                self._kept = machine
            self._let_go(machine)
            raise

    def _log(self, machine: Machine) -> str:
        """Path on the host of what libvirt and QEMU wrote about the guest."""
        folder = f"{self.lease.root}/log" if self.lease.root else "/var/log/libvirt"
        return f"{folder}/qemu/{machine.domain_name}.log"

    def drop_host_caches(self, guest: Guest) -> str:
        """Make the host forget the image of the guest's disk; says how."""
        return drop_caches(self.shell, guest.machine.spec.disk)

    def counters(self, guest: Guest) -> IoCounters:
        """What guest, QEMU's block layer and host have moved so far for the guest's disk."""
        return io_counters(guest.machine, self.shell, guest.shell.read(f"/sys/block/{Path(guest.disk).name}/stat"))

    def alone(self, say: Say = silent) -> AbstractContextManager[None]:
        """Hold the host's measuring lock among all processes of this machine."""
        return measuring_alone(self.host.name, say)

    def note_failure(self) -> None:
        """A test failed in the guest at hand: that is the guest to keep for a look."""
        if self.settings.keep and self._kept is None and self._guest is not None:
            self._kept = self._guest.machine

    def drop(self) -> None:
        """Let the guest at hand go; it is torn down in the background."""
        if self._guest is not None:
            self._let_go(self._guest.machine)
            self._guest = None

    def _let_go(self, machine: Machine) -> None:
        if machine is not self._kept:
            self.pool.discard(machine)

    def close(self) -> Machine | None:
        """Remove all that was made; returns the one guest that is kept running, where the user wants one."""
        if self.settings.keep and self._kept is None and self._guest is not None:
            self._kept = self._guest.machine
        self.drop()
        try:
            self.pool.close(keep=self._kept)
        finally:
            self.hypervisor.close()
            if self._kept is None and self.lease.root:
                self.shell.run(["rm", "-rf", "--", self.lease.root])
        return self._kept


def open_lab(settings: LabSettings, say: Say = silent) -> Lab:
    """Connect to the host and find all that every cell needs; raises ConfigError, HostError, ProvisionError."""
    host = find_host(settings.host, settings.folder)
    shell = host.shell()
    book = lease_book()
    for sentence in reap(book, LocalShell()):
        say(sentence)
    emulator = find_emulator(shell, host.name)
    folder = prepare_folder(shell, host.folder, chosen=settings.folder is not None)
    lease = _lease(host)
    book.write(lease)
    with ExitStack() as undo:
        # the last line here is the first to be run: the guests go before the connection, the lease goes last
        undo.callback(book.drop, lease)
        undo.callback(shell.run, ["rm", "-rf", "--", lease.folder, *([lease.root] if lease.root else [])])
        hypervisor = _connect(host, lease)
        undo.callback(hypervisor.close)
        for sentence in reap_remote(book, host, shell, hypervisor):
            say(sentence)
        appliance = appliances.ensure(LocalShell(), say=say)
        shell.run(["mkdir", "-p", "-m", "755", "--", lease.folder])
        boot = place_appliance(host, shell, appliance, emulator, say)
        pool = GuestPool(shell=shell, hypervisor=hypervisor, boot=boot, lease=lease, book=book)
        undo.callback(pool.close)
        accel, remember = find_accel(
            settings.accel,
            host=host.name,
            appliance_key=appliance.manifest.key,
            shell=shell,
            hypervisor=hypervisor,
            pool=pool,
            cache=CanaryCache(appliances.cache_folder() / "accel.json"),
            say=say,
        )
        facts = host_facts(host.name, shell, hypervisor.versions(), accel, folder)
        undo.pop_all()
    return Lab(settings, host, shell, hypervisor, pool, appliance, accel, facts, lease, remember)


def lease_book() -> LeaseBook:
    """This user's leases on this machine."""
    return LeaseBook(appliances.cache_folder() / "leases")


def driver_cache() -> Path:
    """Where libvirt's embedded driver keeps what it found out about QEMU."""
    return appliances.cache_folder() / "libvirt"


def _lease(host: LabHost) -> Lease:
    run_id = uuid.uuid4().hex[:10]
    return Lease(
        run_id=run_id,
        owner=this_process(),
        expires=time.time() + LIFETIME_S,
        uri=host.uri,
        ssh=host.ssh,
        folder=f"{host.folder}/run-{run_id}",
        # short, and not below TMPDIR: sockets in it must stay under 108 characters
        root=f"/tmp/vms-{run_id}" if host.uri is None else "",
    )


def _connect(host: LabHost, lease: Lease) -> LibvirtHypervisor:
    if host.uri is not None:
        return LibvirtHypervisor(host.uri)
    root = Path(lease.root)
    root.mkdir(mode=0o700)
    return connect_embedded(root, driver_cache(), as_root=os.geteuid() == 0)

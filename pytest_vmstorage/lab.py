"""A lab host in use by this process: one connection, one pool, the guest of the moment."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.agent import AgentShell
from pytest_vmstorage.command import LocalShell, Shell
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.errors import ConfigError, GuestDiedError, GuestError, HypervisorError, VmStorageError
from pytest_vmstorage.facts import host_facts
from pytest_vmstorage.guest import Guest, connect
from pytest_vmstorage.inventory import LabHost, find_host
from pytest_vmstorage.provision import appliance as appliances
from pytest_vmstorage.provision.accel import (
    CANARY_S,
    AccelChoice,
    AccelRequest,
    CanaryCache,
    choose_accel,
    device_refusal,
)
from pytest_vmstorage.provision.appliance import Appliance
from pytest_vmstorage.provision.boot import find_emulator, place_appliance
from pytest_vmstorage.provision.disk import drop_caches, prepare_folder
from pytest_vmstorage.provision.hypervisor import Hypervisor, LibvirtHypervisor, connect_embedded
from pytest_vmstorage.provision.lease import LIFETIME_S, Lease, LeaseBook, this_process
from pytest_vmstorage.provision.pool import GuestPool, Machine
from pytest_vmstorage.provision.reaper import reap
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
    root: str
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
            return connect(machine, timeout_s=self.settings.timeout_s, tools=self.appliance.manifest.tools)
        except BaseException as error:
            if self.settings.keep and self._kept is None and isinstance(error, GuestError):
                self._kept = machine
            self._let_go(machine)
            raise

    def drop_host_caches(self, guest: Guest) -> str:
        """Make the host forget the image of the guest's disk; says how."""
        return drop_caches(self.shell, guest.machine.spec.disk)

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
            if self._kept is None and self.root:
                self.shell.run(["rm", "-rf", "--", self.root])
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
    opened: list[GuestPool] = []
    try:
        hypervisor = _connect(host, lease)
        appliance = appliances.ensure(LocalShell(), say=say)
        shell.run(["mkdir", "-p", "-m", "755", "--", lease.folder])
        boot = place_appliance(host, shell, appliance, emulator, say)
        pool = GuestPool(shell=shell, hypervisor=hypervisor, boot=boot, lease=lease, book=book)
        opened.append(pool)
        accel = _accel(settings, shell, hypervisor, pool, appliance, say)
        facts = host_facts(host.name, shell, hypervisor.versions(), accel, folder)
    except BaseException:
        for pool in opened:
            pool.close()
        shell.run(["rm", "-rf", "--", lease.folder, *([lease.root] if lease.root else [])])
        book.drop(lease)
        raise
    return Lab(settings, host, shell, hypervisor, pool, appliance, accel, facts, lease.root)


def lease_book() -> LeaseBook:
    """This user's leases on this machine."""
    return LeaseBook(appliances.cache_folder() / "leases")


_RECONNECT_S = 20.0


@contextmanager
def open_kept(run_id: str) -> Iterator[Shell]:
    """A shell in the guest that a run left running with --vm-keep; raises ConfigError, HostError."""
    kept = [lease for lease in lease_book() if lease.kept]
    lease = next((lease for lease in kept if lease.run_id == run_id), None)
    if lease is None:
        there = ", ".join(lease.run_id for lease in kept) or "none"
        raise ConfigError(f"No kept guest belongs to run {run_id}.", hint=f"Runs with a kept guest: {there}.")
    hypervisor = _reconnect(lease)
    try:
        for domain_uuid in reversed(lease.domains):
            domain = hypervisor.find(domain_uuid)
            if domain is not None and domain.answers(_RECONNECT_S):
                yield AgentShell(domain)
                return
        raise ConfigError(f"The guest of run {run_id} runs no more.", hint="`vmstorage reap --kept` clears it away.")
    finally:
        hypervisor.close()


def _reconnect(lease: Lease) -> LibvirtHypervisor:
    if lease.uri is not None:
        return LibvirtHypervisor(lease.uri)
    return connect_embedded(Path(lease.root), _driver_cache(), as_root=os.geteuid() == 0)


def _driver_cache() -> Path:
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
    return connect_embedded(root, _driver_cache(), as_root=os.geteuid() == 0)


def _accel(
    settings: LabSettings,
    shell: Shell,
    hypervisor: Hypervisor,
    pool: GuestPool,
    appliance: Appliance,
    say: Say,
) -> AccelChoice:
    device = "" if settings.accel == "tcg" else device_refusal(shell)

    def kvm_refusal() -> str:
        reason = device
        if not reason and not hypervisor.supports_kvm(pool.emulator):
            reason = "libvirt has no KVM here"
        return reason

    def try_kvm() -> float | str:
        say("trying KVM with a test guest")
        begin = time.monotonic()
        try:
            machine = pool.make(None, "kvm")
        except HypervisorError as error:
            return error.what
        try:
            answered = machine.domain.wait_for_agent(CANARY_S)
        except GuestDiedError as error:
            return error.what
        finally:
            pool.discard(machine)
        return time.monotonic() - begin if answered else f"a test guest did not boot within {CANARY_S:.0f} s"

    boot_id = shell.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout.strip()
    versions = "-".join(hypervisor.versions().values())
    host = settings.host or socket.gethostname()
    # the device too: who has just been given access to it need not boot anew
    key = f"{host} {boot_id} {versions} {appliance.manifest.key} {settings.accel} {device}"
    cache = CanaryCache(appliances.cache_folder() / "accel.json")
    choice = cache.get(key)
    if choice is None:
        choice = choose_accel(settings.accel, kvm_refusal=kvm_refusal, try_kvm=try_kvm)
        cache.put(key, choice)
    return choice

"""A lab host in use by this process: one connection, one pool, the guest of the moment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.attest import attest, attest_guest, conclude
from pytest_vmstorage.attest_native import conclude_native
from pytest_vmstorage.command import Shell
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.errors import AttestationError, GuestDiedError, GuestError, VmStorageError
from pytest_vmstorage.evidence import fallback_lines, gather, io_counters
from pytest_vmstorage.file_system import look_at
from pytest_vmstorage.guest import Guest, connect
from pytest_vmstorage.host_look import Look
from pytest_vmstorage.host_state import HostWatch
from pytest_vmstorage.image_bench import image_bench
from pytest_vmstorage.image_runner import Bench
from pytest_vmstorage.inventory import Inventory, LabHost
from pytest_vmstorage.kernel_log import disk_trouble, read_only_mount
from pytest_vmstorage.native import Native
from pytest_vmstorage.outcome import Evidence as OutcomeEvidence
from pytest_vmstorage.outcome import named
from pytest_vmstorage.provision.accel import AccelChoice, AccelRequest
from pytest_vmstorage.provision.appliance import Appliance
from pytest_vmstorage.provision.disk import drop_caches, folder_facts
from pytest_vmstorage.provision.exclusive import measuring_alone
from pytest_vmstorage.provision.fragments import fragments
from pytest_vmstorage.provision.hypervisor import Hypervisor
from pytest_vmstorage.provision.lease import Lease
from pytest_vmstorage.provision.node import node_facts
from pytest_vmstorage.provision.pool import GuestPool, Machine
from pytest_vmstorage.recheck import changed_in_guest
from pytest_vmstorage.results import HostFacts
from pytest_vmstorage.say import Say, silent
from pytest_vmstorage.subject import Regions, Subject
from pytest_vmstorage.workloads.image_operations import ImageOperations

Row = Guest | Native
"""Where a cell's workloads run: a guest, or the host itself."""


class LabSettings(BaseModel):
    """What the user chose for this run; `timeout_s` is a guest's time to boot, `inventory` what vmstorage.toml says."""

    model_config = ConfigDict(frozen=True)

    host: str | None = None
    folder: str | None = None
    accel: AccelRequest = "auto"
    timeout_s: float = 120.0
    keep: bool = False
    inventory: Inventory | None = None


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
    _row: Row | None = None
    _regions: Regions | None = None
    _kept: Machine | None = None
    _broken: dict[StorageConfig, VmStorageError] = field(default_factory=dict)

    def row(self, config: StorageConfig, say: Say = silent) -> Row:
        """Where that cell's workloads run: its running guest, or the host; made if it is not the one at hand.

        A cell that failed once fails again with the same error, without another try.
        """
        if config in self._broken:
            raise self._broken[config]
        if self._row is not None and self._row.config == config:
            if isinstance(self._row, Native) or self._row.machine.domain.is_active():
                return self._row
            error = GuestDiedError(
                f"The guest of {config} ended before this test.", console=self._row.machine.console_tail()
            )
            self._broken[config] = error
            self.drop()
            raise error
        self.drop()
        try:
            self._row = self._make_native(config, say) if config.is_native else self._make(config, say)
        except VmStorageError as error:
            self._broken[config] = error
            raise
        self._regions = None
        return self._row

    def guest(self, config: StorageConfig, say: Say = silent) -> Guest:
        """The running guest of that cell, which is none of backing=native."""
        row = self.row(config, say)
        assert isinstance(row, Guest), f"{config} has no guest"
        return row

    def _make_native(self, config: StorageConfig, say: Say) -> Native:
        disk = self.pool.make_disk(config, say)
        try:
            node = node_facts(self.shell, disk.path)
            ground = None if disk.is_block else look_at(self.shell, disk.path, superblock=bool(config.host_mkfs))
            return Native(disk, self.shell, self.pool.folder, conclude_native(disk, node, ground))
        except BaseException:
            self.pool.discard(disk)
            raise

    def _make(self, config: StorageConfig, say: Say) -> Guest:
        machine = self.pool.make(config, self.accel.used, say)
        try:
            # while it boots, and before it may be waited for in vain: a wrong controller's disk never comes
            seen = attest(config, machine.spec.accel, gather(machine, self.shell, self._log(machine)))
            conclude(config, seen)
            guest = connect(machine, timeout_s=self.settings.timeout_s, tools=self.appliance.manifest.tools, say=say)
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

    def subject(self, row: Row) -> Subject:
        """The row as the runner sees it; what was written to its disk is remembered as long as it lives."""
        if row is not self._row or self._regions is None:
            self._regions = Regions(_size(row))
        if isinstance(row, Native):
            return self._native_subject(row, self._regions)
        made, watch = row.file_system, self.watch(row)
        return Subject(
            shell=row.shell,
            disk=made.path if made is not None else row.disk,
            is_file=made is not None,
            device=row.disk if made is not None else "",
            folder=made.mountpoint if made is not None else "",
            config=row.config,
            host=self.host.name,
            facts=row.facts.as_text(),
            tools=row.facts.tools,
            proof=row.proof,
            regions=self._regions,
            drop_host_caches=lambda: self.drop_host_caches(row.machine.spec.disk),
            look=lambda: self.look(row, watch),
            watch=watch.begin,
            fragments=lambda: fragments(self.shell, row.config, row.machine.spec.disk),
            recheck=lambda: self.changed(row),
            notes=row.machine.disk.notes if row.machine.disk is not None else {},
        )

    def _native_subject(self, row: Native, regions: Regions) -> Subject:
        return Subject(
            shell=row.shell,
            disk=row.disk,
            config=row.config,
            host=self.host.name,
            facts=row.facts,
            tools=row.tools,
            proof=row.proof,
            regions=regions,
            drop_host_caches=lambda: self.drop_host_caches(row.disk),
            look=row.look,
            watch=row.watch.begin,
            is_file=not row.host_disk.is_block,
            folder="" if row.host_disk.is_block else str(Path(row.disk).parent),
            scratch=row.scratch,
            notes=row.host_disk.notes,
            fragments=lambda: fragments(self.shell, row.config, row.disk),
        )

    def images(
        self, config: StorageConfig, workload: ImageOperations, say: Say = silent
    ) -> AbstractContextManager[Bench]:
        """Where operations on whole images of that cell are measured; another cell's guest is let go first."""
        if self._row is not None and self._row.config != config:
            self.drop()
        return image_bench(self.shell, self.host, self.pool, config, workload, say)

    def drop_host_caches(self, path: str) -> str:
        """Make the host forget what it cached of a disk; says how."""
        return drop_caches(self.shell, path)

    def look(self, guest: Guest, watch: HostWatch | None = None) -> Look:
        """What guest, QEMU's block layer and host have counted so far for the guest's disk."""
        host = (watch or self.watch(guest)).look()
        stat = guest.shell.read(f"/sys/block/{Path(guest.disk).name}/stat")
        moved = io_counters(guest.machine, host, stat)
        return Look(moved=moved, process=host.process, pressure=host.pressure)

    def watch(self, guest: Guest) -> HostWatch:
        """The host around that guest's disk."""
        return HostWatch(self.shell, guest.machine.spec.disk, guest.machine.spec.uuid)

    def changed(self, guest: Guest) -> str:
        """What is no longer as it was proven before the first I/O, in a clause; empty where all is.

        The guest can turn its disk's write cache off and on, QEMU finds out late that it has no io_uring, and a
        command may be lost, for which the guest waits half a minute.
        """
        fallen = fallback_lines(self.shell.read(self._log(guest.machine)))
        if fallen and guest.config.io != "threads":
            return f"io is no longer {guest.config.io}: {'; '.join(fallen)} (QEMU's log)"
        return changed_in_guest(guest.shell, guest.facts)

    def explain(self, row: Row, error: VmStorageError) -> VmStorageError:
        """The error with the name of what happened and the evidence; a guest that is of no more use is let go."""
        if isinstance(row, Native):
            return error
        named(error, self._evidence(row, error))
        if isinstance(error, GuestError):
            error.console = error.console or row.machine.console_tail()
            self._broken[row.config] = error
            if not self.settings.keep:
                self.drop()
        return error

    def _evidence(self, guest: Guest, error: VmStorageError) -> OutcomeEvidence:
        disk = guest.machine.disk
        folder = str(Path(guest.machine.spec.disk).parent)
        free = None if disk is None or disk.is_block else folder_facts(self.shell, folder).free_bytes
        answers = not isinstance(error, GuestError)
        return OutcomeEvidence(
            io_errors=guest.machine.domain.io_errors(),
            free_bytes=free,
            kernel_log=disk_trouble(guest.shell) if answers else "",
            read_only=read_only_mount(guest.shell) if answers else "",
        )

    def alone(self, say: Say = silent) -> AbstractContextManager[None]:
        """Hold the host's measuring lock among all processes of this machine."""
        return measuring_alone(self.host.name, say)

    def note_failure(self) -> None:
        """A test failed in the guest at hand: that is the guest to keep for a look."""
        if self.settings.keep and self._kept is None and self._row is not None and not isinstance(self._row, Native):
            self._kept = self._row.machine

    def drop(self) -> None:
        """Let the guest at hand go; it is torn down in the background."""
        if self._row is not None:
            if isinstance(self._row, Native):
                self.pool.discard(self._row.host_disk)
            else:
                self._let_go(self._row.machine)
            self._row = None

    def _let_go(self, machine: Machine) -> None:
        if machine is not self._kept:
            self.pool.discard(machine)

    def close(self) -> Machine | None:
        """Remove all that was made; returns the one guest that is kept running, where the user wants one."""
        if self.settings.keep and self._kept is None and self._row is not None and not isinstance(self._row, Native):
            self._kept = self._row.machine
        self.drop()
        try:
            self.pool.close(keep=self._kept)
        finally:
            self.hypervisor.close()
            if self._kept is None and self.lease.root:
                self.shell.run(["rm", "-rf", "--", self.lease.root])
        return self._kept


def _size(row: Row) -> int:
    """How much there is for workloads, in bytes: the disk, or the test file on the guest's file system."""
    made = row.file_system if isinstance(row, Guest) else None
    return made.size_bytes if made is not None else row.config.size

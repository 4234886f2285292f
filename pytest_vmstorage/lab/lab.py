"""A lab host in use by this process: one connection, one pool, the guest of the moment."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import LabHost
from pytest_vmstorage.config.settings import AccelChoice, HostWishes, LabSettings
from pytest_vmstorage.errors import (
    AttestationError,
    GuestDiedError,
    GuestError,
    LostError,
    ProvisionError,
    SpaceError,
    UnsupportedError,
    VmStorageError,
    WorkloadError,
)
from pytest_vmstorage.guest.appliance.build import Appliance
from pytest_vmstorage.guest.emulator import check_emulator
from pytest_vmstorage.guest.guest import Guest, connect
from pytest_vmstorage.guest.instance import StartedGuest
from pytest_vmstorage.guest.libvirt.messages import null_lacks
from pytest_vmstorage.guest.pinning import check_pinning
from pytest_vmstorage.guest.protocol import Hypervisor
from pytest_vmstorage.guest.provenance import Provenance
from pytest_vmstorage.guest.restore.restoring import Restoring
from pytest_vmstorage.guest.restore.states import is_meant_for
from pytest_vmstorage.host.lease import Lease
from pytest_vmstorage.host.lock import HostLease
from pytest_vmstorage.host.settings import HostSettings
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.lab.factory import GuestFactory
from pytest_vmstorage.lab.image_operations import image_bench
from pytest_vmstorage.lab.machines import MachineRow, Machines
from pytest_vmstorage.lab.native import Native, make_native
from pytest_vmstorage.lab.observer import HostObserver
from pytest_vmstorage.lab.pool import GuestPool, Row
from pytest_vmstorage.lab.prefetch import Prefetch, make_beside
from pytest_vmstorage.lab.systems import SystemsUnderTest
from pytest_vmstorage.measure.diagnosis import told
from pytest_vmstorage.measure.image_operations import Bench
from pytest_vmstorage.measure.proof.cell import attest, attest_guest, conclude
from pytest_vmstorage.measure.proof.evidence import gather
from pytest_vmstorage.measure.system import SystemUnderTest
from pytest_vmstorage.progress import Progress, silent
from pytest_vmstorage.results.failures import Symptoms, named
from pytest_vmstorage.results.host import HostFacts
from pytest_vmstorage.results.spans import span
from pytest_vmstorage.workloads.image_operations import ImageOperations


@dataclass
class Lab:
    """What a run needs of its host, opened once: hands out one guest per cell, and removes all of it at the end.

    `at_once` is how many guests may boot side by side; `restoring` begins some from saved ones.
    """

    settings: LabSettings
    host: LabHost
    shell: Shell
    hypervisor: Hypervisor
    pool: GuestFactory
    appliance: Appliance | None
    accel: AccelChoice
    facts: HostFacts
    lease: Lease
    remember_accel: Callable[[], None] = lambda: None
    host_settings: HostSettings | None = None
    at_once: int = 1
    host_lease: HostLease | None = None
    machines: Machines = field(default_factory=Machines)
    restoring: Restoring | None = None
    _kept: StartedGuest | None = None
    _broken: dict[StorageConfig, VmStorageError] = field(default_factory=dict)
    _lost: LostError | None = None

    def __post_init__(self) -> None:
        self.looks = self._make_looks()
        self._rows = GuestPool(self.pool, let_go=self._release, put_by=self.looks.put_by)
        provenance = Provenance(self.shell)
        subjects = SystemsUnderTest(
            self.shell, self.host, self.pool, self.looks, self.host_settings, provenance, keep=self.settings.keep
        )
        self._beside = Prefetch(self._rows, self.looks, subjects, is_emulated=self.accel.used == "tcg")

    def _make_looks(self) -> HostObserver:
        return HostObserver(self.shell, self.lease.root)

    def expect(self, upcoming: Sequence[StorageConfig], alike: Collection[StorageConfig] = ()) -> None:
        """The cells whose turn comes, in that order; those `alike` begin with the test at hand. Guests of others go."""
        self._rows.expect(upcoming)
        self._beside.alike = alike

    def row(self, config: StorageConfig, say: Progress = silent) -> Row:
        """Where that cell's workloads run: its running guest, or the host; made if it is not the one at hand.

        A cell that failed once fails again with the same error, without another try.
        """
        if config in self._broken:
            raise self._broken[config]
        with span("turn", cell=config):
            held = self._rows.turn_to(config)
        if held is None:
            return self._begin(config, say)
        if isinstance(held.row, Native) or held.row.machine.domain.is_active():
            return held.row
        ended = GuestDiedError(f"The guest of {config} ended before this test.")
        self._broken[config] = told(held.row.machine, self.shell, ended)
        self._rows.drop()
        raise self._broken[config]

    def _begin(self, config: StorageConfig, say: Progress) -> Row:
        """Make that cell's row, and beside it guests whose turns come next."""
        self._rows.make_room(config)
        is_restored = self._is_to_be_restored(config)
        ahead = self._rows.ahead(config, self.at_once - 1, lambda one: self._is_to_be_restored(one) is is_restored)
        ahead = [one for one in ahead if one not in self._broken]
        try:
            return make_beside(
                lambda: self._rows.begin(self._make_here(config, say)).row,
                {one: functools.partial(self._make, one, silent) for one in ahead},
                take=self._take_ahead,
                restoring=self.restoring,
            )
        except VmStorageError as error:
            self._broken[config] = error
            raise

    def _is_to_be_restored(self, config: StorageConfig) -> bool:
        """Whether that cell's guest is to be restored, which takes a fraction of the time of a boot."""
        settings = self.settings
        if self.restoring is None or settings.image is not None:
            return False
        return is_meant_for(config, settings.boot, self.accel.used)

    def _make_here(self, config: StorageConfig, say: Progress) -> Row:
        while True:
            try:
                if config.is_machine:
                    return self.machines.make(config, say)
                return self._make_native(config, say) if config.is_native else self._make(config, say)
            except SpaceError:
                # the disks of those that wait may be what takes the room
                if not self._rows.let_one_go():
                    raise

    def _take_ahead(self, config: StorageConfig, made: Callable[[], Guest]) -> None:
        try:
            self._rows.wait(made())
        except SpaceError:
            # there may be room when its turn comes
            return
        except VmStorageError as error:
            self._broken[config] = error

    def set_on_host(self, wishes: HostWishes) -> None:
        """Change what the run has set on its host; raises HostError where that cannot be."""
        if self.host_settings is not None:
            self.host_settings.change(wishes, self.lease.folder)

    def drop(self) -> None:
        """Let the row at work go, so that the next round of its cell has a guest of its own; torn down meanwhile."""
        self._rows.drop()

    def guest(self, config: StorageConfig, say: Progress = silent) -> Guest:
        """The running guest of that cell, which is none of backing=native."""
        row = self.row(config, say)
        assert isinstance(row, Guest), f"{config} has no guest"
        return row

    def _make_native(self, config: StorageConfig, say: Progress) -> Native:
        return make_native(self.pool, self.shell, config, say)

    def _make(self, config: StorageConfig, say: Progress, *, fresh: bool = False) -> Guest:
        if config.is_null and (lacking := null_lacks(config.bus, self.facts.libvirt)):
            raise UnsupportedError(f"backing=null cannot be had on {config.bus} here: {lacking}. Measure it on nvme.")
        if config.emulator:
            check_emulator(self.shell, config.emulator, self.host.name)
        # a booted guest's own fill warms its fio for the first round, which takes as much longer without it
        is_to_be_restored = not fresh and self._is_to_be_restored(config)
        fill_bytes = self._beside.fill_bytes(config) if is_to_be_restored else 0
        # acceleration was probed with the host's QEMU; for another emulator the proof (query-kvm) checks it
        machine = self.pool.make(config, self.accel.used, say, fresh=fresh, fill_bytes=fill_bytes)
        try:
            return self._proven(config, machine, say)
        except (GuestError, ProvisionError, AttestationError) as error:
            if machine.is_restored and self.restoring is not None:
                # what was saved is never why a cell fails; where a boot fails too, it is not to blame
                self._let_go(machine)
                booted = self._make(config, say, fresh=True)
                self.restoring.distrust(machine.spec, error)
                return booted
            known = error if isinstance(error, AttestationError) else told(machine, self.shell, error)
            self._let_go(machine, keep=not isinstance(error, ProvisionError))
            raise known from None
        except BaseException:
            self._let_go(machine)
            raise

    def _proven(self, config: StorageConfig, machine: StartedGuest, say: Progress) -> Guest:
        # while it boots, and before it may be waited for in vain: a wrong controller's disk never comes
        with span("proof", cell=config):
            evidence = gather(machine, self.shell, self.looks.log(machine))
            seen = attest(config, machine.spec.accel, evidence)
            conclude(config, seen)
            if machine.spec.pinning is not None:
                check_pinning(self.shell, machine.domain, machine.spec.pinning)
        guest = connect(machine, timeout_s=self.settings.timeout_s, tools=self.tools, say=say)
        guest.proof = conclude(config, (*seen, *attest_guest(config, guest.facts)))
        guest.qemu = evidence.qemu if config.emulator else ""
        self.remember_accel()
        return guest

    def subject(self, row: Row) -> SystemUnderTest:
        """The row as the runner sees it; what was written to its disk is remembered as long as it lives."""
        return self._beside.subject(row)

    def images(
        self, config: StorageConfig, workload: ImageOperations, say: Progress = silent
    ) -> AbstractContextManager[Bench]:
        """Where operations on whole images of that cell are measured; another cell's guest is put by first."""
        self._rows.leave(config)
        return image_bench(self.shell, self.host, self.pool, config, workload, say)

    def explain(self, row: Row, error: VmStorageError) -> VmStorageError:
        """The error with the name of what happened and the evidence; a guest that is of no more use is let go.

        One that is neither the workload's, nor the guest's, nor the host's comes back as it is.
        """
        if not isinstance(error, WorkloadError | GuestError | LostError):
            return error
        if isinstance(row, Native):
            return named(error, Symptoms(is_native=True))
        known = told(row.machine, self.shell, error)
        # where the host was lost, nobody knows what became of the command in its guest
        if isinstance(known, LostError):
            self._lost = self._lost or known
        if isinstance(known, GuestError | LostError):
            self._broken[row.config] = known
            if not self.settings.keep:
                self.drop()
        return known

    def alone(self, say: Progress = silent, config: StorageConfig | None = None) -> AbstractContextManager[None]:
        """Measure, and let no other job do so on the host, or the cell's machine, meanwhile; raises HostError."""
        if config is not None and config.is_machine and not self.machines.is_on(config, self.host):
            return self.machines.alone(config, say)
        lease = self.host_lease or HostLease(self.shell, self.host.name)
        if self._lost is not None and lease.is_lost:
            # nobody waits for it twice
            raise self._broken.get(config, self._lost) if config is not None else self._lost
        return lease.alone(say)

    def facts_of(self, config: StorageConfig) -> HostFacts:
        """What that cell's rows are measured on: the host, or a machine that the plugin did not make."""
        return self.machines.facts(config) if config.is_machine else self.facts

    @property
    def tools(self) -> Mapping[str, str]:
        """Versions of the programs that its guests have, by their names."""
        return self.appliance.manifest.tools if self.appliance is not None else {}

    @property
    def all_facts(self) -> tuple[HostFacts, ...]:
        """All that rows of this lab may have been measured on."""
        return (self.facts, *self.machines.all_facts)

    def note_failure(self) -> None:
        """A test failed in the guest at hand: that is the guest to keep for a look."""
        if self.settings.keep and self._kept is None and self._machine is not None:
            self._kept = self._machine

    @property
    def _machine(self) -> StartedGuest | None:
        """The guest at work, None where there is none."""
        held = self._rows.current
        return None if held is None or isinstance(held.row, Native) else held.row.machine

    def _release(self, row: Row) -> None:
        if isinstance(row, MachineRow):
            self.machines.release(row)
        elif isinstance(row, Native):
            self.pool.discard(row.host_disk)
        else:
            self._let_go(row.machine)

    def _let_go(self, machine: StartedGuest, *, keep: bool = False) -> None:
        if keep and self.settings.keep and self._kept is None:
            self._kept = machine
        if machine is not self._kept:
            self.pool.discard(machine)

    def close(self) -> StartedGuest | None:
        """Remove all that was made; returns the one guest that is kept running, where the user wants one."""
        self._kept = self._kept or (self._machine if self.settings.keep else None)
        self._rows.drop_all()
        try:
            self.pool.close(keep=self._kept)
            self.machines.close()
        finally:
            # both are done already, unless something could not be removed
            self.hypervisor.close()
            if self._kept is None and self.lease.root:
                self.shell.run(["rm", "-rf", "--", self.lease.root])
        return self._kept

"""A lab host in use by this process: an environment for each cell, made at its turn, removed at the end."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

from pytest_vmstorage.analysis.calibration import Calibration
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import LabHost
from pytest_vmstorage.config.settings import AccelChoice, HostWishes, LabSettings
from pytest_vmstorage.errors import GuestDiedError, GuestError, LostError, SpaceError, VmStorageError, WorkloadError
from pytest_vmstorage.guest.appliance.build import Appliance
from pytest_vmstorage.guest.guest import Guest
from pytest_vmstorage.guest.instance import StartedGuest
from pytest_vmstorage.guest.protocol import Hypervisor
from pytest_vmstorage.guest.provenance import Provenance
from pytest_vmstorage.guest.restore.restoring import Restoring
from pytest_vmstorage.host.lease import Lease, RunLease
from pytest_vmstorage.host.lock import HostLease
from pytest_vmstorage.host.settings import HostSettings
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.lab.environments import Services
from pytest_vmstorage.lab.factory import GuestFactory
from pytest_vmstorage.lab.image_operations import image_bench
from pytest_vmstorage.lab.machines import Machines
from pytest_vmstorage.lab.pool import Environment, GuestPool
from pytest_vmstorage.lab.prefetch import Prefetch, make_in_parallel
from pytest_vmstorage.lab.provisioner import Provisioner
from pytest_vmstorage.measure.image_operations import Bench
from pytest_vmstorage.progress import Progress, silent
from pytest_vmstorage.results.host import HostFacts
from pytest_vmstorage.results.spans import span
from pytest_vmstorage.workloads.image_operations import ImageOperations


@dataclass
class Lab:
    """A run's access to its host, opened once: hands out one environment per cell, and removes all at the end.

    `at_once` is how many guests may boot side by side. `teardown` has a step for each thing made so far; the last step
    runs first. Without `has_guests` nothing is measured on the host itself: all cells are machines that the plugin did
    not make. `calibration` is the host's, where it has one that holds. `remember_accel` and `restoring` go to the
    provisioner, which describes them.
    """

    settings: LabSettings
    host: LabHost
    shell: Shell
    hypervisor: Hypervisor
    factory: GuestFactory
    appliance: Appliance | None
    accel: AccelChoice
    facts: HostFacts
    held: RunLease
    remember_accel: Callable[[], None] = lambda: None
    host_settings: HostSettings | None = None
    at_once: int = 1
    host_lease: HostLease | None = None
    machines: Machines = field(default_factory=Machines)
    restoring: Restoring | None = None
    teardown: ExitStack = field(default_factory=ExitStack)
    has_guests: bool = True
    calibration: Calibration | None = None
    _broken: dict[StorageConfig, VmStorageError] = field(default_factory=dict)
    _lost: LostError | None = None

    def __post_init__(self) -> None:
        self.pool = GuestPool(self.factory)
        self.services = Services(
            shell=self.shell,
            host=self.host,
            factory=self.factory,
            prefetch=Prefetch(self.pool),
            provenance=Provenance(self.shell),
            settings=self.host_settings,
            root=self.lease.root,
            keep=self.settings.keep,
            is_emulated=self.accel.used == "tcg",
        )
        self.provisioner = Provisioner(
            services=self.services,
            settings=self.settings,
            accel=self.accel,
            machines=self.machines,
            restoring=self.restoring,
            tools=self.tools,
            libvirt=self.facts.libvirt,
            remember_accel=self.remember_accel,
        )

    @property
    def lease(self) -> Lease:
        """The lease, which names all that this run has made on the host."""
        return self.held.lease

    def expect(self, upcoming: Sequence[StorageConfig], alike: Collection[StorageConfig] = ()) -> None:
        """Expect turns of these cells, in that order; the cells in `alike` begin with the current test.

        Environments of other cells are released.
        """
        self.pool.expect(upcoming)
        self.services.prefetch.alike = alike

    def environment(self, config: StorageConfig, say: Progress = silent) -> Environment:
        """The environment of that cell: its guest, the host, or a machine; made unless there is one already.

        A cell that failed once fails again with the same error, without another try.
        """
        if config in self._broken:
            raise self._broken[config]
        with span("turn", cell=config):
            found = self.pool.turn_to(config)
        if found is None:
            return self._begin(config, say)
        if found.is_alive():
            return found
        self._broken[config] = found.explain(
            GuestDiedError(f"The guest of {config} ended before this test.", code="VM502")
        )
        self.pool.drop()
        raise self._broken[config]

    def guest(self, config: StorageConfig, say: Progress = silent) -> Guest:
        """The running guest of that cell, whose backing must not be native."""
        guest = self.environment(config, say).guest
        assert guest is not None, f"{config} has no guest"
        return guest

    def held_environment(self, config: StorageConfig) -> Environment | None:
        """The environment of that cell which is at work or waits, None where it would have to be made."""
        return self.pool.held(config)

    def _begin(self, config: StorageConfig, say: Progress) -> Environment:
        """Make that cell's environment, and at the same time guests whose turns come next."""
        self.pool.make_room(config)
        to_be_restored = self.provisioner.is_to_be_restored
        is_restored = to_be_restored(config)
        ahead = self.pool.ahead(config, self.at_once - 1, lambda one: to_be_restored(one) is is_restored)
        make_guest = self.provisioner.make_guest
        try:
            return make_in_parallel(
                lambda: self._make_here(config, say),
                {one: functools.partial(make_guest, one, silent) for one in ahead if one not in self._broken},
                take=self._take_ahead,
                restoring=self.provisioner.restoring,
            )
        except VmStorageError as error:
            self._broken[config] = error
            raise

    def _make_here(self, config: StorageConfig, say: Progress) -> Environment:
        while True:
            try:
                self.pool.current = made = self.provisioner.make(config, say)
                return made
            except SpaceError:
                # disks of waiting environments may take the room
                if not self.pool.let_one_go():
                    raise

    def _take_ahead(self, config: StorageConfig, made: Callable[[], Environment]) -> None:
        try:
            self.pool.wait(made())
        except SpaceError:
            # there may be room when its turn comes
            return
        except VmStorageError as error:
            self._broken[config] = error

    def set_on_host(self, wishes: HostWishes) -> None:
        """Change the settings that the run made on its host; raises HostError where that is impossible."""
        if self.host_settings is not None:
            self.host_settings.change(wishes, self.lease.folder)

    def renew(self, config: StorageConfig, say: Progress = silent, *, fresh: bool) -> Environment:
        """A new guest of that cell in place of the one at work: booted with `fresh`, else restored where it can be.

        Raises as `environment` does; a cell that fails is tried again at the next call.
        """
        self.pool.drop()
        self.pool.current = made = self.provisioner.make_guest(config, say, fresh=fresh)
        return made

    def drop(self) -> None:
        """Release the environment at work, so that the next round of its cell gets a new one."""
        self.pool.drop()

    def settle(self) -> None:
        """Wait until released environments are gone, so that they disturb no measurement."""
        self.factory.settle()

    def images(
        self, config: StorageConfig, workload: ImageOperations, say: Progress = silent
    ) -> AbstractContextManager[Bench]:
        """The bench for operations on whole images of that cell; another cell's guest is paused or released before."""
        self.pool.leave(config)
        return image_bench(self.shell, self.host, self.factory, config, workload, say)

    def explain(self, environment: Environment, error: VmStorageError) -> VmStorageError:
        """The error with its name and the evidence; a guest that is of no more use is released.

        An error of another kind than the workload's, the guest's or the host's is returned unchanged.
        """
        if not isinstance(error, WorkloadError | GuestError | LostError):
            return error
        known = environment.explain(error)
        if environment.guest is None:
            return known
        # where the host was lost, the fate of the command in its guest is unknown
        if isinstance(known, LostError):
            self._lost = self._lost or known
        if isinstance(known, GuestError | LostError):
            self._broken[environment.config] = known
            if not self.settings.keep:
                self.drop()
        return known

    def alone(self, say: Progress = silent, config: StorageConfig | None = None) -> AbstractContextManager[None]:
        """Context in which no other job measures on the host, or on the cell's machine; raises HostError."""
        if config is not None and config.is_machine and not self.machines.is_on(config, self.host):
            return self.machines.alone(config, say)
        lease = self.host_lease or HostLease(self.shell, self.host.name)
        if self._lost is not None and lease.is_lost:
            # a lost host is waited for only once
            raise self._broken.get(config, self._lost) if config is not None else self._lost
        return lease.alone(say)

    def facts_of(self, config: StorageConfig) -> HostFacts:
        """Facts of the host, or of the machine that the plugin did not make, on which that cell is measured."""
        return self.machines.facts(config) if config.is_machine else self.facts

    @property
    def tools(self) -> Mapping[str, str]:
        """Versions of the programs in the lab's guests, by their names."""
        return self.appliance.manifest.tools if self.appliance is not None else {}

    @property
    def all_facts(self) -> tuple[HostFacts, ...]:
        """Facts of every host and machine on which rows of this lab may have been measured."""
        return (*([self.facts] if self.has_guests else []), *self.machines.all_facts)

    def note_failure(self) -> None:
        """Note that a test failed in the guest at work: --vm-keep then keeps that guest."""
        guest = self.pool.current.guest if self.pool.current is not None else None
        if self.settings.keep and guest is not None:
            self.factory.keep(guest.machine)

    def close(self) -> StartedGuest | None:
        """Remove all that was made; returns the guest that is kept running, where the user wants one.

        Raises the first error of a removal; the lease then stays, so that the next run tries again.
        """
        self.note_failure()
        self.pool.drop_all()
        self.teardown.close()
        return self.factory.kept

"""Makes the environment of a cell, and proves that it is the cell: a guest, the host itself, or a listed machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.settings import AccelChoice, LabSettings
from pytest_vmstorage.errors import AttestationError, GuestError, ProvisionError, UnsupportedError
from pytest_vmstorage.guest.emulator import check_emulator
from pytest_vmstorage.guest.guest import Guest, connect
from pytest_vmstorage.guest.instance import StartedGuest
from pytest_vmstorage.guest.libvirt.messages import null_lacks
from pytest_vmstorage.guest.pinning import check_pinning
from pytest_vmstorage.guest.restore.restoring import Restoring
from pytest_vmstorage.guest.restore.states import is_meant_for
from pytest_vmstorage.host.device_node import node_facts
from pytest_vmstorage.host.facts import TOOL_VERSIONS
from pytest_vmstorage.host.file_systems import look_at
from pytest_vmstorage.host.shell import read_values
from pytest_vmstorage.lab.environments import GuestEnvironment, HostEnvironment, Services
from pytest_vmstorage.lab.machines import Machines
from pytest_vmstorage.lab.pool import Environment
from pytest_vmstorage.measure.diagnosis import explain_error
from pytest_vmstorage.measure.proof.cell import attest, attest_guest, conclude
from pytest_vmstorage.measure.proof.evidence import gather
from pytest_vmstorage.measure.proof.without_guest import conclude_native
from pytest_vmstorage.measure.system import Identity
from pytest_vmstorage.progress import Progress
from pytest_vmstorage.results.spans import span

_HOST_FACTS = 'echo "kernel=$(uname -r)"; echo "cpus=$(getconf _NPROCESSORS_ONLN)"'


@dataclass
class Provisioner:
    """Makes environments with a lab's services; `restoring` begins some guests from saved ones.

    `tools` are versions of the programs that the appliance has; `libvirt` is the host's version. `remember_accel` is
    called once a guest has answered under the acceleration that was chosen.
    """

    services: Services
    settings: LabSettings
    accel: AccelChoice
    machines: Machines
    restoring: Restoring | None
    tools: Mapping[str, str]
    libvirt: str
    remember_accel: Callable[[], None]

    def make(self, config: StorageConfig, say: Progress) -> Environment:
        """The cell's environment, proven.

        Raises ConfigError, HostError, UnsupportedError, ProvisionError, AttestationError, GuestError; SpaceError where
        it may help to release others. What was half made is removed.
        """
        if config.is_machine:
            return self.machines.make(config, self.services, say)
        return self._host(config, say) if config.is_native else self.make_guest(config, say)

    def is_to_be_restored(self, config: StorageConfig) -> bool:
        """Whether that cell's guest is to be restored, which takes a fraction of the time of a boot."""
        if self.restoring is None or self.settings.image is not None:
            return False
        return is_meant_for(config, self.settings.boot, self.accel.used, self.restoring.calibrated)

    def _host(self, config: StorageConfig, say: Progress) -> HostEnvironment:
        factory, shell = self.services.factory, self.services.shell
        disk = factory.make_disk(config, say)
        try:
            node = node_facts(shell, disk.path)
            ground = None if disk.is_block else look_at(shell, disk.path, superblock=bool(config.host_mkfs))
            identity = Identity(
                host=self.services.host.name,
                facts=read_values(shell, _HOST_FACTS),
                tools=read_values(shell, TOOL_VERSIONS),
                proof=conclude_native(disk, node, ground),
            )
            return HostEnvironment(disk, shell, identity, factory.folder, self.services)
        except BaseException:
            factory.discard(disk)
            raise

    def make_guest(self, config: StorageConfig, say: Progress, *, fresh: bool = False) -> GuestEnvironment:
        """The cell's guest, restored where it is meant to be; with `fresh` by a boot. Raises as `make` does."""
        services, factory = self.services, self.services.factory
        if config.is_null and (lacking := null_lacks(config.bus, self.libvirt)):
            raise UnsupportedError(
                f"backing=null cannot be had on {config.bus} here: {lacking}. Measure it on nvme.", code="VM531"
            )
        if config.emulator:
            check_emulator(services.shell, config.emulator, services.host.name)
        # a booted guest fills its own disk: that warms its fio, or the first round would take as much longer
        is_to_be_restored = not fresh and self.is_to_be_restored(config)
        fill_bytes = services.prefetch.fill_bytes(config) if is_to_be_restored else 0
        # acceleration was probed with the host's QEMU; for another emulator the proof (query-kvm) checks it
        machine = factory.make(config, self.accel.used, say, fresh=fresh, fill_bytes=fill_bytes)
        try:
            return GuestEnvironment(self._proven(config, machine, say), services)
        except (GuestError, ProvisionError, AttestationError) as error:
            if machine.is_restored and self.restoring is not None:
                # a saved guest is never the reason why a cell fails; if the boot fails too, the state is not to blame
                factory.discard(machine)
                booted = self.make_guest(config, say, fresh=True)
                self.restoring.distrust(machine.spec, error)
                return booted
            known = error if isinstance(error, AttestationError) else explain_error(machine, services.shell, error)
            if self.settings.keep and not isinstance(error, ProvisionError):
                factory.keep(machine)
            factory.discard(machine)
            raise known from None
        except BaseException:
            factory.discard(machine)
            raise

    def _proven(self, config: StorageConfig, machine: StartedGuest, say: Progress) -> Guest:
        shell = self.services.shell
        # while the guest boots, and before it is waited for: behind a wrong controller the disk never appears
        with span("proof", cell=config):
            evidence = gather(machine, shell, self.services.log(machine))
            seen = attest(config, machine.spec.accel, evidence)
            conclude(config, seen)
            if machine.spec.pinning is not None:
                check_pinning(shell, machine.domain, machine.spec.pinning)
        guest = connect(machine, timeout_s=self.settings.timeout_s, tools=self.tools, say=say)
        guest.proof = conclude(config, (*seen, *attest_guest(config, guest.facts)))
        guest.qemu = evidence.qemu if config.emulator else ""
        self.remember_accel()
        return guest

"""A lab without guests or libvirt, for runs whose cells are all machines that the plugin did not make."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Mapping

from pytest_vmstorage.config.inventory import LabHost
from pytest_vmstorage.config.settings import AccelChoice, LabSettings
from pytest_vmstorage.errors import UnsupportedError
from pytest_vmstorage.guest.boot import BootFiles
from pytest_vmstorage.guest.instance import StartedGuest
from pytest_vmstorage.guest.libvirt.confinement import Confinement
from pytest_vmstorage.guest.protocol import Domain
from pytest_vmstorage.host.lease import LIFETIME_S, Lease, LeaseBook, this_process
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.lab.factory import GuestFactory
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.lab.machines import Machines
from pytest_vmstorage.results.host import HostFacts


class NoHypervisor:
    """Stands where no guest is made: there is none to be found, and none can be started."""

    def start(self, xml: str) -> Domain:  # noqa: ARG002 (as the protocol has it)
        """Raise UnsupportedError."""
        raise UnsupportedError("No guest can be made: this run measures machines that the plugin did not make.")

    def restore(self, xml: str, path: str) -> Domain:  # noqa: ARG002 (as the protocol has it)
        """Raise UnsupportedError."""
        return self.start(xml)

    def find(self, uuid: str) -> Domain | None:  # noqa: ARG002 (as the protocol has it)
        """None."""
        return None

    def forget(self, uuid: str) -> None:
        """There is nothing known of it."""

    def versions(self) -> Mapping[str, str]:
        """None of anything."""
        return {}

    def supports_kvm(self, emulator: str) -> bool:  # noqa: ARG002 (as the protocol has it)
        """No."""
        return False

    def disk_buses(self, emulator: str, machine: str) -> frozenset[str]:  # noqa: ARG002 (as the protocol has it)
        """None."""
        return frozenset()

    def confinement(self) -> Confinement:
        """None."""
        return Confinement()

    def close(self) -> None:
        """Nothing to let go."""


class MachineLab(Lab):
    """A lab that has machines and nothing else."""

    @property
    def all_facts(self) -> tuple[HostFacts, ...]:
        """The machines: nothing is measured on this host."""
        return self.machines.all_facts

    def close(self) -> StartedGuest | None:
        """Remove what was made on the machines; there is no guest to keep."""
        self._rows.drop_all()
        self.machines.close()
        return None


def make_machine_lab(settings: LabSettings, book: LeaseBook) -> MachineLab:
    """The lab of a run without guests; nothing is made before a cell's turn, and nobody reached."""
    shell, hypervisor, run_id = LocalShell(), NoHypervisor(), uuid.uuid4().hex[:10]
    host = LabHost(name=socket.gethostname(), uri=None, ssh=None, folder="/nonexistent")
    lease = Lease(
        run_id=run_id,
        owner=this_process(),
        expires=time.time() + LIFETIME_S,
        uri=None,
        ssh=None,
        folder=f"{host.folder}/run-{run_id}",
    )
    boot = BootFiles(emulator="", kernel="", initrd="", root="")
    return MachineLab(
        settings=settings,
        host=host,
        shell=shell,
        hypervisor=hypervisor,
        pool=GuestFactory(shell=shell, host=host, hypervisor=hypervisor, boot=boot, lease=lease, book=book),
        appliance=None,
        accel=AccelChoice(used="tcg", requested=settings.accel, reason="no guest is made"),
        facts=HostFacts(name=host.name),
        lease=lease,
        machines=Machines(settings.inventory, book, wait_s=settings.wait_s),
    )

"""What is looked at and done from the host around the rounds of a guest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_vmstorage.guest.agent import AgentShell
from pytest_vmstorage.guest.guest import Guest
from pytest_vmstorage.guest.instance import StartedGuest
from pytest_vmstorage.host.counters import HostLook, Look
from pytest_vmstorage.host.shell import Shell, read_beginning
from pytest_vmstorage.host.watch import HostWatch
from pytest_vmstorage.lab.native import Native
from pytest_vmstorage.lab.reaper import DAEMON_LOGS
from pytest_vmstorage.measure.proof.evidence import block_counters, fallback_lines, io_counters
from pytest_vmstorage.measure.proof.guest import changed_in_guest
from pytest_vmstorage.results.counters import guest_counters, read_guest_stat
from pytest_vmstorage.storage.caches import drop_caches, sync_disk
from pytest_vmstorage.units import format_size

CONSOLE_BYTES = 16 * 2**20
"""How much a guest may write to its serial console; a kernel in trouble writes a few hundred KiB."""


class HostObserver:
    """Looks through a host's shell; `root` is that of the embedded driver's state, "" where a daemon runs guests."""

    def __init__(self, shell: Shell, root: str) -> None:
        self._shell = shell
        self._root = root
        self._watches: dict[str, HostWatch] = {}

    def log(self, machine: StartedGuest) -> str:
        """Path on the host of what libvirt and QEMU wrote about the guest."""
        folder = f"{self._root}/log/qemu" if self._root else DAEMON_LOGS
        return f"{folder}/{machine.domain_name}.log"

    def drop_host_caches(self, path: str) -> str:
        """Make the host forget what it cached of a disk; says how."""
        return drop_caches(self._shell, path)

    def put_by(self, row: Guest | Native) -> None:
        """A row waits: its guest's processors stop, and nothing of it is left to be written while others measure.

        Nothing is dropped: that is done before each round, unless the user wants it left out.
        """
        if not isinstance(row, Native):
            row.machine.domain.pause()
        if isinstance(row, Native):
            sync_disk(row.shell, row.disk)
        else:
            sync_disk(self._shell, row.machine.spec.disk)

    def look(self, guest: Guest, watch: HostWatch | None = None) -> Look:
        """What guest, QEMU's block layer and host have counted so far for the guest's disk."""
        host = (watch or self.watch(guest)).look()
        return _look(host, block_counters(guest.machine), _moved_in(guest))

    def begin_look(self, guest: Guest, watch: HostWatch) -> Callable[[], Look]:
        """Look at what guest and QEMU's block layer have counted; what is returned looks at the host, too."""
        moved, block = _moved_in(guest), block_counters(guest.machine)
        return lambda: _look(watch.look(), block, moved)

    def watch(self, guest: Guest) -> HostWatch:
        """The host around that guest's disk; its process and the device below do not change while it lives."""
        spec = guest.machine.spec
        disk = "" if guest.config.is_null else spec.disk
        return self._watches.setdefault(spec.uuid, HostWatch(self._shell, disk, spec.uuid))

    def changed(self, guest: Guest) -> str:
        """What is no longer as it was proven before the first I/O, in a clause; empty where all is.

        The guest can turn its disk's write cache off and on, QEMU finds out late that it has no io_uring, and a
        command may be lost, for which the guest waits half a minute.
        """
        fallen = fallback_lines(self._shell.read(self.log(guest.machine)))
        if fallen and guest.config.io != "threads":
            return f"io is no longer {guest.config.io}: {'; '.join(fallen)} (QEMU's log)"
        console = read_beginning(self._shell, guest.machine.spec.console, CONSOLE_BYTES + 1)
        if len(console) > CONSOLE_BYTES:
            # nothing else stops it: libvirt lets a guest write to its console what the folder for disks holds
            guest.machine.domain.destroy()
            return f"the guest wrote more than {format_size(CONSOLE_BYTES)} to its console, so it was ended"
        return changed_in_guest(guest.shell, guest.facts, console)


def _look(host: HostLook, block: Mapping[str, int], moved: Mapping[str, int]) -> Look:
    return Look(moved=io_counters(host, block, moved), process=host.process, pressure=host.pressure)


def _moved_in(guest: Guest) -> Mapping[str, int]:
    """What the guest itself has counted for its disk."""
    name, shell = Path(guest.disk).name, guest.shell
    sectors = shell.disk_sectors(name) if isinstance(shell, AgentShell) else None
    return guest_counters(*sectors) if sectors is not None else read_guest_stat(shell.read(f"/sys/block/{name}/stat"))

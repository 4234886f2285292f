"""Removes what dead runs left on a host, and nothing else: guests, disks, mounts, commands, folders, leases.

Each step needs the previous one: a guest holds its disk, a command the mount it writes to, a mount its loop device or
volume, and all of them the folder. The lease goes last, so that a failed removal is tried again.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from pytest_vmstorage.config.inventory import LabHost
from pytest_vmstorage.errors import ProvisionError, VmStorageError, signed
from pytest_vmstorage.guest.protocol import Hypervisor
from pytest_vmstorage.host.lease import Lease, LeaseBook, is_dead
from pytest_vmstorage.host.settings import set_back
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.leftovers import boot_id
from pytest_vmstorage.storage.block import reap_blocks
from pytest_vmstorage.storage.host_file_system import reap_host_fs, remove_folder

_RUN = re.compile(r"\w+")

# The run's id comes by stdin, so that neither this script nor the ssh that carries it has it among its words.
# A command with a terminal and a parent is a user's who looks at the run's files. Guests are left to libvirt.
_SCRIPT = r"""
exec 2>/dev/null
read -r run
pattern='(run|vms(torage)?)-%s([^[:alnum:]]|$)\n'
named() { printf "$pattern" "$run" | grep -lzsE -f - /proc/[0-9]*/cmdline | cut -d/ -f3; }
left() {
    for pid in $(named); do
        stat=$(cat "/proc/$pid/stat") || continue
        name=${stat#*(} name=${name%)*}
        set -- ${stat##*) }
        case $name in qemu-system* | qemu-kvm) continue ;; esac
        [ "$1" != Z ] && { [ "$2" = 1 ] || [ "$5" = 0 ]; } || continue
        tr '\0' '\n' <"/proc/$pid/cmdline" | grep -qx -e -uuid || echo "$pid $name"
    done
}
found=$(left)
[ -n "$found" ] && echo "$found" || exit 0
[ "$1" = look ] && exit
tries=0
while :; do
    kill -KILL $(echo "$found" | cut -d' ' -f1)
    sleep 0.1
    found=$(left)
    [ -n "$found" ] || exit 0
    [ $((tries += 1)) -lt 100 ] || exit 1
done
"""


def end_orphans(shell: Shell, run_id: str, *, look_only: bool = False) -> list[str]:
    """Kill commands that have the run's folder or volumes in their command lines; a phrase for each.

    With `look_only` they are only listed. Raises ProvisionError where one survives.
    """
    if _RUN.fullmatch(run_id) is None:
        # the id becomes part of a pattern, and its lease may be damaged
        raise ProvisionError(f"{run_id!r} is not a run's id.", code="VM447")
    done = shell.run(["sh", "-c", _SCRIPT, "sh", "look" if look_only else "end"], stdin=f"{run_id}\n".encode())
    found = [line.split(" ", 1) for line in done.stdout.splitlines()]
    said = [f"{name} (pid {pid})" for pid, name in found]
    if not done.ok:
        raise ProvisionError(
            f"a command of that run is still running: {', '.join(said)}.",
            hint="It may be another user's, or wait for a disk that does not answer: end it there.",
            code="VM446",
        )
    return said


DAEMON_LOGS = "/var/log/libvirt/qemu"
"""The folder of a libvirt daemon's logs of QEMU, a file for each guest."""

_PATIENCE_S = 10.0
_THERE = 'for one; do [ ! -e "$one" ] || printf "%s\\n" "$one"; done'


@dataclass(frozen=True)
class Reaped:
    """Result of reaping a dead run, as a sentence; `is_clear` says that nothing is left of it."""

    sentence: str
    is_clear: bool = True

    def __str__(self) -> str:
        return self.sentence


class Guests(Protocol):
    """Access to a dead run's guests on their host."""

    def look(self, lease: Lease) -> list[str]:
        """A phrase for each guest that is there."""

    def end(self, lease: Lease) -> None:
        """End the guests and wait until QEMU is gone. Raises VmStorageError."""


def reap(book: LeaseBook, shell: Shell, *, kept: bool = False, look_only: bool = False) -> list[Reaped]:
    """Remove what dead owners left on this machine; a sentence for each lease.

    Only the lease's own things are touched: QEMU processes with a leased UUID, things named with the run's id, and its
    folders. Leases of other lab hosts are left for a run that can reach them. `kept` includes guests of --vm-keep;
    with `look_only` all is only listed.
    """
    dead = (lease for lease in book if _is_here(lease) and (is_dead(lease) or (kept and lease.kept)))
    return _each(dead, book, shell, LocalGuests(), "", look_only)


def leases_of(book: LeaseBook, host: LabHost, *, kept: bool = False) -> Iterator[Lease]:
    """Leases on that lab host whose owner is dead; `kept` includes those of --vm-keep."""
    on_host = (lease for lease in book if lease.ssh is not None and lease.ssh == host.ssh)
    return (lease for lease in on_host if is_dead(lease) or (kept and lease.kept))


def reap_remote(
    book: LeaseBook, host: LabHost, shell: Shell, hypervisor: Hypervisor, *, kept: bool = False, look_only: bool = False
) -> list[Reaped]:
    """Reap on a lab host that was just reached: guests through its libvirt, all else through its shell."""
    guests = RemoteGuests(shell, hypervisor)
    return _each(leases_of(book, host, kept=kept), book, shell, guests, host.name, look_only)


def _each(
    dead: Iterator[Lease], book: LeaseBook, shell: Shell, guests: Guests, host: str, look_only: bool
) -> list[Reaped]:
    with book.alone("reap.lock"):
        if not look_only:
            book.drop_drafts()
        # listed only now, when no other process removes them
        return [_one(lease, book, shell, guests, host, look_only) for lease in list(dead)]


def _one(lease: Lease, book: LeaseBook, shell: Shell, guests: Guests, host: str, look_only: bool) -> Reaped:
    on, whose = f" on {host}" if host else "", f"({lease.owned_by}, {'kept' if lease.kept else 'gone'})"
    try:
        if look_only:
            return Reaped(f"run {lease.run_id} left{on}: {', '.join(_look(lease, shell, guests))} {whose}")
        found = _clear(lease, shell, guests, book)
    except VmStorageError as error:
        # a later run may be able to remove it; this run continues with its own work
        again = f"Its lease stays: `vmstorage reap{f' --host={host}' if host else ''}` tries again."
        said = f"could not remove all that run {lease.run_id} left{on} {whose}: {error.told} {again}"
        return Reaped(signed(said, error.code), is_clear=False)
    book.drop(lease)
    return Reaped(f"removed what run {lease.run_id} left{on}: {', '.join(found)} {whose}")


def _look(lease: Lease, shell: Shell, guests: Guests) -> list[str]:
    found = guests.look(lease)
    return [f"{len(found)} guest(s)", *_made(lease, shell, look_only=True), *(one.path for one in lease.settings)]


def _clear(lease: Lease, shell: Shell, guests: Guests, book: LeaseBook) -> list[str]:
    ended = guests.look(lease)
    guests.end(lease)
    made = _made(lease, shell)
    # a guest that was about to start when its run was killed could not be seen before
    late = guests.look(lease)
    guests.end(lease)
    return [f"{len({*ended, *late})} guest(s)", *made, *_set_back(lease, shell, book)]


def _made(lease: Lease, shell: Shell, *, look_only: bool = False) -> list[str]:
    """Remove, or list, all that a run whose guests are gone has made; a phrase for each."""
    folders = [folder for folder in (lease.folder, lease.root) if _is_ours(lease, folder)]
    if not folders:
        return []
    said = end_orphans(shell, lease.run_id, look_only=look_only)
    for folder in folders:
        said += reap_host_fs(shell, folder, look_only=look_only)
    said += reap_blocks(shell, lease.run_id, look_only=look_only)
    there = shell.run(["sh", "-c", _THERE, "sh", *folders]).stdout.splitlines()
    for folder in there if not look_only else ():
        remove_folder(shell, folder)
    return [*said, *there]


def daemon_logs(run_id: str) -> str:
    """Common beginning of the paths of a libvirt daemon's logs of the run's guests."""
    return f"{DAEMON_LOGS}/vms-{run_id}-"


def remove_logs(shell: Shell, run_id: str) -> None:
    """Remove a libvirt daemon's logs of that run's guests; where this user may not, its logrotate will."""
    shell.run(["sh", "-c", 'rm -f -- "$1"*.log "$1"*.log.*', "sh", daemon_logs(run_id)])


def _set_back(lease: Lease, shell: Shell, book: LeaseBook) -> list[str]:
    """Restore the host settings that the run changed; a phrase for each kind."""
    if not lease.settings:
        return []
    with book.alone():
        return set_back(shell, lease.settings, {one.path for one in book.held_beside(lease)})


def _is_here(lease: Lease) -> bool:
    # machines may share a home folder: the things of another machine cannot be removed here
    owner = lease.owner
    return lease.ssh is None and (owner.host == socket.gethostname() or owner.boot_id == boot_id())


def _is_ours(lease: Lease, folder: str) -> bool:
    # a lease file could be damaged or hostile: only folders that end in the run's id are ever removed
    return bool(lease.run_id) and Path(folder).name.endswith(f"-{lease.run_id}")


class RemoteGuests:
    """Guests of a libvirt daemon on another machine."""

    def __init__(self, shell: Shell, hypervisor: Hypervisor) -> None:
        self._shell = shell
        self._hypervisor = hypervisor

    def look(self, lease: Lease) -> list[str]:
        """UUIDs of the guests that this libvirt knows."""
        return [domain for domain in lease.domains if self._hypervisor.find(domain) is not None]

    def end(self, lease: Lease) -> None:
        """Destroy the guests, and remove their definitions and logs from libvirt."""
        # a guest that is being started is known to libvirt or has a process, and soon both
        _within(_PATIENCE_S / 2, lambda: self._ended(lease))
        self._check_gone(lease)
        for domain in lease.domains:
            self._hypervisor.forget(domain)
        remove_logs(self._shell, lease.run_id)

    def _ended(self, lease: Lease) -> bool:
        guests = [domain for domain in map(self._hypervisor.find, lease.domains) if domain is not None]
        for domain in guests:
            domain.destroy()
        return not guests and not self._processes(lease)

    def _processes(self, lease: Lease) -> list[str]:
        if not lease.domains:
            return []
        pattern = f"^[^ ]*qemu.* -uuid ({'|'.join(lease.domains)})( |$)"
        return self._shell.run(["pgrep", "-f", "--", pattern]).stdout.split()

    def _check_gone(self, lease: Lease) -> None:
        """Raise ProvisionError where a QEMU runs that this libvirt does not know: its disk must stay."""
        if found := self._processes(lease):
            raise ProvisionError(
                f"a guest of that run is still process {found[0]} there, and libvirt there does not know it.",
                hint=f"Look at it, and end it with `kill {found[0]}` on that host.",
                code="VM446",
            )


class LocalGuests:
    """Guests of the embedded driver: QEMU processes of this machine whose libvirt is gone."""

    def look(self, lease: Lease) -> list[str]:
        """Pids, also of a QEMU without a guest that libvirt started to probe its capabilities."""
        return [str(pid) for pid in self._pids(lease)]

    def end(self, lease: Lease) -> None:
        """Kill the guests and wait until they are gone. Raises ProvisionError if one survives."""
        pids = self._pids(lease)
        for pid in pids:
            _kill(pid)
        if not _within(_PATIENCE_S, lambda: not any(_is_of(lease, _arguments(pid)) for pid in pids)):
            raise ProvisionError(
                f"QEMU (pid {pids[0]}) is still there {_PATIENCE_S:.0f} s after SIGKILL.",
                hint="It may wait for a disk that does not answer.",
                code="VM446",
            )

    def _pids(self, lease: Lease) -> list[int]:
        return [pid for pid in _all_processes() if _is_of(lease, _arguments(pid))]


def _within(seconds: float, happened: Callable[[], bool]) -> bool:
    """Whether `happened` becomes true within that time."""
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _is_of(lease: Lease, words: list[str]) -> bool:
    """Whether a QEMU with that command line is a guest of the run, or a probe of its libvirt."""
    is_probe = _is_ours(lease, lease.root) and "-pidfile" in words and any(f"{lease.root}/" in word for word in words)
    return is_probe or any(("-uuid", domain) in pairwise(words) for domain in lease.domains)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    except PermissionError:
        raise ProvisionError(
            f"QEMU (pid {pid}) belongs to another user.", hint="Run this as that user.", code="VM446"
        ) from None


def _all_processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _arguments(pid: int) -> list[str]:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
    return words if "qemu" in words[0] else []

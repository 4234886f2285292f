"""Removes what dead runs left on this machine, and nothing else."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

from pytest_vmstorage.command import Shell
from pytest_vmstorage.errors import ProvisionError
from pytest_vmstorage.inventory import LabHost
from pytest_vmstorage.provision.block import reap_blocks
from pytest_vmstorage.provision.host_fs import remove_folder
from pytest_vmstorage.provision.host_settings import set_back
from pytest_vmstorage.provision.hypervisor import Hypervisor
from pytest_vmstorage.provision.lease import Lease, LeaseBook, boot_id, is_dead

_PATIENCE_S = 10.0


def reap(book: LeaseBook, shell: Shell, *, kept: bool = False) -> list[str]:
    """Remove guests and folders of dead owners; returns a sentence for each lease that was cleared, or could not be.

    Only what a lease names is touched: QEMU processes that carry a leased UUID, and the two leased folders.
    Leases of other lab hosts are left for a run that can reach them. `kept` takes guests of --vm-keep as well.
    """
    said = []
    for lease in list(book):
        wanted = is_dead(lease) or (kept and lease.kept)
        if not wanted or not _is_here(lease):
            continue
        try:
            said.append(_clear(lease, shell, book))
        except ProvisionError as error:
            # a later run may have the means; this one has work of its own to do
            said.append(f"could not remove all that run {lease.run_id} left: {error}")
        else:
            book.drop(lease)
    return said


def reap_remote(book: LeaseBook, host: LabHost, shell: Shell, hypervisor: Hypervisor) -> list[str]:
    """The same for a lab host that was reached just now: guests through its libvirt, folders through its shell."""
    said = []
    for lease in list(book):
        if lease.ssh is None or lease.ssh != host.ssh or not is_dead(lease):
            continue
        guests = [domain for domain in map(hypervisor.find, lease.domains) if domain is not None]
        for domain in guests:
            domain.destroy()
        removed = [*_remove_made(lease, shell), *_set_back(lease, shell, book)]
        book.drop(lease)
        what = ", ".join([f"{len(guests)} guest(s)", *removed])
        said.append(f"removed what run {lease.run_id} left on {host.name}: {what}")
    return said


def _clear(lease: Lease, shell: Shell, book: LeaseBook) -> str:
    guests = sum(_kill_guest(domain) for domain in lease.domains)
    removed = [*_remove_made(lease, shell), *_set_back(lease, shell, book)]
    owner = f"pid {lease.owner.pid} of {lease.owner.host}, gone"
    return f"removed what run {lease.run_id} ({owner}) left: {', '.join([f'{guests} guest(s)', *removed])}"


def _remove_made(lease: Lease, shell: Shell) -> list[str]:
    """Remove folders and volumes of a run whose guests are gone; what each was."""
    folders = [folder for folder in (lease.folder, lease.root) if _is_ours(lease, folder)]
    for folder in folders:
        remove_folder(shell, folder)
    return [*folders, *(reap_blocks(shell, lease.run_id) if folders else [])]


def _set_back(lease: Lease, shell: Shell, book: LeaseBook) -> list[str]:
    """Set back what the run changed of its host's settings; a phrase for each kind."""
    if not lease.settings:
        return []
    with book.alone():
        return set_back(shell, lease.settings, {one.path for one in book.held_beside(lease)})


def _is_here(lease: Lease) -> bool:
    # a home folder may be shared by machines: the things of another one cannot be removed here
    owner = lease.owner
    return lease.ssh is None and (owner.host == socket.gethostname() or owner.boot_id == boot_id())


def _is_ours(lease: Lease, folder: str) -> bool:
    # a lease file could be damaged or hostile: only folders that end in the run's id are ever removed
    return bool(lease.run_id) and Path(folder).name.endswith(f"-{lease.run_id}")


def _kill_guest(domain_uuid: str) -> int:
    """Kill the QEMU that runs the domain of that UUID; how many there were. Raises ProvisionError if one lives on."""
    pids = [pid for pid in _qemu_processes() if domain_uuid in _arguments(pid)]
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        except PermissionError:
            raise ProvisionError(f"QEMU (pid {pid}) belongs to another user.", hint="Run this as that user.") from None
    deadline = time.monotonic() + _PATIENCE_S
    while any(domain_uuid in _arguments(pid) for pid in pids):
        if time.monotonic() > deadline:
            raise ProvisionError(f"QEMU (pid {pids[0]}) is still there {_PATIENCE_S:.0f} s after SIGKILL.")
        time.sleep(0.02)
    return len(pids)


def _qemu_processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _arguments(pid: int) -> list[str]:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
    return words if "qemu" in words[0] else []

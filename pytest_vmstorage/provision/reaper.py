"""Removes what dead runs left on this machine, and nothing else."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from pytest_vmstorage.command import Shell, check
from pytest_vmstorage.provision.lease import Lease, LeaseBook

_PATIENCE_S = 10.0


def reap(book: LeaseBook, shell: Shell) -> list[str]:
    """Remove guests and folders of dead owners; returns a sentence for each lease that was cleared.

    Only what a lease names is touched: QEMU processes that carry a leased UUID, and the two leased folders.
    Leases of other lab hosts are left for a run that can reach them.
    """
    done = []
    for lease in book.dead():
        if lease.ssh is not None:
            continue
        guests = sum(_kill_guest(domain) for domain in lease.domains)
        for folder in (lease.folder, lease.root):
            if folder and _is_ours(lease, folder):
                check(shell.run(["rm", "-rf", "--", folder]), f"removing {folder}")
        book.drop(lease)
        owner = f"pid {lease.owner.pid} of {lease.owner.host}"
        done.append(f"removed what run {lease.run_id} ({owner}, dead) left: {guests} guest(s), {lease.folder}")
    return done


def _is_ours(lease: Lease, folder: str) -> bool:
    # a lease file could be damaged or hostile: only folders that carry the run's id are ever removed
    return lease.run_id in Path(folder).name


def _kill_guest(domain_uuid: str) -> int:
    """Kill the QEMU that runs the domain of that UUID; 1 if there was one."""
    pids = [pid for pid in _qemu_processes() if domain_uuid in _arguments(pid)]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + _PATIENCE_S
    while any(domain_uuid in _arguments(pid) for pid in pids) and time.monotonic() < deadline:
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

"""One look into a guest after the last round: whether its disk is still what was proven before the first I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from pytest_vmstorage.command import Shell, reread
from pytest_vmstorage.guest_facts import GuestFacts, chosen_scheduler
from pytest_vmstorage.kernel_log import TROUBLE

_TROUBLE = re.compile(rf".*(?:{TROUBLE}|Remounting filesystem read-only).*")


def changed_in_guest(shell: Shell, facts: GuestFacts, console: str) -> str:
    """What is no longer as the facts have it, in a clause; "" where all is, and the kernel logged no trouble.

    `console` has the kernel's warnings and errors. Files are read through the agent: a process takes an emulated
    guest several times as long.
    """
    return "; ".join(_changes(shell, facts, console))


def _changes(shell: Shell, facts: GuestFacts, console: str) -> Iterator[str]:
    trouble = _TROUBLE.search(console)
    if trouble:
        yield f"the guest's kernel had trouble with its disk: {trouble[0].strip()}"
    queue = f"/sys/block/{PurePosixPath(facts.disk).name}/queue"
    now = {
        "cache": (facts.write_cache, reread(shell, f"{queue}/write_cache").strip() or "unknown"),
        "scheduler": (facts.scheduler, chosen_scheduler(reread(shell, f"{queue}/scheduler")) or "unknown"),
    }
    if facts.mounted:
        now["guest_mount"] = ("rw", _writable(reread(shell, "/proc/mounts"), facts.disk))
    for field, (then, found) in now.items():
        if then != found:
            yield f"after the last round {field} is {found} (guest sysfs), not {then}"


def _writable(mounts: str, disk: str) -> str:
    """What the disk is mounted as: rw, ro, or not at all."""
    options = [words[3].split(",") for line in mounts.splitlines() if (words := line.split())[:1] == [disk]]
    if not options:
        return "not mounted"
    return "rw" if all("rw" in one for one in options) else options[0][0]

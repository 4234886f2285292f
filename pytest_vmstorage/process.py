"""This process and others, told apart for certain, also by what a file's name says of its maker."""

from __future__ import annotations

import os
import time
from pathlib import Path

DAY_S = 24 * 3600.0


def boot_id() -> str:
    """The kernel's id of this boot, from /proc/sys/kernel/random/boot_id."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def pid_namespace() -> str:
    """The number of the namespace in which this process's pids count: a container has another than its host."""
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def started_ticks(pid: int) -> int | None:
    """When that process started, in clock ticks since boot (proc(5), stat field 22); None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # the command name may hold spaces and brackets, so count from the last ")"
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def mark() -> str:
    """This process as a part of a file's name: namespace, pid and start, such as "4026531836-1234-567890"."""
    pid = os.getpid()
    return f"{pid_namespace()}-{pid}-{started_ticks(pid) or 0}"


def is_left(path: Path, marked: str) -> bool:
    """Whether the file's maker, by that mark, is gone; one that cannot be seen from here is after a day."""
    namespace, pid, ticks = marked.split("-")
    if namespace == pid_namespace():
        return started_ticks(int(pid)) != int(ticks)
    try:
        return time.time() - path.lstat().st_mtime > DAY_S
    except OSError:
        return False

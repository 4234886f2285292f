"""An orphan made while a guest starts becomes this process's child, and does not stay a zombie."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from pytest_vmstorage.provision.adopt import adopting


def orphan(seconds: float, pid_file: Path) -> int:
    """Pid of a process whose parent has ended; it is in the file before the process runs, as libvirt has it."""
    script = f"sleep {seconds} >/dev/null 2>&1 & echo $! >{pid_file}"
    subprocess.run(["sh", "-c", script], check=True)
    return int(pid_file.read_text())


def parent(pid: int) -> int:
    """Pid of the parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def assert_gone(pid: int) -> None:
    """There is soon no process of that pid, not even a zombie."""
    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, "nobody waited for the orphan"
        time.sleep(0.01)


def test_an_orphan_is_waited_for(tmp_path: Path) -> None:
    """It is our child while it runs, also after the start, and is gone when it ends."""
    with adopting(tmp_path / "pid"):
        pid = orphan(0.2, tmp_path / "pid")
        assert parent(pid) == os.getpid()
    assert_gone(pid)


def test_an_orphan_that_ends_while_starting_is_waited_for(tmp_path: Path) -> None:
    """libvirt waits within the start for a QEMU that fails at once: it is gone before the context ends."""
    with adopting(tmp_path / "pid"):
        assert_gone(orphan(0, tmp_path / "pid"))


def test_two_starts_side_by_side_adopt_their_own(tmp_path: Path) -> None:
    """The end of one start is none of the other's."""
    with adopting(tmp_path / "pid"):
        with adopting(tmp_path / "other"):
            other = orphan(0, tmp_path / "other")
        pid = orphan(0.2, tmp_path / "pid")
        assert parent(pid) == os.getpid()
    assert_gone(pid)
    assert_gone(other)


def test_orphans_of_others_are_left_alone(tmp_path: Path) -> None:
    """Outside the context an orphan goes where it went without this plugin."""
    with adopting(tmp_path / "none"):
        pass
    pid = orphan(30, tmp_path / "pid")
    try:
        assert parent(pid) != os.getpid()
    finally:
        os.kill(pid, 9)

"""An orphan made while a guest starts becomes this process's child, and does not stay a zombie.

Tests of the adoption in `guest.libvirt.start`.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from pytest_vmstorage.guest.libvirt import start
from pytest_vmstorage.guest.libvirt.start import adoption, orphan_daemons

PROCESSES = Path.glob


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
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, "nobody waited for the orphan"
        time.sleep(0.01)


def test_an_orphan_is_waited_for(tmp_path: Path) -> None:
    """It is our child while it runs, also after the start, and is gone when it ends."""
    with adoption(tmp_path / "pid"):
        pid = orphan(0.2, tmp_path / "pid")
        assert parent(pid) == os.getpid()
    assert_gone(pid)


def test_an_orphan_that_ends_while_starting_is_waited_for(tmp_path: Path) -> None:
    """libvirt waits within the start for a QEMU that fails at once: it is gone before the context ends."""
    with adoption(tmp_path / "pid"):
        assert_gone(orphan(0, tmp_path / "pid"))


def test_two_starts_side_by_side_adopt_their_own(tmp_path: Path) -> None:
    """The end of one start is none of the other's."""
    with adoption(tmp_path / "pid"):
        with adoption(tmp_path / "other"):
            other = orphan(0, tmp_path / "other")
        pid = orphan(0.2, tmp_path / "pid")
        assert parent(pid) == os.getpid()
    assert_gone(pid)
    assert_gone(other)


def test_orphans_of_others_are_left_alone(tmp_path: Path) -> None:
    """Outside the context an orphan goes where it went without this plugin."""
    with adoption(tmp_path / "none"):
        pass
    pid = orphan(30, tmp_path / "pid")
    try:
        assert parent(pid) != os.getpid()
    finally:
        os.kill(pid, 9)


def daemon(seconds: float, pid_file: Path) -> int:
    """Pid of a daemon made as libvirt and QEMU make theirs: in a session whose leader has ended."""
    made = pid_file.with_suffix(".made")
    inner = f"sleep {seconds} >/dev/null 2>&1 & echo $! >{made}"
    subprocess.run(["setsid", "sh", "-c", inner], check=True)
    return int(made.read_text())


def test_a_daemon_that_no_file_names_is_waited_for(tmp_path: Path) -> None:
    """libvirt starts a QEMU to ask what it can, ends it, and waits 40 s for one that nobody reaps."""
    with adoption(tmp_path / "guest.pid"):
        assert_gone(daemon(0, tmp_path / "probe"))
        late = daemon(0.2, tmp_path / "late")
        assert parent(late) == os.getpid()
    assert_gone(late)


@pytest.mark.parametrize("start_new_session", [False, True])
def test_a_child_of_somebody_else_keeps_its_exit_status(tmp_path: Path, start_new_session: bool) -> None:
    """What a test starts by itself is its own to wait for, in whichever session it is."""
    with adoption(tmp_path / "guest.pid"):
        child = subprocess.Popen(["sh", "-c", "exit 7"], start_new_session=start_new_session)
        # by when this daemon is gone, all that was to be reaped is
        assert_gone(daemon(0.1, tmp_path / "probe"))
        assert child.pid not in orphan_daemons()
        assert child.wait(5) == 7


def test_children_are_found_where_the_kernel_has_no_list_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """By all processes' parents."""
    child = subprocess.Popen(["sleep", "30"])
    try:
        assert child.pid in start._children()
        monkeypatch.setattr(
            Path, "glob", lambda path, pattern: [] if "children" in pattern else PROCESSES(path, pattern)
        )
        assert child.pid in start._children()
    finally:
        child.kill()
        child.wait()

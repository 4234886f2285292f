"""A fio that waits: real shells and pipes, and in place of fio a script that says what it was told."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vmstorage.errors import WorkloadError
from pytest_vmstorage.guest.restore import parking
from pytest_vmstorage.guest.restore.parking import END_PARKED_FIO, PARK_FIO, end_parked_fio, run_fio
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.testing.shell import FakeShell

FILES = "/run/vmstorage-parked-fio"
FILL = ("fio", "--name=fill", "--bs=1048576", "--thread", r"--filename=/mnt/a b\n", "--output=/dev/null")

# reads a job file as fio does, which is all that the one that waits was told; else writes down its words
FIO = """#!/bin/sh
case $* in
    *--name*) printf '%s|' "$@" >"{folder}/words"; exit 0 ;;
esac
for job; do :; done
while IFS= read -r line; do printf '%s\\n' "$line"; done <"$job" >"{folder}/job.new"
mv "{folder}/job.new" "{folder}/job"
if grep -q broken "{folder}/job"; then echo "fio: no space" >&2; exit 3; fi
# a job without a thread is a process of its own
if grep -q slow "{folder}/job"; then sleep 60 & echo $! >"{folder}/worker"; wait; fi
"""


class Guest:
    """A shell that has begun a fio, whose files lie in a folder here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, script: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run lines of sh there with these words after them."""
        script = script.replace(FILES, str(self.folder / "parked"))
        argv = ["/bin/sh", "-ec", script, "sh", *words]
        return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)

    def fio(self, *words: str) -> subprocess.CompletedProcess[str]:
        """What fio is to do, by the one that waits if there is one."""
        return self.run(parking._BY_PARKED_FIO, *words)

    def read(self, name: str) -> str | None:
        """A file that fio wrote, None where it did not."""
        path = self.folder / name
        return path.read_text() if path.exists() else None

    @property
    def pid(self) -> int:
        """That of the one that waits."""
        return int((self.folder / "parked.pid").read_text())


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guest]:
    """One in which a fio waits."""
    (tmp_path / "bin").mkdir()
    stub = tmp_path / "bin" / "fio"
    stub.write_text(FIO.format(folder=tmp_path))
    stub.chmod(0o755)
    # whether a kernel tells where a process waits is its own affair
    found = tmp_path / "bin" / "grep"
    found.write_text(f'#!/bin/sh\ncase $* in *wchan) exit 0 ;; esac\nexec {shutil.which("grep")} "$@"\n')
    found.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    made = Guest(tmp_path)
    begun = made.run(PARK_FIO)
    assert begun.returncode == 0, begun
    yield made
    made.run(END_PARKED_FIO)
    # who still waits for a reader of the exit status of a fio that was killed ends with this one
    with contextlib.suppress(FileNotFoundError):
        os.close(os.open(tmp_path / "parked.code", os.O_RDONLY | os.O_NONBLOCK))


def assert_gone(pid: int) -> None:
    """The process ends soon; its parent has ended, so that nobody here has to ask for it."""
    deadline = time.monotonic() + 60
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # gone before it is opened, or read
        while ") Z " not in Path(f"/proc/{pid}/stat").read_text():
            assert time.monotonic() < deadline, "it did not end"
            time.sleep(0.01)


def test_it_does_what_it_is_told_once(guest: Guest) -> None:
    """The words become lines of its job file, but for those that it was begun with; who comes later has its own fio."""
    assert guest.fio(*FILL).returncode == 0
    assert guest.read("job") == "[fill]\nbs=1048576\nthread\nfilename=/mnt/a b\\n\n"
    assert guest.read("words") is None
    assert guest.fio(*FILL).returncode == 0
    assert guest.read("words") == "".join(f"{word}|" for word in FILL[1:])


def test_its_failure_is_told_as_its_own(guest: Guest) -> None:
    """With its exit status and its words; it is not asked again."""
    done = guest.fio("fio", "--name=broken")
    assert (done.returncode, done.stderr) == (3, "fio: no space\n")
    assert guest.fio("fio", "--name=broken").returncode == 0


@pytest.mark.parametrize("is_at_work", [False, True])
def test_one_that_is_ended_is_gone(guest: Guest, *, is_at_work: bool) -> None:
    """Whether it waits or did not end in time, and so is the shell that waited for it."""
    pid = guest.pid
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    if is_at_work:
        script = parking._BY_PARKED_FIO.replace(FILES, str(guest.folder / "parked"))
        with subprocess.Popen(["/bin/sh", "-c", script, "sh", "fio", "--name=slow"]) as waiting:
            while not guest.read("worker"):
                time.sleep(0.01)
            waiting.send_signal(signal.SIGKILL)
    assert guest.run(END_PARKED_FIO).returncode == 0
    if is_at_work:
        assert_gone(int(guest.read("worker") or ""))
    assert_gone(pid)
    assert_gone(parent)
    assert guest.fio(*FILL).returncode == 0
    assert guest.read("words") is not None
    assert guest.run(END_PARKED_FIO).returncode == 0


def test_one_that_was_killed_is_not_waited_for(guest: Guest) -> None:
    """By a test, or as memory ran out: the words are run as they are."""
    os.kill(guest.pid, signal.SIGKILL)
    assert_gone(guest.pid)
    assert guest.fio(*FILL).returncode == 0
    assert guest.read("words") is not None


def test_one_that_was_killed_and_not_asked_for_yet_is_not_waited_for(guest: Guest) -> None:
    """Its parent, which stands still here, has not taken its exit status: it still has its pid."""
    pid = guest.pid
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGSTOP)
    try:
        os.kill(pid, signal.SIGKILL)
        assert_gone(pid)
        assert Path(f"/proc/{pid}").exists()
        assert guest.fio(*FILL).returncode == 0
    finally:
        os.kill(parent, signal.SIGCONT)
    assert guest.read("words") is not None


def test_a_guest_whose_fio_does_not_wait_is_not_saved(tmp_path: Path, guest: Guest) -> None:
    """Nobody would restore one that cannot fill its disk."""
    (tmp_path / "bin" / "fio").write_text("#!/bin/sh\necho 'fio: no such library' >&2\nexit 127\n")
    (tmp_path / "bin" / "grep").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin" / "sleep").write_text("#!/bin/sh\nexit 0\n")
    for name in ("grep", "sleep"):
        (tmp_path / "bin" / name).chmod(0o755)
    guest.run(END_PARKED_FIO)
    for name in ("job", "code"):
        (tmp_path / f"parked.{name}").unlink()
    begun = guest.run(PARK_FIO)
    assert (begun.returncode, begun.stderr) == (1, "no fio waits there: fio: no such library\n")


def test_where_none_was_parked_nothing_is_looked_for() -> None:
    """The words are run as they are."""
    assert run_fio(LocalShell(), ["echo", "a  b"], is_parked=False, timeout_s=9).stdout == "a  b\n"


def test_one_that_is_late_is_ended() -> None:
    """Who waited for it is ended by the time limit, and fio would write on."""
    shell = FakeShell().answer(re.compile("name=fill"), seconds=60).answer(re.compile("kill -KILL"))
    run_fio(shell, FILL, is_parked=True, timeout_s=5)
    assert len(shell.asked) == 2
    assert END_PARKED_FIO in shell.asked[-1].argv
    shell = FakeShell().answer(re.compile("name=fill")).answer(re.compile("kill -KILL"))
    run_fio(shell, FILL, is_parked=True, timeout_s=5)
    assert len(shell.asked) == 1
    end_parked_fio(shell)
    assert len(shell.asked) == 2
    with pytest.raises(WorkloadError, match="Ending the fio that waits in the guest failed"):
        end_parked_fio(FakeShell().answer(re.compile("kill -KILL"), returncode=2))

"""The lease of a host: one job at a time, its holder named, freed when the holder is no more; locally and by ssh.

Tests of `host.lock`, and of `progress` by its reports while it waits.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vmstorage.errors import HostError
from pytest_vmstorage.host import lock
from pytest_vmstorage.host.lock import HostLease, holder
from pytest_vmstorage.host.shell import LocalShell, Shell, SshShell

SSH = """#!/bin/sh
# a host that is this machine: the last argument is the command
for word; do :; done
exec sh -c "$word"
"""

HOLD = """
import sys, time
from pytest_vmstorage.host.shell import LocalShell, SshShell
from pytest_vmstorage.host import lock
from pytest_vmstorage.host.lock import HostLease
# longer than the next job waits: that it is killed frees the host, and not that nothing is heard of it
lock.SILENCE_S = 600
# who waits looks as often whether the job that began it still lives
lock.BEAT_S = 1
shell = SshShell("lab01") if sys.argv[2] == "ssh" else LocalShell()
lease = HostLease(shell, "lab01", folders=sys.argv[1:2])
lease.keep(lambda sentence: print(sentence, flush=True))
print("held", flush=True)
time.sleep(60)
"""

Make = Callable[..., HostLease]


@pytest.fixture(params=["local", "ssh"])
def way(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the host is reached; its ssh is a real shell here."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(SSH)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    for name in ("GITHUB_RUN_ID", "CI_JOB_URL", "BUILD_URL"):
        monkeypatch.delenv(name, raising=False)
    way: str = request.param
    return way


@pytest.fixture
def make(way: str, tmp_path: Path) -> Make:
    """Leases of one host, as several jobs have them."""
    shell: Shell = SshShell("lab01") if way == "ssh" else LocalShell()
    folder = tmp_path / "lock"
    folder.mkdir()
    return lambda wait_s=30.0, folders=(str(folder),): HostLease(shell, "lab01", wait_s=wait_s, folders=folders)


def lock_of(tmp_path: Path) -> Path:
    """The lock file."""
    (path,) = (tmp_path / "lock").iterdir()
    return path


def test_a_second_job_waits_and_says_for_whom(make: Make) -> None:
    """Then it goes on, when the first is done."""
    said: list[str] = []
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        with make().alone(lambda sentence: (said.append(sentence), waiting.set())[0]):
            order.append("second")

    thread = threading.Thread(target=second)
    with make().alone(said.append):
        thread.start()
        assert waiting.wait(60)
        order.append("first")
    thread.join(60)
    assert order == ["first", "second"]
    (sentence,) = said
    assert sentence.startswith(f"waiting up to 30 s for lab01, which is in use by {holder()} since 20")
    assert re.search(r" since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$", sentence)


@pytest.mark.parametrize(
    ("wait_s", "text"), [(0.0, "lab01 is in use by "), (0.5, "lab01 is after 0.5 s still in use by ")]
)
def test_it_waits_no_longer_than_it_may(make: Make, wait_s: float, text: str) -> None:
    """Not at all with 0; the error names the holder, and what to do."""
    first = make()
    first.keep()
    second = make(wait_s=wait_s)
    with pytest.raises(HostError) as caught:
        second.keep()
    assert caught.value.what.startswith(f"{text}{holder()} since ")
    assert caught.value.hint.startswith("One job at a time measures on a host:")
    first.close()
    second.keep()
    second.close()


def children_of(pid: int) -> list[int]:
    """The processes below that one, and those below them."""
    done = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    own = [int(word) for word in done.stdout.split()]
    return [*own, *(one for child in own for one in children_of(child))]


def is_alive(pid: int) -> bool:
    """Whether that process runs, and is not only waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("moment", ["holding", "waiting"])
def test_a_job_that_is_killed_holds_nothing(make: Make, way: str, tmp_path: Path, moment: str) -> None:
    """SIGKILL, while it measures or waits in the queue: the host is free at once, and not after a time of silence."""
    first = make()
    if moment == "waiting":
        first.keep()
    command = [sys.executable, "-c", HOLD, str(tmp_path / "lock"), way]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        if moment == "waiting":
            assert job.stdout.readline().startswith("waiting up to ")
        else:
            assert job.stdout.readline() == "held\n"
            with pytest.raises(HostError, match=rf"in use by .*pid {job.pid}\)"):
                make(wait_s=0.0).keep()
        below = children_of(job.pid)
        assert below
        job.send_signal(signal.SIGKILL)
        job.wait()
    # neither the shell nor the flock below it waits on for a job that is gone
    deadline = time.monotonic() + 60
    while any(map(is_alive, below)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in below if is_alive(pid)]
    first.close()
    after = make(wait_s=120.0)
    after.keep()
    after.close()


def test_a_lease_that_is_lost_fails_the_block_it_was_lost_in(make: Make) -> None:
    """As where the connection was cut; the next block takes it anew."""
    lease = make()
    lease.keep()

    def lose() -> None:
        with lease.alone():
            assert lease._process is not None
            os.killpg(lease._process.pid, signal.SIGKILL)
            lease._process.wait(60)

    with pytest.raises(HostError, match="The lease on lab01 was lost while it was measured on"):
        lose()
    with lease.alone():
        pass
    with pytest.raises(HostError, match="is in use by"):
        make(wait_s=0.0).keep()
    lease.close()


def test_a_block_without_a_kept_lease_frees_the_host(make: Make) -> None:
    """And one with it does not."""
    lease = make()
    with lease.alone():
        pass
    lease.keep()
    with lease.alone():
        pass
    other = make(wait_s=0.0)
    with pytest.raises(HostError):
        other.keep()
    lease.close()
    other.keep()
    other.close()


def test_a_host_that_hears_nothing_frees_itself(
    make: Make, way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A controller that is cut off sends no signs of life; this machine's own jobs need none."""
    monkeypatch.setattr(lock, "SILENCE_S", 1)
    monkeypatch.setattr(lock, "BEAT_S", 60.0)
    lease = make()
    lease.keep()
    other = make(wait_s=2.0 if way == "local" else 120.0)
    if way == "local":
        with pytest.raises(HostError, match="still in use by"):
            other.keep()
    else:
        other.keep()
    lease.close()
    other.close()


def test_signs_of_life_keep_it(make: Make, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For as long as they come; a machine so busy that none comes in four seconds is none to measure on."""
    monkeypatch.setattr(lock, "SILENCE_S", 4)
    monkeypatch.setattr(lock, "BEAT_S", 0.2)
    with make().alone(), pytest.raises(HostError, match="still in use by"):
        make(wait_s=5.0 if way == "ssh" else 0.5).keep()


def test_every_user_can_take_it(make: Make, tmp_path: Path) -> None:
    """Under any umask others can open the file and write their names; the first folder that can be is taken."""
    before = os.umask(0o077)
    try:
        lease = make(folders=(str(tmp_path / "none"), str(tmp_path / "lock")))
        lease.keep()
    finally:
        os.umask(before)
    assert stat.S_IMODE(lock_of(tmp_path).stat().st_mode) == 0o666
    lease.close()


def test_a_lock_that_is_there_is_taken_wherever_it_lies(make: Make, tmp_path: Path) -> None:
    """A user may have had to make it in the second folder, before root came who can write to the first."""
    other = tmp_path / "other"
    other.mkdir()
    second = make(folders=(str(other), str(tmp_path / "lock")))
    with make().alone(), pytest.raises(HostError, match="in use by"):
        make(wait_s=0.0, folders=(str(other), str(tmp_path / "lock"))).keep()
    second.keep()
    assert list(other.iterdir()) == []
    second.close()


def test_a_link_in_its_place_is_not_followed(make: Make, tmp_path: Path) -> None:
    """In a folder that everybody can write to: what it leads to keeps its content."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    victim.chmod(0o600)
    name = f"pytest-vmstorage-{os.uname().nodename}.lock"
    (tmp_path / "lock" / name).symlink_to(victim)
    with pytest.raises(HostError, match="no lock file can be made in"):
        make().keep()
    assert victim.read_text() == "precious"
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600


def test_without_a_place_for_the_lock_nothing_is_measured(make: Make, tmp_path: Path) -> None:
    """One sentence that names the folders."""
    lease = make(folders=(str(tmp_path / "none"),))
    with pytest.raises(HostError, match=r"lab01 cannot be leased: no lock file can be made in .*none\."), lease.alone():
        pytest.fail("measured")


def test_a_host_that_cannot_be_reached_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ssh's own words."""
    program = tmp_path / "ssh"
    program.write_text("#!/bin/sh\necho 'ssh: connect to host lab01 port 22: No route to host' >&2\nexit 255\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(HostError) as caught:
        HostLease(SshShell("lab01"), "lab01").keep()
    assert caught.value.told == (
        "ssh to lab01 failed: ssh: connect to host lab01 port 22: No route to host."
        " Check that the host is up, on the network, and runs sshd."
    )


def test_a_ci_job_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that whoever waits can look at it."""
    for name, value in {"SERVER_URL": "https://github.com", "REPOSITORY": "me/it", "RUN_ID": "42"}.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)
    assert holder().endswith(f" (pid {os.getpid()}, https://github.com/me/it/actions/runs/42)")
    monkeypatch.delenv("GITHUB_RUN_ID")
    monkeypatch.setenv("BUILD_URL", "https://jenkins/7")
    assert holder().endswith(", https://jenkins/7)")

"""The shell in a guest, over an agent with qemu-ga's protocol and limits."""

from __future__ import annotations

import itertools
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.errors import GuestDiedError, GuestError, HypervisorError
from pytest_vmstorage.guest import agent
from pytest_vmstorage.guest.agent import KILL, READ_BYTES, WRITE_BYTES, AgentShell
from pytest_vmstorage.host import shell as host_shell
from pytest_vmstorage.host.shell import TIMED_OUT, LocalShell, reread, run_line
from pytest_vmstorage.testing import guest as fake_guest
from pytest_vmstorage.testing.guest import FakeDomain
from pytest_vmstorage.testing.shell import FakeShell
from unit.clock import Clock


def guest(shell: FakeShell | None = None) -> FakeDomain:
    """A guest that runs commands on that shell."""
    return FakeDomain(shell or FakeShell())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the shell and of the guest's commands."""
    there = Clock()
    for module in (agent, fake_guest, host_shell):
        monkeypatch.setattr(module, "time", there)
    return there


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits half a second for a fake."""
    monkeypatch.setattr(agent, "_LAST_POLL_S", 0.005)


def test_a_command_runs_word_for_word() -> None:
    """Blanks, quotes, dollars and an empty word reach the guest as they are."""
    argv = ["printf", "%s", "a b", "it's", '"$HOME"', "`id`", "", ">out", "2>err"]
    shell = FakeShell().answer(argv, "said", stderr="warned", returncode=3)
    done = AgentShell(guest(shell)).run(argv)
    assert (done.argv, done.returncode, done.stdout, done.stderr) == (tuple(argv), 3, "said", "warned")
    assert shell.asked[0].stdin is None


def test_a_line_of_sh_takes_one_shell() -> None:
    """Its own, with its words after it; whatever its lines are, their output goes where it is read."""
    argv = ["/bin/sh", "-c", 'set -e; for one in "$@"; do\n echo "$one"\ndone', "sh", "a b", "$c"]
    shell = FakeShell().answer(argv, "a b\n$c\n")
    domain = guest(shell)
    assert AgentShell(domain).run(argv, timeout_s=9).stdout == "a b\n$c\n"
    asked = next(arguments for command, arguments in domain.asked if command == "guest-exec")
    assert [asked["path"], *asked["arg"]].count("/bin/sh") == 1


def test_what_says_little_says_it_with_its_end() -> None:
    """No file is read or written for it; words, output and return code are those of any command."""
    argv = ["/bin/sh", "-c", 'echo "$1"; exec false', "sh", "a b"]
    shell = FakeShell().answer(argv, "a b\n", stderr="no \xb5\n", returncode=1)
    domain = guest(shell)
    done = run_line(AgentShell(domain), argv[2], "a b", timeout_s=9)
    assert (done.argv, done.returncode, done.stdout, done.stderr) == (tuple(argv), 1, "a b\n", "no \xb5\n")
    assert {command for command, _ in domain.asked} == {"guest-exec", "guest-exec-status"}
    assert shell.files == {}
    silent = FakeShell().answer(argv)
    assert run_line(AgentShell(guest(silent)), argv[2], "a b", timeout_s=9).tail() == ""


@pytest.mark.usefixtures("clock")
def test_what_says_little_is_killed_at_its_time_limit() -> None:
    """From here, with what it has begun; whatever else it dies of is no time limit."""
    shell = FakeShell().answer(["/bin/sh", "-c", "sync", "sh"], seconds=60)
    domain = guest(shell)
    done = run_line(AgentShell(domain), "sync", timeout_s=0.05)
    assert done.returncode == TIMED_OUT
    assert done.seconds < 5
    (_, began), (_, killed) = [one for one in domain.asked if one[0] == "guest-exec"]
    assert began["path"] == "/bin/sh"
    assert killed["arg"][:3] == ["-c", KILL, "sh"]
    shell = FakeShell().answer(["/bin/sh", "-c", "sync", "sh"], returncode=-9)
    assert run_line(AgentShell(guest(shell)), "sync", timeout_s=60).returncode == 128 + 9


def test_what_was_run_before_is_not_asked_after_too_soon(clock: Clock) -> None:
    """Once for a line that takes as long as before; its time limit comes first, and another line is nobody's guess."""
    line, other = (["/bin/sh", "-c", "sync", "sh", word] for word in ("a", "b"))
    domain = guest(FakeShell().answer(line, seconds=0.2).answer(other, seconds=0.2))
    shell = AgentShell(domain)

    def questions(word: str, timeout_s: float) -> int:
        before = len(domain.asked)
        run_line(shell, "sync", word, timeout_s=timeout_s)
        return [command for command, _ in domain.asked[before:]].count("guest-exec-status")

    first = questions("a", 9)
    assert first > 10
    assert questions("a", 9) < first / 2
    assert questions("b", 9) > 10
    begin = clock.monotonic()
    questions("b", 0.01)
    assert clock.monotonic() - begin < 0.15


def test_a_line_that_was_slow_once_is_not_taken_for_a_slow_one(clock: Clock) -> None:
    """Nobody looks away for longer than it took when it was quick."""
    shell = FakeShell()
    in_guest = AgentShell(guest(shell))
    took = []
    for seconds in (0.1, 0.5, 0.1):
        clock.slept.clear()
        shell.answer(["/bin/sh", "-c", "sync", "sh"], seconds=seconds)
        took.append(run_line(in_guest, "sync", timeout_s=9).seconds)
    assert max(clock.slept) < took[0]


def test_a_line_that_ran_cold_once_is_soon_asked_after_when_it_ends(clock: Clock) -> None:
    """Each time that it had ended before anybody asked, the first question comes well before the one of that time."""
    shell = FakeShell()
    in_guest = AgentShell(guest(shell))
    shell.answer(["/bin/sh", "-c", "sync", "sh"], seconds=0.4)
    cold_s = run_line(in_guest, "sync", timeout_s=9).seconds
    shell.answer(["/bin/sh", "-c", "sync", "sh"])
    for _ in range(4):
        clock.slept.clear()
        run_line(in_guest, "sync", timeout_s=9)
    assert max(clock.slept) < 0.35 * cold_s


def test_the_line_that_kills_ends_a_shell_and_what_it_runs() -> None:
    """On a real kernel."""
    with subprocess.Popen(["sh", "-c", "sleep 60; echo more"]) as shell:
        children = Path(f"/proc/{shell.pid}/task/{shell.pid}/children")
        deadline = time.monotonic() + 10
        while not (child := children.read_text().strip()) and time.monotonic() < deadline:
            time.sleep(0.01)
        subprocess.run(["sh", "-c", KILL, "sh", str(shell.pid)], check=True)
        assert shell.wait(60) == -9
        while Path(f"/proc/{child}/exe").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not Path(f"/proc/{child}/exe").exists()


def test_a_shell_without_a_shorter_way_runs_a_line_as_any_command() -> None:
    """Here, with its words."""
    done = run_line(LocalShell(), 'echo "$2$1"; exit 3', "a b", "$c", timeout_s=9)
    assert (done.stdout, done.returncode) == ("$ca b\n", 3)


def test_stdin_goes_through_a_file() -> None:
    """What is fed arrives byte for byte; an empty input is one too."""
    shell = FakeShell().answer(["cat"])
    fed = bytes(range(256)) * 1000
    AgentShell(guest(shell)).run(["cat"], stdin=fed)
    AgentShell(guest(shell)).run(["cat"], stdin=b"")
    assert [asked.stdin for asked in shell.asked] == [fed, b""]


def test_a_stale_output_is_never_taken_for_a_new_one() -> None:
    """A command that says nothing says nothing, whatever the one before it said."""
    shell = FakeShell().answer(["loud"], "much").answer(["mute"])
    run = AgentShell(guest(shell)).run
    assert run(["loud"]).stdout == "much"
    assert run(["mute"]).stdout == ""


@pytest.mark.parametrize("size", [0, 1, READ_BYTES - 1, READ_BYTES, READ_BYTES + 1, 3 * READ_BYTES + 17])
def test_output_of_any_size_comes_back_whole(size: int) -> None:
    """In pieces that libvirt can pass on, with and without a remainder."""
    text = "".join(itertools.islice(itertools.cycle("0123456789abc"), size))
    domain = guest(FakeShell().answer(["fio"], text))
    assert AgentShell(domain).run(["fio"]).stdout == text
    assert domain.open_files == []


def test_an_agent_that_reads_less_than_asked_is_asked_again() -> None:
    """Until it says that the end was met."""
    domain = FakeDomain(FakeShell({"/f": b"x" * 1000}), read_at_most=300)
    assert AgentShell(domain).read("/f") == "x" * 1000


@pytest.mark.parametrize("size", [0, 1, WRITE_BYTES, WRITE_BYTES + 1, 5 * WRITE_BYTES + 3])
def test_a_file_of_any_size_is_put_whole(tmp_path: Path, size: int) -> None:
    """In messages below the size that corrupts the channel."""
    data = bytes(itertools.islice(itertools.cycle(range(251)), size))
    (tmp_path / "file").write_bytes(data)
    domain = guest()
    AgentShell(domain).put(tmp_path / "file", "/run/file")
    assert domain.shell.files["/run/file"] == data
    assert domain.open_files == []


def test_an_agent_that_writes_less_than_given_gets_the_rest_again(tmp_path: Path) -> None:
    """A partial write loses nothing and doubles nothing."""
    data = bytes(range(256)) * 300
    (tmp_path / "file").write_bytes(data)
    domain = FakeDomain(FakeShell(), write_at_most=1000)
    AgentShell(domain).put(tmp_path / "file", "/run/file")
    assert domain.shell.files["/run/file"] == data


def test_messages_stay_below_the_channels_limit() -> None:
    """The fake refuses what would corrupt the real channel; a write of the largest piece passes."""
    with pytest.raises(GuestError, match="a message of"):
        guest().agent("guest-file-write", {"handle": 1, "buf-b64": "A" * 2**16}, 1)
    assert WRITE_BYTES * 4 / 3 + 200 < 2**16


def test_a_file_that_is_read_again_stays_open_and_tells_what_is_so_now() -> None:
    """One that is gone is nothing, and is opened anew when it is there again."""
    domain = FakeDomain(FakeShell({"/sys/cache": b"write back\n"}), read_at_most=4)
    shell = AgentShell(domain)
    assert [reread(shell, "/sys/cache"), reread(shell, "/sys/none")] == ["write back\n", ""]
    domain.shell.files["/sys/cache"] = b"write through\n"
    assert [reread(shell, "/sys/cache") for _ in range(2)] == ["write through\n"] * 2
    assert domain.open_files == ["/sys/cache"]
    del domain.shell.files["/sys/cache"]
    assert reread(shell, "/sys/cache") == ""
    domain.shell.files["/sys/cache"] = b"write back\n"
    domain.asked.clear()
    assert [reread(shell, "/sys/cache") for _ in range(3)] == ["write back\n"] * 3
    assert [command for command, _ in domain.asked].count("guest-file-open") == 1


def test_a_shell_that_cannot_keep_a_file_open_reads_it(tmp_path: Path) -> None:
    """Here, for one."""
    (tmp_path / "file").write_text("now")
    assert reread(LocalShell(), str(tmp_path / "file")) == "now"


def test_a_file_that_is_not_there_reads_as_nothing() -> None:
    """No process is started to find that out."""
    domain = guest()
    assert AgentShell(domain).read("/none") == ""
    assert [command for command, _ in domain.asked] == ["guest-file-open"]


@pytest.mark.usefixtures("clock")
def test_a_command_is_killed_at_its_time_limit() -> None:
    """124, and what it had said until then; the limit is the guest's timeout(1), which outlives this process."""
    domain = guest(FakeShell().answer(["sleep", "9"], "begun", seconds=9))
    done = AgentShell(domain).run(["sleep", "9"], timeout_s=0.05)
    assert (done.returncode, done.stdout) == (TIMED_OUT, "begun")
    assert 0.05 <= done.seconds < 2
    asked = next(arguments for command, arguments in domain.asked if command == "guest-exec")
    assert [asked["path"], *asked["arg"][:3]] == ["timeout", "-s", "KILL", "0.050"]


@pytest.mark.parametrize(("signal", "timeout_s"), [(9, None), (9, 60.0), (11, 60.0), (15, None)])
def test_a_command_that_dies_of_a_signal_gives_128_and_its_number(signal: int, timeout_s: float | None) -> None:
    """A kill long before the time limit, as the kernel does when memory runs out, is told as what it is."""
    shell = FakeShell().answer(["fio"], returncode=-signal)
    assert AgentShell(guest(shell)).run(["fio"], timeout_s=timeout_s).returncode == 128 + signal


def test_a_finished_command_is_asked_about_once() -> None:
    """The agent forgets it with its answer: a second question is an error."""
    domain = guest(FakeShell().answer(["true"]))
    AgentShell(domain).run(["true"])
    pid = next(arguments["pid"] for command, arguments in domain.asked if command == "guest-exec-status")
    with pytest.raises(HypervisorError, match="Invalid parameter 'pid'"):
        domain.agent("guest-exec-status", {"pid": pid}, 1)


def test_a_command_that_outlives_its_killing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process stuck in the kernel does not end the run by never ending."""
    monkeypatch.setattr(agent, "GRACE_S", 0.0)
    domain = guest(FakeShell().answer(["dd"]))
    domain._guest_exec_status = lambda pid: {"exited": False}  # type: ignore[method-assign]
    with pytest.raises(GuestError, match="did not end 0 s after its time limit"):
        AgentShell(domain).run(["dd"], timeout_s=0.01)


@pytest.mark.parametrize("after", range(1, 8))
def test_a_guest_that_dies_is_told_wherever_it_dies(after: int) -> None:
    """In each step of a command: GuestDiedError, and never a result."""
    domain = FakeDomain(FakeShell().answer(["true"], "out", stderr="err"), dies_after=after)
    with pytest.raises(GuestDiedError):
        AgentShell(domain).run(["true"])


def test_output_that_is_no_utf8_is_replaced() -> None:
    """A stray byte of a tool costs no measurement."""
    assert AgentShell(guest(FakeShell({"/f": b"a\xffb"}))).read("/f") == "a\N{REPLACEMENT CHARACTER}b"


def test_commands_go_one_at_a_time() -> None:
    """They share their output files, so a second caller waits for the first."""

    class Slow(FakeDomain):
        def agent(self, command: str, arguments: Mapping[str, Any], timeout_s: float) -> Any:
            time.sleep(0.001)
            return super().agent(command, arguments, timeout_s)

    shell = FakeShell()
    for number in range(8):
        shell.answer(["echo", str(number)], str(number))
    run = AgentShell(Slow(shell)).run
    said: dict[str, str] = {}
    threads = [
        threading.Thread(target=lambda n=n: said.update({n: run(["echo", n]).stdout})) for n in map(str, range(8))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {n: n for n in map(str, range(8))}


def test_a_file_is_followed_until_its_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Piece by piece, as somebody writes it; it is closed then."""
    shell = FakeShell({"/run/said": b""})
    domain = guest(shell)
    pieces = [b"one\nen", b"d\n", b"never read"]

    def write(_seconds: float) -> None:
        shell.files["/run/said"] += pieces.pop(0)

    monkeypatch.setattr(agent.time, "sleep", write)
    assert AgentShell(domain).follow("/run/said", "end\n", timeout_s=9) == "one\nend\n"
    assert (pieces, domain.open_files) == ([b"never read"], [])


def test_following_ends_at_its_limit_with_what_there_is() -> None:
    """And a file that is not there is told."""
    domain = guest(FakeShell({"/run/said": b"one\n"}))
    assert AgentShell(domain).follow("/run/said", "end\n", timeout_s=0.1) == "one\n"
    with pytest.raises(HypervisorError, match="No such file"):
        AgentShell(domain).follow("/run/other", "end\n", timeout_s=0.1)
    assert domain.open_files == []


def test_a_file_is_written_without_a_process() -> None:
    """Such as one of /sys."""
    shell = FakeShell()
    AgentShell(guest(shell)).write("/sys/bind", b"virtio1")
    assert shell.files == {"/sys/bind": b"virtio1"}
    assert shell.asked == []

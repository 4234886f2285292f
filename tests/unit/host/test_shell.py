"""Commands on a machine: this one's shell, ssh's, and the check that turns failure into a sentence."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vmstorage.errors import HostError, ProvisionError
from pytest_vmstorage.host import shell
from pytest_vmstorage.host.shell import NOT_FOUND, TIMED_OUT, CommandResult, LocalShell, SshShell, check, has_program
from pytest_vmstorage.testing.shell import FakeShell, NoRecordingError


def result(returncode: int = 1, stdout: str = "", stderr: str = "", seconds: float = 0.0) -> CommandResult:
    """A finished `tool "a b"`."""
    return CommandResult(argv=("tool", "a b"), returncode=returncode, stdout=stdout, stderr=stderr, seconds=seconds)


def test_a_command_leaves_code_output_and_time() -> None:
    """A non-zero code is a result and no exception; the argv reaches the program word for word."""
    done = LocalShell().run(["sh", "-c", 'printf "%s" "$1"; echo bad >&2; exit 3', "sh", "a 'b\" $c"])
    assert (done.returncode, done.stdout, done.stderr, done.ok) == (3, "a 'b\" $c", "bad\n", False)
    assert 0 < done.seconds < 10


def test_a_program_that_is_not_there_gives_127() -> None:
    """As a shell has it, so that local and remote say the same."""
    done = LocalShell().run(["no-such-program-here"])
    assert done.returncode == NOT_FOUND
    assert done.stderr == "no-such-program-here: command not found"


@pytest.mark.parametrize("name", ["folder", "text"])
def test_a_file_that_cannot_be_run_gives_126(tmp_path: Path, name: str) -> None:
    """A folder, and an executable file of no known kind: results as well, and no OSError."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_bytes(b"\x00\x01\x02\x03")
    (tmp_path / "text").chmod(0o755)
    assert LocalShell().run([str(tmp_path / name)]).returncode == 126


def test_a_program_is_there_or_not() -> None:
    """By the machine's own sh, which finds what it has built in as well."""
    assert has_program(LocalShell(), "sh")
    assert has_program(LocalShell(), "read")
    assert not has_program(LocalShell(), "no-such-program")


def test_a_command_is_killed_at_its_time_limit_and_keeps_its_output() -> None:
    """124, what it had said until then, and no waiting for its end."""
    # echo is done when the limit comes, on a busy machine too
    begin = time.monotonic()
    done = LocalShell().run(["sh", "-c", "echo begun; exec sleep 600"], timeout_s=2)
    assert done.returncode == TIMED_OUT
    assert done.stdout == "begun\n"
    assert time.monotonic() - begin < 600


def alive(pid: int) -> bool:
    """Whether that process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(state: Callable[[], bool]) -> bool:
    """Wait until that is so, a minute at most."""
    deadline = time.monotonic() + 60
    while not state():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


CHILDREN = (
    'sleep 600 & echo $! >"$1"; setsid sh -c \'echo $$ >>"$1"; mv "$1" "$1.pids"; exec sleep 601\' sh "$1" & wait; true'
)
"""Two processes below the shell, whose pids are written down; one has a session of its own, as each job of fio has."""


@pytest.mark.parametrize("way", ["time limit", "Ctrl-C"])
def test_what_a_command_began_ends_with_it(way: str, tmp_path: Path) -> None:
    """Its children, too: one that was left went on to take all of the machine's memory."""
    file = tmp_path / "file"
    argv = ["sh", "-c", CHILDREN, "sh", str(file)]
    pids = tmp_path / "file.pids"
    if way == "time limit":
        assert LocalShell().run(argv, timeout_s=3).returncode == TIMED_OUT
    else:
        code = f"from pytest_vmstorage.host.shell import LocalShell; LocalShell().run({argv!r})"
        with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as process:
            assert until(pids.exists)
            process.send_signal(signal.SIGINT)
    children = [int(word) for word in pids.read_text().split()]
    assert len(children) == 2
    assert until(lambda: not any(map(alive, children)))


def test_what_a_killed_process_left_is_found_and_ended(tmp_path: Path) -> None:
    """SIGKILL of ours alone: its commands go on, and the next run or vmstorage reap ends them."""
    argv = ["sh", "-c", CHILDREN, "sh", str(tmp_path / "file")]
    code = f"from pytest_vmstorage.host.shell import LocalShell; LocalShell().run({argv!r})"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        assert until((tmp_path / "file.pids").exists)
        children = [int(word) for word in (tmp_path / "file.pids").read_text().split()]
        # each is a shell until it has begun its program
        assert until(lambda: [Path(f"/proc/{pid}/comm").read_text() for pid in children] == ["sleep\n"] * 2)
        assert not [one for one in shell.sweep(look_only=True) if f"pid {children[0]}" in one]
        process.kill()
    told = shell.sweep(look_only=True)
    assert {f"command sleep (pid {pid})" for pid in children} <= set(told)
    assert all(map(alive, children))
    assert set(shell.sweep()) >= set(told)
    assert until(lambda: not any(map(alive, children)))


def test_a_daemon_of_the_host_is_left_alone(tmp_path: Path) -> None:
    """LVM's commands may begin one, which then serves all of the host."""
    daemon = tmp_path / "dmeventd"
    shutil.copy(shutil.which("sleep") or "", daemon)
    argv = ["sh", "-c", '"$1" 600 & echo $! >"$2"; mv "$2" "$2.pid"; wait', "sh", str(daemon), str(tmp_path / "file")]
    code = f"from pytest_vmstorage.host.shell import LocalShell; LocalShell().run({argv!r})"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        assert until((tmp_path / "file.pid").exists)
        process.kill()
    pid = int((tmp_path / "file.pid").read_text())
    try:
        assert not [one for one in shell.sweep() if f"pid {pid}" in one]
        assert alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_stdin_is_what_was_given_or_empty() -> None:
    """No command waits for the user's terminal."""
    assert LocalShell().run(["cat"], stdin=b"fed").stdout == "fed"
    assert LocalShell().run(["cat"], timeout_s=10).stdout == ""


def test_output_that_is_no_utf8_is_replaced() -> None:
    """A stray byte of a tool costs no measurement."""
    assert LocalShell().run(["printf", r"\377"]).stdout == "\N{REPLACEMENT CHARACTER}"


def test_a_local_file_is_copied_and_read(tmp_path: Path) -> None:
    """put and read are inverse; a file that is not there reads as an empty text."""
    (tmp_path / "a b").write_text("text")
    LocalShell().put(tmp_path / "a b", str(tmp_path / "-c"))
    assert LocalShell().read(str(tmp_path / "-c")) == "text"
    assert LocalShell().read(str(tmp_path / "none")) == ""


def test_check_hands_on_what_succeeded() -> None:
    """A good result comes back itself."""
    good = result(0)
    assert check(good, "doing it") is good


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (result(stderr="warning\nno space\n"), "warning; no space"),
        (result(stdout="only stdout\n"), "only stdout"),
        (result(7), "exit status 7"),
        (result(TIMED_OUT, stderr="half", seconds=30.2), "no end after 30 s"),
    ],
)
def test_check_says_what_was_being_done_and_why_it_failed(bad: CommandResult, reason: str) -> None:
    """One line: the deed, the tool's own words, the command as one would type it, what to do."""
    with pytest.raises(ProvisionError) as caught:
        check(bad, "making a disk", hint="Make room.")
    assert caught.value.told == f"making a disk failed: {reason} (command: tool 'a b'). Make room."


FAKE_SSH = """#!/bin/sh
# options, then the host, then --, then one word of sh
while [ "$1" != lab01 ] && [ "$1" != down ]; do shift; done
if [ "$1" = down ]; then echo "$SAID" >&2; exit 255; fi
shift; [ "$1" = -- ] && shift
exec sh -c "$*"
"""


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SshShell:
    """A shell on lab01, whose ssh runs the command here."""
    script = tmp_path / "bin" / "ssh"
    script.parent.mkdir()
    script.write_text(FAKE_SSH)
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    return SshShell("lab01")


def test_an_argv_survives_ssh(ssh: SshShell) -> None:
    """ssh joins its words with blanks and hands them to a shell: the quoting is ours to do."""
    done = ssh.run(["printf", "%s|", "a b", "$HOME", "'", ""], stdin=b"")
    assert done.stdout == "a b|$HOME|'||"
    assert ssh.run(["cat"], stdin=b"fed").stdout == "fed"
    assert ssh.run(["sh", "-c", "exit 4"]).returncode == 4


def test_a_file_goes_and_comes_through_ssh(ssh: SshShell, tmp_path: Path) -> None:
    """put streams to a path with a blank in it; reading what is not there gives an empty text."""
    (tmp_path / "local").write_bytes(b"\x00\xff text")
    ssh.put(tmp_path / "local", str(tmp_path / "far away"))
    assert (tmp_path / "far away").read_bytes() == b"\x00\xff text"
    assert ssh.read(str(tmp_path / "far away")).endswith(" text")
    assert ssh.read(str(tmp_path / "none")) == ""


def test_a_copy_that_fails_says_where_to(ssh: SshShell, tmp_path: Path) -> None:
    """The far path and the far shell's words stand in the sentence."""
    with pytest.raises(ProvisionError, match=r"copying .* to lab01:/no/such/folder/x failed: .*\."):
        ssh.put(Path(__file__), "/no/such/folder/x")


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            "ssh: Could not resolve hostname down: Name or service not known",
            "ssh to down failed: ssh: Could not resolve hostname down: Name or service not known."
            " Check the name given to --vm-host, or add its address to ~/.ssh/config (Host down).",
        ),
        (
            "root@down: Permission denied (publickey,password).",
            "ssh to down failed: root@down: Permission denied (publickey,password). Nobody can type a password here:"
            " put a key there with `ssh-copy-id down`, and one that has a passphrase into ssh-agent.",
        ),
        (
            "Connection closed by 10.0.0.1 port 22",
            "ssh to down failed: Connection closed by 10.0.0.1 port 22."
            " Check that the host is up, on the network, and runs sshd.",
        ),
        (
            "Host key verification failed.",
            "ssh to down failed: the host's key is not known to this user."
            " Run `ssh down true` once by hand, compare the key that it shows with the host's, and accept it.",
        ),
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\n"
            "Offending ED25519 key in /home/a/.ssh/known_hosts:7\nHost key verification failed.",
            "ssh to down failed: the host shows another key than the one in /home/a/.ssh/known_hosts:7."
            " Another machine may answer in its place. If it was set up anew: `ssh-keygen -R down`,"
            " then `ssh down true` by hand, and compare the key that it shows.",
        ),
        (
            "Too many authentication failures",
            "ssh to down failed: Too many authentication failures."
            " Check that `ssh down true` works without a password.",
        ),
    ],
)
def test_ssh_itself_failing_is_no_commands_result(
    ssh: SshShell, monkeypatch: pytest.MonkeyPatch, said: str, sentence: str
) -> None:
    """However ssh words it, 255 is a HostError that names the host and what to do."""
    monkeypatch.setenv("SAID", said)
    with pytest.raises(HostError) as caught:
        SshShell("down").run(["true"])
    assert caught.value.told == sentence


def test_a_command_on_another_machine_is_ended_there_at_its_time_limit(ssh: SshShell, tmp_path: Path) -> None:
    """124 like at home, and nothing of it runs on."""
    done = ssh.run(["sh", "-c", f"echo $$ >{tmp_path}/pid; echo begun; exec sleep 600"], timeout_s=2)
    assert (done.returncode, done.stdout) == (TIMED_OUT, "begun\n")
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_without_ssh_on_this_machine_the_host_is_out_of_reach(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """127 from here is told as ssh's failure, 127 from there is the command's."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="ssh: command not found"):
        SshShell("lab01").run(["true"])


def test_a_command_that_the_host_lacks_is_a_result(ssh: SshShell) -> None:
    """127 with the far shell's words."""
    assert ssh.run(["no-such-program-here"]).returncode == NOT_FOUND


def test_a_fake_shell_replays_what_it_was_given() -> None:
    """By argv or pattern, the last given first; what it was asked stays to be looked at."""
    shell = FakeShell().answer(re.compile("^df "), "any").answer(["df", "/a b"], "this", returncode=1, stderr="bad")
    assert shell.run(["df", "/x"]).stdout == "any"
    done = shell.run(["df", "/a b"], timeout_s=3, stdin=b"fed")
    assert done == CommandResult(argv=("df", "/a b"), returncode=1, stdout="this", stderr="bad", seconds=0)
    assert shell.lines == ["df /x", "df '/a b'"]
    assert (shell.asked[1].timeout_s, shell.asked[1].stdin) == (3, b"fed")


def test_a_fake_shell_has_no_answer_of_its_own() -> None:
    """An unknown command is an error of the test, told with what is known."""
    shell = FakeShell().answer(["df", "/"]).answer(re.compile("^stat "))
    with pytest.raises(NoRecordingError) as caught:
        shell.run(["rm", "a b"])
    assert str(caught.value) == "FakeShell was asked for `rm 'a b'`, but its recordings are: df /; /^stat /."
    with pytest.raises(TypeError, match="neither an argv nor a compiled pattern"):
        shell.answer("df /")


def test_a_fake_shell_keeps_time_limits_and_files(tmp_path: Path) -> None:
    """A command that claims to take longer is killed without waiting, and then wrote nothing."""
    shell = FakeShell().answer(["fio"], "half", seconds=9, writes={"/out": "7"})
    late = shell.run(["fio"], timeout_s=3)
    assert (late.returncode, late.seconds, late.stdout, shell.read("/out")) == (TIMED_OUT, 3, "half", "")
    assert shell.run(["fio"], timeout_s=10).ok
    assert shell.read("/out") == "7"
    (tmp_path / "file").write_bytes(b"x")
    shell.put(tmp_path / "file", "/put")
    assert shell.files["/put"] == b"x"

"""Commands on a machine: one result, one protocol, and two shells, of this machine and by ssh."""

from __future__ import annotations

import contextlib
import copy
import glob
import os
import shlex
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.inventory import LabHost
from pytest_vmstorage.errors import LateError, ProvisionError
from pytest_vmstorage.host.guard import Guard
from pytest_vmstorage.host.ssh import SshConnection
from pytest_vmstorage.leftovers import kill_session, left_processes, mark, processes_with
from pytest_vmstorage.results.spans import waiting_for
from pytest_vmstorage.text import read_pairs

TIMED_OUT = 124
"""Return code of a command that was killed at its time limit, as timeout(1) has it."""

NOT_FOUND = 127
"""Return code for a program that does not exist, as in sh."""

SSH_FAILED = 255
"""Return code of an ssh that failed itself, and not its command."""

GRACE_S = 15.0
"""How much longer than its time limit this process waits for a command on another machine."""

OWNER = "VMSTORAGE_OWNER"
"""Variable in the environment of each command here: the mark of its maker, by which `sweep` finds it."""

_COMMAND = "VMSTORAGE_COMMAND"
"""Variable that all processes of one command share, also those that leave its session, as fio's jobs do."""

_CONNECTION = "ssh"
"""The program that holds the connection to a host, which other commands use as well."""

_DAEMONS = ("dmeventd", "lvmpolld", "zed")
_KILLED = (TIMED_OUT, 128 + signal.SIGKILL)
_PIECE_BYTES = 2**20


class CommandResult(BaseModel):
    """The result of a finished command: its output is decoded as UTF-8 with replacement."""

    model_config = ConfigDict(frozen=True)

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the return code is 0."""
        return self.returncode == 0

    def tail(self, lines: int = 5) -> str:
        """The last lines of stderr, or of stdout where that is empty, for a message."""
        return "\n".join((self.stderr.strip() or self.stdout.strip()).splitlines()[-lines:])


class Shell(Protocol):
    """A machine on which commands run. A non-zero return code is a result, never an exception."""

    def run(self, argv: Sequence[str], *, timeout_s: float | None = None, stdin: bytes | None = None) -> CommandResult:
        """Run argv without a shell in between."""

    def put(self, source: Path, target: str, *, moved: Callable[[int], None] = ...) -> None:
        """Copy a local file to that path on the machine; raises ProvisionError.

        Where that takes a while, `moved` is called with the bytes of each piece.
        """

    def read(self, path: str) -> str:
        """The text of a file on the machine, "" where there is none."""


@runtime_checkable
class BriefShell(Protocol):
    """A shell with a faster way for lines of sh that print a few words at most."""

    def brief(self, line: str, *words: str, timeout_s: float) -> CommandResult:
        """Run the line of sh with these words as its arguments; the result is that of `run`."""


@runtime_checkable
class RereadShell(Protocol):
    """A shell with a faster way to a file of the kernel that it has read before."""

    def reread(self, path: str) -> str:
        """The current text of the file of /sys or /proc, "" where there is none."""


def reread(shell: Shell, path: str) -> str:
    """The text of a file of /sys or /proc that is read repeatedly, by the shell's fastest way."""
    return shell.reread(path) if isinstance(shell, RereadShell) else shell.read(path)


def run_line(shell: Shell, line: str, *words: str, timeout_s: float) -> CommandResult:
    """Run a line of sh that prints a few words at most, with these arguments, by the shell's fastest way."""
    if isinstance(shell, BriefShell):
        return shell.brief(line, *words, timeout_s=timeout_s)
    return shell.run(["/bin/sh", "-c", line, "sh", *words], timeout_s=timeout_s)


class LocalShell:
    """Commands on the machine that pytest runs on; a `guard` permits only writes to the run's own paths."""

    def __init__(self, guard: Guard | None = None) -> None:
        self.guard = guard

    def run(self, argv: Sequence[str], *, timeout_s: float | None = None, stdin: bytes | None = None) -> CommandResult:
        """Run argv; a program that does not exist gives 127, one killed at the time limit 124.

        Raises ForeignPathError for a command that the guard refuses.
        """
        if self.guard is not None:
            self.guard.check(argv)
        begin = time.monotonic()
        try:
            with waiting_for(f"the command {argv[0]}"):
                done = _run_alone(argv, timeout_s, stdin or b"")
        except FileNotFoundError:
            return make_result(argv, NOT_FOUND, b"", f"{argv[0]}: command not found".encode(), begin)
        except OSError as error:
            return make_result(argv, 126, b"", str(error).encode(), begin)
        except subprocess.TimeoutExpired as expired:
            return make_result(argv, TIMED_OUT, expired.stdout or b"", expired.stderr or b"", begin)
        return make_result(argv, done.returncode, done.stdout, done.stderr, begin)

    def put(self, source: Path, target: str, *, moved: Callable[[int], None] = lambda _bytes: None) -> None:
        """Copy the file: both ends are this machine."""
        del moved
        if self.guard is not None:
            self.guard.check_path(target, "cp")
        # a shell without the guard: the source may be anybody's
        check(LocalShell().run(["cp", "--sparse=always", "--", str(source), target]), "copying a file")

    def read(self, path: str) -> str:
        """The text of a file here."""
        try:
            return Path(path).read_text(errors="replace")
        except OSError:
            return ""

    def files(self, patterns: Sequence[str]) -> dict[str, str]:
        """The texts of the files here that match those patterns of glob(7), by path, read without a process.

        Unreadable files are left out.
        """
        found: dict[str, str] = {}
        for pattern in patterns:
            for path in sorted(glob.glob(pattern)):  # noqa: PTH207 (a Path has no pattern with a root)
                with contextlib.suppress(OSError):
                    found[path] = Path(path).read_text(errors="replace")
        return found


class SshShell:
    """Commands on a lab host through one ssh connection: host keys are checked and nothing asks for a password.

    A `guard` permits only writes to the run's own paths.
    """

    def __init__(self, target: str, options: Sequence[str] = ()) -> None:
        self.guard: Guard | None = None
        self.target = target
        self._local = LocalShell()
        self._connection = SshConnection(target, options)

    def run(self, argv: Sequence[str], *, timeout_s: float | None = None, stdin: bytes | None = None) -> CommandResult:
        """Run argv on the host, where it is killed at the time limit; raises HostError where ssh itself fails.

        Raises ForeignPathError for a command that the guard refuses.
        """
        if self.guard is not None:
            self.guard.check(argv)
        ssh = self._connection.argv()
        # the host ends a late command: killing ssh here would leave it running there
        limit = ("timeout", "-k", "2", f"{timeout_s:.3f}") if timeout_s is not None else ()
        grace_s = timeout_s + GRACE_S if timeout_s is not None else None
        with waiting_for(f"the command {argv[0]} on {self.target}"):
            done = self._local.run([*ssh, shlex.join([*limit, *argv])], timeout_s=grace_s, stdin=stdin)
        # by the code alone: messages of ssh begin in many ways ("root@lab01: Permission denied", "Connection closed")
        if done.returncode == SSH_FAILED:
            raise self._connection.failed(done.stderr)
        is_late = timeout_s is not None and done.seconds >= timeout_s and done.returncode in _KILLED
        return done.model_copy(update={"argv": tuple(argv), **({"returncode": TIMED_OUT} if is_late else {})})

    def put(self, source: Path, target: str, *, moved: Callable[[int], None] = lambda _bytes: None) -> None:
        """Stream the file through the same ssh channel that runs commands."""
        if self.guard is not None:
            self.guard.check_path(target, "cat")
        argv = [*self._connection.argv(), f"cat > {shlex.quote(target)}"]
        with (
            source.open("rb") as stream,
            tempfile.TemporaryFile() as words,
            subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=words) as ssh,
        ):
            assert ssh.stdin is not None
            # the far end may stop reading; its error is raised below
            with contextlib.suppress(BrokenPipeError):
                while piece := stream.read(_PIECE_BYTES):
                    ssh.stdin.write(piece)
                    moved(len(piece))
                ssh.stdin.close()
            code = ssh.wait()
            words.seek(0)
            said = words.read().decode(errors="replace").strip()
        if code == SSH_FAILED:
            raise self._connection.failed(said)
        if code:
            raise ProvisionError(f"copying {source.name} to {self.target}:{target} failed: {said}.", code="VM443")

    def read(self, path: str) -> str:
        """The text of a file there."""
        return self.run(["cat", "--", path]).stdout


def open_shell(host: LabHost) -> Shell:
    """A shell on that host: local, or by ssh."""
    return LocalShell() if host.ssh is None else SshShell(host.ssh)


def read_beginning(shell: Shell, path: str, most_bytes: int) -> str:
    """The first bytes of a file on the machine as text, "" where there is none; for a file that others lengthen."""
    if isinstance(shell, LocalShell):
        try:
            with Path(path).open("rb") as stream:
                return stream.read(most_bytes).decode(errors="replace")
        except OSError:
            return ""
    if isinstance(shell, SshShell):
        return shell.run(["head", "-c", str(most_bytes), "--", path]).stdout
    return shell.read(path)[:most_bytes]


def read_values(shell: Shell, script: str) -> dict[str, str]:
    """The values that a script of sh prints, a line NAME=VALUE each, by their names."""
    return read_pairs(shell.run(["sh", "-c", script]).stdout)


def has_program(shell: Shell, name: str) -> bool:
    """Whether the machine has that program, or its sh has it built in."""
    return shell.run(["sh", "-c", 'command -v "$1"', "sh", name]).ok


def unguarded(shell: Shell) -> Shell:
    """The same shell without its guard, for a workload's own words: they are the user's and may name any path."""
    if not isinstance(shell, LocalShell | SshShell):
        return shell
    free = copy.copy(shell)
    free.guard = None
    return free


def _run_alone(argv: Sequence[str], timeout_s: float | None, stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run argv as subprocess.run does, in its own session, of which nothing is left at a time limit or Ctrl-C.

    The input is never inherited: no command here may wait for the user's terminal.
    """
    pipe = subprocess.PIPE
    command = uuid.uuid4().hex
    environ = {**os.environ, OWNER: mark(), _COMMAND: command}
    try:
        with subprocess.Popen(
            list(argv), stdin=pipe, stdout=pipe, stderr=pipe, env=environ, start_new_session=True
        ) as process:
            try:
                out, err = process.communicate(stdin, timeout=timeout_s)
            except BaseException:
                kill_session(process)
                process.wait()
                raise
    except (FileNotFoundError, PermissionError):
        # no such program, and no process
        raise
    except BaseException:
        # each job of fio has a session of its own; and Ctrl-C may come before Popen has told of its process
        _kill_all(one for one in processes_with(_COMMAND, command) if one[1] != _CONNECTION)
        raise
    return subprocess.CompletedProcess(list(argv), process.returncode, out, err)


def _kill_all(processes: Iterable[tuple[int, str]]) -> None:
    """Kill the processes except daemons of the host: those that a command of LVM or ZFS starts serve others, too."""
    for pid, name in processes:
        if name not in _DAEMONS:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def sweep(*, look_only: bool = False) -> list[str]:
    """End this user's commands whose makers are gone, with all their children; a phrase for each.

    Daemons of the host stay, which serve others, too.
    """
    left = [(pid, name) for pid, name in left_processes(OWNER) if name not in _DAEMONS]
    if not look_only:
        _kill_all(left)
    return [f"command {name} (pid {pid})" for pid, name in left]


def check(result: CommandResult, doing: str, *, hint: str = "") -> CommandResult:
    """The result itself if it succeeded; otherwise ProvisionError with what was being done."""
    if result.ok:
        return result
    if result.returncode == TIMED_OUT:
        reason = f"no end after {result.seconds:.0f} s"
    else:
        reason = result.tail(2).replace("\n", "; ") or f"exit status {result.returncode}"
    raise ProvisionError(f"{doing} failed: {reason} (command: {shlex.join(result.argv)}).", hint=hint, code="VM443")


def check_time(result: CommandResult, what: str) -> None:
    """Raise LateError where the command was ended at its time limit; `what` begins the sentence."""
    if result.returncode == TIMED_OUT:
        hint, output = "Raise --vm-timeout.", result.tail(15)
        raise LateError(f"{what} did not end within {result.seconds:.0f} s.", hint=hint, output=output, code="VM704")


def make_result(argv: Sequence[str], code: int, out: bytes, err: bytes, begin: float) -> CommandResult:
    """The result of a command that began at that time.monotonic(), in seconds, and ended now."""
    return CommandResult(
        argv=tuple(argv),
        returncode=code,
        stdout=out.decode(errors="replace"),
        stderr=err.decode(errors="replace"),
        seconds=time.monotonic() - begin,
    )

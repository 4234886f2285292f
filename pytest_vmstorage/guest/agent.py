"""A shell in a guest through its agent: no network, no keys, any libvirt URI.

Output goes to files in the guest and is fetched in pieces: captured output over 2 MiB is lost, and messages over
64 KiB corrupt the channel (tried on libvirt 9.0 with QEMU 7.2).
"""

from __future__ import annotations

import base64
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_vmstorage.errors import CommandStuckError, HypervisorError
from pytest_vmstorage.guest.protocol import Domain
from pytest_vmstorage.host.shell import TIMED_OUT, CommandResult, make_result
from pytest_vmstorage.results.spans import waiting_for

READ_BYTES = 512 * 1024
WRITE_BYTES = 32 * 1024
"""Data in one message; base64 makes it a third longer, and 64 KiB must hold."""

CALL_S = 10.0
"""Time limit of one agent command; the agent answers in milliseconds, or the guest is stuck."""

GRACE_S = 20.0
"""Time after a command's own time limit in which its end is still waited for."""

_FIRST_POLL_S = 0.004
_POLL_GROWTH = 1.15
_LAST_POLL_S = 0.25
"""Polling costs the guest's CPU time: a command's end is seen an eighth of its time late, and a long measurement is
polled four times a second."""

_LAST_BRIEF_POLL_S = 0.04
"""The pause for brief commands: none is a measurement, and other work waits for their end."""

_UNASKED_SHARE = 0.85
"""Share of the shortest time that the same line ever took in which its end is not polled.

Each answer takes an emulated guest 3 to 4 ms, and dozens of answers a third of the time of dropping its caches.
"""

_UNSEEN_SHARE = 0.7
"""Share of the time that a line is assumed to take where it had ended before the first poll.

Else a line that ran cold once would be waited for long after it has ended, each time a little less.
"""

_FOLLOW_S = 0.02
"""Pause between two reads of a file that is written within a fraction of a second; a read takes the guest 3 ms."""

KILL = 'kill -KILL "$1" $(cat "/proc/$1/task/$1/children")'
"""Line of sh that ends a process and its children."""

_FILES = "/run/vmstorage-command"
_LINES_OF_SH = (("/bin/sh", "-c"), ("sh", "-c"))


class AgentShell:
    """Commands in one guest, one at a time, through guest-exec."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._lock = threading.Lock()
        self._tells_disks = True
        self._open: dict[str, int] = {}
        self._shortest: dict[tuple[str, ...], float] = {}

    def run(self, argv: Sequence[str], *, timeout_s: float | None = None, stdin: bytes | None = None) -> CommandResult:
        """Run argv in the guest; 124 if it was killed at its time limit. Raises GuestError, GuestDiedError."""
        with self._lock, waiting_for(f"the command {argv[0]} in the guest"):
            return self._run(argv, timeout_s, stdin)

    def put(self, source: Path, target: str, *, moved: Callable[[int], None] = lambda _bytes: None) -> None:
        """Copy a local file into the guest."""
        del moved
        with self._lock:
            self._write(target, source.read_bytes())

    def read(self, path: str) -> str:
        """The text of a file in the guest, "" where it cannot be opened; no process is started for it."""
        with self._lock:
            try:
                return self._read(path).decode(errors="replace")
            except HypervisorError:
                return ""

    def reread(self, path: str) -> str:
        """The present text of a file of /sys or /proc, "" where there is none; the file stays open for the next time.

        That saves one answer of three. A piece is larger than the agent's own buffer, so that this keeps nothing.
        """
        with self._lock:
            try:
                handle = self._open.get(path)
                if handle is not None:
                    self._call("guest-file-seek", handle=handle, offset=0, whence=0)
                else:
                    handle = self._open[path] = self._call("guest-file-open", path=path, mode="r")
                return self._rest(handle).decode(errors="replace")
            except HypervisorError:
                # the file's device is gone, and may have come back
                self._open.pop(path, None)
        return self.read(path)

    def disk_sectors(self, name: str) -> tuple[int, int] | None:
        """Sectors of 512 bytes that the guest's disk of a name such as vdb has read and written so far.

        None where the agent cannot tell: guest-get-diskstats came with QEMU 7.1. It takes one answer, a file three.
        """
        if not self._tells_disks:
            return None
        try:
            with self._lock:
                told = self._call("guest-get-diskstats")
        except HypervisorError:
            self._tells_disks = False
            return None
        stats: Mapping[str, int] = next((one["stats"] for one in told if one["name"] == name), {})
        # the agent leaves out counters that the guest's kernel does not have
        read, written = stats.get("read-sectors"), stats.get("write-sectors")
        return None if read is None or written is None else (read, written)

    def write(self, path: str, data: bytes) -> None:
        """Write data into a file in the guest, also of /sys, without a process there.

        Raises HypervisorError where the guest's kernel refuses, GuestError.
        """
        with self._lock:
            self._write(path, data)

    def follow(self, path: str, until: str, *, timeout_s: float) -> str:
        """The text of a file that is being written in the guest, once it ends with `until`, or at the time limit.

        Raises HypervisorError where it cannot be opened, GuestError.
        """
        deadline = time.monotonic() + timeout_s
        with self._lock:
            handle = self._call("guest-file-open", path=path, mode="r")
            try:
                said = b""
                while not said.endswith(until.encode()) and time.monotonic() < deadline:
                    time.sleep(_FOLLOW_S)
                    said += self._piece(handle)[0]
                return said.decode(errors="replace")
            finally:
                self._call("guest-file-close", handle=handle)

    def brief(self, line: str, *words: str, timeout_s: float) -> CommandResult:
        """Run a line of sh with these words as its parameters; the result and the errors are those of `run`.

        Its output comes with its exit status, and not through files, which take the agent six answers more; over 2 MiB
        would be lost. It is killed from here: timeout(1) takes an emulated guest a quarter of the time.
        """
        begin, argv = time.monotonic(), ("/bin/sh", "-c", line, "sh", *words)
        with self._lock:
            pid = self._call("guest-exec", path=argv[0], arg=[*argv[1:]], **{"capture-output": True})["pid"]
            shortest_s = self._shortest.get(argv, 0.0)
            time.sleep(max(0.0, begin + min(timeout_s, _UNASKED_SHARE * shortest_s) - time.monotonic()))
            status = self._call("guest-exec-status", pid=pid)
            seen_share = _UNSEEN_SHARE if status["exited"] else 1.0
            if not status["exited"]:
                time.sleep(_FIRST_POLL_S)
                status = self._status_by(pid, begin + timeout_s, _LAST_BRIEF_POLL_S)
            if status is None:
                self._call("guest-exec", path="/bin/sh", arg=["-c", KILL, "sh", str(pid)])
                status = self._wait(pid, 0.0)
        took_s = time.monotonic() - begin
        self._shortest[argv] = min(seen_share * took_s, shortest_s or took_s)
        code = _code(status, timeout_s, took_s)
        # the agent leaves out what is empty
        out, err = (base64.b64decode(status.get(f"{name}-data", "")) for name in ("out", "err"))
        return make_result(argv, code, out, err, begin)

    def _run(self, argv: Sequence[str], timeout_s: float | None, stdin: bytes | None) -> CommandResult:
        begin = time.monotonic()
        feed = "/dev/null"
        if stdin is not None:
            feed = f"{_FILES}.in"
            self._write(feed, stdin)
        limit = [] if timeout_s is None else ["timeout", "-s", "KILL", f"{timeout_s:.3f}"]
        path, *arg = [*limit, *_redirected(argv, f"<{feed} >{_FILES}.out 2>{_FILES}.err")]
        pid = self._call("guest-exec", path=path, arg=arg)["pid"]
        code = _code(self._wait(pid, timeout_s), timeout_s, time.monotonic() - begin)
        return make_result(argv, code, self._read(f"{_FILES}.out"), self._read(f"{_FILES}.err"), begin)

    def _wait(self, pid: int, timeout_s: float | None) -> Mapping[str, Any]:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s + GRACE_S
        status = self._status_by(pid, deadline, _LAST_POLL_S)
        if status is None:
            raise CommandStuckError(
                f"A command in the guest did not end {GRACE_S:.0f} s after its time limit.", code="VM504"
            )
        return status

    def _status_by(self, pid: int, deadline: float | None, last_poll_s: float) -> Mapping[str, Any] | None:
        """The status of a command that ended, None at the deadline."""
        pause = _FIRST_POLL_S
        while True:
            status: Mapping[str, Any] = self._call("guest-exec-status", pid=pid)
            if status["exited"]:
                return status
            if deadline is not None and time.monotonic() > deadline:
                return None
            time.sleep(pause)
            pause = min(pause * _POLL_GROWTH, last_poll_s)

    def _read(self, path: str) -> bytes:
        handle = self._call("guest-file-open", path=path, mode="r")
        try:
            return self._rest(handle)
        finally:
            self._call("guest-file-close", handle=handle)

    def _rest(self, handle: int) -> bytes:
        """The content of an open file from its present position."""
        parts, is_last = [], False
        while not is_last:
            part, is_last = self._piece(handle)
            parts.append(part)
        return b"".join(parts)

    def _piece(self, handle: int) -> tuple[bytes, bool]:
        """The next piece of an open file, and whether it is the last one for now."""
        part = self._call("guest-file-read", handle=handle, count=READ_BYTES)
        return base64.b64decode(part["buf-b64"]), bool(part["eof"] or not part["count"])

    def _write(self, path: str, data: bytes) -> None:
        handle = self._call("guest-file-open", path=path, mode="w")
        try:
            for begin in range(0, len(data), WRITE_BYTES):
                piece = data[begin : begin + WRITE_BYTES]
                # one write may take less than it was given
                while piece:
                    text = base64.b64encode(piece).decode()
                    count = self._call("guest-file-write", handle=handle, **{"buf-b64": text})["count"]
                    piece = piece[count:]
        finally:
            self._call("guest-file-close", handle=handle)

    def _call(self, command: str, **arguments: Any) -> Any:
        return self._domain.agent(command, arguments, CALL_S)


def _code(status: Mapping[str, Any], timeout_s: float | None, took_s: float) -> int:
    """The return code of a process that ended after `took_s`; TIMED_OUT where its time limit killed it."""
    # a process that died of a signal has no exitcode key
    code = int(status["exitcode"]) if "exitcode" in status else 128 + int(status.get("signal", 0))
    # timeout(1) with KILL dies of it as well, and the agent says so by signal; the kernel kills so too when memory
    # runs out, but hardly at that moment (the clocks of guest and host differ a little)
    is_late = timeout_s is not None and took_s >= 0.95 * timeout_s
    return TIMED_OUT if is_late and code == 128 + signal.SIGKILL else code


def _redirected(argv: Sequence[str], files: str) -> list[str]:
    """The argv with its input and output in files, by a shell: its own, where it is a line of sh."""
    if tuple(argv[:2]) in _LINES_OF_SH:
        return ["/bin/sh", "-c", f"exec {files}\n{argv[2]}", *argv[3:]]
    return ["/bin/sh", "-c", f'exec "$@" {files}', "sh", *argv]

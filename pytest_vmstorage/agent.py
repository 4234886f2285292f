"""A shell in a guest through its agent: no network, no keys, any libvirt URI.

Output goes to files in the guest and is fetched in pieces: captured output over 2 MiB is lost, and messages
over 64 KiB corrupt the channel (tried on libvirt 9.0 with QEMU 7.2).
"""

from __future__ import annotations

import base64
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_vmstorage.command import TIMED_OUT, CommandResult, make_result
from pytest_vmstorage.errors import CommandStuckError, HypervisorError
from pytest_vmstorage.provision.contract import Domain

READ_BYTES = 512 * 1024
WRITE_BYTES = 32 * 1024
"""Data in one message; base64 makes it a third longer, and 64 KiB must hold."""

CALL_S = 10.0
"""Time limit of one agent command; the agent answers in milliseconds, or the guest is stuck."""

GRACE_S = 20.0
"""How much longer than the command's own time limit its end is waited for."""

_FIRST_POLL_S = 0.004
_POLL_GROWTH = 1.15
_LAST_POLL_S = 0.25
"""Polling costs the guest's CPU time: a command's end is seen an eighth of its time late, and a long measurement is
asked after four times a second."""

_FOLLOW_S = 0.02
"""How often a file is looked at that is written within a fraction of a second; a look takes the guest 3 ms."""

_FILES = "/run/vmstorage-command"
_LINES_OF_SH = (("/bin/sh", "-c"), ("sh", "-c"))


class AgentShell:
    """Commands in one guest, one at a time, through guest-exec."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._lock = threading.Lock()

    def run(self, argv: Sequence[str], *, timeout_s: float | None = None, stdin: bytes | None = None) -> CommandResult:
        """Run argv in the guest; 124 if it was killed at its time limit. Raises GuestError, GuestDiedError."""
        with self._lock:
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

    def write(self, path: str, data: bytes) -> None:
        """Write that into a file in the guest, which may be one of /sys; no process is started for it.

        Raises HypervisorError where the guest's kernel refuses, GuestError.
        """
        with self._lock:
            self._write(path, data)

    def follow(self, path: str, until: str, *, timeout_s: float) -> str:
        """The text of a file in the guest that somebody there is writing, when it ends so, or as it is at the limit.

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
        """Run a line of sh with these words after it; the result and the errors are those of `run`.

        What it says comes with the word that it ended, and not through files, which take the agent six answers more.
        Over 2 MiB would be lost.
        """
        begin, argv = time.monotonic(), ("/bin/sh", "-c", line, "sh", *words)
        with self._lock:
            path, *arg = [*_limit(timeout_s), *argv]
            pid = self._call("guest-exec", path=path, arg=arg, **{"capture-output": True})["pid"]
            status = self._wait(pid, timeout_s)
        code = _code(status, timeout_s, time.monotonic() - begin)
        # the agent leaves out what is empty
        out, err = (base64.b64decode(status.get(f"{name}-data", "")) for name in ("out", "err"))
        return make_result(argv, code, out, err, begin)

    def _run(self, argv: Sequence[str], timeout_s: float | None, stdin: bytes | None) -> CommandResult:
        begin = time.monotonic()
        feed = "/dev/null"
        if stdin is not None:
            feed = f"{_FILES}.in"
            self._write(feed, stdin)
        path, *arg = [*_limit(timeout_s), *_redirected(argv, f"<{feed} >{_FILES}.out 2>{_FILES}.err")]
        pid = self._call("guest-exec", path=path, arg=arg)["pid"]
        code = _code(self._wait(pid, timeout_s), timeout_s, time.monotonic() - begin)
        return make_result(argv, code, self._read(f"{_FILES}.out"), self._read(f"{_FILES}.err"), begin)

    def _wait(self, pid: int, timeout_s: float | None) -> Mapping[str, Any]:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s + GRACE_S
        pause = _FIRST_POLL_S
        while True:
            status: Mapping[str, Any] = self._call("guest-exec-status", pid=pid)
            if status["exited"]:
                return status
            if deadline is not None and time.monotonic() > deadline:
                raise CommandStuckError(f"A command in the guest did not end {GRACE_S:.0f} s after its time limit.")
            time.sleep(pause)
            pause = min(pause * _POLL_GROWTH, _LAST_POLL_S)

    def _read(self, path: str) -> bytes:
        handle = self._call("guest-file-open", path=path, mode="r")
        parts = []
        try:
            while True:
                part, is_last = self._piece(handle)
                parts.append(part)
                if is_last:
                    return b"".join(parts)
        finally:
            self._call("guest-file-close", handle=handle)

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


def _limit(timeout_s: float | None) -> list[str]:
    return [] if timeout_s is None else ["timeout", "-s", "KILL", f"{timeout_s:.3f}"]


def _code(status: Mapping[str, Any], timeout_s: float | None, took_s: float) -> int:
    """The return code of a process that ended after so long; TIMED_OUT of one that was killed at its time limit."""
    # a process that died of a signal has no exitcode key
    code = int(status["exitcode"]) if "exitcode" in status else 128 + int(status.get("signal", 0))
    # timeout(1) with KILL dies of it as well, and the agent says so by signal; the kernel kills so too when memory
    # runs out, but hardly at that moment (the clocks of guest and host differ a little)
    is_late = timeout_s is not None and took_s >= 0.95 * timeout_s
    return TIMED_OUT if is_late and code == 128 + signal.SIGKILL else code


def _redirected(argv: Sequence[str], files: str) -> list[str]:
    """That argv with its input and output in files, for which it takes a shell: its own, if it is a line of sh."""
    if tuple(argv[:2]) in _LINES_OF_SH:
        return ["/bin/sh", "-c", f"exec {files}\n{argv[2]}", *argv[3:]]
    return ["/bin/sh", "-c", f'exec "$@" {files}', "sh", *argv]

"""Processes that a FakeDomain's agent has started: they last as their recording says, or until they are killed."""

from __future__ import annotations

import base64
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_vmstorage.agent import KILL
from pytest_vmstorage.errors import HypervisorError
from pytest_vmstorage.testing.command_words import CommandWords, read_words
from pytest_vmstorage.testing.shell import FakeShell


@dataclass
class _Process:
    ends: float
    code: int
    said: Mapping[str, bytes]


class GuestProcesses:
    """Runs commands on a FakeShell, and tells of each end once, as qemu-ga does."""

    def __init__(self) -> None:
        self._running: dict[int, _Process] = {}

    def start(
        self, pid: int, words: Sequence[str], shell: FakeShell, content: Callable[[str], bytes], *, capture: bool
    ) -> None:
        """Begin one; `content` is that of a file in the guest."""
        asked = read_words(words)
        if KILL in asked.argv:
            self._running[int(asked.argv[-1])] = _Process(0.0, -signal.SIGKILL, {})
            self._running[pid] = _Process(0.0, 0, {})
            return
        stdin = content(asked.feed) if asked.feed not in ("", "/dev/null") else None
        # the shell gets no limit of its own: it is the guest's timeout(1) that ends the command, or KILL
        done = shell.run(asked.argv, stdin=stdin)
        said = {"out": done.stdout.encode(), "err": done.stderr.encode()}
        if asked.out:
            shell.files.update({asked.out: said["out"], asked.err: said["err"]})
        is_late = asked.limit_s is not None and done.seconds > asked.limit_s
        code = -signal.SIGKILL if is_late else done.returncode
        captured = said if capture and not asked.out else {}
        self._running[pid] = _Process(time.monotonic() + _lasts_s(asked, done.seconds, capture), code, captured)

    def status(self, pid: int) -> Any:
        """What the agent says of that one."""
        if pid not in self._running:
            raise HypervisorError("guest agent command guest-exec-status failed: Invalid parameter 'pid'.", code=1)
        process = self._running[pid]
        if time.monotonic() < process.ends:
            return {"exited": False}
        del self._running[pid]
        said = {f"{name}-data": base64.b64encode(data).decode() for name, data in process.said.items() if data}
        ended = {"signal": -process.code} if process.code < 0 else {"exitcode": process.code}
        return {"exited": True, **ended, **said}


def _lasts_s(asked: CommandWords, seconds: float, capture: bool) -> float:
    """Nobody waits for a fake, but for one that is to be killed."""
    if asked.limit_s is not None and seconds > asked.limit_s:
        return asked.limit_s
    return seconds if capture and asked.limit_s is None else 0.0

"""FakeShell: a machine on which commands answer from recordings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pytest_vmstorage.host.shell import TIMED_OUT, CommandResult


class Asked(NamedTuple):
    """A command that a fake shell was to run."""

    argv: tuple[str, ...]
    timeout_s: float | None = None
    stdin: bytes | None = None

    @property
    def line(self) -> str:
        """The command as a line of sh."""
        return shlex.join(self.argv)


class NoRecordingError(LookupError):
    """No recording answers a command: a mistake in the test, never an outcome of the command."""


Answer = CommandResult | Callable[[Asked], CommandResult]


@dataclass(frozen=True)
class _Recording:
    key: tuple[str, ...] | re.Pattern[str]
    answer: Answer
    writes: Mapping[str, str]

    def fits(self, argv: tuple[str, ...], line: str) -> bool:
        return self.key.search(line) is not None if isinstance(self.key, re.Pattern) else self.key == argv

    def __str__(self) -> str:
        return f"/{self.key.pattern}/" if isinstance(self.key, re.Pattern) else shlex.join(self.key)


class FakeShell:
    """A Shell that replays recordings: `asked` has all commands so far, `files` the files of its machine.

    A recording is found by the command's exact argv or by a pattern that is searched in its line; of several matches
    the last one given answers. A command without a recording raises NoRecordingError.
    """

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self.asked: list[Asked] = []
        self.files: dict[str, bytes] = dict(files or {})
        self._recordings: list[_Recording] = []

    def answer(
        self,
        command: Sequence[str] | re.Pattern[str],
        stdout: str = "",
        *,
        stderr: str = "",
        returncode: int = 0,
        seconds: float = 0.0,
        writes: Mapping[str, str] | None = None,
    ) -> FakeShell:
        """Give a command its result, and the files it writes; returns the shell, so that calls can be chained.

        A negative return code is death by that signal. `seconds` is how long the command claims to take: beyond a
        time limit it is killed there, and nobody sleeps.
        """
        argv = () if isinstance(command, re.Pattern) else tuple(command)
        result = CommandResult(argv=argv, returncode=returncode, stdout=stdout, stderr=stderr, seconds=seconds)
        return self._record(command, result, writes or {})

    def do(self, command: Sequence[str] | re.Pattern[str], action: Callable[[Asked], CommandResult]) -> FakeShell:
        """Let a function answer a command, for results that depend on earlier commands."""
        return self._record(command, action, {})

    def _record(self, command: Sequence[str] | re.Pattern[str], answer: Answer, writes: Mapping[str, str]) -> FakeShell:
        if isinstance(command, str):
            raise TypeError(f"{command!r} is neither an argv nor a compiled pattern")
        key = command if isinstance(command, re.Pattern) else tuple(command)
        self._recordings.insert(0, _Recording(key, answer, writes))
        return self

    def run(self, argv: Sequence[str], *, timeout_s: float | None = None, stdin: bytes | None = None) -> CommandResult:
        """Replay the command's recording; raises NoRecordingError where there is none."""
        asked = Asked(tuple(argv), timeout_s, stdin)
        self.asked.append(asked)
        line = asked.line
        found = next((recording for recording in self._recordings if recording.fits(asked.argv, line)), None)
        if found is None:
            there = "; ".join(map(str, reversed(self._recordings))) or "none"
            raise NoRecordingError(f"FakeShell was asked for `{line}`, but its recordings are: {there}.")
        result = found.answer if isinstance(found.answer, CommandResult) else found.answer(asked)
        if timeout_s is not None and result.seconds > timeout_s:
            return result.model_copy(update={"argv": asked.argv, "returncode": TIMED_OUT, "seconds": timeout_s})
        self.files.update({path: text.encode() for path, text in found.writes.items()})
        return result.model_copy(update={"argv": asked.argv})

    def put(self, source: Path, target: str, *, moved: Callable[[int], None] = lambda _bytes: None) -> None:
        """Keep a copy of the local file's bytes in `files`."""
        del moved
        self.files[target] = source.read_bytes()

    def read(self, path: str) -> str:
        """The text of one of `files`, "" where there is none."""
        return self.files.get(path, b"").decode(errors="replace")

    @property
    def lines(self) -> list[str]:
        """All commands so far, as lines of sh."""
        return [asked.line for asked in self.asked]

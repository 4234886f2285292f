"""What a guest's agent is asked to run, taken apart: how AgentShell wraps a command, undone."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_vmstorage.errors import HypervisorError


@dataclass(frozen=True)
class CommandWords:
    """A command in a guest: its argv, its time limit, and the files of its input and output, "" where it has none."""

    argv: tuple[str, ...]
    limit_s: float | None
    feed: str = ""
    out: str = ""
    err: str = ""


def read_words(words: Sequence[str]) -> CommandWords:
    """Take [timeout -s KILL N] /bin/sh -c LINE sh WORD ... apart; LINE may begin with exec ["$@"] <I >O 2>E.

    Raises HypervisorError for anything else.
    """
    is_limited = list(words[:3]) == ["timeout", "-s", "KILL"]
    limit_s, words = (float(words[3]), words[4:]) if is_limited else (None, words)
    if list(words[:2]) != ["/bin/sh", "-c"]:
        raise HypervisorError(f"FakeDomain does not run {shlex.join(words)}.")
    first, _, script = words[2].partition("\n")
    *_, feed, out, err = shlex.split(first) if first.startswith("exec ") else ("", "", "")
    if not err.startswith("2>"):
        return CommandWords(tuple(words), limit_s)
    argv = tuple(words[4:]) if '"$@"' in first else ("/bin/sh", "-c", script, *words[3:])
    return CommandWords(argv, limit_s, feed.removeprefix("<"), out.removeprefix(">"), err.removeprefix("2>"))

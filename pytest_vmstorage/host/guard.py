"""The guard below everything that writes on a host: a command may name only paths that are the run's own.

A shell that has a guard passes each command to it before the command runs. Every absolute path in its words must
lie in a folder of the run, or be a device that was listed, looked at and allowed, unless the program only reads. A
script of sh is judged by the words behind it; a script that only reads begins with the line `# reads`. A program that
is not listed here counts as one that writes.

The guard is a second check: options of mkfs and mount, listed devices and folders are checked where they are read.
It does not judge relative paths: options that could name one are refused there.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, Protocol, runtime_checkable

from pytest_vmstorage.errors import ForeignPathError

READS = "# reads"
"""First line of a script of sh that changes nothing."""

_SHELLS = ("sh", "/bin/sh", "bash", "/bin/bash")
_READERS = frozenset(
    (
        *("[", "b2sum", "cat", "command", "df", "du", "filefrag", "findmnt", "fuser", "grep", "head", "id", "ls"),
        *("lsblk", "lvs", "pgrep", "pvs", "readlink", "sha256sum", "stat", "sync", "tail", "test", "true", "vgs"),
    )
)
"""Programs that open their files for reading only; `sync` writes back the writes of others."""

_READING_VERBS = {
    "blockdev": ("--getss", "--getsize64", "--getro", "--flushbufs"),
    "qemu-img": ("info", "map", "check"),
    "zfs": ("list", "get"),
    "zpool": ("list", "get"),
    "dmesg": (),
}
_REPAIRS = ("-r", "--repair")
_RUNS = ("-exec", "-execdir", "-ok", "-okdir")
_WRITING_TESTS = ("-delete", "-fprint", "-fprint0", "-fprintf", "-fls")
_BACKING_FILE = ("qemu-img", "-b")
"""The program and the option whose next word is a file that it only reads."""

_INPUT = ("dd", "if=")
"""The program and the beginning of the word that names a file that it only reads."""

_KEY_VALUE = re.compile(r"[\w.-]+=(/.*)", re.DOTALL)
_WITHIN = re.compile(r"""(?:^|[=,:"'\s(\[{])(/[^\s,"']+)""")
_SIMPLE = re.compile(r"[^;&|<>$`(){}*?\[\]#~\n]+")
_HARMLESS = ("/dev/null", "/dev/zero", "/dev/urandom", "/proc/sys/vm/drop_caches")


class Guard:
    """The paths that a run may write to on one host: folders by the beginning of a path, devices by the whole path."""

    def __init__(self, prefixes: Iterable[str], *, of: str = "the host") -> None:
        self._prefixes = [one for one in prefixes if one]
        self._paths: set[str] = set(_HARMLESS)
        self._of = of

    def allow(self, path: str) -> None:
        """Let this device or file be written to from now on."""
        self._paths.add(path)

    def forbid(self, path: str) -> None:
        """Withdraw the permission for this device or file."""
        self._paths.discard(path)

    def is_ours(self, path: str) -> bool:
        """Whether the absolute path may be written to."""
        if path in self._paths:
            return True
        if ".." in PurePosixPath(path).parts:
            return False
        return any(path.startswith(one) or path == one.rstrip("/") for one in self._prefixes)

    def check_path(self, path: str, by: str) -> None:
        """Raise ForeignPathError unless the path may be written to; `by` is the program that would write."""
        if not self.is_ours(path):
            raise ForeignPathError(
                f"{by} would be given {path} on {self._of}, which is neither made by this run nor a device that"
                " vmstorage.toml lists.",
                hint="The command did not run. Take that path out of the test's options; if none of them names it,"
                " please report this as an error of pytest-vmstorage.",
                code="VM411",
            )

    def check(self, argv: Sequence[str]) -> None:
        """Raise ForeignPathError where a command that may write names a path that is not the run's own."""
        for path in named_paths(argv):
            self.check_path(path, argv[0])


def named_paths(argv: Sequence[str]) -> Iterator[str]:
    """Absolute paths in the words of a command that may write to them; no paths for a command that only reads."""
    argv = _without_limits(argv)
    program, words = argv[0], argv[1:]
    if program in _SHELLS and words[:1] == ["-c"]:
        yield from _of_script(words[1], words[3:])
        return
    if _only_reads(program, words):
        return
    for before, word in zip(["", *words], words, strict=False):
        is_read = (program, before) == _BACKING_FILE or (program, word[: len(_INPUT[1])]) == _INPUT
        yield from () if is_read else _paths_of(word)


def _without_limits(argv: Sequence[str]) -> list[str]:
    """The command after `timeout -k 2 10`, `nice` and `env NAME=VALUE`."""
    words = list(argv)
    while words and words[0] in ("timeout", "nice", "ionice", "env", "setsid"):
        rest = words[1:]
        while rest and (rest[0].startswith("-") or re.fullmatch(r"[\d.]+|\w+=.*", rest[0], re.DOTALL)):
            rest = rest[1:]
        words = rest
    return words or [""]


def _only_reads(program: str, words: Sequence[str]) -> bool:
    if program in _READERS:
        return True
    if program == "find":
        run = [after for word, after in pairwise(words) if word in _RUNS]
        return not {*words} & {*_WRITING_TESTS} and _READERS.issuperset(run)
    verbs = _READING_VERBS.get(program)
    if verbs is None:
        return False
    return (not verbs or any(word in verbs for word in words[:1])) and not any(
        word == one or word.startswith(f"{one}=") for word in words for one in _REPAIRS
    )


def _of_script(script: str, words: Sequence[str]) -> Iterator[str]:
    if script.lstrip().partition("\n")[0] == READS:
        return
    # a line of a single command, such as an image operation, names its paths itself
    if _SIMPLE.fullmatch(script):
        yield from named_paths(shlex.split(script) or [""])
    for word in words:
        yield from _paths_of(word)


def _paths_of(word: str) -> Iterator[str]:
    if word.startswith("/"):
        yield word
    elif found := _KEY_VALUE.fullmatch(word):
        yield found[1]
    elif word.startswith("json:"):
        yield from _of_json(json.loads(word.removeprefix("json:")))
    else:
        yield from _WITHIN.findall(word)


def _of_json(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if value.startswith("/"):
            yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _of_json(one)


@runtime_checkable
class Guarded(Protocol):
    """A shell that may have a guard."""

    guard: Guard | None


def guard_of(shell: object) -> Guard:
    """The shell's guard; for a shell without a guard, one that permits every path."""
    found = shell.guard if isinstance(shell, Guarded) else None
    return found or Guard(["/"])

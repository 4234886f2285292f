"""What users write, as values and in files of theirs: read, or refused in one sentence for all that can be wrong."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.text import MOST, shown

MOST_BYTES = 2**30
"""A saved run of a thousand cells with raw outputs has some 100 MB."""


def check_readable(name: str, value: object) -> None:
    """Raise ConfigError for a value that no text, file or tool of ours can hold: a huge number, a text with NUL."""
    if isinstance(value, int) and not -MOST < value < MOST:
        raise ConfigError(f"{name} is a number beyond 2^63.", hint="Write a smaller one.")
    if isinstance(value, str) and "\0" in value:
        raise ConfigError(f"{name}={shown(value)} has a NUL byte.", hint="Leave it out.")


def check_is_number(name: str, value: object, kind: object) -> None:
    """Raise ConfigError for a yes or no where a number of that annotation is wanted: Python takes True for 1."""
    if isinstance(value, bool) and bool not in _kinds(kind):
        raise ConfigError(f"{name}={value} is a yes or no.", hint="Write a number.")


def _kinds(kind: object) -> Iterator[object]:
    yield kind
    for part in get_args(kind):
        yield from _kinds(part)


def close_to(name: str, known: Iterable[str]) -> str:
    """The question whether one of the known names was meant, where one is spelt nearly so; "" otherwise."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.75)
    return f"Did you mean {found[0]!r}? " if found else ""


def check_one_line(name: str, value: str) -> None:
    """Raise ConfigError for a text with line ends, tabs or other control characters."""
    if not value.isprintable():
        raise ConfigError(f"{name}={shown(value)} contains a control character.", hint="Leave it out.")


def read_user_text(path: Path, name: str, *, hint: str = "") -> str:
    """The text of a regular file, called `name` in messages; raises ConfigError.

    A pipe or a device is refused: it would be waited for, or read without end.
    """
    try:
        if not path.is_file():
            there = "it is a folder" if path.is_dir() else "it is not a regular file"
            reason = there if path.exists() else "No such file or directory"
            raise ConfigError(f"{name} cannot be read: {reason}.", hint=hint)
        if path.stat().st_size > MOST_BYTES:
            raise ConfigError(f"{name} cannot be read: it has more than 1 GiB.", hint=hint)
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError, RuntimeError) as error:
        # ValueError: no UTF-8, or NUL in the path; RuntimeError: links that lead in a circle
        reason = getattr(error, "strerror", None) or _reason(error)
        raise ConfigError(f"{name} cannot be read: {reason}.", hint=hint) from None


def _reason(error: Exception) -> str:
    return "it is no UTF-8 text" if isinstance(error, UnicodeDecodeError) else "its path leads nowhere"


def parse_json(text: str) -> Any:
    """A JSON document; raises ValueError for all that is none, and for what is nested too deeply to be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None

"""Checks of the user's values, and reading of the user's files, with one sentence for each refusal."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.text import MOST, quoted

MOST_BYTES = 2**30
"""A saved run of a thousand cells has some 15 MB; it had 200 before it was packed."""


def check_readable(name: str, value: object) -> None:
    """Raise ConfigError for a value that no file or tool here can hold: a number beyond 2^63, a text with NUL."""
    if isinstance(value, int) and not -MOST < value < MOST:
        raise ConfigError(f"{name} is a number beyond 2^63.", hint="Write a smaller one.", code="VM108")
    if isinstance(value, str) and "\0" in value:
        raise ConfigError(f"{name}={quoted(value)} has a NUL byte.", hint="Leave it out.", code="VM108")


def check_is_number(name: str, value: object, kind: object) -> None:
    """Raise ConfigError for a truth value where the annotation `kind` has none: Python takes True for 1."""
    if isinstance(value, bool) and bool not in _kinds(kind):
        raise ConfigError(f"{name}={value} is a yes or no.", hint="Write a number.", code="VM108")


def check_is_integer(name: str, value: object, kind: object) -> None:
    """Raise ConfigError for a float, alone or in a list, where the annotation `kind` has integers and no floats."""
    kinds = list(_kinds(kind))
    if int not in kinds or float in kinds:
        return
    for one in value if isinstance(value, tuple | list) else (value,):
        if isinstance(one, float):
            remedy = f"Write {int(one)}." if one.is_integer() else "Write a whole number."
            raise ConfigError(f"{name}={quoted(value)} is not an integer.", hint=remedy, code="VM108")


def _kinds(kind: object) -> Iterator[object]:
    yield kind
    for part in get_args(kind):
        yield from _kinds(part)


def close_to(name: str, known: Iterable[str]) -> str:
    """The question "Did you mean ...?" for the known name with the closest spelling; "" where none is close."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.75)
    return f"Did you mean {found[0]!r}? " if found else ""


def check_one_line(name: str, value: str) -> None:
    """Raise ConfigError for a text with line ends, tabs or other control characters."""
    if not value.isprintable():
        raise ConfigError(f"{name}={quoted(value)} contains a control character.", hint="Leave it out.", code="VM108")


def read_user_text(path: Path, name: str, *, hint: str = "") -> str:
    """The text of a regular file, called `name` in messages; raises ConfigError.

    A pipe or a device is refused: reading it would wait, or never end.
    """
    try:
        if not path.is_file():
            there = "it is a folder" if path.is_dir() else "it is not a regular file"
            reason = there if path.exists() else "No such file or directory"
            raise ConfigError(f"{name} cannot be read: {reason}.", hint=hint, code="VM215")
        if path.stat().st_size > MOST_BYTES:
            raise ConfigError(f"{name} cannot be read: it has more than 1 GiB.", hint=hint, code="VM215")
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError, RuntimeError) as error:
        # ValueError: no UTF-8, or NUL in the path; RuntimeError: links that lead in a circle
        ours = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else "its path leads nowhere"
        reason = getattr(error, "strerror", None) or ours
        raise ConfigError(f"{name} cannot be read: {reason}.", hint=hint, code="VM215") from None


def parse_json(text: str) -> Any:
    """A JSON document; raises ValueError, also for one that is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None

"""Texts of a command line as values of a model's fields: "yes", "4", "rw=randwrite bs=4k"; pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from pytest_vmstorage.config.user_input import close_to
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.text import quoted
from pytest_vmstorage.workloads.fio.fio import Fio
from pytest_vmstorage.workloads.fio.job_file import read_options

_TRUTHS = {**dict.fromkeys(("1", "yes", "true", "on"), True), **dict.fromkeys(("0", "no", "false", "off"), False)}

_FIOS_OWN = (
    "allrandrepeat", "directory", "do_verify", "iodepth_low", "rate_iops_min", "thinktime_blocks_type",
    "thinktime_spin", "trim_backlog", "verify_backlog_batch",
)  # fmt: skip
"""Options of fio (3.33, --cmdhelp=all) without a field that are spelt much like one: no slips."""


def fio_values(kind: type[Fio], text: str, where: str) -> dict[str, Any]:
    """The options of a text as fio writes them, as a test file has them; those without a field are `extra`'s.

    Which of those there are fio itself says before a guest boots. Raises ConfigError, also for a name that is nearly
    one of a field; `where` names the text there.
    """
    given = read_options(text, where)
    known = {name: value for name, value in given.items() if name in kind.model_fields or name == "shown"}
    others = {name: field_value(kind, name, value or "1") for name, value in given.items() if name not in known}
    for name in others:
        if name not in _FIOS_OWN and (near := close_to(name, kind.model_fields)):
            raise ConfigError(f"fio has no option {name!r}.", hint=near, code="VM241")
    return field_values(kind, known) | ({"extra": others} if others else {})


def parse_options(text: str) -> dict[str, str | None]:
    """The options of a text such as "rw=randwrite bs=4k --direct", by their names; None for one without a value.

    Dashes before a name are left away, those in it become underscores; the shell's quotes keep blanks together. Raises
    ConfigError.
    """
    found: dict[str, str | None] = {}
    for word in _words(text):
        given, is_given, value = word.partition("=")
        name = given.strip("-").replace("-", "_")
        if not name:
            raise ConfigError(
                f"{quoted(word)} is no option.", hint="Write NAME=VALUE, or NAME for a switch.", code="VM241"
            )
        if name in found:
            raise ConfigError(f"{name} is given twice.", hint="Give it once.", code="VM242")
        found[name] = value if is_given else None
    return found


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise ConfigError(f"{quoted(text)} has a quote that does not end.", hint="Close it.", code="VM241") from None


def field_values(kind: type[BaseModel], options: Mapping[str, str | None]) -> dict[str, Any]:
    """The options as a test file has them: numbers, truth values, tuples and texts, by the model's fields.

    A name that Python keeps for itself has an underscore behind it (dd's `if`). Raises ConfigError; names that the
    model does not know are the model's to refuse.
    """
    values: dict[str, Any] = {}
    for given, text in options.items():
        name = f"{given}_" if f"{given}_" in kind.model_fields else given
        values[name] = field_value(kind, name, text)
    return values


def field_value(kind: type[BaseModel], name: str, text: str | None) -> Any:
    """One such value; raises ConfigError for an option without a value that is no switch, and for no yes or no."""
    is_known = name in kind.model_fields
    kinds: list[object] = list(_kinds(kind.model_fields[name].annotation)) if is_known else []
    if bool in kinds:
        return _truth(name, text)
    if text is None:
        raise ConfigError(f"{name} has no value.", hint=f"Write {name}=VALUE.", code="VM241")
    if tuple in kinds or name == "shown":
        return tuple(_number_or_text(part.strip(), kinds) for part in text.split(","))
    return _number_or_text(text, kinds)


def _kinds(annotation: object) -> Iterator[object]:
    """All types that an annotation consists of; `str` for a Literal."""
    origin = get_origin(annotation)
    if origin is Literal:
        yield str
        return
    yield annotation if origin is None else origin
    for part in get_args(annotation):
        yield from _kinds(part)


def _truth(name: str, text: str | None) -> bool:
    if text is None:
        return True
    if text.lower() not in _TRUTHS:
        raise ConfigError(f"{name}={text} is neither yes nor no.", hint=f"Write {name}=yes or {name}=no.", code="VM241")
    return _TRUTHS[text.lower()]


def _number_or_text(text: str, kinds: list[object]) -> int | str:
    # leading zeros are no number of Python's; str is for fields such as percentile_list="50"
    is_number = str not in kinds and text.isascii() and text.isdecimal() and len(text) <= 18
    return int(text) if is_number else text

"""Reading a gate file: TOML text -> tolerated and waived losses, and a sentence with file and key for each slip."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_vmstorage.analysis.gate.policy import GatePolicy, ToleranceRule, Tolerated, Waiver, parse_tolerated
from pytest_vmstorage.config.user_input import parse_toml
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.units import parse_percent

FILE_NAME = "vmstorage-gate.toml"

_EXAMPLE = {
    "cell": '"test_disk.py::*[qcow2-*]"',
    "tolerated": '"15%"',
    "day_spread": '"3%"',
    "reason": '"QEMU issue 1234"',
    "owner": '"jane@example.org"',
    "expires": "2027-03-31",
}


def load_gate_file(text: str, source: str, policy: GatePolicy) -> GatePolicy:
    """`policy` with what a gate file says besides; raises ConfigError, one sentence that names the file and the key.

    The file has `tolerated` and `day_spread` for all cells, and tables [[cells]] (cell, workload, tolerated) and
    [[waivers]] (cell, workload, reason, owner, expires).
    """
    document = parse_toml(text, source)
    _known(document, ("tolerated", "day_spread", "cells", "waivers"), source)
    found: dict[str, Any] = {
        "rules": tuple(_rule(table, where) for table, where in _tables(document, "cells", source)),
        "waivers": tuple(_waiver(table, where) for table, where in _tables(document, "waivers", source)),
    }
    if "tolerated" in document:
        found["tolerated"] = _tolerated(document, source)
    if "day_spread" in document:
        found["day_spread"] = _percent(_share(document, "day_spread", source), f"{source}: day_spread")
    return policy.model_copy(update=found)


def _percent(text: str, where: str) -> float:
    try:
        return parse_percent(text)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.what}", hint=error.hint) from None


def _tolerated(table: Mapping[str, Any], where: str) -> Tolerated:
    return parse_tolerated(_share(table, "tolerated", where), f"{where}: tolerated")


def _share(table: Mapping[str, Any], key: str, where: str) -> str:
    """A percentage as a text: 0.15 could be meant as 15 % or as 0.15 %."""
    value = _needed(table, key, where)
    if not isinstance(value, str):
        raise ConfigError(
            f"{where}: {key} = {value!r} is not a text.", hint=f"Write for example {key} = {_EXAMPLE[key]}."
        )
    return value


def _rule(table: Mapping[str, Any], where: str) -> ToleranceRule:
    _known(table, ("cell", "workload", "tolerated"), where)
    tolerated = _tolerated(table, where)
    return ToleranceRule(
        cell=_text(table, "cell", where),
        workload=_text(table, "workload", where, "*"),
        tolerated=tolerated,
        where=where,
    )


def _waiver(table: Mapping[str, Any], where: str) -> Waiver:
    _known(table, ("cell", "workload", "reason", "owner", "expires"), where)
    expires = _needed(table, "expires", where)
    if isinstance(expires, datetime.datetime) or not isinstance(expires, datetime.date):
        raise ConfigError(
            f"{where}: expires = {_shown(expires)} is not a date.", hint="Write expires = 2027-03-31, without quotes."
        )
    return Waiver(
        cell=_text(table, "cell", where),
        workload=_text(table, "workload", where, "*"),
        reason=_text(table, "reason", where),
        owner=_text(table, "owner", where),
        expires=expires,
        where=where,
    )


def _shown(value: object) -> str:
    return str(value) if isinstance(value, datetime.datetime | datetime.time) else repr(value)


def _tables(document: Mapping[str, Any], name: str, source: str) -> Iterable[tuple[Mapping[str, Any], str]]:
    tables = document.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{source}: {name} is not a list of tables.", hint=f"Begin each with [[{name}]].")
    return [(table, f"{source}, [[{name}]] {number}") for number, table in enumerate(tables, 1)]


def _needed(table: Mapping[str, Any], key: str, where: str) -> Any:
    if key not in table:
        raise ConfigError(f"{where}: {key} is missing.", hint=f"Write for example {key} = {_EXAMPLE[key]}.")
    return table[key]


def _text(table: Mapping[str, Any], key: str, where: str, default: str = "") -> str:
    value = table.get(key, default) if default else _needed(table, key, where)
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: {key} = {value!r} is not a text.", hint="Put it in quotation marks.")
    return value


def _known(keys: Iterable[str], known: tuple[str, ...], where: str) -> None:
    for key in keys:
        if key not in known:
            raise ConfigError(f"{where}: {key} is not known.", hint=f"There are: {', '.join(known)}.")

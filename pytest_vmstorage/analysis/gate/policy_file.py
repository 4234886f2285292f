"""Reading a gate file: TOML text -> tolerated and waived losses."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from pytest_vmstorage.analysis.gate.policy import (
    GATE_FILE,
    AcceptedLevel,
    GatePolicy,
    HistoryRules,
    ToleranceRule,
    Tolerated,
    Waiver,
    parse_tolerated,
)
from pytest_vmstorage.config.toml import SlipError, Text, TomlTable, load_toml, place
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.units import parse_percent


def _percentage(value: object, parse: Callable[[str], Any], example: str) -> Any:
    """A percentage in a text: a number such as 0.15 could be meant as 15 % or as 0.15 %."""
    if not isinstance(value, str):
        raise SlipError("is not a text", f'Write for example {{key}} = "{example}".')
    try:
        return parse(value)
    except ConfigError as error:
        raise SlipError("is not a percentage", error.hint) from None


def _tolerated(value: object) -> Any:
    return _percentage(value, lambda text: parse_tolerated(text, GATE_FILE), "15%")


_Tolerated = Annotated[Tolerated, BeforeValidator(_tolerated)]


class _Scope(TomlTable):
    cell: Text = Field(description='Write for example cell = "test_disk.py::*[qcow2-*]".')
    workload: Text = "*"


class _Cells(_Scope):
    tolerated: _Tolerated = Field(description='Write for example tolerated = "15%".')


class _Waiver(_Scope):
    reason: Text = Field(description='Write for example reason = "QEMU issue 1234".')
    owner: Text = Field(description='Write for example owner = "jane@example.org".')
    expires: datetime.date = Field(description="Write for example expires = 2027-03-31.", strict=True)


class _Level(_Scope):
    since: datetime.date = Field(description="Write for example since = 2026-11-03, a day of the change.", strict=True)
    reason: Text = Field(description='Write for example reason = "the new kernel flushes more".')
    owner: Text = Field(description='Write for example owner = "jane@example.org".')
    expires: datetime.date = Field(description="Write for example expires = 2027-03-31.", strict=True)


_Percent = Annotated[float, BeforeValidator(lambda value: _percentage(value, parse_percent, "3%"))]


def _floor(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise SlipError("is no change", "Write a number in the metric's own unit, such as {key} = 50.")
    return value


class _History(TomlTable):
    least: _Percent | None = None
    floors: Mapping[str, Annotated[float, BeforeValidator(_floor)]] = {}


class _GateFile(TomlTable):
    tolerated: _Tolerated | None = None
    day_spread: _Percent | None = None
    cells: tuple[_Cells, ...] = ()
    waivers: tuple[_Waiver, ...] = ()
    levels: tuple[_Level, ...] = ()
    history: _History | None = None


def load_gate_file(text: str, source: str, policy: GatePolicy) -> GatePolicy:
    """`policy` as a gate file changes it; raises ConfigError, one sentence that names the file and the key.

    The file has `tolerated` and `day_spread` for all cells, and tables [[cells]] (cell, workload, tolerated),
    [[waivers]] (cell, workload, reason, owner, expires), [[levels]] (as waivers, and since) and [history] (least,
    floors).
    """
    file = load_toml(_GateFile, text, source, code="VM801")
    found: dict[str, Any] = {name: getattr(file, name) for name in file.model_fields_set & {"tolerated", "day_spread"}}
    found["rules"] = tuple(
        ToleranceRule(**dict(one), where=place(source, "cells", n)) for n, one in enumerate(file.cells)
    )
    found["waivers"] = tuple(
        Waiver(**dict(one), where=place(source, "waivers", n)) for n, one in enumerate(file.waivers)
    )
    found["levels"] = tuple(
        AcceptedLevel(**dict(one), where=place(source, "levels", n)) for n, one in enumerate(file.levels)
    )
    if file.history is not None:
        found["history"] = HistoryRules(least=file.history.least, floors=file.history.floors)
    return policy.model_copy(update=found)

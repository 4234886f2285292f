"""The rows of saved runs for other programs: valid figures in base units, and labels that name their series; pure."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from pytest_vmstorage.analysis.comparability import flaw
from pytest_vmstorage.config.cell import AXES, StorageConfig, axis_text
from pytest_vmstorage.config.user_input import close_to
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.results.host import UNKNOWN
from pytest_vmstorage.results.run import Better, Measurement, Run
from pytest_vmstorage.results.saved import CellKey, host_of, keyed
from pytest_vmstorage.text import plain_line

_INVALID = "VM703"
"""The code of a figure that cannot be, with which its test ended."""

_ALWAYS = AXES[:4]
"""Axes that a row has among its labels whatever their value; others where they differ from their default."""


class BaseUnit(NamedTuple):
    """A unit without a prefix, in a name and beside a number; a figure in it is `times` as much, divided by `per`."""

    words: str
    symbol: str
    times: float = 1.0
    per: float = 1.0


_BYTES, _SECONDS = ("bytes", "B"), ("seconds", "s")
_UNITS: Mapping[str, BaseUnit] = {
    "": BaseUnit("", ""),
    "%": BaseUnit("ratio", "ratio", per=100.0),
    "IOPS": BaseUnit("operations_per_second", "ops/s"),
    "s": BaseUnit(*_SECONDS),
    "ms": BaseUnit(*_SECONDS, per=1e3),
    "us": BaseUnit(*_SECONDS, per=1e6),
    "ns": BaseUnit(*_SECONDS, per=1e9),
    "B": BaseUnit(*_BYTES),
    "KiB": BaseUnit(*_BYTES, times=2.0**10),
    "MiB": BaseUnit(*_BYTES, times=2.0**20),
    "GiB": BaseUnit(*_BYTES, times=2.0**30),
    "kB": BaseUnit(*_BYTES, times=1e3),
    "MB": BaseUnit(*_BYTES, times=1e6),
    "GB": BaseUnit(*_BYTES, times=1e9),
}


def base_unit(unit: str) -> BaseUnit:
    """The base unit of a metric's: seconds, bytes, ratio, operations and others per second, or itself."""
    if unit in _UNITS:
        return _UNITS[unit]
    if unit.endswith("/s"):
        counted = base_unit(unit.removesuffix("/s"))
        return counted._replace(words=f"{counted.words}_per_second", symbol=f"{counted.symbol}/s")
    return BaseUnit(identifier(unit), plain_line(unit))


def identifier(text: str) -> str:
    """The text as a name of ASCII letters, digits and "_" that begins with none of the latter."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_") or "other"


@dataclass(frozen=True)
class ExportValue:
    """A metric over a row's rounds in its base unit: the median, and the smallest and the largest round."""

    metric: str
    unit: BaseUnit
    better: Better
    median: float
    smallest: float
    largest: float

    def named(self, part: str = "") -> str:
        """The metric's name, a part of it, and its unit: "clat_p99_seconds", "clat_p99_round_min_seconds"."""
        stem, words = identifier(self.metric), self.unit.words
        stem = "" if stem == words else stem.removesuffix(f"_{words}")
        return "_".join(filter(None, (stem, part, words)))

    @property
    def numbers(self) -> Mapping[str, float]:
        """Median, smallest and largest round by their names."""
        return {
            self.named(): self.median,
            self.named("round_min"): self.smallest,
            self.named("round_max"): self.largest,
        }


@dataclass(frozen=True)
class ExportRow:
    """A workload in a cell on a host at one time, as other programs name and keep it.

    `labels` tell its series from all others and are the same in each run; `facts` may change from run to run: software
    versions, and when its run began. `when` is the beginning of its first round, in UTC.
    """

    labels: Mapping[str, str]
    facts: Mapping[str, str]
    when: datetime.datetime
    rounds: int
    values: tuple[ExportValue, ...]

    @property
    def series(self) -> tuple[tuple[str, str], ...]:
        """The labels as a key."""
        return tuple(self.labels.items())

    @property
    def is_emulated(self) -> bool:
        """Whether its guest ran under TCG, so that it says nothing about performance."""
        return self.labels["emulated"] == "yes"

    @property
    def name(self) -> str:
        """What it is, in one line: workload, cell, host, acceleration and test."""
        said = self.labels
        accel = f"{said['accel']}{', emulated' if self.is_emulated else ''}"
        cell = f"{said['cell']} {said.get('size', '')}".strip()
        again = f" #{said['repeat']}" if "repeat" in said else ""
        return f"{said['workload']}, {cell} on {said['host']} ({accel}), {said['nodeid']}{again}"


class ExportRows(NamedTuple):
    """Rows, the oldest first, and a sentence for each row and figure that is none of them."""

    rows: tuple[ExportRow, ...]
    left_out: tuple[str, ...]


def gather(runs: Sequence[Run], patterns: Collection[str] = (), better: Better | None = None) -> ExportRows:
    """The valid rows of these runs, each once, with the metrics that the matrix shows or that match a pattern.

    With `better` only figures of which that is better. Raises ConfigError for a pattern that matches no metric.
    """
    _check_patterns(runs, patterns)
    rows: dict[object, ExportRow] = {}
    left_out: list[str] = []
    for run in runs:
        left_out += _without_figure(run)
        for key, m in keyed(run.measurements):
            row = _row(run, key, m, patterns, better, left_out)
            if row.values:
                rows.setdefault((row.series, row.when), row)
    ordered = sorted(rows.values(), key=lambda row: row.when)
    return ExportRows(tuple(ordered), tuple(dict.fromkeys(map(plain_line, left_out))))


def _check_patterns(runs: Iterable[Run], patterns: Iterable[str]) -> None:
    known = list(dict.fromkeys(metric.name for run in runs for m in run.measurements for metric in m.metrics))
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise ConfigError(
                f"these runs have no metric {pattern!r}.",
                hint=f"{close_to(pattern, known)}They have: {', '.join(known) or 'none'}.",
                code="VM335",
            )


def _without_figure(run: Run) -> Iterator[str]:
    for failure in run.failures:
        reason = failure.reason.partition("\n")[0]
        yield f"{failure.config.label} on {failure.host}, {failure.nodeid}: {failure.outcome}: {reason}"
    if run.against:
        yield f"{len(run.against)} rows with {run.recipe or 'other values'}, which were measured beside others as pairs"


def _row(
    run: Run, key: CellKey, m: Measurement, patterns: Collection[str], better: Better | None, left_out: list[str]
) -> ExportRow:
    """The measurement's row, without values where none is valid; what is left out is added to `left_out`."""
    where, values = f"{m.workload} on {m.config.label}, {m.host}", dict[str, ExportValue]()
    if m.code == _INVALID:
        left_out.append(f"{where}: INVALID: {m.message}")
    names = [metric.name for metric in m.metrics if any(fnmatchcase(metric.name, one) for one in patterns)]
    for name in (names if patterns else m.shown) if m.code != _INVALID and m.samples else ():
        value, why = _value(m, name)
        if better is not None and value.better != better:
            continue
        if not why and any(one in values for one in value.numbers):
            why = f"another metric is named {value.named()} as well"
        if why:
            left_out.append(f"{name} of {where}: {why}")
        else:
            values.update(dict.fromkeys(value.numbers, value))
    return ExportRow(
        labels=_labels(run, key, m),
        facts=_facts(run, m),
        when=_time(m.samples[0].started if m.samples else run.started),
        rounds=len(m.samples),
        values=tuple(dict.fromkeys(values.values())),
    )


def _value(m: Measurement, name: str) -> tuple[ExportValue, str]:
    """That metric's value, and why it is invalid, "" where it is not."""
    figure = m.figure(name)
    unit = base_unit(figure.metric.unit)
    median, smallest, largest = (
        one * unit.times / unit.per for one in (float(figure), min(figure.values), max(figure.values))
    )
    value = ExportValue(name, unit, figure.metric.better, median, smallest, largest)
    why = flaw(figure)
    return value, f"INVALID: {why}" if why else ""


def _labels(run: Run, key: CellKey, m: Measurement) -> Mapping[str, str]:
    accel = host_of(run, m.host).accel_of(m.config, on_host=m.on_host)
    labels = {
        "workload": m.workload,
        "cell": str(m.config),
        "host": m.host,
        "accel": accel,
        "emulated": "yes" if accel == "tcg" else "no",
        "nodeid": m.nodeid,
        **({"repeat": str(key.nth + 1)} if key.nth else {}),
        **dict(_configured(m, m.config)),
        **{f"at_{identifier(name)}": f"{value:g}" for name, value in m.point.items()},
    }
    return {name: plain_line(text) for name, text in labels.items()}


def _configured(m: Measurement, config: StorageConfig) -> Iterator[tuple[str, str]]:
    for name in (*AXES, "size"):
        if not m.lacks(name) and (name in _ALWAYS or name == "size" or config.is_chosen(name)):
            yield name, axis_text(name, getattr(config, name)).removeprefix(f"{name}=")


def _facts(run: Run, m: Measurement) -> Mapping[str, str]:
    host = host_of(run, m.host)
    facts = {
        "run": run.started,
        "outcome": m.outcome,
        "host_kernel": host.kernel,
        "host_qemu": host.qemu,
        "host_libvirt": host.libvirt,
        "guest_kernel": m.guest.get("kernel", ""),
        "emulator_version": m.guest.get("qemu", ""),
        "tool_version": m.guest.get(m.tool, ""),
    }
    return {name: plain_line(text) for name, text in facts.items() if text not in ("", UNKNOWN)}


def _time(text: str) -> datetime.datetime:
    """Raises ConfigError for a text that is no date and time; one without a zone is in UTC, as all are saved."""
    try:
        when = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"a saved run says it began at {text!r}, which is no time.", hint="Save it again.", code="VM336"
        ) from None
    return when.astimezone(datetime.UTC) if when.tzinfo else when.replace(tzinfo=datetime.UTC)

"""Is a figure worse than the saved one? Pure: from two measurements to a verdict with a sentence."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from enum import StrEnum
from functools import cached_property

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.baseline import Baseline, CellKey, host_of, keyed
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.hygiene import matters
from pytest_vmstorage.results import Figure, HostFacts, Measurement, Metric, Run
from pytest_vmstorage.units import format_figure

_ROUNDING = 1e-9
"""A change of exactly the tolerated size is tolerated, whatever binary fractions make of it."""


class Kind(StrEnum):
    """What a comparison found; only REGRESSED turns a test red by itself."""

    PASS = "PASS"  # noqa: S105 (no password: a verdict)
    REGRESSED = "REGRESSED"
    IMPROVED = "IMPROVED"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"


class Verdict(BaseModel):
    """One metric of one cell against the baseline; `reason` is the sentence to show.

    `change` is the signed fraction of the figure itself (-0.129), `worse_by` the fraction in the metric's bad
    direction, negative when better; both None where nothing could be compared. `gates` is true for the
    primary metric, the only one that can fail a test.
    """

    model_config = ConfigDict(frozen=True)

    kind: Kind
    nodeid: str
    config: StorageConfig
    host: str
    workload: str
    nth: int
    metric: str
    unit: str
    gates: bool
    now: float
    then: float | None = None
    change: float | None = None
    worse_by: float | None = None
    reason: str

    @property
    def fails(self) -> bool:
        """Whether it turns its test red."""
        return self.gates and self.kind is Kind.REGRESSED

    @property
    def key(self) -> CellKey:
        """The cell it is about, without the host."""
        return CellKey(self.nodeid, self.workload, self.config, self.nth)


class MissingCell(BaseModel):
    """A cell that the baseline has and this run lacks."""

    model_config = ConfigDict(frozen=True)

    nodeid: str
    config: StorageConfig
    host: str
    workload: str


class Comparison(BaseModel):
    """A run against a baseline: a verdict for each shown metric of each cell, and what the run lacks."""

    model_config = ConfigDict(frozen=True)

    baseline: str
    max_regression: float | None = None
    verdicts: tuple[Verdict, ...] = ()
    missing: tuple[MissingCell, ...] = ()

    @cached_property
    def _by_figure(self) -> Mapping[tuple[CellKey, str, str], Verdict]:
        return {(verdict.key, verdict.host, verdict.metric): verdict for verdict in self.verdicts}

    def of(self, key: CellKey, host: str, metric: str) -> Verdict | None:
        """The verdict on that metric of that cell, or None."""
        return self._by_figure.get((key, host, metric))


def compare(
    run: Run, baseline: Baseline, max_regression: float | None, *, left_out: Collection[str] = ()
) -> Comparison:
    """Every shown metric of `run` judged; `left_out` are node ids the user deselected, so not missing."""
    pairs = keyed(run.measurements)
    verdicts = tuple(
        judge(m, baseline, max_regression, host=host_of(run, m.host), metric=name, nth=key.nth)
        for key, m in pairs
        for name in dict.fromkeys((m.primary, *m.shown))
    )
    compared = {id(baseline.find(key, m.host)) for key, m in pairs}
    accounted = {failure.nodeid for failure in run.failures} | set(left_out)
    missing = tuple(
        MissingCell(nodeid=m.nodeid, config=m.config, host=m.host, workload=m.workload)
        for m in baseline.run.measurements
        if id(m) not in compared and m.nodeid not in accounted
    )
    return Comparison(baseline=baseline.name, max_regression=max_regression, verdicts=verdicts, missing=missing)


def judge(
    measurement: Measurement,
    baseline: Baseline,
    max_regression: float | None,
    *,
    host: HostFacts,
    metric: str | None = None,
    nth: int = 0,
) -> Verdict:
    """One metric (by default the primary) against the same cell of the baseline.

    `host` is what `measurement` ran on, `max_regression` the tolerated fraction (None: nothing regresses),
    `nth` which of several equal measurements of one test this is. Worse or better is said of medians only.
    """
    name = metric or measurement.primary
    now = measurement.figure(name)
    key = CellKey(measurement.nodeid, measurement.workload, measurement.config, nth)
    base = Verdict(
        kind=Kind.INVALID, host=measurement.host, metric=name, unit=now.metric.unit, now=float(now),
        gates=name == measurement.primary, reason="", **key._asdict(),
    )  # fmt: skip
    flaw = _flaw(now)
    if flaw:
        return _with(base, Kind.INVALID, f"{name} of {_cell(base)} is invalid: {flaw}.")
    saved = baseline.find(key, measurement.host)
    obstacle = _obstacle(saved, baseline, host, now.metric, measurement)
    if saved is None or obstacle:
        sentence = f"{name} of {_cell(base)} was not compared with baseline {baseline.name!r}: {obstacle}."
        return _with(base, Kind.INCONCLUSIVE, sentence)
    return _weigh(base, now, saved.figure(name), baseline.name, max_regression)


def _flaw(figure: Figure) -> str:
    """Why the figure cannot be one, or an empty text."""
    if not all(math.isfinite(value) for value in figure.values):
        return "a round gave no number"
    # a file system may be found to have taken or given nothing, and then has
    if figure.metric.unit not in ("%", "B") and min(figure.values) <= 0:
        return f"a round gave {format_figure(min(figure.values), figure.metric.unit)}"
    return ""


def _obstacle(
    saved: Measurement | None, baseline: Baseline, host: HostFacts, metric: Metric, measured: Measurement
) -> str:
    """Why the saved measurement is nothing to compare with, or an empty text."""
    if saved is None:
        return "the baseline has no such cell"
    then = host_of(baseline.run, saved.host)
    config, on_host = measured.config, measured.on_host
    if then.accel_of(config, on_host=on_host) != host.accel_of(config, on_host=on_host):
        return f"it was saved under {then.accel} and measured under {host.accel} now"
    for what, before, today in (
        ("host", then.name, host.name),
        ("CPU", then.cpu, host.cpu),
        ("number of cores", then.cores, host.cores),
    ):
        if before != today:
            return f"the {what} was {before} and is {today} now"
    if matters(saved.without) != matters(measured.without):
        before, today = (_steps(matters(one.without)) for one in (saved, measured))
        return f"it was saved {before} and measured {today} now (--vm-without)"
    if metric not in saved.metrics:
        return f"the baseline has no {metric.name} in {metric.unit} for this cell"
    figure = saved.figure(metric.name)
    flaw = _flaw(figure) or ("a change from 0 has no percentage" if float(figure) == 0 else "")
    return f"the saved figure is invalid: {flaw}" if flaw else ""


def _steps(left_out: Collection[str]) -> str:
    return f"without {', '.join(left_out)}" if left_out else "with all steps around its rounds"


def _weigh(base: Verdict, now: Figure, then: Figure, name: str, max_regression: float | None) -> Verdict:
    change = (now - then) / then
    worse_by = -change if now.metric.better == "higher" else change
    limit = math.inf if max_regression is None else max_regression + _ROUNDING
    kind = Kind.REGRESSED if worse_by > limit else Kind.IMPROVED if -worse_by > limit else Kind.PASS
    course = "worse" if worse_by > 0 else "better"
    unit = now.metric.unit
    sentence = (
        f"{base.metric} of {_cell(base)} is {abs(change) * 100:.1f} % {course} than baseline {name!r}: "
        f"{format_figure(now, unit)} ({now.spread}) against {format_figure(then, unit)} ({then.spread})"
    )
    if max_regression is not None:
        sentence += f", tolerated {max_regression * 100:g} %"
    found = {"then": float(then), "change": change, "worse_by": worse_by}
    return _with(base, kind, f"{sentence}.").model_copy(update=found)


def _cell(verdict: Verdict) -> str:
    return f"{verdict.workload} on {verdict.config.label}"


def _with(base: Verdict, kind: Kind, reason: str) -> Verdict:
    return base.model_copy(update={"kind": kind, "reason": reason})

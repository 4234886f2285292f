"""What a comparison says of each figure, in words, and what all comparisons share; pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.analysis.comparability import flaw
from pytest_vmstorage.analysis.gate.kinds import Kind
from pytest_vmstorage.analysis.gate.policy import Finding, GatePolicy, Loss, Waiver, log_seconds
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.results.run import Figure, Measurement, Metric, Run, Sample
from pytest_vmstorage.results.saved import CellKey, keyed
from pytest_vmstorage.units import format_figure


class Verdict(BaseModel):
    """One metric of one cell against what was before; `reason` is the sentence to show.

    `change` is the signed fraction by which the median differs (-0.129), `worse_by` the fraction in the metric's bad
    direction, negative when better; None where nothing could be compared, or neither way is better. `gates` is true for
    the primary metric, the only one that is decided about: `finding` says how, None where nothing could be compared.
    `tolerated` is a fraction of the time per operation.
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
    tolerated: float | None = None
    finding: Finding | None = None
    waiver: Waiver | None = None
    reason: str

    @property
    def fails(self) -> bool:
        """Whether it turns its test red."""
        return self.gates and self.kind is Kind.REGRESSED and self.waiver is None

    @property
    def is_open(self) -> bool:
        """Whether it was to be decided, and could not be."""
        return self.gates and not self.kind.is_decided

    @property
    def key(self) -> CellKey:
        """The cell it is about, without the host."""
        return CellKey(self.nodeid, self.workload, self.config, self.nth)

    @property
    def about(self) -> str:
        """The workload and its cell."""
        return f"{self.workload} on {self.config.label}"


class MissingCell(BaseModel):
    """A cell that was measured before and that this run lacks."""

    model_config = ConfigDict(frozen=True)

    nodeid: str
    config: StorageConfig
    host: str
    workload: str

    @property
    def about(self) -> str:
        """The workload and its cell."""
        return f"{self.workload} on {self.config.label}, {self.host}"


class Comparison(BaseModel):
    """A run against what was before: a verdict for each shown metric of each cell, and what the run lacks.

    `against` names what was before ("baseline 'main'"), `stack` what of the host's software differs from then, `idle`
    what of the gate file is of no test.
    """

    model_config = ConfigDict(frozen=True)

    against: str
    verdicts: tuple[Verdict, ...] = ()
    missing: tuple[MissingCell, ...] = ()
    stack: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()

    @cached_property
    def _by_figure(self) -> Mapping[tuple[CellKey, str, str], Verdict]:
        return {(verdict.key, verdict.host, verdict.metric): verdict for verdict in self.verdicts}

    def of(self, key: CellKey, host: str, metric: str) -> Verdict | None:
        """The verdict on that metric of that cell, or None."""
        return self._by_figure.get((key, host, metric))

    @property
    def gated(self) -> tuple[Verdict, ...]:
        """The verdicts on primary metrics."""
        return tuple(verdict for verdict in self.verdicts if verdict.gates)


class Case(NamedTuple):
    """One shown metric of one measurement of a run."""

    key: CellKey
    measured: Measurement
    metric: Metric

    @property
    def gates(self) -> bool:
        """Whether it is the primary metric, the one that is decided about."""
        return self.metric.name == self.measured.primary

    @property
    def figure(self) -> Figure:
        """Its figure now."""
        return self.measured.figure(self.metric.name)


def cases_of(run: Run) -> Iterator[Case]:
    """Every shown metric of every measurement, the primary one first."""
    for key, measured in keyed(run.measurements):
        for name in dict.fromkeys((measured.primary, *measured.shown)):
            yield Case(key, measured, measured.metric(name))


def first_rounds(measured: Measurement) -> tuple[Sample, ...]:
    """The rounds that are looked at first, without the fresh ones that confirm."""
    return measured.samples[: len(measured.samples) - measured.fresh]


def by_guest(metric: Metric, samples: Sequence[Sample]) -> list[float]:
    """A value for each guest that rounds were taken in: the mean of log(seconds per operation) of its rounds.

    Rounds of one guest have in common what differs between guests. Raises ValueError as `log_seconds` does.
    """
    booted = sorted(samples, key=lambda sample: sample.boot)
    return [
        statistics.fmean(log_seconds(metric, [sample.figures[metric.name] for sample in rounds]))
        for _, rounds in groupby(booted, key=lambda sample: sample.boot)
    ]


class Pair(Protocol):
    """A case with what it is compared with, and the loss that it may have."""

    @property
    def case(self) -> Case:
        """What was measured now."""

    @property
    def then(self) -> Measurement:
        """What was before."""

    @property
    def policy(self) -> Loss:
        """What may be lost."""


Found = TypeVar("Found", bound=Pair)


def judge_all(
    run: Run,
    against: str,
    policy: GatePolicy,
    find: Callable[[Case], Found | str],
    decide: Callable[[Mapping[int, Found]], Mapping[int, Finding]],
) -> tuple[Verdict, ...]:
    """A verdict for every shown metric of the run, in order.

    `find` says what a case is compared with, or in a clause why it cannot be; `decide` gets all primary ones together.
    """
    verdicts: dict[int, Verdict] = {}
    to_decide: dict[int, Found] = {}
    for number, case in enumerate(cases := list(cases_of(run))):
        found = find(case)
        if isinstance(found, str):
            verdicts[number] = not_compared(case, against, found, policy)
        elif case.gates:
            to_decide[number] = found
        else:
            verdicts[number] = described(case, found.then, against)
    for number, finding in decide(to_decide).items():
        one = to_decide[number]
        verdicts[number] = decided(one.case, one.then, against, finding, policy, one.policy.tolerated)
    return tuple(verdicts[number] for number in range(len(cases)))


def not_compared(case: Case, against: str, reason: str, policy: GatePolicy) -> Verdict:
    """The verdict on what cannot be compared, and `reason` in a clause; INVALID where the figure cannot be one."""
    found = flaw(case.figure)
    kind = Kind.INVALID if found else Kind.INCONCLUSIVE if case.gates else Kind.SHOWN
    sentence = f"is invalid: {found}" if found else f"was not compared with {against}: {reason}"
    return _verdict(case, kind, f"{sentence}.", policy)


def described(case: Case, then: Measurement, against: str) -> Verdict:
    """The verdict on a metric beside the primary one: how its median differs."""
    before = then.figure(case.metric.name)
    change = _change(case.figure, before)
    sentence = f"is {_course(case.metric, change)} than {against}: {_figures(case.figure, before)}."
    return _verdict(case, Kind.SHOWN, sentence, None, then=float(before), change=change)


def decided(
    case: Case, then: Measurement, against: str, finding: Finding, policy: GatePolicy, tolerated: float
) -> Verdict:
    """The verdict on a primary metric as it was found; `tolerated` is a fraction of the time per operation."""
    before = then.figure(case.metric.name)
    change = _change(case.figure, before)
    kind = kind_of(finding)
    sentence = f"is {kind} against {against}: {finding.reason}; {_figures(case.figure, before)}."
    return _verdict(
        case, kind, sentence, policy, then=float(before), change=change, finding=finding, tolerated=tolerated
    )


def kind_of(finding: Finding) -> Kind:
    """A finding as a verdict; IMPROVED where the loss is excluded and the whole interval lies on the faster side."""
    if finding.kind is Kind.PASS and finding.interval is not None and finding.interval.high < 0:
        return Kind.IMPROVED
    return finding.kind


def _verdict(
    case: Case,
    kind: Kind,
    sentence: str,
    policy: GatePolicy | None,
    *,
    then: float | None = None,
    change: float | None = None,
    finding: Finding | None = None,
    tolerated: float | None = None,
) -> Verdict:
    worse = change if change is None else _worse_by(case.metric, change)
    is_waived = policy is not None and kind is Kind.REGRESSED
    waiver = policy.waiver_of(case.key.nodeid, case.key.workload) if policy is not None and is_waived else None
    return Verdict(
        kind=kind,
        host=case.measured.host,
        metric=case.metric.name,
        unit=case.metric.unit,
        gates=case.gates,
        now=float(case.figure),
        then=then,
        change=change,
        worse_by=worse,
        tolerated=tolerated,
        finding=finding,
        waiver=waiver,
        reason=f"{case.metric.name} of {case.key.workload} on {case.key.config.label} {sentence}",
        **case.key._asdict(),
    )


def _change(now: Figure, then: Figure) -> float:
    # a file system may be found to have given back more than it took
    return float((now - then) / abs(then))


def _worse_by(metric: Metric, change: float) -> float | None:
    """The change in the metric's bad direction; None where it has none."""
    return {"lower": change, "higher": -change}.get(metric.better)


def _course(metric: Metric, change: float) -> str:
    worse = _worse_by(metric, change)
    way = ("more" if change > 0 else "less") if worse is None else "worse" if worse > 0 else "better"
    return f"{abs(change) * 100:.1f} % {way}"


def _figures(now: Figure, then: Figure) -> str:
    unit = now.metric.unit
    return f"{format_figure(now, unit)} ({now.spread}) against {format_figure(then, unit)} ({then.spread})"

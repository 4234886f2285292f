"""The verdict on each figure of a comparison, with its sentence, and the steps that all comparisons share; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.analysis.comparability import flaw
from pytest_vmstorage.analysis.gate.kinds import Kind
from pytest_vmstorage.analysis.gate.policy import Finding, GatePolicy, Loss, Waiver
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.results.run import Figure, Measurement, Metric, Run, Sample
from pytest_vmstorage.results.saved import CellKey, keyed
from pytest_vmstorage.units import format_figure


class Verdict(BaseModel):
    """One metric of one cell against the earlier figure; `reason` is the sentence to show.

    `change` is the signed fraction by which the median differs (-0.129), `worse_by` the fraction in the metric's bad
    direction, negative when better; None where nothing could be compared, or neither way is better. `gates` is true for
    the primary metric, the only one that the gate decides about: `finding` is its result, None where nothing could be
    compared. `tolerated` is a fraction of the time per operation.
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
        """Whether the verdict turns its test red."""
        return self.gates and self.kind is Kind.REGRESSED and self.waiver is None

    @property
    def is_open(self) -> bool:
        """Whether the gate had to decide about the figure, and could not."""
        return self.gates and not self.kind.is_decided

    @property
    def key(self) -> CellKey:
        """The cell of the figure, without the host."""
        return CellKey(self.nodeid, self.workload, self.config, self.nth)

    @property
    def about(self) -> str:
        """The workload and its cell."""
        return f"{self.workload} on {self.config.label}"


class MissingCell(BaseModel):
    """A cell that was measured before and is not in this run."""

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
    """A run against earlier figures: a verdict for each shown metric of each cell, and the cells that the run lacks.

    `against` names the earlier figures ("baseline 'main'"), `stack` the parts of the hosts' software that differ from
    then, `idle` the entries of the gate file that match no test.
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
        """Whether this is the primary metric, the one that the gate decides about."""
        return self.metric.name == self.measured.primary

    @property
    def figure(self) -> Figure:
        """The metric's figure in this run."""
        return self.measured.figure(self.metric.name)


def cases_of(run: Run) -> Iterator[Case]:
    """Every shown metric of every measurement, the primary one first."""
    for key, measured in keyed(run.measurements):
        for name in dict.fromkeys((measured.primary, *measured.shown)):
            yield Case(key, measured, measured.metric(name))


def first_rounds(measured: Measurement) -> tuple[Sample, ...]:
    """The rounds before the fresh ones that confirm a suspect."""
    return measured.samples[: len(measured.samples) - measured.fresh]


@dataclass(frozen=True)
class ComparedCase:
    """A case, the earlier measurement beside it, and the loss that it may have."""

    case: Case
    then: Measurement
    policy: Loss


Found = TypeVar("Found", bound=ComparedCase)


def judge_all(
    run: Run,
    against: str,
    policy: GatePolicy,
    find: Callable[[Case], Found | str],
    decide: Callable[[Mapping[int, Found]], Mapping[int, Finding]],
) -> tuple[Verdict, ...]:
    """A verdict for every shown metric of the run, in order.

    `find` returns the comparison for a case, or a clause why there is none; `decide` gets all primary ones together.
    """
    verdicts: dict[int, Verdict] = {}
    to_decide: dict[int, Found] = {}
    for number, case in enumerate(cases_of(run)):
        found = find(case)
        if isinstance(found, str):
            verdicts[number] = _not_compared(case, against, found)
        elif case.gates:
            to_decide[number] = found
        else:
            before = found.then.figure(case.metric.name)
            sentence = f"is {_course(case, before)} than {against}: {_figures(case.figure, before)}."
            verdicts[number] = _verdict(case, Kind.SHOWN, sentence, before)
    for number, finding in decide(to_decide).items():
        verdicts[number] = _decided(to_decide[number], against, finding, policy)
    return tuple(verdicts[number] for number in sorted(verdicts))


def _not_compared(case: Case, against: str, reason: str) -> Verdict:
    """The verdict without a comparison: INVALID where the figure itself is impossible."""
    if found := flaw(case.figure):
        return _verdict(case, Kind.INVALID, f"is invalid: {found}.")
    kind = Kind.INCONCLUSIVE if case.gates else Kind.SHOWN
    return _verdict(case, kind, f"was not compared with {against}: {reason}.")


def _decided(found: ComparedCase, against: str, finding: Finding, policy: GatePolicy) -> Verdict:
    """The verdict on a primary metric; IMPROVED where a pass has its whole interval on the faster side."""
    case, before = found.case, found.then.figure(found.case.metric.name)
    is_faster = finding.kind is Kind.PASS and finding.interval is not None and finding.interval.high < 0
    kind = Kind.IMPROVED if is_faster else finding.kind
    waiver = policy.waiver_of(case.key.nodeid, case.key.workload) if kind is Kind.REGRESSED else None
    sentence = f"is {kind} against {against}: {finding.reason}; {_figures(case.figure, before)}."
    return _verdict(case, kind, sentence, before, finding=finding, tolerated=found.policy.tolerated, waiver=waiver)


def _verdict(case: Case, kind: Kind, sentence: str, before: Figure | None = None, **fields: Any) -> Verdict:
    if before is not None:
        change = _change(case.figure, before)
        fields |= {"then": float(before), "change": change, "worse_by": _worse_by(case.metric, change)}
    return Verdict(
        kind=kind,
        host=case.measured.host,
        metric=case.metric.name,
        unit=case.metric.unit,
        gates=case.gates,
        now=float(case.figure),
        reason=f"{case.metric.name} of {case.key.workload} on {case.key.config.label} {sentence}",
        **case.key._asdict(),
        **fields,
    )


def _change(now: Figure, then: Figure) -> float:
    # a figure can be negative: a file system may give back more than it took
    return float((now - then) / abs(then))


def _worse_by(metric: Metric, change: float) -> float | None:
    """The change in the metric's bad direction; None where neither way is better."""
    return {"lower": change, "higher": -change}.get(metric.better)


def _course(case: Case, before: Figure) -> str:
    change = _change(case.figure, before)
    worse = _worse_by(case.metric, change)
    way = ("more" if change > 0 else "less") if worse is None else "worse" if worse > 0 else "better"
    return f"{abs(change) * 100:.1f} % {way}"


def _figures(now: Figure, then: Figure) -> str:
    unit = now.metric.unit
    return f"{format_figure(now, unit)} ({now.spread}) against {format_figure(then, unit)} ({then.spread})"

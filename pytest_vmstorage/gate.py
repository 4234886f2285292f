"""Is a run slower than the saved ones? Pure: from two runs and a policy to verdicts with a sentence each."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from pytest_vmstorage.baseline import Baseline, CellKey, host_of, keyed
from pytest_vmstorage.days import LEAST_DAYS, Days, confirm_days, learnt
from pytest_vmstorage.fingerprint import flaw, obstacle, stack_changes, stack_of
from pytest_vmstorage.judging import Case, by_guest, cases_of, decided, described, not_compared
from pytest_vmstorage.loss import Finding, Loss, Standing
from pytest_vmstorage.results import Measurement, Metric, Run, Sample
from pytest_vmstorage.tolerance import GatePolicy
from pytest_vmstorage.verdict import Comparison, MissingCell, Verdict


class _Saved(NamedTuple):
    """A case with what is saved of it, and the loss that it may have."""

    case: Case
    then: Measurement
    saved: Sequence[Sequence[float]]
    policy: Loss = Loss()
    spread: float | None = None

    def days(self, samples: Sequence[Sample]) -> Days:
        """The saved days beside these rounds of today."""
        return Days(self.saved, by_guest(self.case.metric, samples), self.spread, self.policy)


def compare(run: Run, baseline: Baseline, policy: GatePolicy, *, left_out: Collection[str] = ()) -> Comparison:
    """Every shown metric of `run` against the baseline's; `left_out` are node ids the user deselected, not missing.

    A primary metric is PASS, SUSPECT or INCONCLUSIVE by its saved days, REGRESSED where its `fresh` rounds confirm it
    among all cells of the run that could be compared. The other metrics are SHOWN.
    """
    against = f"baseline {baseline.name!r}"
    verdicts: dict[int, Verdict] = {}
    to_decide: dict[int, _Saved] = {}
    for number, case in enumerate(cases := list(cases_of(run))):
        then = baseline.find(case.key, case.measured.host)
        found = _case(case, then, baseline, run, policy)
        if isinstance(found, str):
            verdicts[number] = not_compared(case, against, found, policy)
        elif case.gates:
            to_decide[number] = found
        else:
            verdicts[number] = described(case, found.then, against)
    for number, finding in _decide(to_decide).items():
        one = to_decide[number]
        verdicts[number] = decided(one.case, one.then, against, finding, policy, one.policy.tolerated)
    return around([verdicts[number] for number in range(len(cases))], run, baseline, left_out)


def around(verdicts: Sequence[Verdict], run: Run, baseline: Baseline, left_out: Collection[str] = ()) -> Comparison:
    """The comparison that has these verdicts: with the cells that the run lacks, and what of the stack differs."""
    return Comparison(
        against=f"baseline {baseline.name!r}",
        verdicts=tuple(verdicts),
        missing=_missing(run, baseline, left_out),
        stack=_stack(run, baseline),
    )


def _case(case: Case, then: Measurement | None, baseline: Baseline, run: Run, policy: GatePolicy) -> _Saved | str:
    """What the case is to be compared with, or why it cannot be."""
    if then is None:
        return "the baseline has no such cell"
    hosts = host_of(baseline.run, then.host), host_of(run, case.measured.host)
    reason = obstacle(then, case.measured, *hosts, case.metric)
    if reason or flaw(case.figure):
        return reason or "its figure is invalid"
    return _gated(case, then, baseline, run, policy) if case.gates else _Saved(case, then, [])


def _gated(case: Case, then: Measurement, baseline: Baseline, run: Run, policy: GatePolicy) -> _Saved | str:
    """The saved days of a primary figure and what it may lose, or why there is nothing to decide."""
    measured = case.measured
    if min(case.figure.values) <= 0:
        return "a round gave 0, and a change from 0 has no percentage"
    steady = measured.steadiness
    if steady.is_judged and not steady.is_steady:
        return f"its rounds are {steady}"
    saved = _saved_days(baseline, case.key, then, measured, case.metric, run)
    spread = math.log1p(policy.day_spread) if policy.day_spread is not None else None
    tolerated = policy.tolerated_by(case.key.nodeid, case.key.workload, measured.tolerated).fraction
    if tolerated is None and (tolerated := learnt(saved)) is None:
        return f"what it may lose is to be learnt from {LEAST_DAYS} saved days, and there are {len(saved)}"
    return _Saved(case, then, saved, Loss(tolerated=tolerated), spread)


def _saved_days(
    baseline: Baseline, key: CellKey, then: Measurement, now: Measurement, metric: Metric, run: Run
) -> list[list[float]]:
    """A value for each fresh guest of each saved day on which the host's software was what it was last, oldest first.

    Runs of one date are one day: what differs between days is the same in them.
    """
    today, stack = host_of(run, now.host), stack_of(host_of(baseline.run, then.host))
    alike = [
        (saved.started[:10], measured)
        for saved, measured in baseline.history(key, then.host)
        if stack_of(host := host_of(saved, measured.host)) == stack and not obstacle(measured, now, host, today, metric)
    ]
    alike.sort(key=lambda one: one[0])
    return [
        [value for _, measured in runs for value in by_guest(metric, measured.samples)]
        for _, runs in groupby(alike, key=lambda one: one[0])
    ]


def _decide(cases: Mapping[int, _Saved]) -> dict[int, Finding]:
    """A finding for each case: by its first rounds, and where it has fresh ones by those."""
    found: dict[int, Finding] = {}
    suspects: dict[int, Days] = {}
    for number, one in cases.items():
        samples, fresh = one.case.measured.samples, one.case.measured.fresh
        found[number] = one.days(samples[: len(samples) - fresh]).finding
        if fresh and found[number].standing is Standing.SUSPECT:
            suspects[number] = one.days(samples[-fresh:])
    return found | confirm_days(suspects, len(cases))


def _missing(run: Run, baseline: Baseline, left_out: Collection[str]) -> tuple[MissingCell, ...]:
    compared = {id(baseline.find(key, m.host)) for key, m in keyed(run.measurements)}
    accounted = {failure.nodeid for failure in run.failures} | set(left_out)
    return tuple(
        MissingCell(nodeid=m.nodeid, config=m.config, host=m.host, workload=m.workload)
        for m in baseline.run.measurements
        if id(m) not in compared and m.nodeid not in accounted
    )


def _stack(run: Run, baseline: Baseline) -> tuple[str, ...]:
    changes: Iterable[tuple[str, ...]] = (
        stack_changes(before, host) for host in run.hosts for before in baseline.run.hosts if before.name == host.name
    )
    return tuple(line for lines in changes for line in lines)

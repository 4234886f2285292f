"""Is a run slower than the saved ones? Pure: from two runs and a policy to verdicts with a sentence each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_vmstorage.baseline import Baseline, CellKey, host_of, keyed
from pytest_vmstorage.days import LEAST_DAYS, Days, confirm_days, drifting, learnt
from pytest_vmstorage.fingerprint import flaw, no_ratio, obstacle, other_parts, stack_changes, stack_of
from pytest_vmstorage.judging import Case, by_guest, first_rounds, judge_all
from pytest_vmstorage.loss import Finding, Loss, Standing, log_seconds
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
    left_out: str = ""
    saved_rounds: Sequence[Sequence[float]] = ()
    unsteady: str = ""

    @property
    def first(self) -> Sequence[Sample]:
        """The rounds that are looked at first, without the fresh ones."""
        return first_rounds(self.case.measured)

    def days(self, samples: Sequence[Sample], *, are_fresh: bool = False) -> Days:
        """The saved days beside these rounds of today."""
        metric = self.case.metric
        return Days(
            self.saved,
            by_guest(metric, samples),
            self.spread,
            self.policy,
            are_fresh,
            self.saved_rounds,
            log_seconds(metric, [sample.figures[metric.name] for sample in samples]),
        )

    @property
    def found(self) -> Finding:
        """What the first rounds say; rounds that drift decide nothing, and are at most a reason to suspect."""
        found = self.days(self.first).finding
        return drifting(found, self.unsteady) if self.unsteady else found


def compare(run: Run, baseline: Baseline, policy: GatePolicy, *, left_out: Collection[str] = ()) -> Comparison:
    """Every shown metric of `run` against the baseline's; `left_out` are node ids the user deselected, not missing.

    A primary metric is PASS, SUSPECT or INCONCLUSIVE by its saved days, REGRESSED where its `fresh` rounds confirm it
    among all cells of the run that could be compared. The other metrics are SHOWN.
    """

    def find(case: Case) -> _Saved | str:
        return _case(case, baseline.find(case.key, case.measured.host), baseline, run, policy)

    return around(judge_all(run, _name(baseline), policy, find, _decide), run, baseline, left_out)


def _name(baseline: Baseline) -> str:
    return f"baseline {baseline.name!r}"


def around(verdicts: Sequence[Verdict], run: Run, baseline: Baseline, left_out: Collection[str] = ()) -> Comparison:
    """The comparison that has these verdicts: with the cells that the run lacks, and what of the stack differs."""
    return Comparison(
        against=_name(baseline),
        verdicts=tuple(verdicts),
        missing=_missing(run, baseline, left_out),
        stack=_stack(run, baseline),
    )


def _case(case: Case, then: Measurement | None, baseline: Baseline, run: Run, policy: GatePolicy) -> _Saved | str:
    """What the case is to be compared with, or why it cannot be."""
    if then is None:
        is_older = bool(baseline.history(case.key, case.measured.host))
        return "the newest run of the baseline lacks it" if is_older else "the baseline has no such cell"
    hosts = host_of(baseline.run, then.host), host_of(run, case.measured.host)
    reason = obstacle(then, case.measured, *hosts, case.metric)
    if reason or flaw(case.figure):
        return reason or "its figure is invalid"
    return _gated(case, then, baseline, run, policy) if case.gates else _Saved(case, then, [])


def _gated(case: Case, then: Measurement, baseline: Baseline, run: Run, policy: GatePolicy) -> _Saved | str:
    """The saved days of a primary figure and what it may lose, or why there is nothing to decide."""
    measured, before = case.measured, then.figure(case.metric.name)
    if found := no_ratio(case.figure):
        return found
    if found := no_ratio(before):
        return f"when it was saved {found}"
    # fresh rounds are of other guests, which differ
    steady = measured.model_copy(update={"samples": first_rounds(measured)}).steadiness
    unsteady = str(steady) if steady.is_judged and not steady.is_steady else ""
    saved, rounds, left_out = _saved_days(baseline, case.key, then, measured, case.metric, run)
    spread = math.log1p(policy.day_spread) if policy.day_spread is not None else None
    tolerated = policy.tolerated_by(case.key.nodeid, case.key.workload, measured.tolerated).fraction
    if tolerated is None:
        tolerated = learnt(saved, len(by_guest(case.metric, first_rounds(measured))))
        if tolerated is None:
            return _not_learnt(len(saved), left_out)
    policy_of = Loss(tolerated=tolerated).shared(policy.parts)
    return _Saved(case, then, saved, policy_of, spread, left_out, rounds, unsteady)


def _not_learnt(days: int, left_out: str) -> str:
    if days >= LEAST_DAYS:
        return f"what it may lose is to be learnt from its saved days, and all {days} have one figure"
    there = f"there {'is' if days == 1 else 'are'} {days}{left_out and f' ({left_out})'}"
    return f"what it may lose is to be learnt from {LEAST_DAYS} saved days, and {there}"


def _saved_days(
    baseline: Baseline, key: CellKey, then: Measurement, now: Measurement, metric: Metric, run: Run
) -> tuple[list[list[float]], list[list[float]], str]:
    """A value for each fresh guest of each saved day on which the host's software was what it was last.

    Runs of one date are one day: what differs between days is the same in them. Also all rounds of each day, and which
    days are left out and why, in a clause, or an empty text.
    """
    last, today = host_of(baseline.run, then.host), host_of(run, now.host)
    days: dict[str, list[float]] = {}
    rounds: dict[str, list[float]] = {}
    left_out: dict[str, str] = {}
    for saved, measured in baseline.history(key, then.host):
        host, date = host_of(saved, measured.host), saved.started[:10]
        changed = ", ".join(stack_changes(host, last)) if stack_of(host) != stack_of(last) else ""
        reason = changed or obstacle(measured, now, host, today, metric) or no_ratio(measured.figure(metric.name))
        if reason:
            left_out[date] = reason
        else:
            days.setdefault(date, []).extend(by_guest(metric, measured.samples))
            rounds.setdefault(date, []).extend(log_seconds(metric, measured.values(metric.name)))
    reasons = {date: reason for date, reason in left_out.items() if date not in days}
    return list(days.values()), list(rounds.values()), _days_left_out(reasons)


def _days_left_out(reasons: Mapping[str, str]) -> str:
    if not reasons:
        return ""
    newest = reasons[max(reasons)]
    if len(reasons) == 1:
        return f"the saved day {max(reasons)} does not count: {newest}"
    return f"{len(reasons)} saved days do not count, the last of them {max(reasons)}: {newest}"


def _with_left_out(finding: Finding, left_out: str) -> Finding:
    """The finding with the days that it does not rest on, where more days are what it lacks."""
    if not left_out or finding.standing is not Standing.INCONCLUSIVE:
        return finding
    return finding.model_copy(update={"reason": f"{finding.reason} ({left_out})"})


def _decide(cases: Mapping[int, _Saved]) -> dict[int, Finding]:
    """A finding for each case: by its first rounds, and where it has fresh ones by those."""
    found: dict[int, Finding] = {}
    suspects: dict[int, Days] = {}
    for number, one in cases.items():
        found[number] = one.found
        fresh = one.case.measured.samples[len(one.first) :]
        if fresh and found[number].standing is Standing.SUSPECT:
            suspects[number] = one.days(fresh, are_fresh=True)
    found |= confirm_days(suspects, len(cases))
    return {number: _with_left_out(finding, cases[number].left_out) for number, finding in found.items()}


def _missing(run: Run, baseline: Baseline, left_out: Collection[str]) -> tuple[MissingCell, ...]:
    compared = {id(baseline.find(key, m.host)) for key, m in keyed(run.measurements)}
    accounted = {failure.nodeid for failure in run.failures} | set(left_out)
    return tuple(
        MissingCell(nodeid=m.nodeid, config=m.config, host=m.host, workload=m.workload)
        for m in baseline.run.measurements
        if id(m) not in compared and m.nodeid not in accounted
    )


def _stack(run: Run, baseline: Baseline) -> tuple[str, ...]:
    """What differs of the hosts' software, then of what single guests were made from where versions do not say it."""
    changed = _of_hosts(run, baseline)
    counts = Counter(part for one in _others(run, baseline) for part in one)
    told = "QEMU was" in " ".join(changed)
    parts = (
        f"{part} is another one in {count} measurement{'s' * (count > 1)}"
        for part, count in counts.items()
        if not (told and part.startswith("QEMU"))
    )
    return (*changed, *parts)


def _others(run: Run, baseline: Baseline) -> Iterator[tuple[str, ...]]:
    for key, measured in keyed(run.measurements):
        then = baseline.find(key, measured.host)
        if then is not None:
            yield other_parts(then, measured)


def _of_hosts(run: Run, baseline: Baseline) -> tuple[str, ...]:
    whose = {host.name: f"{host.name}: " if len(run.hosts) > 1 else "" for host in run.hosts}
    return tuple(
        f"{whose[host.name]}{line}"
        for host in run.hosts
        for before in baseline.run.hosts
        if before.name == host.name
        for line in stack_changes(before, host)
    )

"""The gate by days: judges a run of today against the saved days of a baseline; pure.

One job is one day, however many rounds it has: what differs from day to day (the host's other load, its temperature,
where the image lies) is the same in all of them. So the unit is the day, its figure the mean of its fresh guests, and
today is compared with a further day by chance: Student's t with s sqrt(1 + 1/K) of K saved days. It assumes that days
are alike but for noise. Five saved days give their spread; with fewer the user may state it. Where today has fewer
guests than the saved days had, as where those are several runs each, the spread of single guests comes on top: the mean
of one guest is further from the next day's than that of ten.

A spread that the user states is of days alone: the spread of rounds comes on top, today's and the saved days'. Where
that is unknown, as with one round each, nothing is decided.

Fresh rounds of today are of the same day, and share its conditions. So they confirm a suspect only where the days
themselves do so among all cells that were compared, and not among the few suspects as fresh pairs do. A suspect may
pass in them, and a fifth of the risk that a loss of just the tolerated size passes is theirs.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, TypeVar

from pytest_vmstorage.analysis.comparability import differing_parts, flaw, no_ratio, obstacle, stack_changes, stack_of
from pytest_vmstorage.analysis.gate.kinds import Kind
from pytest_vmstorage.analysis.gate.policy import (
    Finding,
    GatePolicy,
    Loss,
    above,
    at_least_suspect,
    change,
    fractions,
    log_seconds,
    p_text,
    percent,
)
from pytest_vmstorage.analysis.gate.verdicts import (
    Case,
    ComparedCase,
    Comparison,
    MissingCell,
    Verdict,
    first_rounds,
    judge_all,
)
from pytest_vmstorage.results.run import Measurement, Metric, Run, Sample
from pytest_vmstorage.results.saved import Baseline, CellKey, host_of, keyed
from pytest_vmstorage.stats import Interval, holm, squared_deviations, student_t_cdf, student_t_quantile

Cell = TypeVar("Cell", bound=Hashable)

LEAST_DAYS = 5
"""Fewer days hardly show their spread: with 2 the interval is six times as wide as with many."""

_FIRST, _FRESH = 0.8, 0.2
"""The parts of the risk of passing with just the tolerated loss that first and fresh rounds have."""


class Days(NamedTuple):
    """The saved days of a cell and today, in log(seconds per operation): a value for each fresh guest, by days.

    `spread` is the standard deviation of a day's figure that `spread_by` says, the user or the host's calibrations,
    None where saved days give it; `policy` the loss that the cell may have; `are_fresh` is true for rounds of today
    that confirm others. `saved_rounds` and `today_rounds` are all the rounds, of which a guest's value is the mean: for
    a day with one guest they show how well that value is known. Without them it is not known.
    """

    saved: Sequence[Sequence[float]]
    today: Sequence[float]
    spread: float | None = None
    policy: Loss = Loss()
    are_fresh: bool = False
    saved_rounds: Sequence[Sequence[float]] = ()
    today_rounds: Sequence[float] = ()
    spread_by: str = "as stated"

    @property
    def units(self) -> tuple[Sequence[Sequence[float]], Sequence[float]]:
        """The values whose mean is a day's figure, of saved days and today: of its guests, or the rounds of the one."""
        rounds = self.saved_rounds or self.saved
        saved = [day if len(day) > 1 else own for day, own in zip(self.saved, rounds, strict=True)]
        return saved, self.today if len(self.today) > 1 else self.today_rounds or self.today

    @property
    def decides(self) -> bool:
        """Whether there are enough saved days for a decision, or their spread is stated."""
        return len(self.saved) >= LEAST_DAYS or self.spread is not None

    @property
    def shift(self) -> float:
        """The loss from the mean of the saved days to today."""
        return statistics.fmean(self.today) - statistics.fmean(map(statistics.fmean, self.saved))

    @property
    def finding(self) -> Finding:
        """PASS, SUSPECT or INCONCLUSIVE, never REGRESSED.

        A cell that looks slower is a suspect also where the tolerated loss seems excluded. Passing here has a risk of
        its own, of `false_pass` at most; that of pairs comes on top for the cells that go on to them. With fewer than
        five saved days and no stated `spread` nothing passes: the days give the change and, from two on, the smallest
        loss that could have been seen. A cell that looks slower by more than is tolerated is SUSPECT at least.
        """
        if obstacle := _obstacle(self.saved, self.today):
            return Finding(kind=Kind.INCONCLUSIVE, count=len(self.saved), reason=obstacle)
        found = _prediction(self)
        weighed = _against_one(self.saved[0], self.today, self.shift) if found is None else _weigh(found, self)
        return at_least_suspect(weighed, self.policy)


def drifting(found: Finding, unsteady: str) -> Finding:
    """The finding of rounds that are `unsteady`, in a clause: nothing is decided, a suspect stays one."""
    drift = f"its rounds are {unsteady}"
    if found.kind is Kind.SUSPECT:
        return found.model_copy(update={"reason": f"{found.reason}; {drift}"})
    shift = f"{found.loss * 100:+.3g} % time per operation: " if found.loss is not None else ""
    reason = f"{shift}{drift}; --vm-without=steady-state compares them all the same"
    update = {"kind": Kind.INCONCLUSIVE, "reason": reason, "interval": None, "p": None, "wants": 0}
    return found.model_copy(update=update)


def confirm_days(suspects: Mapping[Cell, Days], compared: int) -> dict[Cell, Finding]:
    """All suspects of a job, `today` being rounds that `are_fresh`: REGRESSED, PASS, SUSPECT or INCONCLUSIVE.

    `compared` is the number of cells that the job compared with saved days. The risk that any unchanged one of them is
    REGRESSED is `false_alarm` at most (Holm 1979), however their days depend on each other.
    """
    found = {cell: at_least_suspect(days.finding, days.policy, was_suspect=True) for cell, days in suspects.items()}
    suspected = {cell: days for cell, days in suspects.items() if found[cell].kind is Kind.SUSPECT and days.decides}
    known = {cell: one for cell, days in suspected.items() if (one := _prediction(days)) is not None and one.is_known}
    # cells that were not suspects, or are none any more, enter Holm's correction with p = 1
    counted = holm([*(one.p for one in known.values()), *[1.0] * (max(compared, len(found)) - len(known))])
    for (cell, prediction), p in zip(known.items(), counted, strict=False):
        found[cell] = found[cell].model_copy(update=_counted(prediction, suspects[cell], p, compared))
    for cell in found.keys() - known.keys():
        told = f"it looked slower at first; in fresh rounds, {found[cell].reason}"
        found[cell] = found[cell].model_copy(update={"reason": told})
    return found


def _counted(found: _Prediction, days: Days, p: float, compared: int) -> dict[str, object]:
    """The changes to a suspect whose fresh rounds are slower too; `p` is Holm's among all cells."""
    policy = days.policy
    among = p_text(p) + (f" among {compared} cells" if compared > 1 else "")
    if p <= policy.false_alarm:
        told = f"confirmed in fresh rounds with {among}, and {above(found.shift, policy)}"
    else:
        told = f"slower in fresh rounds too, but {among} is not below {policy.false_alarm:g}: {_OTHERWISE}"
    kind = Kind.REGRESSED if p <= policy.false_alarm else Kind.SUSPECT
    return {"kind": kind, "p": p, "reason": f"{_change(len(days.saved), found.shift, found.interval)}: {told}"}


def learnt(saved: Sequence[Sequence[float]], guests: int = 1) -> float | None:
    """The smallest loss, a fraction, that such days show in four of five cases to a day of so many guests.

    None for fewer than five days, and for days without any spread.
    """
    # the figures of that day make no difference
    today = [0.0] * guests
    if len(saved) < LEAST_DAYS or _obstacle(saved, today):
        return None
    found = _prediction(Days(saved, today))
    return math.expm1(found.visible) if found is not None and found.error else None


def _obstacle(saved: Sequence[Sequence[float]], today: Sequence[float]) -> str:
    if not saved:
        return "no day is saved"
    for name, day in (("today", today), *((f"saved day {place}", day) for place, day in enumerate(saved, 1))):
        if not day or not all(map(math.isfinite, day)):
            return f"{name} has a guest without a figure" if day else f"{name} has no figures"
    return ""


class _Prediction(NamedTuple):
    """The distance of today from the saved days, its standard error, and the degrees of freedom: inf if stated.

    `is_known` is False where the spread of rounds is unknown: the error is then too small by that.
    """

    shift: float
    error: float
    freedom: float
    is_known: bool = True

    @property
    def p(self) -> float:
        """The probability of such a shift without a loss; without any spread every change counts as a loss."""
        return 1 - _t_cdf(self.shift / self.error, self.freedom) if self.error else float(self.shift <= 0)

    @property
    def visible(self) -> float:
        """The smallest shift that shows in four of five cases."""
        return _visible(self.error, self.freedom)

    @property
    def interval(self) -> Interval:
        """The 95 % interval."""
        return Interval(self.bound(0.025), self.bound(0.975))

    def bound(self, probability: float) -> float:
        """The shift's upper bound at that probability."""
        return self.shift + _t_quantile(probability, self.freedom) * self.error


def _prediction(days: Days) -> _Prediction | None:
    """The prediction of a further day; None where one day is saved and no spread is stated."""
    count = len(days.saved)
    if days.spread is not None and count < LEAST_DAYS:
        stated = days.spread**2 * (1 + 1 / count)
        rounds = _of_rounds(days)
        if rounds is None:
            return _Prediction(days.shift, math.sqrt(stated), math.inf, is_known=False)
        added, freedom = rounds
        total = stated + added
        # the stated spread counts as known exactly (Satterthwaite 1946)
        return _Prediction(days.shift, math.sqrt(total), freedom * (total / added) ** 2 if added else math.inf)
    if count == 1:
        return None
    between_days = squared_deviations([*map(statistics.fmean, days.saved)]) / (count - 1) * (1 + 1 / count)
    variance, freedom = _with_guests(days, between_days)
    return _Prediction(days.shift, math.sqrt(variance), freedom)


def _with_guests(days: Days, between_days: float) -> tuple[float, int]:
    """The variance of the shift and its degrees of freedom, where today has fewer guests or rounds than saved days.

    The spread of saved days contains that of a mean of their guests; the rest of today's is that of single guests,
    known from days with several. Degrees of freedom of such a sum: Satterthwaite 1946.
    """
    most = len(days.saved) - 1
    saved, today = days.saved, days.today
    if max(map(len, (*saved, today))) == 1:
        # one guest a day: fewer rounds today make its mean less sure in the same way
        saved, today = days.units
    further = 1 / len(today) - statistics.fmean(1 / len(day) for day in saved)
    squares, known = _squares(saved)
    if further <= 0 or not known:
        return between_days, most
    added = further * squares / known
    total = between_days + added
    if not total:
        return total, most
    satterthwaite = total**2 / (between_days**2 / most + added**2 / known)
    # a whole number must not lose one to rounding
    return total, max(1, min(most, int(satterthwaite + 1e-9)))


def _of_rounds(days: Days) -> tuple[float, int] | None:
    """The variance that the rounds of all days give the shift, and its degrees of freedom; None for single rounds.

    The variance is pooled over all runs: few rounds hardly show their own spread.
    """
    saved, today = days.units
    squares, known = _squares((*saved, today))
    if not known:
        return None
    variance = squares / known
    return variance * (1 / len(today) + math.fsum(1 / len(one) for one in saved) / len(saved) ** 2), known


def _squares(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """The squared deviations within groups that have several values, and their degrees of freedom."""
    several = [group for group in groups if len(group) > 1]
    squares = math.fsum(map(squared_deviations, several))
    return squares, sum(len(group) - 1 for group in several)


def _t_cdf(t: float, freedom: float) -> float:
    return _NORMAL.cdf(t) if freedom > _MANY else student_t_cdf(t, max(1, int(freedom)))


def _t_quantile(probability: float, freedom: float) -> float:
    if freedom > _MANY:
        return _NORMAL.inv_cdf(probability)
    return student_t_quantile(probability, max(1, int(freedom)))


_NORMAL = statistics.NormalDist()
_MANY = 10_000

_UNKNOWN = "one round does not say how far rounds go apart, which comes on top of what days differ by"
_MORE_ROUNDS = "take more (--vm-rounds)"
_OTHERWISE = "save more days, or run pairs with --vm-against"


def _against_one(saved: Sequence[float], today: Sequence[float], shift: float) -> Finding:
    """The finding of one saved day: the change, and the least that guests of a day differ."""
    reason = "one day does not say how much days differ"
    if min(len(saved), len(today)) > 1:
        freedom = len(saved) + len(today) - 2
        squares = squared_deviations(saved) + squared_deviations(today)
        error = math.sqrt(squares / freedom * (1 / len(saved) + 1 / len(today)))
        reason += f" (were they all alike, its guests would show a loss of {percent(_visible(error, freedom))})"
    return _finding(Kind.INCONCLUSIVE, 1, shift, None, f"{reason}; {_more_days(1)}")


def _more_days(count: int) -> str:
    """The remedy for too few saved days."""
    more = LEAST_DAYS - count
    return (
        f"save it on {more} more {'day' if more == 1 else 'days'} with --vm-save, state --vm-day-spread, "
        "or run pairs with --vm-against"
    )


def _weigh(found: _Prediction, days: Days) -> Finding:
    count, shift, policy = len(days.saved), found.shift, days.policy
    interval, p = found.interval if found.is_known else None, found.p
    tolerated = percent(policy.limit)
    is_stated = days.spread is not None and count < LEAST_DAYS
    stated = f"days that differ by {percent(days.spread or 0)}, {days.spread_by},{' and these rounds' * found.is_known}"
    source = stated if is_stated else f"{count} days of this spread"
    power = f"{source} show a loss of {percent(found.visible)} in four of five cases"
    if count < LEAST_DAYS and not is_stated:
        told = f"{LEAST_DAYS} days are needed, and {power}; {_more_days(count)}"
        return _finding(Kind.INCONCLUSIVE, count, shift, interval, told, visible=found.visible)
    if p < policy.suspicion and shift >= policy.half:
        found_by = p_text(p) if found.is_known else _UNKNOWN
        told = f"{found_by}, and --vm-confirm can confirm it in fresh rounds"
        return _finding(Kind.SUSPECT, count, shift, interval, told, p=p)
    if not found.is_known:
        return _finding(Kind.INCONCLUSIVE, count, shift, interval, f"{_UNKNOWN}; {_MORE_ROUNDS}")
    bound = found.bound(1 - policy.false_pass * (_FRESH if days.are_fresh else _FIRST))
    if bound < policy.limit:
        least = f"above {percent(bound)}" if bound > 0 else "at all"
        told = f"a loss of {tolerated} is excluded, and any {least}"
        return _finding(Kind.PASS, count, shift, interval, told)
    told = f"a loss of {tolerated} is neither found nor excluded: {power}; {_OTHERWISE}"
    return _finding(Kind.INCONCLUSIVE, count, shift, interval, told, visible=found.visible)


def _visible(error: float, freedom: float) -> float:
    """The smallest shift that shows in four of five cases, given the standard error of the difference."""
    return (_t_quantile(0.975, freedom) + _t_quantile(0.80, freedom)) * error


def _finding(
    kind: Kind,
    days: int,
    shift: float,
    interval: Interval | None,
    reason: str,
    *,
    p: float | None = None,
    visible: float | None = None,
) -> Finding:
    return Finding(
        kind=kind,
        count=days,
        reason=f"{_change(days, shift, interval)}: {reason}",
        loss=math.expm1(shift),
        interval=fractions(interval),
        p=p,
        visible=None if visible is None else math.expm1(visible),
        wants=max(0, LEAST_DAYS - days) if kind is Kind.INCONCLUSIVE else 0,
    )


def _change(days: int, shift: float, interval: Interval | None) -> str:
    return f"{days} saved {'day' if days == 1 else 'days'}, {change(shift, interval)}"


def by_guest(metric: Metric, samples: Sequence[Sample]) -> list[float]:
    """A value for each guest of these rounds: the mean of log(seconds per operation) of its rounds.

    The rounds of one guest share the differences between guests. Raises ValueError as `log_seconds` does.
    """
    booted = sorted(samples, key=lambda sample: sample.boot)
    return [
        statistics.fmean(log_seconds(metric, [sample.figures[metric.name] for sample in rounds]))
        for _, rounds in groupby(booted, key=lambda sample: sample.boot)
    ]


@dataclass(frozen=True)
class _Saved(ComparedCase):
    """A case with its saved days; `left_out` are days that do not count, `unsteady` a clause about its rounds."""

    saved: Sequence[Sequence[float]] = ()
    spread: float | None = None
    spread_by: str = ""
    left_out: str = ""
    saved_rounds: Sequence[Sequence[float]] = ()
    unsteady: str = ""

    def days(self, samples: Sequence[Sample], *, are_fresh: bool = False) -> Days:
        """The saved days beside these rounds of today."""
        metric = self.case.metric
        rounds = log_seconds(metric, [sample.figures[metric.name] for sample in samples])
        today = by_guest(metric, samples)
        stated = (self.spread, self.policy, are_fresh, self.saved_rounds, rounds, self.spread_by)
        return Days(self.saved, today, *stated)


def compare(run: Run, baseline: Baseline, policy: GatePolicy, *, left_out: Collection[str] = ()) -> Comparison:
    """Every shown metric of `run` against the baseline's; `left_out` are node ids the user deselected, not missing.

    A primary metric is PASS, SUSPECT or INCONCLUSIVE by its saved days, and REGRESSED where its `fresh` rounds confirm
    that among all cells of the run that could be compared. The other metrics are SHOWN.
    """

    def find(case: Case) -> _Saved | str:
        return _case(case, baseline.find(case.key, case.measured.host), baseline, run, policy)

    return around(judge_all(run, f"baseline {baseline.name!r}", policy, find, _decide), run, baseline, left_out)


def around(verdicts: Sequence[Verdict], run: Run, baseline: Baseline, left_out: Collection[str] = ()) -> Comparison:
    """The comparison that has these verdicts, with the cells that the run lacks and the changes of the stack."""
    return Comparison(
        against=f"baseline {baseline.name!r}",
        verdicts=tuple(verdicts),
        missing=_missing(run, baseline, left_out),
        stack=_stack(run, baseline),
    )


def _case(case: Case, then: Measurement | None, baseline: Baseline, run: Run, policy: GatePolicy) -> _Saved | str:
    """The comparison for a case, or a clause why there is none."""
    if then is None:
        is_older = bool(baseline.history(case.key, case.measured.host))
        return "the newest run of the baseline lacks it" if is_older else "the baseline has no such cell"
    hosts = host_of(baseline.run, then.host), host_of(run, case.measured.host)
    reason = obstacle(then, case.measured, *hosts, case.metric)
    if reason or flaw(case.figure):
        return reason or "its figure is invalid"
    return _gated(case, then, baseline, run, policy) if case.gates else _Saved(case, then, Loss())


def _gated(case: Case, then: Measurement, baseline: Baseline, run: Run, policy: GatePolicy) -> _Saved | str:
    """The saved days of a primary figure and the loss that it may have, or a clause why nothing can be decided."""
    measured, before = case.measured, then.figure(case.metric.name)
    if found := no_ratio(case.figure):
        return found
    if found := no_ratio(before):
        return f"when it was saved {found}"
    # fresh rounds are of other guests, which differ
    steady = measured.model_copy(update={"samples": first_rounds(measured)}).steadiness
    unsteady = str(steady) if steady.is_judged and not steady.is_steady else ""
    saved, rounds, left_out = _saved_days(baseline, case.key, then, measured, case.metric, run)
    stated = policy.spread_on(measured.host)
    spread, spread_by = (math.log1p(stated[0]), stated[1]) if stated is not None else (None, "")
    tolerated = policy.tolerated_by(case.key.nodeid, case.key.workload, measured.tolerated).fraction
    if tolerated is None:
        tolerated = learnt(saved, len(by_guest(case.metric, first_rounds(measured))))
        if tolerated is None:
            return _not_learnt(len(saved), left_out)
    return _Saved(
        case, then, Loss(tolerated=tolerated).shared(policy.parts), saved, spread, spread_by, left_out, rounds, unsteady
    )


def _not_learnt(days: int, left_out: str) -> str:
    if days >= LEAST_DAYS:
        return f"what it may lose is to be learnt from its saved days, and all {days} have one figure"
    there = f"there {'is' if days == 1 else 'are'} {days}{left_out and f' ({left_out})'}"
    return f"what it may lose is to be learnt from {LEAST_DAYS} saved days, and {there}"


def _saved_days(
    baseline: Baseline, key: CellKey, then: Measurement, now: Measurement, metric: Metric, run: Run
) -> tuple[list[list[float]], list[list[float]], str]:
    """A value for each fresh guest of each saved day on which the host's software was that of the newest run.

    Runs of one date are one day: they share what differs between days. Also all rounds of each day, and a clause on the
    days that are left out and why, empty for none.
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


def _decide(cases: Mapping[int, _Saved]) -> dict[int, Finding]:
    """A finding for each case: by its first rounds, and for suspects that have fresh ones by those."""
    found: dict[int, Finding] = {}
    suspects: dict[int, Days] = {}
    for number, one in cases.items():
        first = first_rounds(one.case.measured)
        finding = one.days(first).finding
        # rounds that drift decide nothing, and are at most a reason to suspect
        found[number] = drifting(finding, one.unsteady) if one.unsteady else finding
        fresh = one.case.measured.samples[len(first) :]
        if fresh and found[number].kind is Kind.SUSPECT:
            suspects[number] = one.days(fresh, are_fresh=True)
    found |= confirm_days(suspects, len(cases))
    for number, finding in found.items():
        # more days are what an open finding lacks
        if cases[number].left_out and finding.kind is Kind.INCONCLUSIVE:
            reason = f"{finding.reason} ({cases[number].left_out})"
            found[number] = finding.model_copy(update={"reason": reason})
    return found


def _missing(run: Run, baseline: Baseline, left_out: Collection[str]) -> tuple[MissingCell, ...]:
    compared = {id(baseline.find(key, m.host)) for key, m in keyed(run.measurements)}
    accounted = {failure.nodeid for failure in run.failures} | set(left_out)
    return tuple(
        MissingCell(nodeid=m.nodeid, config=m.config, host=m.host, workload=m.workload)
        for m in baseline.run.measurements
        if id(m) not in compared and m.nodeid not in accounted
    )


def _stack(run: Run, baseline: Baseline) -> tuple[str, ...]:
    """The changes of the hosts' software, and of the parts of single guests where no version shows them."""
    whose = {host.name: f"{host.name}: " if len(run.hosts) > 1 else "" for host in run.hosts}
    changed = [
        f"{whose[host.name]}{line}"
        for host in run.hosts
        for before in baseline.run.hosts
        if before.name == host.name
        for line in stack_changes(before, host)
    ]
    measured = ((baseline.find(key, now.host), now) for key, now in keyed(run.measurements))
    counts = Counter(part for then, now in measured if then is not None for part in differing_parts(then, now))
    told = "QEMU was" in " ".join(changed)
    parts = (
        f"{part} is another one in {count} measurement{'s' * (count > 1)}"
        for part, count in counts.items()
        if not (told and part.startswith("QEMU"))
    )
    return (*changed, *parts)

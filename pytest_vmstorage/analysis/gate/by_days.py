"""The gate against saved runs: a run of today is judged against the days of a baseline; pure.

One job is one day, however many rounds it has: what differs from day to day (the host's other load, its temperature,
where the image lies) is the same in all of them. So the unit is the day, its figure the mean of its fresh guests, and
today is held against what a further day would give by chance: Student's t with s sqrt(1 + 1/K) of K saved days. It
assumes that days are alike but for noise. Five saved days give their spread; with fewer the user may state it. Where
today has fewer guests than the saved days had, as where those are several runs each, the spread of single guests comes
on top: the mean of one guest is further from the next day's than that of ten.

A spread that the user states is of days, and not of what a run measures of one: how far its rounds go apart comes on
top, today's and the saved days'. Where that is unknown, as with one round each, nothing is decided.

Fresh rounds of today are of the same day, and share what today has. So they confirm a suspect only where the days
themselves do so among all cells that were compared, and not among the few suspects as fresh pairs do. A suspect may
pass in them, and of the risk that a loss of just the tolerated size passes a fifth is theirs.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from pytest_vmstorage.analysis.comparability import flaw, no_ratio, obstacle, other_parts, stack_changes, stack_of
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
    Comparison,
    MissingCell,
    Verdict,
    by_guest,
    first_rounds,
    judge_all,
)
from pytest_vmstorage.results.run import Measurement, Metric, Run, Sample
from pytest_vmstorage.results.saved import Baseline, CellKey, host_of, keyed
from pytest_vmstorage.stats import Interval, holm, student_t_cdf, student_t_quantile

Cell = TypeVar("Cell", bound=Hashable)

LEAST_DAYS = 5
"""Fewer have a spread that is hardly known: with 2 the interval is six times as wide as with many."""


_FIRST, _FRESH = 0.8, 0.2
"""Which part of the risk of passing with just the tolerated loss first and fresh rounds have."""


class Days(NamedTuple):
    """The saved days of a cell and today, in log(seconds per operation): a value for each fresh guest, by days.

    `spread` is the standard deviation of a day's figure that the user states, None where saved days are to tell it;
    `policy` what the cell may lose; `are_fresh` is true for rounds of today that confirm others. `saved_rounds` and
    `today_rounds` are all the rounds, of which a guest's value is the mean: of a day with one guest they say how well
    that value is known. Without them it is not known.
    """

    saved: Sequence[Sequence[float]]
    today: Sequence[float]
    spread: float | None = None
    policy: Loss = Loss()
    are_fresh: bool = False
    saved_rounds: Sequence[Sequence[float]] = ()
    today_rounds: Sequence[float] = ()

    @property
    def units(self) -> tuple[Sequence[Sequence[float]], Sequence[float]]:
        """What a day's figure is the mean of, saved days' and today's: of several guests their values, else rounds."""
        rounds = self.saved_rounds or self.saved
        saved = [day if len(day) > 1 else own for day, own in zip(self.saved, rounds, strict=True)]
        return saved, self.today if len(self.today) > 1 else self.today_rounds or self.today

    @property
    def decides(self) -> bool:
        """Whether the saved days, or what is stated of them, suffice for a decision at all."""
        return len(self.saved) >= LEAST_DAYS or self.spread is not None

    @property
    def finding(self) -> Finding:
        """What `against_days` says."""
        if obstacle := _obstacle(self.saved, self.today):
            return Finding(kind=Kind.INCONCLUSIVE, count=len(self.saved), reason=obstacle)
        found = _prediction(self)
        weighed = _against_one(self.saved[0], self.today, _shift(self)) if found is None else _weigh(found, self)
        return at_least_suspect(weighed, self.policy)

    @property
    def pass_risk(self) -> float:
        """How likely a loss of just the tolerated size passes in these rounds."""
        return self.policy.false_pass * (_FRESH if self.are_fresh else _FIRST)


def against_days(
    saved: Sequence[Sequence[float]],
    today: Sequence[float],
    policy: Loss | None = None,
    *,
    spread: float | None = None,
) -> Finding:
    """PASS, SUSPECT or INCONCLUSIVE, never REGRESSED; the values are log(seconds per operation), one a fresh guest.

    A cell that looks slower is a suspect also where the tolerated loss seems excluded. Passing here has a risk of its
    own, of `false_pass` at most; that of pairs comes on top for the cells that go on to them. With fewer than five
    saved days, and no `spread` stated (see `Days`), nothing passes: the days give the change and, from two on, the
    smallest loss that could have been seen. A cell that looks slower by more than is tolerated is SUSPECT at least.
    """
    return Days(saved, today, spread, policy or Loss()).finding


def drifting(found: Finding, unsteady: str) -> Finding:
    """What becomes of a finding whose rounds are `unsteady`, in a clause: nothing is decided, a suspect stays one."""
    drift = f"its rounds are {unsteady}"
    if found.kind is Kind.SUSPECT:
        return found.model_copy(update={"reason": f"{found.reason}; {drift}"})
    shift = f"{found.loss * 100:+.3g} % time per operation: " if found.loss is not None else ""
    reason = f"{shift}{drift}; --vm-without=steady-state compares them all the same"
    update = {"kind": Kind.INCONCLUSIVE, "reason": reason, "interval": None, "p": None, "wants": 0}
    return found.model_copy(update=update)


def confirm_days(suspects: Mapping[Cell, Days], compared: int) -> dict[Cell, Finding]:
    """All suspects of a job, `today` being rounds that `are_fresh`: REGRESSED, PASS, SUSPECT or INCONCLUSIVE.

    `compared` is how many cells the job compared with saved days. The risk that any unchanged one of them is REGRESSED
    is `false_alarm` at most (Holm 1979), whatever their days have in common.
    """
    found = {cell: at_least_suspect(days.finding, days.policy, was_suspect=True) for cell, days in suspects.items()}
    evidence = [_evidence(days, found[cell]) for cell, days in suspects.items()]
    # cells that were not suspects enter Holm's correction with p = 1
    counted = holm([*evidence, *[1.0] * (compared - len(evidence))])[: len(evidence)]
    for (cell, finding), p in zip(list(found.items()), counted, strict=True):
        days, prediction = suspects[cell], _prediction(suspects[cell])
        if finding.kind is Kind.SUSPECT and prediction is not None and days.decides and prediction.is_known:
            update = _counted(prediction, days, p, compared)
        else:
            update = {"reason": f"it looked slower at first; in fresh rounds, {finding.reason}"}
        found[cell] = finding.model_copy(update=update)
    return found


def _counted(found: _Prediction, days: Days, p: float, compared: int) -> dict[str, object]:
    """What becomes of a suspect whose fresh rounds are slower too; `p` is as Holm counts it among all cells."""
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
    # what the figures of that day are makes no difference
    today = [0.0] * guests
    if len(saved) < LEAST_DAYS or _obstacle(saved, today):
        return None
    found = _prediction(Days(saved, today))
    return math.expm1(found.visible) if found is not None and found.error else None


def _evidence(days: Days, finding: Finding) -> float:
    if finding.kind is not Kind.SUSPECT or not days.decides:
        return 1.0
    found = _prediction(days)
    return found.p if found is not None and found.is_known else 1.0


def _obstacle(saved: Sequence[Sequence[float]], today: Sequence[float]) -> str:
    if not saved:
        return "no day is saved"
    for name, day in (("today", today), *((f"saved day {place}", day) for place, day in enumerate(saved, 1))):
        if not day or not all(map(math.isfinite, day)):
            return f"{name} has a guest without a figure" if day else f"{name} has no figures"
    return ""


class _Prediction(NamedTuple):
    """How far today is from the saved days, the standard error of that, and its degrees of freedom: inf if stated.

    `is_known` is False where nothing says how far rounds go apart: the error is then too small by that.
    """

    shift: float
    error: float
    freedom: float
    is_known: bool = True

    @property
    def p(self) -> float:
        """How probably days without a loss give such a shift; without any spread any change at all is one."""
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
        """What the shift lies below with that probability."""
        return self.shift + _t_quantile(probability, self.freedom) * self.error


def _shift(days: Days) -> float:
    return statistics.fmean(days.today) - statistics.fmean(map(statistics.fmean, days.saved))


def _prediction(days: Days) -> _Prediction | None:
    """What a further day is held against; None where one day is saved and nothing is stated."""
    count = len(days.saved)
    if days.spread is not None and count < LEAST_DAYS:
        stated = days.spread**2 * (1 + 1 / count)
        rounds = _of_rounds(days)
        if rounds is None:
            return _Prediction(_shift(days), math.sqrt(stated), math.inf, is_known=False)
        added, freedom = rounds
        total = stated + added
        # what is stated is taken to be known exactly (Satterthwaite 1946)
        return _Prediction(_shift(days), math.sqrt(total), freedom * (total / added) ** 2 if added else math.inf)
    if count == 1:
        return None
    between_days = statistics.variance(map(statistics.fmean, days.saved)) * (1 + 1 / count)
    variance, freedom = _with_guests(days, between_days)
    return _Prediction(_shift(days), math.sqrt(variance), freedom)


def _with_guests(days: Days, between_days: float) -> tuple[float, int]:
    """The variance of the shift and its degrees of freedom, with what fewer guests or rounds than on saved days add.

    The spread of saved days has in it that of a mean of their guests; the rest of today's is that of single guests,
    known from days that have several. Degrees of freedom of such a sum: Satterthwaite 1946.
    """
    most = len(days.saved) - 1
    saved, today = days.saved, days.today
    if max(map(len, (*saved, today))) == 1:
        # one guest a day: fewer rounds today make its mean less sure in the same way
        saved, today = days.units
    several = [day for day in saved if len(day) > 1]
    further = 1 / len(today) - statistics.fmean(1 / len(day) for day in saved)
    if further <= 0 or not several:
        return between_days, most
    known = sum(len(day) - 1 for day in several)
    squares = math.fsum(statistics.variance(day) * (len(day) - 1) for day in several)
    added = further * squares / known
    total = between_days + added
    if not total:
        return total, most
    satterthwaite = total**2 / (between_days**2 / most + added**2 / known)
    # rounding must not take one from a whole number
    return total, max(1, min(most, int(satterthwaite + 1e-9)))


def _of_rounds(days: Days) -> tuple[float, int] | None:
    """The variance that the rounds of all days give the shift, and its degrees of freedom; None where none tell.

    All runs are taken to scatter alike: few rounds hardly know their own spread.
    """
    saved, today = days.units
    several = [one for one in (*saved, today) if len(one) > 1]
    known = sum(len(one) - 1 for one in several)
    if not known:
        return None
    variance = math.fsum(statistics.variance(one) * (len(one) - 1) for one in several) / known
    return variance * (1 / len(today) + math.fsum(1 / len(one) for one in saved) / len(saved) ** 2), known


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
    """What one saved day can honestly say: the change, and how much the guests of a day differ at least."""
    reason = "one day does not say how much days differ"
    if min(len(saved), len(today)) > 1:
        freedom = len(saved) + len(today) - 2
        squares = statistics.variance(saved) * (len(saved) - 1) + statistics.variance(today) * (len(today) - 1)
        error = math.sqrt(squares / freedom * (1 / len(saved) + 1 / len(today)))
        reason += f" (were they all alike, its guests would show a loss of {percent(_visible(error, freedom))})"
    return _finding(Kind.INCONCLUSIVE, 1, shift, None, f"{reason}; {_more_days(1)}")


def _more_days(count: int) -> str:
    """What to do where so few days are saved."""
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
    stated = f"days that differ by {percent(days.spread or 0)}, as stated,{' and these rounds' * found.is_known}"
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
    bound = found.bound(1 - days.pass_risk)
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
    if not left_out or finding.kind is not Kind.INCONCLUSIVE:
        return finding
    return finding.model_copy(update={"reason": f"{finding.reason} ({left_out})"})


def _decide(cases: Mapping[int, _Saved]) -> dict[int, Finding]:
    """A finding for each case: by its first rounds, and where it has fresh ones by those."""
    found: dict[int, Finding] = {}
    suspects: dict[int, Days] = {}
    for number, one in cases.items():
        found[number] = one.found
        fresh = one.case.measured.samples[len(one.first) :]
        if fresh and found[number].kind is Kind.SUSPECT:
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

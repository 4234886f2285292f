"""A run of today against the saved days of a baseline, where the old stack cannot be run again; pure.

One job is one day, however many rounds it has: what differs from day to day (the host's other load, its temperature,
where the image lies) is the same in all of them. So the unit is the day, its figure the mean of its fresh guests, and
today is held against what a further day would give by chance: Student's t with s sqrt(1 + 1/K) of K saved days. It
assumes that days are alike but for noise. Five saved days give their spread; with fewer the user may state it.

Fresh rounds of today are of the same day, and share what today has. So they confirm a suspect only where the days
themselves do so among all cells that were compared, and not among the few suspects as fresh pairs do.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from pytest_vmstorage.loss import Finding, Loss, Standing, change, fractions, percent
from pytest_vmstorage.stats import Interval, holm, student_t_cdf, student_t_quantile

Cell = TypeVar("Cell", bound=Hashable)

LEAST_DAYS = 5
"""Fewer have a spread that is hardly known: with 2 the interval is six times as wide as with many."""


class Days(NamedTuple):
    """The saved days of a cell and today, in log(seconds per operation): a value for each fresh guest, by days.

    `spread` is the standard deviation of a day's figure that the user states, None where saved days are to tell it;
    `policy` what the cell may lose.
    """

    saved: Sequence[Sequence[float]]
    today: Sequence[float]
    spread: float | None = None
    policy: Loss = Loss()

    @property
    def finding(self) -> Finding:
        """What `against_days` says."""
        return against_days(self.saved, self.today, self.policy, spread=self.spread)


def against_days(
    saved: Sequence[Sequence[float]],
    today: Sequence[float],
    policy: Loss | None = None,
    *,
    spread: float | None = None,
) -> Finding:
    """PASS, SUSPECT or INCONCLUSIVE, never REGRESSED; the values are log(seconds per operation), one a fresh guest.

    A cell that looks slower is a suspect also where the tolerated loss seems excluded. Passing here has a risk of its
    own, `false_pass`; that of pairs comes on top for the cells that go on to them. With fewer than five saved days,
    and no `spread` stated (see `Days`), a cell is always INCONCLUSIVE: the days give the change and, from two on, the
    smallest loss that could have been seen.
    """
    policy, days = policy or Loss(), Days(saved, today, spread)
    if obstacle := _obstacle(saved, today):
        return Finding(standing=Standing.INCONCLUSIVE, count=len(saved), reason=obstacle)
    found = _prediction(days)
    if found is None:
        return _against_one(saved[0], today, _shift(days))
    return _weigh(found, days, policy)


def confirm_days(suspects: Mapping[Cell, Days], compared: int) -> dict[Cell, Finding]:
    """All suspects of a job, `today` being fresh rounds: REGRESSED, PASS, SUSPECT or INCONCLUSIVE.

    `compared` is how many cells the job compared with saved days. The risk that any unchanged one of them is REGRESSED
    is `false_alarm` at most (Holm 1979), whatever their days have in common.
    """
    found = {cell: days.finding for cell, days in suspects.items()}
    evidence = [_evidence(days, found[cell]) for cell, days in suspects.items()]
    # those that were no suspects are hypotheses that were kept
    counted = holm([*evidence, *[1.0] * (compared - len(evidence))])[: len(evidence)]
    for (cell, finding), p in zip(list(found.items()), counted, strict=True):
        policy = suspects[cell].policy
        if finding.standing is not Standing.SUSPECT:
            continue
        told = finding.reason.rpartition(": ")[0]
        if p <= policy.false_alarm:
            tolerated = f"tolerated {percent(policy.limit)}, confirmed in fresh rounds with p = {p:.2g}"
            update = {"standing": Standing.REGRESSED, "p": p, "reason": f"{told}: {tolerated} among {compared} cells"}
        else:
            update = {"p": p, "reason": f"{told}: slower in fresh rounds too, but p = {p:.2g} among {compared} cells"}
        found[cell] = finding.model_copy(update=update)
    return found


def learnt(saved: Sequence[Sequence[float]]) -> float | None:
    """The smallest loss, a fraction, that such days show in four of five cases; None for too few, or without spread."""
    if len(saved) < LEAST_DAYS or _obstacle(saved, [0.0]):
        return None
    # it does not depend on the day that is held against them
    found = _prediction(Days(saved, [0.0]))
    return math.expm1(found.visible) if found is not None and found.error else None


def _evidence(days: Days, finding: Finding) -> float:
    if finding.standing is not Standing.SUSPECT:
        return 1.0
    found = _prediction(days)
    return found.p if found is not None else 1.0


def _obstacle(saved: Sequence[Sequence[float]], today: Sequence[float]) -> str:
    if not saved:
        return "no day is saved"
    for name, day in (("today", today), *((f"saved day {place}", day) for place, day in enumerate(saved, 1))):
        if not day or not all(map(math.isfinite, day)):
            return f"{name} has a guest without a figure" if day else f"{name} has no figures"
    return ""


class _Prediction(NamedTuple):
    """How far today is from the saved days, the standard error of that, and its degrees of freedom: inf if stated."""

    shift: float
    error: float
    freedom: float

    @property
    def p(self) -> float:
        """How probably days without a loss give such a shift; without any spread any change at all is one."""
        return 1 - _t_cdf(self.shift / self.error, self.freedom) if self.error else float(self.shift <= 0)

    @property
    def visible(self) -> float:
        """The smallest shift that shows in four of five cases."""
        return _visible(self.error, self.freedom)

    def bound(self, probability: float) -> float:
        """What the shift lies below with that probability."""
        return self.shift + _t_quantile(probability, self.freedom) * self.error


def _shift(days: Days) -> float:
    return statistics.fmean(days.today) - statistics.fmean(map(statistics.fmean, days.saved))


def _prediction(days: Days) -> _Prediction | None:
    """What a further day is held against; None where one day is saved and nothing is stated."""
    count = len(days.saved)
    if days.spread is not None and count < LEAST_DAYS:
        # what is stated is of a day's figure, and the noise of its rounds is in there
        return _Prediction(_shift(days), days.spread * math.sqrt(1 + 1 / count), math.inf)
    if count == 1:
        return None
    spread = statistics.stdev(map(statistics.fmean, days.saved))
    return _Prediction(_shift(days), spread * math.sqrt(1 + 1 / count), count - 1)


def _t_cdf(t: float, freedom: float) -> float:
    return _NORMAL.cdf(t) if math.isinf(freedom) else student_t_cdf(t, int(freedom))


def _t_quantile(probability: float, freedom: float) -> float:
    return _NORMAL.inv_cdf(probability) if math.isinf(freedom) else student_t_quantile(probability, int(freedom))


_NORMAL = statistics.NormalDist()


def _against_one(saved: Sequence[float], today: Sequence[float], shift: float) -> Finding:
    """What one saved day can honestly say: the change, and how much the guests of a day differ at least."""
    reason = f"one saved day does not say how much days differ, {LEAST_DAYS} are needed"
    if min(len(saved), len(today)) > 1:
        freedom = len(saved) + len(today) - 2
        squares = statistics.variance(saved) * (len(saved) - 1) + statistics.variance(today) * (len(today) - 1)
        error = math.sqrt(squares / freedom * (1 / len(saved) + 1 / len(today)))
        reason += f"; were they all alike, its guests would show a loss of {percent(_visible(error, freedom))}"
    return _finding(Standing.INCONCLUSIVE, 1, shift, None, reason)


def _weigh(found: _Prediction, days: Days, policy: Loss) -> Finding:
    count, shift = len(days.saved), found.shift
    interval = Interval(found.bound(0.025), found.bound(0.975))
    tolerated, p = percent(policy.limit), found.p
    is_stated = math.isinf(found.freedom)
    source = (
        f"days that differ by {percent(days.spread or 0)}, as stated," if is_stated else f"{count} days of this spread"
    )
    power = f"{source} show one of {percent(found.visible)} in four of five cases"
    if count < LEAST_DAYS and not is_stated:
        told = f"{LEAST_DAYS} saved days are needed; {power}"
        return _finding(Standing.INCONCLUSIVE, count, shift, interval, told, visible=found.visible)
    if p < policy.suspicion and shift >= policy.half:
        told = f"p = {p:.2g}, fresh rounds or pairs can confirm it"
        return _finding(Standing.SUSPECT, count, shift, interval, told, p=p)
    bound = found.bound(1 - policy.false_pass)
    if bound < policy.limit:
        told = f"a loss of {tolerated} is excluded, and any above {percent(bound)}"
        return _finding(Standing.PASS, count, shift, interval, told)
    told = f"a loss of {tolerated} is neither found nor excluded: {power}"
    return _finding(Standing.INCONCLUSIVE, count, shift, interval, told, visible=found.visible)


def _visible(error: float, freedom: float) -> float:
    """The smallest shift that shows in four of five cases, given the standard error of the difference."""
    return (_t_quantile(0.975, freedom) + _t_quantile(0.80, freedom)) * error


def _finding(
    standing: Standing,
    days: int,
    shift: float,
    interval: Interval | None,
    reason: str,
    *,
    p: float | None = None,
    visible: float | None = None,
) -> Finding:
    return Finding(
        standing=standing,
        count=days,
        reason=f"{days} saved {'day' if days == 1 else 'days'}, {change(shift, interval)}: {reason}",
        loss=math.expm1(shift),
        interval=fractions(interval),
        p=p,
        visible=None if visible is None else math.expm1(visible),
        wants=max(0, LEAST_DAYS - days),
    )

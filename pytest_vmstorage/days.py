"""A run of today against the saved days of a baseline, where the old stack cannot be run again; pure.

One job is one day, however many rounds it has: what differs from day to day (the host's other load, its temperature,
where the image lies) is the same in all of them. So the unit is the day, its figure the mean of its fresh guests, and
today is held against what a further day would give by chance: Student's t with s sqrt(1 + 1/K) of K saved days. It
assumes that days are alike but for noise. As that cannot be seen in one run, today can pass or be suspected; that it
has REGRESSED takes pairs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from pytest_vmstorage.loss import Finding, Loss, Standing, change, fractions, percent
from pytest_vmstorage.stats import Interval, student_t_cdf, student_t_quantile

LEAST_DAYS = 5
"""Fewer have a spread that is hardly known: with 2 the interval is six times as wide as with many."""


def against_days(saved: Sequence[Sequence[float]], today: Sequence[float], policy: Loss | None = None) -> Finding:
    """PASS, SUSPECT or INCONCLUSIVE, never REGRESSED; the values are log(seconds per operation), one a fresh guest.

    A cell that looks slower is a suspect also where the tolerated loss seems excluded. Passing here has a risk of its
    own, `false_pass`; that of pairs comes on top for the cells that go on to them. With fewer than five saved days a
    cell is always INCONCLUSIVE: they give the change and, from two on, the smallest loss that could have been seen.
    """
    policy = policy or Loss()
    if obstacle := _obstacle(saved, today):
        return Finding(standing=Standing.INCONCLUSIVE, count=len(saved), reason=obstacle)
    days = [statistics.fmean(day) for day in saved]
    shift = statistics.fmean(today) - statistics.fmean(days)
    if len(days) == 1:
        return _against_one(saved[0], today, shift)
    error = statistics.stdev(days) * math.sqrt(1 + 1 / len(days))
    return _weigh(shift, error, len(days), policy)


def _obstacle(saved: Sequence[Sequence[float]], today: Sequence[float]) -> str:
    if not saved:
        return "no day is saved"
    for name, day in (("today", today), *((f"saved day {place}", day) for place, day in enumerate(saved, 1))):
        if not day or not all(map(math.isfinite, day)):
            return f"{name} has a guest without a figure" if day else f"{name} has no figures"
    return ""


def _against_one(saved: Sequence[float], today: Sequence[float], shift: float) -> Finding:
    """What one saved day can honestly say: the change, and how much the guests of a day differ at least."""
    reason = f"one saved day does not say how much days differ, {LEAST_DAYS} are needed"
    if min(len(saved), len(today)) > 1:
        freedom = len(saved) + len(today) - 2
        squares = statistics.variance(saved) * (len(saved) - 1) + statistics.variance(today) * (len(today) - 1)
        error = math.sqrt(squares / freedom * (1 / len(saved) + 1 / len(today)))
        reason += f"; were they all alike, its guests would show a loss of {percent(_visible(error, freedom))}"
    return _finding(Standing.INCONCLUSIVE, 1, shift, None, reason)


def _weigh(shift: float, error: float, days: int, policy: Loss) -> Finding:
    freedom = days - 1
    half_width = student_t_quantile(0.975, freedom) * error
    interval = Interval(shift - half_width, shift + half_width)
    visible = _visible(error, freedom)
    tolerated = percent(policy.limit)
    power = f"{days} days of this spread show one of {percent(visible)} in four of five cases"
    if days < LEAST_DAYS:
        told = f"{LEAST_DAYS} saved days are needed; {power}"
        return _finding(Standing.INCONCLUSIVE, days, shift, interval, told, visible=visible)
    # days without any spread are told apart by any change at all
    p = 1 - student_t_cdf(shift / error, freedom) if error else float(shift <= 0)
    if p < policy.suspicion and shift >= policy.half:
        return _finding(Standing.SUSPECT, days, shift, interval, f"p = {p:.2g}, only pairs can confirm it", p=p)
    bound = shift + student_t_quantile(1 - policy.false_pass, freedom) * error
    if bound < policy.limit:
        told = f"a loss of {tolerated} is excluded, and any above {percent(bound)}"
        return _finding(Standing.PASS, days, shift, interval, told)
    told = f"a loss of {tolerated} is neither found nor excluded: {power}"
    return _finding(Standing.INCONCLUSIVE, days, shift, interval, told, visible=visible)


def _visible(error: float, freedom: int) -> float:
    """The smallest shift that shows in four of five cases, given the standard error of the difference."""
    return (student_t_quantile(0.975, freedom) + student_t_quantile(0.80, freedom)) * error


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

"""Today against saved days: what can pass, what can be suspected, and what cannot be said.

Tests of `analysis.gate.by_days`.
"""

from __future__ import annotations

import math
import random
import statistics

import pytest

from pytest_vmstorage.analysis.gate.by_days import Days, confirm_days, learnt
from pytest_vmstorage.analysis.gate.kinds import Kind
from pytest_vmstorage.analysis.gate.policy import Loss
from pytest_vmstorage.stats import student_t_quantile

QUIET = [[0.00, 0.01], [0.02, 0.01], [-0.01, 0.0], [0.01, 0.02], [0.0, -0.02], [0.01, 0.0]]
"""Six days of two guests, in log(seconds)."""


def test_a_day_like_the_others_passes() -> None:
    """The tolerated loss lies above what a further day gives by chance."""
    found = Days(QUIET, [0.005, 0.01]).finding
    assert (found.kind, found.count, found.wants) == (Kind.PASS, 6, 0)
    assert "6 saved days" in found.reason
    assert "a loss of 10 % is excluded" in found.reason


def test_the_interval_is_that_of_one_more_day() -> None:
    """Student's t with s sqrt(1 + 1/K): by hand, with t = 2.571 for 5 degrees of freedom."""
    found = Days(QUIET, [0.0, 0.0]).finding
    means = [statistics.fmean(day) for day in QUIET]
    half = 2.571 * statistics.stdev(means) * math.sqrt(1 + 1 / 6)
    shift = -statistics.fmean(means)
    assert found.interval is not None
    assert found.interval == pytest.approx((math.expm1(shift - half), math.expm1(shift + half)), abs=1e-4)


@pytest.mark.parametrize("loss", [0.10, 0.50, 3.0])
def test_however_slow_it_is_only_suspected(loss: float) -> None:
    """What differs from one day to the next is not seen in one day."""
    found = Days(QUIET, [math.log1p(loss)] * 5).finding
    assert found.kind is Kind.SUSPECT
    assert "--vm-confirm can confirm it in fresh rounds" in found.reason
    assert found.p is not None
    assert found.p < 0.025


def test_many_guests_of_today_are_still_one_day() -> None:
    """Five or five hundred: the bound is as far away."""
    assert Days(QUIET, [0.03] * 5).finding == Days(QUIET, [0.03] * 500).finding


def test_days_that_differ_too_much_say_nothing() -> None:
    """With the smallest loss that they would have shown."""
    found = Days([[-0.2], [0.2], [0.1], [-0.1], [0.0]], [0.05]).finding
    assert found.kind is Kind.INCONCLUSIVE
    assert found.visible is not None
    assert found.visible > 0.5
    assert f"show a loss of {found.visible * 100:.3g} %" in found.reason


def test_one_saved_day_gives_the_change_and_no_verdict() -> None:
    """Not even where its guests are all alike: how days differ is not in it, what its guests hide is."""
    found = Days([[0.0, 0.001, 0.002]], [0.3, 0.301, 0.299]).finding
    # it looks slower by a third, and so is no green cell; nothing confirms it
    assert (found.kind, found.count, found.wants) == (Kind.SUSPECT, 1, 4)
    assert confirm_days({"a": Days([[0.0, 0.001, 0.002]], [0.3] * 6, are_fresh=True)}, 1)["a"].kind is found.kind
    assert Days([[0.0, 0.001, 0.002]], [0.09]).finding.kind is Kind.INCONCLUSIVE
    assert found.loss == pytest.approx(math.expm1(0.299))
    assert (found.visible, found.interval, found.p) == (None, None, None)
    assert "one day does not say how much days differ" in found.reason
    assert found.reason.endswith(
        "; save it on 4 more days with --vm-save, state --vm-day-spread, or run pairs with --vm-against;"
        " it looks slower by more than the tolerated 10 %"
    )
    assert "were they all alike, its guests would show a loss of 0.3" in found.reason
    assert "were they all alike" not in Days([[0.0]], [0.1]).finding.reason


@pytest.mark.parametrize("days", [2, 3, 4])
def test_fewer_than_five_days_are_not_enough(days: int) -> None:
    """However quiet or slow; from two on they say what they could have shown. What looks slower is suspected."""
    for today, standing in ((0.0, Kind.INCONCLUSIVE), (2.0, Kind.SUSPECT), (-2.0, Kind.INCONCLUSIVE)):
        found = Days(QUIET[:days], [today]).finding
        assert (found.kind, found.count, found.wants) == (standing, days, 5 - days)
        assert found.visible is not None
        fresh = confirm_days({"a": Days(QUIET[:days], [today] * 6, are_fresh=True)}, 1)["a"]
        assert fresh.kind is standing


def of_rounds(today: list[float], saved: list[list[float]], spread: float | None = 0.02) -> Days:
    """Days of one guest each, with its rounds."""
    return Days(
        [[statistics.fmean(day)] for day in saved],
        [statistics.fmean(today)],
        spread,
        saved_rounds=saved,
        today_rounds=today,
    )


def test_what_rounds_scatter_is_in_the_interval() -> None:
    """A stated spread is of days: a run of few rounds that go far apart knows its own figure no better than they."""
    far, near = [-0.08, 0.08, 0.0], [-0.001, 0.001, 0.0]
    wide, narrow = of_rounds(far, [far]).finding, of_rounds(near, [near]).finding
    assert (wide.kind, narrow.kind) == (Kind.INCONCLUSIVE, Kind.PASS)
    assert wide.interval is not None
    assert narrow.interval is not None
    # sqrt(2 * 0.02**2 + 2 * 0.08**2 / 3) with some four degrees of freedom
    shift = math.log1p(wide.interval.high)
    error = math.sqrt(2 * 0.02**2 + 2 * 0.08**2 / 3)
    freedom = int(4 * (error**2 / (2 * 0.08**2 / 3)) ** 2)
    assert shift == pytest.approx(student_t_quantile(0.975, freedom) * error)
    assert math.log1p(narrow.interval.high) == pytest.approx(1.96 * math.sqrt(2) * 0.02, rel=0.01)


@pytest.mark.parametrize(
    ("today", "kind"),
    [(0.0, Kind.INCONCLUSIVE), (-0.3, Kind.INCONCLUSIVE), (0.3, Kind.SUSPECT)],
)
def test_one_round_each_decides_nothing(today: float, kind: Kind) -> None:
    """Whatever days are stated to differ by: how far rounds go apart is unknown, and no interval is shown."""
    found = of_rounds([today], [[0.0]])
    assert found.finding.kind is kind
    assert found.finding.interval is None
    assert "one round does not say how far rounds go apart" in found.finding.reason
    # the same in fresh rounds would be known by then
    assert confirm_days({"a": found._replace(are_fresh=True)}, 1)["a"].kind is kind
    assert of_rounds([today], [[0.0, 0.01, -0.01]]).finding.interval is not None


def test_fewer_rounds_than_on_saved_days_are_less_sure() -> None:
    """One round against days of many: their figures are means, and this one is not."""
    draw = random.Random(3)
    saved = [[draw.gauss(0, 0.1) for _ in range(8)] for _ in range(8)]
    few, many = (of_rounds([0.0] * count, saved, None).finding for count in (1, 8))
    assert few.interval is not None
    assert many.interval is not None
    assert few.interval.high > 1.5 * many.interval.high


@pytest.mark.parametrize(
    ("saved", "today", "said"),
    [
        ([], [0.0], "no day is saved"),
        (QUIET, [], "today has no figures"),
        (QUIET, [0.0, math.nan], "today has a guest without a figure"),
        ([*QUIET[:3], []], [0.0], "saved day 4 has no figures"),
        ([[math.inf], *QUIET], [0.0], "saved day 1 has a guest without a figure"),
    ],
)
def test_what_is_missing_is_named(saved: list[list[float]], today: list[float], said: str) -> None:
    """And never a pass."""
    found = Days(saved, today).finding
    assert (found.kind, found.reason) == (Kind.INCONCLUSIVE, said)


def test_fewer_guests_than_on_saved_days_are_less_sure() -> None:
    """A mean of ten guests says more than one guest does; a day of one guest beside others of one adds nothing."""
    draw = random.Random(2)
    many = [[draw.gauss(0, 0.05) for _ in range(10)] for _ in range(6)]
    errors = {}
    for guests in (1, 2, 10, 50):
        found = Days(many, [0.0] * guests).finding
        assert found.interval is not None
        errors[guests] = math.log1p(found.interval.high) - math.log1p(found.interval.low)
    assert errors[1] > errors[2] > errors[10] == errors[50]
    # of one guest alone the spread of a guest is the least that is to be expected
    assert errors[1] > 2 * 2.571 * 0.04
    single = [day[:1] for day in many]
    assert Days(single, [0.0]).finding == Days(single, [0.0] * 10).finding


def test_a_guest_of_today_seldom_alarms_where_days_have_many() -> None:
    """Of 1000 unchanged cells whose guests differ by 5 % and whose days do not: suspected in 2.5 % at most."""
    draw = random.Random(3)
    suspected = 0
    for _ in range(1000):
        saved = [[draw.gauss(0, 0.05) for _ in range(8)] for _ in range(6)]
        suspected += Days(saved, [draw.gauss(0, 0.05)]).finding.kind is Kind.SUSPECT
    assert suspected / 1000 < 0.025 + 0.01


def test_days_without_any_spread() -> None:
    """A counter that never varies: any change is one, and one of more than half of the tolerated loss is suspected."""
    alike = [[1.0]] * 5
    assert Days(alike, [1.0]).finding.kind is Kind.PASS
    assert Days(alike, [1.01]).finding.kind is Kind.PASS
    assert Days(alike, [1.2]).finding.kind is Kind.SUSPECT
    (sure,) = confirm_days({"a": Days(alike, [1.2], are_fresh=True)}, 100).values()
    assert (sure.kind, sure.p) == (Kind.REGRESSED, 0)
    assert learnt(alike) is None


@pytest.mark.parametrize("days", [5, 8])
def test_a_loss_of_just_the_tolerated_size_seldom_passes(days: int) -> None:
    """5 % at most, of 3000 cells whose days differ by 3 %."""
    draw = random.Random(1)
    passed = late = 0
    for _ in range(3000):
        saved = [[draw.gauss(0, 0.03)] for _ in range(days)]
        slow = Loss().limit + draw.gauss(0, 0.015)
        found = Days(saved, [slow + draw.gauss(0, 0.026)]).finding
        passed += found.kind is Kind.PASS
        if found.kind is Kind.SUSPECT:
            fresh = [slow + draw.gauss(0, 0.026) for _ in range(6)]
            (found,) = confirm_days({"a": Days(saved, fresh, are_fresh=True)}, 1).values()
            late += found.kind is Kind.PASS
    assert 0 < passed / 3000 < 0.04 + 0.008
    assert late > 0
    assert (passed + late) / 3000 < 0.05


def test_fresh_rounds_have_a_fifth_of_the_risk_of_passing() -> None:
    """The bound lies further out there: by hand, with t = 2.191 for 4 % and 3.365 for 1 % of 5 degrees of freedom."""
    error = statistics.stdev(statistics.fmean(day) for day in QUIET) * math.sqrt(7 / 6)
    mean = statistics.fmean(statistics.fmean(day) for day in QUIET)
    for are_fresh, t in ((False, 2.191), (True, 3.365)):
        for slack, standing in ((-0.001, Kind.PASS), (0.001, Kind.INCONCLUSIVE)):
            limit = t * error
            today = [mean + slack] * 2
            found = Days(QUIET, today, policy=Loss(tolerated=math.expm1(limit)), are_fresh=are_fresh).finding
            assert found.kind is standing


def test_suspects_are_counted_among_all_cells() -> None:
    """Holm's first step multiplies by all of them; a suspect that was none in fresh rounds is a hypothesis kept."""

    def of(loss: float) -> Days:
        return Days(QUIET, [math.log1p(loss)] * 3, are_fresh=True)

    one, other = (confirm_days({"a": of(0.2), "b": of(0.0)}, count) for count in (2, 40))
    assert one["a"].p is not None
    assert other["a"].p == pytest.approx(20 * one["a"].p)
    assert one["a"].kind is other["a"].kind is Kind.REGRESSED
    assert one["b"].kind is Kind.PASS
    assert one["b"].reason.startswith("it looked slower at first; in fresh rounds, 6 saved days, ")
    assert confirm_days({"a": of(0.06)}, 1)["a"].kind is Kind.REGRESSED
    many = confirm_days({"a": of(0.06)}, 500)["a"]
    assert many.kind is Kind.SUSPECT
    assert many.reason.endswith(" among 500 cells is not below 0.04: save more days, or run pairs with --vm-against")
    assert confirm_days({}, 10) == {}


def test_what_days_show_is_learnt_from_five() -> None:
    """A loss of that size is found or excluded in four of five cases, by the days themselves."""
    assert learnt(QUIET[:4]) is None
    assert learnt([*QUIET[:4], [math.nan]]) is None
    found = learnt(QUIET, 2)
    assert found is not None
    means = [statistics.fmean(day) for day in QUIET]
    assert math.log1p(found) == pytest.approx((2.571 + 0.920) * statistics.stdev(means) * math.sqrt(7 / 6), rel=1e-3)
    fewer = learnt(QUIET, 1)
    assert fewer is not None
    assert fewer > found

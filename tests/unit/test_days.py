"""Today against saved days: what can pass, what can be suspected, and what cannot be said."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from pytest_vmstorage.days import against_days
from pytest_vmstorage.loss import Loss, Standing

QUIET = [[0.00, 0.01], [0.02, 0.01], [-0.01, 0.0], [0.01, 0.02], [0.0, -0.02], [0.01, 0.0]]
"""Six days of two guests, in log(seconds)."""


def test_a_day_like_the_others_passes() -> None:
    """The tolerated loss lies above what a further day gives by chance."""
    found = against_days(QUIET, [0.005, 0.01])
    assert (found.standing, found.count, found.wants) == (Standing.PASS, 6, 0)
    assert "6 saved days" in found.reason
    assert "a loss of 10 % is excluded" in found.reason


def test_the_interval_is_that_of_one_more_day() -> None:
    """Student's t with s sqrt(1 + 1/K): by hand, with t = 2.571 for 5 degrees of freedom."""
    found = against_days(QUIET, [0.0])
    means = [statistics.fmean(day) for day in QUIET]
    half = 2.571 * statistics.stdev(means) * math.sqrt(1 + 1 / 6)
    shift = -statistics.fmean(means)
    assert found.interval is not None
    assert found.interval == pytest.approx((math.expm1(shift - half), math.expm1(shift + half)), abs=1e-4)


@pytest.mark.parametrize("loss", [0.10, 0.50, 3.0])
def test_however_slow_it_is_only_suspected(loss: float) -> None:
    """What differs from one day to the next is not seen in one day."""
    found = against_days(QUIET, [math.log1p(loss)] * 5)
    assert found.standing is Standing.SUSPECT
    assert "only pairs can confirm it" in found.reason
    assert found.p is not None
    assert found.p < 0.025


def test_many_guests_of_today_are_still_one_day() -> None:
    """Five or five hundred: the bound is as far away."""
    assert against_days(QUIET, [0.03] * 5) == against_days(QUIET, [0.03] * 500)


def test_days_that_differ_too_much_say_nothing() -> None:
    """With the smallest loss that they would have shown."""
    found = against_days([[-0.2], [0.2], [0.1], [-0.1], [0.0]], [0.05])
    assert found.standing is Standing.INCONCLUSIVE
    assert found.visible is not None
    assert found.visible > 0.5
    assert f"show one of {found.visible * 100:.3g} %" in found.reason


def test_one_saved_day_gives_the_change_and_no_verdict() -> None:
    """Not even where its guests are all alike: how days differ is not in it, what its guests hide is."""
    found = against_days([[0.0, 0.001, 0.002]], [0.3, 0.301, 0.299])
    assert (found.standing, found.count, found.wants) == (Standing.INCONCLUSIVE, 1, 4)
    assert found.loss == pytest.approx(math.expm1(0.299))
    assert (found.visible, found.interval, found.p) == (None, None, None)
    assert "one saved day does not say how much days differ, 5 are needed" in found.reason
    assert "were they all alike, its guests would show a loss of 0.3" in found.reason
    assert "were they all alike" not in against_days([[0.0]], [0.1]).reason


@pytest.mark.parametrize("days", [2, 3, 4])
def test_fewer_than_five_days_are_not_enough(days: int) -> None:
    """However quiet or slow; from two on they say what they could have shown."""
    for today in (0.0, 2.0):
        found = against_days(QUIET[:days], [today])
        assert (found.standing, found.count, found.wants) == (Standing.INCONCLUSIVE, days, 5 - days)
        assert found.visible is not None


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
    found = against_days(saved, today)
    assert (found.standing, found.reason) == (Standing.INCONCLUSIVE, said)


def test_days_without_any_spread() -> None:
    """A counter that never varies: any change is one, and one of more than half of the tolerated loss is suspected."""
    alike = [[1.0]] * 5
    assert against_days(alike, [1.0]).standing is Standing.PASS
    assert against_days(alike, [1.01]).standing is Standing.PASS
    assert against_days(alike, [1.2]).standing is Standing.SUSPECT


@pytest.mark.parametrize("days", [5, 8])
def test_a_loss_of_just_the_tolerated_size_seldom_passes(days: int) -> None:
    """5 % at most, of 3000 cells whose days differ by 3 %."""
    draw = random.Random(1)
    passed = 0
    for _ in range(3000):
        saved = [[draw.gauss(0, 0.03)] for _ in range(days)]
        found = against_days(saved, [Loss().limit + draw.gauss(0, 0.03)])
        passed += found.standing is Standing.PASS
    assert 0 < passed / 3000 < 0.05 + 0.008

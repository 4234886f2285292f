"""Estimators, held against exact probabilities and against simulated samples."""

from __future__ import annotations

import random

import pytest

from pytest_vmstorage.stats import Interval, median_interval


@pytest.mark.parametrize(
    ("count", "low", "high"),
    [(6, 1, 6), (8, 1, 8), (9, 2, 8), (12, 3, 10), (20, 6, 15), (30, 10, 21)],
)
def test_the_intervals_ranks(count: int, low: int, high: int) -> None:
    """Ranks of the 95 % interval of a median, as tables of the sign test have them."""
    assert median_interval(range(count, 0, -1)) == Interval(low, high)


@pytest.mark.parametrize("values", [[], [1.0], [3.0, 1.0, 2.0, 5.0, 4.0]])
def test_too_few_values_have_no_interval(values: list[float]) -> None:
    """Five lie on one side of the median in one of 16 cases."""
    assert median_interval(values) is None


def test_a_lower_confidence_takes_fewer_values() -> None:
    """Five give 93.75 %."""
    assert median_interval([1, 2, 3, 4, 5], 0.93) == Interval(1, 5)


@pytest.mark.parametrize("count", [6, 11, 25])
def test_it_covers_the_median_as_often_as_it_says(count: int) -> None:
    """Of skewed samples too: at least 95 of 100, within what 4000 draws can tell."""
    draw = random.Random(1)
    hits = 0
    for _ in range(4000):
        found = median_interval([draw.lognormvariate(0, 1) for _ in range(count)])
        assert found is not None
        hits += found.low <= 1.0 <= found.high
    assert 0.94 < hits / 4000 < 0.99

"""The steady state of rounds, by the SNIA's two limits. Tests of `results.run`."""

from __future__ import annotations

from math import inf, nan

import pytest

from pytest_vmstorage.results.run import steadiness


@pytest.mark.parametrize(
    ("figures", "spread", "slope"),
    [
        ((100, 100, 100, 100, 100), 0.0, 0.0),
        # the largest is a fifth of the mean above the smallest: the limit itself
        ((90, 110, 100, 110, 90), 0.2, 0.0),
        # a line that rises by a tenth of the mean from the first round to the last: the limit itself
        ((95, 97.5, 100, 102.5, 105), 0.1, 0.1),
        ((105, 102.5, 100, 97.5, 95), 0.1, -0.1),
    ],
    ids=["level", "range", "rising", "falling"],
)
def test_rounds_within_both_limits_are_steady(figures: tuple[float, ...], spread: float, slope: float) -> None:
    """Range and slope are fractions of the mean."""
    found = steadiness(figures)
    assert (found.range, found.slope) == (pytest.approx(spread), pytest.approx(slope))
    assert found.is_judged
    assert found.is_steady


@pytest.mark.parametrize(
    ("figures", "spread", "slope"),
    [
        ((100, 125, 100, 125, 100), 25 / 110, 0.0),
        ((100, 104, 108, 112, 116), 16 / 108, 16 / 108),
        ((116, 112, 108, 104, 100), 16 / 108, -16 / 108),
    ],
    ids=["scattered", "rising", "falling"],
)
def test_rounds_beyond_a_limit_are_not_steady(figures: tuple[float, ...], spread: float, slope: float) -> None:
    """Either is enough: a disk that fills its cache falls steadily, and its rounds lie close together."""
    found = steadiness(figures)
    assert (found.range, found.slope) == (pytest.approx(spread), pytest.approx(slope))
    assert found.is_judged
    assert not found.is_steady


def test_the_slope_is_that_of_the_line_through_all_rounds() -> None:
    """And not the way from the first round to the last, which is half of the mean in both of these."""
    found = steadiness((75, 100, 100, 100, 125))
    assert found.slope == pytest.approx(0.4)
    assert steadiness((100, 100, 100, 100, 155)).slope == pytest.approx(44 / 111)


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ((), "not judged (0 rounds)"),
        ((1.0,), "not judged (1 round)"),
        ((1.0, 9.0, 1.0, 9.0), "not judged (4 rounds)"),
        ((0.0,) * 5, "not judged (5 rounds)"),
        ((1.0, inf, 1.0, -inf, 1.0), "not judged (a figure that is no number)"),
        ((1.0, nan, 1.0, 1.0, 1.0), "not judged (a figure that is no number)"),
    ],
)
def test_too_few_rounds_are_not_judged(figures: tuple[float, ...], said: str) -> None:
    """They are neither steady nor not."""
    found = steadiness(figures)
    assert not found.is_judged
    assert not found.is_steady
    assert str(found) == said


def test_it_says_both_with_their_limits() -> None:
    """A reader need not know them."""
    assert str(steadiness((100, 104, 108, 112, 116))) == (
        "not steady over 5 rounds: a slope of +14.8% is over the limit of 10%"
    )
    # what decided is shown so that it can be seen to have: 10.4 is more than 10
    assert str(steadiness((94.8, 97.4, 100, 102.6, 105.2))).endswith("a slope of +10.4% is over the limit of 10%")
    assert str(steadiness((100, 130, 100, 100, 100))) == (
        "not steady over 5 rounds: a range of 28.3% of the mean is over the limit of 20% and a slope of -11.3% is over"
        " the limit of 10%"
    )
    assert str(steadiness((5.0,) * 6)) == (
        "steady over 6 rounds: range 0.0% of the mean (limit 20%), slope +0.0% (limit 10%)"
    )

"""When rounds end: at their number, when the figure is narrow enough, at the time limit."""

from __future__ import annotations

import pytest

from pytest_vmstorage.measure.rounds import Rounds, half_width
from pytest_vmstorage.results.run import Ending

AUTO = Rounds(count=None, precision=0.05, limit_s=60.0)
NARROW = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0]
WIDE = [100.0, 120.0, 80.0, 100.0, 100.0, 100.0]


@pytest.mark.parametrize(("taken", "ended"), [(0, None), (2, None), (3, Ending(reason="count"))])
def test_a_number_of_rounds(taken: int, ended: Ending | None) -> None:
    """Whatever they measure and however long they take."""
    assert Rounds(count=3).ended([1.0] * taken, 1e9) == ended


def test_auto_ends_when_the_interval_is_narrow() -> None:
    """98 to 102 around 100 is within 2 %."""
    assert AUTO.ended(NARROW, 10) == Ending(reason="narrow", half_width=0.02)
    assert AUTO.ended(NARROW[:5], 10) is None
    assert AUTO.least == 6


def test_auto_begins_with_as_many_as_a_calibration_asks_for() -> None:
    """It is not looked at before; the time limit comes before that, and fewer than six are never asked for."""
    longer = AUTO.beginning_with(12)
    assert longer.least == 12
    assert longer.ended(NARROW, 10) is None
    assert longer.ended(NARROW * 2, 10) == Ending(reason="narrow", half_width=0.01)
    assert longer.ended(NARROW, 60.0) == Ending(reason="time limit", half_width=0.02)
    assert AUTO.beginning_with(3) == AUTO
    assert Rounds(count=3).beginning_with(12).least == 3


def test_auto_ends_at_the_time_limit_and_says_how_wide_it_was() -> None:
    """Not before, and not without a figure."""
    assert AUTO.ended(WIDE, 59.0) is None
    assert AUTO.ended(WIDE, 60.0) == Ending(reason="time limit", half_width=0.2)
    assert AUTO.ended(WIDE[:2], 60.0) == Ending(reason="time limit")
    assert AUTO.ended([], 60.0) is None


def test_auto_ends_where_nothing_untouched_is_left() -> None:
    """First writes need blocks that nothing has written."""
    assert AUTO.ended(WIDE, 1.0, has_room=False) == Ending(reason="no room", half_width=0.2)
    assert AUTO.ended([], 1.0, has_room=False) is None


def test_a_median_of_nothing() -> None:
    """Six zeros are as narrow as can be, zeros among others have no fraction."""
    assert half_width([0.0] * 6) == 0.0
    assert half_width([0.0, 0.0, 0.0, 0.0, 0.0, 5.0]) is None

"""Steps and creep in single series, and how sure and where they are."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence

import pytest

from pytest_vmstorage.analysis.history.causes import Judged, find_causes
from pytest_vmstorage.analysis.history.changes import (
    LEAST_DAYS,
    RISK,
    best_split,
    bounded,
    find_changes,
    likely_places,
    splits_looked_at,
)
from pytest_vmstorage.stats import mann_kendall_p, slope_p


def noise(days: int, seed: int, spread: float = 0.03) -> list[float]:
    """Days that differ by chance alone."""
    draw = random.Random(seed)
    return [draw.gauss(0, spread) for _ in range(days)]


def only(values: list[float]) -> list[object]:
    """The changes of a single series, by kind and first day."""
    (found,) = find_changes([values], [range(len(values))])
    return [(one.kind, one.at) for one in found]


def test_a_step_is_found_on_its_day() -> None:
    """A tenth more time from the 40th day on, among days that differ by 3 %."""
    values = [value + math.log(1.1) * (day >= 40) for day, value in enumerate(noise(60, 1))]
    assert only(values) == [("step", 40)]


def test_two_steps_are_two_changes() -> None:
    """Up, and back: the level that came back is a change of its own, with its own place."""
    values = [value + 0.2 * (20 <= day < 45) for day, value in enumerate(noise(60, 2))]
    assert only(values) == [("step", 20), ("step", 45)]


def test_creep_is_no_step() -> None:
    """A tenth more time over two months, which no day has by itself."""
    (found,) = find_changes([[value + 0.1 * day / 59 for day, value in enumerate(noise(60, 3, 0.015))]], [range(60)])
    assert [one.kind for one in found] == ["creep"]
    assert found[0].shift == pytest.approx(0.1, abs=0.03)


def test_days_without_any_spread_have_no_change() -> None:
    """A figure that never moves, and one that was written down in whole numbers."""
    assert only([1.0] * 40) == []
    assert only([1.0, 1.0, 1.0, 2.0] * 10) == []


def test_too_few_days_have_no_change() -> None:
    """However large it looks."""
    assert only([0.0] * (LEAST_DAYS // 2) + [9.0] * (LEAST_DAYS - 1 - LEAST_DAYS // 2)) == []


def test_a_bad_day_or_two_are_no_level() -> None:
    """Twice the time on two days in a row."""
    values = noise(60, 4)
    values[30] = values[31] = math.log(2)
    assert only(values) == []


def test_bounded_moves_outliers_alone() -> None:
    """A level of many days stays where it is."""
    outlier = [*noise(30, 6), 5.0]
    assert bounded(outlier)[:-1] == outlier[:-1]
    assert bounded(outlier)[-1] < 0.3
    levels = [value + (day >= 15) for day, value in enumerate(noise(30, 6))]
    assert bounded(levels) == levels


@pytest.mark.parametrize("begin", [0, 1, 28, 55, 57])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_days_of_a_short_level_keep_their_figures(begin: int, sign: int) -> None:
    """Three days at one level are one, at either end of a series too; that of a bad day or two is no level."""
    values = noise(60, 21)

    def changed(days: int) -> list[float]:
        return [value + sign * (begin <= day < begin + days) for day, value in enumerate(values)]

    level = changed(3)
    assert bounded(level) == level
    for days in (1, 2):
        bad = bounded(changed(days))[begin : begin + days]
        assert all(abs(value) < 0.3 for value in bad)


def test_the_p_value_is_that_of_other_orders() -> None:
    """Of the same days in orders of chance no more have so good a split than the p-value says, and not far fewer."""
    draw = random.Random(6)
    values = [value + (day >= 8) for day, value in enumerate(noise(12, 6, 0.6))]

    def best(order: list[float]) -> float:
        sums = list(itertools.accumulate(value - sum(order) / len(order) for value in order))
        return max(sums[at - 1] ** 2 / (at * (len(order) - at)) for at in range(3, len(order) - 2))

    _, p = best_split(values)
    reached = best(values)
    orders = [best(draw.sample(values, len(values))) >= reached - 1e-12 for _ in range(4000)]
    share = sum(orders) / len(orders)
    assert 0.01 < share <= p * 1.15
    assert p <= 3 * share


@pytest.mark.parametrize("is_newest", [False, True])
def test_unchanged_series_alarm_as_seldom_as_they_say(is_newest: bool) -> None:
    """Of 2,000 series of noise with bad days, at most as many as the p-value says, but for chance."""
    draw = random.Random(7)
    ps = []
    for _ in range(2000):
        values = [draw.gauss(0, 1) + 20 * (draw.random() < 0.05) for _ in range(40)]
        ps.append(best_split(bounded(values), is_newest)[1])
    for level in (0.2, 0.05, 0.01):
        expected = level * len(ps)
        assert sum(p <= level for p in ps) <= expected + 3 * math.sqrt(expected)
    assert sum(p <= 0.2 for p in ps) >= 0.5 * 0.2 * len(ps)


def test_more_days_are_more_splits() -> None:
    """A surer split counts as one of more: neighbouring ones agree less on it."""
    assert 1 < splits_looked_at(20, 1e-3) < splits_looked_at(60, 1e-3) < splits_looked_at(60, 1e-6) < 60


def test_splits_that_cannot_be_so_sure_do_not_count() -> None:
    """Of 60 days no order of three has a p-value below 1 in 34,220, and one of four has."""
    assert 1 / math.comb(60, 4) < 1e-5 < 1 / math.comb(60, 3) < 1e-4
    assert splits_looked_at(60, 1e-5, range(3, 30)) == splits_looked_at(60, 1e-5, range(4, 30))
    assert splits_looked_at(60, 1e-4, range(3, 30)) > splits_looked_at(60, 1e-4, range(4, 30))


def test_a_new_step_needs_fewer_days_than_an_old_one() -> None:
    """The newest days have a part of the risk for themselves, which the others pay."""
    new = [value + math.log(1.1) * (day >= 55) for day, value in enumerate(noise(60, 10))]
    old = [value + math.log(1.1) * (10 <= day < 15) for day, value in enumerate(noise(60, 10))]
    for values, cheaper in ((new, True), (old, False)):
        (at, p), (newest_at, newest) = best_split(values), best_split(values, is_newest=True)
        assert at == newest_at
        assert (newest < p) is cheaper
        assert newest < 3 * p


def test_a_second_look_is_paid_for() -> None:
    """A change beside another one is as sure as its own days make it, after twice as many looks with half the risk."""
    values = [value + 0.5 * (day >= 30) + 0.1 * (day >= 50) for day, value in enumerate(noise(60, 11))]
    (found,) = find_changes([values], [range(60)])
    first, second = found
    assert (first.at, second.at) == (30, 50)
    assert first.p >= best_split(values[:50])[1]
    assert second.p >= 4 * best_split(values[30:], is_newest=True)[1]


@pytest.mark.parametrize("seed", [108, 116, 191, 198])
def test_a_second_look_at_one_of_many_series_is_as_strict_as_the_first(seed: int) -> None:
    """What looks like a change beside a step, by a chance of 1 in 150 and less, is none where a hundred are judged."""
    values = [value + 0.3 * (day >= 30) for day, value in enumerate(noise(60, seed))]
    assert min(best_split(values[:30])[1], best_split(values[30:], is_newest=True)[1]) < 0.007
    alone, *_ = find_changes([values], [range(60)])
    among, *_ = find_changes([values, *(noise(60, 9000 + number) for number in range(99))], [range(60)] * 100)
    assert len(alone) == 2
    assert [(one.kind, one.at) for one in among] == [("step", 30)]


def test_a_step_stays_where_a_creep_begins_with_it() -> None:
    """Each is a change."""
    values = [value + (0.3 + 0.01 * (day - 30)) * (day >= 30) for day, value in enumerate(noise(60, 1, 0.014))]
    assert only(values) == [("step", 30), ("creep", 30)]


def test_likely_places_are_relative_to_the_likeliest() -> None:
    """A sharp step leaves no other day, a faint one many."""
    sharp = likely_places([value + (day >= 30) for day, value in enumerate(noise(60, 8))])
    faint = likely_places([value + 0.03 * (day >= 30) for day, value in enumerate(noise(60, 8))])
    assert max(like for _, like in sharp) == 0.0
    assert [day for day, like in sharp if like > -6] == [30]
    assert len([day for day, like in faint if like > -6]) > 5


def test_many_unchanged_series_are_judged_together() -> None:
    """100 series of 60 days with one risk: of 25 such histories hardly one has a finding."""
    alarms = 0
    for seed in range(25):
        many = [noise(60, 1000 * seed + number) for number in range(100)]
        alarms += any(find_changes(many, [range(60)] * 100))
    assert alarms <= 25 * RISK + 3


def test_a_change_in_years_is_found_in_its_window() -> None:
    """Three weeks that were slower, two years ago."""
    values = [value + 0.15 * (300 <= day < 321) for day, value in enumerate(noise(900, 9))]
    assert only(values) == [("step", 300), ("step", 321)]


def test_creep_of_few_days_is_tested_by_ranks() -> None:
    """That of a month or more by its slope, of which a bad day is no part."""

    def of_its_risk(days: int, test: Callable[[Sequence[float]], float]) -> float:
        values = [value + 0.2 * day / days for day, value in enumerate(noise(days, 15))]
        values[3] += math.log(2)
        (found,) = find_changes([values], [range(days)])
        (creep,) = found
        assert creep.kind == "creep"
        return creep.p / test(values)

    by_ranks = of_its_risk(29, mann_kendall_p)
    by_slope = of_its_risk(30, lambda values: slope_p(bounded(values)))
    assert by_ranks == pytest.approx(by_slope)
    assert 2 < by_slope < 4


def test_a_step_that_the_slope_is_sure_of_is_told() -> None:
    """Two levels describe these rising days better, and their slope is surer: neither loses the change."""
    rising = [value + 0.1 * day / 59 for day, value in enumerate(noise(60, 750, 0.04))]
    (change,) = find_changes([rising], [range(60)])[0]
    assert (change.kind, change.at) == ("step", 44)
    assert change.p < 0.39 * best_split(bounded(rising), is_newest=True)[1]
    others = [Judged(range(60), noise(60, 1000 + number), {"cell": str(number)}) for number in range(1, 100)]
    causes = find_causes([Judged(range(60), rising, {"cell": "0"}), *others])
    assert [one.members for one in causes] == [(0,)]

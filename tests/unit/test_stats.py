"""Estimators, held against exact probabilities and against simulated samples."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from bisect import bisect_left
from collections.abc import Iterator, Sequence

import pytest

from pytest_vmstorage.stats import (
    MOST_PAIRS,
    Interval,
    benjamini_hochberg,
    count_to_equal,
    count_to_see,
    drawn_sum_p,
    equivalence_p,
    fewest_for_interval,
    hodges_lehmann,
    holm,
    lower_bound,
    median_interval,
    shift_interval,
    signed_rank_p,
    squared_deviations,
    student_t_cdf,
    student_t_quantile,
    upper_bound,
    visible_shift,
)


@pytest.mark.parametrize(
    ("count", "low", "high"), [(6, 1, 6), (8, 1, 8), (9, 2, 8), (12, 3, 10), (20, 6, 15), (30, 10, 21)]
)
def test_the_intervals_ranks(count: int, low: int, high: int) -> None:
    """Ranks of the 95 % interval of a median, as tables of the sign test have them."""
    assert median_interval(range(count, 0, -1)) == Interval(low, high)


@pytest.mark.parametrize("values", [[], [1.0], [3.0, 1.0, 2.0, 5.0, 4.0]])
def test_too_few_values_have_no_interval(values: list[float]) -> None:
    """Five lie on one side of the median in one of 16 cases."""
    assert median_interval(values) is None


def test_the_interval_of_many_values() -> None:
    """Whose patterns no float can count: ranks as the normal distribution has them, 2000 -+ 1.96 sqrt(4000) / 2."""
    assert median_interval(range(4000)) == Interval(1937, 2062)


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


def samples(count: int, *, ties: bool = False, seed: int = 1) -> Iterator[list[float]]:
    """Random differences, 3 to 9 of them; with ties also equal sizes and zeros."""
    draw = random.Random(seed)
    for _ in range(count):
        found = [draw.gauss(0.5, 1) for _ in range(draw.randint(3, 9))]
        yield [round(one * 2) / 2 for one in found] if ties else found


def enumerated_p(differences: Sequence[float]) -> float:
    """The definition: of all patterns of signs, how many have a sum of positive mean ranks at least as large."""
    left = [one for one in differences if one]
    sizes = sorted(map(abs, left))
    ranks = [statistics.fmean(place for place, size in enumerate(sizes, 1) if size == abs(one)) for one in left]
    seen = sum(rank for rank, one in zip(ranks, left, strict=True) if one > 0)
    patterns = list(itertools.product((0, 1), repeat=len(left)))
    sums = (sum(rank for rank, up in zip(ranks, pattern, strict=True) if up) for pattern in patterns)
    return sum(total >= seen for total in sums) / len(patterns)


@pytest.mark.parametrize("ties", [False, True])
def test_the_signed_rank_p_value_is_that_of_all_patterns(ties: bool) -> None:
    """Also with equal sizes and zeros, where tables and approximations are wrong."""
    for differences in samples(150, ties=ties):
        assert signed_rank_p(differences) == enumerated_p(differences), differences


def test_six_pairs_are_the_fewest_that_reach_one_in_forty() -> None:
    """And only where all of them are slower."""
    assert signed_rank_p([1, 2, 3, 4, 5]) == 1 / 32
    assert signed_rank_p([1, 2, 3, 4, 5, 6]) == 1 / 64
    assert signed_rank_p([-1, 2, 3, 4, 5, 6]) == 2 / 64
    assert signed_rank_p([-6, -5, -4, -3, -2, -1]) == 1.0


@pytest.mark.parametrize("differences", [[], [0.0], [0.0, 0.0, 0.0]])
def test_no_difference_is_no_evidence(differences: list[float]) -> None:
    """Two runs of exactly the same time."""
    assert signed_rank_p(differences) == 1.0


def test_the_estimate_is_the_median_of_all_means_of_two() -> None:
    """By hand; one wild value moves it little."""
    assert hodges_lehmann([4.0]) == 4.0
    # means of two: 1, 2, 3, 2.5, 3.5, 4, 5.5, 6.5, 7, 10
    assert hodges_lehmann([1, 3, 4, 10]) == 3.75
    assert hodges_lehmann([1, 3, 4, 1000]) < 505
    with pytest.raises(ValueError, match="without a difference"):
        hodges_lehmann([])


@pytest.mark.parametrize("risk", [0.016, 0.025, 0.1])
def test_the_bounds_are_where_the_test_changes_its_mind(risk: float) -> None:
    """Just above the upper bound a shift is rejected, just below it is not; and the lower bound is its mirror."""
    decided = 0
    for differences in samples(300):
        bound = upper_bound(differences, risk)
        assert lower_bound([-one for one in differences], risk) == -bound
        if math.isinf(bound):
            assert 0.5 ** len(differences) > risk
            continue
        decided += 1
        assert signed_rank_p([bound + 1e-9 - one for one in differences]) <= risk
        assert signed_rank_p([bound - 1e-9 - one for one in differences]) > risk
    assert decided > 100


@pytest.mark.parametrize("step", [0.0, 0.5])
def test_the_shift_is_within_its_interval_as_often_as_that_says(step: float) -> None:
    """Of values that are rounded too, and so often equal: then more often."""
    draw = random.Random(1)
    hits = 0
    for _ in range(2000):
        values = [1 + draw.gauss(0, 1) for _ in range(12)]
        found = shift_interval([round(one / step) * step for one in values] if step else values)
        assert found is not None
        hits += found.low <= 1.0 <= found.high
    assert 0.94 < hits / 2000 < 0.99


def test_fewer_than_six_have_no_interval_of_95_percent() -> None:
    """All five on one side is one case in 16."""
    assert shift_interval([1, 2, 3, 4, 5]) is None
    assert shift_interval([1, 2, 3, 4, 5, 6]) == Interval(1, 6)


def test_holm_by_hand() -> None:
    """Four p-values: times 4, 3, 2, 1 from the smallest, and never below the one before."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.6, 0.7]) == (1.0, 1.0)
    assert holm([]) == ()


def test_holm_is_the_closed_test() -> None:
    """Each p-value as the largest, over all sets it is in, of the set's smallest times its size."""
    draw = random.Random(2)
    for _ in range(100):
        p_values = [round(draw.random() ** 3, 3) for _ in range(draw.randint(1, 6))]
        places = range(len(p_values))
        sets = [chosen for size in places for chosen in itertools.combinations(places, size + 1)]
        closed = [
            max(min(1.0, len(chosen) * min(p_values[one] for one in chosen)) for chosen in sets if place in chosen)
            for place in places
        ]
        assert holm(p_values) == pytest.approx(closed)


@pytest.mark.parametrize(
    ("probability", "freedom", "t"),
    [(0.975, 1, 12.706), (0.975, 2, 4.303), (0.95, 5, 2.015), (0.975, 17, 2.110), (0.80, 11, 0.876), (0.5, 3, 0.0)],
)
def test_students_t_as_in_tables(probability: float, freedom: int, t: float) -> None:
    """NIST handbook, 1.3.6.7.2, and its mirror."""
    assert student_t_quantile(probability, freedom) == pytest.approx(t, abs=5e-4)
    assert student_t_quantile(1 - probability, freedom) == pytest.approx(-t, abs=5e-4)
    assert student_t_cdf(student_t_quantile(probability, freedom), freedom) == pytest.approx(probability)


def test_the_visible_shift_shrinks_with_pairs_and_is_found_again() -> None:
    """The fewest pairs that see a shift do, and one fewer does not."""
    assert visible_shift(0.1, 18) == pytest.approx((2.110 + 0.863) * 0.1 / math.sqrt(18), rel=1e-3)
    for spread in (0.01, 0.05, 0.113, 0.3):
        count = count_to_see(0.0953, spread)
        assert count is not None
        assert visible_shift(spread, count) <= 0.0953
        assert count == 2 or visible_shift(spread, count - 1) > 0.0953
    assert count_to_see(0.0953, 0.0) == 2
    assert count_to_see(0.0953, 3.0) is None
    assert visible_shift(3.0, MOST_PAIRS) > 0.0953
    with pytest.raises(ValueError, match="no spread"):
        visible_shift(0.1, 1)


@pytest.mark.parametrize(("confidence", "fewest"), [(0.9, 5), (0.95, 6), (1 - 2 / 2**6, 6), (0.975, 7), (0.995, 9)])
def test_the_fewest_that_have_an_interval(confidence: float, fewest: int) -> None:
    """So many have one, and one fewer has not; also where the confidence is just that of so many signs."""
    assert fewest_for_interval(confidence) == fewest
    assert shift_interval(range(fewest), confidence) is not None
    assert shift_interval(range(fewest - 1), confidence) is None


def test_a_smaller_risk_takes_more() -> None:
    """Of several intervals at once each has its part of the 5 %."""
    assert visible_shift(1.0, 20, 0.005) > visible_shift(1.0, 20) == visible_shift(1.0, 20, 0.05)
    several, one = count_to_see(0.5, 1.0, 0.005), count_to_see(0.5, 1.0)
    assert several is not None
    assert one is not None
    assert several > one * 1.5


def test_two_one_sided_tests_are_the_interval_within_the_margin() -> None:
    """Of 90 % at a risk of 5 %: shown where it lies within, on both sides; a spread that is too wide shows nothing."""
    draw = random.Random(7)
    shown = 0
    for _ in range(200):
        spread, center = draw.uniform(0.002, 0.05), draw.uniform(-0.03, 0.03)
        found = [draw.gauss(center, spread) for _ in range(12)]
        low, high = lower_bound(found, 0.05), upper_bound(found, 0.05)
        assert (equivalence_p(found, 0.02) <= 0.05) is (low > -0.02 and high < 0.02)
        shown += equivalence_p(found, 0.02) <= 0.05
    assert 20 < shown < 180
    assert equivalence_p([0.0] * 5, 0.02) == 1 / 32
    assert equivalence_p([], 0.02) == 1.0
    assert equivalence_p([0.05, -0.05] * 6, 0.02) > 0.05
    assert equivalence_p([0.021] * 12, 0.02) == 1.0


def test_so_many_show_that_two_are_equal() -> None:
    """In four of five cases by simulation; never fewer than the signed ranks need."""
    count = count_to_equal(0.02, 0.02)
    assert count is not None
    draw = random.Random(3)
    shown = sum(equivalence_p([draw.gauss(0, 0.02) for _ in range(count)], 0.02) <= 0.05 for _ in range(1000))
    assert 740 <= shown <= 860
    assert count_to_equal(0.02, 0.0) == 5
    assert count_to_equal(0.02, 0.0, risk=0.01) == 7
    assert count_to_equal(0.02, 1.0) is None


def test_benjamini_hochberg_counts_more_where_more_is_true() -> None:
    """One p-value of 0.03 among ten counts for nothing, beside nine small ones it does."""
    assert benjamini_hochberg([0.03] + [0.9] * 9, 0.05) == -1.0
    assert benjamini_hochberg([0.03] + [1e-6] * 9, 0.05) == 0.03
    assert benjamini_hochberg([], 0.05) == -1.0


def test_few_draws_are_all_counted() -> None:
    """Of the six pairs of four values two reach 5: 1 + 4 and 2 + 4 with more, and 2 + 3."""
    assert drawn_sum_p([1, 2, 3, 4], [3, 4]) == pytest.approx(1 / 6)
    assert drawn_sum_p([1, 2, 3, 4], [1, 4]) == pytest.approx(4 / 6)
    assert drawn_sum_p([1.0] * 30, [1.0] * 10) == 1.0


def test_the_largest_sum_has_the_probability_of_its_draws() -> None:
    """Also where several values are equal to the least that is drawn."""
    values = [float(value) for value in range(30)]
    assert drawn_sum_p(values, values[-8:]) == pytest.approx(1 / math.comb(30, 8))
    assert drawn_sum_p([*[0.0] * 20, *[1.0] * 10], [1.0] * 8) == pytest.approx(math.comb(10, 8) / math.comb(30, 8))


def test_the_saddlepoint_holds_in_the_tail() -> None:
    """All 42,504 draws of 5 of 24 values, gone through: its error is a fifth at most, down to one in ten thousand."""
    draw = random.Random(2)
    values = [draw.gauss(0, 1) for _ in range(24)]
    sums = sorted(map(sum, itertools.combinations(values, 5)))
    ordered = sorted(values, reverse=True)
    for drawn in (ordered[2:7], ordered[1:6], [*ordered[:3], *ordered[7:9]], ordered[4:9], ordered[8:13]):
        exact = (len(sums) - bisect_left(sums, sum(drawn) - 1e-12)) / len(sums)
        assert drawn_sum_p(values, drawn) == pytest.approx(exact, rel=0.2)


@pytest.mark.parametrize("offset", [0.0, 9.2, 1e6])
def test_squared_deviations_are_those_of_the_exact_variance(offset: float) -> None:
    """Also far from 0, where squares are large, and their differences small."""
    draw = random.Random(7)
    for count in (2, 3, 8, 40):
        values = [offset + draw.gauss(0.0, 0.03) for _ in range(count)]
        exact = statistics.variance(values) * (count - 1)
        assert squared_deviations(values) == pytest.approx(exact, rel=1e-12)


def test_equal_values_deviate_by_nothing() -> None:
    """Exactly: a mean of three times 0.1 is not 0.1 in floats."""
    assert squared_deviations([0.1] * 3) == squared_deviations([4.2]) == 0.0

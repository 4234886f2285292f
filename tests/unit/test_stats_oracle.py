"""Our estimators and tests against scipy's, on many random samples.

scipy has no Holm: test_stats.py holds ours against the closed test that it is.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from pytest_vmstorage.analysis.gate.policy import InterimLook, Loss
from pytest_vmstorage.stats import (
    benjamini_hochberg,
    hodges_lehmann,
    lower_bound,
    mann_kendall_p,
    shift_interval,
    signed_rank_p,
    slope_p,
    student_t_cdf,
    student_t_quantile,
    theil_sen,
    upper_bound,
    visible_shift,
)

POLICY = Loss()


@pytest.fixture(scope="module")
def scipy_stats() -> Any:
    """scipy's statistics: only the process that runs these tests spends the second that they take to import."""
    return pytest.importorskip("scipy.stats", reason="install scipy to have this tested")


def drawn(draw: random.Random, count: int) -> list[float]:
    """Skewed and shifted differences."""
    return [draw.gauss(0.3, 1) + draw.expovariate(1) - 1 for _ in range(count)]


def scipy_p(scipy_stats: Any, differences: list[float]) -> float:
    """The exact one-sided p-value; only for differences without equal sizes and zeros."""
    return float(scipy_stats.wilcoxon(differences, method="exact", alternative="greater").pvalue)


def test_p_values_of_as_many_pairs_as_a_gate_looks_at(scipy_stats: Any) -> None:
    """And of all fewer."""
    draw = random.Random(1)
    for count in [*range(1, POLICY.confirmation[-1].pairs + 1)] * 10:
        differences = drawn(draw, count)
        assert signed_rank_p(differences) == pytest.approx(scipy_p(scipy_stats, differences), rel=1e-12), differences


def test_p_values_with_equal_sizes_and_zeros(scipy_stats: Any) -> None:
    """Against scipy's test over all patterns of signs; its "exact" method does not know of ties."""
    draw = random.Random(2)
    every = scipy_stats.PermutationMethod(n_resamples=10**6)
    tied = 0
    for count in [*range(2, 10)] * 8:
        differences = [round(one * 2) / 2 for one in drawn(draw, count)]
        nonzero = [one for one in differences if one]
        tied += len(set(map(abs, nonzero))) < len(nonzero)
        # scipy refuses one
        if len(nonzero) > 1:
            theirs = scipy_stats.wilcoxon(nonzero, method=every, alternative="greater").pvalue
            assert signed_rank_p(differences) == pytest.approx(float(theirs), rel=1e-12), differences
    assert tied > 20


@pytest.mark.parametrize(
    "look", [*POLICY.screening, *POLICY.confirmation, InterimLook(pairs=9, pass_risk=0.025)], ids=str
)
def test_bounds_are_where_scipys_test_rejects(scipy_stats: Any, look: InterimLook) -> None:
    """At the numbers of pairs and the risks of the gate's looks, and at others."""
    draw = random.Random(3)
    for _ in range(20):
        differences = drawn(draw, look.pairs)
        bound = upper_bound(differences, look.pass_risk)
        assert scipy_p(scipy_stats, [bound + 1e-9 - one for one in differences]) <= look.pass_risk
        assert scipy_p(scipy_stats, [bound - 1e-9 - one for one in differences]) > look.pass_risk
        assert lower_bound([-one for one in differences], look.pass_risk) == -bound


def test_too_few_have_no_bound(scipy_stats: Any) -> None:
    """Five cannot reach 1/64, by scipy's test neither."""
    differences = [0.1, 0.2, 0.3, 0.4, 0.5]
    assert math.isinf(upper_bound(differences, 1 / 64))
    assert scipy_p(scipy_stats, differences) > 1 / 64


@pytest.mark.parametrize("count", [1, 2, 6, 7, 12, 24, 72])
def test_the_estimate_leaves_no_shift_either_way(scipy_stats: Any, count: int) -> None:
    """Neither slower nor faster than it has a p-value below one half."""
    draw = random.Random(5)
    for _ in range(20):
        left = [one - hodges_lehmann(differences) for differences in [drawn(draw, count)] for one in differences]
        assert scipy_p(scipy_stats, [one - 1e-9 for one in left]) >= 0.5
        assert scipy_p(scipy_stats, [-one - 1e-9 for one in left]) >= 0.5


def test_the_interval_of_95_percent(scipy_stats: Any) -> None:
    """Each bound with half of the risk."""
    draw = random.Random(4)
    for count in (6, 13, 25):
        differences = drawn(draw, count)
        found = shift_interval(differences)
        assert found is not None
        assert scipy_p(scipy_stats, [one - found.low + 1e-9 for one in differences]) <= 0.025
        assert scipy_p(scipy_stats, [one - found.low - 1e-9 for one in differences]) > 0.025
        assert scipy_p(scipy_stats, [found.high + 1e-9 - one for one in differences]) <= 0.025
        assert scipy_p(scipy_stats, [found.high - 1e-9 - one for one in differences]) > 0.025


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 6, 11, 17, 35, 100, 101, 999])
def test_students_t(scipy_stats: Any, freedom: int) -> None:
    """Probabilities and quantiles, to more digits than anybody reads."""
    for t in (-30, -2.5, -0.1, 0.0, 0.5, 1.96, 12.7):
        assert student_t_cdf(t, freedom) == pytest.approx(float(scipy_stats.t.cdf(t, freedom)), abs=1e-13)
    for probability in (0.001, 0.025, 0.2, 0.5, 0.8, 0.95, 0.975, 0.9995):
        theirs = float(scipy_stats.t.ppf(probability, freedom))
        assert student_t_quantile(probability, freedom) == pytest.approx(theirs, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("count", [6, 12, 18, 36])
def test_the_visible_shift_is_seen_in_four_of_five_cases(scipy_stats: Any, count: int) -> None:
    """By the noncentral t distribution: the power of the two-sided test at 5 %."""
    noncentrality = visible_shift(1.0, count) * math.sqrt(count)
    critical = scipy_stats.t.ppf(0.975, count - 1)
    assert float(scipy_stats.nct.sf(critical, count - 1, noncentrality)) == pytest.approx(0.80, abs=0.02)


def test_the_slope_is_that_of_theil_and_sen(scipy_stats: Any) -> None:
    """At days with gaps between them."""
    draw = random.Random(8)
    for count in (2, 3, 10, 61):
        times = sorted(draw.sample(range(200), count))
        values = drawn(draw, count)
        assert theil_sen(times, values) == pytest.approx(scipy_stats.theilslopes(values, times).slope)


@pytest.mark.parametrize("slope", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("count", [3, 4, 11, 60, 120])
def test_the_trend_is_that_of_all_orders(scipy_stats: Any, count: int, slope: float) -> None:
    """Kendall's tau of values and their places has the same p-value, up and down, where it is far out too."""
    draw = random.Random(9)
    values = [value + place * slope for place, value in enumerate(drawn(draw, count))]
    tau = scipy_stats.kendalltau(range(count), values, method="exact")
    assert mann_kendall_p(values) == pytest.approx(tau.pvalue, rel=1e-6)
    assert mann_kendall_p(values[::-1]) == mann_kendall_p(values)


def test_the_trend_of_many_or_equal_values_is_the_normal_one(scipy_stats: Any) -> None:
    """It is that of Kendall's tau, but for our correction for continuity."""
    draw = random.Random(9)
    for count, digits in ((200, 9), (60, 1), (30, 0)):
        values = [round(value + place * 0.01, digits) for place, value in enumerate(drawn(draw, count))]
        tau = scipy_stats.kendalltau(range(count), values, method="asymptotic")
        assert mann_kendall_p(values) == pytest.approx(tau.pvalue, rel=0.25)
        assert mann_kendall_p(values) >= tau.pvalue
    assert mann_kendall_p([1.0] * 20) == mann_kendall_p([1.0, 2.0]) == 1.0


LIKE: dict[str, Callable[[random.Random], float]] = {
    "normal": lambda draw: draw.gauss(0, 1),
    "skewed": lambda draw: draw.expovariate(1),
    "of two levels": lambda draw: draw.choice((0.0, 1.0)) + draw.gauss(0, 0.01),
    "with bad days": lambda draw: draw.gauss(0, 1) + 5 * (draw.random() < 0.1),
}


@pytest.mark.parametrize("like", LIKE)
@pytest.mark.parametrize("count", [5, 30, 61, 1000])
def test_the_slope_has_the_moments_of_all_orders(scipy_stats: Any, count: int, like: str) -> None:
    """Pitman's: a beta distribution with scipy's k-statistics and incomplete beta function."""
    draw = random.Random(11)
    for slope in (0.0, 0.5 / count, 4.0 / count):
        values = [LIKE[like](draw) + place * slope for place in range(count)]
        places = [float(place) for place in range(count)]
        share = scipy_stats.pearsonr(places, values).statistic ** 2
        kurtoses = [scipy_stats.kstat(one, 4) / scipy_stats.kstat(one, 2) ** 2 for one in (places, values)]
        first = 1 / (count - 1)
        second = (
            3 / (count**2 - 1) * (1 + math.prod(kurtoses) * (count - 2) * (count - 3) / 3 / count / (count - 1) ** 2)
        )
        size = (first - second) / (second - first**2)
        expected = float(scipy_stats.beta.sf(share, first * size, (1 - first) * size))
        assert slope_p(values) == pytest.approx(expected, rel=1e-6, abs=1e-250)
        assert slope_p(values[::-1]) == pytest.approx(slope_p(values), rel=1e-9)


@pytest.mark.parametrize("like", LIKE)
def test_of_all_orders_as_many_are_as_steep_as_the_slope_says(like: str) -> None:
    """The share of orders of chance with a p-value as small, in as few days as it is used for."""
    draw = random.Random(12)
    values = [LIKE[like](draw) for _ in range(30)]
    ps = [slope_p(draw.sample(values, len(values))) for _ in range(20_000)]
    for level in (0.5, 0.1, 0.01, 0.002):
        expected = level * len(ps)
        assert sum(p <= level for p in ps) == pytest.approx(expected, abs=0.15 * expected + 3 * math.sqrt(expected))


def test_the_slope_of_normal_values_is_students(scipy_stats: Any) -> None:
    """Far out too; of a line it is nothing, and of a level one."""
    draw = random.Random(13)
    for slope in (0.0, 0.01, 0.03):
        values = [draw.gauss(0, 1) + place * slope for place in range(200)]
        assert slope_p(values) == pytest.approx(scipy_stats.linregress(range(200), values).pvalue, rel=0.1)
    assert slope_p(range(60)) < 1e-100
    assert slope_p([0.1] * 60) == 1.0
    with pytest.raises(ValueError, match="4 values are too few"):
        slope_p(range(4))


def test_what_counts_is_what_benjamini_and_hochberg_count(scipy_stats: Any) -> None:
    """As many p-values as scipy's adjusted ones that are at most the rate."""
    draw = random.Random(10)
    for count in (1, 5, 40):
        ps = [draw.random() ** 4 for _ in range(count)]
        adjusted = scipy_stats.false_discovery_control(ps)
        limit = benjamini_hochberg(ps, 0.05)
        assert sum(p <= limit for p in ps) == sum(adjusted <= 0.05)

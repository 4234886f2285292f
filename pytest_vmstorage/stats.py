"""Estimators and tests on plain floats.

The signed ranks of paired differences (Wilcoxon 1945; Hollander, Wolfe and Chicken, Nonparametric Statistical Methods,
3.1 to 3.3) are exact for any number of pairs: they assume that differences are independent and lie symmetrically about
the shift, as those of two runs with the same noise do, and nothing else about their distribution.
"""

from __future__ import annotations

import itertools
import math
import operator
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist
from typing import NamedTuple

_NORMAL = NormalDist()

MOST_PAIRS = 1000
"""The most pairs ever proposed: nobody would run more."""


class Interval(NamedTuple):
    """Bounds of an estimate, in the unit of what was estimated."""

    low: float
    high: float


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """The narrowest pair of values, equally far from either end, that encloses the median with that confidence.

    None where there are too few values: 0.95 takes 6. It assumes independent values and nothing about their
    distribution (the sign test's interval; David and Nagaraja, Order Statistics, 7.1).
    """
    left_out = _left_out_of_median(len(values), confidence)
    if left_out is None:
        return None
    ordered = sorted(values)
    return Interval(ordered[left_out], ordered[-1 - left_out])


@lru_cache(maxsize=256)
def _left_out_of_median(count: int, confidence: float) -> int | None:
    """The most values at either end of `count` that may lie outside of the sign test's interval; None for too few."""
    found, outside, patterns = None, 0, 1
    for left_out in range((count + 1) // 2):
        outside += patterns
        # whole numbers: a thousand values make larger ones than a float holds
        if 1.0 - 2 * outside / 2**count < confidence:
            break
        found = left_out
        patterns = patterns * (count - left_out) // (left_out + 1)
    return found


def signed_rank_p(differences: Sequence[float]) -> float:
    """The probability of signed ranks as high as these if the shift is 0: one-sided, for a shift above 0.

    Exact: all 2^n patterns of signs are counted, given the sizes. Equal sizes share their mean rank; differences of 0
    say nothing about the direction and are left out, as Wilcoxon did. 1.0 where none is left.
    """
    nonzero = [difference for difference in differences if difference]
    ordered = sorted(map(abs, nonzero))
    # twice the mean rank of equal sizes is a whole number
    doubled = {size: bisect_left(ordered, size) + bisect_right(ordered, size) + 1 for size in ordered}
    falling = sum(doubled[-difference] for difference in nonzero if difference < 0)
    at_most = _patterns_at_most(tuple(doubled[size] for size in ordered))
    return float(at_most[falling] / 2 ** len(nonzero))


def hodges_lehmann(differences: Sequence[float]) -> float:
    """The Hodges-Lehmann estimate of the shift: the median of the means of any two differences, each also with itself.

    Raises ValueError without any difference.
    """
    averages = _walsh_averages(tuple(differences))
    if not averages:
        raise ValueError("there is no shift without a difference")
    count = len(averages)
    return (averages[(count - 1) // 2] + averages[count // 2]) / 2


def upper_bound(differences: Sequence[float], risk: float) -> float:
    """The upper bound of the shift at that risk; infinite where there are too few differences.

    Exact without equal sizes: it is below x just where `signed_rank_p` of x less each difference is at most `risk`.
    With equal sizes the risk is smaller.
    """
    averages = _walsh_averages(tuple(differences))
    left_out = _averages_beyond(len(differences), risk)
    return averages[-left_out] if left_out else math.inf


def lower_bound(differences: Sequence[float], risk: float) -> float:
    """The lower bound of the shift at that risk; minus infinity where there are too few differences."""
    averages = _walsh_averages(tuple(differences))
    left_out = _averages_beyond(len(differences), risk)
    return averages[left_out - 1] if left_out else -math.inf


def shift_interval(differences: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Both bounds of the shift, with half of the risk each; None for too few differences: 0.95 takes 6."""
    risk = (1.0 - confidence) / 2
    found = Interval(lower_bound(differences, risk), upper_bound(differences, risk))
    return found if math.isfinite(found.high) else None


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """The p-values adjusted for their number (Holm 1979), in the order given.

    Rejecting those of at most alpha rejects a true hypothesis with a risk of at most alpha, however they depend on
    each other.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    stepped = accumulate(
        (min(1.0, (len(order) - place) * p_values[index]) for place, index in enumerate(order)), func=max
    )
    adjusted = dict(zip(order, stepped, strict=True))
    return tuple(adjusted[index] for index in range(len(order)))


def squared_deviations(values: Sequence[float]) -> float:
    """The sum of squared deviations from the mean, in the square of the values' unit; 0 for equal values.

    In floats: `statistics.variance` takes twenty times as long for sums that are exact fractions.
    """
    # from the first one: the mean of equal values may differ from them by a rounding
    shifted = [value - values[0] for value in values]
    mean = math.fsum(shifted) / len(shifted)
    return math.fsum([(value - mean) ** 2 for value in shifted])


def student_t_cdf(t: float, freedom: int) -> float:
    """The probability that Student's t with that many degrees of freedom, at least 1, is at most `t`.

    The finite series for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4).
    """
    angle = math.atan2(t, math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for step in range(1 + odd, freedom, 2):
        total += term
        term *= cosine * cosine * step / (step + 1)
    within = 2.0 / math.pi * (angle + sine * total) if odd else sine * total
    return 0.5 + within / 2


@lru_cache(maxsize=4096)
def student_t_quantile(probability: float, freedom: int) -> float:
    """The quantile of Student's t with that many degrees of freedom; the probability is between 0 and 1.

    By Newton's method: above 0 the distribution is concave, so that steps that begin at the normal quantile, which is
    smaller, only rise, until rounding ends them.
    """
    if probability < 0.5:
        return -student_t_quantile(1.0 - probability, freedom)
    half = (freedom + 1) / 2
    middle = math.exp(math.lgamma(half) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    found, further = -math.inf, _NORMAL.inv_cdf(probability)
    while further > found:
        found = further
        density = middle * (1.0 + found * found / freedom) ** -half
        further = found + (probability - student_t_cdf(found, freedom)) / density
    return found


def visible_shift(spread: float, count: int, risk: float = 0.05) -> float:
    """The smallest shift that `count` differences with that standard deviation show in four of five cases.

    Student's t test, two-sided at `risk`: (t.975 + t.80) s / sqrt(n) at 5 %. Raises ValueError for fewer than 2.
    """
    if count < 2:
        raise ValueError(f"{count} differences have no spread")
    quantiles = student_t_quantile(1.0 - risk / 2, count - 1) + student_t_quantile(0.80, count - 1)
    return quantiles * spread / math.sqrt(count)


def count_to_see(shift: float, spread: float, risk: float = 0.05) -> int | None:
    """The fewest differences with that standard deviation that show `shift`, above 0; None above `MOST_PAIRS`."""
    found = 2 + bisect_left(
        range(2, MOST_PAIRS + 1), True, key=lambda count: visible_shift(spread, count, risk) <= shift
    )
    return found if found <= MOST_PAIRS else None


def equivalence_p(differences: Sequence[float], margin: float) -> float:
    """The p-value of a shift that lies within `margin` on either side of 0, by two one-sided signed-rank tests.

    The larger of the two (Schuirmann 1987): at most a risk where the interval of 1 - 2 * risk lies within the margin.
    A shift at the margin, or beyond it, is taken for one within it with that risk at most. 1.0 without a difference.
    """
    above = signed_rank_p([difference + margin for difference in differences])
    return max(above, signed_rank_p([margin - difference for difference in differences]))


def count_to_equal(margin: float, spread: float, risk: float = 0.05) -> int | None:
    """The fewest differences of that spread that show a shift of 0 to lie within `margin` in four of five cases.

    Two one-sided t tests: (t.95 + t.90) s / sqrt(n) at 5 % (Julious 2004, 5.1). At least as many as the signed ranks
    need for that risk; None above `MOST_PAIRS`.
    """
    least = math.ceil(-math.log2(risk))

    def half_width(count: int) -> float:
        quantiles = student_t_quantile(1.0 - risk, count - 1) + student_t_quantile(0.90, count - 1)
        return quantiles * spread / math.sqrt(count)

    counts = range(least, MOST_PAIRS + 1)
    found = least + bisect_left(counts, True, key=lambda count: half_width(count) <= margin)
    return found if found <= MOST_PAIRS else None


def fewest_for_interval(confidence: float = 0.95) -> int:
    """The fewest differences that have a `shift_interval` of that confidence, which is below 1."""
    # the same rounding as in `shift_interval`: a confidence of exactly 1 - 2/2^n must be reached
    risk = (1.0 - confidence) / 2
    return next(count for count in range(1, MOST_PAIRS + 1) if risk * 2**count >= 1)


@lru_cache(maxsize=256)
def _patterns_at_most(doubled_ranks: tuple[int, ...]) -> tuple[int, ...]:
    """For each sum from 0, the number of subsets of these ranks that add up to at most that sum."""
    counts = [1] + [0] * sum(doubled_ranks)
    for rank in doubled_ranks:
        for total in range(len(counts) - 1, rank - 1, -1):
            counts[total] += counts[total - rank]
    return tuple(accumulate(counts))


@lru_cache(maxsize=8)
def _walsh_averages(differences: tuple[float, ...]) -> tuple[float, ...]:
    """The means of any two differences, each also with itself, in ascending order."""
    return tuple(sorted([(one + other) / 2 for place, one in enumerate(differences) for other in differences[place:]]))


@lru_cache(maxsize=256)
def _averages_beyond(count: int, risk: float) -> int:
    """The number of Walsh averages of `count` differences that may be cut off at one end for that risk."""
    at_most = _patterns_at_most(tuple(range(2, 2 * count + 2, 2)))
    return bisect_right(at_most[::2], risk * 2**count)


def benjamini_hochberg(p_values: Sequence[float], rate: float) -> float:
    """The largest p-value that counts when at most `rate` of what counts may be false (Benjamini and Hochberg 1995).

    Where nothing at all is true, anything counts with a risk of `rate` at most. -1.0 where none counts.
    """
    ordered = sorted(p_values)
    counted = (p for place, p in enumerate(ordered, 1) if p <= rate * place / len(ordered))
    return max(counted, default=-1.0)


def mann_kendall_p(values: Sequence[float]) -> float:
    """The two-sided probability of values in an order that rises or falls as much as this (Mann 1945, Kendall 1975).

    All orders are counted where no values are equal and they are at most `MOST_FOR_ALL_ORDERS`; else it is the normal
    approximation with correction for continuity and for equal values, which is too large in the far tail. 1.0 for fewer
    than 3.
    """
    count = len(values)
    ordered: list[float] = []
    score = 0
    for place, value in enumerate(values):
        low = bisect_left(ordered, value)
        is_new = low == place or ordered[low] != value
        high = low if is_new else bisect_right(ordered, value, low)
        score += low - (place - high)
        ordered.insert(high, value)
    equal = math.fsum(map(_pairs_of, Counter(values).values()))
    if not equal and 3 <= count <= MOST_FOR_ALL_ORDERS:
        turned = (count * (count - 1) // 2 - abs(score)) // 2
        return min(1.0, 2 * sum(_shares_of_orders(count)[: turned + 1]))
    variance = (_pairs_of(count) - equal) / 18
    if variance <= 0:
        return 1.0
    return math.erfc(max(0, abs(score) - 1) / math.sqrt(2 * variance))


MOST_FOR_ALL_ORDERS = 120
"""With more values Mann and Kendall's test is the normal approximation, which is near enough there."""

_ORDERS = [array("d", [1.0])]
"""What `_shares_of_orders` returned for 1, 2, ... values: each is made from the one before."""


def _shares_of_orders(count: int) -> Sequence[float]:
    """The shares of all orders of `count` values that have 0, 1, ... pairs turned round, up to half of all pairs.

    Each further value turns from none to all of those before it, all as likely (Kendall 1938).
    """
    while len(_ORDERS) < count:
        last, size = _ORDERS[-1], len(_ORDERS) + 1
        # the other half is the same, backwards
        full = [*last, *reversed(last[: (size - 1) * (size - 2) // 2 + 1 - len(last)])]
        shares, window = array("d"), 0.0
        for place in range(size * (size - 1) // 4 + 1):
            window += full[place] if place < len(full) else 0.0
            window -= full[place - size] if place >= size else 0.0
            shares.append(window / size)
        _ORDERS.append(shares)
    return _ORDERS[count - 1]


def _pairs_of(count: int) -> float:
    return count * (count - 1) * (2 * count + 5)


def slope_p(values: Sequence[float]) -> float:
    """The two-sided probability of values in an order whose slope is as steep as that of these; 1.0 if all are equal.

    Pitman's permutation test of a correlation, here with the places (Suppl. J. R. Stat. Soc. 4, 1937): over all orders
    the squared correlation has a known mean and variance, and its distribution is taken for the beta distribution that
    has these. For normal values that is Student's test of a slope. It needs 30 values or more, not most of them equal:
    there p-values down to 1e-4 come about as often as they say, but for values that alternate between two levels about
    1.5 times as often (simulated). Raises ValueError for fewer than 5.
    """
    count = len(values)
    if count < 5:
        raise ValueError(f"{count} values are too few to test their slope")
    mean, middle = math.fsum(values) / count, (count - 1) / 2
    centered = [value - mean for value in values]
    squares = math.fsum([value * value for value in centered])
    if squares <= 1e-24 * count * mean * mean:
        return 1.0
    along = math.fsum([(place - middle) * value for place, value in enumerate(centered)])
    share = along * along / squares / (count * (count * count - 1) / 12)
    # over all orders: the mean of the squared correlation, and of its square
    first = 1 / (count - 1)
    kurtoses = _KURTOSIS_OF_PLACES * _kurtosis(centered, squares)
    second = 3 / (count**2 - 1) * (1 + (count - 2) * (count - 3) / (3 * count * (count - 1) ** 2) * kurtoses)
    size = (first - second) / (second - first * first)
    return _beta_tail(share, first * size, (1 - first) * size)


_KURTOSIS_OF_PLACES = -1.2
"""That of 0, 1, ..., however many."""


def _kurtosis(centered: Sequence[float], squares: float) -> float:
    """The excess kurtosis of values whose mean is 0 and the sum of whose squares is given: Fisher's k4 / k2 squared."""
    count = len(centered)
    fourths = math.fsum([value**4 for value in centered]) / squares**2
    ratio = count * (count + 1) * (count - 1) * fourths - 3 * (count - 1) ** 2
    return ratio / ((count - 2) * (count - 3))


def _beta_tail(x: float, a: float, b: float) -> float:
    """The probability that a beta variable is above `x`, which is at least 0."""
    if x >= 1:
        return 0.0
    # the continued fraction converges fast on one side of the mean
    return _beta_part(1 - x, b, a) if x > (a + 1) / (a + b + 2) else 1.0 - _beta_part(x, a, b)


def _beta_part(x: float, a: float, b: float) -> float:
    """The probability that a beta variable is at most `x`, which is below 1: DLMF 8.17.22, by Lentz's method."""
    if not x:
        return 0.0
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    found = d
    for step in range(1, _MOST_TERMS):
        for part in (
            step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step)),
            -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1)),
        ):
            d, c = 1 / _not_zero(1 + part * d), _not_zero(1 + part / c)
            found *= c * d
        if abs(c * d - 1) < 1e-13:
            break
    return math.exp(log) * found / a


_MOST_TERMS = 500
_TINY = 1e-300


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


MOST_FOR_ALL_SLOPES = 200
"""Of more points the slope is that of points half the series apart (Theil's incomplete method)."""


def theil_sen(times: Sequence[float], values: Sequence[float]) -> float:
    """The median of the slopes between any two points (Theil 1950, Sen 1968); times rise strictly.

    Raises ValueError for fewer than two points.
    """
    count = len(times)
    half = count // 2
    pairs = (
        itertools.combinations(range(count), 2)
        if count <= MOST_FOR_ALL_SLOPES
        else ((one, one + half) for one in range(count - half))
    )
    slopes = sorted((values[other] - values[one]) / (times[other] - times[one]) for one, other in pairs)
    if not slopes:
        raise ValueError("there is no slope without two points")
    return (slopes[(len(slopes) - 1) // 2] + slopes[len(slopes) // 2]) / 2


def drawn_sum_p(values: Sequence[float], drawn: Sequence[float]) -> float:
    """The probability that as many of `values`, drawn without replacement, have the sum of `drawn` or a larger one.

    It is the one-sided permutation test of two groups by their means (Fisher 1935, Pitman 1937), which assumes nothing
    but that the order is one of chance. All draws are counted where there are few; else it is their double saddlepoint
    approximation (Skovgaard 1987; Robinson 1982), whose error is relative: it holds in the far tail too.
    """
    count, size = len(values), len(drawn)
    total = math.fsum(drawn)
    draws = math.comb(count, size)
    if draws <= _FEW_DRAWS:
        limit = total - 1e-9 * (abs(total) + 1e-300)
        return sum(math.fsum(one) >= limit for one in itertools.combinations(values, size)) / draws
    mean = math.fsum(values) / count
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / count)
    if not spread:
        return 1.0
    scores = [(value - mean) / spread for value in values]
    found = _saddlepoint(scores, size, (total - size * mean) / spread)
    # there is no smaller probability than that of the draws that have the largest sum
    ordered = sorted(values, reverse=True)
    least = ordered[size - 1]
    equal, above = ordered.count(least), size - sum(value > least for value in ordered[:size])
    return min(1.0, max(found, math.comb(equal, above) / draws))


_FEW_DRAWS = 2000


def _saddlepoint(scores: Sequence[float], size: int, total: float) -> float:
    """The tail of the sum of `size` of these scores, whose mean is 0 and whose variance 1; 0.0 beyond the largest."""
    count = len(scores)
    if size * 2 > count:
        # those left out have the opposite sum
        return _saddlepoint([-score for score in scores], count - size, total)
    center = total / math.sqrt(size * (count - size) / (count - 1))
    if center < 0.5:
        return math.erfc(center / math.sqrt(2)) / 2
    if total >= math.fsum(sorted(scores)[count - size :]) - 1e-9:
        return 0.0
    odds, tilt = math.log(size / (count - size)), 0.0
    start = odds
    # Newton's steps on the two saddlepoint equations: so many are drawn, with that sum
    for _ in range(60):
        parts = [1 / (1 + math.exp(-(odds + tilt * score))) for score in scores]
        weights = [part * (1 - part) for part in parts]
        weighted = list(map(operator.mul, weights, scores))
        # a plain sum will do for a step: the next one mends what it lost
        off_size, off_sum = sum(parts) - size, sum(map(operator.mul, parts, scores)) - total
        one, cross, two = sum(weights), sum(weighted), sum(map(operator.mul, weighted, scores))
        determinant = one * two - cross * cross
        if determinant <= 1e-12:
            return 0.0
        step_odds = (two * off_size - cross * off_sum) / determinant
        step_tilt = (one * off_sum - cross * off_size) / determinant
        most = max(abs(step_odds), abs(step_tilt), 1.0)
        odds, tilt = odds - step_odds / most, tilt - step_tilt / most
        if abs(tilt) > 50 or abs(odds) > 500:
            return 0.0
        if max(abs(step_odds), abs(step_tilt)) < 1e-7:
            break
    cumulant = math.fsum(math.log1p(math.exp(odds + tilt * score)) for score in scores)
    at_start = count * math.log1p(math.exp(start))
    inside = 2 * ((odds - start) * size + tilt * total - cumulant + at_start)
    w = math.sqrt(max(inside, 1e-12))
    u = tilt * math.sqrt(determinant / (size * (count - size) / count))
    density = math.exp(-w * w / 2) / math.sqrt(2 * math.pi)
    return math.erfc(w / math.sqrt(2)) / 2 + density * (1 / u - 1 / w)

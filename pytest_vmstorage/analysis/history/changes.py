"""The changes in a series of days: steps from one level to another, and creep; pure.

A series is a value for each day, in log(seconds per operation). A step is found where the days before and after it
differ by more than their order would make them by chance: the split with the largest difference of means, with the
permutation test of that split, and an allowance for having looked at all splits (Siegmund 1988). Its place is known as
well as the two levels tell days apart: each split has a likelihood, and the span of a step holds 95 % of it. Creep is a
slope (Theil and Sen) whose test is that of Mann and Kendall in a short series, and Pitman's in others. Of both the one
that describes the days better is told, by Schwarz's criterion (BIC).

Days far from all others, and from those around them, count no more than `FAR` standard deviations: a bad day or two
are no level.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import Any, Literal, NamedTuple

from pytest_vmstorage.stats import benjamini_hochberg, drawn_sum_p, mann_kendall_p, slope_p, theil_sen

LEAST_LEVEL = 3
"""The fewest days of a level: a day or two may be bad ones."""

LEAST_DAYS = 10
"""Fewer days show no change, however large: their order might be one of chance."""

RISK = 0.04
"""The risk that a history without any change has a finding. 0.05 is promised; a part is kept back, as in the gate."""

WINDOW = 120
"""Longer series are also looked at in windows of so many days, since a change of some weeks is lost among years."""

LEVEL_WINDOW = 2 * LEAST_LEVEL - 1
"""Days around a day, itself among them, of which a level of the fewest days is the majority."""

FAR = 2.25
"""In robust standard deviations: further out bad days hide a step, nearer some in a row look like one (simulated)."""

_STEP_PART, _CREEP_PART = 0.64, 0.36
"""The parts of a series' risk that both kinds of change have."""

_MANN_KENDALL_DAYS = 30
"""In fewer days creep is tested by all orders of ranks: in so few Pitman's test is not exact.

In more it is, and finds more: of creep of 10 % over 60 days that differ by 4.4 % it finds 78 %, where that of Mann
and Kendall finds 75 % with the same part of the risk (simulated).
"""

NEWEST_DAYS = 12
"""A step of so many days at most is a new one: what one asks for each night, and has the fewest days to show itself."""

_NEWEST_PART = 0.5625
"""The part of the risk of steps that the new ones have, where the series ends with the newest day."""

_NORMAL = statistics.NormalDist()


@dataclass(frozen=True)
class Change:
    """A change in the days `begin` to `end` (exclusive) of a series: at `at`, the first day of the new level, or creep.

    `places` are the relative log likelihoods of the first days of the new level, of the likeliest 0.0, by day; `gain`
    is by how much this kind describes the days better than the other one (BIC; above 0).
    """

    kind: Literal["step", "creep"]
    begin: int
    end: int
    at: int
    p: float
    shift: float
    gain: float
    places: Sequence[tuple[int, float]] = ()


def find_changes(many: Sequence[Sequence[float]], times: Sequence[Sequence[float]]) -> list[list[Change]]:
    """The changes in each of these series, whose days are at `times`, in their order.

    Any is found in unchanged series with a risk of `RISK` at most (Benjamini and Hochberg over all series). The levels
    on both sides of a step are looked at again, all together and with half the risk, and so on; a change found there
    has a p-value for as many series as there are and all of the risk, as the others have.
    """
    found: list[list[Change]] = [[] for _ in many]
    open_parts = [(number, 0, len(values)) for number, values in enumerate(many)]
    share = 1.0
    while open_parts:
        looks = [(number, look) for number, begin, end in open_parts for look in _looks(many[number], begin, end)]
        # where few parts are looked at again, they are some of all series, and no fewer chances of a false change
        others = [1.0] * (len(many) - len(looks))
        limit = benjamini_hochberg([*(look.p for _, look in looks), *others], RISK * share)
        weight = max(1.0, len(looks) / len(many)) / share
        open_parts = []
        for number, look in looks:
            if look.p > limit:
                continue
            change = look.change(times[number], many[number])
            change = replace(change, p=min(1.0, change.p * weight))
            found[number].append(change)
            if change.kind == "step":
                sides = ((look.outer[0], change.at), (change.at, look.outer[1]))
                open_parts += [(number, *side) for side in sides if side[1] - side[0] >= LEAST_DAYS]
        share /= 2
    ordered = [sorted(changes, key=lambda one: one.at) for changes in found]
    return [_placed(changes, values) for changes, values in zip(ordered, many, strict=True)]


def _placed(changes: Sequence[Change], values: Sequence[float]) -> list[Change]:
    """The changes, with the likely days of each step: between its neighbours, which were not known when it was found.

    A step that is none there was a place between two others, and goes.
    """
    kept = list(changes)
    while True:
        steps = [one.at for one in kept if one.kind == "step"]
        placed = [_between(one, values, steps) if one.kind == "step" else (one, 0.0) for one in kept]
        worst = max((doubt for _, doubt in placed), default=0.0)
        if len(placed) < 2 or worst <= RISK / 2:
            return [one for one, _ in placed]
        del kept[[doubt for _, doubt in placed].index(worst)]


def _between(one: Change, values: Sequence[float], steps: Sequence[int]) -> tuple[Change, float]:
    """The step as it is between its neighbours among these steps, and the p-value that it has there.

    It is no surer than that: among more days a step is sure for the sake of others, too. In the very days in which it
    was found it stays as sure as it was, which may be by their slope.
    """
    begin = max([0, one.begin - WINDOW, *(at for at in steps if at < one.at)])
    end = min([len(values), one.end + WINDOW, *(at for at in steps if at > one.at)])
    inside = bounded(values[begin:end])
    if len(inside) < 2 * LEAST_LEVEL:
        return one, 1.0
    places = [(begin + place, like) for place, like in likely_places(inside)]
    found = _best_place(values[begin:end], begin, places)
    doubt = best_split(inside, is_newest=end == len(values))[1]
    as_found = (begin, end) == (one.begin, one.end)
    p = one.p if as_found else max(one.p, min(1.0, doubt / _STEP_PART))
    return replace(one, begin=begin, end=end, places=places, p=p, **found), doubt


def _best_place(values: Sequence[float], begin: int, places: Sequence[tuple[int, float]]) -> dict[str, Any]:
    at = max(places, key=lambda one: one[1])[0]
    return {"at": at, "shift": statistics.median(values[at - begin :]) - statistics.median(values[: at - begin])}


def _looks(values: Sequence[float], begin: int, end: int) -> Iterator[_Look]:
    """The best look at a part of a series: at all of it, or at a window of it where it is long; none at too few."""
    if end - begin < LEAST_DAYS:
        return
    best = _Look.at_part(values, (begin, end), (begin, end))
    if end - begin > WINDOW * 3 // 2:
        starts = range(begin, end - WINDOW, WINDOW // 2)
        windows = [(start, start + WINDOW) for start in starts] + [(end - WINDOW, end)]
        if best.p > _PLAIN:
            best = min((best, *(_Look.at_part(values, one, (begin, end)) for one in windows)), key=lambda look: look.p)
        best = best._replace(p=min(1.0, best.p * (1 + len(windows))))
    yield best


_PLAIN = 1e-8
"""A long series with so sure a change needs no windows for now: its parts are looked at again."""


class _Look(NamedTuple):
    """A part of a series, bounded, with the best step in it, and how sure a step, a creep and either are."""

    values: Sequence[float]
    begin: int
    outer: tuple[int, int]
    at: int
    step_p: float
    creep_p: float
    p: float

    @classmethod
    def at_part(cls, whole: Sequence[float], window: tuple[int, int], outer: tuple[int, int]) -> _Look:
        """The look at that window of a series, which is in the part `outer`."""
        plain = whole[window[0] : window[1]]
        values = bounded(plain)
        at, step_p = best_split(values, is_newest=window[1] == len(whole))
        # of a change that is sure either way only the better description is asked for
        creep_p = step_p if step_p < _PLAIN else _creep_p(plain, values)
        p = min(1.0, step_p / _STEP_PART, creep_p / _CREEP_PART)
        return cls(values, window[0], outer, at, step_p, creep_p, p)

    def change(self, times: Sequence[float], whole: Sequence[float]) -> Change:
        """The step or the creep in it, whichever describes it better; a size is that of the days as they are."""
        values, count = self.values, len(self.values)
        plain = whole[self.begin : self.begin + count]
        own = [times[self.begin + place] for place in range(count)]
        step = fit_of_step(values)
        line = fit_of_line(own, values)
        is_step = step < line if max(self.step_p, self.creep_p) < 0.01 else self.step_p <= self.creep_p
        gain = abs(step - line)
        if not is_step:
            shift = theil_sen(own, plain) * (own[-1] - own[0])
            return Change("creep", self.begin, self.begin + count, self.begin, self.p, shift, gain)
        at = self.begin + self.at
        shift = statistics.median(plain[self.at :]) - statistics.median(plain[: self.at])
        return Change("step", self.begin, self.begin + count, at, self.p, shift, gain)


def _creep_p(plain: Sequence[float], inside: Sequence[float]) -> float:
    """How likely days in an order of chance rise or fall so much; `inside` are the bounded ones."""
    return mann_kendall_p(plain) if len(plain) < _MANN_KENDALL_DAYS else slope_p(inside)


def bounded(values: Sequence[float]) -> list[float]:
    """The values, with those further than `FAR` standard deviations from the median at that distance.

    The standard deviation is the robust one of all values (1.48 times the median distance from the median), so that a
    level of many days is no outlier; nothing is bounded where half of the values are the same. A level of few days is
    none either: where the median of the `LEVEL_WINDOW` around a day is further out than that of all, the day's bound
    lies `FAR` standard deviations beyond the former.
    """
    middle = statistics.median(values)
    far = FAR * 1.4826 * statistics.median([abs(value - middle) for value in values])
    low, high = middle - far, middle + far
    if not far or (low <= min(values) and max(values) <= high):
        return list(values)
    kept = list(values)
    for place, value in enumerate(values):
        if not low <= value <= high:
            begin = max(0, min(place - LEVEL_WINDOW // 2, len(values) - LEVEL_WINDOW))
            around = statistics.median_low(values[begin : begin + LEVEL_WINDOW])
            kept[place] = max(value, min(low, around - far)) if value < low else min(value, max(high, around + far))
    return kept


def _sums(values: Sequence[float]) -> tuple[list[float], float]:
    """The running sums of the values less their mean, and the sum of their squares."""
    mean = math.fsum(values) / len(values)
    centered = [value - mean for value in values]
    return list(accumulate(centered)), sum([value * value for value in centered])


def best_split(values: Sequence[float], is_newest: bool = False) -> tuple[int, float]:
    """The first day of the second of two levels that differ most, and its p-value: 1.0 if all days are equal.

    Where the values end with the newest day of their series, the new steps (`NEWEST_DAYS`, a quarter of the days at
    most) have a part of the risk for themselves: a weighted Bonferroni correction (Genovese, Roeder and Wasserman,
    Biometrika 93, 2006).
    """
    count = len(values)
    sums, squares = _sums(values)
    if squares <= 1e-18 * count:
        return LEAST_LEVEL, 1.0
    first_new = max(LEAST_LEVEL, count - min(NEWEST_DAYS, count // 4)) if is_newest else count
    old = range(LEAST_LEVEL, min(first_new, count - LEAST_LEVEL + 1))
    new = range(first_new, count - LEAST_LEVEL + 1)
    if not new:
        return _best_of(values, sums, squares, old)
    (old_at, old_p), (new_at, new_p) = (_best_of(values, sums, squares, places) for places in (old, new))
    old_p, new_p = min(1.0, old_p / (1 - _NEWEST_PART)), min(1.0, new_p / _NEWEST_PART)
    return (new_at, new_p) if new_p < old_p else (old_at, old_p)


def _best_of(values: Sequence[float], sums: Sequence[float], squares: float, places: range) -> tuple[int, float]:
    """The best of these splits, and its p-value among them."""
    count = len(values)
    # the standardized difference of both means, squared
    gains = [sums[at - 1] ** 2 / (at * (count - at)) for at in places]
    best = max(gains)
    at = places[gains.index(best)]
    z = math.sqrt(best * count * (count - 1) / squares)
    one = math.erfc(z / math.sqrt(2)) / 2
    if (z > _SURE_OF_NORMAL or count < _SHORT) and min(at, count - at) < _MANY:
        group = values[at:] if count - at <= at else values[:at]
        upward = (sums[at - 1] < 0) == (count - at <= at)
        one = drawn_sum_p(values, group) if upward else drawn_sum_p([-v for v in values], [-v for v in group])
    return at, min(1.0, 2 * one * splits_looked_at(count, one, places))


_SURE_OF_NORMAL = 2.5
"""Below so many standard errors the normal distribution will do in all but short series, and for long levels always."""

_SHORT, _MANY = 20, 40


def splits_looked_at(count: int, p: float, places: range | None = None) -> float:
    """The number of independent splits to which these splits of so many days amount, for a one-sided p-value of one.

    Siegmund's approximation of the probability that the largest of all standardized differences exceeds a bound
    (Biometrika 75, 1988, with the correction for discrete time). Splits whose levels have too few days for so small a
    p-value in any order do not count (Tarone, Biometrics 46, 1990). `places` are all splits where it is None.
    """
    bound = round(-_NORMAL.inv_cdf(min(max(p, 1e-300), 0.4)), 1)
    least = LEAST_LEVEL
    while least < min(_MANY, count // 2) and math.comb(count, least) * p < 1 - 1e-9:
        least += 1
    places = range(LEAST_LEVEL, count - LEAST_LEVEL + 1) if places is None else places
    return _splits(count, bound, max(places.start, least), min(places.stop, count - least + 1))


_FAR_OUT = 20.0


@lru_cache(maxsize=65536)
def _splits(count: int, bound: float, first: int, stop: int) -> float:
    total = 0.0
    for at in range(first, stop):
        share = at * (count - at) / count
        total += _overshoot(bound / math.sqrt(share)) / share
    # the ratio of density to tail is near the bound where that is far
    mills = _NORMAL.pdf(bound) * 2 / math.erfc(bound / math.sqrt(2)) if bound < _FAR_OUT else bound
    return min(max(1.0, stop - first), max(1.0, bound * mills * total / 2))


def _overshoot(x: float) -> float:
    """Siegmund and Yakir's nu(x)."""
    if x < 1e-6:
        return 1.0
    half = x / 2
    below = _NORMAL.cdf(half)
    return (2 / x) * (below - 0.5) / (half * below + _NORMAL.pdf(half))


def likely_places(values: Sequence[float]) -> list[tuple[int, float]]:
    """The log likelihood of each first day of a second level, the likeliest being 0.0; both levels integrated out."""
    count = len(values)
    sums, squares = _sums(values)
    least, power = 1e-12 * squares + 1e-300, (count - 2) / 2
    shares = [at * (count - at) for at in range(LEAST_LEVEL, count - LEAST_LEVEL + 1)]
    inside = sums[LEAST_LEVEL - 1 : count - LEAST_LEVEL]
    logs = [
        -0.5 * math.log(share) - power * math.log(squares - one * one * count / share + least)
        for one, share in zip(inside, shares, strict=True)
    ]
    best = max(logs)
    return [(place, log - best) for place, log in enumerate(logs, LEAST_LEVEL) if log - best > _NEVER]


_NEVER = -30.0


def _bic(rest: float, count: int, parameters: float) -> float:
    return count * math.log(max(rest, 1e-300) / count) + parameters * math.log(count)


def fit_of_step(values: Sequence[float]) -> float:
    """Schwarz's criterion of two levels, or of three where those are better; lower is better."""
    count = len(values)
    sums, squares = _sums(values)
    gains = [one * one * count / (at * (count - at)) for at, one in enumerate(sums[:-1], 1)]
    at = 1 + gains.index(max(gains))
    floor = 1e-12 * squares
    one = _bic(max(squares - gains[at - 1], floor), count, 3)
    rests = []
    for part, other in ((values[:at], values[at:]), (values[at:], values[:at])):
        if len(part) > 1:
            own, all_of_it = _sums(part)
            size = len(part)
            inside = max([one * one * size / (cut * (size - cut)) for cut, one in enumerate(own[:-1], 1)])
            rests.append(all_of_it - inside + _sums(other)[1])
    return min([one, *(_bic(max(rest, floor), count, 5) for rest in rests)])


def fit_of_levels(values: Sequence[float], cuts: Sequence[int]) -> float:
    """Schwarz's criterion of the levels between known places; lower is better."""
    bounds = [0, *cuts, len(values)]
    parts = [values[begin:end] for begin, end in itertools.pairwise(bounds)]
    rest = math.fsum(_sums(part)[1] for part in parts)
    return _bic(max(rest, 1e-12 * _sums(values)[1]), len(values), len(parts))


def fit_of_line(times: Sequence[float], values: Sequence[float]) -> float:
    """Schwarz's criterion of a straight line by least squares; lower is better."""
    count = len(values)
    middle, mean = math.fsum(times) / count, math.fsum(values) / count
    across = math.fsum((time - middle) ** 2 for time in times)
    along = math.fsum((time - middle) * (value - mean) for time, value in zip(times, values, strict=True))
    squares = math.fsum((value - mean) ** 2 for value in values)
    return _bic(max(squares - along * along / across, 1e-12 * squares), count, 2)

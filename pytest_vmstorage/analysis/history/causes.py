"""Changes of many series as one finding for each cause: the same days and direction, the cells that share it; pure.

Changes are put together that go the same way and whose likely days agree. Then every judged series is asked how much
likelier its days are with such a change than without (a Bayes factor; a change of unknown size, of the kind that the
sure ones have), and of all values of axes, pairs of them, and lists of cells the one is chosen that explains this best:
a list costs as much evidence as it takes to name it among all lists of its length. So cells that are too noisy to be
sure by themselves go with those that share their value, and a cell that changed by chance does not hide what all the
others share.

A cause must be sure by itself among all judged series (Simes over its changes): Benjamini and Hochberg's rule alone
would let a false change pass with every 25 true ones.
"""

from __future__ import annotations

import itertools
import math
import statistics
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pytest_vmstorage.analysis.history.changes import (
    LEAST_LEVEL,
    RISK,
    Change,
    bounded,
    find_changes,
    fit_of_levels,
    fit_of_line,
)
from pytest_vmstorage.analysis.shared_values import Compared, find_shared, meets
from pytest_vmstorage.stats import squared_deviations

_NEAR = -6.0
"""A day with a log likelihood so far below the likeliest may still be the day of a step."""

_LEAST_LIKELY = -12.0
_HARDLY = -11.0
"""With less a day is not the day of a step; among many steps noise moves one so far."""

_LOOKED_AT = 30
"""So many series show how far days agree."""

_ASKED = 5
"""The days of so many of the surest changes are all days on which their cause can have come."""

_SURE = 30.0
_LOOKED_BACK = 60
_SIDE = 0.975
_CLEARLY_NOT = -4.0
_STAYED_SHARE = 0.5
_STAYED_ERRORS = 3.0
"""A series stayed where it was if its change and so many standard errors are below that share of the usual change."""

_STAYED = (0.0, 0.0)
"""The shift on a day, and its standard error, of a series whose own step is clearly on another day."""

_CLEARLY_STEP = 10.0
_NORMAL = statistics.NormalDist()


class Judged(NamedTuple):
    """A series to judge: days as ordinals, a value for each in log(seconds per operation), its values of the axes."""

    times: Sequence[int]
    values: Sequence[float]
    axes: Mapping[str, str]


@dataclass(frozen=True)
class Cause:
    """A change that some series share, which are its `members`, by number; `sure` are those sure by themselves.

    A step came after the day `after` and on the day `on` at the latest, with 95 %; creep went from `after` to `on`.
    `at` is the likeliest first day of the new level. `shifts` are the sizes of the members' changes in the order of
    `members`. `shared` are the values that all members share and no other series has, () where there are none;
    `compared` is every series that has days around it, `met` those of them that have the shared values.
    """

    kind: Literal["step", "creep"]
    after: int
    on: int
    at: int
    members: tuple[int, ...]
    sure: tuple[int, ...]
    shifts: tuple[float, ...]
    shared: tuple[tuple[str, str], ...]
    met: tuple[int, ...]
    compared: tuple[int, ...]
    p: float

    @property
    def shift(self) -> float:
        """The median of the members' changes."""
        return statistics.median(self.shifts)


def find_causes(many: Sequence[Judged]) -> list[Cause]:
    """The causes of changes in these series, by day; any is found without a change with a risk of `RISK` at most."""
    found = find_changes([one.values for one in many], [one.times for one in many])
    pool = [_Told(number, change, many[number]) for number, changes in enumerate(found) for change in changes]
    causes = _Causes(many, pool).found()
    stairs = [one for one in pool if _is_of_steps(one, causes)]
    if stairs:
        causes = _Causes(many, [one for one in pool if one not in stairs]).found()
    return sorted(causes, key=lambda one: (one.at, one.members))


def _is_of_steps(told: _Told, causes: Sequence[Cause]) -> bool:
    """Whether a creep is rather the steps of causes that have its series: two steps one way look like a line."""
    if told.change.kind != "creep":
        return False
    begin, end = told.change.begin, told.change.end
    times, values = told.judged.times[begin:end], bounded(told.judged.values[begin:end])
    steps = (one for one in causes if one.kind == "step" and told.number in one.members)
    cuts = sorted({bisect_left(times, one.at) for one in steps if times[0] < one.at <= times[-1]})
    return bool(cuts) and fit_of_levels(values, cuts) < fit_of_line(times, values)


class _Told(NamedTuple):
    """A change with its series."""

    number: int
    change: Change
    judged: Judged

    @property
    def way(self) -> bool:
        return self.change.shift > 0

    @property
    def day(self) -> int:
        """The likeliest first day of the new level, or the first day of creep."""
        return self.judged.times[self.change.at]

    @property
    def days(self) -> tuple[int, int]:
        """The days of the part in which it was found."""
        return self.judged.times[self.change.begin], self.judged.times[self.change.end - 1]

    @property
    def likely_days(self) -> list[int]:
        """The days on which the step may have come."""
        return [self.judged.times[at] for at, like in self.change.places if like > _LEAST_LIKELY]

    def likelihood(self, day: int) -> float:
        """The log likelihood of a step on that day, relative to the likeliest one."""
        place = bisect_left(self.judged.times, day)
        return max(_LEAST_LIKELY, next((like for at, like in self.change.places if at == place), _LEAST_LIKELY))

    def may_be_on(self, day: int, least: float = _NEAR) -> bool:
        """Whether the step may have come on that day; a bad day beside it moves it by one."""
        distance = abs(bisect_left(self.judged.times, day) - self.change.at)
        return distance <= 1 or self.likelihood(day) >= least

    def is_beside(self, day: int) -> bool:
        """Whether the step is so near to that day that its levels are those before and after the day."""
        return abs(bisect_left(self.judged.times, day) - self.change.at) <= LEAST_LEVEL


class _Causes:
    """The changes that no cause has yet."""

    def __init__(self, many: Sequence[Judged], pool: Iterable[_Told]) -> None:
        self._many = many
        self._pool = sorted(pool, key=lambda one: one.change.p)
        self._steps = [one for one in self._pool if one.change.kind == "step"]
        self._cuts: dict[int, list[int]] = {}
        self._clear_cuts: dict[int, list[int]] = {}
        for one in self._steps:
            self._cuts.setdefault(one.number, []).append(one.change.at)
            if one.change.gain >= _CLEARLY_STEP:
                self._clear_cuts.setdefault(one.number, []).append(one.change.at)

    def found(self) -> list[Cause]:
        """All causes, the surest first."""
        causes = []
        while self._pool:
            cause = self._next(self._pool[0])
            if cause.p <= RISK:
                causes.append(cause)
        return causes

    def _next(self, seed: _Told) -> Cause:
        """The cause of that change; its changes leave the pool."""
        alike = [one for one in self._pool if one.way == seed.way]
        if seed.change.kind == "creep":
            related = [one for one in alike if _overlap(seed, one)]
        else:
            related = [one for one in alike if _goes_with_step(seed.day, one)]
        gains = {kind: sum(one.change.gain for one in related if one.change.kind == kind) for kind in ("step", "creep")}
        kind: Literal["step", "creep"] = seed.change.kind
        if len(related) > 1 and gains["step"] != gains["creep"]:
            kind = "step" if gains["step"] > gains["creep"] else "creep"
        first = next((one for one in related if one.change.kind == kind), seed)
        return self._step(first, alike) if kind == "step" else self._creep(first, alike)

    def _step(self, seed: _Told, alike: Sequence[_Told]) -> Cause:
        steps = [one for one in alike if one.change.kind == "step"]
        day = seed.day
        group = [seed]
        for _ in range(3):
            group = [one for one in steps if one is seed or one.may_be_on(day)]
            days = seed.likely_days
            likely = {day: sum(one.likelihood(day) for one in group) for day in days}
            best = max(likely, key=likely.__getitem__)
            # the surest of many steps may be one that noise moved far
            if best == day or not seed.may_be_on(best, _HARDLY):
                break
            day = best

        def is_near(other: _Told) -> bool:
            return _goes_with_step(day, other, _HARDLY)

        weights = {number: self._around(number, day, group) for number in range(len(self._many))}
        same_way = [one for one in self._steps if one.way == seed.way]
        near = {one.number for one in same_way if is_near(one)}
        for one in same_way:
            if one.number not in near and weights[one.number] is not None and one.is_beside(day):
                weights[one.number] = _STAYED

        def days_of(own: Sequence[_Told]) -> tuple[int, int, int]:
            return *_span([one for one in own if one.may_be_on(day)] or [seed], day), day

        return self._cause(seed, group, [one for one in alike if is_near(one)], weights, days_of)

    def _creep(self, seed: _Told, alike: Sequence[_Told]) -> Cause:
        first, last = seed.days
        near = [one for one in alike if _overlap(seed, one)]
        group = [one for one in near if one.change.kind == "creep"]
        weights = {number: self._along(number, first, last) for number in range(len(self._many))}
        return self._cause(seed, group, near, weights, lambda _: (first, last, first))

    def _cause(
        self,
        seed: _Told,
        group: Sequence[_Told],
        near: Sequence[_Told],
        weights: Mapping[int, tuple[float, float] | None],
        days_of: Callable[[Sequence[_Told]], tuple[int, int, int]],
    ) -> Cause:
        """The cause of a seed's kind over the series whose `weights` say so; its changes, of those `near`, are gone."""
        kind = seed.change.kind
        members, shared, met = self._who(weights, group)
        chosen = set(members)
        taken = [
            one for one in near if one.number in chosen and (one.change.kind == kind or one.change.gain < _CLEARLY_STEP)
        ]
        own = {one.number: one for one in taken if one.change.kind == kind}
        shifts = [own[n].change.shift if n in own else weights[n][0] for n in members]  # type: ignore[index]
        gone = {id(one.change) for one in (*taken, seed)}
        self._pool = [one for one in self._pool if id(one.change) not in gone]
        by_series: dict[int, float] = {}
        for one in (*taken, seed):
            by_series[one.number] = min(one.change.p, by_series.get(one.number, 1.0))
        ordered = sorted(by_series.values())
        p = min(len(self._many) * p / place for place, p in enumerate(ordered, 1))
        compared = tuple(number for number, weight in weights.items() if weight is not None)
        sure = tuple(sorted(by_series))
        days = days_of([*own.values()])
        return Cause(kind, *days, tuple(members), sure, tuple(shifts), shared, tuple(met), compared, min(1.0, p))

    def _around(self, number: int, day: int, group: Sequence[_Told]) -> tuple[float, float] | None:
        """The shift of a series on that day and its standard error; None without the days of a level on both sides."""
        times, values, _ = self._many[number]
        at = bisect_left(times, day)
        own = next((one.change.at for one in group if one.number == number), at)
        cuts = [cut for cut in self._cuts.get(number, ()) if abs(cut - own) > LEAST_LEVEL]
        low = max([0, at - _LOOKED_BACK, *(cut for cut in cuts if cut < at)])
        high = min([len(values), at + _LOOKED_BACK, *(cut for cut in cuts if cut > at)])
        if at - low < LEAST_LEVEL or high - at < LEAST_LEVEL:
            return None
        inside = bounded(values[low:high])
        before, after = inside[: at - low], inside[at - low :]
        squares = squared_deviations(before) + squared_deviations(after)
        variance = squares / (len(inside) - 2) * (1 / len(before) + 1 / len(after))
        return statistics.fmean(after) - statistics.fmean(before), math.sqrt(variance)

    def _along(self, number: int, first: int, last: int) -> tuple[float, float] | None:
        """The rise of a series from one day to the other and its standard error; None for few days and around a step.

        A clear step in between would be taken for a rise.
        """
        times, values, _ = self._many[number]
        low, high = bisect_left(times, first), bisect_left(times, last + 1)
        if high - low < 2 * LEAST_LEVEL or any(low < cut < high for cut in self._clear_cuts.get(number, ())):
            return None
        own, inside = times[low:high], bounded(values[low:high])
        middle, mean = statistics.fmean(own), statistics.fmean(inside)
        across = math.fsum((time - middle) ** 2 for time in own)
        slope = math.fsum((time - middle) * (v - mean) for time, v in zip(own, inside, strict=True)) / across
        rest = math.fsum((v - mean - slope * (time - middle)) ** 2 for time, v in zip(own, inside, strict=True))
        length = last - first
        return slope * length, math.sqrt(rest / (len(own) - 2) / across) * length

    def _who(
        self, weights: Mapping[int, tuple[float, float] | None], group: Sequence[_Told]
    ) -> tuple[tuple[int, ...], tuple[tuple[str, str], ...], tuple[int, ...]]:
        """The series that share the change, the values that they and no others have, and the series that have these."""
        there = [number for number, weight in weights.items() if weight is not None]
        seeds = {one.number for one in group}
        sizes = [abs(one.change.shift) for one in group]
        usual = math.fsum(size * size for size in sizes) / len(sizes)
        sign = 1.0 if group[0].way else -1.0
        evidence = {
            number: _evidence(weight[0] * sign, weight[1], usual)
            for number, weight in weights.items()
            if weight is not None
        }
        listed, score_of_list = _best_list(evidence)
        condition, score = self._best_condition(evidence)
        if condition is None or score < score_of_list:
            inside = {*listed, *(number for number in seeds if evidence.get(number, _SURE) > 0)} or seeds
            others = set()
        else:
            met = {number for number in there if self._meets(number, condition)}
            others = {number for number in seeds - met if evidence.get(number, 0.0) > math.log(len(there)) + 3}
            inside = {
                number
                for number in met
                if evidence[number] > _CLEARLY_NOT
                and (number in seeds or not _has_stayed(weights[number], sign, math.sqrt(usual)))
            }
        everyone = sorted({*there, *inside, *others})
        cells = [Compared(self._many[number].axes, regressed=number in inside) for number in everyone]
        shared = find_shared(cells)
        values = () if shared is None else shared.condition
        met_by = tuple(number for number in everyone if self._meets(number, values))
        return tuple(sorted(inside | others)), values, met_by

    def _meets(self, number: int, condition: Sequence[tuple[str, str]]) -> bool:
        return meets(Compared(self._many[number].axes, regressed=True), tuple(condition))

    def _best_condition(self, evidence: Mapping[int, float]) -> tuple[tuple[tuple[str, str], ...] | None, float]:
        """The values of up to three axes whose series have the most evidence, less what it takes to name them."""
        there: dict[tuple[str, str], set[int]] = {}
        for number in evidence:
            for pair in self._many[number].axes.items():
                there.setdefault(pair, set()).add(number)
        values = [pair for pair, numbers in there.items() if len(numbers) < len(evidence)]
        best: tuple[tuple[tuple[str, str], ...] | None, float] = ((), math.fsum(evidence.values()))
        for size in (1, 2, 3):
            tried = _conditions(values, size)
            for condition in tried:
                numbers = set.intersection(*(there[pair] for pair in condition))
                score = math.fsum(evidence[number] for number in numbers) - math.log(len(tried))
                if numbers and score > best[1] + 1e-9:
                    best = condition, score
            if not tried:
                break
        return best


def _conditions(values: Sequence[tuple[str, str]], size: int) -> list[tuple[tuple[str, str], ...]]:
    """All choices of a value of each of so many axes, in the order of `values`; none where they are too many to try."""
    by_axis: dict[str, list[int]] = {}
    for place, (axis, _) in enumerate(values):
        by_axis.setdefault(axis, []).append(place)
    together = list(itertools.combinations(by_axis.values(), size))
    # counted before they are made: an axis may have another value in each cell
    if sum(math.prod(map(len, places)) for places in together) > _MOST_CONDITIONS:
        return []
    chosen = sorted(tuple(sorted(one)) for places in together for one in itertools.product(*places))
    return [tuple(values[place] for place in one) for one in chosen]


_MOST_CONDITIONS = 5000
_EACH_LISTED = 2.0


def _goes_with_step(day: int, other: _Told, least: float = _NEAR) -> bool:
    """Whether another step may have come on that day, and a creep goes on around it."""
    if other.change.kind == "step":
        return other.may_be_on(day, least)
    return other.days[0] <= day <= other.days[1]


def _overlap(seed: _Told, other: _Told) -> bool:
    """Whether a change is in the days of a creep, and another creep in at least half of them."""
    first, last = seed.days
    if other.change.kind == "step":
        return first <= other.day <= last
    common = min(last, other.days[1]) - max(first, other.days[0])
    return common * 2 >= min(last - first, other.days[1] - other.days[0])


def _evidence(shift: float, error: float, usual: float) -> float:
    """The log of the Bayes factor of a change in that direction, of the usual square, against none."""
    noise = error * error
    if not noise:
        return _SURE if shift > 0 else -_SURE
    both = noise + usual
    height = shift * math.sqrt(usual / (noise * both))
    tail = max(2 * _NORMAL.cdf(height), 1e-300)
    return max(-_SURE, min(_SURE, 0.5 * math.log(noise / both) + height * height / 2 + math.log(tail)))


def _has_stayed(weight: tuple[float, float] | None, sign: float, usual: float) -> bool:
    """Whether a series did not change as others did by `usual`: a Bayes factor of a change of any size hardly tells."""
    return weight is not None and weight[0] * sign + _STAYED_ERRORS * weight[1] < _STAYED_SHARE * usual


def _best_list(evidence: Mapping[int, float]) -> tuple[list[int], float]:
    """The series with the most evidence together, less what it takes to name them among all lists of that length."""
    ordered = sorted(evidence, key=lambda number: -evidence[number])
    total, best = 0.0, ([], -math.inf)  # type: tuple[float, tuple[list[int], float]]
    for place, number in enumerate(ordered, 1):
        total += evidence[number]
        score = total - math.log(math.comb(len(ordered), place)) - _EACH_LISTED * (place - 1)
        if score > best[1]:
            best = ordered[:place], score
    return best


def _span(group: Sequence[_Told], day: int) -> tuple[int, int]:
    """The last day of the old level and the first of the new, between which the step came with 95 %.

    Cells whose days go up and down together know the day no better than one of them: their likelihoods count as those
    of fewer cells.
    """
    some = group[:_LOOKED_AT]
    share = _independent(some, day) / len(some)
    days = sorted({one for told in group[:_ASKED] for one in told.likely_days})
    logs = {one: share * sum(told.likelihood(one) for told in group) for one in days}
    best = max(logs.values())
    weights = {one: math.exp(log - best) for one, log in logs.items()}
    total, held = math.fsum(weights.values()), 0.0
    inside = []
    for one in sorted(weights, key=weights.__getitem__, reverse=True):
        inside.append(one)
        held += weights[one]
        if held >= _SIDE * total:
            break
    first, last = min(inside), max(inside)
    known = sorted({time for told in group for time in told.judged.times})
    return known[max(0, bisect_left(known, first) - 1)], last


def _independent(group: Sequence[_Told], day: int) -> float:
    """The number of independent series to which these amount: fewer than they are where their days agree."""
    if len(group) == 1:
        return 1.0
    rests: dict[int, list[float]] = {}
    variances = []
    for one in group:
        times, values = one.judged.times, one.judged.values
        at = bisect_left(times, day)
        own = []
        for side in (range(one.change.begin, at), range(at, one.change.end)):
            if len(side) > 1:
                middle = statistics.median(values[place] for place in side)
                own += [(times[place], values[place] - middle) for place in side]
        spread = math.sqrt(math.fsum(value * value for _, value in own) / len(own)) if own else 0.0
        if spread:
            variances.append(1.0)
            for time, value in own:
                rests.setdefault(time, []).append(max(-3.0, min(3.0, value / spread)))
    means = [statistics.fmean(values) for values in rests.values() if len(values) > len(group) / 2]
    if len(means) < 2 * LEAST_LEVEL:
        return 1.0
    together = statistics.pvariance(means)
    return min(float(len(group)), max(1.0, 1.0 / together)) if together else float(len(group))

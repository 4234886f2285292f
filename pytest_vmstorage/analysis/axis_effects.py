"""The effect of each axis on each workload: over couples of cells that differ in that axis alone; pure."""

from __future__ import annotations

import itertools
import math
import operator
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.analysis.cell_pairs import measured_cells
from pytest_vmstorage.analysis.columns import Placed, place
from pytest_vmstorage.analysis.gate.policy import log_seconds
from pytest_vmstorage.config.cell import varying_fields
from pytest_vmstorage.config.selector import value_text
from pytest_vmstorage.results.run import Measurement, Run
from pytest_vmstorage.stats import Interval, fewest_for_interval, median_interval

RISK = 0.05
"""The probability that an effect's interval is wrong, counting all pairs of values that it was chosen from."""

LEAST = 1.01
"""A smaller ratio matters to no reader, however sure."""


class Effect(BaseModel):
    """An axis's fastest value is `ratio` times as fast as its slowest: the median over couples that differ in it alone.

    `low` and `high` are the smallest and the largest ratio of these couples, or of the rounds of a single one; `rounds`
    counts the pairs of rounds of all couples.
    `interval` is one of 95 % for that median (of the sign test), of rounds where couples are too few for one, None with
    too few of either; where it begins below 1 the effect is within its spread.
    """

    model_config = ConfigDict(frozen=True)

    axis: str
    fastest: str
    slowest: str
    ratio: float
    low: float
    high: float
    couples: int
    rounds: int
    interval: Interval | None

    @property
    def is_sure(self) -> bool:
        """Whether the whole interval is above 1."""
        return self.interval is not None and self.interval.low > 1

    @property
    def matters(self) -> bool:
        """Whether the effect is sure, and large enough for a report."""
        return self.is_sure and self.ratio >= LEAST


class Moved(BaseModel):
    """The effects on one workload on one host: those that matter first, the largest before all.

    `tied` are axes that vary although no two cells differ in them alone; `in_a_row` says that rounds did not alternate.
    """

    model_config = ConfigDict(frozen=True)

    workload: str
    host: str
    effects: tuple[Effect, ...]
    tied: tuple[str, ...] = ()
    in_a_row: bool = False

    @property
    def rank(self) -> tuple[bool, float]:
        """The sort key: the largest effect first."""
        first = self.effects[0] if self.effects else None
        return (first is None or not first.matters, -first.ratio if first else 0.0)


def effects(run: Run, placed: Sequence[Placed] | None = None) -> tuple[Moved, ...]:
    """Each workload that was measured in two cells or more, with the effects on it, the largest effect first.

    The figure is the primary one, where that is a rate or a time. Native and null rows are left out: reports compare
    each row with them. An axis's two values are those farthest apart, among the sure ones if there are any.
    `placed` is `place(run)`, for a caller that has it.
    """
    groups: dict[tuple[str, str, str], list[_Timed]] = {}
    for row in measured_cells(place(run) if placed is None else placed):
        m = row.measurement
        if not row.is_yardstick and (logs := _logs(m)):
            groups.setdefault((m.workload, row.test, m.host), []).append(_Timed(m, logs))
    found = [_moved(f"{workload} {test}".strip(), host, rows) for (workload, test, host), rows in groups.items()]
    return tuple(sorted((one for one in found if one.effects or one.tied), key=lambda one: one.rank))


class _Timed(NamedTuple):
    """A measurement with the logarithm of each round's seconds."""

    measurement: Measurement
    logs: Sequence[float]


def _logs(m: Measurement) -> Sequence[float]:
    """The logarithms of seconds of its primary figure; empty where that is no speed, or has none in a round."""
    metric, values = m.metric(m.primary), m.values(m.primary)
    is_speed = (metric.is_rate or metric.unit == "s") and all(0 < value < math.inf for value in values)
    return log_seconds(metric, values) if is_speed else ()


def _moved(workload: str, host: str, rows: Sequence[_Timed]) -> Moved:
    varying = varying_fields(m.config for m, _ in rows)
    cells = [
        _Cell(tuple([getattr(m.config, name) for name in varying]), statistics.median(logs), logs) for m, logs in rows
    ]
    found = {name: _effect(name, groups) for name, groups in zip(varying, _by_value(cells), strict=True)}
    there = sorted((one for one in found.values() if one), key=lambda one: (not one.matters, -one.ratio))
    return Moved(
        workload=workload,
        host=host,
        effects=tuple(there),
        tied=tuple(name for name, one in found.items() if one is None),
        in_a_row=any(m.hygiene.get("rounds", "").startswith("in a row") for m, _ in rows),
    )


class _Cell(NamedTuple):
    """A measurement: its values of the axes that vary, and its logarithms of seconds, their median and each round's."""

    values: tuple[object, ...]
    median: float
    rounds: Sequence[float]


_ByValue = Mapping[object, Mapping[int, _Cell]]
"""The cells with each value of an axis, by a number that those have in common which are equal in all else."""


class _Contrast(NamedTuple):
    """Couples that have one value or the other of an axis: their log ratios in ascending order."""

    values: tuple[object, object]
    shifts: Sequence[float]
    interval: Interval | None

    @property
    def size(self) -> tuple[bool, float]:
        """The sort key of the distance between the values: sure distances count as larger."""
        return self.interval is not None and self.interval.low > 0, statistics.median(self.shifts)


def _effect(axis: str, groups: _ByValue) -> Effect | None:
    """The contrast of the axis's values that are farthest apart; None where no two cells differ in it alone."""
    pairs = list(itertools.combinations(groups, 2))
    found = [_contrast(pair, groups, 1.0 - RISK / len(pairs)) for pair in pairs]
    best = max((one for one in found if one), key=lambda one: one.size, default=None)
    if best is None:
        return None
    fastest, slowest = (value_text(axis, value) for value in best.values)
    rounds = _round_shifts(*(groups[value] for value in best.values))
    spread = best.shifts if len(best.shifts) > 1 else rounds
    return Effect(
        axis=axis,
        fastest=fastest,
        slowest=slowest,
        ratio=math.exp(statistics.median(best.shifts)),
        low=math.exp(min(spread)),
        high=math.exp(max(spread)),
        couples=len(best.shifts),
        rounds=len(rounds),
        interval=best.interval and Interval(*map(math.exp, best.interval)),
    )


def _by_value(rows: Sequence[_Cell]) -> Iterator[_ByValue]:
    """For each axis the cells by their value of it, the values in the order met; of several cells alike the last."""
    columns = list(zip(*(cell.values for cell in rows), strict=True))
    places = [{value: place for place, value in enumerate(dict.fromkeys(column))} for column in columns]
    # the number of a cell has a digit for each axis, as a number of mixed radix, which is quicker to find than values
    units = list(itertools.accumulate(map(len, places), operator.mul, initial=1))
    numbers = [0] * len(rows)
    for column, digits, unit in zip(columns, places, units, strict=False):
        numbers = [number + unit * digits[value] for number, value in zip(numbers, column, strict=True)]
    for column, digits, unit in zip(columns, places, units, strict=False):
        found: dict[object, dict[int, _Cell]] = {value: {} for value in digits}
        for number, value, cell in zip(numbers, column, rows, strict=True):
            found[value][number - unit * digits[value]] = cell
        yield found


def _contrast(pair: tuple[object, object], groups: _ByValue, confidence: float) -> _Contrast | None:
    one, other = pair
    fast, slow = groups[one], groups[other]
    shifts = sorted([slow[number].median - cell.median for number, cell in fast.items() if number in slow])
    if not shifts:
        return None
    if statistics.median(shifts) < 0:
        one, other, shifts = other, one, [-shift for shift in reversed(shifts)]
    # couples differ by more than the rounds of one do, so that rounds only count where couples are too few
    is_enough = len(shifts) >= fewest_for_interval(confidence)
    sample = shifts if is_enough else _round_shifts(groups[one], groups[other])
    return _Contrast((one, other), shifts, median_interval(sample, confidence))


def _round_shifts(fast: Mapping[int, _Cell], slow: Mapping[int, _Cell]) -> list[float]:
    """The log ratios of all rounds of the couples in two groups."""
    couples = [(cell.rounds, slow[number].rounds) for number, cell in fast.items() if number in slow]
    return [late - early for one, other in couples for early, late in zip(one, other, strict=False)]

"""The ratio of two cells' speeds by pairs of their rounds, and whether bounds hold; pure.

A ratio is one of speeds: IOPS and MiB/s as they are, times inverted, so that above 1 is always faster. It is the
Hodges-Lehmann estimate of the shift between the logarithms of paired rounds, with the exact interval of the signed
ranks. An assertion over several couples of cells is about all of them: with k of them each interval is one of
1 - 0.05/k, so that all of them are right at once in 95 of 100 such assertions (Bonferroni).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from enum import StrEnum
from operator import itemgetter
from typing import NamedTuple, Self

from pydantic import BaseModel, ConfigDict, model_validator

from pytest_vmstorage.analysis.cell_pairs import Couple, acceleration_obstacle, paired_rounds
from pytest_vmstorage.analysis.gate.policy import differences
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.results.host import EMULATED
from pytest_vmstorage.results.run import Failure, Metric, Run
from pytest_vmstorage.stats import (
    MOST_PAIRS,
    Interval,
    count_to_see,
    fewest_for_interval,
    hodges_lehmann,
    shift_interval,
)

ROUNDING = 1e-9
"""Tolerance: a ratio exactly at the bound keeps it despite rounding of its logarithm."""


class Outcome(StrEnum):
    """The result of an assertion: the whole interval keeps the bounds, the whole of it breaks one, or neither."""

    HOLDS = "HOLDS"
    FAILS = "FAILS"
    INCONCLUSIVE = "INCONCLUSIVE"


class Bounds(BaseModel):
    """Bounds of a ratio of speeds; either may be None. Raises ConfigError for none, and where no ratio keeps both."""

    model_config = ConfigDict(frozen=True)

    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _can_be_kept(self) -> Self:
        given = [bound for bound in (self.at_least, self.at_most) if bound is not None]
        if not given:
            raise ConfigError("a ratio needs a bound.", hint="Write at_least=0.9, at_most=1.1, or both.", code="VM814")
        if not all(0 < bound < math.inf for bound in given):
            raise ConfigError(
                f"a ratio of speeds is above 0, and a bound is {min(given):g}.",
                hint="Write at_least=0.9.",
                code="VM814",
            )
        if given != sorted(given):
            raise ConfigError(
                f"no ratio is at least {self.at_least:g} and at most {self.at_most:g}.",
                hint="Swap the bounds.",
                code="VM814",
            )
        return self

    def outcome(self, interval: Interval) -> Outcome:
        """The result for an interval of logarithms."""
        low, high = self._logs
        if low - ROUNDING <= interval.low and interval.high <= high + ROUNDING:
            return Outcome.HOLDS
        is_broken = interval.high < low - ROUNDING or high + ROUNDING < interval.low
        return Outcome.FAILS if is_broken else Outcome.INCONCLUSIVE

    def distance(self, shift: float) -> float:
        """How far a logarithm lies from the nearest bound, on either side of it."""
        return min(abs(shift - bound) for bound in self._logs if math.isfinite(bound))

    @property
    def _logs(self) -> tuple[float, float]:
        low = -math.inf if self.at_least is None else math.log(self.at_least)
        return low, math.inf if self.at_most is None else math.log(self.at_most)

    def __str__(self) -> str:
        said = [f"at least {self.at_least:g}"] if self.at_least is not None else []
        said += [f"at most {self.at_most:g}"] if self.at_most is not None else []
        return " and ".join(said)


RISK = 0.05
"""The probability that any interval of an assertion is wrong."""

_SHOWN = 8


class Ratio(BaseModel):
    """The ratio of a couple's speeds, from so many pairs of rounds; `text` is the sentence.

    `interval` decided the outcome, None where there is none; `needed` is the number of rounds that would decide in four
    of five cases, None where nobody would run so many, or where more rounds would not help.
    """

    model_config = ConfigDict(frozen=True)

    outcome: Outcome
    text: str
    pairs: int = 0
    ratio: float | None = None
    interval: Interval | None = None
    needed: int | None = None


class Judgement(BaseModel):
    """An assertion and its result: a ratio for each couple, and clauses on cells that are missing.

    The ratios that speak most against it come first, couples without one last; `notes` name the host and the limits of
    the intervals.
    """

    model_config = ConfigDict(frozen=True)

    claim: str
    ratios: tuple[Ratio, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """FAILS where any couple surely does; HOLDS only where all do and no cell is missing."""
        found = {ratio.outcome for ratio in self.ratios}
        if Outcome.FAILS in found:
            return Outcome.FAILS
        return Outcome.HOLDS if found == {Outcome.HOLDS} and not self.missing else Outcome.INCONCLUSIVE

    @property
    def sentence(self) -> str:
        """The assertion, the number of couples with its outcome, and the first of them, on one line."""
        return "; ".join([self._head, *self._deciding[:1]])

    @property
    def text(self) -> str:
        """The same over several lines, with the first couples that do not hold, and the notes."""
        deciding = self._deciding
        more = [f"and {len(deciding) - _SHOWN} more"] if len(deciding) > _SHOWN else []
        lines = [self._head, *(f"  {line}" for line in [*deciding[:_SHOWN], *more, *self.notes])]
        return "\n".join(lines)

    @property
    def _head(self) -> str:
        if len(self.ratios) <= 1:
            came_to = {Outcome.HOLDS: "it is so", Outcome.FAILS: "it is not so"}.get(self.outcome, "not decided")
            return f"{self.claim}: {came_to}"
        count = sum(ratio.outcome is self.outcome for ratio in self.ratios)
        if not count:
            return f"{self.claim}: all {len(self.ratios)} couples hold, but cells are missing"
        verb = {Outcome.HOLDS: "hold", Outcome.FAILS: "fail"}.get(self.outcome, "are not decided")
        return f"{self.claim}: {count} of {len(self.ratios)} couples {verb}"

    @property
    def _deciding(self) -> list[str]:
        """The texts behind the outcome: couples that fail, or missing cells and open couples, or the nearest couple."""
        texts = [ratio.text for ratio in self.ratios if ratio.outcome is self.outcome]
        if self.outcome is Outcome.INCONCLUSIVE:
            return [*self.missing, *texts]
        return texts if self.outcome is Outcome.FAILS else texts[:1]


def weigh(
    claim: str,
    bounds: Bounds,
    couples: Sequence[Couple],
    run: Run,
    metric: str | None = None,
    other_metric: str | None = None,
) -> Judgement:
    """Every couple's ratio against the bounds; `metric` is a metric's name, None for each couple's primary.

    `other_metric` is that of the second side, None where it is the same. Raises ConfigError for a metric that they
    have not, that is neither a rate nor a time, or that counts something else on the other side.
    """
    confidence = 1.0 - RISK / max(1, len(couples))
    ratios = [_ratio(couple, bounds, run, (metric, other_metric), confidence) for couple in couples]
    known = [(one.ratio, one) for one in ratios if one.ratio is not None]
    known.sort(key=itemgetter(0), reverse=bounds.at_least is None)
    unknown = (one for one in ratios if one.ratio is None)
    return Judgement(claim=claim, ratios=(*(one for _, one in known), *unknown), notes=tuple(_notes(couples, run)))


def missing_cell(failure: Failure) -> str:
    """A cell without a figure, and why, as a clause."""
    return f"{failure.config.label} has no figure: {failure.reason.splitlines()[0]}"


class _Pairs(NamedTuple):
    """A couple's data: the beginning of its text, and the log ratios of its paired rounds or why there are none."""

    begin: str
    shifts: tuple[float, ...] = ()
    obstacle: str = ""


_Names = tuple[str | None, str | None]
"""The metric of each side."""


def _ratio(couple: Couple, bounds: Bounds, run: Run, metrics: _Names, confidence: float) -> Ratio:
    known = _pairs(couple, run, metrics)
    if known.obstacle:
        return Ratio(outcome=Outcome.INCONCLUSIVE, text=f"{known.begin}: {known.obstacle}")
    shifts = known.shifts
    shift, interval = hodges_lehmann(shifts), shift_interval(shifts, confidence)
    outcome = Outcome.INCONCLUSIVE if interval is None else bounds.outcome(interval)
    needed = _needed(shifts, bounds.distance(shift), confidence) if outcome is Outcome.INCONCLUSIVE else None
    said = f"{known.begin}: {math.exp(shift):.3g} times as fast, {_interval_text(interval, confidence, len(shifts))}"
    return Ratio(
        outcome=outcome,
        text=said + (f"; {_wanted(needed, interval)}" if outcome is Outcome.INCONCLUSIVE else ""),
        pairs=len(shifts),
        ratio=math.exp(shift),
        interval=interval and Interval(*map(math.exp, interval)),
        needed=needed,
    )


def _pairs(couple: Couple, run: Run, metrics: _Names) -> _Pairs:
    name = metrics[0] or couple.first.primary
    names = (name, metrics[1] or name)
    measured = _metric(couple, names)
    first, second = (m.figure(one) for m, one in zip(couple, names, strict=True))
    begin = (
        f"{couple.first.workload} on {couple.first.config.label}, {name} {first} ({first.spread}), against"
        f" {_told_apart(couple)}{'' if names[1] == name else f', {names[1]}'} {second} ({second.spread})"
    )
    obstacle = acceleration_obstacle(couple, run)
    if obstacle:
        return _Pairs(begin, obstacle=obstacle)
    rounds = paired_rounds(couple)
    if len(rounds) < min(2, *(len(m.samples) for m in couple)):
        return _Pairs(begin, obstacle=_IN_A_ROW)
    sides = zip(names, zip(*rounds, strict=True), strict=False)
    figures = [[sample.figures[one] for sample in side] for one, side in sides]
    if not rounds or not all(0 < value < math.inf for side in figures for value in side):
        return _Pairs(begin, obstacle="a round gave no figure that has a speed")
    return _Pairs(begin, differences(measured, *figures))


_IN_A_ROW = (
    "their rounds were taken in a row, so that what the host drifted meanwhile would pass for a difference; it takes"
    " rounds in turns, which --vm-rounds=6 takes in one process"
)


def _told_apart(couple: Couple) -> str:
    """The second cell: with its workload where that is another, as on a curve."""
    first, second = couple
    other = "" if first.workload == second.workload else f"{second.workload} on "
    return f"{other}{second.config.label}"


def _metric(couple: Couple, names: tuple[str, str]) -> Metric:
    try:
        found = [m.metric(name) for m, name in zip(couple, names, strict=True)]
    except AttributeError as error:
        raise ConfigError(
            f"{error}.", hint="Name another metric, or choose workloads that have it.", code="VM815"
        ) from None
    if not (found[0].is_rate or found[0].unit == "s"):
        raise ConfigError(
            f"{names[0]} of {couple.first.workload} is in {found[0].unit}, and no speed.",
            hint='Name a rate or a time, such as metric="iops".',
            code="VM815",
        )
    if found[0].better == "neither":
        raise ConfigError(
            f"{names[0]} of {couple.first.workload} is no speed: neither way is better.",
            hint='Name another metric, such as metric="iops".',
            code="VM815",
        )
    if found[0].unit != found[1].unit:
        raise ConfigError(
            f"{names[0]} of {couple.first.workload} is in {found[0].unit}, and {names[1]} of"
            f" {couple.second.workload} in {found[1].unit}.",
            hint="Name metrics that count the same, by metric and other_metric.",
            code="VM815",
        )
    return found[0]


def _interval_text(interval: Interval | None, confidence: float, pairs: int) -> str:
    counted = f"{pairs} pair{'' if pairs == 1 else 's'} of rounds"
    if interval is None:
        return f"{counted}, and an interval takes {fewest_for_interval(confidence)}"
    return f"95 % interval {math.exp(interval.low):.3g} to {math.exp(interval.high):.3g} from {counted}"


def _needed(shifts: Sequence[float], distance: float, confidence: float) -> int | None:
    """The number of pairs of that spread that would separate the estimate from the bound."""
    fewest = fewest_for_interval(confidence)
    if len(shifts) < 2:
        return fewest
    found = count_to_see(distance, statistics.stdev(shifts), 1.0 - confidence) if distance > ROUNDING else None
    if found is None:
        return None
    # the present number did not suffice: at least one more is proposed
    return max(found, fewest, len(shifts) + 1)


def _wanted(needed: int | None, interval: Interval | None) -> str:
    if needed is None:
        return f"it lies so near to the bound that {MOST_PAIRS} rounds would not tell"
    about = "at least" if interval is None else "about"
    return f"{about} {needed} rounds would tell (--vm-rounds={needed} or measure(..., rounds={needed}))"


def _notes(couples: Sequence[Couple], run: Run) -> Iterator[str]:
    """Sentences on the intervals, the host and its acceleration."""
    rows = [m for couple in couples for m in couple]
    if len(couples) > 1:
        yield f"the intervals of all {len(couples)} couples are right at once with 95 %"
    if any(len({sample.boot for sample in m.samples}) == 1 for m in rows if m.config.has_guest):
        yield "a cell's rounds are of one boot of its guest: what differs from boot to boot is not in its interval"
    names = dict.fromkeys(m.host for m in rows)
    facts = [host for host in run.hosts if host.name in names]
    yield f"measured on {', '.join(f'{host.name} ({host.cpu}, {host.accel})' for host in facts) or ', '.join(names)}"
    if any(host.is_emulated for host in facts):
        yield EMULATED

"""What was measured of a host once: noise, fidelity, restored guests; what follows for runs, and when it lapses; pure.

Noise is a standard deviation of logarithms: rounds of one guest differ by `round`, and guests by `boot` on top of it
(a one-way analysis of variance; Searle, Casella and McCulloch, Variance Components, 3.6). Two kinds of guests are equal
where two one-sided tests of their pairs' ratios exclude a difference of more than 2 % (Schuirmann 1987).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.buses import Bus
from pytest_vmstorage.results.host import FACTS, UNKNOWN, HostFacts
from pytest_vmstorage.results.run import Steadiness
from pytest_vmstorage.stats import (
    count_to_equal,
    count_to_see,
    equivalence_p,
    hodges_lehmann,
    shift_interval,
    signed_rank_p,
    squared_deviations,
    visible_shift,
)

MARGIN = 0.02
"""The largest difference of two guests that are called equal, as a fraction."""

RISK = 0.05
"""The risk of calling guests equal that differ by the margin, and that of the opposite."""

DIFFERENCES = (0.05, 0.10, 0.20)
"""The differences whose number of rounds and pairs a calibration tells."""

LEAST_DAYS = 3
"""Days of calibrations from which their spread is told."""

_MEDIAN = math.sqrt(math.pi / 2)
"""The standard error of a median over that of a mean, for normal noise."""

_Z_975 = statistics.NormalDist().inv_cdf(0.975)


class Noise(BaseModel):
    """How far figures of one workload go apart: `round` between rounds of a guest, `boot` between guests beyond that.

    `figure` is the median of all rounds, in `unit`; `boots` and `rounds` are how many there were in all.
    """

    model_config = ConfigDict(frozen=True)

    workload: str
    unit: str
    figure: float
    round: float
    boot: float
    boots: int
    rounds: int

    @classmethod
    def of(cls, workload: str, unit: str, boots: Sequence[Sequence[float]]) -> Self:
        """The noise of these rounds, a sequence for each boot; raises ValueError without two boots of two rounds."""
        if len(boots) < 2 or min(map(len, boots)) < 2:
            raise ValueError("noise takes two boots of two rounds")
        logs = [[math.log(figure) for figure in boot] for boot in boots]
        count = sum(map(len, logs))
        within = math.fsum(map(squared_deviations, logs)) / (count - len(logs))
        explained = statistics.fmean(within / len(boot) for boot in logs)
        between = max(0.0, squared_deviations([*map(statistics.fmean, logs)]) / (len(logs) - 1) - explained)
        return cls(
            workload=workload,
            unit=unit,
            figure=statistics.median(figure for boot in boots for figure in boot),
            round=math.sqrt(within),
            boot=math.sqrt(between),
            boots=len(boots),
            rounds=count,
        )

    @property
    def turn(self) -> float:
        """The standard deviation of a difference of two rounds, taken in turns in two guests that stay."""
        return math.sqrt(2) * self.round

    @property
    def pair(self) -> float:
        """The standard deviation of a difference of two rounds, each in a fresh guest."""
        return math.sqrt(2 * (self.round**2 + self.boot**2))

    def visible(self, rounds: int) -> float | None:
        """The smallest difference, a fraction, that so many rounds in turns show in four of five cases; None for 1."""
        return math.expm1(visible_shift(self.turn, rounds)) if rounds > 1 else None

    def rounds_to_see(self, difference: float) -> int | None:
        """The fewest rounds in turns that show that difference in four of five cases; None for more than 1000."""
        return count_to_see(math.log1p(difference), self.turn)

    def pairs_to_see(self, difference: float) -> int | None:
        """The fewest pairs of fresh guests that show that difference in four of five cases; None for more than 1000."""
        return count_to_see(math.log1p(difference), self.pair)

    def rounds_within(self, precision: float) -> int:
        """The rounds whose median has a 95 % interval of `precision`, a fraction, on either side of it."""
        return max(1, math.ceil((_Z_975 * _MEDIAN * self.round / math.log1p(precision)) ** 2))


Sameness = Literal["equal", "differs", "open"]
"""What pairs say of two kinds of guests: at most 2 % apart, further apart, or neither is sure."""


class Equality(BaseModel):
    """The ratio of one workload's speeds in pairs of guests, with its 95 % interval, None for fewer than 6 pairs.

    `p` is that of the equivalence tests; `needed` is the number of pairs that would show guests of one speed to be
    equal in four of five cases, None for more than 1000.
    """

    model_config = ConfigDict(frozen=True)

    workload: str
    pairs: int
    ratio: float
    low: float | None = None
    high: float | None = None
    p: float
    verdict: Sameness
    needed: int | None = None

    @classmethod
    def of(cls, workload: str, logs: Sequence[float]) -> Self:
        """The comparison of pairs, given the logarithms of their ratios; raises ValueError without any."""
        interval, margin = shift_interval(logs), math.log1p(MARGIN)
        p = equivalence_p(logs, margin)
        beyond = min(signed_rank_p([side * log - margin for log in logs]) for side in (1, -1))
        # further apart on either side of each workload: the two sides share the risk
        verdict: Sameness = "equal" if p <= RISK else "differs" if beyond <= RISK / 2 else "open"
        return cls(
            workload=workload,
            pairs=len(logs),
            ratio=math.exp(hodges_lehmann(logs)),
            low=interval and math.exp(interval.low),
            high=interval and math.exp(interval.high),
            p=p,
            verdict=verdict,
            needed=count_to_equal(margin, statistics.stdev(logs), RISK) if len(logs) > 1 else None,
        )


class RestoredBus(BaseModel):
    """Restored guests over booted ones on a bus, for each workload."""

    model_config = ConfigDict(frozen=True)

    bus: Bus
    compared: tuple[Equality, ...]

    @property
    def verdict(self) -> Sameness:
        """Equal where all workloads are, which keeps the risk of each (Berger 1982); different where one is."""
        found = {one.verdict for one in self.compared}
        return "differs" if "differs" in found else "equal" if found == {"equal"} else "open"


FEWEST_PAIRS, MOST_PAIRS = 6, 40
"""Pairs of a bus: so many have an interval of 95 %, and more would take an hour."""


def pairs_to_take(noises: Sequence[Noise]) -> int:
    """The number of pairs that shows restored guests of the same speed to be equal, fixed before the first of them.

    A look after each pair would find what it looks for more often than the risk says. At most 40: where noise asks for
    more, the pairs will not decide.
    """
    wanted = [count_to_equal(math.log1p(MARGIN), one.pair, RISK) for one in noises]
    return max([FEWEST_PAIRS, *(min(count or MOST_PAIRS, MOST_PAIRS) for count in wanted)])


class Warmth(BaseModel):
    """What a warm-up does: the first round of a boot over the median of those after it, and how steady these are."""

    model_config = ConfigDict(frozen=True)

    workload: str
    first: float
    after: Steadiness


Place = Literal["null", "native", "page cache"]
"""Where a yardstick is measured: QEMU without storage, the host without a guest, or through the host's page cache."""


class Yardstick(BaseModel):
    """The median figure of one workload in another place, its lowest and highest round, and the guest's figure over it.

    The page cache is used with cache=writeback, and emptied before each round.
    """

    model_config = ConfigDict(frozen=True)

    place: Place
    workload: str
    unit: str
    figure: float
    low: float
    high: float
    guest_over: float


CUT_SHORT = "what came after Ctrl-C"
"""What a calibration leaves out that the user ended."""


class Calibration(BaseModel):
    """What one calibration found on a host; empty where there was no time, which `left_out` says in clauses.

    `started` is UTC in ISO 8601, `seconds` the time it took of `limit_s`; `listed_as` is the host's name for --host, ""
    for this machine. `bare` is the plugin over fio in a bare QEMU. `pressed` is the median fraction of a round in which
    some task of the host waited, by resource; `others_cpu` the most of one CPU that other QEMU processes took.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    started: str
    seconds: float
    limit_s: float
    host: HostFacts
    listed_as: str = ""
    noise: tuple[Noise, ...] = ()
    warmth: tuple[Warmth, ...] = ()
    restored: tuple[RestoredBus, ...] = ()
    bare: tuple[Equality, ...] = ()
    yardsticks: tuple[Yardstick, ...] = ()
    booted_s: float | None = None
    restored_s: float | None = None
    around_s: float | None = None
    pressed: Mapping[str, float] = {}
    others_cpu: float | None = None
    left_out: tuple[str, ...] = ()

    @property
    def day(self) -> str:
        """The date."""
        return self.started[:10]

    @property
    def about(self) -> str:
        """Its name in a sentence."""
        return f"calibration {self.id} of {self.day}"

    @property
    def is_cut_short(self) -> bool:
        """Whether the user ended it."""
        return CUT_SHORT in self.left_out

    @property
    def restorable(self) -> Mapping[Bus, bool]:
        """Whether restored guests are equal to booted ones, for each bus where that was decided."""
        return {one.bus: one.verdict == "equal" for one in self.restored if one.verdict != "open"}

    @property
    def beginnings(self) -> list[str]:
        """How guests begin by default on the buses that were decided, in clauses."""
        equal = [bus for bus, is_equal in self.restorable.items() if is_equal]
        unequal = [bus for bus, is_equal in self.restorable.items() if not is_equal]
        clauses = [f"guests are restored by default on {', '.join(equal)}"] * bool(equal)
        return clauses + [f"guests are booted on {', '.join(unequal)}, where restored ones differ"] * bool(unequal)

    @property
    def told(self) -> str:
        """What it changes of a run on its host, in a sentence without its point."""
        return f"{self.about}: {'; '.join(self.beginnings) or 'it changes nothing in how guests begin'}"

    def noise_of(self, *, writes: bool) -> Noise | None:
        """The noise of writes, else of reads; None where it was not measured."""
        return next((one for one in self.noise if ("write" in one.workload) is writes), None)

    def rounds_within(self, workload: str, precision: float) -> int:
        """The rounds that bring a median's 95 % interval within `precision`, a fraction; 0 where nothing says so.

        Nobody knows the workload's own noise: it is taken for that of the calibrated writes, or reads.
        """
        found = self.noise_of(writes="write" in workload)
        return found.rounds_within(precision) if found is not None else 0

    def guest_s(self, *, restored: bool) -> float | None:
        """The time until a guest is there, restored or booted; None where it was not measured."""
        return self.restored_s if restored and self.restored_s is not None else self.booted_s

    def lapse(self, host: HostFacts) -> str:
        """A sentence that says what of the host changed since, "" where the calibration holds."""
        changes = list(_changes(self.host, host))
        if not changes:
            return ""
        return (
            f"the {self.about} does not hold on {host.name} now, and nothing of it is used: {', '.join(changes)};"
            f" `{calibrate_line(self.listed_as)}` makes another one"
        )


def calibrate_line(listed_as: str) -> str:
    """The command that calibrates a host by its name for --host, "" for this machine."""
    return f"vmstorage calibrate{f' --host={listed_as}' if listed_as else ''}"


def _changes(then: HostFacts, now: HostFacts) -> Iterator[str]:
    """A clause for each fact that differs; facts that one of the two hides count as equal."""
    words = {"accel": "acceleration"} | {name: fact.words for name, fact in FACTS.items() if fact.words}
    for name, what in words.items():
        old, new = getattr(then, name), getattr(now, name)
        if old != new and not {old, new} & {UNKNOWN, 0}:
            yield f"{what} was {old} and is {new}"


class DaySpread(NamedTuple):
    """The standard deviation of a day's figure, a fraction, at its upper limit, and the number of days it is from."""

    upper: float
    days: int


def day_spread(calibrations: Sequence[Calibration]) -> DaySpread | None:
    """How far days differ: the larger one of the workloads'; None for fewer than 3 days.

    Few days hardly show their spread, and whoever takes it for known raises false alarms: so it is the limit above
    which it lies with a risk of 10 % (chi-squared, by the approximation of Wilson and Hilferty, 1931). Only days on
    which the host was as at the last one count.
    """
    found: list[DaySpread] = []
    last = calibrations[-1] if calibrations else None
    for noise in last.noise if last is not None else ():
        days: dict[str, list[float]] = {}
        for one in calibrations:
            if last is not None and not one.lapse(last.host):
                logs = [math.log(other.figure) for other in one.noise if other.workload == noise.workload]
                days.setdefault(one.day, []).extend(logs)
        means = [statistics.fmean(logs) for logs in days.values() if logs]
        if len(means) >= LEAST_DAYS:
            upper = statistics.stdev(means) * _upper_of_deviation(len(means) - 1)
            found.append(DaySpread(math.expm1(upper), len(means)))
    return max(found, default=None)


def _upper_of_deviation(freedom: int, risk: float = 0.1) -> float:
    """The factor from a standard deviation with so many degrees of freedom to its upper limit."""
    part = 2 / (9 * freedom)
    return float((1 - part + statistics.NormalDist().inv_cdf(risk) * math.sqrt(part)) ** -1.5)


def power_clause(calibration: Calibration, rounds: int) -> str:
    """Which difference so many rounds in turns show, and how many 5 % would take; "" without noise."""
    noises = calibration.noise
    if not noises:
        return ""
    visible = [one.visible(rounds) for one in noises]
    needed = [one.rounds_to_see(DIFFERENCES[0]) for one in noises]
    names = [one.workload for one in noises]
    shown = [f"{value:.0%}".replace("%", " %") for value in visible if value is not None]
    if len(shown) < len(noises):
        told = f"{rounds} round: no difference can be told from noise"
    else:
        told = f"{rounds} rounds: {_each(shown, names)} in 4 of 5 cases"
    takes = [str(count) if count is not None else "more than 1000" for count in needed]
    return f"{told}; {DIFFERENCES[0] * 100:.0f} % would take {_each(takes, names)}"


def _each(texts: Sequence[str], names: Sequence[str]) -> str:
    """One text where all are equal, else each with its name."""
    if len(set(texts)) == 1:
        return texts[0]
    return " and ".join(f"{text} ({name})" for text, name in zip(texts, names, strict=True))

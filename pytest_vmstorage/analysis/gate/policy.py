"""What loss of speed a cell may have, when it may be decided about, what was found, and what is waived; pure.

A loss is a fraction of the time per operation: 0.10 takes a tenth longer, whatever way the metric itself is better.
Inside it is a shift of logarithms, because noise of storage is a factor: half and twice the time are as far.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

from pytest_vmstorage.analysis.gate.kinds import Kind
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.stats import Interval
from pytest_vmstorage.units import parse_percent


class InterimLook(BaseModel):
    """So many pairs may decide; `pass_risk` is how likely a loss of just the tolerated size passes there."""

    model_config = ConfigDict(frozen=True)

    pairs: int
    pass_risk: float


def _looks(*looks: tuple[int, float]) -> tuple[InterimLook, ...]:
    return tuple(InterimLook(pairs=pairs, pass_risk=pass_risk) for pairs, pass_risk in looks)


class Loss(BaseModel):
    """The tolerated loss, a fraction, and the rules by which it is found or excluded.

    Pairs are looked at in `screening`. A cell is SUSPECT where p < `suspicion`, at the last look `last_suspicion`, and
    the estimate is at least half of the tolerated loss: a suspect costs fresh pairs and no false alarm, and after the
    last look there is no other chance. It passes where the tolerated loss is excluded, but not before the last look
    with an estimate of half of it or more. Suspects are looked at again in `confirmation`, with fresh pairs, and
    `false_alarm` is the risk that any unchanged cell of the whole job is REGRESSED: its looks have equal parts of it,
    its suspects share each by Holm. The risks of passing with just the tolerated loss add up over all looks to at most
    `false_pass`: 6 pairs cannot exclude anything with less than 1/64. docs/gate.md has the rates that were simulated.
    Raises ConfigError, one sentence, for rules that cannot hold.
    """

    model_config = ConfigDict(frozen=True)

    tolerated: float = 0.10
    screening: tuple[InterimLook, ...] = _looks((6, 0.016), (12, 0.010), (18, 0.006), (24, 0.006))
    confirmation: tuple[InterimLook, ...] = _looks((12, 0.002), (24, 0.003), (48, 0.003), (72, 0.004))
    suspicion: float = 0.025
    last_suspicion: float = 0.10
    # 0.05 is promised; a fifth is kept back, as real pairs may depend on each other more than simulated ones do
    false_alarm: float = 0.04
    false_pass: float = 0.05

    @model_validator(mode="after")
    def _can_hold(self) -> Self:
        for flaw, hint in self._flaws():
            raise ConfigError(f"this rule of tolerated loss cannot hold: {flaw}.", hint=hint)
        return self

    def _flaws(self) -> Sequence[tuple[str, str]]:
        flaws: list[tuple[str, str]] = []
        if not 0 < self.tolerated < math.inf:
            flaws.append((f"the tolerated loss is {self.tolerated:g}", "Give a fraction above 0, such as 0.10."))
        for name, looks in (("screening", self.screening), ("confirmation", self.confirmation)):
            counts = [look.pairs for look in looks]
            if not counts or counts[0] < 1 or sorted(set(counts)) != counts:
                flaws.append((f"{name} looks at {counts} pairs", "Give numbers of pairs that rise."))
            elif 0.5 ** counts[0] >= self.suspicion and name == "screening":
                flaws.append(
                    (f"{counts[0]} pairs never reach p < {self.suspicion:g}", "Let the first look have more pairs.")
                )
        spent = math.fsum(look.pass_risk for look in (*self.screening, *self.confirmation))
        # as exactly as the sum of such fractions is known
        if spent > self.false_pass + 1e-9:
            flaws.append((f"its looks spend {spent:g} of {self.false_pass:g} false passes", "Let them spend less."))
        return flaws

    def shared(self, parts: int) -> Self:
        """The rules for one of so many parts that a job is judged in: none of them knows the others' suspects."""
        return self.model_copy(update={"false_alarm": self.false_alarm / parts})

    @property
    def limit(self) -> float:
        """The tolerated loss as a shift of logarithms."""
        return math.log1p(self.tolerated)

    @property
    def half(self) -> float:
        """Half of the tolerated loss as a shift of logarithms: a smaller estimate is no regression, however sure."""
        return math.log1p(self.tolerated / 2)

    def suspicion_at(self, look: InterimLook) -> float:
        """Below which p-value that look of the screening suspects a cell."""
        return self.last_suspicion if look == self.screening[-1] else self.suspicion

    @property
    def alarm_risk(self) -> float:
        """The risk of a false alarm that one look of the confirmation has, for the whole job."""
        return self.false_alarm / len(self.confirmation)


class Finding(BaseModel):
    """Where a cell stands and why; `reason` is the sentence to show.

    `count` pairs or days were looked at. Fractions of the time per operation, negative when faster: `loss` is the
    estimate, `interval` its 95 % interval, `visible` the smallest loss that so many see in four of five cases; None
    where there are too few to say. `p` is for any loss at all, in a confirmation as Holm counts it among its suspects.
    `needed` is how many would see the tolerated loss, None also where nobody would run so many; `wants` is how many
    more there are to be before the next look, 0 where there is none.
    """

    model_config = ConfigDict(frozen=True)

    kind: Kind
    count: int
    reason: str
    loss: float | None = None
    interval: Interval | None = None
    p: float | None = None
    visible: float | None = None
    needed: int | None = None
    wants: int = 0


def at_least_suspect(finding: Finding, policy: Loss, *, was_suspect: bool = False) -> Finding:
    """The finding, but SUSPECT where nothing was decided and the estimate is above what is tolerated.

    Whatever keeps it from being decided (few days, rounds that drift, no spread), green it is not. One that was a
    suspect before stays one from half of what is tolerated on: fresh figures neither found nor excluded the loss.
    """
    least = policy.half if was_suspect else policy.limit
    if finding.kind is not Kind.INCONCLUSIVE or finding.loss is None or math.log1p(finding.loss) <= least:
        return finding
    size = "half of " if was_suspect else ""
    reason = f"{finding.reason}; it looks slower by more than {size}the tolerated {percent(policy.limit)}"
    return finding.model_copy(update={"kind": Kind.SUSPECT, "reason": reason})


def log_seconds(metric: Metric, values: Sequence[float]) -> tuple[float, ...]:
    """A metric's figures as logarithms of seconds per operation: lower is better, equal factors are equal steps.

    A metric that is neither a rate nor a time has what it counts in place of seconds, or its inverse where more is
    better. Raises ValueError for a figure that is not above 0.
    """
    return tuple(_log(metric, value) for value in values)


def differences(metric: Metric, before: Sequence[float], after: Sequence[float]) -> tuple[float, ...]:
    """The loss of each pair as a shift of logarithms, above 0 where `after` is slower; one figure each for each pair.

    Raises ValueError as `log_seconds` does, and where there are not as many of both.
    """
    paired = zip(log_seconds(metric, before), log_seconds(metric, after), strict=True)
    return tuple(now - then for then, now in paired)


def _log(metric: Metric, value: float) -> float:
    if not 0 < value < math.inf:
        raise ValueError(f"{metric.name} = {value} {metric.unit} has no logarithm")
    return math.log(value) if metric.better == "lower" else -math.log(value)


def percent(shift: float, sign: str = "") -> str:
    """A shift of logarithms as people say it: "12.4 %", with "+" as `sign` also "+12.4 %"; no more than hundredths."""
    # a zero has no sign of its own
    value = round(math.expm1(shift) * 100, 2) + 0.0
    return f"{value:{sign}.0f} %" if abs(value) >= 100 else f"{value:{sign}.3g} %"


def change(shift: float, interval: Interval | None) -> str:
    """A shift with its 95 % interval, as a clause."""
    told = f"{percent(shift, '+')} time per operation"
    if interval is None:
        return told
    return f"{told} (95 % interval {percent(interval.low, '+')} to {percent(interval.high, '+')})"


def p_text(p: float) -> str:
    """A p-value in words: "p = 0.016", or that it is smaller than a computer's fractions tell from 0."""
    return f"p = {p:.2g}" if p > 1e-15 else "p < 1e-15"


def above(shift: float, policy: Loss) -> str:
    """How a loss that was found lies to the tolerated one: half of that is enough where it is sure."""
    size = "above the" if shift > policy.limit else "more than half of the"
    return f"{size} tolerated {percent(policy.limit)}"


def fractions(interval: Interval | None) -> Interval | None:
    """An interval of shifts as one of fractions."""
    return interval and Interval(math.expm1(interval.low), math.expm1(interval.high))


HISTORY = "history"
"""In place of a percentage: the smallest loss that the cell's saved days can show."""

Undecided = Literal["fail", "warn"]

Unsure = Literal["fail", "suspect", "warn"]
"""Which tests without a decision fail: all, those that look slower than tolerated, or none."""


class Tolerated(BaseModel):
    """A tolerated loss: a fraction of the time per operation, or None where a cell's saved days tell it."""

    model_config = ConfigDict(frozen=True)

    fraction: float | None = 0.10

    def __str__(self) -> str:
        return HISTORY if self.fraction is None else f"{self.fraction * 100:g} %"


def parse_tolerated(text: object, where: str) -> Tolerated:
    """The tolerated loss in a text such as "10%", or "history"; raises ConfigError that names `where` it stands."""
    if text == HISTORY:
        return Tolerated(fraction=None)
    hint = f'Write for example "10%", or "{HISTORY}" for what saved days can show.'
    try:
        fraction = parse_percent(text)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.what}", hint=hint) from None
    return Tolerated(fraction=fraction)


class Scope(BaseModel):
    """Which cells something is of: a pattern of node ids and one of workloads, with `*` and `?` as in a shell.

    `where` is the place in the file that says so, for messages.
    """

    model_config = ConfigDict(frozen=True)

    cell: str
    workload: str = "*"
    where: str = ""

    def covers(self, nodeid: str, workload: str) -> bool:
        """Whether it is of that workload in that test."""
        return _matches(nodeid, self.cell) and _matches(workload, self.workload)


class ToleranceRule(Scope):
    """What some cells may lose."""

    tolerated: Tolerated


class Waiver(Scope):
    """A loss that somebody answers for until a day: `expires` is the last one on which it is waived."""

    reason: str
    owner: str
    expires: datetime.date

    def has_expired(self, today: datetime.date) -> bool:
        """Whether that day is past."""
        return today > self.expires

    def __str__(self) -> str:
        return f"waived by {self.owner} until {self.expires}: {self.reason}"


class GatePolicy(BaseModel):
    """How a run is judged: tolerated losses, waivers, and what becomes of what cannot be decided.

    `day_spread` is the standard deviation of a day's figure, a fraction, where the user states it. `inconclusive`
    says which cells without a decision fail, `missing` whether one does that the run lacks. `today` is when it is
    judged. `parts` is in how many parts, a host each: every one may spend an equal part of the risk of a false alarm.
    """

    model_config = ConfigDict(frozen=True)

    tolerated: Tolerated = Tolerated()
    day_spread: float | None = None
    rules: tuple[ToleranceRule, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    inconclusive: Unsure = "suspect"
    missing: Undecided = "warn"
    today: datetime.date = datetime.date.min
    parts: int = 1

    def tolerated_by(self, nodeid: str, workload: str, marked: str = "") -> Tolerated:
        """What that cell may lose: as the file says of it, else as its test is `marked`, else as all."""
        for rule in self.rules:
            if rule.covers(nodeid, workload):
                return rule.tolerated
        return parse_tolerated(marked, "the mark tolerated_loss") if marked else self.tolerated

    def idle(self, nodeids: Collection[str]) -> tuple[str, ...]:
        """A clause for each rule and waiver whose pattern matches none of these tests."""
        return tuple(
            f"{one.where}: cell = {one.cell!r} matches no test"
            for one in (*self.rules, *self.waivers)
            if not any(_matches(nodeid, one.cell) for nodeid in nodeids)
        )

    def waiver_of(self, nodeid: str, workload: str) -> Waiver | None:
        """The waiver of that cell that holds, or None; of several the one that holds longest."""
        held = [one for one in self.waivers if one.covers(nodeid, workload) and not one.has_expired(self.today)]
        return max(held, key=lambda one: one.expires) if held else None

    def expired_of(self, nodeid: str, workload: str) -> Waiver | None:
        """The waiver of that cell that holds no more, where none does any more; else None."""
        ended = [one for one in self.waivers if one.covers(nodeid, workload) and one.has_expired(self.today)]
        return ended[-1] if ended and self.waiver_of(nodeid, workload) is None else None


def _matches(text: str, pattern: str) -> bool:
    # a node id has brackets of its own, which are no set of characters
    return fnmatchcase(text, pattern.replace("[", "[[]"))

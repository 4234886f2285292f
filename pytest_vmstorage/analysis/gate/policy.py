"""The rules of the gate: the loss that a cell may have, the looks that decide about it, waivers, and a finding; pure.

A loss is a fraction of the time per operation: with 0.10 an operation takes a tenth longer, whichever way the metric
itself is better. Inside the gate a loss is a shift of logarithms, because noise of storage is a factor: half and twice
the time are equally far.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import ClassVar, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, model_validator

from pytest_vmstorage.analysis.calibration import DaySpread
from pytest_vmstorage.analysis.gate.kinds import Kind
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.stats import Interval
from pytest_vmstorage.units import parse_percent


class InterimLook(NamedTuple):
    """A number of pairs that may decide; `pass_risk` is the risk that a loss of just the tolerated size passes then."""

    pairs: int
    pass_risk: float


class Loss(BaseModel):
    """The tolerated loss, a fraction, and the rules by which the gate finds or excludes it.

    `screening` looks at the pairs first. A cell is SUSPECT where p < `suspicion`, at the last look `last_suspicion`,
    and the estimate is at least half of the tolerated loss: a suspect costs fresh pairs and no false alarm, and after
    the last look there is no other chance. A cell passes where the tolerated loss is excluded; with an estimate of half
    of it or more only at the last look. `confirmation` looks at fresh pairs of the suspects. `false_alarm` is the risk
    that any unchanged cell of the whole job is REGRESSED: the looks have equal parts of it, the suspects share each
    part by Holm. The risks of passing with just the tolerated loss add up over all looks to at most `false_pass`:
    6 pairs cannot exclude anything with less than 1/64. docs/explanation/gate.md has the rates that were simulated.
    Raises ConfigError, one sentence, for rules that cannot hold.
    """

    model_config = ConfigDict(frozen=True)

    tolerated: float = 0.10
    screening: tuple[InterimLook, ...] = tuple(map(InterimLook, (6, 12, 18, 24), (0.016, 0.010, 0.006, 0.006)))
    confirmation: tuple[InterimLook, ...] = tuple(map(InterimLook, (12, 24, 48, 72), (0.002, 0.003, 0.003, 0.004)))
    suspicion: float = 0.025
    last_suspicion: float = 0.10
    # 0.05 is promised; a fifth is kept back, as real pairs may depend on each other more than simulated ones do
    false_alarm: float = 0.04
    false_pass: float = 0.05

    @model_validator(mode="after")
    def _can_hold(self) -> Self:
        for flaw, hint in self._flaws():
            raise ConfigError(f"this rule of tolerated loss cannot hold: {flaw}.", hint=hint, code="VM802")
        return self

    def _flaws(self) -> Iterator[tuple[str, str]]:
        if not 0 < self.tolerated < math.inf:
            yield f"the tolerated loss is {self.tolerated:g}", "Give a fraction above 0, such as 0.10."
        for name, looks in (("screening", self.screening), ("confirmation", self.confirmation)):
            counts = [look.pairs for look in looks]
            if not counts or counts[0] < 1 or sorted(set(counts)) != counts:
                yield f"{name} looks at {counts} pairs", "Give numbers of pairs that rise."
            elif 0.5 ** counts[0] >= self.suspicion and name == "screening":
                yield f"{counts[0]} pairs never reach p < {self.suspicion:g}", "Let the first look have more pairs."
        spent = math.fsum(look.pass_risk for look in (*self.screening, *self.confirmation))
        # the sum of such fractions is not exact
        if spent > self.false_pass + 1e-9:
            yield f"its looks spend {spent:g} of {self.false_pass:g} false passes", "Let them spend less."

    def shared(self, parts: int) -> Self:
        """The rules for one of `parts` parts of a job, which are judged apart: no part knows the others' suspects."""
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
        """The p-value below which that look of the screening suspects a cell."""
        return self.last_suspicion if look == self.screening[-1] else self.suspicion

    @property
    def alarm_risk(self) -> float:
        """The risk of a false alarm that one look of the confirmation has, for the whole job."""
        return self.false_alarm / len(self.confirmation)


class Finding(BaseModel):
    """The result for a cell; `reason` is the sentence to show.

    `count` is the number of pairs or days looked at. Fractions of the time per operation, negative when faster: `loss`
    is the estimate, `interval` its 95 % interval, `visible` the smallest loss that this number shows in four of five
    cases; None where there are too few pairs or days. `p` is for any loss at all, in a confirmation after Holm's
    correction. `needed` is the number that would show the tolerated loss, None also where nobody would run so many;
    `wants` is the number that the next look still needs, 0 where there is no next look.
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
    """The finding, but SUSPECT where nothing was decided and the estimate is above the tolerated loss.

    Such a cell is not green, whatever keeps it from being decided (few days, rounds that drift, no spread). A cell that
    was a suspect before stays one from half of the tolerated loss on: fresh figures neither found nor excluded it.
    """
    least = policy.half if was_suspect else policy.limit
    if finding.kind is not Kind.INCONCLUSIVE or finding.loss is None or math.log1p(finding.loss) <= least:
        return finding
    size = "half of " if was_suspect else ""
    reason = f"{finding.reason}; it looks slower by more than {size}the tolerated {percent(policy.limit)}"
    return finding.model_copy(update={"kind": Kind.SUSPECT, "reason": reason})


def log_seconds(metric: Metric, values: Sequence[float]) -> tuple[float, ...]:
    """A metric's figures as logarithms of seconds per operation: lower is better, equal factors are equal steps.

    For a metric that is neither a rate nor a time its own unit takes the place of seconds, inverted where more is
    better. Raises ValueError for a figure that is not above 0.
    """
    for value in values:
        if not 0 < value < math.inf:
            raise ValueError(f"{metric.name} = {value} {metric.unit} has no logarithm")
    if metric.better == "lower":
        return tuple(map(math.log, values))
    return tuple([-math.log(value) for value in values])


def differences(metric: Metric, before: Sequence[float], after: Sequence[float]) -> tuple[float, ...]:
    """The loss of each pair as a shift of logarithms, above 0 where `after` is slower.

    Raises ValueError as `log_seconds` does, and where both sides differ in length.
    """
    paired = zip(log_seconds(metric, before), log_seconds(metric, after), strict=True)
    return tuple(now - then for then, now in paired)


def percent(shift: float, sign: str = "") -> str:
    """A shift of logarithms as "12.4 %", with "+" as `sign` also "+12.4 %"; no more digits than hundredths."""
    # adding 0.0 turns -0.0 into 0.0
    value = round(math.expm1(shift) * 100, 2) + 0.0
    return f"{value:{sign}.0f} %" if abs(value) >= 100 else f"{value:{sign}.3g} %"


def change(shift: float, interval: Interval | None) -> str:
    """A shift with its 95 % interval, as a clause."""
    text = f"{percent(shift, '+')} time per operation"
    if interval is None:
        return text
    return f"{text} (95 % interval {percent(interval.low, '+')} to {percent(interval.high, '+')})"


def p_text(p: float) -> str:
    """A p-value as "p = 0.016"; below the resolution of floating point as "p < 1e-15"."""
    return f"p = {p:.2g}" if p > 1e-15 else "p < 1e-15"


def above(shift: float, policy: Loss) -> str:
    """The clause that compares a sure loss with the tolerated one, of which half is enough for a regression."""
    size = "above the" if shift > policy.limit else "more than half of the"
    return f"{size} tolerated {percent(policy.limit)}"


def fractions(interval: Interval | None) -> Interval | None:
    """An interval of shifts as one of fractions."""
    return interval and Interval(math.expm1(interval.low), math.expm1(interval.high))


GATE_FILE = "vmstorage-gate.toml"
"""The gate file of a project, in its root folder."""

HISTORY = "history"
"""In place of a percentage: the smallest loss that the cell's saved days can show."""

Undecided = Literal["fail", "warn"]

Unsure = Literal["fail", "suspect", "warn"]
"""Which tests without a decision fail: all, those that look slower than tolerated, or none."""


class Tolerated(BaseModel):
    """A tolerated loss: a fraction of the time per operation, or None where the cell's saved days give it."""

    model_config = ConfigDict(frozen=True)

    fraction: float | None = 0.10

    def __str__(self) -> str:
        return HISTORY if self.fraction is None else f"{self.fraction * 100:g} %"


def parse_tolerated(text: object, where: str) -> Tolerated:
    """The tolerated loss in a text such as "10%", or "history"; raises ConfigError that names its place, `where`."""
    if text == HISTORY:
        return Tolerated(fraction=None)
    try:
        return Tolerated(fraction=parse_percent(text))
    except ConfigError as error:
        hint = f'Write for example "10%", or "{HISTORY}" for what saved days can show.'
        raise ConfigError(f"{where}: {error.what}", hint=hint, code=error.code) from None


class Scope(BaseModel):
    """The cells that a rule covers: a pattern of node ids and one of workloads, with `*` and `?` as in a shell.

    `where` is the rule's place in its file, for messages.
    """

    model_config = ConfigDict(frozen=True)

    cell: str
    workload: str = "*"
    where: str = ""

    def covers(self, nodeid: str, workload: str) -> bool:
        """Whether the rule covers that workload in that test."""
        return matches(nodeid, self.cell) and matches(workload, self.workload)


class ToleranceRule(Scope):
    """The loss that some cells may have."""

    tolerated: Tolerated


class _Answered(Scope):
    """A rule for which its owner answers until a day: `expires` is the last day on which it holds."""

    _done: ClassVar[str]

    reason: str
    owner: str
    expires: datetime.date

    def has_expired(self, today: datetime.date) -> bool:
        """Whether that day is past."""
        return today > self.expires

    def __str__(self) -> str:
        return f"{self._done} by {self.owner} until {self.expires}: {self.reason}"


class Waiver(_Answered):
    """A loss for which its owner answers until a day."""

    _done = "waived"


class AcceptedLevel(_Answered):
    """A change in the history for which its owner answers until a day: the level that began on the day `since`.

    It lapses after the day `expires`, and when the level comes back.
    """

    _done = "accepted"

    since: datetime.date


class HistoryRules(BaseModel):
    """The changes that a history tells: of at least the fraction `least` of the time per operation.

    None stands for half of what the cell may lose. `floors` are the smallest changes by metric, in its own unit.
    """

    model_config = ConfigDict(frozen=True)

    least: float | None = None
    floors: Mapping[str, float] = {}


class GatePolicy(BaseModel):
    """The rules for a run: tolerated losses, waivers, and the outcome of tests that cannot be decided.

    `day_spread` is the standard deviation of a day's figure, a fraction, where the user states it; `day_spreads` are
    those of hosts that were calibrated on several days, by their names, where the user states none. `inconclusive`
    says which cells without a decision fail, `missing` whether a cell fails that the run lacks. `today` is the day of
    the judgement. `parts` is the number of hosts that judge a part of the job each, with an equal part of the risk of a
    false alarm. `levels` are changes that were accepted, and `history` the rules of the baseline's history.
    """

    model_config = ConfigDict(frozen=True)

    tolerated: Tolerated = Tolerated()
    day_spread: float | None = None
    day_spreads: Mapping[str, DaySpread] = {}
    rules: tuple[ToleranceRule, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    levels: tuple[AcceptedLevel, ...] = ()
    history: HistoryRules = HistoryRules()
    inconclusive: Unsure = "suspect"
    missing: Undecided = "warn"
    today: datetime.date = datetime.date.min
    parts: int = 1

    def spread_on(self, host: str) -> tuple[float, str] | None:
        """The standard deviation of a day's figure on that host, and who says so; None where nobody does."""
        if self.day_spread is not None:
            return self.day_spread, "as stated"
        found = self.day_spreads.get(host)
        return (found.upper, f"at most, as {found.days} days of calibrations say") if found is not None else None

    def tolerated_by(self, nodeid: str, workload: str, marked: str = "") -> Tolerated:
        """The loss that the cell may have: by the first rule that covers it, else by its test's mark, else for all."""
        for rule in self.rules:
            if rule.covers(nodeid, workload):
                return rule.tolerated
        return parse_tolerated(marked, "the mark tolerated_loss") if marked else self.tolerated

    def idle(self, nodeids: Collection[str]) -> tuple[str, ...]:
        """A clause for each rule, waiver and accepted level whose pattern matches none of these tests."""
        return tuple(
            f"{one.where}: cell = {one.cell!r} matches no test"
            for one in (*self.rules, *self.waivers, *self.levels)
            if not any(matches(nodeid, one.cell) for nodeid in nodeids)
        )

    def waiver_of(self, nodeid: str, workload: str) -> Waiver | None:
        """The waiver that holds for the cell, or None; of several the one that expires last."""
        held = [one for one in self.waivers if one.covers(nodeid, workload) and not one.has_expired(self.today)]
        return max(held, key=lambda one: one.expires, default=None)

    def expired_of(self, nodeid: str, workload: str) -> Waiver | None:
        """The waiver of the cell that has expired, or None also where another one still holds."""
        ended = [one for one in self.waivers if one.covers(nodeid, workload) and one.has_expired(self.today)]
        return ended[-1] if ended and self.waiver_of(nodeid, workload) is None else None


def matches(text: str, pattern: str) -> bool:
    """Whether the pattern with `*` and `?` matches a node id, or another text of a cell."""
    # brackets are part of a node id and do not begin a set of characters
    return fnmatchcase(text, pattern.replace("[", "[[]"))

"""How much of its speed a cell may lose, and what is waived for a while; pure."""

from __future__ import annotations

import datetime
from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.units import parse_percent

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


class Rule(Scope):
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
    rules: tuple[Rule, ...] = ()
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

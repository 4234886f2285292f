"""The calls of `measure` of each test, and the rounds that each call has so far; kept over all runs of the test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal, TypeVar

import pytest
from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ConfigError, VmStorageError
from pytest_vmstorage.measure.rounds import Rounds
from pytest_vmstorage.measure.runner import Measuring
from pytest_vmstorage.plugin.stash import CONFIG, PASS
from pytest_vmstorage.results.run import Ending, Measurement
from pytest_vmstorage.workloads.base import Workload

Made = TypeVar("Made")

Side = Literal["own", "other"]
"""Which side of a pair: the test's own cell, or what --vm-against makes of it."""

Key = tuple[str, Side]
"""A test by its node id, and a side of it."""


class Pass(BaseModel):
    """What a call of `measure` does that has no full measurement yet, while the test's function is entered.

    - "learn": it notes its workload and ends the function; its rounds are taken later, without the function.
    - "round": it takes one round and ends the function.
    - "report": it takes all rounds that remain; a call that nobody knew of ends the function, where others take turns.

    `cell` is that of the side; `order` is what rows say of rounds that were taken in turns.
    """

    model_config = ConfigDict(frozen=True)

    kind: Literal["learn", "round", "report"] = "report"
    side: Side = "own"
    order: str = ""
    cell: StorageConfig


def pass_of(item: pytest.Item) -> Pass:
    """The pass that the test is run in: outside of all others the one that is reported."""
    return item.stash.get(PASS, None) or Pass(cell=item.stash[CONFIG])


class Turn:
    """One call of `measure` in a test, however often that is entered: its rounds, and the error that ended them.

    `cell` is the one that it measures in. `is_late` says that its time is over, `is_settled` that the test has seen its
    figures. `attempt` is 2 or more where a plugin that repeats failed tests made the test measure anew.
    """

    def __init__(
        self,
        nodeid: str,
        rule: Rounds,
        measuring: Measuring,
        tolerated: str,
        notes: tuple[str, ...],
        cell: StorageConfig,
        attempt: int = 1,
    ) -> None:
        self.rule = rule
        self.cell = cell
        self._attempt = attempt
        self.measuring = measuring
        self.error: VmStorageError | None = None
        self.is_late = False
        self.is_settled = False
        self._fresh_from: int | None = None
        self._in_turns = 0
        self._order = ""
        self._said = {"nodeid": nodeid, "tolerated": tolerated, "notes": notes}

    @property
    def rounds(self) -> int:
        """The number of rounds so far."""
        return len(self.measuring.samples)

    @property
    def has_fresh_rounds(self) -> bool:
        """Whether rounds in fresh guests were asked for."""
        return self._fresh_from is not None

    @property
    def ended(self) -> Ending | None:
        """The reason why no further round is wanted, None while one is."""
        measuring = self.measuring
        if self.is_late:
            return Ending(reason="time limit")
        return self.rule.ended(measuring.values, measuring.seconds, has_room=measuring.has_room())

    def want(self, count: int, *, fresh: bool = False) -> None:
        """So many rounds more are wanted than there are; `fresh` ones are the first in guests of their own."""
        self.rule = Rounds(count=self.rounds + count)
        if fresh:
            self._fresh_from = self.rounds

    def due(self, at: Pass) -> Iterator[int]:
        """The numbers of rounds to take at once: a 1 in a pass of one round, else until no round is wanted any more."""
        while self.ended is None:
            is_single = at.kind == "round" or self.rule.count is None
            yield 1 if is_single else self.rule.least - self.rounds
            if at.kind == "round":
                self._in_turns += 1
                self._order = at.order
                return

    def measurement(self, *, interrupted: bool = False) -> Measurement:
        """All rounds so far, of which there is at least one."""
        rest = self.rounds - self._in_turns
        order = self._order if self._in_turns else "in a row"
        order += f", the last {rest} in a row" if rest and self._in_turns else ""
        order += f", measured anew in attempt {self._attempt}" if self._attempt > 1 else ""
        order += ", interrupted" if interrupted else ""
        fresh = 0 if self._fresh_from is None else self.rounds - self._fresh_from
        return self.measuring.measurement(order, self.ended).model_copy(update={"fresh": fresh, **self._said})


class Turns:
    """The calls of all tests, in the order in which a test makes them.

    A call of `measure` has a turn; one of `measure_image` is measured whole when a test first comes to it.
    """

    def __init__(self) -> None:
        self._turns: dict[Key, list[Turn]] = {}
        self._whole: dict[Key, list[Measurement]] = {}
        self._places: Counter[tuple[str, Key]] = Counter()
        self._attempts: Counter[Key] = Counter()

    def forget(self, key: Key) -> int:
        """Forget all that the test measured, since it is to be measured anew; returns how often that happened."""
        self._turns.pop(key, None)
        self._whole.pop(key, None)
        self._attempts[key] += 1
        return self._attempts[key]

    def begin(self, key: Key) -> None:
        """The test begins anew: its next call is its first."""
        self._places["turn", key] = self._places["whole", key] = 0

    def _next(self, kind: str, key: Key, calls: dict[Key, list[Made]], make: Callable[[], Made]) -> Made:
        made, place = calls.setdefault(key, []), self._places[kind, key]
        if place == len(made):
            made.append(make())
        self._places[kind, key] += 1
        return made[place]

    def whole(self, key: Key, make: Callable[[], Measurement]) -> Measurement:
        """The test's next measurement that takes no turns."""
        return self._next("whole", key, self._whole, make)

    def call(self, key: Key, workload: Workload, make: Callable[[], Turn]) -> Turn:
        """The turn of the test's next call; raises ConfigError where that call measured something else before."""
        found = self._next("turn", key, self._turns, make)
        if found.measuring.workload != workload:
            raise ConfigError(
                f"This test was to measure {found.measuring.workload.label}, and now measures {workload.label} in its"
                " place. It is entered once to learn what it measures, before its rounds are taken in turns, and once"
                " with all of them; it must measure the same each time.",
                hint="Decide what to measure before the test, or take its rounds in a row: --vm-without=turns.",
                code="VM326",
            )
        return found

    def attempt(self, key: Key) -> int:
        """Which attempt at the test this is, from 1."""
        return self._attempts[key] + 1

    def of(self, nodeid: str, side: Side = "own") -> Sequence[Turn]:
        """The test's calls on that side."""
        return self._turns.get((nodeid, side), ())

    def wants(self, nodeid: str, side: Side = "own") -> bool:
        """Whether a further round is wanted of the test, as far as it came."""
        turns = self.of(nodeid, side)
        return not self.failed(nodeid, side) and any(turn.ended is None for turn in turns)

    def is_complete(self, nodeid: str) -> bool:
        """Whether the test came to measure, and nothing that it measured wants a further round."""
        return bool(self.of(nodeid)) and not self.wants(nodeid)

    def failed(self, nodeid: str, side: Side = "own") -> bool:
        """Whether a round of the test failed."""
        return any(turn.error for turn in self.of(nodeid, side))

    def rounds(self, nodeid: str, side: Side = "own") -> int:
        """The number of rounds of all the test's calls together."""
        return sum(turn.rounds for turn in self.of(nodeid, side))

    def settle(self) -> None:
        """Calls that have their rounds get no more: their tests see these."""
        for turns in self._turns.values():
            for turn in turns:
                turn.is_settled = turn.ended is not None

    def end(self, failed: Collection[str] = ()) -> None:
        """No further rounds are taken of what has some, such as where the other side of a pair cannot be had.

        But of tests that `failed` themselves: they are to fail where it is reported, or to take their rounds there.
        """
        for (nodeid, side), turns in self._turns.items():
            for turn in turns if side == "other" or nodeid not in failed else ():
                if turn.rounds and turn.ended is None:
                    turn.want(0)

    def pairs(self) -> Iterator[tuple[str, Turn, Turn | None]]:
        """Each turn that has rounds, with its test and with the same call on the other side where there is one."""
        for (nodeid, side), turns in self._turns.items():
            others = self.of(nodeid, "other")
            for place, turn in enumerate(turns if side == "own" else ()):
                if turn.rounds and not turn.error:
                    yield nodeid, turn, others[place] if place < len(others) else None

    def others(self, nodeid: str) -> list[Measurement]:
        """The test's measurements on its other side."""
        return [turn.measurement() for turn in self.of(nodeid, "other") if turn.rounds]

    def so_far(self, nodeid: str) -> list[Measurement]:
        """The test's measurements, should it be interrupted now."""
        return [turn.measurement(interrupted=True) for turn in self.of(nodeid) if turn.rounds and not turn.error]

    def unreported(self, reported: Collection[str]) -> list[Measurement]:
        """The measurements of tests that are not among those reported, their own side only."""
        tests = [nodeid for nodeid, side in self._turns if side == "own" and nodeid not in reported]
        return [measured for nodeid in tests for measured in self.so_far(nodeid)]

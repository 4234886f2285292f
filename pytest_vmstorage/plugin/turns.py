"""What each test measures while cells take turns: the test is run again for each turn, its rounds are kept here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Generic, TypeVar

import pytest

from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.errors import ConfigError, VmStorageError
from pytest_vmstorage.results import Measurement
from pytest_vmstorage.runner import Measuring
from pytest_vmstorage.stopping import Ending, Rounds
from pytest_vmstorage.workloads.base import Workload

Made = TypeVar("Made")

OTHER = " (other side)"
"""Behind a node id: the test's turns with what the recipe makes of its cell."""


def alike(item: pytest.Item, coming: Iterable[tuple[pytest.Item, StorageConfig]]) -> frozenset[StorageConfig]:
    """The cells among those to come whose next test is the one at hand, whatever its arguments: each needs the same."""
    first: dict[StorageConfig, pytest.Item] = {}
    for one, config in coming:
        first.setdefault(config, one)
    function = getattr(item, "function", None)
    return frozenset(config for config, one in first.items() if function and getattr(one, "function", None) is function)


class Turn:
    """One call of `measure` in a test, over all runs of the test: its rounds so far, and the error that ended them."""

    def __init__(self, rule: Rounds, measuring: Measuring, tolerated: str = "", notes: tuple[str, ...] = ()) -> None:
        self.rule = rule
        self.measuring = measuring
        self.error: VmStorageError | None = None
        self.in_turns = 0
        self.fresh_from: int | None = None
        self.is_late = False
        self._said = {"tolerated": tolerated, "notes": notes}

    def want(self, count: int) -> None:
        """So many rounds more are wanted than there are."""
        self.rule = Rounds(count=len(self.measuring.samples) + count)

    def measurement(self, nodeid: str, turns: str = "", *, interrupted: bool = False) -> Measurement:
        """All rounds so far, of which there is at least one; `turns` says how those taken in turns lie among others."""
        order = f"{self._order(turns)}, interrupted" if interrupted else self._order(turns)
        fresh = 0 if self.fresh_from is None else len(self.measuring.samples) - self.fresh_from
        update = {"nodeid": nodeid, "fresh": fresh, **self._said}
        return self.measuring.measurement(order, self.ended).model_copy(update=update)

    def _order(self, turns: str) -> str:
        if not self.in_turns:
            return "in a row"
        rest = len(self.measuring.samples) - self.in_turns
        return f"{turns}, the last {rest} in a row" if rest else turns

    @property
    def ended(self) -> Ending | None:
        """Why no further round is wanted, None while one is."""
        measuring = self.measuring
        if self.is_late:
            return Ending(reason="time limit")
        return self.rule.ended(measuring.values, measuring.seconds, has_room=measuring.has_room())


class Calls(Generic[Made]):
    """What each test made by its calls, by node id, in the order in which the test makes them; kept over its runs."""

    def __init__(self) -> None:
        self.made: dict[str, list[Made]] = {}
        self._place: dict[str, int] = {}

    def begin(self, nodeid: str) -> None:
        """The test begins anew: its next call is its first."""
        self._place[nodeid] = 0

    def next(self, nodeid: str, make: Callable[[], Made]) -> Made:
        """What the test's next call made in the first run that came to it."""
        made, place = self.made.setdefault(nodeid, []), self._place.get(nodeid, 0)
        if place == len(made):
            made.append(make())
        self._place[nodeid] = place + 1
        return made[place]


class Turns:
    """All that tests measure: by rounds in turns, and as a whole in the first run of the test that comes to it."""

    def __init__(self) -> None:
        self._calls: Calls[Turn] = Calls()
        self._whole: Calls[Measurement] = Calls()

    def begin(self, nodeid: str) -> None:
        """The test begins anew."""
        self._calls.begin(nodeid)
        self._whole.begin(nodeid)

    def whole(self, nodeid: str, make: Callable[[], Measurement]) -> Measurement:
        """The test's next measurement that takes no turns."""
        return self._whole.next(nodeid, make)

    def call(self, nodeid: str, workload: Workload, make: Callable[[], Turn]) -> Turn:
        """The test's next one that does; raises ConfigError where it measured something else in its place before."""
        found = self._calls.next(nodeid, make)
        if found.measuring.workload != workload:
            raise ConfigError(
                f"This test measured {found.measuring.workload.label} in its first run, and now {workload.label} in its"
                " place; it is run once for each round, and must measure the same each time.",
                hint="Decide what to measure before the test, or take its rounds in a row: --vm-without=turns.",
            )
        return found

    def wants(self, nodeid: str) -> bool:
        """Whether a further round is wanted of the test, as far as it came."""
        calls = self._calls.made.get(nodeid, ())
        return not any(one.error for one in calls) and any(one.ended is None for one in calls)

    def end(self, failed: Collection[str] = ()) -> None:
        """No further rounds are taken of what has some, such as where the other side of a pair cannot be had.

        But of tests that `failed` themselves: they are to fail where it is reported, or to take their rounds there.
        """
        for nodeid, calls in self.by_test():
            for one in () if nodeid in failed else calls:
                if one.measuring.samples and one.ended is None:
                    one.want(0)

    def rounds(self, nodeid: str) -> int:
        """How many rounds the test has, of all that it measures together."""
        return sum(len(one.measuring.samples) for one in self._calls.made.get(nodeid, ()))

    def is_complete(self, nodeid: str) -> bool:
        """Whether the test came to measure, and nothing that it measured wants a further round."""
        return bool(self._calls.made.get(nodeid)) and not self.wants(nodeid)

    def failed(self, nodeid: str) -> bool:
        """Whether a round of the test failed."""
        return any(one.error for one in self._calls.made.get(nodeid, ()))

    def of(self, nodeid: str) -> list[Turn]:
        """The test's calls."""
        return self._calls.made.get(nodeid, [])

    def others(self, nodeid: str, order: str) -> list[Measurement]:
        """What the test measured on its other side; `order` is what the rows say of rounds in turns."""
        return [turn.measurement(nodeid, order) for turn in self.of(nodeid + OTHER) if turn.measuring.samples]

    def so_far(self, nodeid: str, order: str) -> list[Measurement]:
        """What the test measured, should it be interrupted now."""
        return [
            turn.measurement(nodeid, order, interrupted=True)
            for turn in self.of(nodeid)
            if turn.measuring.samples and not turn.error
        ]

    def unreported(self, reported: Collection[str], order: str) -> list[Measurement]:
        """What was measured of tests that are not among those reported, their own side only."""
        return [
            measured
            for nodeid, _ in self.by_test()
            if nodeid not in reported and not nodeid.endswith(OTHER)
            for measured in self.so_far(nodeid, order)
        ]

    def by_test(self) -> Iterator[tuple[str, list[Turn]]]:
        """All tests with their calls."""
        return iter(self._calls.made.items())

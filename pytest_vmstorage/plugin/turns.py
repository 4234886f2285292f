"""What each test measures while cells take turns: the test is run again for each turn, its rounds are kept here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from pytest_vmstorage.errors import ConfigError, VmStorageError
from pytest_vmstorage.results import Measurement
from pytest_vmstorage.runner import Measuring
from pytest_vmstorage.stopping import Ending, Rounds
from pytest_vmstorage.workloads.base import Workload

Made = TypeVar("Made")


class Turn:
    """One call of `measure` in a test, over all runs of the test: its rounds so far, and the error that ended them."""

    def __init__(self, rule: Rounds, measuring: Measuring) -> None:
        self.rule = rule
        self.measuring = measuring
        self.error: VmStorageError | None = None
        self.in_turns = 0

    def order(self, turns: str) -> str:
        """How its rounds lie among those of other cells; `turns` says it of those that were taken in turns."""
        if not self.in_turns:
            return "in a row"
        rest = len(self.measuring.samples) - self.in_turns
        return f"{turns}, the last {rest} in a row" if rest else turns

    @property
    def ended(self) -> Ending | None:
        """Why no further round is wanted, None while one is."""
        measuring = self.measuring
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

    def rounds(self, nodeid: str) -> int:
        """How many rounds the test has, of all that it measures together."""
        return sum(len(one.measuring.samples) for one in self._calls.made.get(nodeid, ()))

    def is_complete(self, nodeid: str) -> bool:
        """Whether the test came to measure, and nothing that it measured wants a further round."""
        return bool(self._calls.made.get(nodeid)) and not self.wants(nodeid)

    def failed(self, nodeid: str) -> bool:
        """Whether a round of the test failed."""
        return any(one.error for one in self._calls.made.get(nodeid, ()))

    def __iter__(self) -> Iterator[tuple[str, Turn]]:
        """All calls with their tests."""
        return ((nodeid, one) for nodeid, calls in self._calls.made.items() for one in calls)

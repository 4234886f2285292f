"""Rounds of several cells in turns: runs of the selected tests, one round each, before the run that is reported.

A host drifts: its caches, its temperature, its neighbours. Rounds in a row give one cell the host's good minute and
another its bad one; in turns each cell meets all of them. pytest has no notion of it, so each test is run once for each
round, with its fixtures, in a seeded random order of cells; what those runs report nobody sees, and the usual run at
the end has all rounds.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ConfigError, VmStorageError
from pytest_vmstorage.measure.rounds import Rounds
from pytest_vmstorage.measure.runner import Measuring
from pytest_vmstorage.plugin.settings import settings_of
from pytest_vmstorage.plugin.stash import CONFIG, FAILED, MEASURED, SESSION, has_turns
from pytest_vmstorage.plugin.xdist.channel import post_of
from pytest_vmstorage.results.run import Ending, Measurement
from pytest_vmstorage.results.spans import span
from pytest_vmstorage.workloads.base import Workload

if TYPE_CHECKING:
    from pytest_vmstorage.config.cell import StorageConfig
    from pytest_vmstorage.plugin.session import StorageSession


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


def take_turns(session: pytest.Session, own: list[pytest.Item]) -> None:
    """Run those of this process's `own` tests that measure until no round is wanted any more.

    Their figures are kept for the run that reports.
    """
    items = [item for item in own if has_turns(item)]
    others = len({item.stash[CONFIG] for item in items}) - 1
    if SESSION not in session.config.stash or not are_taken(session.config, items):
        return
    settings = settings_of(session.config)
    storage = session.config.stash[SESSION]
    gate = storage.gate
    turns = f"in turns with {_counted(others, 'other cell')}" if others else "in turns"
    how = f"in pairs with {gate.variant.text}, {turns}" if gate.variant else turns
    with storage.sampling(f"{how}, --vm-seed={settings.seed}"):
        try:
            # found here, and not in the middle
            storage.set_on_host(other=True)
            storage.set_on_host()
        except VmStorageError as error:
            if hasattr(session.config, "workerinput"):
                # an error raised there reaches the user as a crash of the worker; each test will say it
                return
            raise pytest.UsageError(str(error)) from None
        passes = _Passes(session, own, storage, random.Random(settings.seed))  # noqa: S311 (an order, no secret)
        wanting, suspects = items, 0
        while wanting and not passes.is_over:
            passes.run(wanting)
            is_more = not passes.is_over and gate.further(storage.turns, storage.lab().all_facts)
            if gate.suspects > suspects:
                suspects = gate.suspects
                storage.announce(f"{_counted(suspects, 'figure')} slower: measured again in fresh guests")
            wanting = [item for item in items if is_more and passes.may_go_on(item)]
        if gate.variant:
            storage.set_on_host()
            storage.turns.end(passes.failed)
    storage.live.expect(others + 1)


def are_taken(config: pytest.Config, items: Sequence[pytest.Item]) -> bool:
    """Whether there are rounds and cells to take turns.

    Nobody wants to be asked by a debugger about a run that is not reported.
    """
    settings = settings_of(config)
    is_single = settings.rounds.count == 1 or not settings.hygiene.has("turns")
    is_watched = config.getoption("usepdb", False) or config.getoption("setuponly", False)
    cells = {item.stash[CONFIG] for item in items if has_turns(item)}
    is_wanted = (len(cells) > 1 and not is_single) or (bool(cells) and settings.takes_more)
    return is_wanted and not is_watched


class _Passes:
    """Passes over tests, a round of each cell in each; `is_over` where the run is to end."""

    def __init__(
        self, session: pytest.Session, own: list[pytest.Item], storage: StorageSession, order: random.Random
    ) -> None:
        self._session = session
        self._own = own
        self._post = post_of(session.config)
        self._storage = storage
        self._order = order
        self._number = 0
        self._least = storage.gate.first_rounds(settings_of(session.config).rounds).least
        self._told: dict[str, str] = {}
        self.failed: set[str] = set()
        self.is_over = False

    def run(self, items: Sequence[pytest.Item]) -> None:
        """Take rounds in turns until none of these tests wants one."""
        while items and not self.is_over:
            before = {item: self._rounds(item) for item in items}
            self._run_one(items)
            self._storage.live.end_cell()
            # a test that got no round of its turn, such as one whose guest cannot be made anew, gets none in the next
            stuck = {item for item in items if self._is_stuck(item, before[item])}
            if not self.is_over:
                for item in stuck:
                    self._storage.gate.give_up(item.nodeid, self._told.get(item.nodeid, ""))
            items = [item for item in items if self._wants(item) and item not in stuck]

    def may_go_on(self, item: pytest.Item) -> bool:
        """Whether the test wants a further round, and got those that it wanted before."""
        return self._wants(item) and item.nodeid not in self._storage.gate.lost

    def _run_one(self, items: Sequence[pytest.Item]) -> None:
        storage, self._number = self._storage, self._number + 1
        cells = list(dict.fromkeys(item.stash[CONFIG] for item in items))
        self._order.shuffle(cells)
        if self._number == 1 or self._number > self._least:
            storage.live.expect(len(cells) * (self._least if self._number == 1 else 1))
        storage.announce(f"round {self._number}, {_counted(len(cells), 'cell')} in turns")
        turns = [
            (item, is_other)
            for cell in cells
            for is_other in self._sides()
            for item in items
            if item.stash[CONFIG] == cell
        ]
        self._take([(item, is_other, self._cell(item, is_other=is_other)) for item, is_other in turns])

    def _sides(self) -> list[bool]:
        """Both sides of a pair, in an order of chance; the cell itself without pairs."""
        sides = [False, True] if self._storage.gate.variant else [False]
        self._order.shuffle(sides)
        return sides

    def _cell(self, item: pytest.Item, *, is_other: bool) -> StorageConfig:
        config = item.stash[CONFIG]
        return (self._storage.gate.other(config) or config) if is_other else config

    def _take(self, turns: Sequence[tuple[pytest.Item, bool, StorageConfig]]) -> None:
        session, storage = self._session, self._storage
        is_fresh = storage.gate.wants_fresh_guests
        if is_fresh:
            # the guests of the first rounds, which would be those of the fresh ones too
            storage.expect([])
            storage.drop_row()
        most = session.config.getoption("maxfail") or len(turns) + 1
        again: list[StorageConfig] = []
        for place, (item, is_other, config) in enumerate(turns):
            rest = turns[place + 1 :]
            coming = [(after, cell) for after, _, cell in rest]
            storage.expect([config, *(cell for _, cell in coming), *again], alike(item, coming))
            # pytest tears down the fixtures that `nextitem` does not share; the item itself would keep them all
            after = next(one for one in (*(it for it, _, _ in rest), *self._own, None) if one is not item)
            self._run_test(item, after, is_other=is_other)
            if is_fresh and not (rest and rest[0][1:] == (is_other, config)):
                storage.drop_row()
            elif not is_fresh and storage.needs_row(item):
                again.append(config)
            if session.shouldstop or session.shouldfail:
                self.is_over = True
                return
            if sum(storage.turns.failed(one.nodeid) for one, is_second, _ in turns if not is_second) >= most:
                # -x and --maxfail: those that failed are reported first, and end the run
                self._own.sort(key=lambda one: not storage.turns.failed(one.nodeid))
                self.is_over = True
                return

    def _run_test(self, item: pytest.Item, after: pytest.Item | None, *, is_other: bool) -> None:
        self._storage.set_on_host(other=is_other)
        if self._post is not None:
            self._post.tell_running(item.nodeid)
        begin = time.monotonic()
        side = self._storage.other_side(item) if is_other else contextlib.nullcontext()
        with side, span("test", cell=item.stash[CONFIG]):
            error, told = _run(item, after)
        if self._post is not None:
            self._post.tell_rounds(self._storage.turns.so_far(item.nodeid, self._storage.order), self._storage.hosts())
        self._storage.gate.spent(item.nodeid, time.monotonic() - begin)
        if told:
            self._told[item.nodeid] = told
        if error and not is_other:
            self.failed.add(item.nodeid)

    def _is_stuck(self, item: pytest.Item, before: int) -> bool:
        """Whether a side of the test gave no round of its turn, or none that counts."""
        return self._rounds(item) == before or any(map(self._storage.turns.failed, self._ids(item)))

    def _wants(self, item: pytest.Item) -> bool:
        return all(self._storage.turns.wants(nodeid) for nodeid in self._ids(item))

    def _rounds(self, item: pytest.Item) -> int:
        """How many rounds the test has, on the side that has fewer."""
        return min(self._storage.turns.rounds(nodeid) for nodeid in self._ids(item))

    def _ids(self, item: pytest.Item) -> list[str]:
        return [item.nodeid, *([item.nodeid + OTHER] if self._storage.gate.variant else [])]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _run(item: pytest.Item, nextitem: pytest.Item | None) -> tuple[str, str]:
    """Run a test as pytest does, fixtures and all, without a report; what fails fails again in the run that has one.

    Returns why its cell got no figure, "" where it did; and that or else what the test itself failed with.
    """
    hook, function = item.ihook, cast("Any", item)
    # pytest's own runtestprotocol begins and ends so, for plugins that run an item again
    if getattr(item, "_request", None) is False:
        function._initrequest()  # noqa: SLF001
    try:
        told = _told(lambda: hook.pytest_runtest_setup(item=item), "setup") or _told(
            lambda: hook.pytest_runtest_call(item=item), "call"
        )
        _told(lambda: hook.pytest_runtest_teardown(item=item, nextitem=nextitem), "teardown")
    finally:
        if hasattr(item, "_request"):
            function._request, function.funcargs = False, None  # noqa: SLF001
        # what it printed would stand in the report once for each run
        item._report_sections.clear()  # noqa: SLF001
        item.stash[MEASURED] = []
        failed, item.stash[FAILED] = item.stash.get(FAILED, ""), ""
    return failed, failed or told


def _told(phase: Callable[[], object], when: str) -> str:
    """What a phase of a test failed with, "" where it passed."""
    reraise = (pytest.exit.Exception, KeyboardInterrupt)
    call = pytest.CallInfo.from_call(phase, when=when, reraise=reraise)  # type: ignore[arg-type]
    return "" if call.excinfo is None else call.excinfo.exconly().splitlines()[0]

"""Rounds of several cells in turns: passes over the selected tests, a round each, before the run that is reported.

A host drifts: its caches, its temperature, its neighbours. Rounds in a row give one cell the host's good minute and
another its bad one; in turns each cell meets all of them. pytest has no notion of it, so each test is run once for each
round, with its fixtures, in a seeded random order of cells; what those runs report nobody sees, and the usual run at
the end has all rounds.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

import pytest
from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ConfigError, VmStorageError
from pytest_vmstorage.measure.rounds import Rounds
from pytest_vmstorage.measure.runner import Measuring
from pytest_vmstorage.plugin.progress_line import count_text
from pytest_vmstorage.plugin.settings import settings_of
from pytest_vmstorage.plugin.stash import CONFIG, FAILED, MEASURED, PASS, SESSION, has_turns
from pytest_vmstorage.plugin.xdist.channel import post_of
from pytest_vmstorage.results.run import Ending, Measurement
from pytest_vmstorage.results.spans import span
from pytest_vmstorage.workloads.base import Workload

if TYPE_CHECKING:
    from pytest_vmstorage.plugin.session import StorageSession

Made = TypeVar("Made")

Side = Literal["own", "other"]
"""Which side of a pair: the test's own cell, or what --vm-against makes of it."""

Key = tuple[str, Side]
"""A test by its node id, and a side of it."""


class Pass(BaseModel):
    """One run of a test: in a pass of kind "round" each call of `measure` takes one round, in "report" all that remain.

    `cell` is that of the side; `order` is what rows say of rounds that were taken in turns.
    """

    model_config = ConfigDict(frozen=True)

    kind: Literal["round", "report"] = "report"
    side: Side = "own"
    order: str = ""
    cell: StorageConfig


def pass_of(item: pytest.Item) -> Pass:
    """The pass that the test is run in: outside of all others the one that is reported."""
    return item.stash.get(PASS, None) or Pass(cell=item.stash[CONFIG])


class Turn:
    """One call of `measure` in a test, over all runs of the test: its rounds so far, and the error that ended them.

    `is_late` says that its time is over, `fresh_from` which round was the first in a fresh guest.
    """

    def __init__(self, nodeid: str, rule: Rounds, measuring: Measuring, tolerated: str, notes: tuple[str, ...]) -> None:
        self.rule = rule
        self.measuring = measuring
        self.error: VmStorageError | None = None
        self.is_late = False
        self._fresh_from: int | None = None
        self._in_turns = 0
        self._order = ""
        self._said = {"nodeid": nodeid, "tolerated": tolerated, "notes": notes}

    @property
    def rounds(self) -> int:
        """The number of rounds so far."""
        return len(self.measuring.samples)

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
        order += ", interrupted" if interrupted else ""
        fresh = 0 if self._fresh_from is None else self.rounds - self._fresh_from
        return self.measuring.measurement(order, self.ended).model_copy(update={"fresh": fresh, **self._said})


class Turns:
    """The calls of all tests, in the order in which a test makes them; kept over its runs.

    A call of `measure` has a turn; one of `measure_image` is measured whole in the first run that comes to it.
    """

    def __init__(self) -> None:
        self._turns: dict[Key, list[Turn]] = {}
        self._whole: dict[Key, list[Measurement]] = {}
        self._places: Counter[tuple[str, Key]] = Counter()

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
                f"This test measured {found.measuring.workload.label} in its first run, and now {workload.label} in its"
                " place; it is run once for each round, and must measure the same each time.",
                hint="Decide what to measure before the test, or take its rounds in a row: --vm-without=turns.",
            )
        return found

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


def cells_alike(item: pytest.Item, coming: Iterable[tuple[pytest.Item, StorageConfig]]) -> frozenset[StorageConfig]:
    """The cells among those to come whose next test is the one at hand, whatever its arguments: each needs the same."""
    first: dict[StorageConfig, pytest.Item] = {}
    for one, config in coming:
        first.setdefault(config, one)
    function = getattr(item, "function", None)
    return frozenset(config for config, one in first.items() if function and getattr(one, "function", None) is function)


def wants_turns(config: pytest.Config, items: Sequence[pytest.Item]) -> bool:
    """Whether there are rounds and cells to take turns.

    Nobody wants to be asked by a debugger about a run that is not reported.
    """
    settings = settings_of(config)
    is_single = settings.rounds.count == 1 or not settings.hygiene.has("turns")
    is_watched = config.getoption("usepdb", False) or config.getoption("setuponly", False)
    cells = {item.stash[CONFIG] for item in items if has_turns(item)}
    is_wanted = (len(cells) > 1 and not is_single) or (bool(cells) and settings.takes_more)
    return is_wanted and not is_watched


def take_turns(session: pytest.Session, own: list[pytest.Item]) -> None:
    """Take the rounds of those of this process's `own` tests that measure, until no round is wanted any more.

    Their figures are kept for the run that reports.
    """
    storage = session.config.stash.get(SESSION, None)
    if storage is None:
        return
    storage.own = own
    items = [item for item in own if has_turns(item)]
    if not wants_turns(session.config, items):
        return
    try:
        # found here, and not in the middle
        storage.set_on_host("other")
        storage.set_on_host("own")
    except VmStorageError as error:
        if hasattr(session.config, "workerinput"):
            # an error raised there reaches the user as a crash of the worker; each test will say it
            return
        raise pytest.UsageError(str(error)) from None
    Interleaver(session, storage, items).run()
    storage.live.expect(len({item.stash[CONFIG] for item in items}))


class Failed(NamedTuple):
    """The reason why a pass gave its test no figure, and the test's first failure; both are "" where it passed."""

    figure: str
    test: str


def run_test(item: pytest.Item, at: Pass, nextitem: pytest.Item | None) -> Failed:
    """Run a test as pytest does, fixtures and all, without a report; what fails fails again in the run that has one."""
    hook, function = item.ihook, cast("Any", item)
    # pytest's own runtestprotocol begins and ends so, for plugins that run an item again
    if getattr(item, "_request", None) is False:
        function._initrequest()  # noqa: SLF001
    item.stash[PASS] = at
    try:
        said = _failure(lambda: hook.pytest_runtest_setup(item=item), "setup") or _failure(
            lambda: hook.pytest_runtest_call(item=item), "call"
        )
        _failure(lambda: hook.pytest_runtest_teardown(item=item, nextitem=nextitem), "teardown")
    finally:
        if hasattr(item, "_request"):
            function._request, function.funcargs = False, None  # noqa: SLF001
        # what it printed would stand in the report once for each run
        item._report_sections.clear()  # noqa: SLF001
        del item.stash[PASS]
        item.stash[MEASURED] = []
        figureless, item.stash[FAILED] = item.stash.get(FAILED, ""), ""
    return Failed(figureless, figureless or said)


def _failure(phase: Callable[[], object], when: str) -> str:
    """The exception of a test's phase in one line, "" where it passed."""
    reraise = (pytest.exit.Exception, KeyboardInterrupt)
    call = pytest.CallInfo.from_call(phase, when=when, reraise=reraise)  # type: ignore[arg-type]
    return "" if call.excinfo is None else call.excinfo.exconly().splitlines()[0]


Visit = tuple[pytest.Item, Pass]
"""A test, and the pass that it is run in."""


class Interleaver:
    """The rounds of a run's tests in turns: `run` goes from pass to pass, and from passes to what the gate decides.

    A pass visits each cell once, both sides of a pair one after the other, and there each test that wants a round. When
    no test wants one the gate decides with all figures, and may want further rounds of some. What is called at a visit
    is `call`: it is to take one round of all that the test measures.
    """

    def __init__(
        self,
        session: pytest.Session,
        storage: StorageSession,
        items: Sequence[pytest.Item],
        call: Callable[[pytest.Item, Pass, pytest.Item | None], Failed] = run_test,
    ) -> None:
        self._session, self._storage, self._items, self._call = session, storage, items, call
        self._gate, self._turns, self._post = storage.gate, storage.turns, post_of(session.config)
        settings, variant = settings_of(session.config), storage.gate.variant
        self._random = random.Random(settings.seed)  # noqa: S311 (an order, no secret)
        self._sides: tuple[Side, ...] = ("own", "other") if variant else ("own",)
        self._least = self._gate.first_rounds(settings.rounds).least
        others = len({item.stash[CONFIG] for item in items}) - 1
        in_turns = f"in turns with {count_text(others, 'other cell')}" if others else "in turns"
        pairs = f"in pairs with {variant.text}, " if variant else ""
        self._order = f"{pairs}{in_turns}, --vm-seed={settings.seed}"
        self._number = 0
        self._failures: dict[str, str] = {}
        self._failed: set[str] = set()
        self._is_over = False

    def run(self) -> None:
        """Take rounds until neither tests nor the gate want one, or the run is to end."""
        wanting = self._items
        while wanting:
            while wanting:
                wanting = self._pass(wanting)
            wanting = [] if self._is_over else self._decide()
        if self._gate.variant:
            self._storage.set_on_host("own")
            self._turns.end(self._failed)

    def _decide(self) -> Sequence[pytest.Item]:
        """Let the gate decide; returns the tests of which it wants further rounds."""
        suspects = self._gate.suspects
        if not self._gate.further(self._turns, self._storage.lab().all_facts):
            return []
        if self._gate.suspects > suspects:
            self._storage.announce(
                f"{count_text(self._gate.suspects, 'figure')} slower: measured again in fresh guests"
            )
        return [item for item in self._items if self._wants(item) and item.nodeid not in self._gate.lost]

    def _pass(self, items: Sequence[pytest.Item]) -> Sequence[pytest.Item]:
        """Take a round of each of these tests; returns those that want another one."""
        storage, self._number = self._storage, self._number + 1
        before = {item: self._rounds(item) for item in items}
        cells = list(dict.fromkeys(item.stash[CONFIG] for item in items))
        self._random.shuffle(cells)
        if self._number == 1 or self._number > self._least:
            storage.live.expect(len(cells) * (self._least if self._number == 1 else 1))
        storage.announce(f"round {self._number}, {count_text(len(cells), 'cell')} in turns")
        self._visit_all([visit for cell in cells for visit in self._visits(cell, items)])
        storage.live.end_cell()
        if self._is_over:
            return []
        # a test that got no round of its turn, such as one whose guest cannot be made anew, gets none in the next
        stuck = {item for item in items if self._is_stuck(item, before[item])}
        for item in stuck:
            self._gate.give_up(item.nodeid, self._failures.get(item.nodeid, ""))
        return [item for item in items if self._wants(item) and item not in stuck]

    def _visits(self, cell: StorageConfig, items: Sequence[pytest.Item]) -> list[Visit]:
        """The visits to a cell in a pass: the sides of a pair in an order of chance."""
        sides = list(self._sides)
        self._random.shuffle(sides)
        passes = [
            Pass(kind="round", side=side, order=self._order, cell=self._gate.cell_on(side, cell)) for side in sides
        ]
        return [(item, at) for at in passes for item in items if item.stash[CONFIG] == cell]

    def _visit_all(self, visits: Sequence[Visit]) -> None:
        session, storage = self._session, self._storage
        is_fresh = self._gate.wants_fresh_guests
        if is_fresh:
            # the guests of the first rounds, which would be those of the fresh ones too
            storage.expect([])
            storage.drop_environment()
        most = session.config.getoption("maxfail") or len(visits) + 1
        again: list[StorageConfig] = []
        for place, (item, at) in enumerate(visits):
            rest = visits[place + 1 :]
            coming = [(later, other.cell) for later, other in rest]
            storage.expect([at.cell, *(cell for _, cell in coming), *again], cells_alike(item, coming))
            # pytest tears down the fixtures that `nextitem` does not share; the item itself would keep them all
            after = next(one for one in (*(later for later, _ in rest), *storage.own, None) if one is not item)
            self._visit(item, at, after)
            if is_fresh and not (rest and rest[0][1] == at):
                storage.drop_environment()
            elif not is_fresh and storage.needs_environment(item):
                again.append(at.cell)
            if session.shouldstop or session.shouldfail:
                self._is_over = True
                return
            if sum(self._turns.failed(one.nodeid) for one, other in visits if other.side == "own") >= most:
                # -x and --maxfail: those that failed are reported first, and end the run
                storage.own.sort(key=lambda one: not self._turns.failed(one.nodeid))
                self._is_over = True
                return

    def _visit(self, item: pytest.Item, at: Pass, after: pytest.Item | None) -> None:
        self._storage.set_on_host(at.side)
        if self._post is not None:
            self._post.tell_running(item.nodeid)
        begin = time.monotonic()
        with span("test", cell=at.cell):
            failed = self._call(item, at, after)
        if self._post is not None:
            self._post.tell_rounds(self._turns.so_far(item.nodeid), self._storage.hosts())
        self._gate.spent(item.nodeid, time.monotonic() - begin)
        if failed.test:
            self._failures[item.nodeid] = failed.test
        if failed.figure and at.side == "own":
            self._failed.add(item.nodeid)

    def _is_stuck(self, item: pytest.Item, before: int) -> bool:
        """Whether a side of the test gave no round of its turn, or none that counts."""
        return self._rounds(item) == before or any(self._turns.failed(item.nodeid, side) for side in self._sides)

    def _wants(self, item: pytest.Item) -> bool:
        return all(self._turns.wants(item.nodeid, side) for side in self._sides)

    def _rounds(self, item: pytest.Item) -> int:
        """The number of the test's rounds, on the side that has fewer."""
        return min(self._turns.rounds(item.nodeid, side) for side in self._sides)

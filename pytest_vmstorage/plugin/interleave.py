"""Rounds of several cells in turns: passes over the selected tests, a round each, before a test sees its figures.

A host drifts: its caches, its temperature, its neighbours. Rounds in a row give one cell the host's good minute and
another its bad one; in turns each cell meets all of them. pytest has no notion of it. So each test is entered once to
learn what it measures, its rounds are taken without it, cell by cell in a seeded random order, and then its function
runs with all of them. A test that asks for `guest` may prepare it, so its rounds are taken inside `measure`; it is
entered again where the guest is another one, or where a command changed it since.
"""

from __future__ import annotations

import ast
import functools
import inspect
import random
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.plugin.entry import ItemEntry, enter
from pytest_vmstorage.plugin.progress_line import count_text
from pytest_vmstorage.plugin.settings import debugger_of, settings_of
from pytest_vmstorage.plugin.stash import (
    CONFIG,
    FAILED,
    PLACE,
    ROUNDS_S,
    SESSION,
    asks_for,
    has_turns,
    is_declared,
    uses,
)
from pytest_vmstorage.plugin.turns import Pass, Side
from pytest_vmstorage.plugin.xdist.channel import post_of
from pytest_vmstorage.results.spans import span

if TYPE_CHECKING:
    from pytest_vmstorage.plugin.session import StorageSession


def cells_alike(item: pytest.Item, coming: Iterable[tuple[pytest.Item, StorageConfig]]) -> frozenset[StorageConfig]:
    """The cells among those to come whose next test is the one at hand, whatever its arguments: each needs the same."""
    first: dict[StorageConfig, pytest.Item] = {}
    for one, config in coming:
        first.setdefault(config, one)
    function = getattr(item, "function", None)
    return frozenset(config for config, one in first.items() if function and getattr(one, "function", None) is function)


def wants_turns(config: pytest.Config, items: Sequence[pytest.Item]) -> bool:
    """Whether there are rounds and cells to take turns.

    With a debugger rounds are taken in a row: it stops in user's code, which is then entered once.
    """
    settings = settings_of(config)
    is_single = settings.rounds.count == 1 or not settings.hygiene.has("turns")
    is_watched = bool(debugger_of(config)) or config.getoption("setuponly", False)
    cells = {item.stash[CONFIG] for item in items if has_turns(item)}
    is_wanted = (len(cells) > 1 and not is_single) or (bool(cells) and settings.takes_more)
    return is_wanted and not is_watched


def take_turns(session: pytest.Session, own: list[pytest.Item], first: pytest.Item) -> None:
    """Take the rounds of those of this process's `own` tests that measure, until no round is wanted any more.

    Their figures are kept for the tests' reports. `first` is the test that pytest runs then.
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
    storage.interleaver = Interleaver(session, storage, items)
    storage.interleaver.begin(first)


Visit = tuple[pytest.Item, Pass]
"""A test, and the pass that it is visited in."""


class Interleaver:
    """The rounds of a run's tests in turns, from learning what they measure to their reports.

    A pass visits each cell once, both sides of a pair one after the other, and there each test that wants a round. When
    no test wants one the gate decides with all figures, and may want further rounds of some. What is called at a visit
    is `call`: it is to take one round of all that the test measures, and returns why that gave none, "" where it did.
    """

    def __init__(
        self,
        session: pytest.Session,
        storage: StorageSession,
        items: Sequence[pytest.Item],
        call: Callable[[pytest.Item, Pass, pytest.Item | None], str] | None = None,
    ) -> None:
        self._session, self._storage, self._items, self._call = session, storage, items, call or self._round
        self._gate, self._turns, self._post = storage.gate, storage.turns, post_of(session.config)
        settings, variant = settings_of(session.config), storage.gate.variant
        self._random = random.Random(settings.seed)  # noqa: S311 (an order, no secret)
        self._sides: tuple[Side, ...] = ("own", "other") if variant else ("own",)
        self._least = self._gate.first_rounds(settings.rounds).least
        self._order = ""
        self._number = 0
        self._failures: dict[str, str] = {}
        self._failed: set[str] = set()
        self._unlearned: set[tuple[str, Side]] = set()
        self._ended: dict[pytest.Item, ItemEntry] = {}
        self._current: pytest.Item | None = None
        self._is_over = False

    def begin(self, first: pytest.Item) -> None:
        """Learn what the tests measure, and take their rounds; `first` is the test that pytest runs then."""
        self._current = first
        self._learn(self._items)
        self.run()

    def has_ended(self, item: pytest.Item) -> bool:
        """Whether nothing is left to do for the test: it was reported, or the run is to end before it."""
        return item in self._ended or bool(self._session.shouldfail or self._session.shouldstop)

    def takes(self, item: pytest.Item) -> bool:
        """Whether the test is one of those whose rounds are taken here."""
        return item in self._items

    def report(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Enter a test that has its rounds until it ends, and with it is reported.

        Where it comes to a further measurement, so do the tests of its function in other cells: they learn of it too,
        and all of them take its rounds in turns.
        """
        self._current = item
        if item in self._ended:
            # a worker of xdist tells of no test before its turn
            self._ended[item].release()
        while not self.has_ended(item):
            entry = self._enter(item, Pass(cell=item.stash[CONFIG]), nextitem)
            if not entry.is_stopped:
                entry.release()
                return
            alike = [one for one in self._items if one not in self._ended and _function(one) is _function(item)]
            self._number = 0
            self._gate.begin()
            self._turns.settle()
            self._learn([one for one in alike if one is not item])
            self.run([one for one in alike if one not in self._ended])

    def run(self, items: Sequence[pytest.Item] | None = None) -> None:
        """Take the rounds of these tests, or of all, until neither they nor the gate want one, or the run is to end."""
        items = self._items if items is None else items
        self._order = self._order_of(items)
        wanting: Sequence[pytest.Item] = [item for item in items if self._wants(item)]
        while wanting:
            while wanting:
                wanting = self._pass(wanting)
            wanting = [] if self._is_over else self._decide(items)
        if self._gate.variant:
            self._storage.set_on_host("own")
            self._turns.end(self._failed)

    def _learn(self, items: Sequence[pytest.Item]) -> None:
        """Enter each of these tests once, up to the first call of `measure` that has no figures.

        A test that ends there by itself is reported. One that asks for `guest` is not entered before its first round,
        and one that declares its workloads not at all.
        """
        for item in items:
            if is_declared(item):
                for side in self._sides:
                    self._storage.declare(item, side, self._gate.cell_on(side, item.stash[CONFIG]))
            elif uses(item, "guest"):
                self._unlearned.update((item.nodeid, side) for side in self._sides)
        entered = [item for item in self._in_order(items) if not is_declared(item) and not uses(item, "guest")]
        for place, item in enumerate(entered):
            at = Pass(kind="learn", cell=item.stash[CONFIG])
            self._enter(item, at, self._next_of(item, entered[place + 1 :]))
            if self._is_to_end():
                return

    def _next_of(self, item: pytest.Item, coming: Iterable[pytest.Item]) -> pytest.Item | None:
        """The test behind one that is entered: pytest tears down the fixtures that it does not share with that."""
        # the item itself would keep them all
        return next((one for one in (*coming, self._current) if one is not item), None)

    def _in_order(self, items: Sequence[pytest.Item]) -> Sequence[pytest.Item]:
        """Tests as pytest has them, before those of a cell were brought together: fewest fixtures are set up so."""
        return sorted(items, key=lambda item: item.stash[PLACE])

    def _enter(
        self, item: pytest.Item, at: Pass, nextitem: pytest.Item | None, *, is_silent: bool = False
    ) -> ItemEntry:
        if self._post is not None:
            self._post.tell_running(item.nodeid)
        entry = enter(item, at, nextitem, is_silent=is_silent)
        if entry.has_ended:
            self._ended[item] = entry
            self._storage.note_calls(item)
            if self._post is None:
                entry.release()
        return entry

    def _is_to_end(self) -> bool:
        self._is_over = self._is_over or bool(self._session.shouldstop or self._session.shouldfail)
        return self._is_over

    def _order_of(self, items: Sequence[pytest.Item]) -> str:
        """What the rows of these tests say of the order of their rounds."""
        variant, others = self._gate.variant, len({item.stash[CONFIG] for item in items}) - 1
        if others < 1 and variant is None:
            return "in a row"
        pairs = [f"in pairs with {variant.text}"] if variant is not None else []
        turns = f"in turns with {count_text(others, 'other cell')}" if others > 0 else "in turns"
        return ", ".join([*pairs, turns, f"--vm-seed={settings_of(self._session.config).seed}"])

    def _decide(self, items: Sequence[pytest.Item]) -> Sequence[pytest.Item]:
        """Let the gate decide; returns the tests of which it wants further rounds."""
        suspects = self._gate.suspects
        if not self._gate.further(self._turns, self._storage.lab().all_facts):
            return []
        if self._gate.suspects > suspects:
            self._storage.announce(
                f"{count_text(self._gate.suspects, 'figure')} slower: measured again in fresh guests"
            )
        return [item for item in items if self._wants(item) and item.nodeid not in self._gate.lost]

    def _pass(self, items: Sequence[pytest.Item]) -> Sequence[pytest.Item]:
        """Take a round of each of these tests; returns those that want another one."""
        storage, self._number = self._storage, self._number + 1
        before = {item: self._rounds(item) for item in items}
        cells = list(dict.fromkeys(item.stash[CONFIG] for item in items))
        self._random.shuffle(cells)
        turns = " in turns" if len(cells) > 1 else ""
        storage.announce(f"round {self._number}, {count_text(len(cells), 'cell')}{turns}, {storage.time_left}")
        self._visit_all([visit for cell in cells for visit in self._visits(cell, items)])
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
        most: int = session.config.getoption("maxfail")
        again: list[StorageConfig] = []
        for place, (item, at) in enumerate(visits):
            rest = visits[place + 1 :]
            coming = [(later, other.cell) for later, other in rest]
            storage.expect([at.cell, *(cell for _, cell in coming), *again], cells_alike(item, coming))
            self._visit(item, at, self._next_of(item, (later for later, _ in rest)))
            if is_fresh and not (rest and rest[0][1] == at):
                storage.drop_environment()
            elif not is_fresh and storage.needs_environment(item):
                again.append(at.cell)
            if self._is_to_end():
                return
            own = (one for one, other in visits if other.side == "own") if most else ()
            failing = [one for one in own if storage.surely_fails(one)]
            if most and len(failing) >= most:
                # -x and --maxfail: those that failed are reported first, and end the run
                self._is_over = True
                for one in failing:
                    self.report(one, None)
                return

    def _visit(self, item: pytest.Item, at: Pass, after: pytest.Item | None) -> None:
        if item in self._ended:
            return
        self._storage.set_on_host(at.side)
        if self._post is not None:
            self._post.tell_running(item.nodeid)
        begin = time.monotonic()
        failed = self._call(item, at, after)
        seconds = time.monotonic() - begin
        if self._post is not None:
            self._post.tell_rounds(self._turns.so_far(item.nodeid), self._storage.hosts())
        self._gate.spent(item.nodeid, seconds)
        item.stash[ROUNDS_S] = item.stash.get(ROUNDS_S, 0.0) + seconds
        if failed:
            self._failures[item.nodeid] = failed
            if at.side == "own":
                self._failed.add(item.nodeid)

    def _round(self, item: pytest.Item, at: Pass, after: pytest.Item | None) -> str:
        """Take a round of each of the test's measurements that wants one, in its function only where it has to be."""
        key = (item.nodeid, at.side)
        if self._is_behind(item, at.side) and key not in self._unlearned:
            failed = self._learn_other(item, at, after)
            if failed:
                return failed
        if key not in self._unlearned and not self._storage.must_prepare(item, at):
            with span("test", cell=at.cell):
                return self._storage.take_round(item, at)
        self._unlearned.discard(key)
        item.stash[FAILED] = ""
        return self._enter(item, at, after, is_silent=at.side == "other").failure

    def _learn_other(self, item: pytest.Item, at: Pass, after: pytest.Item | None) -> str:
        """Learn what the test measures on the other side: the same, unless it can see which side it is on.

        Returns why it cannot be learned, "" where it was.
        """
        if any(asks_for(item, name) for name in ("storage", "request")):
            return self._enter(item, at.model_copy(update={"kind": "learn"}), after, is_silent=True).failure
        self._storage.copy_calls(item, at)
        return ""

    def _is_stuck(self, item: pytest.Item, before: int) -> bool:
        """Whether a side of the test gave no round of its turn, or none that counts."""
        return self._rounds(item) == before or any(self._turns.failed(item.nodeid, side) for side in self._sides)

    def _wants(self, item: pytest.Item) -> bool:
        return item not in self._ended and all(self._wants_on(item, side) for side in self._sides)

    def _wants_on(self, item: pytest.Item, side: Side) -> bool:
        key = (item.nodeid, side)
        return key in self._unlearned or self._is_behind(item, side) or self._turns.wants(*key)

    def _is_behind(self, item: pytest.Item, side: Side) -> bool:
        """Whether the test's own side has a measurement of which that side does not know yet."""
        return len(self._turns.of(item.nodeid, side)) < len(self._turns.of(item.nodeid))

    def _rounds(self, item: pytest.Item) -> int:
        """The number of the test's rounds, on the side that has fewer."""
        return min(self._turns.rounds(item.nodeid, side) for side in self._sides)


def _function(item: pytest.Item) -> object:
    return getattr(item, "function", None)


_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@functools.cache
def measures_once(function: object) -> bool:
    """Whether a test's function has just one call of `measure`, as its source shows: one use of the name, in no loop.

    Only room and time rest on it: a guest is kept where a further measurement may come.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cast("Any", function))))
    except (OSError, TypeError, SyntaxError):
        return False
    looped = {id(one) for loop in ast.walk(tree) if isinstance(loop, _LOOPS) for one in ast.walk(loop)}
    names = [one for one in ast.walk(tree) if isinstance(one, ast.Name) and one.id == "measure"]
    attributes = [one for one in ast.walk(tree) if isinstance(one, ast.Attribute) and one.attr == "measure"]
    found = [*names, *attributes]
    return len(found) == 1 and id(found[0]) not in looped

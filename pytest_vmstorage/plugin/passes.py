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
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.plugin import gate_options, options
from pytest_vmstorage.plugin.keys import CONFIG, FAILED, MEASURED, SESSION, has_turns
from pytest_vmstorage.plugin.post import post_of
from pytest_vmstorage.plugin.turns import OTHER, alike
from pytest_vmstorage.spans import span

if TYPE_CHECKING:
    from pytest_vmstorage.config import StorageConfig
    from pytest_vmstorage.plugin.session import StorageSession


def take_turns(session: pytest.Session, own: list[pytest.Item]) -> None:
    """Run those of this process's `own` tests that measure until no round is wanted any more.

    Their figures are kept for the run that reports.
    """
    items = [item for item in own if has_turns(item)]
    others = len({item.stash[CONFIG] for item in items}) - 1
    if SESSION not in session.config.stash or not are_taken(session.config, items):
        return
    seed = options.seed(session.config)
    storage = session.config.stash[SESSION]
    gate = storage.gate
    turns = f"in turns with {_counted(others, 'other cell')}" if others else "in turns"
    how = f"in pairs with {gate.recipe.text}, {turns}" if gate.recipe else turns
    with storage.sampling(f"{how}, --vm-seed={seed}"):
        try:
            # found here, and not in the middle
            storage.set_on_host(other=True)
            storage.set_on_host()
        except VmStorageError as error:
            if hasattr(session.config, "workerinput"):
                # an error raised there reaches the user as a crash of the worker; each test will say it
                return
            raise pytest.UsageError(str(error)) from None
        passes = _Passes(session, own, storage, random.Random(seed))  # noqa: S311 (an order, no secret)
        wanting, suspects = items, 0
        while wanting and not passes.is_over:
            passes.run(wanting)
            is_more = not passes.is_over and gate.further(storage.turns, storage.lab().all_facts)
            if gate.suspects > suspects:
                suspects = gate.suspects
                storage.announce(f"{_counted(suspects, 'figure')} slower: measured again in fresh guests")
            wanting = [item for item in items if is_more and passes.may_go_on(item)]
        if gate.recipe:
            storage.set_on_host()
            storage.turns.end(passes.failed)
    storage.live.expect(others + 1)


def are_taken(config: pytest.Config, items: Sequence[pytest.Item]) -> bool:
    """Whether there are rounds and cells to take turns.

    Nobody wants to be asked by a debugger about a run that is not reported.
    """
    is_single = options.rounds(config).count == 1 or "turns" in options.lab_settings(config).hygiene.without
    is_watched = config.getoption("usepdb", False) or config.getoption("setuponly", False)
    cells = {item.stash[CONFIG] for item in items if has_turns(item)}
    is_wanted = (len(cells) > 1 and not is_single) or (bool(cells) and gate_options.takes_more(config))
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
        self._least = storage.gate.first_rounds(options.rounds(session.config)).least
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
        sides = [False, True] if self._storage.gate.recipe else [False]
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
            # it leaves to the next one what they share; pytest would take the test itself for such
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
        return [item.nodeid, *([item.nodeid + OTHER] if self._storage.gate.recipe else [])]


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

"""Rounds of several cells in turns: runs of the selected tests, one round each, before the run that is reported.

A host drifts: its caches, its temperature, its neighbours. Rounds in a row give one cell the host's good minute and
another its bad one; in turns each cell meets all of them. pytest has no notion of it, so each test is run once for each
round, with its fixtures, in a seeded random order of cells; what those runs report nobody sees, and the usual run at
the end has all rounds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_vmstorage.plugin import options
from pytest_vmstorage.plugin.keys import CONFIG, FAILED, MEASURED, SESSION, has_turns

if TYPE_CHECKING:
    from pytest_vmstorage.config import StorageConfig
    from pytest_vmstorage.plugin.session import StorageSession


def take_turns(session: pytest.Session) -> None:
    """Run the tests that measure until no round is wanted any more; their figures are kept for the run that reports."""
    items = [item for item in session.items if has_turns(item)]
    others = len({item.stash[CONFIG] for item in items}) - 1
    if SESSION not in session.config.stash or not are_taken(session.config, items):
        return
    seed = options.seed(session.config)
    storage = session.config.stash[SESSION]
    with storage.sampling(f"in turns with {_counted(others, 'other cell')}, --vm-seed={seed}"):
        _pass_until_done(session, storage, items, seed)
    storage.live.expect(others + 1)


def are_taken(config: pytest.Config, items: Sequence[pytest.Item]) -> bool:
    """Whether there are rounds and cells to take turns, and the tests are this process's to run again.

    Nobody wants to be asked by a debugger about a run that is not reported.
    """
    is_single = options.rounds(config).count == 1 or "turns" in options.lab_settings(config).hygiene.without
    is_watched = config.getoption("usepdb", False) or config.getoption("setuponly", False)
    cells = {item.stash[CONFIG] for item in items if has_turns(item)}
    return len(cells) > 1 and not (is_single or is_watched or hasattr(config, "workerinput"))


def _pass_until_done(session: pytest.Session, storage: StorageSession, items: list[pytest.Item], seed: int) -> None:
    order = random.Random(seed)  # noqa: S311 (an order, no secret)
    most = session.config.getoption("maxfail") or len(items) + 1
    number, least = 0, options.rounds(session.config).least
    while items:
        number += 1
        cells = list(dict.fromkeys(item.stash[CONFIG] for item in items))
        order.shuffle(cells)
        if number == 1 or number > least:
            storage.live.expect(len(cells) * (least if number == 1 else 1))
        storage.announce(f"round {number}, {_counted(len(cells), 'cell')} in turns")
        turns = [item for cell in cells for item in items if item.stash[CONFIG] == cell]
        before = {item: storage.turns.rounds(item.nodeid) for item in turns}
        again: list[StorageConfig] = []
        for place, item in enumerate(turns):
            rest = turns[place + 1 :]
            storage.expect([*(one.stash[CONFIG] for one in turns[place:]), *again])
            # it leaves to the next one what they share; pytest would take the test itself for such
            _run(item, next(one for one in (*rest, *session.items) if one is not item))
            if storage.needs_row(item):
                again.append(item.stash[CONFIG])
            if session.shouldstop or session.shouldfail:
                return
            if sum(storage.turns.failed(one.nodeid) for one in turns) >= most:
                # -x and --maxfail: those that failed are reported first, and end the run
                session.items.sort(key=lambda one: not storage.turns.failed(one.nodeid))
                return
        storage.live.end_cell()
        # a test that got no round of its turn, such as one whose guest cannot be made anew, gets none in the next
        items = [
            item
            for item in items
            if storage.turns.wants(item.nodeid) and storage.turns.rounds(item.nodeid) > before[item]
        ]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _run(item: pytest.Item, nextitem: pytest.Item) -> None:
    """Run a test as pytest does, fixtures and all, without a report: what fails fails again in the run that has one."""
    hook, function = item.ihook, cast("Any", item)
    # pytest's own runtestprotocol begins and ends so, for plugins that run an item again
    if getattr(item, "_request", None) is False:
        function._initrequest()  # noqa: SLF001
    try:
        if _passes(lambda: hook.pytest_runtest_setup(item=item), "setup"):
            _passes(lambda: hook.pytest_runtest_call(item=item), "call")
        _passes(lambda: hook.pytest_runtest_teardown(item=item, nextitem=nextitem), "teardown")
    finally:
        if hasattr(item, "_request"):
            function._request, function.funcargs = False, None  # noqa: SLF001
        # what it printed would stand in the report once for each run
        item._report_sections.clear()  # noqa: SLF001
        item.stash[MEASURED] = []
        item.stash[FAILED] = ""


def _passes(phase: Callable[[], object], when: str) -> bool:
    reraise = (pytest.exit.Exception, KeyboardInterrupt)
    call = pytest.CallInfo.from_call(phase, when=when, reraise=reraise)  # type: ignore[arg-type]
    return call.excinfo is None

"""The hooks of a run that measures: a plugin of its own, which `hooks` registers when it meets a storage test.

So it does for a controller of xdist, and for --vm-plan. All other runs neither load nor call these.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vmstorage.plugin.settings import settings_of
from pytest_vmstorage.plugin.stash import (
    ASSERTED,
    BEGUN,
    CONFIG,
    ENDING,
    ENTRY,
    SESSION,
    SPANS,
    asserts_between,
    is_storage_item,
)
from pytest_vmstorage.plugin.xdist.channel import post_of

if TYPE_CHECKING:
    from pytest_vmstorage.plugin.session import StorageSession


def record(config: pytest.Config) -> None:
    """Gather what tests measured, unless this is a worker of xdist, whose controller does."""
    if not hasattr(config, "workerinput") and not config.pluginmanager.has_plugin("vmstorage-recorder"):
        from pytest_vmstorage.plugin.recorder import Recorder

        config.pluginmanager.register(Recorder(config), "vmstorage-recorder")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Refuse, before any test runs, what cannot be; then open the lab, so that its faults are found here too.

    Not when collection ends: `pytest --fixtures` collects as well. With --vm-plan nothing is opened or run.
    """
    items = [item for item in session.items if is_storage_item(item)]
    _end_orderly(session.config, has_own=bool(items))
    if items or any(asserts_between(item) for item in session.items):
        record(session.config)
    if not items and not settings_of(session.config).plan:
        return None
    from pytest_vmstorage.plugin.preflight import prepare

    ended, manager = prepare(session, items), session.config.pluginmanager
    if SESSION in session.config.stash and not manager.has_plugin("vmstorage-reported"):
        manager.register(Reported(), "vmstorage-reported")
    return ended


def _end_orderly(config: pytest.Config, *, has_own: bool) -> None:
    """See to signals where something is made: here, or by the workers of this controller."""
    makes_none = settings_of(config).plan or config.option.collectonly or config.option.setupplan
    if makes_none or not (has_own or config.pluginmanager.has_plugin("vmstorage-controller")):
        return
    from pytest_vmstorage.plugin.ending import OrderlyEnd

    config.stash[ENDING] = ending = OrderlyEnd()
    config.pluginmanager.register(ending, "vmstorage-ending")
    ending.install()


class Reported:
    """Ends pytest's protocol for tests that were entered before, and are reported."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Say that the test has run, so that nobody runs it; a plugin of its own, since ours has a wrapper there."""
        storage = item.config.stash.get(SESSION, None)
        is_through = storage is not None and storage.has_ended(item) and ENTRY not in item.stash
        return True if is_through else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Before the run's first test those that measure take turns; then each of them is entered for its report.

    A worker of xdist knows by now which cells are its own. All of it comes before other plugins' part in the protocol,
    which they then have for each entry.
    """
    item.stash[BEGUN] = 0
    if SPANS not in item.config.stash or ENTRY in item.stash:
        return (yield)
    storage = item.config.stash.get(SESSION, None)
    if storage is not None:
        _begin_turns(item, storage)
        storage.report(item, nextitem)
    if storage is not None and storage.has_ended(item):
        from pytest_vmstorage.plugin.allure import allure_held

        with allure_held(item.config, lambda _: None):
            return (yield)
    from pytest_vmstorage.results.spans import span

    with span("test", cell=item.stash.get(CONFIG, "")):
        return (yield)


def _begin_turns(first: pytest.Item, storage: StorageSession) -> None:
    """Before the process's first test: those that measure take turns, of a worker's its own ones."""
    if storage.has_begun:
        return
    storage.has_begun = True
    if post_of(first.config) is None:
        from pytest_vmstorage.plugin.interleave import take_turns

        take_turns(first.session, first.session.items, first)
        return
    from pytest_vmstorage.plugin.xdist.worker import take_own_turns

    take_own_turns(first)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Note how the set-up ends where the test was entered: a fixture may measure too."""
    if ENTRY not in item.stash:
        return (yield)
    from pytest_vmstorage.plugin.entry import watched

    with watched(item):
        # what the test before left set up for another one than this; where that fails it is an error of a set-up
        item.session._setupstate.teardown_exact(item)  # noqa: SLF001 (plugins that run a test again do it so)
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Note how the test ends where it was entered."""
    if ENTRY not in item.stash:
        return (yield)
    from pytest_vmstorage.plugin.entry import watched

    with watched(item):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Remove all that was made, also after Ctrl-C, before other plugins' summaries can fail."""
    if ENDING in session.config.stash:
        session.config.stash[ENDING].begin()
    storage = session.config.stash.get(SESSION, None)
    recorder = session.config.pluginmanager.get_plugin("vmstorage-recorder")
    controller = session.config.pluginmanager.get_plugin("vmstorage-controller")
    if controller is not None and recorder is not None:
        recorder.add(*controller.unreported())
    if storage is not None:
        try:
            if recorder is not None:
                recorder.add(storage.turns.unreported(storage.reported), storage.hosts())
        finally:
            storage.close()
    if SPANS not in session.config.stash:
        return (yield)
    from pytest_vmstorage.plugin.timing import hand_on
    from pytest_vmstorage.results.spans import span

    hand_on(session.config)
    with span("report"):
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say below the matrix what assertions between cells came to: of one that holds nothing else does.

    A run that only collects tells what is declared to be measured.
    """
    if config.option.collectonly:
        from pytest_vmstorage.plugin.forecast import collected_lines

        for line in collected_lines(config, terminalreporter._session.items):  # noqa: SLF001 (no public name for it)
            terminalreporter.write_line(line)
    if config.stash.get(ASSERTED, []):
        from pytest_vmstorage.plugin.cell_assertions import assertion_lines
        from pytest_vmstorage.text import plain

        terminalreporter.section("VM storage assertions")
        for line in assertion_lines(config, terminalreporter._tw.fullwidth):  # noqa: SLF001 (no public name for it)
            terminalreporter.write_line(plain(line))

"""Entering a test: pytest's whole protocol, whose reports are held until it is known that they are the test's.

A test's function is entered before its rounds are taken, to learn what it measures, and ends at `measure` then. Other
plugins take part in that as in any run of a test, since it goes through `pytest_runtest_protocol`: timeout,
faulthandler, warnings, logging. Reports of a function that ended so are dropped, and what pytest, unittest and pytest's
subtests keep on the item is as before. A test that ends by itself has run: its reports go out as they are.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NoReturn, cast

import pytest

from pytest_vmstorage.plugin.allure import allure_held, end_result
from pytest_vmstorage.plugin.stash import ENTRY, FAILED, MEASURED, PASS, ROUNDS_S
from pytest_vmstorage.plugin.turns import Pass
from pytest_vmstorage.results.spans import span

_REASON = "its rounds are taken now"
_HELD = ("pytest_runtest_logstart", "pytest_exception_interact")


class ItemEntry:
    """One entry into a test: `is_stopped` once its function ended at `measure`, `is_silent` if nothing of it is told.

    `failure` is why it failed, in one line, and "" where it did not.
    """

    def __init__(self, item: pytest.Item, *, is_silent: bool = False) -> None:
        self.is_silent = is_silent
        self.is_stopped = False
        self.failure = ""
        self._item = item
        self._held: list[Callable[[], object]] = []
        self._of_subtests: list[Callable[[], object]] = []
        self._subtests = dict(_failed_subtests(item.config))

    @property
    def has_ended(self) -> bool:
        """Whether the test has run to its end by itself: its reports are those that are told."""
        return not self.is_stopped and not self.is_silent

    def stop(self) -> NoReturn:
        """End the function, by what its surroundings let through: `except Exception`, event loops and unittest."""
        self.is_stopped = True
        if _is_of_unittest(self._item):
            # `failfast` ends a subTest's test
            cast("Any", self._item).failfast = True
            raise unittest.SkipTest(_REASON)
        raise pytest.skip.Exception(_REASON)

    def hold_report(self, report: pytest.TestReport, tell: Callable[[], object]) -> None:
        """Hold a report; where it is that of a subtest in which the function was ended, end what is around that too.

        pytest's subtests keep nearly all exceptions to themselves, and tell of each at once.
        """
        is_of_subtest = hasattr(report, "context")
        if self.is_stopped and is_of_subtest and not _is_of_unittest(self._item):
            self.stop()
        if str(report.outcome) == "rerun":
            # subtests of an attempt are told before it, and pytest-rerunfailures takes them back
            self._held = [one for one in self._held if one not in self._of_subtests]
        if is_of_subtest:
            self._of_subtests.append(tell)
        elif report.when == "call":
            # --durations and JUnit tell what the test took, whose rounds were taken outside of its function
            report.duration += self._item.stash.get(ROUNDS_S, 0.0)
            self._item.stash[ROUNDS_S] = 0.0
        self.hold(tell)

    def hold(self, call: Callable[[], object]) -> None:
        """Hold the call of a hook until `release`."""
        self._held.append(call)

    def finish(self, caller: Callable[..., object], **arguments: Any) -> None:
        """Hold the call that ends a test, or an attempt of it; Allure's result, which is held too, is of each one."""
        end_result(self._item.config, **arguments)
        self.hold(lambda: caller(**arguments))

    def release(self) -> None:
        """Make all calls that were held, in their order."""
        held, self._held = self._held, []
        for call in held:
            call()

    def forget_subtests(self) -> None:
        """Set the counters of failed subtests back: plugins that repeat failed tests look at them too."""
        counters = _failed_subtests(self._item.config)
        counters.clear()
        counters.update(self._subtests)

    def makes_report(self, call: pytest.CallInfo[None], make: Callable[[], pytest.TestReport]) -> pytest.TestReport:
        """The report of a phase: from the plugins, but for a phase of which nothing is told."""
        if not self.is_stopped and not self.is_silent:
            return make()
        self.forget_subtests()
        return pytest.TestReport.from_item_and_call(self._item, call)


class _Relay:
    """The hooks that an item has while it is entered: those that tell of a test's outcome go through the entry."""

    def __init__(self, hooks: Any, entry: ItemEntry) -> None:
        self._hooks, self._entry = hooks, entry

    def __getattr__(self, name: str) -> Any:
        caller, entry = getattr(self._hooks, name), self._entry
        if name == "pytest_runtest_logreport":
            return lambda report: entry.hold_report(report, lambda: caller(report=report))
        if name == "pytest_runtest_logfinish":
            return lambda **arguments: entry.finish(caller, **arguments)
        if name in _HELD:
            return lambda **arguments: entry.hold(lambda: caller(**arguments))
        if name == "pytest_warning_recorded":
            return _Historic(caller, entry)
        if name == "pytest_runtest_makereport":
            return lambda item, call: entry.makes_report(call, lambda: caller(item=item, call=call))
        return caller


class _Historic:
    """The hook that tells of warnings, which is called in a way of its own."""

    def __init__(self, caller: Any, entry: ItemEntry) -> None:
        self._caller, self._entry = caller, entry

    def call_historic(self, **arguments: Any) -> None:
        """Hold the call."""
        self._entry.hold(lambda: self._caller.call_historic(**arguments))


def enter(item: pytest.Item, at: Pass, nextitem: pytest.Item | None, *, is_silent: bool = False) -> ItemEntry:
    """Run a test by pytest's protocol, for that pass; where it ends, `release` of the entry makes its reports known."""
    entry, session = ItemEntry(item, is_silent=is_silent), item.session
    item.stash[ENTRY], item.stash[PASS] = entry, at
    try:
        with (
            _state_kept(item, entry),
            _relayed(session, entry),
            allure_held(item.config, entry.hold),
            span("test", cell=at.cell),
        ):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
    except BaseException:
        if entry.has_ended:
            entry.release()
        raise
    finally:
        del item.stash[ENTRY], item.stash[PASS]
    return entry


@contextmanager
def _relayed(session: pytest.Session, entry: ItemEntry) -> Generator[None]:
    """Meanwhile `item.ihook` is the entry's relay: it is what pytest and its subtests tell of a test by."""
    own = session.gethookproxy
    session.gethookproxy = lambda fspath: cast("Any", _Relay(own(fspath), entry))  # type: ignore[method-assign]
    try:
        yield
    finally:
        del session.gethookproxy


@contextmanager
def _state_kept(item: pytest.Item, entry: ItemEntry) -> Generator[None]:
    """What pytest and unittest keep of a run of the test is as before, where it was none that is told of."""
    function, properties = cast("Any", item), list(item.user_properties)
    benchmarks = getattr(item.config.pluginmanager.get_plugin("pytest-benchmark"), "benchmarks", [])
    rows = len(benchmarks)
    yield
    if entry.has_ended:
        return
    entry.failure = item.stash.get(FAILED, "") or entry.failure
    item.user_properties[:] = properties
    item._report_sections.clear()  # noqa: SLF001 (pytest's own plugins for repeated tests do it so)
    item.stash[MEASURED], item.stash[FAILED] = [], ""
    del benchmarks[rows:]
    entry.forget_subtests()
    if _is_of_unittest(item):
        function.failfast = False
        function.__dict__.pop("_excinfo", None)


def _failed_subtests(config: pytest.Config) -> dict[Any, int]:
    """The counters of pytest's subtests by test, which pytest has from 9 on."""
    try:
        from _pytest.subtests import failed_subtests_key
    except ImportError:
        return {}
    key: Any = failed_subtests_key
    found: dict[Any, int] = config.stash.get(key, {})
    return found


def _is_of_unittest(item: pytest.Item) -> bool:
    kind = getattr(item, "cls", None)
    return isinstance(kind, type) and issubclass(kind, unittest.TestCase)


@contextmanager
def watched(item: pytest.Item) -> Generator[None]:
    """Watch a phase of the item's run, where it was entered: its failure is noted, and a stopped one has none.

    What became of the stop on its way, such as an exception group, is for no plugin that repeats failed tests.
    """
    try:
        yield
    except (KeyboardInterrupt, pytest.exit.Exception):
        raise
    except BaseException as error:
        entry = item.stash.get(ENTRY, None)
        if entry is not None and entry.is_stopped:
            raise pytest.skip.Exception(_REASON) from None
        if entry is not None:
            entry.failure = pytest.ExceptionInfo.from_exception(error).exconly().splitlines()[0]
        raise

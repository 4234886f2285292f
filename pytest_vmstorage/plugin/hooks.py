"""The hooks that pytest calls in every run of everybody who installed the package, whether it measures or not.

So this module imports what pytest wants to know of every plugin, and nothing else; what it needs for a storage test it
imports when it meets one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from typing import Any

import pytest

from pytest_vmstorage.plugin import hookspecs
from pytest_vmstorage.plugin.fixtures import (
    assert_fastest,
    assert_monotonic,
    assert_ratio,
    cells,
    guest,
    measure,
    measure_image,
    storage,
)
from pytest_vmstorage.plugin.keys import ASSERTED, BEGAN, DESELECTED, SESSION, SPANS, asserts_between, is_storage_item
from pytest_vmstorage.plugin.option_table import add_options, any_given, value

__all__ = [
    "assert_fastest",
    "assert_monotonic",
    "assert_ratio",
    "cells",
    "guest",
    "measure",
    "measure_image",
    "pytest_addhooks",
    "pytest_addoption",
    "pytest_assertrepr_compare",
    "pytest_cmdline_main",
    "pytest_collection_finish",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_deselected",
    "pytest_generate_tests",
    "pytest_load_initial_conftests",
    "pytest_report_header",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "pytest_runtest_setup",
    "pytest_runtestloop",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_xdist_auto_num_workers",
    "storage",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare our own hooks."""
    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark, and gather results where reports arrive."""
    config.stash[BEGAN] = time.monotonic()
    config.addinivalue_line(
        "markers",
        'storage(**fields): fixed values of the storage configuration, such as size="2G", format="raw"',
    )
    config.addinivalue_line(
        "markers",
        'tolerated_loss(percent): how much slower than before the test\'s figures may be, such as "5%"',
    )
    if not hasattr(config, "workerinput"):
        if value(config, "save"):
            from pytest_vmstorage.plugin.gate_options import use_save

            use_save(config)
        if any_given(config) and not config.option.help:
            from pytest_vmstorage.plugin.preflight import check_options

            check_options(config)
    if value(config, "plan"):
        # a plan is of the whole selection, which only a process that collects sees: no workers of xdist
        config.option.dist, config.option.tx = "no", []
    if getattr(config.option, "tx", None) and config.option.dist != "no":
        from pytest_vmstorage.plugin.controller import Controller
        from pytest_vmstorage.plugin.options import hosts

        config.pluginmanager.register(Controller(config, hosts(config)), "vmstorage-controller")
        # a controller sees no tests, only their reports
        _record(config)
    if value(config, "matrix") or value(config, "budget"):
        from pytest_vmstorage.plugin.plan import LeftOutReport

        config.pluginmanager.register(LeftOutReport(), "vmstorage-left-out")


def _record(config: pytest.Config) -> None:
    """Gather what tests measured, unless this is a worker of xdist, whose controller does."""
    if not hasattr(config, "workerinput") and not config.pluginmanager.has_plugin("vmstorage-recorder"):
        from pytest_vmstorage.plugin.recorder import Recorder

        config.pluginmanager.register(Recorder(config), "vmstorage-recorder")


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """With `-n auto` as many workers as the user named hosts."""
    if not value(config, "host"):
        return None
    from pytest_vmstorage.plugin.workers import count_workers

    return count_workers(config)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """With --vm-bisect a commit whose conftest.py cannot be read is one to skip: pytest's 4 would make it a bad one."""
    try:
        return (yield)
    except Exception as error:
        if not getattr(early_config.known_args_namespace, "vm_bisect", None):
            raise
        from pytest_vmstorage.plugin.ruling import SKIP

        sys.stderr.write(f"ERROR: {error}\n")
        raise SystemExit(SKIP) from None


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """Give each of several hosts a process; with --vm-bisect end with a status that `git bisect run` understands."""
    if not value(config, "bisect"):
        _use_workers(config)
        return (yield)
    from pytest_vmstorage.plugin.ruling import SKIP, bisect_status

    try:
        _use_workers(config)
        status = yield
    except pytest.UsageError as error:
        sys.stderr.write(f"ERROR: {error}\n")
        return SKIP
    recorder = config.pluginmanager.get_plugin("vmstorage-recorder")
    if recorder is None or recorder.is_empty:
        return bisect_status(int(status or 0), None, None)  # type: ignore[call-overload]
    run = recorder.run()
    return bisect_status(int(status or 0), run, recorder.comparison(run))  # type: ignore[call-overload]


def _use_workers(config: pytest.Config) -> None:
    if value(config, "host"):
        from pytest_vmstorage.plugin.workers import use_workers

        use_workers(config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None]:
    """Let axes be parametrized by name, in one order whatever the decorators' order, or by a matrix file."""
    if not is_storage_item(metafunc.definition):
        return (yield)
    from pytest_vmstorage.plugin.axes import DeferredParametrize
    from pytest_vmstorage.plugin.options import swept_hosts
    from pytest_vmstorage.plugin.sweep import matrix_sweep

    deferred = DeferredParametrize(metafunc)
    result = yield
    sweep = matrix_sweep(metafunc.config)
    hosts = swept_hosts(metafunc.config)
    deferred.replay(sweep.call(metafunc, deferred.names) if sweep else None, hosts)
    return result


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each storage test its cell, bring the tests of one cell together, and those between cells to the end."""
    if any(is_storage_item(item) for item in items):
        from pytest_vmstorage.plugin import axes
        from pytest_vmstorage.plugin.sweep import matrix_sweep

        sweep = matrix_sweep(config)
        axes.attach_configs(items, sweep)
        if sweep is not None:
            sweep.deselect_cellless(config, items)
        axes.group_by_config(items)
    if any(asserts_between(item) for item in items):
        from pytest_vmstorage.plugin.between import put_last

        put_last(items)


def _is_our_worker(config: pytest.Config) -> bool:
    """Whether this is a worker of xdist whose controller has this plugin, too."""
    if not hasattr(config, "workerinput"):
        return False
    from pytest_vmstorage.plugin.post import post_of

    return post_of(config) is not None


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Keep in mind what was left out: an assertion between cells may miss it."""
    if items:
        items[0].config.stash.setdefault(DESELECTED, []).extend(items)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave out cells for which the time does not suffice, of those that `-k`, `--lf` and all else left.

    A worker of xdist tells its controller of those that remain.
    """
    if value(session.config, "budget"):
        from pytest_vmstorage.plugin.forecast import keep_within_budget

        keep_within_budget(session)
    if _is_our_worker(session.config) and any(is_storage_item(item) for item in session.items):
        from pytest_vmstorage.plugin.own import tell_cells

        tell_cells(session)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Refuse, before any test runs, what cannot be; then open the lab, so that its faults are found here too.

    Not when collection ends: `pytest --fixtures` collects as well. With --vm-plan nothing is opened or run.
    """
    items = [item for item in session.items if is_storage_item(item)]
    if items or any(asserts_between(item) for item in session.items):
        _record(session.config)
    if items or value(session.config, "plan"):
        from pytest_vmstorage.plugin.passes import take_turns
        from pytest_vmstorage.plugin.preflight import prepare

        ended = prepare(session, items)
        # a worker of xdist does not know its tests yet
        if not ended and not _is_our_worker(session.config):
            take_turns(session, session.items)
        return ended
    return None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """On a worker of xdist, before its first test: it knows by now which cells are its own, and they take turns."""
    if SPANS not in item.config.stash:
        return (yield)
    from pytest_vmstorage.plugin.timing import timed_test

    if SESSION in item.config.stash and _is_our_worker(item.config):
        from pytest_vmstorage.plugin.own import take_own_turns

        take_own_turns(item.session)
    with timed_test(item):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A storage test begins, perhaps not for the first time."""
    storage_session = item.config.stash.get(SESSION, None)
    if storage_session is not None and is_storage_item(item):
        storage_session.begin(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """After a storage test passed, judge what it measured; after one between cells, say what it could not."""
    result = yield
    if is_storage_item(item):
        item.config.stash[SESSION].judge(item)
    elif asserts_between(item):
        from pytest_vmstorage.plugin.between import settle

        settle(item)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a storage test's report carry what it measured."""
    report = yield
    if is_storage_item(item):
        from pytest_vmstorage.plugin.carry import load_report

        load_report(item, report, call)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Remove all that was made, also after Ctrl-C, before other plugins' summaries can fail."""
    storage_session = session.config.stash.get(SESSION, None)
    recorder = session.config.pluginmanager.get_plugin("vmstorage-recorder")
    controller = session.config.pluginmanager.get_plugin("vmstorage-controller")
    if controller is not None and recorder is not None:
        recorder.add(*controller.unreported())
    if storage_session is not None:
        try:
            if recorder is not None:
                recorder.add(
                    storage_session.turns.unreported(storage_session.reported, storage_session.order),
                    storage_session.hosts(),
                )
        finally:
            storage_session.close()
    if SPANS not in session.config.stash:
        return (yield)
    from pytest_vmstorage.plugin.timing import hand_on, timed_report

    hand_on(session.config)
    with timed_report():
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say below the matrix what assertions between cells came to: of one that holds nothing else does."""
    if config.stash.get(ASSERTED, []):
        from pytest_vmstorage.plugin.between import assertion_lines

        terminalreporter.section("VM storage assertions")
        for line in assertion_lines(config, terminalreporter._tw.fullwidth):  # noqa: SLF001 (no public name for it)
            terminalreporter.write_line(line)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain a failed threshold with unit, spread and configuration."""
    if not (hasattr(left, "spread") or hasattr(right, "spread")):
        return None
    from pytest_vmstorage.plugin.explain import explain

    return explain(op, left, right)


def pytest_report_header(config: pytest.Config) -> Any:
    """Say where guests run, if the user chose it."""
    if not value(config, "host"):
        return None
    from pytest_vmstorage.plugin.options import hosts

    return f"vmstorage: guests run on {', '.join(hosts(config))}"

"""The hooks that pytest calls in every run of everybody who installed the package, whether it measures or not.

So this module imports what pytest wants to know of every plugin, and nothing else; what it needs for a storage test it
imports when it meets one. Hooks that have something to do only then are in `measuring`, a plugin of its own. These are
here although they are about storage tests, since a conftest.py's hooks may count on being called before or after them:
pytest calls the hooks of the plugin that came last first.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator
from typing import Any

import pytest

from pytest_vmstorage.plugin import hookspecs
from pytest_vmstorage.plugin.options import add_options, any_given, value
from pytest_vmstorage.plugin.stash import (
    BEGAN,
    BENCHMARK_HEADER,
    BENCHMARKING,
    DESELECTED,
    ENDING,
    PLACE,
    SESSION,
    asserts_between,
    is_storage_item,
    uses,
)

MARKERS = (
    "storage(**fields): fixed values of the test's storage configuration."
    ' Example: @pytest.mark.storage(size="2G", format="raw")',
    "workload(*workloads, rounds=None, warmup=1, at_least={}, at_most={}): what is measured before the test begins,"
    " each a Fio(...) or the like or a dict of names; `result` has the figures, and thresholds go by metric."
    ' Example: @pytest.mark.workload(Fio(rw="randread", bs="4k", runtime=5), at_least={"iops": 500})',
    "tolerated_loss(percent): how much slower than its baseline the test may be."
    ' Example: @pytest.mark.tolerated_loss("5%")',
    "storage_note(text): a remark that stands with the test's rows in every report."
    ' Example: @pytest.mark.storage_note("the study had 512-byte sectors")',
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    if "_ARGCOMPLETE" not in os.environ:
        add_options(parser)
        return
    # a shell wants words: see pytest's own _argcomplete
    from pytest_vmstorage.lab.completion import completing

    add_options(parser, completing())


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare our own hooks."""
    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark, and gather results where reports arrive."""
    config.stash[BEGAN] = time.monotonic()
    # pytest's own cleanups, which are declared after this one, come before it: Ctrl-C there would be a traceback
    config.add_cleanup(lambda: config.stash[ENDING].give_back() if ENDING in config.stash else None)
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    if config.option.help:
        return
    if not hasattr(config, "workerinput") and any_given(config):
        from pytest_vmstorage.plugin.preflight import check_options

        check_options(config)
    if value(config, "plan"):
        _take_part(config)
        # a plan is of the whole selection, which only a process that collects sees: no workers of xdist
        config.option.dist, config.option.tx = "no", []
    if getattr(config.option, "tx", None) and config.option.dist != "no":
        from pytest_vmstorage.plugin.settings import settings_of
        from pytest_vmstorage.plugin.xdist.controller import Controller

        config.pluginmanager.register(Controller(config, settings_of(config)), "vmstorage-controller")
        # a controller sees no tests, only their reports
        _take_part(config)
        from pytest_vmstorage.plugin.measuring import record

        record(config)
    if value(config, "matrix") or value(config, "budget"):
        from pytest_vmstorage.plugin.plan import LeftOutReport

        config.pluginmanager.register(LeftOutReport(), "vmstorage-left-out")


def _take_part(config: pytest.Config) -> None:
    """Let the run know the hooks of those that measure; other runs never load them."""
    from pytest_vmstorage.plugin import measuring

    if not config.pluginmanager.is_registered(measuring):
        config.pluginmanager.register(measuring, "vmstorage-measuring")


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """The number of workers with `-n auto`: one for each host that the user named."""
    if not value(config, "host"):
        return None
    from pytest_vmstorage.plugin.xdist.worker import count_workers

    return count_workers(config)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> Generator[None]:
    """Note whether an option of pytest-benchmark is given, on the command line, in the ini file or the environment.

    With --vm-bisect, skip a commit whose conftest.py cannot be read: pytest's status 4 would make it a bad one.
    """
    early_config.stash[BENCHMARKING] = any(one.startswith("--benchmark-") for one in args)
    try:
        return (yield)
    except Exception as error:
        if not getattr(early_config.known_args_namespace, "vm_bisect", None):
            raise
        from pytest_vmstorage.plugin.gate import SKIP

        sys.stderr.write(f"ERROR: {error}\n")
        raise SystemExit(SKIP) from None


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """Give each of several hosts a process; with --vm-bisect end with a status that `git bisect run` understands."""
    if not value(config, "bisect"):
        try:
            _use_workers(config)
            return (yield)
        except pytest.UsageError as error:
            from pytest_vmstorage.errors import where_more

            # pytest prints each of the arguments as an error of its own
            error.args = (f"{error}\n{where_more(str(error))}".rstrip(),)
            raise
    from pytest_vmstorage.plugin.gate import SKIP, bisect_status

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
        from pytest_vmstorage.plugin.xdist.worker import use_workers

        use_workers(config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None]:
    """Let axes be parametrized by name, in one order whatever the decorators' order, or by a matrix file."""
    if not is_storage_item(metafunc.definition):
        return (yield)
    from pytest_vmstorage.plugin.parametrize import DeferredParametrize, matrix_sweep
    from pytest_vmstorage.plugin.settings import settings_of

    deferred = DeferredParametrize(metafunc)
    result = yield
    settings, sweep = settings_of(metafunc.config), matrix_sweep(metafunc.config)
    hosts = settings.swept_hosts
    deferred.refuse(settings.not_axes)
    deferred.replay(sweep.call(metafunc, deferred.names) if sweep else None, hosts)
    return result


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark each storage test, so that `-m storage` chooses all of them and `-m "not storage"` none."""
    if (is_storage_item(item) or asserts_between(item)) and item.get_closest_marker("storage") is None:
        item.add_marker("storage")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each storage test its cell, bring the tests of one cell together, and those between cells to the end."""
    if any(is_storage_item(item) for item in items):
        _take_part(config)
        from pytest_vmstorage.plugin import parametrize
        from pytest_vmstorage.plugin.parametrize import matrix_sweep

        sweep = matrix_sweep(config)
        for place, item in enumerate(items):
            item.stash[PLACE] = place
        near_misses = config.stash.get(parametrize.NEAR_MISSES, {})
        parametrize.attach_configs(items, sweep, near_misses)
        if sweep is not None:
            sweep.deselect_cellless(config, items)
        parametrize.group_by_config(items)
    if any(asserts_between(item) for item in items):
        _take_part(config)
        from pytest_vmstorage.plugin.cell_assertions import put_last

        put_last(items)
    if config.getoption("benchmark_only", default=False) or config.getoption("benchmark_skip", default=False):
        from pytest_vmstorage.plugin.benchmark import choose_benchmarks

        choose_benchmarks(config, items)


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
    if hasattr(session.config, "workerinput") and any(is_storage_item(item) for item in session.items):
        from pytest_vmstorage.plugin.xdist.channel import post_of
        from pytest_vmstorage.plugin.xdist.worker import tell_cells

        if post_of(session.config) is not None:
            tell_cells(session)


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
        from pytest_vmstorage.plugin.cell_assertions import settle

        settle(item)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a storage test's report carry what it measured."""
    report = yield
    if is_storage_item(item):
        from pytest_vmstorage.plugin.recorder import load_report

        load_report(item, report, call)
    elif asserts_between(item):
        from pytest_vmstorage.plugin.recorder import ATTRIBUTE

        # it carries nothing, but its outcome counts
        setattr(report, ATTRIBUTE, {})
    return report


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain a failed threshold with unit, spread and configuration."""
    if not (hasattr(left, "spread") or hasattr(right, "spread")):
        return None
    from pytest_vmstorage.plugin.explain import explain

    return explain(op, left, right)


@pytest.hookimpl(wrapper=True)
def pytest_report_header(config: pytest.Config) -> Generator[None, list[Any], list[Any]]:
    """Say where guests run, if the user chose it; keep pytest-benchmark's line back until a test needs it.

    That plugin comes with this one, to projects that have no benchmark: its line is of 160 characters.
    """
    lines = yield
    if not config.stash.get(BENCHMARKING, False):
        config.stash[BENCHMARK_HEADER] = [one for one in lines if str(one).startswith("benchmark: ")]
        lines = [one for one in lines if one not in config.stash[BENCHMARK_HEADER]]
    if not value(config, "host"):
        return lines
    from pytest_vmstorage.plugin.settings import settings_of

    return [*lines, f"vmstorage: guests run on {', '.join(settings_of(config).hosts)}"]


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """Print pytest-benchmark's line where a test uses its fixture."""
    return config.stash.get(BENCHMARK_HEADER, []) if any(uses(item, "benchmark") for item in items) else []

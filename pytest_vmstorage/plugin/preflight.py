"""What is found wrong before any test runs: options, cells that cannot exist, a host that cannot be used."""

from __future__ import annotations

import importlib.util

import pytest

from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.plugin import axes, options
from pytest_vmstorage.plugin.devices import device_lines
from pytest_vmstorage.plugin.emulators import check_emulators
from pytest_vmstorage.plugin.keys import SESSION
from pytest_vmstorage.plugin.sweep import matrix_sweep

_NO_PYGAL = (
    "--benchmark-histogram needs pygal, which is not here. Install it: pip install 'pytest-benchmark[histogram]'."
)


def check_options(config: pytest.Config) -> None:
    """Check what the user chose as soon as it is known; raises pytest.UsageError.

    A controller of xdist sees no tests and cannot wait for the first of ours, so it looks for the baseline too.
    """
    from pytest_vmstorage.report.files import check_report_path

    try:
        options.lab_settings(config)
        options.rounds(config)
        options.seed(config)
        options.tolerated(config)
        options.budget_s(config)
        matrix_sweep(config)
        for path in options.report_paths(config):
            check_report_path(path)
        if config.getoption("dist", "no") != "no":
            options.baseline(config)
    except VmStorageError as error:
        raise pytest.UsageError(str(error)) from None


def prepare(session: pytest.Session, items: list[pytest.Item]) -> bool | None:
    """Check the selected tests, then open the lab, or print the plan and return True, which ends the run.

    Raises pytest.UsageError with a sentence for each thing found.

    An xdist worker raises nothing: an error raised there reaches the user as a crash of the worker, so the
    sentence comes from each test instead.
    """
    config = session.config
    is_worker = hasattr(config, "workerinput")
    if session.testsfailed and not config.option.continue_on_collection_errors:
        # pytest is about to end the run over a test file that cannot be read
        return None
    refused = axes.refusals(items)
    if refused and not is_worker:
        raise pytest.UsageError("\n".join(refused))
    if config.option.collectonly or config.option.setupplan:
        return None
    devices = [] if is_worker else _look_at_host(config, items)
    if options.value(config, "plan"):
        from pytest_vmstorage.plugin.plan import print_plan

        print_plan(config, items, devices)
        return True
    if config.getoption("benchmark_histogram", None) and importlib.util.find_spec("pygal") is None and not is_worker:
        raise pytest.UsageError(_NO_PYGAL)
    _open(config, items, devices)
    return None


def _look_at_host(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """A line for each device that cells name; raises pytest.UsageError where one is not there, or a QEMU is not."""
    try:
        check_emulators(config, items)
        return device_lines(config, items)
    except VmStorageError as error:
        raise pytest.UsageError(str(error)) from None


def _open(config: pytest.Config, items: list[pytest.Item], devices: list[str]) -> None:
    # imported here: `--collect-only` must work where nothing of this is installed
    from pytest_vmstorage.plugin.session import StorageSession

    try:
        config.stash[SESSION] = storage_session = StorageSession(config, items)
        # the end of the session closes it; this is for when another plugin fails in that hook before ours
        config.add_cleanup(storage_session.close)
        for line in devices:
            storage_session.announce(line)
        if not hasattr(config, "workerinput"):
            storage_session.lab()
    except VmStorageError as error:
        raise pytest.UsageError(str(error)) from None

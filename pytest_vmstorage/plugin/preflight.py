"""What is found wrong, and what is announced, before any test runs: options, cells, devices, emulators, the host."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

import pytest

from pytest_vmstorage.analysis.gate.policy import parse_tolerated
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import find_host
from pytest_vmstorage.config.variant import Variant
from pytest_vmstorage.errors import ConfigError, VmStorageError
from pytest_vmstorage.guest.emulator import check_emulator
from pytest_vmstorage.host.shell import open_shell
from pytest_vmstorage.plugin import parametrize
from pytest_vmstorage.plugin.parametrize import matrix_sweep
from pytest_vmstorage.plugin.progress_line import write_sentence
from pytest_vmstorage.plugin.settings import Settings, settings_of
from pytest_vmstorage.plugin.stash import CONFIG, NOTE, SESSION, TOLERATED, has_turns, is_skipped, tolerated_by
from pytest_vmstorage.plugin.timing import begin_timing
from pytest_vmstorage.storage.block import find_block, needs_block, plan_line


def device_lines(settings: Settings, cells: Iterable[StorageConfig]) -> list[str]:
    """A line for each device or volume that these cells lie on, or why they cannot; nothing is written.

    Raises ConfigError where a cell's backing is not listed, or may be any of several.
    """
    wanted = [cell for cell in dict.fromkeys(cells) if needs_block(cell)]
    if not wanted:
        return []
    chosen = settings.lab
    host = find_host(chosen.host, chosen.folder, chosen.inventory)
    shell = open_shell(host)
    lines: dict[str, None] = {}
    for cell in wanted:
        try:
            lines[f"backing={cell.backing}: {plan_line(find_block(shell, host, cell))}"] = None
        except ConfigError:
            raise
        except VmStorageError as error:
            lines[f"{cell} will have no figure: {error}"] = None
    return list(lines)


def check_emulators(settings: Settings, cells: Iterable[StorageConfig]) -> None:
    """Run each one with --version; raises ConfigError for the first that cannot be used, HostError."""
    paths = dict.fromkeys(cell.emulator for cell in cells if cell.emulator)
    if not paths:
        return
    chosen = settings.lab
    host = find_host(chosen.host, chosen.folder, chosen.inventory)
    shell = open_shell(host)
    for path in paths:
        check_emulator(shell, path, host.name)


def machine_lines(settings: Settings, cells: Iterable[StorageConfig]) -> list[str]:
    """A line for each machine that is a cell, or why it will have no figure; nothing is written.

    Raises ConfigError where vmstorage.toml has no such machine, or its disk by a name that is another's tomorrow.
    """
    from pytest_vmstorage.lab.machines import Machines

    wanted = [cell for cell in dict.fromkeys(cells) if cell.is_machine]
    if not wanted:
        return []
    machines = Machines(settings.inventory)
    lines: dict[str, None] = {}
    for cell in wanted:
        try:
            lines[f"backing={cell.backing}: {machines.plan(cell)}"] = None
        except ConfigError:
            raise
        except VmStorageError as error:
            lines[f"{cell} will have no figure: {error}"] = None
    return list(lines)


_NO_PYGAL = (
    "--benchmark-histogram needs pygal, which is not here. Install it: pip install 'pytest-benchmark[histogram]'."
)


def check_options(config: pytest.Config) -> None:
    """Check what the user chose as soon as it is known; raises pytest.UsageError.

    A controller of xdist sees no tests and cannot wait for the first of ours, so it looks for the baseline too.
    """
    from pytest_vmstorage.report.formats import check_report_path, check_writable

    try:
        settings = settings_of(config)
        _ = settings.lab, settings.policy
        matrix_sweep(config)
        for path in settings.report_paths:
            check_report_path(path)
        if settings.timeline_path is not None:
            check_writable(settings.timeline_path, "the timeline")
        if config.getoption("dist", "no") != "no":
            _ = settings.baseline
    except VmStorageError as error:
        raise pytest.UsageError(str(error)) from None
    if settings.save:
        # before pytest-benchmark reads its own options
        config.option.benchmark_save = settings.save


def prepare(session: pytest.Session, items: list[pytest.Item]) -> bool | None:
    """Check the selected tests, then open the lab, or print the plan and return True, which ends the run.

    Raises pytest.UsageError with a sentence for each thing found.

    An xdist worker raises nothing: an error raised there reaches the user as a crash of the worker, so the
    sentence comes from each test instead.
    """
    config = session.config
    begin_timing(config)
    is_worker = hasattr(config, "workerinput")
    if session.testsfailed and not config.option.continue_on_collection_errors:
        # pytest is about to end the run over a test file that cannot be read
        return None
    refused = parametrize.refusals(items)
    if refused and not is_worker:
        raise pytest.UsageError("\n".join(refused))
    if config.option.collectonly or config.option.setupplan:
        return None
    if not is_worker:
        _check_columns(config)
        _tell_ignored(config)
    if items and not is_worker:
        check_gate(config, items)
    devices = [] if is_worker else _look_at_host(config, items)
    if settings_of(config).plan:
        from pytest_vmstorage.plugin.plan import print_plan

        print_plan(config, items, devices)
        return True
    if config.getoption("benchmark_histogram", None) and importlib.util.find_spec("pygal") is None and not is_worker:
        raise pytest.UsageError(_NO_PYGAL)
    _open(config, items, devices)
    return None


def _check_columns(config: pytest.Config) -> None:
    """Refuse a metric that no workload has; pytest.UsageError. Workloads of the user's own are imported by now."""
    from pytest_vmstorage.workloads.metrics import check_known

    try:
        check_known(settings_of(config).columns)
    except VmStorageError as error:
        raise pytest.UsageError(str(error)) from None


def _tell_ignored(config: pytest.Config) -> None:
    """Say which files that list hosts and devices are not used; once, whatever else the run needs of them."""
    for sentence in settings_of(config).ignored:
        write_sentence(config, sentence)


def check_gate(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse what can decide nothing: a recipe that a cell cannot have, a baseline without any of the tests.

    Raises pytest.UsageError.
    """
    try:
        settings = settings_of(config)
        variant, baseline = settings.variant, settings.baseline
        paired = _others(variant, items)
        for item in items:
            _check_marks(item)
    except VmStorageError as error:
        raise pytest.UsageError(str(error)) from None
    if variant is not None and not paired:
        raise pytest.UsageError(
            f"--vm-against={variant.text} has nothing to pair: no selected test runs a workload with `measure`."
        )
    if baseline is not None and not baseline.nodeids & {item.nodeid for item in items}:
        example = min(baseline.nodeids, default="nothing")
        raise pytest.UsageError(
            f"the baseline {baseline.name!r} has none of the selected tests, so nothing can be compared; it has for "
            f"example {example}. Run pytest in the folder that it was saved from, or save it anew with --vm-save."
        )


def _check_marks(item: pytest.Item) -> None:
    """Raise ConfigError for a mark tolerated_loss or storage_note that says nothing."""
    mark = item.get_closest_marker(TOLERATED)
    if mark is not None:
        parse_tolerated(tolerated_by(item), f"{item.nodeid}: the mark {TOLERATED}")
    for note in item.iter_markers(NOTE):
        if note.kwargs or len(note.args) != 1 or not isinstance(note.args[0], str) or not note.args[0].strip():
            raise ConfigError(
                f"{item.nodeid}: the mark {NOTE} has no text.", hint=f'Write @pytest.mark.{NOTE}("ext4 is full here").'
            )


def _others(variant: Variant | None, items: list[pytest.Item]) -> list[StorageConfig]:
    """What the cells of these tests are paired with; raises ConfigError."""
    cells = dict.fromkeys(item.stash[CONFIG] for item in items if has_turns(item) and not is_skipped(item))
    return [] if variant is None else [variant.of(cell) for cell in cells]


def _look_at_host(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """A line for each device and machine that cells name; pytest.UsageError where one, or a QEMU, is not there."""
    try:
        cells = [item.stash[CONFIG] for item in items if CONFIG in item.stash and not is_skipped(item)]
        settings = settings_of(config)
        # what its files have wrong is found with the cells, also where nothing is to be opened
        _ = settings.lab
        cells += _others(settings.variant, items)
        check_emulators(settings, cells)
        return [*device_lines(settings, cells), *machine_lines(settings, cells)]
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

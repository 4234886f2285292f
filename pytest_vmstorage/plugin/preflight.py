"""The checks before any test runs: options, cells, devices, emulators, the gate; then the lab is opened."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from pytest_vmstorage.analysis.gate.policy import parse_tolerated
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import find_host
from pytest_vmstorage.config.user_input import close_to
from pytest_vmstorage.config.variant import Variant
from pytest_vmstorage.errors import ConfigError, VmStorageError, signed
from pytest_vmstorage.guest.emulator import check_emulator
from pytest_vmstorage.host.shell import open_shell
from pytest_vmstorage.measure.option_checks import OptionChecks
from pytest_vmstorage.plugin.declared import check_declared
from pytest_vmstorage.plugin.parametrize import matrix_sweep, refusals
from pytest_vmstorage.plugin.progress_line import write_sentence
from pytest_vmstorage.plugin.settings import Settings, settings_of
from pytest_vmstorage.plugin.stash import CONFIG, NOTE, SESSION, TOLERATED, has_turns, is_skipped, tolerated_by
from pytest_vmstorage.plugin.timing import begin_timing, end_start
from pytest_vmstorage.progress import silent
from pytest_vmstorage.results.packed import check_lzma
from pytest_vmstorage.results.spans import span
from pytest_vmstorage.storage.block import find_block, needs_block, plan_line
from pytest_vmstorage.workloads.base import Workload

_NO_PYGAL = (
    "--benchmark-histogram needs pygal, which is not here. Install it: pip install 'pytest-benchmark[histogram]'."
)


def check_options(config: pytest.Config) -> None:
    """Check the options as soon as they are known; raises pytest.UsageError.

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

    Raises pytest.UsageError with a sentence for each thing found. A worker of xdist raises nothing: an error raised
    there reaches the user as a crash of the worker, so the sentence comes from each test instead.
    """
    config = session.config
    begin_timing(config)
    is_worker = hasattr(config, "workerinput")
    if session.testsfailed and not config.option.continue_on_collection_errors:
        # pytest is about to end the run over a test file that cannot be read
        return None
    refused = refusals(items)
    if refused and not is_worker:
        raise pytest.UsageError("\n".join(refused))
    if config.option.collectonly or config.option.setupplan:
        return None
    settings = settings_of(config)
    if not is_worker:
        _examine(config, settings, items)
    end_start(config)
    # the host is asked here for what cells name, and what makes guests is loaded: that is opening, too
    with span("opening"), _usage_errors():
        lines = [] if is_worker else _host_lines(settings, _all_cells(settings, items))
        if settings.plan:
            from pytest_vmstorage.plugin.plan import print_plan

            print_plan(config, items, lines)
            return True
        histogram = config.getoption("benchmark_histogram", None)
        if histogram and importlib.util.find_spec("pygal") is None and not is_worker:
            raise pytest.UsageError(signed(_NO_PYGAL, "VM236"))
        _open(config, items, lines)
    return None


@contextlib.contextmanager
def _usage_errors() -> Iterator[None]:
    """Raise an error of ours in the block as pytest.UsageError, which ends the run before any test."""
    try:
        yield
    except VmStorageError as error:
        raise pytest.UsageError(str(error)) from None


def _own_cells(items: list[pytest.Item]) -> list[StorageConfig]:
    """The cells of those tests that are not skipped."""
    return [item.stash[CONFIG] for item in items if CONFIG in item.stash and not is_skipped(item)]


def _all_cells(settings: Settings, items: list[pytest.Item]) -> list[StorageConfig]:
    """The same, and the cells that they are paired with; each once. Raises ConfigError."""
    return list(dict.fromkeys([*_own_cells(items), *_others(settings.variant, items)]))


def _examine(config: pytest.Config, settings: Settings, items: list[pytest.Item]) -> None:
    """Check columns, gate, and options of tools; raises pytest.UsageError."""
    with _usage_errors():
        if settings.columns.all_names:
            # all workloads are loaded for it, and the user's own are by now
            from pytest_vmstorage.workloads.metrics import check_known

            check_known(settings.columns)
        for sentence in settings.ignored:
            write_sentence(config, sentence)
        if items:
            check_gate(config, items)
        if any(not cell.is_machine for cell in _own_cells(items)):
            _check_options(settings, items)


def _host_lines(settings: Settings, cells: Sequence[StorageConfig]) -> list[str]:
    """A line for each device, volume and machine of these cells, or why they will have no figure; nothing is written.

    Raises ConfigError where a backing is not listed or may be any of several, and for an emulator that cannot be used;
    HostError.
    """
    from pytest_vmstorage.lab.machines import Machines

    blocks = [cell for cell in cells if needs_block(cell)]
    emulators = dict.fromkeys(cell.emulator for cell in cells if cell.emulator)
    lab, lines = settings.lab, []
    if blocks or emulators:
        host = find_host(lab.host, lab.folder, lab.inventory)
        shell = open_shell(host)
        for path in emulators:
            check_emulator(shell, path, host.name)
        lines = [_line(cell, lambda cell: plan_line(find_block(shell, host, cell))) for cell in blocks]
    machines = Machines(lab.inventory)
    return list(dict.fromkeys([*lines, *(_line(cell, machines.plan) for cell in cells if cell.is_machine)]))


def _check_options(settings: Settings, items: list[pytest.Item]) -> None:
    """Let tools on the host check the options that only they know, of workloads in marks and parameters.

    Others are known when a test calls `measure`, and checked there before their guest is made. Raises ConfigError.
    """
    known = [one for item in items if not is_skipped(item) for one in _workloads_of(item) if one.option_check]
    if known:
        lab, checks = settings.lab, OptionChecks()
        host = find_host(lab.host, lab.folder, lab.inventory)
        for workload in known:
            # a host without the tool is told when the test begins
            checks.on_host(open_shell(host), host.name, workload, silent)


def _workloads_of(item: pytest.Item) -> Iterator[Workload]:
    """The workloads that stand in the test's marks and parameters, also in lists and mappings there."""
    callspec = getattr(item, "callspec", None)
    given = list(callspec.params.values()) if callspec is not None else []
    given += [value for mark in item.iter_markers("workload") for value in (*mark.args, *mark.kwargs.values())]
    while given:
        value = given.pop()
        if isinstance(value, Workload):
            yield value
        elif isinstance(value, tuple | list | Mapping):
            given += value.values() if isinstance(value, Mapping) else value


def _line(cell: StorageConfig, plan: Callable[[StorageConfig], str]) -> str:
    try:
        return f"backing={cell.backing}: {plan(cell)}"
    except ConfigError:
        raise
    except VmStorageError as error:
        return f"{cell} will have no figure: {error}"


def check_gate(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse what can decide nothing: a variant that a cell cannot have, a baseline without any of the tests.

    Raises pytest.UsageError.
    """
    try:
        settings = settings_of(config)
        variant, baseline = settings.variant, settings.baseline
        paired = _others(variant, items)
        for item in items:
            check_declared(item)
            _check_marks(item)
    except VmStorageError as error:
        raise pytest.UsageError(str(error)) from None
    if variant is not None and not paired:
        said = f"--vm-against={variant.text} has nothing to pair: no selected test runs a workload with `measure`."
        raise pytest.UsageError(signed(said, "VM803"))
    if baseline is not None and not baseline.nodeids & {item.nodeid for item in items}:
        example = min(baseline.nodeids, default="nothing")
        said = (
            f"the baseline {baseline.name!r} has none of the selected tests, so nothing can be compared; it has for "
            f"example {example}. Run pytest in the folder that it was saved from, or save it anew with --vm-save."
        )
        raise pytest.UsageError(signed(said, "VM804"))


def _check_marks(item: pytest.Item) -> None:
    """Raise ConfigError for a mark tolerated_loss or storage_note without a value, or with something else."""
    if (mark := item.get_closest_marker(TOLERATED)) is not None:
        for name in mark.kwargs.keys() - {"percent"}:
            hint = f'{close_to(name, ["percent"])}Write @pytest.mark.{TOLERATED}("5%").'
            raise ConfigError(f"{item.nodeid}: the mark {TOLERATED} takes no {name!r}.", hint=hint, code="VM263")
        if len([*mark.args, *mark.kwargs]) > 1:
            hint = f'Write @pytest.mark.{TOLERATED}("5%").'
            raise ConfigError(f"{item.nodeid}: the mark {TOLERATED} takes one percentage.", hint=hint, code="VM263")
        parse_tolerated(tolerated_by(item), f"{item.nodeid}: the mark {TOLERATED}")
    for note in item.iter_markers(NOTE):
        if note.kwargs or len(note.args) != 1 or not isinstance(note.args[0], str) or not note.args[0].strip():
            raise ConfigError(
                f"{item.nodeid}: the mark {NOTE} has no text.",
                hint=f'Write @pytest.mark.{NOTE}("ext4 is full here").',
                code="VM263",
            )


def _others(variant: Variant | None, items: list[pytest.Item]) -> list[StorageConfig]:
    """The cells that those of these tests are paired with; raises ConfigError."""
    cells = dict.fromkeys(item.stash[CONFIG] for item in items if has_turns(item))
    return [] if variant is None else [variant.of(cell) for cell in cells]


def _open(config: pytest.Config, items: list[pytest.Item], lines: list[str]) -> None:
    # imported here: `--collect-only` must work where nothing of this is installed
    from pytest_vmstorage.plugin.session import StorageSession

    check_lzma()
    config.stash[SESSION] = storage_session = StorageSession(config, items)
    # the end of the session closes it; this is for when another plugin fails in that hook before ours
    config.add_cleanup(storage_session.close)
    for line in lines:
        storage_session.announce(line)
    if not (hasattr(config, "workerinput") or all(map(is_skipped, items))):
        storage_session.lab()

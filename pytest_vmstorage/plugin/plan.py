"""--vm-plan: what a run would do, cell by cell, without doing it; and what a run's end says of cells left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_vmstorage.analysis.calibration import Calibration, power_clause
from pytest_vmstorage.analysis.gate.policy import Loss
from pytest_vmstorage.config.inventory import LOCAL
from pytest_vmstorage.config.matrix import by_reason, listed
from pytest_vmstorage.lab.division import divide
from pytest_vmstorage.measure.rounds import Rounds
from pytest_vmstorage.plugin.forecast import UNCOVERED, CellForecast, calibrations, forecast
from pytest_vmstorage.plugin.interleave import wants_turns
from pytest_vmstorage.plugin.parametrize import CELLLESS, matrix_sweep
from pytest_vmstorage.plugin.progress_line import count_text
from pytest_vmstorage.plugin.settings import settings_of
from pytest_vmstorage.plugin.stash import has_turns, is_declared
from pytest_vmstorage.plugin.xdist.shares import division_line, homes_of, work_of
from pytest_vmstorage.results.journal import GUEST_S, ROUND_S
from pytest_vmstorage.text import plain
from pytest_vmstorage.units import format_about, format_duration

_SHOWN = 6
_WORKER_OUTPUT = "vmstorage_left_out"


def print_plan(config: pytest.Config, items: Sequence[pytest.Item], devices: Sequence[str] = ()) -> None:
    """Print the plan of these tests; `devices` are lines about what they will write to."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    reporter.ensure_newline()
    reporter.section("VM storage plan")
    for line in [*plan_lines(config, items), *devices]:
        reporter.write_line(plain(line))


def plan_lines(config: pytest.Config, items: Sequence[pytest.Item]) -> list[str]:
    """The plan as text: cells in the order of the run, what is left out and why, guests, disks, time."""
    cells = forecast(config, items)
    if not cells:
        return ["no selected test has a storage configuration", *unmeasured_lines(config)]
    left_out = [*rule_lines(config, items), *unmeasured_lines(config)]
    known = calibrations(config)
    totals = _total_lines(cells, wants_turns(config, items), is_calibrated=bool(known))
    notes = [*_entry_lines(config, items), *_calibration_lines(settings_of(config).rounds, known)]
    return [*_cell_lines(cells), *left_out, *totals, *_host_lines(config, items), *_pair_lines(config), *notes]


def _entry_lines(config: pytest.Config, items: Sequence[pytest.Item]) -> list[str]:
    """Lines on what turns cost tests that are entered to learn what they measure."""
    learned = [item for item in items if has_turns(item) and not is_declared(item)]
    if not learned or not wants_turns(config, items):
        return []
    lines = []
    if config.getoption("maxfail", 0):
        lines.append(
            "-x and --maxfail see an assertion behind `measure` when all cells have their rounds: --vm-without=turns"
            " ends the run sooner, and so does a threshold in @pytest.mark.workload"
        )
    if names := _set_up_again(learned):
        lines.append(f"set up once more, to learn what their tests measure: {listed(names, _SHOWN)}")
    return lines


def _set_up_again(learned: Sequence[pytest.Item]) -> list[str]:
    """Fixtures of wider scope than a function that entering the tests sets up, and their reports again."""
    is_spread = len({item.path for item in learned}) > 1
    found: dict[str, None] = {}
    for item in learned:
        definitions = getattr(item, "_fixtureinfo", None)
        for name, (*_, last) in definitions.name2fixturedefs.items() if definitions is not None else ():
            is_wide = last.scope in ("class", "module", "package") and not last.func.__module__.startswith("_pytest.")
            if is_wide and (is_spread or last.params is not None):
                found[f"{name} ({last.scope})"] = None
    return list(found)


def _host_lines(config: pytest.Config, items: Sequence[pytest.Item]) -> list[str]:
    """A line on how several hosts share the cells."""
    hosts = settings_of(config).hosts
    if len(hosts) == 1:
        return []
    work = work_of(config, items, hosts)
    homes = homes_of(config, hosts, {items[one.place].nodeid: one.place for one in work})
    return [division_line(divide(work, hosts, homes), len(homes))]


def _pair_lines(config: pytest.Config) -> list[str]:
    """A line on the pairs of each cell, which the time above does not count."""
    variant, looks = settings_of(config).variant, Loss()
    if variant is None:
        return []
    first, last = looks.screening[0].pairs, looks.screening[-1].pairs
    return [
        f"each cell is paired with the same and {variant.text}: {first} to {last} pairs of rounds in their own guests,"
        f" and {looks.confirmation[0].pairs} to {looks.confirmation[-1].pairs} more where it looks slower"
    ]


def _cell_lines(cells: Sequence[CellForecast]) -> list[str]:
    width = max(len(cell.config.label) for cell in cells)
    times = [format_duration(cell.candidate.seconds) for cell in cells]
    more = [f" and {len(cell.items) - 1} more" if len(cell.items) > 1 else "" for cell in cells]
    digits, longest = len(str(len(cells))), max(map(len, times))
    return [
        f"{number:>{digits}}  {cell.config.label:<{width}}  {time:>{longest}}  {cell.items[0].nodeid}{others}"
        for number, (cell, time, others) in enumerate(zip(cells, times, more, strict=True), 1)
    ]


def rule_lines(config: pytest.Config, items: Sequence[pytest.Item]) -> list[str]:
    """Lines on cells that the matrix file leaves out for these tests and why, and on rules that match nothing."""
    sweep = matrix_sweep(config)
    if sweep is None:
        return []
    source = sweep.matrix.source
    expansions = sweep.expansions(items)
    if not expansions:
        return [f"warning: no selected test takes the cells of {source}: all sweep axes themselves, or have no cell"]
    left_out = dict.fromkeys(one for expansion in expansions for one in expansion.left_out)
    lines = []
    for reason, cells in by_reason(left_out).items():
        lines += [f"{source} leaves out {count_text(len(cells), 'cell')}, {reason}:", f"    {listed(cells, _SHOWN)}"]
    idle = [set(expansion.idle) for expansion in expansions]
    return [*lines, *(f"{rule} of {source} matches no cell" for rule in sorted(set.intersection(*idle)))]


def unmeasured_lines(config: pytest.Config) -> list[str]:
    """Lines on selected tests that are not measured: the matrix file has no cell for them, or the budget no time."""
    sweep = matrix_sweep(config)
    gone = [item.nodeid for item in config.stash.get(CELLLESS, [])]
    lines = []
    if sweep is not None and gone:
        lines.append(f"no cell of {sweep.matrix.source} is left for: {listed(gone, _SHOWN)}")
    return [*lines, *config.stash.get(UNCOVERED, [])]


def _calibration_lines(rounds: Rounds, known: Mapping[str, Calibration]) -> list[str]:
    """What the planned rounds can show, by the calibration of each of the run's hosts that has one."""
    lines = []
    for host, calibration in known.items():
        where = f" on {host}" if host != LOCAL else ""
        count = rounds.least
        if rounds.count is None and calibration.noise:
            count = max(one.rounds_within(rounds.precision) for one in calibration.noise)
            count = max(rounds.least, count)
        if clause := power_clause(calibration, count):
            lines.append(f"{clause}{where} ({calibration.about})")
    return lines


def _total_lines(cells: Sequence[CellForecast], in_turns: bool, *, is_calibrated: bool) -> list[str]:
    guests = [cell for cell in cells if cell.needs_guest]
    tests = sum(len(cell.items) for cell in cells)
    lines = [f"{count_text(len(cells), 'cell')}, {count_text(len(guests), 'guest')}, {count_text(tests, 'test')}"]
    disks = [cell for cell in cells if cell.needs_disk and not (cell.config.is_null or cell.config.is_machine)]
    if disks:
        largest = max(cell.config.size for cell in disks)
        rooms = [cell.folder_bytes for cell in disks]
        most = sum(rooms) if in_turns else max(map(sum, zip(rooms, [*rooms[1:], 0], strict=True)))
        why = (
            "guests wait for their next turn with their disks, as many as there is room for"
            if in_turns
            else "a disk may be removed while the next one is made"
        )
        lines.append(f"largest disk {format_about(largest)}; disk space at most {format_about(most)}: {why}")
    seconds = sum(cell.candidate.seconds for cell in cells)
    lines.append(f"estimated time {format_duration(seconds)}: {_bases(cells, is_calibrated=is_calibrated)}")
    return lines


_BASES = {
    "measured": "as last measured",
    "other cells": "as the same test's other cells",
    "declared": "by the runtime of its workload",
    "assumed": f"never measured, so {ROUND_S:.0f} s a round assumed",
}


def _bases(cells: Sequence[CellForecast], *, is_calibrated: bool) -> str:
    found: Counter[str] = sum((cell.bases for cell in cells), Counter())
    parts = [f"{count_text(found[basis], 'test')} {text}" for basis, text in _BASES.items() if found[basis]]
    if any(cell.needs_guest for cell in cells):
        a_guest = "guests as calibrated" if is_calibrated else f"{GUEST_S:.0f} s a guest assumed"
        parts.append(f"{a_guest}, filling its disk not counted")
    return "; ".join(parts) or "nothing is measured"


class LeftOutReport:
    """Says at the end of a run what was left out; a worker of xdist lets the controller say it."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note it, now that the selection is final."""
        self._lines = unmeasured_lines(session.config)
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_WORKER_OUTPUT] = self._lines

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:  # noqa: ARG002 (a hook's argument)
        """Take a worker's lines; all workers select the same tests."""
        self._lines = getattr(node, "workeroutput", {}).get(_WORKER_OUTPUT, self._lines)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print it, unless the plan did."""
        if self._lines and not settings_of(terminalreporter.config).plan:
            terminalreporter.ensure_newline()
            terminalreporter.section("VM storage left out")
            for line in self._lines:
                terminalreporter.write_line(plain(line))

"""The time of the selected tests, estimated from journals of earlier runs; and the cells that a budget leaves out."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from pytest_vmstorage.analysis.calibration import Calibration
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import LOCAL, find_host
from pytest_vmstorage.config.matrix import listed
from pytest_vmstorage.config.selection import Candidate, Choice, choose
from pytest_vmstorage.config.settings import Accel
from pytest_vmstorage.errors import ConfigError, signed
from pytest_vmstorage.guest.restore.states import is_meant_for
from pytest_vmstorage.host.calibrations import newest_calibration
from pytest_vmstorage.plugin.declared import declared_by
from pytest_vmstorage.plugin.settings import settings_of
from pytest_vmstorage.plugin.stash import CONFIG, host_of, is_declared, is_skipped, measures, uses
from pytest_vmstorage.results.journal import GUEST_S, Estimate, History, read_history, stem_of
from pytest_vmstorage.storage.disk import folder_bytes, images_bytes
from pytest_vmstorage.units import format_duration

NO_TIME = Estimate(0.0, "measured")


class CellForecast(NamedTuple):
    """A cell, its selected tests in order, what the budget wants to know of it, and what the times rest on.

    A guest is booted for it if it `needs_guest`: a native row has its disk on the host, and so have images.
    """

    config: StorageConfig
    items: tuple[pytest.Item, ...]
    candidate: Candidate
    needs_disk: bool
    bases: Counter[str]
    needs_guest: bool = False
    works_on_images: bool = False

    @property
    def folder_bytes(self) -> int:
        """The cell's bytes in the host's folder at most: its disk, or images for operations on whole ones."""
        images = images_bytes(self.config) if self.works_on_images else 0
        return images + (folder_bytes(self.config) if self.needs_guest or not self.works_on_images else 0)


def forecast(config: pytest.Config, items: Sequence[pytest.Item]) -> list[CellForecast]:
    """The cells of these tests in the order in which they are run, on each of several hosts where they are on each."""
    cells: dict[tuple[StorageConfig, str], list[pytest.Item]] = {}
    for item in items:
        if CONFIG in item.stash and not is_skipped(item):
            cells.setdefault((item.stash[CONFIG], host_of(item)), []).append(item)
    history = read_history(journals(config))
    cache = getattr(config, "cache", None)
    failed = {} if cache is None else cache.get("cache/lastfailed", {})
    rounds, known = settings_of(config).rounds.least, calibrations(config)
    return [
        _cell(cell, tests, history, failed, rounds, _calibration_for(known, host))
        for (cell, host), tests in cells.items()
    ]


def calibrations(config: pytest.Config) -> Mapping[str, Calibration]:
    """The newest calibration of each of the run's hosts that has one, by the host as --vm-host names it.

    Whether it still holds is known only when the host is reached.
    """
    settings = settings_of(config)
    hosts = {host: find_host(None if host == LOCAL else host, None, settings.inventory).name for host in settings.hosts}
    found = {host: newest_calibration(name) for host, name in hosts.items()}
    return {host: one for host, one in found.items() if one is not None}


def _calibration_for(known: Mapping[str, Calibration], host: str) -> Calibration | None:
    """The calibration of the host that a test is for; of any of the run's where it may run on each."""
    return known.get(host) if host else next(iter(known.values()), None)


def guest_s(config: StorageConfig, calibration: Calibration | None, boot: str | None) -> float:
    """The time until that cell's guest is there: as calibrated for guests that begin as it will, else assumed."""
    if calibration is None:
        return GUEST_S
    accel: Accel = "kvm" if calibration.host.accel == "kvm" else "tcg"
    restored = is_meant_for(config, boot, accel, calibration.restorable)
    found = calibration.guest_s(restored=restored)
    return found if found is not None else GUEST_S


def _cell(
    config: StorageConfig,
    items: Sequence[pytest.Item],
    history: History,
    failed: Any,
    rounds: int,
    calibration: Calibration | None,
) -> CellForecast:
    measuring = [item for item in items if measures(item) or uses(item, "measure_image")]
    around_s = (calibration.around_s if calibration is not None else None) or 0.0
    estimates = [_estimate(item, history, rounds, around_s) for item in measuring]
    images = any(uses(item, "measure_image") for item in items)
    needs_disk = any(uses(item, "guest") or measures(item) for item in items)
    boots = needs_disk and config.has_guest
    candidate = Candidate(
        config=config,
        tests=tuple(dict.fromkeys(stem_of(item.nodeid) for item in items)),
        seconds=sum(estimate.seconds for estimate in estimates)
        + (guest_s(config, calibration, settings_of(items[0].config).lab_options.boot) if boots else 0.0),
        failed=any(item.nodeid in failed for item in items),
        last=min((history.last(item.nodeid) for item in measuring), default=""),
    )
    bases: Counter[str] = Counter(one.basis for one in estimates)
    return CellForecast(config, tuple(items), candidate, needs_disk or images, bases, boots, images)


def _estimate(item: pytest.Item, history: History, rounds: int, around_s: float) -> Estimate:
    """The time of a test: as it was measured before, else by the runtime of what it declares, else assumed.

    `around_s` is what a round takes beside its runtime.
    """
    found = history.estimate(item.nodeid, rounds)
    if found.basis != "assumed" or not is_declared(item):
        return found
    # marks that cannot be are told when the run begins
    with contextlib.suppress(ConfigError):
        times = [
            ((one.rounds or rounds) + one.warmup) * (one.workload.expected_seconds + around_s)
            for one in declared_by(item)
        ]
        return Estimate(sum(times), "declared")
    return found


def collected_lines(config: pytest.Config, items: Sequence[pytest.Item]) -> list[str]:
    """What the selected tests declare to measure, and the time of it: for a run that only collects."""
    declared: Counter[str] = Counter()
    for item in items:
        with contextlib.suppress(ConfigError):
            declared.update(one.workload.label for one in declared_by(item) if is_declared(item))
    if not declared:
        return []
    cells = forecast(config, [item for item in items if is_declared(item)])
    told = [label if count == 1 else f"{label} in {count} tests" for label, count in declared.items()]
    seconds = format_duration(sum(cell.candidate.seconds for cell in cells))
    return [f"declared workloads: {listed(told, _SHOWN)}; about {seconds} with their guests"]


def journals(config: pytest.Config) -> Iterator[Iterator[str]]:
    """The lines of each journal that earlier runs of this project left."""
    for path in sorted((config.rootpath / ".vmstorage").glob("*.jsonl")):
        # a pipe of that name would be waited for; the run itself says if it cannot write its own journal
        if path.is_file():
            with contextlib.suppress(OSError), path.open(encoding="utf-8", errors="replace") as stream:
                yield stream


UNCOVERED: pytest.StashKey[list[str]] = pytest.StashKey()
"""On the config: sentences about what the budget leaves out."""


def keep_within_budget(session: pytest.Session) -> None:
    """Deselect the cells for which the budget does not suffice.

    Raises pytest.UsageError where it suffices for none; under xdist a worker then selects nothing.
    """
    config = session.config
    settings = settings_of(config)
    budget_s = settings.budget_s
    cells = forecast(config, session.items) if budget_s is not None else []
    if budget_s is None or not cells:
        return
    # each of several hosts has the time
    hosts = len(settings.hosts)
    choice = choose([cell.candidate for cell in cells], budget_s * hosts)
    if not choice.chosen and not hasattr(config, "workerinput"):
        least = min(cell.candidate.seconds for cell in cells)
        what = f"--vm-budget={settings.budget} is not enough for one cell; the shortest takes about"
        raise pytest.UsageError(signed(f"{what} {format_duration(least)}. Give it more time.", "VM261"))
    gone = [cell for n, cell in enumerate(cells) if n not in choice.chosen]
    items = {item for cell in gone for item in cell.items}
    config.stash[UNCOVERED] = uncovered(choice, [str(cell.config) for cell in gone], len(cells), budget_s, hosts)
    if items:
        session.items[:] = [item for item in session.items if item not in items]
        config.hook.pytest_deselected(items=list(items))


_SHOWN = 10


def uncovered(choice: Choice, left_out: Sequence[str], total: int, budget_s: float, hosts: int = 1) -> list[str]:
    """Sentences about a choice: how much of the time and the pairs it takes, and what is not covered."""
    where, each = (f" on {hosts} hosts", " each") if hosts > 1 else ("", "")
    lines = [
        f"{len(choice.chosen)} of {total} cells fit into {format_duration(budget_s)}{where}, taking about"
        f" {format_duration(choice.seconds / hosts)}{each}; {choice.pairs - len(choice.uncovered)} of {choice.pairs}"
        " pairs of values are covered"
    ]
    if left_out:
        lines.append(f"cells not covered: {listed(left_out, _SHOWN)}")
    if choice.uncovered:
        pairs = [" with ".join(f"{name}={value}" for name, value in pair) for _, pair in choice.uncovered]
        lines.append(f"pairs not covered: {listed(list(dict.fromkeys(pairs)), _SHOWN)}")
    return lines

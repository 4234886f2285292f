"""The shares of several hosts in a run: its tests with their times, hosts that can run them, hosts that did before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import find_host
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.lab.division import Work
from pytest_vmstorage.plugin.forecast import forecast
from pytest_vmstorage.plugin.progress_line import count_text
from pytest_vmstorage.plugin.settings import Settings, settings_of
from pytest_vmstorage.plugin.stash import CONFIG, host_of, is_storage_item, uses
from pytest_vmstorage.results.saved import Baseline, load_baseline
from pytest_vmstorage.storage.block import choose_listed, needs_block
from pytest_vmstorage.units import format_duration


def work_of(config: pytest.Config, items: Sequence[pytest.Item], hosts: Sequence[str]) -> list[Work]:
    """Each of these tests that has a cell, by its place among them.

    Raises ConfigError where none of the hosts has what a cell's backing names.
    """
    seconds = {one: cell.candidate.seconds / len(cell.items) for cell in forecast(config, items) for one in cell.items}
    return [
        Work(
            place=place,
            cell=item.stash[CONFIG].model_dump_json(),
            seconds=seconds.get(item, 0.0),
            host=host_of(item),
            on_host=uses(item, "measure_image") and not uses(item, "guest"),
            able=_able(config, item.stash[CONFIG], [host_of(item)] if host_of(item) else hosts),
        )
        for place, item in enumerate(items)
        if is_storage_item(item) and CONFIG in item.stash
    ]


def _able(config: pytest.Config, cell: StorageConfig, hosts: Sequence[str]) -> tuple[str, ...]:
    """The hosts that list what the cell lies on; () where it lies on nothing that is listed."""
    if not needs_block(cell):
        return ()
    able, inventory, why = [], settings_of(config).inventory, None
    for host in hosts:
        try:
            choose_listed(find_host(host, None, inventory), cell)
            able.append(host)
        except ConfigError as error:
            why = why or error
    if not able and why is not None:
        raise why
    return tuple(able)


def homes_of(config: pytest.Config, hosts: Sequence[str], places: Mapping[str, int]) -> dict[int, str]:
    """On which of the hosts each test was measured, by its place: in the baseline, or in the days saved so far.

    What other runs did binds nobody: a second host would get nothing of what was measured on the first.
    """
    settings = settings_of(config)
    baseline = settings.baseline or _saved_days(settings)
    if baseline is None:
        return {}
    names = {find_host(host, None).name: host for host in hosts}
    rows = baseline.run.measurements
    return {places[one.nodeid]: names[one.host] for one in rows if one.nodeid in places and one.host in names}


def _saved_days(settings: Settings) -> Baseline | None:
    """The saved days that --vm-save adds to, None without any: another host's figures would not compare with them."""
    try:
        return load_baseline(settings.save, settings.saved_runs) if settings.save else None
    except ConfigError:
        return None


def division_line(parts: Mapping[str, Sequence[Work]], homes: int) -> str:
    """A line with the number of cells and the estimated time of each host."""
    shares = [
        f"{host} {count_text(len({one.cell for one in part}), 'cell')}, about"
        f" {format_duration(sum(one.seconds for one in part))}"
        for host, part in parts.items()
    ]
    stay = f"; {count_text(homes, 'test')} {'stays' if homes == 1 else 'stay'} on the host of before" if homes else ""
    return f"{'; '.join(shares)}{stay}"

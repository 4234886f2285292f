"""Promotion of a saved run to the baseline: the name begins anew with it, and its changes are listed."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path

from pytest_vmstorage.analysis.comparability import stack_changes
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.leftovers import write_whole
from pytest_vmstorage.results.packed import json_lines
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.results.saved import PROMOTED, host_of, keyed, load_baseline, name_of, saved_files


def promote(run: str, name: str, storage_folder: Path) -> list[str]:
    """Save the run of that name, number or path as the first of baseline `name`; returns the changes, a line each.

    Earlier runs of `name` stay where they are, and no longer count. Raises ConfigError, one sentence.
    """
    candidate = load_baseline(run, storage_folder)
    content = json.loads(candidate.path.read_text(encoding="utf-8"))
    if "benchmarks" not in content:
        raise ConfigError(
            f"{candidate.path} is a report, and no run that pytest-benchmark saved.",
            hint="Save the run with `pytest --vm-save=NAME`, then promote NAME.",
            code="VM246",
        )
    is_there = any(name_of(path) == name for path in saved_files(storage_folder))
    before = load_baseline(name, storage_folder) if is_there else None
    if before is not None and before.path == candidate.path:
        raise ConfigError(
            f"{candidate.path} is the newest run of {name!r} already.",
            hint="Name the run that is to take its place.",
            code="VM246",
        )
    folder = (before or candidate).path.parent
    numbers = [int(path.name[:4]) for path in folder.glob("[0-9][0-9][0-9][0-9]_*.json")]
    path = folder / f"{max(numbers, default=0) + 1:04}_{name}.json"
    now = datetime.datetime.now(datetime.UTC).isoformat()
    content |= {"datetime": now, PROMOTED: {"at": now, "from": candidate.path.name}}
    write_whole(path, json_lines(content))
    return [
        f"{candidate.path} is the baseline {name!r} now, as {path}",
        *changes(before.run if before is not None else None, candidate.run),
    ]


def changes(before: Run | None, after: Run) -> Iterator[str]:
    """The differences of a new baseline: hosts' software, cells that are new or gone, and each primary figure."""
    if before is None:
        yield f"there was no such baseline before; it has {len(after.measurements)} measurements"
        return
    names = {host.name for host in before.hosts}
    for host in after.hosts:
        changed = stack_changes(host_of(before, host.name), host) if host.name in names else ("is new",)
        yield from (f"host {host.name}: {line}" for line in changed)
    old, new = ({(key, one.host): one for key, one in keyed(run.measurements)} for run in (before, after))
    for key, measured in new.items():
        now = measured.figure(measured.primary)
        about = f"{measured.workload} on {measured.config.label}, {measured.host}: {measured.primary}"
        then = old.get(key)
        if then is None or measured.primary not in {metric.name for metric in then.metrics}:
            yield f"{about} is new, {now} ({now.spread})"
        elif float(figure := then.figure(measured.primary)) != float(now):
            share = f" ({(now - figure) / figure * 100:+.1f} %)" if figure else ""
            yield f"{about} was {figure}, and is {now}{share}"
    for key, measured in old.items():
        if key not in new:
            yield f"{measured.workload} on {measured.config.label}, {measured.host}: is not in it any more"

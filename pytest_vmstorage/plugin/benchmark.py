"""The bridge to pytest-benchmark: each measurement becomes one of its rows, time being seconds per operation.

Five names of pytest-benchmark are used that it does not document: its plugin's name, the session's `benchmarks` and
`columns` lists and its `groups`, of which it makes tables, and `Metadata`, which reads eight attributes. They have not
changed from 3.4.1 (2021) to 5.3.1; tests/plugin/test_benchmark.py holds them to that.

Its OPS is 1 / the mean of the rounds' times, and a figure in the matrix is the median of the rounds' rates: where
rounds differ these two differ, too. So both say which they are, and a table of nothing but our rows has no OPS unless
the user chose its columns.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_vmstorage.config.cell import AXES
from pytest_vmstorage.config.user_input import parse_json
from pytest_vmstorage.leftovers import write_whole
from pytest_vmstorage.plugin.stash import BENCHMARKING, is_benchmark
from pytest_vmstorage.results.packed import json_lines
from pytest_vmstorage.results.run import Measurement

_SHOWN_BY = [f"benchmark_{name}" for name in ("save", "autosave", "json", "compare", "histogram")]

_USUAL = ["min", "max", "mean", "stddev", "median", "iqr", "outliers", "ops", "rounds", "iterations"]
"""pytest-benchmark's columns where the user chose none."""

_OF_MEDIANS = ["median", "min", "max", "mean", "stddev", "iqr", "rounds"]

_ROWS: pytest.StashKey[set[str]] = pytest.StashKey()
"""On the config: names of the rows that are ours."""

WHICH_IS_WHICH = (
    "a figure of the matrix is the median of its rounds' figures; pytest-benchmark's table has their times, and its"
    " OPS, where it is shown, is 1 / the mean of these"
)


_ONLY = "--benchmark-only active"
"""Stands in the reason of the mark by which pytest-benchmark skips what is no benchmark of its own."""


def choose_benchmarks(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Let storage tests that measure be run by --benchmark-only, and skipped by --benchmark-skip.

    pytest-benchmark knows tests with its own fixture alone; its hook was called before, and marked all others. Here, as
    there, --benchmark-only is the stronger of the two.
    """
    is_only, is_skip = (config.getoption(f"benchmark_{name}", default=False) for name in ("only", "skip"))
    for item in items:
        if is_only and is_benchmark(item):
            item.own_markers[:] = [mark for mark in item.own_markers if _ONLY not in str(mark.kwargs.get("reason", ""))]
        elif is_skip and not is_only and is_benchmark(item):
            item.add_marker(pytest.mark.skip(reason="Skipping benchmark (--benchmark-skip active)."))


def settle_tables(config: pytest.Config) -> bool:
    """Keep pytest-benchmark's tables to those who asked for one; whether there is a table with our rows.

    Our rows alone, of which `--vm-save` made a file, have no table: the matrix has their figures. Where an option of
    pytest-benchmark asks for one, it begins with the median and has no OPS. What the user chose stays, and so do the
    tables of a project that has benchmarks of its own.
    """
    session, ours = config.pluginmanager.get_plugin("pytest-benchmark"), config.stash.get(_ROWS, set())
    if session is None or not ours:
        return False
    if not all(bench.fullname in ours for bench in session.benchmarks):
        return True
    if not config.stash.get(BENCHMARKING, False):
        session.groups = None
        return False
    if config.getoption("benchmark_columns", None) in (None, _USUAL):
        session.columns = list(_OF_MEDIANS)
    return True


def rewrite_without_indent(path: Path, started: str) -> None:
    """Write the file again without its indent, which takes half of it, if it holds the run that was started then."""
    content = parse_json(path.read_text(encoding="utf-8"))
    if content.get("vmstorage", {}).get("started") == started:
        write_whole(path, json_lines(content))


def put_rows(config: pytest.Config, measurements: Sequence[Mapping[str, Any]], before: Sequence[object]) -> list[Any]:
    """Put the primary metric of each measurement into pytest-benchmark's session, if any of its options asks for it.

    The rows take the place of those `before`, of the same test when it was run first; returns them.
    """
    session = config.pluginmanager.get_plugin("pytest-benchmark")
    if session is None or not any(config.getoption(name, None) for name in _SHOWN_BY):
        return []
    from pytest_benchmark.stats import Metadata

    session.benchmarks[:] = [bench for bench in session.benchmarks if not any(bench is row for row in before)]
    rows = []
    for one in measurements:
        measurement = Measurement.model_validate(one)
        seconds = seconds_per_operation(measurement)
        if seconds is None:
            continue
        taken = {bench.fullname for bench in session.benchmarks}
        row: Any = Metadata(  # type: ignore[no-untyped-call]
            _duck(measurement, taken), 1, {"timer": measurement.tool}
        )
        for value in seconds:
            row.update(value)
        session.benchmarks.append(row)
        config.stash.setdefault(_ROWS, set()).add(row.fullname)
        rows.append(row)
    return rows


def seconds_per_operation(measurement: Measurement) -> list[float] | None:
    """The primary metric of each sample as a time, lower is better; None where it is neither rate nor time."""
    metric = measurement.metric(measurement.primary)
    try:
        seconds = [metric.seconds_per_operation(value) for value in measurement.values(metric.name)]
    except ValueError:
        return None
    # pytest-benchmark's table ends in an AttributeError over one that is not finite
    return seconds if all(map(math.isfinite, seconds)) else None


def _operation(unit: str) -> str:
    """The meaning of pytest-benchmark's time and OPS, for a rate or a time."""
    if unit == "s":
        return unit
    one = "I/O" if unit == "IOPS" else unit.removesuffix("/s").removesuffix("s")
    return f"s per {one}, OPS = 1/mean in {unit}"


def _duck(measurement: Measurement, taken: set[str]) -> SimpleNamespace:
    """A stand-in for the fixture, with the attributes that Metadata reads."""
    fullname, name = measurement.nodeid, measurement.nodeid.rpartition("::")[2]
    if fullname in taken:
        # a second workload in one test needs a name of its own, stable over runs; so does the same one again
        tails = (f"::{measurement.workload}{f' #{n}' if n > 1 else ''}" for n in itertools.count(1))
        tail = next(tail for tail in tails if fullname + tail not in taken)
        fullname, name = fullname + tail, name + tail
    unit = measurement.metric(measurement.primary).unit
    cell = measurement.config.model_dump(mode="json")
    return SimpleNamespace(
        name=name,
        fullname=fullname,
        group=f"{measurement.workload}: time = {_operation(unit)}",
        param=str(measurement.config),
        params={axis: cell[axis] for axis in AXES},
        extra_info={
            "host": measurement.host,
            "size": measurement.config.size,
            "metrics": {
                metric.name: {"unit": metric.unit, "median": statistics.median(measurement.values(metric.name))}
                for metric in measurement.metrics
                # the others are in the packed run
                if metric.name in (measurement.primary, *measurement.shown)
            },
        },
        cprofile_stats=None,
        has_error=False,
    )

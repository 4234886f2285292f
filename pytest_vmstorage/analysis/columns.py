"""The columns of a table for each measurement, and the text of a figure's spread; pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import AXES, StorageConfig, axis_text
from pytest_vmstorage.results.run import Failure, Figure, Measurement, Metric, Run
from pytest_vmstorage.results.saved import CellKey, keyed


class Column(BaseModel):
    """A workload's metric; `test` is set where several tests measured that workload in the same cell.

    `options` are those in which workloads of one name differ, such as the runtime. `metric` is None for a test that
    failed in every cell, whose workload is unknown.
    """

    model_config = ConfigDict(frozen=True)

    workload: str
    test: str = ""
    options: str = ""
    metric: Metric | None = None

    def __hash__(self) -> int:
        # each figure of a table of thousands is found by its column; pydantic's hash looks at the whole metric
        return hash((self.workload, self.test, self.options, self.metric and self.metric.name))

    @property
    def title(self) -> tuple[str, ...]:
        """The lines above all metrics of the workload: its name, and the test."""
        name = f"{self.workload} {self.options}".rstrip()
        return (name, self.test) if self.test else (name,)

    @property
    def heading(self) -> tuple[str, ...]:
        """The lines above the column: the workload, the test, the metric with its unit, the better direction."""
        if self.metric is None:
            return self.title
        way = () if self.metric.better == "neither" else (f"{self.metric.better} is better",)
        return (*self.title, f"{self.metric.name} [{self.metric.unit}]", *way)


class Placed(NamedTuple):
    """A measurement, its key against a baseline, and the columns of its shown metrics."""

    key: CellKey
    measurement: Measurement
    columns: tuple[Column, ...]


def function_of(nodeid: str) -> str:
    """The test's name without file and parameters: "test_disk.py::TestA::test_b[x]" -> "TestA::test_b"."""
    return nodeid.partition("[")[0].partition("::")[2] or nodeid


def place(run: Run) -> tuple[Placed, ...]:
    """Every measurement of the run in its columns; no two of one cell share a column."""
    pairs = keyed(run.measurements)
    tags = {
        workload: _telling_apart([pair for pair in pairs if pair[0].workload == workload], run)
        for workload in dict.fromkeys(key.workload for key, _ in pairs)
    }
    options = _differing_options(run.measurements)
    placed = []
    # thousands of rows share few columns, which cost more to make than to find
    made: dict[tuple[str, ...], Column] = {}
    for (key, m), differing in zip(pairs, options, strict=True):
        columns, test = [], tags[m.workload](key)
        for metric in map(m.metric, m.shown):
            asked = (m.workload, test, differing, metric.name, metric.unit, metric.better)
            if asked not in made:
                made[asked] = Column(workload=m.workload, test=test, options=differing, metric=metric)
            columns.append(made[asked])
        placed.append(Placed(key=key, measurement=m, columns=tuple(columns)))
    return tuple(placed)


_OF_ITS_PLACE = ("--filename", "--offset", "--output")


def _differing_options(measurements: Sequence[Measurement]) -> list[str]:
    """For each measurement the fio options that not all of its name share, such as the runtime, which no name has."""
    given = [_options_of(m) for m in measurements]
    common: dict[str, frozenset[str]] = {}
    for m, options in zip(measurements, given, strict=True):
        common[m.workload] = common.get(m.workload, frozenset(options)) & frozenset(options)
    return [
        " ".join(
            word.removeprefix("--").replace("time_based=1", "time_based")
            for word in options
            if word not in common[m.workload]
        )
        for m, options in zip(measurements, given, strict=True)
    ]


def _options_of(m: Measurement) -> tuple[str, ...]:
    """The options on fio's command line, without those of its place."""
    return _options_in(m.command) if m.tool == "fio" else ()


@lru_cache(maxsize=4096)
def _options_in(command: str) -> tuple[str, ...]:
    words = command.split()
    return tuple(word for word in words if word.startswith("--") and word.partition("=")[0] not in _OF_ITS_PLACE)


def columns_of(placed: Sequence[Placed], failures: Sequence[Failure]) -> tuple[Column, ...]:
    """All columns in the order measured, and one for each test that has failures and no figure."""
    first: dict[tuple[str, ...], int] = {}
    for each in placed:
        first.setdefault(_group(each), len(first))
    # where rows have only some of a workload's metrics, the row with the most gives their order
    ordered = sorted(placed, key=lambda each: (first[_group(each)], -len(each.columns)))
    there = [column for each in ordered for column in each.columns]
    measured = {function_of(each.key.nodeid) for each in placed}
    failed = dict.fromkeys(function_of(failure.nodeid) for failure in failures)
    return (*dict.fromkeys(there), *(Column(workload=name) for name in failed if name not in measured))


def _group(each: Placed) -> tuple[str, ...]:
    return (each.measurement.workload, each.columns[0].options, each.columns[0].test)


def _telling_apart(pairs: Sequence[tuple[CellKey, Measurement]], run: Run) -> Callable[[CellKey], str]:
    """The shortest naming of tests under which no two measurements of one cell have the same name."""
    for tag in (_nothing, _function):
        if _is_unique(tag, pairs):
            return tag
    # looked for only here: the ids of thousands of rows have many words
    axes = axes_in_ids(run)
    with_parameters = partial(_function_and_parameters, axes)
    return with_parameters if _is_unique(with_parameters, pairs) else partial(_nodeid, axes)


def _is_unique(tag: Callable[[CellKey], str], pairs: Sequence[tuple[CellKey, Measurement]]) -> bool:
    return len({(tag(key), key.config, measurement.host) for key, measurement in pairs}) == len(pairs)


def _nothing(key: CellKey) -> str:
    return f"#{key.nth + 1}" if key.nth else ""


def _function(key: CellKey) -> str:
    return " ".join(part for part in (function_of(key.nodeid), _nothing(key)) if part)


def _function_and_parameters(axes: AxesInIds, key: CellKey) -> str:
    others = unswept(key.nodeid, key.config, axes).partition("[")[2]
    return _function(key) + (f" [{others}" if others != "]" and others else "")


def _nodeid(axes: AxesInIds, key: CellKey) -> str:
    return " ".join(part for part in (unswept(key.nodeid, key.config, axes), _nothing(key)) if part)


AxesInIds = Mapping[str, Sequence[str]]
"""By the node id of a test function, without parameters, the axes whose values its ids have."""


def axes_in_ids(run: Run) -> AxesInIds:
    """The axes of which every id of a function has the cell's value: those that it sweeps.

    A value that only some of them have is a parameter of the test's own, which happens to equal that of the cell.
    """
    found: dict[str, list[str]] = {}
    cells = [(m.nodeid, m.config) for m in run.measurements] + [(one.nodeid, one.config) for one in run.failures]
    for nodeid, config in cells:
        name, _, words = nodeid.removesuffix("]").partition("[")
        found[name] = [axis for axis in found.get(name, AXES) if _word(axis, config).search(words)]
    return found


def unswept(nodeid: str, config: StorageConfig, axes: AxesInIds) -> str:
    """The node id without the values of the axes that the function sweeps, which the row names already."""
    name, bracket, parameters = nodeid.partition("[")
    words = parameters.removesuffix("]")
    for axis in axes.get(name, ()):
        words = _word(axis, config).sub("", words, count=1)
    words = words.removesuffix("-")
    return f"{name}{bracket}{words}]" if words else name


def _word(axis: str, config: StorageConfig) -> re.Pattern[str]:
    """A pattern of the axis's value in an id: it stands between hyphens, and may hold some itself, as virtio-blk."""
    return _pattern(axis_text(axis, getattr(config, axis)))


@lru_cache(maxsize=4096)
def _pattern(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|(?<=-)){re.escape(word)}(?:-|$)")


def spread_text(figure: Figure) -> str:
    """Half of smallest-to-largest in percent of the median: "±3 %", "±0.4 %"; "n=1" for a single round."""
    return spread_around(figure, figure.values)


def spread_around(median: float, values: Sequence[float]) -> str:
    """The same of rounds and their median."""
    if len(values) == 1:
        return "n=1"
    if not median:
        return f"n={len(values)}"
    half = (max(values) - min(values)) / 2 / abs(median) * 100
    return f"±{half:.0f} %" if half >= 0.95 or half == 0 else f"±{half:.1f} %"

"""Sweeps as curves: one workload at three depths or more in one cell, in the order of the swept values; pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.analysis.columns import Placed, function_of, spread_text
from pytest_vmstorage.results.run import Figure, Measurement
from pytest_vmstorage.units import format_figure

LEAST_POINTS = 3
"""Two points are a line, and stand next to each other in the matrix anyway."""

_MEAN_LATENCY = "clat_mean"


class PointRow(BaseModel):
    """One cell: its values of the axes, and a text for each point, "-" where it was not measured.

    `metric` is "" where the title of the table names it.
    """

    model_config = ConfigDict(frozen=True)

    metric: str = ""
    cell: tuple[str, ...]
    points: tuple[str, ...]


class PointTable(BaseModel):
    """The figures of all cells at several points, such as the depths of a curve: a table below the matrix.

    `axes` are the names of the values in each row's `cell`, `points` the headings of the points.
    """

    model_config = ConfigDict(frozen=True)

    title: str
    axes: tuple[str, ...]
    points: tuple[str, ...]
    rows: tuple[PointRow, ...]

    @property
    def has_metrics(self) -> bool:
        """Whether its rows are of several metrics."""
        return any(row.metric for row in self.rows)


def point_text(figure: Figure | None, *, with_unit: bool = True) -> str:
    """A figure with its spread, "-" where there is none, and "no number" where a round gave none."""
    if figure is None:
        return "-"
    if not all(map(math.isfinite, figure.values)):
        return "no number"
    text = format_figure(figure, figure.metric.unit)
    return f"{text if with_unit else text.removesuffix(f' {figure.metric.unit}')} {spread_text(figure)}"


class _Sweep(NamedTuple):
    """The common properties of one set of curves: the swept option, workload, test, the other options.

    `tag` tells several measurements of one cell apart, and is "" otherwise.
    """

    axis: str
    shape: str
    test: str
    tag: str
    others: tuple[tuple[str, float], ...]

    @property
    def name(self) -> str:
        """The title of the set, unless another test has one of that name."""
        said = [self.shape, *(f"{name}={value:g}" for name, value in self.others if value != 1), self.tag]
        return f"curve over {self.axis}, {', '.join(part for part in said if part)}"


_Cell = tuple[str, ...]
_Points = dict[float, Measurement]


class SweptCells(NamedTuple):
    """A set of curves: its title, the swept option, and of each cell the measurement at each value of it."""

    title: str
    axis: str
    cells: Mapping[_Cell, Mapping[float, Measurement]]


def swept_cells(placed: Sequence[Placed], cell_of: Callable[[Measurement], _Cell]) -> tuple[SweptCells, ...]:
    """A set for each test, workload, and option that has three values or more in some cell.

    Measurements of two tests are not one curve: the tests may differ, and may have the same points. `cell_of`
    identifies the cell of a measurement.
    """
    sweeps: dict[_Sweep, dict[_Cell, _Points]] = {}
    for each in placed:
        m = each.measurement
        for axis, value in m.point.items():
            others = tuple((name, at) for name, at in m.point.items() if name != axis)
            tag = next((column.test for column in each.columns), "")
            sweep = _Sweep(axis, m.shape, function_of(m.nodeid), tag, others)
            sweeps.setdefault(sweep, {}).setdefault(cell_of(m), {})[value] = m
    long = {
        sweep: {cell: points for cell, points in cells.items() if len(points) >= LEAST_POINTS}
        for sweep, cells in sweeps.items()
    }
    shown = {sweep: cells for sweep, cells in long.items() if cells}
    names = Counter(sweep.name for sweep in shown)
    return tuple(
        SweptCells(sweep.name if names[sweep.name] == 1 else f"{sweep.name}, {sweep.test}", sweep.axis, cells)
        for sweep, cells in shown.items()
    )


def build_curves(
    placed: Sequence[Placed], axes: Sequence[str], cell_of: Callable[[Measurement], _Cell]
) -> tuple[PointTable, ...]:
    """A table for each of `swept_cells`: rates, then latencies. `cell_of` returns the values of these axes."""
    return tuple(_curves(one.title, one.axis, axes, one.cells) for one in swept_cells(placed, cell_of))


def _curves(
    title: str, axis: str, axes: Sequence[str], cells: Mapping[_Cell, Mapping[float, Measurement]]
) -> PointTable:
    values = sorted({value for points in cells.values() for value in points})
    rows = [row for cell, points in cells.items() for row in _rows(cell, points, values)]
    metrics = list(dict.fromkeys(row.metric for row in rows))
    rows.sort(key=lambda row: metrics.index(row.metric))
    return PointTable(
        title=title, axes=tuple(axes), points=tuple(f"{axis}={value:g}" for value in values), rows=tuple(rows)
    )


def _rows(cell: _Cell, points: Mapping[float, Measurement], values: Sequence[float]) -> Iterator[PointRow]:
    first = next(iter(points.values()))
    for name in dict.fromkeys([first.primary, *mean_latencies(first)]):
        texts = (point_text(points[value].figure(name) if value in points else None) for value in values)
        yield PointRow(metric=name, cell=cell, points=tuple(texts))


def mean_latencies(m: Measurement) -> list[str]:
    """Its metrics that are a mean completion latency, of both directions where it reads and writes."""
    return [metric.name for metric in m.metrics if metric.name.endswith(_MEAN_LATENCY)]

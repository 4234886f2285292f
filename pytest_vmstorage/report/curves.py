"""Sweeps as curves: one workload at three depths or more in one cell, in the order of what was swept. Pure."""

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
"""Two points are a line, and stand beside each other in the matrix anyway."""

_MEAN_LATENCY = "clat_mean"


class CurveRow(BaseModel):
    """One metric in one cell: the cell's values of the axes, a text for each point, "-" where it was not measured."""

    model_config = ConfigDict(frozen=True)

    metric: str
    cell: tuple[str, ...]
    points: tuple[str, ...]

    @property
    def leading(self) -> tuple[str, ...]:
        """What stands before the cell."""
        return (self.metric,)


class Curves(BaseModel):
    """All cells' curves of one workload over one option: what is swept, its values, and a row a cell and metric.

    `axes` are the names of what tells cells apart: `cell` has a value for each.
    """

    model_config = ConfigDict(frozen=True)

    title: str
    axes: tuple[str, ...]
    points: tuple[str, ...]
    rows: tuple[CurveRow, ...]


class _Sweep(NamedTuple):
    """What points of one set of curves have in common: the option swept, workload, test, the other options.

    `tag` is what tells measurements of one cell apart, "" where nothing needs to.
    """

    axis: str
    shape: str
    test: str
    tag: str
    others: tuple[tuple[str, float], ...]

    @property
    def name(self) -> str:
        """What the set is called, unless another test has one of that name."""
        said = [self.shape, *(f"{name}={value:g}" for name, value in self.others if value != 1), self.tag]
        return f"curve over {self.axis}, {', '.join(part for part in said if part)}"


_Cell = tuple[str, ...]
_Points = dict[float, Measurement]


def build_curves(
    placed: Sequence[Placed], axes: Sequence[str], cell_of: Callable[[Measurement], _Cell]
) -> tuple[Curves, ...]:
    """A set for each test, workload, and option that has three values or more in some cell; rates, then latencies.

    What two tests measured is no one curve: they need not have measured alike, and each may have points of the other.
    `cell_of` has the values of these axes in the row of a measurement, for each row others.
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
        _curves(sweep.name if names[sweep.name] == 1 else f"{sweep.name}, {sweep.test}", sweep.axis, axes, cells)
        for sweep, cells in shown.items()
    )


def _curves(title: str, axis: str, axes: Sequence[str], cells: Mapping[_Cell, _Points]) -> Curves:
    values = sorted({value for points in cells.values() for value in points})
    rows = [row for cell, points in cells.items() for row in _rows(cell, points, values)]
    metrics = list(dict.fromkeys(row.metric for row in rows))
    return Curves(
        title=title,
        axes=tuple(axes),
        points=tuple(f"{axis}={value:g}" for value in values),
        rows=tuple(sorted(rows, key=lambda row: metrics.index(row.metric))),
    )


def _rows(cell: _Cell, points: _Points, values: Sequence[float]) -> Iterator[CurveRow]:
    first = next(iter(points.values()))
    latencies = [metric.name for metric in first.metrics if metric.name.endswith(_MEAN_LATENCY)]
    for name in dict.fromkeys([first.primary, *latencies]):
        figures = [points[value].figure(name) if value in points else None for value in values]
        yield CurveRow(metric=name, cell=cell, points=tuple(map(_text, figures)))


def _text(figure: Figure | None) -> str:
    if figure is None:
        return "-"
    if not all(map(math.isfinite, figure.values)):
        return "no number"
    return f"{format_figure(figure, figure.metric.unit)} {spread_text(figure)}"

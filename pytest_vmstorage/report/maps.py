"""iozone's figures as maps: file sizes down, record sizes across, one map for each of its tests. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.analysis.columns import Placed, spread_text
from pytest_vmstorage.results.run import Figure, Measurement
from pytest_vmstorage.units import format_figure, parse_size

_TOOL = "iozone"
_NAME = re.compile(r"(?P<test>\w+)_(?P<file>\d+[kMGT]?)_(?P<record>\d+[kMGT]?)")
"""A metric of `Iozone`: test, file size, record size."""


class MapRow(BaseModel):
    """One file size in one cell: a text for each record size, "-" where that file holds no such record.

    `cell` has the cell's values of the axes, the file size last; a map's title says the metric, and nothing leads.
    """

    model_config = ConfigDict(frozen=True)

    cell: tuple[str, ...]
    points: tuple[str, ...]

    @property
    def leading(self) -> tuple[str, ...]:
        """What stands before the cell."""
        return ()


class Map(BaseModel):
    """All cells' figures of one of iozone's tests: `points` are the record sizes, and there is a row a file size.

    `axes` are the names of what tells rows apart: what tells cells apart, then the file size.
    """

    model_config = ConfigDict(frozen=True)

    title: str
    axes: tuple[str, ...]
    points: tuple[str, ...]
    rows: tuple[MapRow, ...]


class _Kind(NamedTuple):
    """What the rows of one map have in common."""

    workload: str
    test: str
    column: str
    unit: str

    @property
    def title(self) -> str:
        """What the map is called."""
        said = [f"map of {self.column} [{self.unit}] over file size and record size", self.workload, self.test]
        return ", ".join(part for part in said if part)


class _Point(NamedTuple):
    """Where a figure stands on its map, by the sizes as iozone's metrics name them."""

    file: str
    record: str


_Cell = tuple[str, ...]


def build_maps(
    placed: Sequence[Placed], axes: Sequence[str], cell_of: Callable[[Measurement], _Cell]
) -> tuple[Map, ...]:
    """A map for each of the tests of each iozone that has two points or more; a single one stands in the matrix.

    `cell_of` has the values of these axes in the row of a measurement, for each row others.
    """
    maps: dict[_Kind, dict[_Cell, dict[_Point, Figure]]] = {}
    for each in placed:
        m = each.measurement
        for column, point, figure in _points(m):
            test = next((one.test for one in each.columns), "")
            kind = _Kind(m.workload, test, column, figure.metric.unit)
            maps.setdefault(kind, {}).setdefault(cell_of(m), {})[point] = figure
    return tuple(
        _map(kind, axes, cells) for kind, cells in maps.items() if any(len(figures) > 1 for figures in cells.values())
    )


def _points(m: Measurement) -> Iterator[tuple[str, _Point, Figure]]:
    for metric in m.metrics if m.tool == _TOOL else ():
        found = _NAME.fullmatch(metric.name)
        if found:
            yield found["test"], _Point(found["file"], found["record"]), m.figure(metric.name)


def _map(kind: _Kind, axes: Sequence[str], cells: dict[_Cell, dict[_Point, Figure]]) -> Map:
    there = {point for figures in cells.values() for point in figures}
    files = sorted({point.file for point in there}, key=parse_size)
    records = sorted({point.record for point in there}, key=parse_size)
    return Map(
        title=kind.title,
        axes=(*axes, "file"),
        points=tuple(records),
        rows=tuple(
            MapRow(
                cell=(*cell, file),
                points=tuple(_text(figures.get(_Point(file, record))) for record in records),
            )
            for cell, figures in cells.items()
            for file in files
        ),
    )


def _text(figure: Figure | None) -> str:
    if figure is None:
        return "-"
    if not all(map(math.isfinite, figure.values)):
        return "no number"
    unit = figure.metric.unit
    return f"{format_figure(figure, unit).removesuffix(f' {unit}')} {spread_text(figure)}"

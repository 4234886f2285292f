"""iozone's figures as maps: file sizes down, record sizes across, one map for each of its tests; pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pytest_vmstorage.analysis.columns import Placed
from pytest_vmstorage.report.curves import PointRow, PointTable, point_text
from pytest_vmstorage.results.run import Figure, Measurement
from pytest_vmstorage.units import parse_size

_TOOL = "iozone"
_NAME = re.compile(r"(?P<test>\w+)_(?P<file>\d+[kMGT]?)_(?P<record>\d+[kMGT]?)")
"""A metric of `Iozone`: test, file size, record size."""


class _Kind(NamedTuple):
    """The common properties of the rows of one map."""

    workload: str
    test: str
    column: str
    unit: str

    @property
    def title(self) -> str:
        """The title of the map."""
        said = [f"map of {self.column} [{self.unit}] over file size and record size", self.workload, self.test]
        return ", ".join(part for part in said if part)


_Point = tuple[str, str]
"""File size and record size, as iozone's metrics name them."""

_Cell = tuple[str, ...]


def build_maps(
    placed: Sequence[Placed], axes: Sequence[str], cell_of: Callable[[Measurement], _Cell]
) -> tuple[PointTable, ...]:
    """A map for each of the tests of each iozone that has two points or more; a single one stands in the matrix.

    A row is a file size in a cell, a point a record size. `cell_of` returns the values of these axes for a measurement.
    """
    maps: dict[_Kind, dict[_Cell, dict[_Point, Figure]]] = {}
    for each in placed:
        m = each.measurement
        test = next((column.test for column in each.columns), "")
        for column, point, figure in _points(m):
            kind = _Kind(m.workload, test, column, figure.metric.unit)
            maps.setdefault(kind, {}).setdefault(cell_of(m), {})[point] = figure
    return tuple(
        _map(kind.title, axes, cells)
        for kind, cells in maps.items()
        if any(len(figures) > 1 for figures in cells.values())
    )


def _points(m: Measurement) -> Iterator[tuple[str, _Point, Figure]]:
    for metric in m.metrics if m.tool == _TOOL else ():
        if found := _NAME.fullmatch(metric.name):
            yield found["test"], (found["file"], found["record"]), m.figure(metric.name)


def _map(title: str, axes: Sequence[str], cells: dict[_Cell, dict[_Point, Figure]]) -> PointTable:
    there = {point for figures in cells.values() for point in figures}
    files, records = (sorted({point[i] for point in there}, key=parse_size) for i in (0, 1))
    rows = [
        PointRow(
            cell=(*cell, file),
            points=tuple(point_text(figures.get((file, record)), with_unit=False) for record in records),
        )
        for cell, figures in cells.items()
        for file in files
    ]
    return PointTable(title=title, axes=(*axes, "file"), points=tuple(records), rows=tuple(rows))

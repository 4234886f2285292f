"""The figures of a matrix for a page: of each cell the median of its rounds and an interval around it; pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from pytest_vmstorage.analysis.columns import Column
from pytest_vmstorage.analysis.gate.kinds import Kind
from pytest_vmstorage.report.html.markup import harmless
from pytest_vmstorage.report.table import Table, TableCell
from pytest_vmstorage.stats import median_interval

_OF_ONE = 0.975
"""The confidence of each cell's interval: those of two cells are right at once with 95 % (Bonferroni)."""

_DIGITS = 5
"""Significant digits of figures that the page's script gets; those that are shown have three."""


class Range(NamedTuple):
    """A figure in its metric's unit: the median of so many rounds, and the interval around it.

    From seven rounds on that is the interval of 97.5 % for the median (of the sign test), below from the smallest to
    the largest round; a single round has none, and both bounds are its figure.
    """

    middle: float
    low: float
    high: float
    rounds: int


def range_of(values: Sequence[float]) -> Range | None:
    """The range of these rounds, rounded to five digits; None where there are none, or one is no number."""
    if not values or not all(map(math.isfinite, values)):
        return None
    ordered = sorted(values)
    low, high = median_interval(ordered, _OF_ONE) or (ordered[0], ordered[-1])
    return Range(_rounded(statistics.median(ordered)), _rounded(low), _rounded(high), len(values))


def _rounded(figure: float) -> float:
    return float(f"{figure:.{_DIGITS}g}")


class WorkloadColumns(NamedTuple):
    """The columns of one workload and test, by their places in the table, and the rows that have any of them."""

    title: str
    columns: Sequence[int]
    rows: Sequence[int]


@dataclass(frozen=True)
class Figures:
    """A table by places: `axes` are the names of the axes, `rows` the values of each row, `ranges` its figures.

    Texts are those of the table, each in one line.
    """

    table: Table
    axes: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    ranges: tuple[tuple[Range | None, ...], ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The workloads' metrics."""
        return self.table.columns

    def cell(self, row: int, column: int) -> TableCell:
        """The texts of a cell."""
        return self.table.rows[row].cells[column]

    def is_measured(self, row: int, column: int) -> bool:
        """Whether there is a figure, or a reason for its absence."""
        cell = self.cell(row, column)
        return bool(cell.figure or cell.failure)

    @cached_property
    def values(self) -> Mapping[str, tuple[str, ...]]:
        """The values of each axis, in the order of the table."""
        return {name: tuple(dict.fromkeys(row[i] for row in self.rows)) for i, name in enumerate(self.axes)}

    @cached_property
    def apart(self) -> tuple[tuple[str, str], ...]:
        """Host and acceleration of each row, "" for the one that all rows share."""
        places = [self.table.axes.index(name) if name in self.table.axes else None for name in ("host", "accel")]
        return tuple((_at(row.axes, places[0]), _at(row.axes, places[1])) for row in self.table.rows)

    @cached_property
    def blocks(self) -> tuple[WorkloadColumns, ...]:
        """The columns of the table in blocks, in its order."""
        keys = [(column.title, function) for column, function in zip(self.columns, self._functions, strict=True)]
        found = []
        for (title, _), members in groupby(range(len(keys)), key=lambda place: keys[place]):
            columns = tuple(members)
            rows = [row for row in range(len(self.rows)) if any(self.is_measured(row, one) for one in columns)]
            found.append(WorkloadColumns(harmless(" ".join(title)), columns, tuple(rows)))
        return tuple(found)

    @property
    def _functions(self) -> Sequence[str]:
        return self.table.functions or [""] * len(self.columns)


def _at(values: Sequence[str], place: int | None) -> str:
    return "" if place is None else values[place]


def is_possible(cell: TableCell) -> bool:
    """Whether no verdict says that its figure cannot be."""
    return not cell.change or Kind.INVALID not in cell.change.split()


def figures_of(table: Table) -> Figures:
    """The figures of a table."""
    shown = table.shown_axes
    return Figures(
        table=table,
        axes=tuple(table.axes[i] for i in shown),
        rows=tuple(tuple(harmless(row.axes[i]) for i in shown) for row in table.rows),
        ranges=tuple(
            tuple(range_of(cell.values) if is_possible(cell) else None for cell in row.cells) for row in table.rows
        ),
    )

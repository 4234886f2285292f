"""The matrix as one small SVG for places that show pictures, such as a pull request: bars with their spread; pure.

It is a file of its own that a page shows in `<img>`: no script, nothing from elsewhere, and its own colours for a light
and a dark screen.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from pytest_vmstorage.analysis.columns import Column
from pytest_vmstorage.analysis.gate.verdicts import Comparison
from pytest_vmstorage.report.html import svg
from pytest_vmstorage.report.overview import most_important
from pytest_vmstorage.report.table import Table, TableCell, build_table
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.text import plain_line

MOST_ROWS = 40
MOST_COLUMNS = 5

_MARGIN, _GAP, _LINE = 12.0, 14.0, 16.0
_ROW, _BAR = 32.0, 8.0
_COLUMN = 176.0
_WIDEST_NAME, _NARROWEST = 300.0, 520.0
_LOOK = svg.STROKES[0]
_INK = svg.Stroke("axis", "currentColor", "", "bar")
_STYLE = (
    ".chart{color:#1f2328}.page{fill:#ffffff}"
    "@media(prefers-color-scheme:dark){.chart{color:#e6edf3}.page{fill:#0d1117}}"
)
_READ = "↑ higher, ↓ lower is better; bar: median of the rounds, from 0; line across its end: smallest to largest round"


class _Layout(NamedTuple):
    """What is drawn of a table, and where: its places of columns, the width of row names, what is left out."""

    table: Table
    columns: tuple[int, ...]
    name_width: float
    left_out: tuple[str, ...]

    @property
    def width(self) -> float:
        """The picture's."""
        there = self.name_width + len(self.columns) * (_COLUMN + _GAP) + 2 * _MARGIN
        return max(there, _NARROWEST)

    def left(self, place: int) -> float:
        """Where the column at that place begins."""
        return _MARGIN + self.name_width + _GAP + place * (_COLUMN + _GAP)


def render_matrix_picture(run: Run, comparison: Comparison | None = None, *, si: bool = False) -> str:
    """A whole SVG file of the matrix, at most 40 rows and 5 metrics of it; it says what is left out.

    With `si` data rates are in MB/s.
    """
    layout = _layout(build_table(run, comparison, si=si))
    table = layout.table
    parts, y = [], _MARGIN + _LINE
    parts.append(svg.words(_title(table), _MARGIN, y - 4, size=14, is_bold=True))
    for line in _wrapped([*table.hosts, table.caption], layout):
        y += _LINE
        parts.append(svg.words(line, _MARGIN, y - 4, css="muted"))
    y += _GAP
    parts += _headings(layout, y)
    y += 2 * _LINE
    for place, row in enumerate(table.rows):
        parts += _row(layout, place, table.name_of(row), y)
        y += _ROW
    y += _GAP / 2
    notes = [_READ if table.rows else "", table.legend, *layout.left_out]
    for line in _wrapped(notes, layout):
        y += _LINE
        parts.append(svg.words(line, _MARGIN, y - 4, css="muted"))
    height = y + _MARGIN
    page = svg.box(0, 0, layout.width, height, css="page", colour="#ffffff", opacity=1)
    said = f"{describe_picture(table)}; {_READ}"
    return svg.picture(layout.width, height, _title(table), said, svg.element("style", _STYLE), page, *parts) + "\n"


def describe_picture(table: Table) -> str:
    """A clause on what the picture of that table shows, for those who do not see it."""
    rows, columns = min(len(table.rows), MOST_ROWS), min(len(table.columns), MOST_COLUMNS)
    return f"the matrix as bars with their spread, {rows} rows of {columns} metrics"


def _title(table: Table) -> str:
    return f"Storage matrix{f': {table.tests}' if table.tests else ''}"


def _layout(table: Table) -> _Layout:
    shown, which = most_important(table, MOST_ROWS)
    shown = shown.model_copy(update={"rows": shown.rows[:MOST_ROWS]})
    columns = _chosen(table.columns)
    names = [svg.width_of(shown.name_of(row)) for row in shown.rows]
    left_out = [which.partition("; the others")[0]] if which else []
    if hidden := len(table.columns) - len(columns):
        left_out.append(f"{hidden} more metric{'s are' if hidden > 1 else ' is'} in the table")
    return _Layout(shown, columns, min(max(names, default=0.0), _WIDEST_NAME), tuple(left_out))


def _chosen(columns: Sequence[Column]) -> tuple[int, ...]:
    """The places of the columns that are drawn: the first of each workload, then the others."""
    first: dict[tuple[str, ...], int] = {}
    for place, column in enumerate(columns):
        first.setdefault(column.title, place)
    wanted = dict.fromkeys([*first.values(), *range(len(columns))])
    return tuple(sorted(list(wanted)[:MOST_COLUMNS]))


def _wrapped(texts: Sequence[str], layout: _Layout) -> Iterator[str]:
    letters = int((layout.width - 2 * _MARGIN) / svg.width_of("x"))
    for text in texts:
        yield from textwrap.wrap(plain_line(text), letters)


def _headings(layout: _Layout, y: float) -> Iterator[str]:
    """The workload above its metrics, and each metric with an arrow in the direction that is better."""
    columns = [layout.table.columns[index] for index in layout.columns]
    for title, group in groupby(enumerate(columns), key=lambda placed: placed[1].title):
        places = [place for place, _ in group]
        room = len(places) * (_COLUMN + _GAP) - _GAP
        name = svg.fitted(" ".join(title), room)
        yield svg.told(" ".join(title), svg.words(name, layout.left(places[0]), y + 12, is_bold=True))
    arrows = {"higher": " ↑", "lower": " ↓", "neither": ""}
    for place, column in enumerate(columns):
        if column.metric is not None:
            arrow = arrows[column.metric.better]
            name = svg.fitted(column.metric.name, _COLUMN - svg.width_of(arrow))
            yield svg.words(f"{name}{arrow}", layout.left(place), y + 12 + _LINE)
    end = layout.width - _MARGIN
    yield svg.line((_MARGIN, y + 2 * _LINE), (end, y + 2 * _LINE), opacity=0.5)


def _row(layout: _Layout, place: int, name: str, y: float) -> Iterator[str]:
    yield svg.told(name, svg.words(svg.fitted(name, layout.name_width), _MARGIN, y + 14))
    for number, index in enumerate(layout.columns):
        x, cell = layout.left(number), layout.table.rows[place].cells[index]
        yield svg.told(cell.text, svg.words(_cut(cell.text), x, y + 14))
        yield from _bar(cell, _scale(layout.table, index, x), y + 18)
    end = layout.width - _MARGIN
    yield svg.line((_MARGIN, y + _ROW), (end, y + _ROW), css="grid", opacity=0.15)


def _cut(text: str) -> str:
    """A cell's text, of which the beginning says most."""
    text = plain_line(text)
    kept = next((text[:end] for end in range(len(text), 0, -1) if svg.width_of(text[:end]) <= _COLUMN), "")
    return text if kept == text else f"{kept[:-1]}…"


def _scale(table: Table, index: int, x: float) -> svg.Axis:
    values = [value for row in table.rows for value in row.cells[index].values]
    return svg.Axis(min([0.0, *values]), max([0.0, *values]), x, x + _COLUMN)


def _bar(cell: TableCell, scale: svg.Axis, y: float) -> Iterator[str]:
    """The bar and its spread; none where a single round has no spread."""
    if cell.value is None or len(cell.values) < 2:
        return
    zero, end = sorted((scale.at(0.0), scale.at(cell.value)))
    yield svg.box(zero, y, end - zero, _BAR, css=_LOOK.css, colour=_LOOK.colour, opacity=0.55)
    low, high = scale.at(min(cell.values)), scale.at(max(cell.values))
    yield svg.level_whisker(y + _BAR / 2, low, high, _INK, half=_BAR / 2)

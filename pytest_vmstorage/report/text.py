"""The matrix for a terminal or a log file: never wider than asked, split by columns rather than wrapped."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tabulate import tabulate

from pytest_vmstorage.plain_text import plain
from pytest_vmstorage.report.columns import Column
from pytest_vmstorage.report.curves import Curves
from pytest_vmstorage.report.table import Cell, Table

_GAP = 2
"""Blanks between two columns, as tabulate's "plain" has them."""

_FAILED_WIDTH = 20
"""Enough of a reason to tell failures apart; the sentence stands in full below."""

_HEADING_WIDTH = len("higher is better")
"""Headings are wrapped to their column, but not narrower than this."""

_Lines = list[str]
_Groups = list[list[_Lines]]


def render_text(table: Table, width: int) -> str:
    """The table on lines of at most `width` characters, as far as one column and the axes fit into that."""
    blocks = _blocks(table, width) if table.rows else []
    parts = [table.caption, *blocks, *_wrapped(table.legend, width), *_wrapped(table.time, width)]
    parts += [part for curves in table.curves for part in (f"{curves.title}:", *_curves(curves, width))]
    for section in table.sections:
        texts = [line for text in section.lines for line in text.splitlines()]
        lines = [line for text in texts for line in _wrapped(text, width, "  ")]
        parts.append("\n".join([f"{section.title}:", *lines]))
    return plain("\n\n".join(part for part in parts if part)) + "\n"


def _curves(curves: Curves, width: int) -> _Lines:
    """A row for each cell and metric, a column for each point, in as few blocks as fit."""
    leading = [["metric", *(row.metric for row in curves.rows)], ["cell", *(row.cell for row in curves.rows)]]
    points = [_rjust([name, *(row.points[index] for row in curves.rows)]) for index, name in enumerate(curves.points)]
    return [_draw([*leading, *group]) for group in _split(leading, points, width)]


def _wrapped(text: str, width: int, indent: str = "") -> _Lines:
    lines = textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent * 2, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return lines if indent else ["\n".join(lines)]


def _blocks(table: Table, width: int) -> _Lines:
    """The table in as few blocks as possible, with the axes apart if that costs no block."""
    columns = [_column(column, table, index) for index, column in enumerate(table.columns)]
    apart = [_axis(name, [row.axes[i] for row in table.rows]) for i, name in enumerate(table.axes)]
    joined = _joined(table.axes, apart)
    layouts = [(leading, _split(leading, columns, width)) for leading in (apart, [joined])]
    leading, groups = min(layouts, key=lambda it: (_too_wide(it[0], it[1], width), len(it[1])))
    if not _too_wide(leading, groups, width):
        return [_draw([*leading, *group]) for group in groups]
    numbers = ["#", *(str(number) for number in range(1, len(table.rows) + 1))]
    groups = _split([numbers], columns, width)
    key = apart if _width([numbers, *apart]) <= width else [joined]
    return [_draw([numbers, *key]), *(_draw([numbers, *group]) for group in groups)]


def _joined(names: Sequence[str], apart: Sequence[_Lines]) -> _Lines:
    """All axes as one column, the values still below each other."""
    rows = zip(*(_ljust(column[1:]) for column in apart), strict=True)
    return ["configuration" if len(names) > 1 else "", *(" ".join(row).rstrip() for row in rows)]


def _axis(name: str, values: Sequence[str]) -> _Lines:
    """An axis with its name above, broken in two where it is much wider than its values."""
    room = max(8, *map(len, values))
    return [f"{name[:7]}-\n{name[7:]}" if len(name) > room else name, *values]


def _column(column: Column, table: Table, index: int) -> _Lines:
    """A heading and a text for each row, all of one width."""
    cells = [row.cells[index] for row in table.rows]
    aligned = _aligned(cells)
    heading = column.heading
    words = [word for line in heading for word in line.split()]
    least = _FAILED_WIDTH if any(cell.failure for cell in cells) else _HEADING_WIDTH
    # a name is never cut
    width = max([*map(len, aligned), *map(len, words), *(len(cell.name) for cell in cells), least])
    head = [line for text in heading for line in textwrap.wrap(text, width)]
    shown = [
        cell.name or textwrap.shorten(cell.text, width, placeholder="…") if cell.failure else text
        for cell, text in zip(cells, aligned, strict=True)
    ]
    return ["\n".join(head), *(text.ljust(width) for text in shown)]


def _aligned(cells: Sequence[Cell]) -> _Lines:
    """Each cell's parts below each other: figures and spreads to the right, marks and changes to the left."""
    plain = [cell.parts for cell in cells if not cell.failure]
    widths = [max((len(part) for part in parts), default=0) for parts in zip(*plain, strict=True)]
    texts = []
    for cell in cells:
        if cell.failure or not cell.figure:
            texts.append("" if cell.failure else "-")
            continue
        pairs = list(zip(cell.parts, widths, strict=True))
        padded = [part.rjust(w) for part, w in pairs[:2]] + [part.ljust(w) for part, w in pairs[2:]]
        texts.append(" ".join(part for part, (_, w) in zip(padded, pairs, strict=True) if w).rstrip())
    return texts


def _split(leading: Sequence[_Lines], columns: Sequence[_Lines], width: int) -> _Groups:
    """Columns in groups that fit beside the leading ones, at least one each."""
    room = width - _width(leading)
    groups: _Groups = [[]]
    for column in columns:
        if groups[-1] and _width([*groups[-1], column]) + _GAP > room:
            groups.append([])
        groups[-1].append(column)
    return groups


def _too_wide(leading: Sequence[_Lines], groups: _Groups, width: int) -> bool:
    return any(_width([*leading, *group]) > width for group in groups)


def _width(columns: Sequence[_Lines]) -> int:
    widest = [max(len(line) for text in column for line in text.split("\n")) for column in columns]
    return sum(widest) + _GAP * max(0, len(widest) - 1)


def _ljust(values: Sequence[str]) -> _Lines:
    width = max(map(len, values))
    return [value.ljust(width) for value in values]


def _rjust(values: Sequence[str]) -> _Lines:
    width = max(map(len, values))
    return [value.rjust(width) for value in values]


def _draw(columns: Sequence[_Lines]) -> str:
    # The rule is a row of ours: tabulate makes a column two characters wider than its header.
    ruled = [[column[0], "-" * _width([column]), *column[1:]] for column in columns]
    rows = list(zip(*ruled, strict=True))
    text = tabulate(rows, tablefmt="plain", disable_numparse=True, preserve_whitespace=True)
    return "\n".join(line.rstrip() for line in text.split("\n"))

"""The matrix for a terminal or a log file: within a given width, split by columns rather than wrapped."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence

from tabulate import tabulate

from pytest_vmstorage.analysis.columns import Column
from pytest_vmstorage.report.curves import PointTable
from pytest_vmstorage.report.table import Table, TableCell
from pytest_vmstorage.text import plain

_GAP = 2
"""Blanks between two columns, as tabulate's "plain" has them."""

_INDENT = 2
"""Blanks before the second line of a row."""

_BARE = ("host", "format", "cache", "bus", "preallocation", "accel")
"""Axes whose values need no name in each row."""

_FAILED_WIDTH = 20
"""Enough of a reason to tell failures apart; the sentence stands in full below."""

_HEADING_WIDTH = len("higher is better")
"""Headings are wrapped to their column, but not narrower than this."""

_Lines = list[str]
_Groups = list[list[_Lines]]


def render_text(table: Table, width: int) -> str:
    """The table on lines of at most `width` characters, as far as one column and the widest axis fit into that."""
    blocks = _blocks(table, width) if table.rows else []
    below = [*_wrapped(table.legend, width), *_wrapped(table.time, width)]
    parts = [table.tests, *_wrapped(table.caption, width), *blocks, *below]
    for points in table.point_tables:
        parts += [*_wrapped(f"{points.title}:", width), *_points(points, width)]
    for section in table.sections:
        texts = [line for text in section.lines for line in text.splitlines()]
        lines = [line for text in texts for line in _wrapped(text, width, "  ")]
        parts.append("\n".join([*_wrapped(f"{section.title}:", width), *lines]))
    return plain("\n\n".join(part for part in parts if part)) + "\n"


def _points(table: PointTable, width: int) -> _Lines:
    """A row for each of the table's, a column for each point, in as few blocks as fit."""
    points = [_rjust([name, *(row.points[index] for row in table.rows)]) for index, name in enumerate(table.points)]
    leading = [["metric", *(row.metric for row in table.rows)]] if table.has_metrics else []
    return _tables(leading, table.axes, [row.cell for row in table.rows], points, width)


def _wrapped(text: str, width: int, indent: str = "") -> _Lines:
    lines = textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent * 2, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return lines if indent else ["\n".join(lines)]


def _blocks(table: Table, width: int) -> _Lines:
    """The table in as few blocks as possible, with the axes apart if that costs no block."""
    columns = [_column(column, table, index) for index, column in enumerate(table.columns)]
    return _tables([], table.axes, [row.axes for row in table.rows], columns, width)


def _tables(
    first: Sequence[_Lines], names: Sequence[str], rows: Sequence[Sequence[str]], columns: Sequence[_Lines], width: int
) -> _Lines:
    """Blocks in which each row has its values of the axes, which are named, and figures beside them.

    Axes that are too wide for columns of their own, or would cost a block, are one column of words, on one line or
    several; where not even that fits rows are numbered, and their axes stand in tables before. `first` are columns
    before the axes.
    """
    apart = [_axis(name, [row[i] for row in rows]) for i, name in enumerate(names)]
    usual, texts = _words(names, rows)
    tried = [("", apart)]
    if len(names) > 1:
        tried.append((usual, [[_hanging(words, _widest(texts)) for words in texts]]))
    layouts = [(said, leading, _split([*first, *leading], columns, width)) for said, leading in tried]
    layouts.sort(key=lambda it: (_too_wide([*first, *it[1]], it[2], width), len(it[2])))
    if not names or not _too_wide([*first, *layouts[0][1]], layouts[0][2], width):
        return _drawn(*layouts[0], first, width)
    blocks = [[block] for block in _narrower(texts, width)]
    wrapped = [(usual, leading, _split([*first, *leading], columns, width)) for leading in blocks]
    fitting = [it for it in wrapped if not _too_wide([*first, *it[1]], it[2], width)]
    if fitting:
        return _drawn(*min(fitting, key=lambda it: len(it[2]) * _height(it[1])), first, width)
    numbers = ["#", *(str(number) for number in range(1, len(rows) + 1))]
    keys = _split([numbers], apart, width)
    figures = _split([numbers, *first], columns, width)
    return [_draw([numbers, *key]) for key in keys] + [_draw([numbers, *first, *group]) for group in figures]


def _drawn(said: str, leading: Sequence[_Lines], groups: _Groups, first: Sequence[_Lines], width: int) -> _Lines:
    return [*(_wrapped(said, width) if said else []), *(_draw([*first, *leading, *group]) for group in groups)]


_Words = Sequence[str]


def _words(names: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[str, list[_Words]]:
    """A sentence with the usual values of axes, and all axes in words, for the heading and for each row.

    Values of axes in `_BARE` are one word, aligned with those of other rows, with their names in the heading in that
    order. Other values follow their names, in rows where they are not the usual ones.
    """
    bare = [i for i, name in enumerate(names) if name in _BARE]
    others = [i for i in range(len(names)) if i not in bare]
    usual = {i: Counter(row[i] for row in rows).most_common(1)[0][0] for i in others}
    columns = [_ljust([row[i] for row in rows]) for i in bare]
    begins = [" ".join(texts) for texts in zip(*columns, strict=True)] if bare else [""] * len(rows)
    said = ", ".join(_named(names[i], value) for i, value in usual.items())
    heading = ", ".join([*(names[i] for i in bare), *(["what differs"] if others else [])]).split()
    texts = [
        [begin.rstrip(), *(_named(names[i], row[i]) for i in others if row[i] != usual[i])]
        for begin, row in zip(begins, rows, strict=True)
    ]
    return said and f"unless a row says otherwise: {said}", [heading, *texts]


def _named(name: str, value: str) -> str:
    return f'{name}="{value}"' if " " in value else f"{name}={value}"


def _widest(texts: Sequence[_Words]) -> int:
    """The width of the longest row on one line; the heading has lines enough for its words."""
    heading, *rows = texts
    return max(len(text) for text in (*heading, *map(" ".join, rows)))


def _narrower(texts: Sequence[_Words], width: int) -> list[_Lines]:
    """The texts on two lines at most, on three and so on, each as narrow as they can be; no word is broken."""
    longest = max(len(word) for words in texts for word in " ".join(words).split())
    found: dict[int, _Lines] = {}
    for room in range(min(width, _widest(texts)), longest - 1, -1):
        lines = [_hanging(words, room) for words in texts]
        if _width([lines]) <= room:
            found[max(text.count("\n") for text in lines[1:])] = lines
    return list(found.values())


def _hanging(words: _Words, room: int) -> str:
    """The words on lines of that width; those after the first are indented."""
    if any(len(word) > room for word in words):
        # without room, the values that are aligned with other rows' are words too
        words = " ".join(words).split()
    lines = [""]
    for word in words:
        extended = f"{lines[-1]} {word}" if lines[-1].strip() else f"{lines[-1]}{word}"
        if len(extended) > room and lines[-1].strip():
            lines.append(f"{' ' * _INDENT}{word}")
        else:
            lines[-1] = extended
    return "\n".join(lines)


def _height(columns: Sequence[_Lines]) -> int:
    return sum(max(text.count("\n") + 1 for text in row) for row in zip(*columns, strict=True))


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


def _aligned(cells: Sequence[TableCell]) -> _Lines:
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
    return [value.ljust(max(map(len, values))) for value in values]


def _rjust(values: Sequence[str]) -> _Lines:
    return [value.rjust(max(map(len, values))) for value in values]


def _draw(columns: Sequence[_Lines]) -> str:
    # the rule is a row of its own: tabulate makes a column two characters wider than its header
    ruled = [[column[0], "-" * _width([column]), *column[1:]] for column in columns]
    rows = list(zip(*ruled, strict=True))
    text = tabulate(rows, tablefmt="plain", disable_numparse=True, preserve_whitespace=True)
    return "\n".join(line.rstrip() for line in text.split("\n"))

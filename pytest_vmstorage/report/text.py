"""The matrix for a terminal or a log file: within a given width, split by columns rather than wrapped; pure."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from itertools import groupby, product
from typing import NamedTuple

from tabulate import tabulate

from pytest_vmstorage.report.curves import PointTable
from pytest_vmstorage.report.table import BARE, Table, TableCell
from pytest_vmstorage.text import plain
from pytest_vmstorage.units import common_scale

_GAP = 2
"""Blanks between two columns, as tabulate's "plain" has them."""

_INDENT = 2
"""Blanks before the second line of a row."""

_READABLE = 10
"""Characters of a cut fact, or more, are worth showing: "Intel(R) X…" names a CPU, "2 cor…" nothing."""

_FAILED_WIDTH = 20
"""Enough of a reason to tell failures apart; the sentence stands in full below."""

_HEADING_WIDTHS = (16, 14, 12, 11, 10, 9, 8)
"""The least width of a column for its heading: the first of them that costs no block."""

_FEW_ROWS = 6
"""So few configurations may be the columns of a table with many metrics."""

_ARROWS = {"higher": "↑", "lower": "↓"}
_TOGETHER = "\N{NO-BREAK SPACE}"

_Lines = list[str]
_Groups = list[list[_Lines]]
_Block = str | list[_Lines]
"""A sentence, or columns that are not drawn yet."""

_Words = Sequence[str]


class _Columns(NamedTuple):
    """Columns under one heading: of each its own heading and a text for each row, all of one width.

    `spans` has a text for each row in which one text stands in the place of them all, and "" for others. Columns of one
    `test` are kept in one block where they fit into it.
    """

    heading: Sequence[str]
    parts: Sequence[_Lines]
    spans: Sequence[str] = ()
    test: str = ""

    def joined(self) -> _Lines:
        """All of them as one column."""
        heads = [part[0].split("\n") for part in self.parts]
        height = max(map(len, heads))
        lines = zip(*([""] * (height - len(head)) + head for head in heads), strict=True)
        gap, widths = " " * _GAP, [_width([part]) for part in self.parts]
        below = [gap.join(map(str.ljust, line, widths)).rstrip() for line in lines]
        bodies = [gap.join(texts) for texts in zip(*(part[1:] for part in self.parts), strict=True)]
        texts = [span or body for span, body in zip(self.spans or [""] * len(bodies), bodies, strict=True)]
        words = [word for line in self.heading for word in line.split()]
        width = max(map(len, [*below, *texts, *words]))
        above = [line for text in self.heading for line in textwrap.wrap(text, width)]
        return ["\n".join([*above, *below]), *(text.ljust(width) for text in texts)]

    def apart(self) -> list[_Lines]:
        """Each of them under the heading of all, for a width into which they do not fit side by side."""
        return [self._replace(parts=[part]).joined() for part in self.parts]


def render_text(table: Table, width: int) -> str:
    """All of the report on lines of at most `width` characters, as far as one column and the widest axis fit."""
    parts = [*overview_parts(table, width), *_wrapped(table.time, width), *point_parts(table.point_tables, width)]
    for section in table.sections:
        texts = [line for text in section.lines for line in text.splitlines()]
        lines = [line for text in texts for line in _wrapped(text, width, "  ")]
        parts.append("\n".join([*_wrapped(f"{section.title}:", width), *lines]))
    return plain("\n\n".join(part for part in parts if part)) + "\n"


def overview_parts(table: Table, width: int) -> list[str]:
    """How the tests ended, on which hosts, the matrix and how it is read: parts for blank lines between them."""
    hosts = [_within(host, width) for host in table.hosts]
    said = "; ".join(filter(None, [table.caption, _legend(table)]))
    above = "\n".join(filter(None, [table.tests, *hosts, *_wrapped(said, width)]))
    return [above, *(_matrix(table, width) if table.rows else [])]


def _within(host: str, width: int) -> str:
    """The facts of a host on one line: one that is cut keeps enough of itself to be read, or is left out whole."""
    if len(host) <= width:
        return host
    kept, _, last = host[: width - 1].rpartition(", ")
    return f"{host[: width - 1]}…" if len(last) >= _READABLE or not kept else kept


def point_parts(tables: Sequence[PointTable], width: int) -> list[str]:
    """Curves and maps, each below its title."""
    return [part for table in tables for part in (*_wrapped(f"{table.title}:", width), *_points(table, width))]


def _legend(table: Table) -> str:
    ways = {column.metric.better for column in table.columns if column.metric is not None}
    arrows = ", ".join(f"{arrow} {way}" for way, arrow in _ARROWS.items() if way in ways)
    return "; ".join(filter(None, [arrows and f"{arrows} is better", table.legend]))


def _points(table: PointTable, width: int) -> _Lines:
    """A row for each of the table's, a column for each point, in as few blocks as fit."""
    points = [_rjust([name, *(row.points[index] for row in table.rows)]) for index, name in enumerate(table.points)]
    leading = [["metric", *(row.metric for row in table.rows)]] if table.has_metrics else []
    columns = [_Columns((), [point]) for point in points]
    return _drawn(_tables(leading, table.axes, [row.cell for row in table.rows], columns, width))


def _wrapped(text: str, width: int, indent: str = "") -> _Lines:
    lines = textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent * 2, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return lines if indent else ["\n".join(lines)]


class _Grid(NamedTuple):
    """The matrix with numbers in place of figures: its axes and their values, and of each column unit and cells."""

    names: Sequence[str]
    rows: Sequence[_Words]
    titles: Sequence[tuple[str, ...]]
    functions: Sequence[str]
    metrics: Sequence[str]
    columns: Sequence[Sequence[TableCell]]


def _matrix(table: Table, width: int) -> _Lines:
    """The table in as few blocks as possible, with as much of headings and failures as costs none.

    A few configurations with many metrics are turned round where that takes fewer lines.
    """
    grid = _grid(table)
    columns: list[Sequence[_Columns]] = []
    for is_named, least in product((True, False), _HEADING_WIDTHS):
        one = _columns(grid, least, is_named=is_named)
        # most widths of headings, and names where nothing failed, make no difference
        if one not in columns:
            columns.append(one)
    tried = sorted((_tables([], grid.names, grid.rows, one, width) for one in columns), key=len)
    # the first of the fewest blocks: no other is drawn, which takes longer than all before it
    best = next((blocks for blocks in map(_drawn, tried) if _fits(blocks, width)), None) or _drawn(tried[0])
    if 1 < len(grid.rows) <= _FEW_ROWS and len(best) > 1:
        turned = _turned(grid, width)
        return turned if _fits(turned, width) and _height(turned) < _height(best) else best
    return best


def _fits(blocks: _Lines, width: int) -> bool:
    return all(len(line) <= width for block in blocks for line in block.split("\n"))


def _height(blocks: _Lines) -> int:
    return sum(block.count("\n") + 2 for block in blocks)


def _grid(table: Table) -> _Grid:
    found = [_numbers(table, index) for index in range(len(table.columns))]
    return _Grid(
        names=[table.axes[i] for i in table.shown_axes],
        rows=[[row.axes[i] for i in table.shown_axes] for row in table.rows],
        titles=[column.title for column in table.columns],
        functions=table.functions or [""] * len(table.columns),
        metrics=[heading for heading, _ in found],
        columns=[cells for _, cells in found],
    )


def _numbers(table: Table, index: int) -> tuple[str, list[TableCell]]:
    """A column's heading with its unit, and its cells with numbers in that unit."""
    metric, cells = table.columns[index].metric, [row.cells[index] for row in table.rows]
    if metric is None:
        return "", cells
    values = [cell.value for cell in cells if cell.value is not None]
    scale = common_scale(values, metric.unit)
    numbers = iter(scale.numbers(values))
    cells = [
        cell if cell.value is None
        else cell.model_copy(update={"figure": next(numbers), "spread": cell.spread.removesuffix(" %")})
        for cell in cells
    ]  # fmt: skip
    unit = _TOGETHER.join(filter(None, [*scale.unit.split(), _ARROWS.get(metric.better, "")]))
    return unit if metric.name.casefold() == metric.unit.casefold() else f"{metric.name} {unit}", cells


def _columns(grid: _Grid, least: int, *, is_named: bool) -> list[_Columns]:
    """The columns of each workload; the heading of one is at least so wide, and failures have names or not."""
    found = []
    keys = zip(grid.titles, grid.functions, strict=True)
    for (title, function), members in groupby(enumerate(keys), key=lambda one: one[1]):
        indices = [index for index, _ in members]
        cells = [grid.columns[index] for index in indices]
        room = least // len(indices)
        spans = [_span(row, is_named=is_named) for row in zip(*cells, strict=True)]
        parts = [_part(grid.metrics[index], grid.columns[index], room, spans, is_named=is_named) for index in indices]
        found.append(_Columns(title, parts, spans, function))
    return found


def _part(metric: str, cells: Sequence[TableCell], least: int, spans: Sequence[str], *, is_named: bool) -> _Lines:
    texts = [
        "" if span else _failure(cell, is_named=is_named) if cell.failure else text
        for cell, text, span in zip(cells, _aligned(cells), spans, strict=True)
    ]
    width = max(map(len, [*texts, *metric.split(" "), " " * least]))
    heading = "\n".join(textwrap.wrap(metric, width)).replace(_TOGETHER, " ")
    return [heading, *(text.ljust(width) for text in texts)]


def _failure(cell: TableCell, *, is_named: bool) -> str:
    if not is_named:
        return cell.outcome
    return cell.name or textwrap.shorten(cell.text, _FAILED_WIDTH, placeholder="…")


def _span(cells: Sequence[TableCell], *, is_named: bool) -> str:
    """The failure that all cells of a workload in a row have, if they have one."""
    same = len({(cell.failure, cell.outcome) for cell in cells}) == 1
    return _failure(cells[0], is_named=is_named) if same and cells[0].failure else ""


def _turned(grid: _Grid, width: int) -> _Lines:
    """A row for each metric, and a column for each configuration."""
    usual, (heading, *texts) = _words(grid.names, grid.rows)
    titles = [" ".join(title) for title in grid.titles]
    first = ["", *("" if index and titles[index - 1] == title else title for index, title in enumerate(titles))]
    metrics = [" ".join(heading), *(metric.replace(_TOGETHER, " ") for metric in grid.metrics)]
    columns = [
        _Columns([" ".join(words).strip()], [_part("", cells, 1, [""] * len(cells), is_named=False)])
        for words, cells in zip(texts, zip(*grid.columns, strict=True), strict=True)
    ]
    leading = [first, metrics]
    return _drawn(_blocks(usual, leading, _split(leading, columns, width), [], width))


def _tables(
    first: Sequence[_Lines],
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    columns: Sequence[_Columns],
    width: int,
) -> list[_Block]:
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
        return _blocks(*layouts[0], first, width)
    blocks = [[block] for block in _narrower(texts, width)]
    wrapped = [(usual, leading, _split([*first, *leading], columns, width)) for leading in blocks]
    fitting = [it for it in wrapped if not _too_wide([*first, *it[1]], it[2], width)]
    if fitting:
        return _blocks(*min(fitting, key=lambda it: len(it[2]) * _rows_height(it[1])), first, width)
    numbers = ["#", *(str(number) for number in range(1, len(rows) + 1))]
    keys = _split([numbers], [_Columns((), [axis]) for axis in apart], width)
    figures = _split([numbers, *first], columns, width)
    return [*([numbers, *key] for key in keys), *([numbers, *first, *group] for group in figures)]


def _blocks(said: str, leading: Sequence[_Lines], groups: _Groups, first: Sequence[_Lines], width: int) -> list[_Block]:
    return [*(_wrapped(said, width) if said else []), *([*first, *leading, *group] for group in groups)]


def _drawn(blocks: Sequence[_Block]) -> _Lines:
    return [block if isinstance(block, str) else _draw(block) for block in blocks]


def _words(names: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[str, list[_Words]]:
    """A sentence with the usual values of axes, and all axes in words, for the heading and for each row.

    Values of axes in `BARE` are one word, aligned with those of other rows, with their names in the heading in that
    order. Other values follow their names, in rows where they are not the usual ones.
    """
    bare = [i for i, name in enumerate(names) if name in BARE]
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


def _rows_height(columns: Sequence[_Lines]) -> int:
    return sum(max(text.count("\n") + 1 for text in row) for row in zip(*columns, strict=True))


def _axis(name: str, values: Sequence[str]) -> _Lines:
    """An axis with its name above, broken in two where it is much wider than its values."""
    room = max(8, *map(len, values))
    if len(name) <= room:
        return [name, *values]
    first, underscore, second = name.rpartition("_")
    return [f"{first}_\n{second}" if underscore else f"{name[:7]}-\n{name[7:]}", *values]


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


def _split(leading: Sequence[_Lines], columns: Sequence[_Columns], width: int) -> _Groups:
    """Columns in groups that fit beside the leading ones, at least one each; those of a test together if they fit."""
    room = width - _width(leading) - (_GAP if leading else 0)
    groups: _Groups = [[]]
    for _, members in groupby(columns, key=lambda one: one.test or id(one)):
        together = [column for one in members for column in _fitting(one, room)]
        if _width([*groups[-1], *together]) > room >= _width(together):
            groups.append([])
        for column in together:
            if groups[-1] and _width([*groups[-1], column]) > room:
                groups.append([])
            groups[-1].append(column)
    return [group for group in groups if group] or [[]]


def _fitting(columns: _Columns, room: int) -> list[_Lines]:
    joined = columns.joined()
    return [joined] if _width([joined]) <= room else columns.apart()


def _too_wide(leading: Sequence[_Lines], groups: _Groups, width: int) -> bool:
    return any(_width([*leading, *group]) > width for group in groups)


def _width(columns: Sequence[_Lines]) -> int:
    widest = [max(map(len, "\n".join(column).split("\n"))) for column in columns]
    return sum(widest) + _GAP * max(0, len(widest) - 1)


def _ljust(values: Sequence[str]) -> _Lines:
    width = max(map(len, values))
    return [value.ljust(width) for value in values]


def _rjust(values: Sequence[str]) -> _Lines:
    width = max(map(len, values))
    return [value.rjust(width) for value in values]


def _draw(columns: Sequence[_Lines]) -> str:
    # the rule is a row of its own: tabulate makes a column two characters wider than its header
    ruled = [[column[0], "-" * _width([column]), *column[1:]] for column in columns]
    rows = list(zip(*ruled, strict=True))
    text = tabulate(rows, tablefmt="plain", disable_numparse=True, preserve_whitespace=True)
    return "\n".join(line.rstrip() for line in text.split("\n"))

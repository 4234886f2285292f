"""The matrix as a GitHub-flavoured Markdown table, with all that stands below it."""

from __future__ import annotations

import textwrap
import urllib.parse
from collections.abc import Sequence

from pytest_vmstorage.report.table import BEST, Table, TableCell
from pytest_vmstorage.text import plain_markdown

_FAILED_WIDTH = 48
"""Enough of a reason for a cell; the sentence stands in full below the table."""


def render_markdown(table: Table, picture: str = "") -> str:
    """The table as Markdown, best figures bold; ends with a newline.

    `picture` is the path of a picture of the same table, as seen from the text, which then stands above it.
    """
    parts = [f"## Storage matrix{f': {table.tests}' if table.tests else ''}", plain_markdown(table.caption)]
    if picture:
        said = "The matrix as bars with their spread; the table below has the same figures"
        parts.append(f"![{said}]({urllib.parse.quote(picture)})")
    if table.rows:
        headings = ("<br>".join(map(plain_markdown, column.heading)) for column in table.columns)
        heads = [*map(plain_markdown, table.axes), *headings]
        rule = ["---"] * len(table.axes) + ["---:"] * len(table.columns)
        rows = [[*map(plain_markdown, row.axes), *map(_cell, row.cells)] for row in table.rows]
        parts.append("\n".join(map(_line, [heads, rule, *rows])))
    parts += [plain_markdown(table.legend), plain_markdown(table.time)]
    for points in table.point_tables:
        metric = ["metric"] if points.has_metrics else []
        heads = [*metric, *points.axes, *points.points]
        rule = [*("---" for _ in (*metric, *points.axes)), *("---:" for _ in points.points)]
        rows = [[*([row.metric] if metric else []), *row.cell, *row.points] for row in points.rows]
        lines = [_line([*map(plain_markdown, heads)]), _line(rule), *(_line([*map(plain_markdown, r)]) for r in rows)]
        parts.append(f"### {plain_markdown(points.title)}\n\n" + "\n".join(lines))
    for section in table.sections:
        items = "\n".join(f"- {plain_markdown(line)}" for line in section.lines)
        parts.append(f"### {plain_markdown(section.title)}\n\n{items}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _line(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _cell(cell: TableCell) -> str:
    if cell.failure:
        return plain_markdown(textwrap.shorten(cell.text, _FAILED_WIDTH, placeholder="…"))
    if cell.mark != BEST:
        return plain_markdown(cell.text)
    best, *others = map(plain_markdown, cell.parts)
    return " ".join(part for part in (f"**{best}**", *others) if part)

"""The matrix as a GitHub-flavoured Markdown table, whole, with everything that stands below it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from pytest_vmstorage.report.table import BEST, Cell, Table

_FAILED_WIDTH = 48
"""Enough of a reason for a cell; the sentence stands in full below the table."""


def render_markdown(table: Table) -> str:
    """The table as Markdown, best figures bold; ends with a newline."""
    parts = ["## Storage matrix", escape(table.caption)]
    if table.rows:
        heads = [*table.axes, *("<br>".join(map(escape, column.heading)) for column in table.columns)]
        rule = ["---"] * len(table.axes) + ["---:"] * len(table.columns)
        rows = [[*map(escape, row.axes), *map(_cell, row.cells)] for row in table.rows]
        parts.append("\n".join(map(_line, [heads, rule, *rows])))
    parts += [escape(table.legend), escape(table.time)]
    for curves in table.curves:
        heads = ["metric", "cell", *curves.points]
        rule = ["---", "---", *("---:" for _ in curves.points)]
        rows = [[row.metric, row.cell, *row.points] for row in curves.rows]
        lines = [_line(heads), _line(rule), *(_line([*map(escape, row)]) for row in rows)]
        parts.append(f"### {escape(curves.title)}\n\n" + "\n".join(lines))
    for section in table.sections:
        items = "\n".join(f"- {escape(line)}" for line in section.lines)
        parts.append(f"### {escape(section.title)}\n\n{items}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _line(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _cell(cell: Cell) -> str:
    if cell.failure:
        return escape(textwrap.shorten(cell.text, _FAILED_WIDTH, placeholder="…"))
    if cell.mark != BEST:
        return escape(cell.text)
    return " ".join(part for part in (f"**{escape(cell.figure)}**", *cell.parts[1:]) if part)


def escape(text: str) -> str:
    """Text that Markdown leaves alone: no column ends, no markup, no line ends."""
    for sign in ("\\", "|", "*", "_", "`", "<", ">"):
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())

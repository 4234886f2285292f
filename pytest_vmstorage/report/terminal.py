"""The end of a run on the terminal: as much as the user wants to read, no wider than it is, with words marked; pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from pytest_vmstorage.analysis.gate.verdicts import Comparison
from pytest_vmstorage.report.overview import TO_SEE_ALL, Block, Line, caution_lines, most_important, overview_blocks
from pytest_vmstorage.report.sections import tally
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.report.text import overview_parts, point_parts, render_text
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.text import plain

_MOST_POINTS = 30
"""A curve or map of more rows is no overview."""

_MORE = "proof, cost, layers, guests, hosts, hygiene"


class Detail(IntEnum):
    """How much is printed: the files that were written, the matrix and its doubts, an overview, or all."""

    FILES = 0
    MATRIX = 1
    OVERVIEW = 2
    ALL = 3


def detail_of(verbosity: int) -> Detail:
    """How much to print at pytest's verbosity, which is -2 for -qq and 1 for -v."""
    return Detail(min(max(verbosity + Detail.OVERVIEW, Detail.FILES), Detail.ALL))


def render_end(run: Run, comparison: Comparison | None, detail: Detail, width: int, *, si: bool = False) -> list[str]:
    """The lines of the report, each at most `width` wide as far as a word fits; none for `Detail.FILES`.

    With `si` data rates are in MB/s.
    """
    if detail is Detail.FILES:
        return []
    # how tests ended stands in the title above
    table = build_table(run, comparison, si=si).model_copy(update={"tests": ""})
    if detail is Detail.ALL:
        return render_text(table, width).splitlines()
    shown, which = most_important(table)
    parts = overview_parts(shown, width)
    parts[-1] += "".join(f"\n{line}" for line in _hanging(which, width, "", 2))
    blocks = [Block("cautions", caution_lines(run))]
    if detail is Detail.OVERVIEW:
        small = [points for points in table.point_tables if len(points.rows) <= _MOST_POINTS]
        large = [points.title for points in table.point_tables if points not in small]
        parts += point_parts(small, width)
        blocks = [
            *overview_blocks(run, comparison, table),
            Block("more", [Line(", ".join([*large, _MORE]) + f": {TO_SEE_ALL}")]),
        ]
    parts.append("\n".join(_laid_out([block for block in blocks if block.lines], width)))
    return plain("\n\n".join(filter(None, parts))).splitlines()


def _laid_out(blocks: Sequence[Block], width: int) -> Iterator[str]:
    """The lines of all blocks, with the label before the first of each; further clauses only where they fit."""
    indent = max((len(block.label) for block in blocks), default=0) + len(":  ")
    for block in blocks:
        label = f"{block.label}:"
        for line in block.lines:
            text = _filled(line, width - indent)
            lines = _hanging(text, width, label.ljust(indent), indent + 2)
            if max(map(len, lines)) > width:
                # a word that is too long for what the label leaves
                lines = _hanging(text, width, f"{label} ", 4)
            yield from lines
            label = ""


def _hanging(text: str, width: int, first: str, indent: int) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=" " * indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _filled(line: Line, room: int) -> str:
    """The line with as many of its clauses as fit, and the number of the others."""
    text, clauses, is_counted = line
    for place, clause in enumerate(clauses):
        longer, left = f"{text}; {clause}", len(clauses) - place - 1
        if len(longer) + (len(f"; {left} more") if left else 0) > room:
            more = f"; {left + 1} more" if is_counted else ""
            return f"{text}{more}" if len(text) + len(more) <= room else text
        text = longer
    return text


Markup = Mapping[str, bool]

_PAINT: Final[Sequence[tuple[re.Pattern[str], Markup]]] = tuple(
    (re.compile(pattern), MappingProxyType(dict.fromkeys(markup.split(), True)))
    for pattern, markup in (
        (r"\b(?:\d+ )?(?:FAILED|ERRORS?|FAIL|REGRESSED)\b|\bfailed(?=:|\s{2}|$)", "red bold"),
        (r"\b(?:SUSPECT|INVALID|INCONCLUSIVE|XFAIL|XPASS|SKIP)\b|\bemulated: [^)]*|^cautions:", "yellow"),
        (r"\b\d+ passed\b|\b(?:IMPROVED|PASS)\b|[^ ]+ +±[^ ]+ +▲", "green"),
        (r"[^ ]+ +±[^ ]+ +▼", "purple"),
        (r"^[a-z/]+:(?= )", "bold"),
    )
)
"""Words by their colour, the most urgent first; none is said by colour alone."""

_WORDS = re.compile("|".join(f"({pattern.pattern})" for pattern, _ in _PAINT))


def title_of(run: Run) -> tuple[str, Markup]:
    """The line above the report, which says how the tests ended, and its markup."""
    told = tally(run)
    is_red = "FAILED" in told or "ERROR" in told
    return f"VM storage: {told}" if told else "VM storage", MappingProxyType(
        {"red": True, "bold": True} if is_red else {}
    )


def painted(line: str) -> Iterator[tuple[str, Markup]]:
    """The line in pieces, each with its markup for pytest's TerminalWriter; together they are the line."""
    end = 0
    for found in _WORDS.finditer(line):
        if found.start() > end:
            yield line[end : found.start()], {}
        yield found[0], _PAINT[(found.lastindex or 1) - 1][1]
        end = found.end()
    if end < len(line):
        yield line[end:], {}

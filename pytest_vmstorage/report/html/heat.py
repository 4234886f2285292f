"""A view of the matrix as a table, its cells coloured by ratios that are sure, and its data for the script; pure."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_vmstorage.report.html.figures import Figures, Range, is_possible
from pytest_vmstorage.report.html.markup import Markup, data_block, harmless, items, shown, tag
from pytest_vmstorage.report.html.views import Grid, Spot, View, lay_out
from pytest_vmstorage.report.table import TableCell

_FAILED_WIDTH = 48
"""Enough of a reason for a cell; the sentence stands in full below."""

MOST_DOWN = 60
"""More rows than these are no overview; the whole table has them."""

KEY = (
    ("f2", "faster than the reference, stronger the more: 1.1, 1.25 and 2 times"),
    ("s2", "slower than the reference, stronger the more"),
    ("u", "hatched: the interval of the ratio holds 1, so that neither is faster"),
)
"""The classes of cells and their meaning."""


def heat_section(figures: Figures, view: View) -> Markup:
    """The heat map of that view with its key and data, in a place that the script may fill anew."""
    grid = lay_out(figures, view, MOST_DOWN)
    key = [f"{tag('span', '&nbsp;', class_=f'swatch {css}', aria_hidden='true')} {said}" for css, said in KEY]
    about = (
        "In a cell: the median of its rounds, ± half of smallest to largest; below, how many times as fast as the"
        " reference, with the interval. The reference is the best cell shown of the same host and acceleration. Up to"
        " six rounds the interval goes from the smallest to the largest ratio of any two rounds; from seven on it is"
        " one of 95 %."
    )
    return "\n".join(
        [
            tag("div", id="controls", hidden=True),
            tag("div", grid_table(figures, view, grid), id="heat", class_="scroll", role="region", tabindex="0",
                aria_label="matrix, a table that scrolls"),
            tag("div", id="filters", class_="bar", hidden=True),
            items(key, class_="key"),
            tag("p", about, class_="about"),
            data_block(data_of(figures, view), "data"),
        ]
    )  # fmt: skip


def metric_text(figures: Figures, column: int) -> str:
    """The column as a caption: workload, metric with its unit, and which way is better."""
    return ", ".join(figures.columns[column].heading)


def grid_table(figures: Figures, view: View, grid: Grid) -> Markup:
    """The grid as a table; of more rows than an overview has, the first, and how many others there are."""
    heads = [tag("th", shown(name), scope="col") for name in view.down]
    heads += [tag("th", _across(view, value), scope="col") for value in grid.across]
    lines = [tag("tr", *heads)]
    body = []
    for values, spots in zip(grid.down[:MOST_DOWN], grid.spots[:MOST_DOWN], strict=True):
        names = [tag("th", shown(value), scope="row") for value in values]
        body.append(tag("tr", *names, *(spot_cell(figures, view.column, spot) for spot in spots)))
    left = len(grid.down) - len(body)
    more = tag("p", f"and {left} rows more: the whole table has them") if left > 0 else ""
    caption = tag("caption", shown(metric_text(figures, view.column)))
    return tag("table", caption, tag("thead", *lines), tag("tbody", *body), class_="heat") + more


def _across(view: View, value: str) -> Markup:
    return f"{tag('small', shown(view.across))} {shown(value)}" if view.across else "figure"


def spot_cell(figures: Figures, column: int, spot: Spot) -> Markup:
    """A cell of the view: its figure as the whole table has it, and its ratio."""
    if spot.row is None:
        return tag("td", tag("i", shown(spot.choose)) if spot.choose else "-", class_="choose" if spot.choose else None)
    cell = figures.cell(spot.row, column)
    if css := class_of(cell):
        return tag("td", figure_markup(cell), class_=css)
    if spot.is_reference:
        return tag("td", figure_markup(cell), tag("small", "reference", class_="times"), class_="ref")
    if spot.ratio is None:
        return tag("td", figure_markup(cell))
    return tag("td", figure_markup(cell), tag("small", str(spot.ratio), class_="times"), class_=colour_of(spot))


def class_of(cell: TableCell) -> str:
    """The class of a cell that is compared with none: it failed, was skipped, or is impossible; "" for others."""
    if cell.failure:
        return "bad" if cell.outcome == "failed" else "skip"
    return "" if is_possible(cell) else "bad"


def colour_of(spot: Spot) -> str:
    """The class of a cell with a ratio: f1 to f4 for faster, s1 to s4 for slower, u where it is not sure."""
    level = spot.ratio.level if spot.ratio else 0
    return f"f{level}" if level > 0 else f"s{-level}" if level < 0 else "u"


def figure_markup(cell: TableCell) -> Markup:
    """The text of a cell: figure, spread, marks, change; the beginning of the sentence where it failed."""
    if cell.failure:
        return shown(cell.name or textwrap.shorten(cell.text, _FAILED_WIDTH, placeholder="…"))
    figure, *others = map(shown, cell.parts)
    rest = " ".join(filter(None, others))
    small = f"<small>{rest}</small>" if rest else ""
    return f"{figure} {small}" if figure and small else figure or small or "-"


def data_of(figures: Figures, view: View) -> Mapping[str, Any]:
    """What the script draws other views from: axes, values, columns and ranges; texts it takes from the whole table."""
    places = [{value: i for i, value in enumerate(figures.values[name])} for name in figures.axes]
    pairs = list(dict.fromkeys(figures.apart))
    numbers = {pair: place for place, pair in enumerate(pairs)}
    return {
        "axes": figures.axes,
        "values": [figures.values[name] for name in figures.axes],
        "rows": [[place[value] for place, value in zip(places, row, strict=True)] for row in figures.rows],
        "apart": [numbers[pair] for pair in figures.apart] if len(pairs) > 1 else [],
        "pairs": [tuple(map(harmless, pair)) for pair in pairs],
        "columns": [
            {
                "of": harmless(" ".join(column.title)),
                "name": harmless(column.metric.name) if column.metric else "",
                "heading": harmless(metric_text(figures, place)),
                "better": column.metric.better if column.metric else "neither",
            }
            for place, column in enumerate(figures.columns)
        ],
        "blocks": [
            [block.columns, [] if len(block.rows) == len(figures.rows) else block.rows] for block in figures.blocks
        ],
        "ranges": [[_saved(row[place]) for row in figures.ranges] for place in range(len(figures.columns))],
        "view": {"column": view.column, "down": view.down, "across": view.across},
    }


def _saved(found: Range | None) -> Sequence[float] | int:
    return 0 if found is None else [*map(_short, found[:3]), found.rounds]


def _short(number: float) -> float:
    return int(number) if number == int(number) else number

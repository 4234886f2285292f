"""The report as one HTML file: the verdict, the matrix, what moves what, and all that stands behind them; pure.

The file asks no network for anything: a policy in its head forbids it. It is complete without script and without style;
both lie in it whole, and their hashes in its head, so that a server's own policy can allow them.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from pytest_vmstorage.analysis.gate.verdicts import Comparison
from pytest_vmstorage.report.html.chart import Chart
from pytest_vmstorage.report.html.charts import Kept, drawn, run_charts, within
from pytest_vmstorage.report.html.effects import effects_section
from pytest_vmstorage.report.html.evidence import failures_markup, proof_markup, sections_markup, time_markup
from pytest_vmstorage.report.html.figures import Figures, WorkloadColumns, figures_of
from pytest_vmstorage.report.html.heat import class_of, figure_markup, heat_section
from pytest_vmstorage.report.html.markup import Markup, items, shown, shown_lines, tag
from pytest_vmstorage.report.html.svg import undescribed
from pytest_vmstorage.report.html.views import default_view
from pytest_vmstorage.report.overview import Block, overview_blocks
from pytest_vmstorage.report.pull_request import headline
from pytest_vmstorage.report.table import Table, build_table
from pytest_vmstorage.results.run import Measurement, Run

_CHUNK = 200
"""Rows of a table that a browser lays out at once."""

_FIRST = ("failed", "verdicts", "best", "cautions")
"""Blocks of the overview that stand above the matrix, with so many lines each as fit there."""

_FIRST_LINES = 2

ChartsOf = Callable[[Run, Sequence[Measurement]], Iterable[Chart]]
"""The charts of one workload's measurements."""

_PAGE_WEIGHT, _ROW_WEIGHT = 112_000, 2_800
"""Characters of a page of 16 measurements, and for each more: charts are drawn as long as it stays below; it is sent to
people."""

_LEAST_CHARTS, _MOST_CHARTS = 20_000, 400_000
"""Characters of charts that a page has room for whatever else it shows, and that no page goes beyond."""


class Part(NamedTuple):
    """A section of the page behind the first screen: its name in links, its heading, and what stands below it."""

    slug: str
    title: str
    body: Markup


def render_html(
    run: Run,
    comparison: Comparison | None = None,
    si: bool = False,
    *,
    charts_of: ChartsOf = drawn,
    more: Sequence[Part] = (),
) -> str:
    """The whole report as an HTML document that ends with a newline.

    With `si` data rates are in MB/s. `charts_of` draws the charts of each workload, and `more` are parts behind those.
    """
    table = build_table(run, comparison, si=si)
    figures = figures_of(table)
    blocks = overview_blocks(run, comparison, table)
    first: list[Markup] = []
    if figures.rows:
        heat = heat_section(figures, default_view(figures, table.moved))
        first.append(_section(Part("matrix", "Matrix", heat)))
        first.append(_section(Part("effects", "What moves what", effects_section(table.moved))))
    more = (
        *_parts(run, table, figures, blocks, charts_of, sum(map(len, (*first, *(part.body for part in more))))),
        *more,
    )
    parts = [part for part in more if part.body]
    title = headline(run, comparison)
    links = [tag("a", shown(part.title), href=f"#{part.slug}") for part in parts]
    body = "\n".join(
        [
            tag(
                "header", tag("h1", shown(title)), *(tag("p", shown(line)) for line in table.hosts),
                tag("p", shown(f"Run of {_minutes(run.started)}; {table.caption}")), _summary(blocks),
            ),
            tag(
                "main", tag("div", *first, class_="first"), tag("nav", items(links), aria_label="All sections"),
                *map(_section, parts),
            ),
            tag("p", id="told", role="status"),
        ]
    )  # fmt: skip
    return document(title, body)


def document(title: str, body: Markup) -> str:
    """A whole document around a body, with style and script, that ends with a newline."""
    return f'<!doctype html>\n<html lang="en">\n{_head(title)}\n<body>\n{body}\n{_script()}\n</body>\n</html>\n'


def _minutes(started: str) -> str:
    """The times in ISO format that stand in that text, without their seconds; all else as it is."""
    return re.sub(r"(?<=\d)T(\d\d:\d\d):[\d.:]+\+00:00", r" \1 UTC", started)


def _section(part: Part) -> Markup:
    heading = tag("h2", shown(part.title), id=f"{part.slug}-title")
    return tag("section", heading, "\n", part.body, id=part.slug, aria_labelledby=f"{part.slug}-title") + "\n"


def _summary(blocks: Sequence[Block]) -> Markup:
    """The first lines of what matters most."""
    lines = [
        f"{tag('b', shown(block.label))} {_line(line.text, line.clauses)}"
        for name in _FIRST
        for block in blocks
        if block.label == name
        for line in block.lines[:_FIRST_LINES]
    ]
    return items(lines, class_="summary")


def _line(text: str, clauses: Sequence[str]) -> Markup:
    return shown("; ".join([text, *clauses]))


def _parts(
    run: Run, table: Table, figures: Figures, blocks: Sequence[Block], charts_of: ChartsOf, others: int
) -> Iterator[Part]:
    """All parts of a run, with as many charts as there is room for beside them and so many characters of others."""
    overview = Part("overview", "In short", _overview(blocks))
    tables = [_figures(figures, block, f"w{place}") for place, block in enumerate(figures.blocks, start=1)]
    points = [*_points(table)]
    behind = [
        Part("failed", "Failed cells", failures_markup(run.failures, "failed")),
        Part("skipped", "Skipped cells", failures_markup(run.failures, "skipped")),
        Part("details", "What else is known of the figures", sections_markup(table.sections)),
        Part("proof", "Proof", proof_markup(run)),
        Part("time", "Where the time went", time_markup(run.timelines)),
    ]
    others += sum(map(len, (overview.body, *tables, *points, *(part.body for part in behind))))
    named = [figures.columns[block.columns[0]].workload for block in figures.blocks]
    waiting = [run_charts(run), *(charts_of(run, rows) for rows in _by_workload(run, named))]
    over_points, *of_workloads = within(_room(len(run.measurements), others), waiting)
    yield overview
    for place, (block, kept) in enumerate(zip(figures.blocks, of_workloads, strict=True), start=1):
        yield Part(f"w{place}", block.title, f"{tables[place - 1]}\n{_charts(kept, f'w{place}')}")
    yield Part("points", "Curves and maps", "\n".join([_charts(over_points, "points"), *points]))
    yield from behind


def _room(measurements: int, others: int) -> int:
    """The characters that charts may have beside so many of other parts, and of what each page has."""
    fixed = sum(len(_resource(name)) for name in ("style.css", "script.js"))
    room = _PAGE_WEIGHT + _ROW_WEIGHT * max(0, measurements - 16) - fixed - others
    return min(max(room, _LEAST_CHARTS), _MOST_CHARTS)


def _by_workload(run: Run, workloads: Sequence[str]) -> list[list[Measurement]]:
    """The measurements of each of these workloads; those of one that is named again stand at its first place."""
    found: dict[str, list[Measurement]] = {}
    for m in run.measurements:
        found.setdefault(m.workload, []).append(m)
    return [found.pop(workload, []) for workload in workloads]


def _overview(blocks: Sequence[Block]) -> Markup:
    """All lines that a terminal shows below the matrix."""
    pairs = (
        tag("dt", shown(block.label)) + "".join(tag("dd", _line(line.text, line.clauses)) for line in block.lines)
        for block in blocks
    )
    return tag("dl", *pairs)


def _figures(figures: Figures, block: WorkloadColumns, slug: str) -> Markup:
    """Every figure of a workload, a line for each row, in tables that a browser lays out one by one."""
    heads = [tag("th", shown(name), scope="col") for name in figures.axes]
    heads += [tag("th", "<br>".join(map(shown, _metric(figures, one))), scope="col") for one in block.columns]
    head = tag("thead", tag("tr", *heads))
    chunks = [block.rows[i : i + _CHUNK] for i in range(0, len(block.rows), _CHUNK)]
    tables = []
    for chunk in chunks:
        lines = "\n".join(_row(figures, row, block.columns) for row in chunk)
        which = "all figures" if len(chunks) == 1 else f"all figures, rows {chunk[0] + 1} to {chunk[-1] + 1}"
        inside = tag("table", tag("caption", f"{shown(block.title)}: {which}"), head, f"<tbody>\n{lines}</tbody>")
        tables.append(
            tag(
                "div", inside, class_="scroll figures" + " chunk" * (len(chunks) > 1), role="region", tabindex="0",
                aria_label=f"{block.title}: {which}",
            )
        )  # fmt: skip
    legend = tag("p", shown(figures.table.legend), class_="about") if figures.table.legend else ""
    return tag("div", *tables, id=f"{slug}-figures") + legend


def _metric(figures: Figures, column: int) -> Sequence[str]:
    """The lines above a column within the table of its workload."""
    found = figures.columns[column]
    return found.heading[len(found.title) :] or ("figure",)


def _row(figures: Figures, row: int, columns: Sequence[int]) -> Markup:
    """A row in as few characters as HTML allows: the end of a cell and of a row may be left out."""
    first, *others = figures.rows[row] or ("",)
    names = f'<tr><th scope="row">{shown(first)}' + "".join(f"<td>{shown(value)}" for value in others)
    if not figures.axes:
        names = "<tr>"
    return names + "".join(_figure_cell(figures, row, column) for column in columns)


def _figure_cell(figures: Figures, row: int, column: int) -> Markup:
    cell = figures.cell(row, column)
    css = class_of(cell)
    return f"<td{f' class={css}' if css else ''}>{figure_markup(cell)}"


def _charts(kept: Kept, slug: str) -> Markup:
    """The charts of a part, and that there are others where the page has no room for them."""
    more = "More charts are left out, so that the page stays small: a report of fewer tests has them."
    pictures = [_chart(chart, f"{slug}-{chart.slug}") for chart in kept.charts]
    side_by_side = [tag("div", "\n".join(pictures), class_="charts")] if pictures else []
    return "\n".join([*side_by_side, *([] if kept.is_all else [tag("p", more, class_="about")])])


def _chart(chart: Chart, slug: str) -> Markup:
    """A picture, with a sentence that says the same and its figures as CSV behind it for who asks."""
    words = tag("p", shown(chart.said))
    csv = tag("pre", shown_lines(chart.csv), tabindex="0")
    told = tag("details", tag("summary", "in words, and as CSV"), words, csv)
    title = tag("figcaption", tag("h3", shown(chart.title)))
    return tag("figure", title, undescribed(chart.svg), told, class_="chart", id=slug)


def _points(table: Table) -> Iterator[Markup]:
    """Figures over a swept option, and maps, as tables."""
    for points in table.point_tables:
        names = [*(["metric"] if points.has_metrics else []), *points.axes, *points.points]
        heads = tag("tr", *(tag("th", shown(name), scope="col") for name in names))
        body = [
            tag(
                "tr",
                *(tag("td", shown(one)) for one in [*([row.metric] if points.has_metrics else []), *row.cell]),
                *(tag("td", shown(one)) for one in row.points),
            )
            for row in points.rows
        ]
        inside = tag("table", tag("caption", shown(points.title)), tag("thead", heads), tag("tbody", *body))
        yield tag("div", inside, class_="scroll", role="region", tabindex="0", aria_label=points.title)


def _head(title: str) -> Markup:
    style, script = _resource("style.css"), _resource("script.js")
    policy = (
        f"default-src 'none'; style-src '{hash_of(style)}'; script-src '{hash_of(script)}'; base-uri 'none';"
        " form-action 'none'"
    )
    return "\n".join(
        [
            "<head>",
            '<meta charset="utf-8">',
            # `shown` would write ' as &#x27;, which a reader of the source cannot copy into a server's header
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("meta", name="generator", content="pytest-vmstorage"),
            tag("title", shown(title)),
            f"<style>{style}</style>",
            "</head>",
        ]
    )


def _script() -> Markup:
    return f"<script>{_resource('script.js')}</script>"


@cache
def _resource(name: str) -> str:
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def hash_of(text: str) -> str:
    """The hash of a style or script as a Content-Security-Policy names it: "sha256-..."."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"

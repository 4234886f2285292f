"""The rounds of a workload as dots: cell by cell, and in the order in which the run took them; pure.

Three to twenty rounds make no density, so that each is a dot and nothing is smoothed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pytest_vmstorage.report.html import svg
from pytest_vmstorage.report.html.chart import Chart
from pytest_vmstorage.report.html.charts.cells import (
    MOST_CELLS,
    MOST_ROWS,
    CellRow,
    Drawn,
    csv_text,
    drawn_cells,
    heading,
    host_line,
    interval_words,
    intervals_of,
    listed,
    said_figure,
    slug_of,
)
from pytest_vmstorage.results.run import Figure, Measurement, Run
from pytest_vmstorage.stats import Interval
from pytest_vmstorage.units import format_figure

_WIDTH = 720.0
_ROW = 18.0
_LABEL = 230.0
_TOP = 34.0


class _Strip(NamedTuple):
    """A cell with its figure, and the interval that is drawn for it."""

    row: CellRow
    figure: Figure
    interval: Interval | None


def _strips(drawn: Drawn) -> list[_Strip]:
    found = [(row, figure) for row in drawn.rows if (figure := row.figure(row.measurement.primary)) is not None]
    intervals = intervals_of([figure for _, figure in found])
    return [_Strip(row, figure, one) for (row, figure), one in zip(found, intervals, strict=True)]


def dots_charts(run: Run, measurements: Sequence[Measurement]) -> Iterator[Chart]:
    """The primary figure of one workload: a row of dots for each cell, with median and interval.

    A null row, whose speed would leave the others no room, is in the chart of shares.
    """
    drawn = drawn_cells(_on_storage(measurements), MOST_ROWS)
    if strips := _strips(drawn):
        yield _dots(run, strips, drawn.left_out)


def course_charts(run: Run, measurements: Sequence[Measurement]) -> Iterator[Chart]:
    """The rounds of the same over the run; none for single rounds, or where an earlier version saved no order."""
    drawn = drawn_cells([m for m in _on_storage(measurements) if _has_order(m)], MOST_CELLS)
    strips = _strips(drawn)
    if any(len(strip.figure.values) > 1 for strip in strips):
        yield _over_time(run, strips, drawn.left_out)


def _on_storage(measurements: Sequence[Measurement]) -> list[Measurement]:
    return [m for m in measurements if not m.config.is_null]


def _has_order(m: Measurement) -> bool:
    return all(sample.order for sample in m.samples)


def _dots(run: Run, strips: Sequence[_Strip], left_out: str) -> Chart:
    metric, workload = strips[0].figure.metric, strips[0].row.measurement.workload
    title = f"{workload}: each round of {metric.name}"
    words = interval_words([strip.figure for strip in strips])
    texts = [f"{strip.row.label} {said_figure(strip.figure, strip.interval)}" for strip in strips]
    said = f"{metric.name}, median and {words} of each cell: {listed(texts)}."
    bottom = _TOP + _ROW * len(strips) + 6
    x = svg.linear_axis((value for strip in strips for value in strip.figure.values), _LABEL, _WIDTH - 34)
    frame = svg.Frame(x, svg.Axis(0, len(strips), bottom, _TOP))
    notes = [
        f"dot: a round; upright bar: median; line: {words}",
        host_line(run, (strip.row.measurement for strip in strips)), *([left_out] if left_out else []),
    ]  # fmt: skip
    parts = [
        frame.drawn(svg.linear_ticks(x, metric.unit), [], y_title=heading(metric)),
        *(_strip(frame, strip, _TOP + _ROW * (place + 0.5) + 3) for place, strip in enumerate(strips)),
        svg.note_lines(notes, 8, bottom + 36),
    ]
    records = (
        [strip.row.label, float(strip.figure), *(strip.interval or (None, None)), *strip.figure.values]
        for strip in strips
    )
    rounds = max(len(strip.figure.values) for strip in strips)
    of = f"{metric.name} [{metric.unit}]"
    header = ["cell", f"median {of}", f"low {of}", f"high {of}", *(f"round {n} {of}" for n in range(1, rounds + 1))]
    return Chart(
        slug=slug_of("rounds", workload),
        title=title,
        svg=svg.picture(_WIDTH, bottom + 32 + svg.NOTE_LINE * len(notes), title, said, *parts),
        csv=csv_text(header, records),
        said=said,
    )


def _strip(frame: svg.Frame, strip: _Strip, y: float) -> str:
    look = svg.stroke(0)
    tip = f"{strip.row.label}: {said_figure(strip.figure, strip.interval)}, {len(strip.figure.values)} rounds"
    x = frame.x.at(float(strip.figure))
    parts = [
        svg.words(svg.fitted(strip.row.label, _LABEL - 16), _LABEL - 8, y + 4, anchor="end"),
        svg.dots([(frame.x.at(value), y) for value in strip.figure.values], look),
        svg.line((x, y - 6), (x, y + 6), width=2.5),
    ]
    if strip.interval is not None:
        low, high = (frame.x.at(edge) for edge in strip.interval)
        parts.insert(1, svg.level_whisker(y, low, high, look))
    return svg.told(tip, *parts)


def _over_time(run: Run, strips: Sequence[_Strip], left_out: str) -> Chart:
    metric, workload = strips[0].figure.metric, strips[0].row.measurement.workload
    title = f"{workload}: {metric.name} over the run"
    places = [[sample.order for sample in strip.row.measurement.samples] for strip in strips]
    first, last = min(map(min, places)), max(map(max, places))
    bottom = _TOP + 220
    y = svg.linear_axis((value for strip in strips for value in strip.figure.values), bottom, _TOP)
    frame = svg.Frame(svg.Axis(first, last, 62, _WIDTH - 20), y)
    ticks = [tick for tick in svg.linear_ticks(frame.x, "", 10) if tick.value == int(tick.value)]
    entries = [svg.LegendLine(svg.stroke(place), strip.row.label) for place, strip in enumerate(strips)]
    below = bottom + 50
    end = below + svg.LEGEND_LINE * len(entries)
    notes = [
        "a cell that falls or rises along the run drifts with its host",
        host_line(run, (strip.row.measurement for strip in strips)), *([left_out] if left_out else []),
    ]  # fmt: skip
    drifts = [f"{strip.row.label} {_drift(strip)}" for strip in strips if len(strip.figure.values) > 1]
    said = f"{metric.name} of each round in the order of the run, first and last round of each cell: {listed(drifts)}."
    parts = [
        frame.drawn(
            ticks, svg.linear_ticks(y, metric.unit), y_title=heading(metric), x_title="place of the round in the run"
        ),
        *(_course(frame, strip, svg.stroke(place)) for place, strip in enumerate(strips)),
        svg.legend(entries, 62, below, _WIDTH - 90),
        svg.note_lines(notes, 62, end + 8),
    ]
    records = (
        [strip.row.label, sample.order, sample.started, sample.figures[metric.name]]
        for strip in strips
        for sample in strip.row.measurement.samples
    )
    return Chart(
        slug=slug_of("over-the-run", workload),
        title=title,
        svg=svg.picture(_WIDTH, end + 4 + svg.NOTE_LINE * len(notes), title, said, *parts),
        csv=csv_text(["cell", "place in the run", "started [UTC]", f"{metric.name} [{metric.unit}]"], records),
        said=said,
    )


def _drift(strip: _Strip) -> str:
    unit, values = strip.figure.metric.unit, strip.figure.values
    low, high = format_figure(min(values), unit), format_figure(max(values), unit)
    return f"{format_figure(values[0], unit)} to {format_figure(values[-1], unit)} (within {low} to {high})"


def _course(frame: svg.Frame, strip: _Strip, look: svg.Stroke) -> str:
    samples = strip.row.measurement.samples
    points = sorted(frame.at(one.order, value) for one, value in zip(samples, strip.figure.values, strict=True))
    tip = f"{strip.row.label}: {_drift(strip)}"
    return svg.told(tip, svg.curve(points, look, width=1), svg.marks(points, look, radius=3))

"""The rate within each round: all rounds of a cell at one scale, warm-up shaded, the steady window marked; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_vmstorage.report.html import svg
from pytest_vmstorage.report.html.chart import Chart
from pytest_vmstorage.report.html.charts.cells import (
    MOST_CELLS,
    CellRow,
    csv_text,
    drawn_cells,
    host_line,
    listed,
    slug_of,
)
from pytest_vmstorage.results.run import Measurement, Run, Sample
from pytest_vmstorage.results.series import Series
from pytest_vmstorage.units import format_duration, format_figure

MOST_ROUNDS = 4
"""The most rounds of a cell that are drawn, from the first on."""

MOST_STEPS = 40
"""The most steps of a round that are drawn: neighbours of a longer series are taken together."""

_WIDTH, _LABEL, _TOP, _STRIP = 720.0, 150.0, 34.0, 46.0
_UNIT = "operations/s"


def series_charts(run: Run, measurements: Sequence[Measurement]) -> Iterator[Chart]:
    """A chart of one workload's cells whose rounds have a series; none where an earlier version saved the run."""
    drawn = drawn_cells([m for m in measurements if _rounds(m)], MOST_CELLS)
    if drawn.rows:
        yield _chart(run, drawn.rows, drawn.left_out)


def _rounds(m: Measurement) -> list[tuple[Sample, Series]]:
    found = [(sample, sample.series) for sample in m.samples if sample.series is not None and len(sample.series)]
    return found[:MOST_ROUNDS]


def _chart(run: Run, rows: Sequence[CellRow], left_out: str) -> Chart:
    workload = rows[0].measurement.workload
    title = f"{workload}: the disk within each round"
    every = [series for row in rows for _, series in _rounds(row.measurement)]
    most = max(rate for series in every for rate in _rates(series))
    bottom = _TOP + _STRIP * len(rows)
    x = svg.linear_axis([series.edges_s[-1] for series in every], _LABEL, _WIDTH - 36)
    frame = svg.Frame(x, svg.Axis(0, 1, bottom, _TOP))
    ticks = [svg.Tick(tick.value, format_duration(tick.value)) for tick in svg.linear_ticks(x, "")]
    scale = f"each strip from 0 to {format_figure(most, _UNIT)}; reads and writes that reached the disk under test"
    said = (
        f"Rate of reads and writes within the rounds, lowest to highest step: {listed([_said(row) for row in rows])}."
    )
    notes = [
        f"first {MOST_ROUNDS} rounds; shaded: the tool's warm-up; thick line below: longest steady part of a round",
        host_line(run, (row.measurement for row in rows)), *([left_out] if left_out else []),
    ]  # fmt: skip
    parts = [
        frame.drawn(ticks, [], y_title=scale, x_title="time since the tool was started"),
        *(_strip(x, row, most, _TOP + _STRIP * (at + 1) - 8) for at, row in enumerate(rows)),
        svg.note_lines(notes, 8, bottom + 52),
    ]
    records = (
        [row.label, number, begin, end, rate]
        for row in rows
        for number, (_, series) in enumerate(_rounds(row.measurement), 1)
        for begin, end, rate in _steps(series)
    )
    return Chart(
        slug=slug_of("within-rounds", workload),
        title=title,
        svg=svg.picture(_WIDTH, bottom + 48 + svg.NOTE_LINE * len(notes), title, said, *parts),
        csv=csv_text(["cell", "round", "begin [s]", "end [s]", f"reads and writes [{_UNIT}]"], records),
        said=said,
    )


def _steps(series: Series) -> list[tuple[float, float, float]]:
    """Begin and end of each drawn step in seconds, and its operations per second."""
    together = -(-len(series) // MOST_STEPS)
    edges, rates = series.edges_s, series.rates("reads", "writes")
    found = []
    for first in range(0, len(series), together):
        last = min(first + together, len(series))
        count = sum(rates[at] * (edges[at + 1] - edges[at]) for at in range(first, last))
        found.append((edges[first], edges[last], count / (edges[last] - edges[first])))
    return found


def _rates(series: Series) -> list[float]:
    return [rate for *_, rate in _steps(series)]


def _said(row: CellRow) -> str:
    rates = [rate for _, series in _rounds(row.measurement) for rate in _rates(series)]
    return f"{row.label} {format_figure(min(rates), _UNIT)} to {format_figure(max(rates), _UNIT)}"


def _strip(x: svg.Axis, row: CellRow, most: float, base: float) -> str:
    look, height = svg.stroke(0), _STRIP - 16
    rounds = _rounds(row.measurement)
    y = svg.Axis(0, most or 1.0, base, base - height)
    parts = [svg.words(svg.fitted(row.label, _LABEL - 16), _LABEL - 8, base - height / 2 + 4, anchor="end")]
    warm_s = max(series.warm_up_s for _, series in rounds)
    if warm_s:
        parts.append(svg.box(x.at(0), base - height, x.at(warm_s) - x.at(0), height))
    for sample, series in rounds:
        steps = _steps(series)
        points = [(x.at(begin), y.at(rate)) for begin, _, rate in steps]
        points.append((x.at(steps[-1][1]), y.at(steps[-1][2])))
        parts.append(svg.steps(points, look, width=1))
        if sample.steady_s is not None:
            parts.append(svg.bars([x.both(sample.steady_s)], base + 4, svg.stroke(1), height=2))
    return svg.told(_said(row), *parts)

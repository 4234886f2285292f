"""How a workload scales with its queue depth or its jobs: rate, latency, and latency over rate; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_vmstorage.analysis.columns import place
from pytest_vmstorage.report.curves import SweptCells, mean_latencies, swept_cells
from pytest_vmstorage.report.html import svg
from pytest_vmstorage.report.html.chart import Chart
from pytest_vmstorage.report.html.charts.cells import (
    MOST_CELLS,
    csv_text,
    drawn_cells,
    host_line,
    interval_words,
    intervals_of,
    listed,
    said_figure,
    slug_of,
)
from pytest_vmstorage.results.run import Figure, Measurement, Metric, Run
from pytest_vmstorage.stats import Interval

_WIDTH, _PLOT = 720.0, 240.0
_LEFT, _GAP, _TOP = 66.0, 84.0, 34.0


class _Point(NamedTuple):
    """A cell at one value of the swept option: two figures with their intervals."""

    value: float
    rate: Figure
    latency: Figure
    rate_interval: Interval | None
    latency_interval: Interval | None


class _Course(NamedTuple):
    """A cell's points in the order of the swept option."""

    label: str
    points: Sequence[_Point]


def sweep_charts(run: Run) -> Iterator[Chart]:
    """Two charts for each sweep of the run and each mean latency: both figures over the option, and over each other.

    A sweep without a latency, or whose figure is none per second, has no such chart: its table stands in the report.
    """
    if not any(m.point for m in run.measurements):
        return
    for sweep in swept_cells(place(run), _cell_of):
        first = next(m for points in sweep.cells.values() for m in points.values())
        for latency in mean_latencies(first) if first.metric(first.primary).is_rate else []:
            yield from _charts(run, sweep, first.primary, latency)


def _cell_of(m: Measurement) -> tuple[str, ...]:
    return m.host, m.config.label


def _charts(run: Run, sweep: SweptCells, rate: str, latency: str) -> Iterator[Chart]:
    # a cell stands for its sweep with the measurement of its lowest value
    lowest = {id(points[min(points)]): points for points in sweep.cells.values()}
    drawn = drawn_cells([points[min(points)] for points in sweep.cells.values()], MOST_CELLS)
    ones = [(row.label, lowest[id(row.measurement)]) for row in drawn.rows]
    courses, interval = _courses(ones, rate, latency)
    if not courses:
        return
    notes = [
        f"lines at points: {interval}",
        host_line(run, (m for _, points in ones for m in points.values())),
        *([drawn.left_out] if drawn.left_out else []),
    ]
    told = f"{sweep.title}, {latency}" if latency != mean_latencies(ones[0][1][min(ones[0][1])])[0] else sweep.title
    yield _over_option(told, sweep.axis, courses, notes)
    yield _over_rate(told, sweep.axis, courses, notes)


def _courses(
    ones: Sequence[tuple[str, Mapping[float, Measurement]]], rate: str, latency: str
) -> tuple[list[_Course], str]:
    """The cells with two points or more, and what all their intervals are."""
    found = [
        (label, value, points[value].figure(rate), points[value].figure(latency))
        for label, points in ones
        for value in sorted(points)
    ]
    found = [each for each in found if _is_drawable(each[2]) and _is_drawable(each[3])]
    figures = [figure for _, _, *both in found for figure in both]
    intervals = iter(intervals_of(figures))
    there: dict[str, list[_Point]] = {}
    for label, value, one, other in found:
        there.setdefault(label, []).append(_Point(value, one, other, next(intervals), next(intervals)))
    courses = [_Course(label, course) for label, course in there.items() if len(course) > 1]
    return courses, interval_words(figures)


def _is_drawable(figure: Figure) -> bool:
    return all(0 < value < float("inf") for value in figure.values)


def _edges(courses: Sequence[_Course], which: str) -> list[float]:
    """The figures and the ends of their intervals."""
    points = [point for course in courses for point in course.points]
    figures = [float(getattr(point, which)) for point in points]
    return [*figures, *(edge for point in points for edge in getattr(point, f"{which}_interval") or ())]


def _over_option(told: str, axis: str, courses: Sequence[_Course], notes: Sequence[str]) -> Chart:
    rate, latency = courses[0].points[0].rate.metric, courses[0].points[0].latency.metric
    title = f"{told[:1].upper()}{told[1:]}: {rate.name} and {latency.name}"
    values = sorted({point.value for course in courses for point in course.points})
    half = (_WIDTH - _LEFT - _GAP - 14) / 2
    parts = [
        _panel(_LEFT, half, axis, values, courses, "rate", rate),
        _panel(_LEFT + half + _GAP, half, axis, values, courses, "latency", latency),
    ]
    texts = [
        f"{course.label} {end.rate} and {end.latency} at {axis}={end.value:g}"
        for course in courses
        for end in (course.points[0], course.points[-1])
    ]
    said = f"{title}, lowest and highest {axis} of each cell: {listed(texts, 2 * MOST_CELLS)}."
    return _whole("sweep", title, said, parts, courses, notes, axis)


def _panel(
    left: float,
    width: float,
    axis: str,
    values: Sequence[float],
    courses: Sequence[_Course],
    which: str,
    metric: Metric,
) -> str:
    """A small picture of one figure over the swept option, which is doubled rather than added to."""
    is_log = values[0] > 0
    x = svg.Axis(values[0], values[-1], left + 8, left + width - 8, is_log=is_log)
    y = svg.linear_axis(_edges(courses, which), _TOP + _PLOT, _TOP)
    frame = svg.Frame(x, y)
    way = f"{metric.name}, {metric.better} is better"
    parts = [frame.drawn(svg.value_ticks(values), svg.linear_ticks(y, metric.unit), y_title=way, x_title=axis)]
    for number, course in enumerate(courses):
        look = svg.stroke(number)
        places = [frame.at(point.value, float(getattr(point, which))) for point in course.points]
        intervals = [getattr(point, f"{which}_interval") for point in course.points]
        bars = [
            svg.whisker(at[0], y.at(one.low), y.at(one.high), look)
            for at, one in zip(places, intervals, strict=True)
            if one is not None
        ]
        drawn = [*bars, svg.curve(places, look, width=1.5), svg.marks(places, look)]
        parts.append(svg.told(course.label, *drawn))
    return "".join(parts)


def _over_rate(told: str, axis: str, courses: Sequence[_Course], notes: Sequence[str]) -> Chart:
    rate, latency = courses[0].points[0].rate.metric, courses[0].points[0].latency.metric
    title = f"{told[:1].upper()}{told[1:]}: {latency.name} over {rate.name}"
    x = svg.linear_axis(_edges(courses, "rate"), _LEFT, _WIDTH - 36)
    y = svg.linear_axis(_edges(courses, "latency"), _TOP + _PLOT, _TOP)
    frame = svg.Frame(x, y)
    parts = [
        frame.drawn(
            svg.linear_ticks(x, rate.unit, 5), svg.linear_ticks(y, latency.unit),
            y_title=f"{latency.name}, lower is better", x_title=f"{rate.name}, higher is better",
        )
    ]  # fmt: skip
    parts += [_hockey_stick(frame, course, axis, svg.stroke(number)) for number, course in enumerate(courses)]
    parts.append(_names(frame, courses))
    texts = [
        f"{course.label} {said_figure(end.latency, end.latency_interval)} at"
        f" {said_figure(end.rate, end.rate_interval)} with {axis}={end.value:g}"
        for course in courses
        for end in (course.points[0], course.points[-1])
    ]
    said = f"{title}, ends of each cell's curve: {listed(texts, 2 * MOST_CELLS)}."
    named = [f"numbers: {axis} of the point", *notes]
    return _whole("latency-over-rate", title, said, parts, courses, named, axis)


def _hockey_stick(frame: svg.Frame, course: _Course, axis: str, look: svg.Stroke) -> str:
    places = [frame.at(float(point.rate), float(point.latency)) for point in course.points]
    bars = []
    for (across, down), point in zip(places, course.points, strict=True):
        if point.latency_interval is not None:
            low, high = (frame.y.at(edge) for edge in point.latency_interval)
            bars.append(svg.whisker(across, low, high, look, half=2))
        if point.rate_interval is not None:
            low, high = (frame.x.at(edge) for edge in point.rate_interval)
            bars.append(svg.level_whisker(down, low, high, look, half=2))
    ends = ", ".join(f"{axis}={point.value:g} {point.rate} {point.latency}" for point in course.points)
    tip = f"{course.label}: {ends}"
    return svg.told(tip, *bars, svg.curve(places, look, width=1.5), svg.marks(places, look))


def _names(frame: svg.Frame, courses: Sequence[_Course]) -> str:
    """The value of each point beside it, where no other label is yet."""
    taken: list[svg.Point] = []
    parts = []
    for course in courses:
        for point in course.points:
            text = f"{point.value:g}"
            x, y = frame.at(float(point.rate), float(point.latency))
            at = (x - 6, y - 7)
            if all(abs(at[0] - other[0]) > 16 or abs(at[1] - other[1]) > 10 for other in taken):
                taken.append(at)
                parts.append(svg.words(text, *at, anchor="end", css="muted", size=9.5))
    return "".join(parts)


def _whole(
    kind: str, title: str, said: str, parts: Sequence[str], courses: Sequence[_Course], notes: Sequence[str], axis: str
) -> Chart:
    below = _TOP + _PLOT + 52
    entries = [svg.LegendLine(svg.stroke(number), course.label) for number, course in enumerate(courses)]
    end = below + svg.LEGEND_LINE * len(entries)
    whole = [*parts, svg.legend(entries, _LEFT, below, _WIDTH - _LEFT - 14), svg.note_lines(notes, _LEFT, end + 8)]
    return Chart(
        slug=slug_of(kind, title),
        title=title,
        svg=svg.picture(_WIDTH, end + 4 + svg.NOTE_LINE * len(notes), title, said, *whole),
        csv=_csv(courses, axis),
        said=said,
    )


def _csv(courses: Sequence[_Course], axis: str) -> str:
    first = courses[0].points[0]
    names = [f"{figure.metric.name} [{figure.metric.unit}]" for figure in (first.rate, first.latency)]
    header = ["cell", axis, *(f"{what} {name}" for name in names for what in ("median", "low", "high"))]
    records = (
        [
            course.label, point.value, float(point.rate), *(point.rate_interval or (None, None)),
            float(point.latency), *(point.latency_interval or (None, None)),
        ]
        for course in courses
        for point in course.points
    )  # fmt: skip
    return csv_text(header, records)

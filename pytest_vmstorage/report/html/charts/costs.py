"""What an I/O costs beside how fast it is: CPU time of QEMU and the primary figure, and who loses on both; pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from pytest_vmstorage.report.html import svg
from pytest_vmstorage.report.html.chart import Chart
from pytest_vmstorage.report.html.charts.cells import (
    MOST_CELLS,
    CellRow,
    are_apart,
    csv_text,
    drawn_cells,
    heading,
    host_line,
    interval_words,
    intervals_of,
    is_yardstick,
    listed,
    said_figure,
    slug_of,
)
from pytest_vmstorage.results.cost import cpu_per_io
from pytest_vmstorage.results.run import Figure, Measurement, Metric, Run
from pytest_vmstorage.stats import Interval

_WIDTH, _LEFT, _TOP, _PLOT = 720.0, 66.0, 34.0, 250.0

COST = Metric(name="CPU of QEMU per I/O", unit="s", better="lower")
"""The cost, as a figure of the rounds."""

Place = Literal["front", "beaten", "undecided"]
"""Whether no other cell is faster and cheaper, surely one is, or the intervals do not tell."""

_WORDS = {"front": "on the front", "beaten": "beaten on both", "undecided": "not decided"}


class _Priced(NamedTuple):
    """A cell with both figures and their intervals."""

    row: CellRow
    speed: Figure
    cost: Figure
    speed_interval: Interval | None
    cost_interval: Interval | None


def cost_charts(run: Run, measurements: Sequence[Measurement]) -> Iterator[Chart]:
    """A chart of one workload's cells whose cost is known in each round; none for fewer than two of them.

    Native and null rows are left out: nobody chooses them.
    """
    known = [m for m in measurements if not is_yardstick(m) and m.samples and all(map(math.isfinite, _costs(m)))]
    drawn = drawn_cells(known, MOST_CELLS)
    found = [(row, figure) for row in drawn.rows if (figure := row.figure(row.measurement.primary)) is not None]
    if len(found) < 2:
        return
    costs = [Figure(COST, costs_of(row.measurement), row.label) for row, _ in found]
    speeds = [figure for _, figure in found]
    # of one kind in one picture
    intervals = intervals_of([*speeds, *costs])
    priced = [
        _Priced(row, speed, cost, one, other)
        for (row, speed), cost, one, other in zip(
            found, costs, intervals[: len(found)], intervals[len(found) :], strict=True
        )
    ]
    yield _chart(run, priced, interval_words([*speeds, *costs]), drawn.left_out)


def costs_of(m: Measurement) -> tuple[float, ...]:
    """CPU seconds of QEMU for each I/O of the guest, a number a round; nan where a round has none."""
    return tuple(_costs(m))


def _costs(m: Measurement) -> Iterator[float]:
    found = (cpu_per_io(sample.cost, sample.moved) for sample in m.samples)
    return (sum(one.values()) if one else math.nan for one in found)


def place_of(one: _Priced, others: Sequence[_Priced]) -> Place:
    """Where a cell stands among others, by intervals that are apart: on the front, beaten, or undecided."""
    if any(_wins(other, one, "speed") and _wins(other, one, "cost") for other in others):
        return "beaten"
    is_front = all(_wins(one, other, "speed") or _wins(one, other, "cost") for other in others)
    return "front" if is_front else "undecided"


def _wins(one: _Priced, other: _Priced, which: str) -> bool:
    """Whether one's interval is apart from the other's, on the better side."""
    mine, theirs = (getattr(each, f"{which}_interval") for each in (one, other))
    if not are_apart(mine, theirs):
        return False
    return bool((mine.low > theirs.high) == (getattr(one, which).metric.better == "higher"))


def _chart(run: Run, priced: Sequence[_Priced], words: str, left_out: str) -> Chart:
    metric, workload = priced[0].speed.metric, priced[0].row.measurement.workload
    title = f"{workload}: {metric.name} and CPU per I/O"
    is_ranked = metric.better != "neither"
    places: list[Place] = [
        place_of(one, [other for other in priced if other is not one]) if is_ranked else "undecided" for one in priced
    ]
    x = svg.linear_axis(_edges(priced, "cost"), _LEFT, _WIDTH - 30)
    y = svg.linear_axis(_edges(priced, "speed"), _TOP + _PLOT, _TOP)
    frame = svg.Frame(x, y)
    texts = [
        f"{one.row.label} {said_figure(one.speed, one.speed_interval)} at {said_figure(one.cost, one.cost_interval)},"
        f" {_WORDS[where]}"
        for one, where in zip(priced, places, strict=True)
    ]
    said = f"{metric.name} and CPU time of QEMU per I/O of the guest, with {words}: {listed(texts)}."
    entries = [
        svg.LegendLine(svg.stroke(at), f"{one.row.label} ({_WORDS[where]})", has_line=False)
        for at, (one, where) in enumerate(zip(priced, places, strict=True))
    ]
    below = _TOP + _PLOT + 50
    end = below + svg.LEGEND_LINE * len(entries)
    notes = [
        f"lines: {words}; ring: each other cell drawn is slower or dearer; hollow: beaten on both",
        host_line(run, (one.row.measurement for one in priced)), *([left_out] if left_out else []),
    ]  # fmt: skip
    parts = [
        frame.drawn(
            svg.linear_ticks(x, "s", 5), svg.linear_ticks(y, metric.unit), y_title=heading(metric),
            x_title="CPU time of QEMU per I/O of the guest, lower is better",
        ),
        *(_drawn(frame, *both, svg.stroke(at)) for at, both in enumerate(zip(priced, places, strict=True))),
        svg.legend(entries, _LEFT, below, _WIDTH - _LEFT - 20), svg.note_lines(notes, _LEFT, end + 8),
    ]  # fmt: skip
    return Chart(
        slug=slug_of("cost", workload),
        title=title,
        svg=svg.picture(_WIDTH, end + 4 + svg.NOTE_LINE * len(notes), title, said, *parts),
        csv=_csv(priced, places),
        said=said,
    )


def _edges(priced: Sequence[_Priced], which: str) -> list[float]:
    figures = [float(getattr(one, which)) for one in priced]
    return [*figures, *(edge for one in priced for edge in getattr(one, f"{which}_interval") or ())]


def _drawn(frame: svg.Frame, one: _Priced, where: Place, look: svg.Stroke) -> str:
    at = frame.at(float(one.cost), float(one.speed))
    parts = []
    if one.speed_interval is not None:
        parts.append(svg.whisker(at[0], *frame.y.both(one.speed_interval), look))
    if one.cost_interval is not None:
        parts.append(svg.level_whisker(at[1], *frame.x.both(one.cost_interval), look))
    parts.append(svg.mark(at, look, radius=4.5, is_hollow=where == "beaten"))
    if where == "front":
        parts.append(svg.mark(at, look._replace(shape="circle"), radius=9, is_hollow=True))
    return svg.told(f"{one.row.label}: {one.speed} at {one.cost}, {_WORDS[where]}", *parts)


def _csv(priced: Sequence[_Priced], places: Sequence[Place]) -> str:
    metric = priced[0].speed.metric
    of, cost = f"{metric.name} [{metric.unit}]", "CPU per I/O [s]"
    header = ["cell", *(f"{what} {name}" for name in (of, cost) for what in ("median", "low", "high")), "place"]
    records = (
        [
            one.row.label, float(one.speed), *(one.speed_interval or (None, None)), statistics.median(one.cost.values),
            *(one.cost_interval or (None, None)), _WORDS[where],
        ]
        for one, where in zip(priced, places, strict=True)
    )  # fmt: skip
    return csv_text(header, records)

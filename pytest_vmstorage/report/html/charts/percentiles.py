"""How long the tail of latencies is: percentile curves of histograms that are merged over rounds; pure.

The axis of percentiles is that of HdrHistogram: 90, 99 and 99.9 % are equally far apart, as 1/(1-p) is logarithmic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_vmstorage.analysis.histograms import Histogram, IoKind, completion_histograms, merged
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
from pytest_vmstorage.results.run import Measurement, Run
from pytest_vmstorage.units import format_figure

MOST_POINTS = 60
"""The most points of a curve."""

_STEPS = (1.0, 0.7, 0.5, 0.3, 0.2, 0.15)
_DEEPEST = MOST_POINTS // len(_STEPS)
_WIDTH, _PLOT = 720.0, 280.0
_LEFT, _TOP = 62.0, 34.0


class _Tail(NamedTuple):
    """A cell's I/Os of one kind: all rounds merged, and each round."""

    row: CellRow
    whole: Histogram
    rounds: Sequence[Histogram]


def percentile_charts(run: Run, measurements: Sequence[Measurement]) -> Iterator[Chart]:
    """A chart for each kind of I/O of one workload: reads, writes, flushes, by job where these are several.

    There is none for a workload whose raw output has no histograms, such as dd's.
    """
    drawn = drawn_cells([m for m in measurements if _has_histograms(m)], MOST_CELLS)
    read = [(row, [completion_histograms(sample.raw) for sample in row.measurement.samples]) for row in drawn.rows]
    for kind in dict.fromkeys(kind for _, rounds in read for one in rounds for kind in one):
        tails = [_Tail(row, merged(of), of) for row, rounds in read if (of := _of_kind(rounds, kind))]
        yield _chart(run, kind, tails, drawn.left_out)


def _has_histograms(m: Measurement) -> bool:
    return any('"bins"' in sample.raw for sample in m.samples[:1])


def _of_kind(rounds: Sequence[Mapping[IoKind, Histogram]], kind: IoKind) -> list[Histogram]:
    return [one[kind] for one in rounds if kind in one]


def percents_of(count: int) -> list[float]:
    """The percentiles that so many I/Os can show, at most 60: the last has one I/O beyond it; then 100, the slowest."""
    found = []
    for place in range(_DEEPEST * len(_STEPS) - 1):
        rest = _STEPS[place % len(_STEPS)] / 10 ** (place // len(_STEPS))
        if rest * count < 1:
            break
        # fractions of powers of ten as they are written: 99.9, not 99.90000000000001
        found.append(round(100 - 100 * rest, 10))
    return [*found, 100.0]


def _chart(run: Run, kind: IoKind, tails: Sequence[_Tail], left_out: str) -> Chart:
    workload = tails[0].row.measurement.workload
    deepest = max(tail.whole.ios for tail in tails)
    percents = percents_of(deepest)
    title = f"{workload}: {_words(kind)} by percentile"
    said = _said(kind, tails, left_out)
    frame = svg.Frame(
        svg.Axis(1.0, float(max(10, deepest)), _LEFT, _WIDTH - 14, is_log=True),
        svg.log_axis(
            (one.percentile_s(end) for tail in tails for one in tail.rounds for end in (0, 100)), _TOP + _PLOT, _TOP
        ),
    )
    y_ticks = svg.log_ticks(frame.y, "s")
    below = _TOP + _PLOT + 50
    entries = [
        svg.LegendLine(svg.stroke(place), f"{tail.row.label}, {_counted(tail)}") for place, tail in enumerate(tails)
    ]
    parts = [
        frame.drawn(_ticks(deepest), y_ticks, y_title=_words(kind), x_title="percentile of I/Os, %"),
        *(_rounds(frame, tail, svg.stroke(place)) for place, tail in enumerate(tails)),
        *(_whole(frame, tail, svg.stroke(place)) for place, tail in enumerate(tails)),
        svg.legend(entries, _LEFT, below, _WIDTH - _LEFT - 14),
    ]
    end = below + len(entries) * svg.LEGEND_LINE
    notes = [
        "thick: all rounds merged, thin: lowest and highest round at each percentile",
        host_line(run, (tail.row.measurement for tail in tails)),
    ]
    notes += [left_out] if left_out else []
    parts.append(svg.note_lines(notes, _LEFT, end + 8))
    return Chart(
        slug=slug_of("percentiles", workload, str(kind)),
        title=title,
        svg=svg.picture(_WIDTH, end + 4 + svg.NOTE_LINE * len(notes), title, said, *parts),
        csv=_csv(tails, percents),
        said=said,
    )


def _words(kind: IoKind) -> str:
    what = "latency of fsync" if kind.way == "fsync" else f"completion latency of {kind.way}s"
    return f"{what}, job {kind.job}" if kind.job else what


def _counted(tail: _Tail) -> str:
    rounds = len(tail.rounds)
    return f"{tail.whole.ios} I/Os in {rounds} round{'s' * (rounds != 1)}"


def _ticks(deepest: int) -> list[svg.Tick]:
    """0, 50 and 90 %, then a nine more each, as far as the axis goes."""
    nines = range(2, max(2, math.ceil(math.log10(max(deepest, 10))) + 1))
    ticks = [svg.Tick(1, "0"), svg.Tick(2, "50"), svg.Tick(10, "90")]
    ticks += [svg.Tick(10.0**power, f"{100 - 10.0 ** (2 - power):.{max(0, power - 2)}f}") for power in nines]
    return [tick for tick in ticks if tick.value <= max(deepest, 10)]


def _points(frame: svg.Frame, one: Histogram) -> list[svg.Point]:
    """The curve; its last point, the slowest I/O, stands where one I/O of all is beyond."""
    percents = percents_of(one.ios)
    beyond = [100 / (100 - percent) if percent < 100 else float(one.ios) for percent in percents]
    return [frame.at(x, one.percentile_s(percent)) for x, percent in zip(beyond, percents, strict=True)]


def _shared_percents(tail: _Tail) -> list[float]:
    """Those that each round has I/Os enough for."""
    return percents_of(min(one.ios for one in tail.rounds))[:-1]


def _envelope(tail: _Tail, percent: float) -> tuple[float, float]:
    """The lowest and the highest latency of any round at that percentile, in seconds."""
    found = [one.percentile_s(percent) for one in tail.rounds]
    return min(found), max(found)


def _whole(frame: svg.Frame, tail: _Tail, look: svg.Stroke) -> str:
    points = _points(frame, tail.whole)
    tip = f"{tail.row.label}: {_tail_text(tail.whole)}"
    return svg.told(tip, svg.curve(points, look, width=2.5), *(svg.mark(at, look) for at in points[5:-1:6]))


def _rounds(frame: svg.Frame, tail: _Tail, look: svg.Stroke) -> str:
    if len(tail.rounds) < 2:
        return ""
    ends = [(100 / (100 - percent), _envelope(tail, percent)) for percent in _shared_percents(tail)]
    lines = [[frame.at(x, both[which]) for x, both in ends] for which in (0, 1)]
    return svg.curves(lines, look._replace(dashes=""), width=0.75, opacity=0.6, decimals=0)


def _tail_text(whole: Histogram) -> str:
    """The percentiles of the text report that so many I/Os have."""
    shown = [percent for percent in (50.0, 99.0, 99.9) if whole.ios * (100 - percent) >= 100]
    texts = [f"{format_figure(whole.percentile_s(percent), 's')} at {percent:g} %" for percent in shown]
    return ", ".join([*texts, f"slowest {format_figure(whole.percentile_s(100), 's')}"])


def _said(kind: IoKind, tails: Sequence[_Tail], left_out: str) -> str:
    lines = [f"{tail.row.label} {_tail_text(tail.whole)} ({_counted(tail)})" for tail in tails]
    words = _words(kind)
    return f"{words[:1].upper()}{words[1:]}, rounds merged: {listed(lines)}{f'. {left_out}' if left_out else ''}."


def _csv(tails: Sequence[_Tail], percents: Sequence[float]) -> str:
    """A row for each percentile, of each cell all rounds, the lowest and the highest; empty beyond its I/Os."""
    shared = [set(_shared_percents(tail)) for tail in tails]
    header = [f"{tail.row.label} {what} [us]" for tail in tails for what in ("all rounds", "lowest", "highest")]
    records = (
        [
            percent,
            *(
                None if value is None else 1e6 * value
                for tail, there in zip(tails, shared, strict=True)
                for value in (
                    tail.whole.percentile_s(percent) if _shows(tail.whole, percent) else None,
                    *(_envelope(tail, percent) if percent in there else (None, None)),
                )
            ),
        ]
        for percent in percents
    )
    return csv_text(["percentile [%]", *header], records)


def _shows(one: Histogram, percent: float) -> bool:
    return percent == 100 or (100 - percent) / 100 * one.ios >= 1 - 1e-9

"""Where the time of a run went: each step a row, each of its spans a bar at the time that it took; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pytest_vmstorage.report.html import svg
from pytest_vmstorage.report.html.chart import Chart
from pytest_vmstorage.report.html.charts.cells import csv_text, listed, slug_of
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.results.timeline import MEANINGS, STEPS, Span, Timeline, by_step
from pytest_vmstorage.units import format_duration

MOST_PROCESSES = 4
"""So many processes have a chart; those of a run on more workers are in `vmstorage time`."""

_WIDTH, _LABEL, _RIGHT, _TOP, _ROW = 720.0, 96.0, 104.0, 14.0, 18.0
_APART = 1.5
"""Bars that are nearer to each other than this, in pixels, are one: a run has thousands of spans."""


class _Bar(NamedTuple):
    """Spans that follow each other closely, in seconds since the timeline's beginning."""

    begin_s: float
    end_s: float
    is_beside: bool


def timeline_charts(run: Run) -> Iterator[Chart]:
    """A chart for each process of the run, the first four of them; none for a run that was saved without its times."""
    shown = [timeline for timeline in run.timelines if timeline.wall_s > 0 and timeline.spans]
    for timeline in shown[:MOST_PROCESSES]:
        yield _chart(timeline, len(shown))


def _chart(timeline: Timeline, processes: int) -> Chart:
    times = by_step([timeline])
    steps = [step for step in (*STEPS, *times) if any(span.step == step for span in timeline.spans)]
    steps = list(dict.fromkeys([*steps, *(span.step for span in timeline.spans)]))
    end_s = max(timeline.wall_s, *(span.begin_s + span.seconds for span in timeline.spans))
    bottom = _TOP + _ROW * len(steps)
    x = svg.linear_axis([end_s], _LABEL, _WIDTH - _RIGHT)
    x = x._replace(high=end_s)
    frame = svg.Frame(x, svg.Axis(0, 1, bottom, _TOP))
    bars = {step: _bars([span for span in timeline.spans if span.step == step], x) for step in steps}
    several = f" of {timeline.process}" if processes > 1 else ""
    title = f"Time line{several}"
    texts = [f"{step} {format_duration(seconds)}" for step, seconds in sorted(times.items(), key=lambda one: -one[1])]
    said = (
        f"{format_duration(timeline.wall_s)} from {timeline.began}: {listed(texts, 6)};"
        f" {format_duration(timeline.unaccounted_s)} unaccounted."
    )
    left_out = f"; {MOST_PROCESSES} of {processes} processes are drawn" if processes > MOST_PROCESSES else ""
    notes = [f"high bars: pytest's own thread; low bars: other threads, which take no time of the run{left_out}"]
    ticks = [svg.Tick(tick.value, format_duration(tick.value)) for tick in svg.linear_ticks(x, "", 7)]
    parts = [
        frame.drawn(ticks, []),
        *(_row(x, step, bars[step], times.get(step), timeline, _TOP + _ROW * at) for at, step in enumerate(steps)),
        svg.words("without steps within", _WIDTH - 6, _TOP - 3, anchor="end", css="muted", size=9),
        svg.note_lines(notes, 8, bottom + 34),
    ]
    records = (
        [step, f"{bar.begin_s:.2f}", f"{bar.end_s:.2f}", "other threads" if bar.is_beside else "pytest"]
        for step in steps
        for bar in bars[step]
    )
    return Chart(
        slug=slug_of("time-line", *([timeline.process] if processes > 1 else [])),
        title=title,
        svg=svg.picture(_WIDTH, bottom + 44, title, said, *parts),
        csv=csv_text(["step", "begin [s]", "end [s]", "thread"], records),
        said=said,
    )


def _bars(spans: Sequence[Span], x: svg.Axis) -> list[_Bar]:
    """The spans as bars, joined where no gap between them could be seen."""
    least_s = _APART * (x.high - x.low) / (x.end - x.start)
    joined: list[_Bar] = []
    for is_beside in (False, True):
        last: _Bar | None = None
        for span in sorted((one for one in spans if bool(one.thread) is is_beside), key=lambda one: one.begin_s):
            end_s = span.begin_s + span.seconds
            if last is not None and span.begin_s - last.end_s < least_s:
                last = joined[-1] = last._replace(end_s=max(last.end_s, end_s))
            else:
                last = _Bar(span.begin_s, end_s, is_beside)
                joined.append(last)
    return joined


def _row(x: svg.Axis, step: str, bars: Sequence[_Bar], own_s: float | None, timeline: Timeline, top: float) -> str:
    look = svg.stroke(0 if step == "window" else 1 if step == "warm-up" else 7)
    told = "" if own_s is None else f"{format_duration(own_s)}, {_percent(own_s / timeline.wall_s)}"
    tip = f"{step}: {MEANINGS.get(step, 'a step of a later version')}; {told or 'in other threads'}"
    middle = top + _ROW / 2
    own = [(x.at(bar.begin_s), x.at(bar.end_s)) for bar in bars if not bar.is_beside]
    beside = [(x.at(bar.begin_s), x.at(bar.end_s)) for bar in bars if bar.is_beside]
    parts = [
        svg.words(step, _LABEL - 6, middle + 4, anchor="end"),
        svg.bars(own, middle, look, height=10),
        svg.bars(beside, middle + 5, look, height=3),
        svg.words(told, _WIDTH - 6, middle + 4, anchor="end", css="muted", size=10) if told else "",
    ]
    return svg.told(tip, *parts)


def _percent(part: float) -> str:
    return f"{part:.0%}" if part >= 0.1 else f"{part:.1%}"

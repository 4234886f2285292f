"""How much of its native and of its null row each cell reaches, with intervals; pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pytest_vmstorage.analysis.cell_pairs import Couple, paired_rounds
from pytest_vmstorage.analysis.gate.policy import differences
from pytest_vmstorage.analysis.yardsticks import Yardsticks
from pytest_vmstorage.report.details import share_of, share_range
from pytest_vmstorage.report.html import svg
from pytest_vmstorage.report.html.chart import Chart
from pytest_vmstorage.report.html.charts.cells import (
    MOST_ROWS,
    RANGE,
    csv_text,
    drawn_cells,
    host_line,
    label_rows,
    listed,
    slug_of,
)
from pytest_vmstorage.results.run import Measurement, Run
from pytest_vmstorage.stats import Interval, shift_interval

_WIDTH, _LABEL, _TOP, _ROW = 720.0, 230.0, 34.0, 22.0
_PAIRED = "95 % interval from pairs of rounds"
_NAMES = ("native", "null")


class _Share(NamedTuple):
    """A cell's part of a yardstick: which, the ratio of medians, the rounds of both."""

    label: str
    which: str
    share: float
    couple: Couple
    metric: str


def share_charts(run: Run, measurements: Sequence[Measurement]) -> Iterator[Chart]:
    """A chart of one workload's rows that have a native or a null row among them, none where no row has."""
    rows = Yardsticks(measurements)
    having = [m for m in measurements if rows.native_of(m) is not None or rows.null_of(m) is not None]
    drawn = drawn_cells(having, MOST_ROWS)
    shares = [
        _Share(row.label, which, share, Couple(row.measurement, other), row.measurement.primary)
        for row in drawn.rows
        for which, other in zip(_NAMES, (rows.native_of(row.measurement), rows.null_of(row.measurement)), strict=True)
        if other is not None and (share := _finite_share(row.measurement, other)) is not None
    ]
    if shares:
        yield _chart(run, shares, drawn.left_out)


def _finite_share(m: Measurement, other: Measurement) -> float | None:
    share = share_of(m, other, m.primary)
    return share if share is not None and 0 < share < math.inf else None


def _intervals(shares: Sequence[_Share]) -> tuple[list[Interval | None], str]:
    """The interval of each share, of one kind for all, and what it is."""
    paired = [_paired(one) for one in shares]
    if all(paired):
        return paired, _PAIRED
    return [share_range(*one.couple, one.metric) for one in shares], f"{RANGE} of both rows"


def _paired(one: _Share) -> Interval | None:
    """The interval of the ratio from rounds in turns, wide enough for the ratio of medians; None for too few."""
    rounds = paired_rounds(one.couple)
    figures = [[sample.figures[one.metric] for sample in side] for side in zip(*rounds, strict=True)]
    if not rounds or not all(0 < value < math.inf for side in figures for value in side):
        return None
    found = shift_interval(differences(one.couple.first.metric(one.metric), *figures))
    return found and Interval(min(math.exp(found.low), one.share), max(math.exp(found.high), one.share))


def _chart(run: Run, shares: Sequence[_Share], left_out: str) -> Chart:
    m = shares[0].couple.first
    title = f"{m.workload}: share of {' and '.join(name for name in _NAMES if any(s.which == name for s in shares))}"
    intervals, words = _intervals(shares)
    labels = list(dict.fromkeys(one.label for one in shares))
    bottom = _TOP + _ROW * len(labels) + 6
    ends = [100 * value for one, reach in zip(shares, intervals, strict=True) for value in (one.share, *(reach or ()))]
    x = svg.linear_axis([*ends, 100.0], _LABEL, _WIDTH - 34)
    frame = svg.Frame(x, svg.Axis(0, 1, bottom, _TOP))
    texts = [f"{one.label} {_said(one, reach)}" for one, reach in zip(shares, intervals, strict=True)]
    said = f"Speed by {m.primary} in % of the yardstick, with {words}: {listed(texts, 12)}."
    whole = x.at(100.0)
    parts = [
        frame.drawn(svg.linear_ticks(x, "%"), [], y_title=f"{m.primary} as a speed, % of the yardstick's"),
        svg.line((whole, _TOP), (whole, bottom), width=1.5, dashes="4 3"),
        *(
            svg.words(svg.fitted(label, _LABEL - 16), _LABEL - 8, _TOP + _ROW * (at + 0.5) + 7, anchor="end")
            for at, label in enumerate(labels)
        ),
        *(_drawn(x, one, reach, labels) for one, reach in zip(shares, intervals, strict=True)),
    ]
    entries = [
        svg.LegendLine(svg.stroke(at), f"of {_named(shares, name)}", has_line=False)
        for at, name in enumerate(_NAMES)
        if any(one.which == name for one in shares)
    ]
    below = bottom + 40
    end = below + svg.LEGEND_LINE * len(entries)
    measured = {id(one): one for share in shares for one in share.couple}
    notes = [f"line: {words}; dashes: 100 %", host_line(run, measured.values()), *([left_out] if left_out else [])]
    parts += [svg.legend(entries, _LABEL, below, _WIDTH - _LABEL - 20), svg.note_lines(notes, 8, end + 8)]
    header = ["cell", "yardstick", "share [%]", "low [%]", "high [%]"]
    records = (
        [one.label, f"{one.which} {one.couple.second.config}", 100 * one.share,
         *((100 * edge for edge in reach) if reach else (None, None))]
        for one, reach in zip(shares, intervals, strict=True)
    )  # fmt: skip
    return Chart(
        slug=slug_of("shares", m.workload),
        title=title,
        svg=svg.picture(_WIDTH, end + 4 + svg.NOTE_LINE * len(notes), title, said, *parts),
        csv=csv_text(header, records),
        said=said,
    )


def _named(shares: Sequence[_Share], which: str) -> str:
    """The yardsticks of that kind, by their labels."""
    rows = list({id(one.couple.second): one.couple.second for one in shares if one.which == which}.values())
    labels = [row.label for row in label_rows(rows, rows)]
    return f"the {which} row ({listed(labels, 2)})"


def _said(one: _Share, reach: Interval | None) -> str:
    interval = f"{reach.low:.0%} to {reach.high:.0%}" if reach else "n=1"
    return f"{one.share:.0%} of {one.which} ({interval})"


def _drawn(x: svg.Axis, one: _Share, reach: Interval | None, labels: Sequence[str]) -> str:
    at = _NAMES.index(one.which)
    look = svg.stroke(at)
    y = _TOP + _ROW * (labels.index(one.label) + 0.5) + 3 + (5 if at else -3)
    bar = [svg.level_whisker(y, x.at(100 * reach.low), x.at(100 * reach.high), look, half=3)] if reach else []
    dot = svg.mark((x.at(100 * one.share), y), look, is_hollow=not reach)
    return svg.told(f"{one.label}: {_said(one, reach)}", *bar, dot)

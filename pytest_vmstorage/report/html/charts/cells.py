"""The cells of a chart: how they are told apart, which of many are drawn, how far their rounds reach; pure."""

from __future__ import annotations

import csv
import io
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pytest_vmstorage.analysis.columns import function_of
from pytest_vmstorage.config.cell import axis_text, varying_fields
from pytest_vmstorage.results.run import Figure, Measurement, Metric, Run
from pytest_vmstorage.results.saved import host_of
from pytest_vmstorage.stats import Interval, fewest_for_interval, median_interval
from pytest_vmstorage.text import plain_cell
from pytest_vmstorage.units import format_figure

MOST_CELLS = 6
"""The most cells in a chart in which each has a look of its own."""

MOST_ROWS = 40
"""The most cells in a chart in which each has a row of its own."""


class CellRow(NamedTuple):
    """A measurement and the shortest text by which its cell differs from the others of the chart."""

    label: str
    measurement: Measurement

    def figure(self, name: str) -> Figure | None:
        """That metric's median over its rounds; None where it has no such metric, or a round gave no number."""
        m = self.measurement
        if not m.samples or all(metric.name != name for metric in m.metrics):
            return None
        figure = m.figure(name)
        return figure if all(map(math.isfinite, figure.values)) else None


class Drawn(NamedTuple):
    """The cells of a chart in the order measured, and a clause on those that are left out, "" where all are there."""

    rows: Sequence[CellRow]
    left_out: str = ""


def drawn_cells(measurements: Sequence[Measurement], most: int) -> Drawn:
    """All cells, or where these are too many those with the highest and the lowest medians of their primary figure."""
    kept = _ends(measurements, most) if len(measurements) > most else measurements
    left_out = (
        f"{len(kept)} of {len(measurements)} cells are drawn: highest and lowest medians; the JSON report has all"
    )
    return Drawn(label_rows(kept, measurements), left_out if len(kept) < len(measurements) else "")


def _ends(measurements: Sequence[Measurement], most: int) -> list[Measurement]:
    medians = map(_median, measurements)
    ranked = sorted((median, place) for place, median in enumerate(medians) if math.isfinite(median))
    # a slice from -0 on would be everything
    places = {place for _, place in [*ranked[: most // 2], *ranked[max(most // 2, len(ranked) - (most + 1) // 2) :]]}
    return [measurements[place] for place in sorted(places)]


def _median(m: Measurement) -> float:
    values = m.values(m.primary)
    return statistics.median(values) if values and all(map(math.isfinite, values)) else math.nan


def label_rows(kept: Sequence[Measurement], among: Sequence[Measurement]) -> list[CellRow]:
    """Rows whose labels differ: values of the axes that vary among all, then the host, the test, a number.

    A native or null row has its id, and makes no axis vary.
    """
    cells = [m for m in among if not is_yardstick(m)]
    varying = [name for name in varying_fields(m.config for m in cells) if _varies(name, cells)]
    hosts = len({m.host for m in among}) > 1
    labels = [_label(m, varying) + (f", {m.host}" if hosts else "") for m in kept]
    for more in (lambda m: function_of(m.nodeid), lambda m: m.nodeid):
        counts = Counter(labels)
        labels = [one if counts[one] == 1 else f"{one}, {more(m)}" for one, m in zip(labels, kept, strict=True)]
    counts, seen, rows = Counter(labels), Counter[str](), []
    for label, m in zip(labels, kept, strict=True):
        seen[label] += 1
        rows.append(CellRow(label if counts[label] == 1 else f"{label} #{seen[label]}", m))
    return rows


def _varies(name: str, cells: Sequence[Measurement]) -> bool:
    """Whether two of those that have the axis differ in it; the first two that do decide it."""
    values = (getattr(m.config, name) for m in cells if not m.lacks(name))
    first = next(values, None)
    return any(value != first for value in values)


def is_yardstick(m: Measurement) -> bool:
    """Whether it is the host itself, or a guest without storage."""
    return m.config.backing_kind in ("native", "null")


def _label(m: Measurement, varying: Sequence[str]) -> str:
    if is_yardstick(m):
        return str(m.config)
    texts = [axis_text(name, getattr(m.config, name)) for name in varying if not m.lacks(name)]
    if len(texts) == len(varying) == 1 and varying[0] not in texts[0]:
        # "off" alone does not say of what
        return f"{varying[0]}={texts[0]}"
    return " ".join(texts) or str(m.config)


RANGE = "smallest to largest round"
CONFIDENCE = "95 % interval"


def intervals_of(figures: Sequence[Figure]) -> list[Interval | None]:
    """The interval that is drawn for each figure, of one kind in one picture; None for a single round.

    It is the 95 % interval of the median where all of them have rounds enough for one, else smallest to largest.
    """
    if _have_intervals(figures):
        return [median_interval(figure.values) for figure in figures]
    return [Interval(min(one.values), max(one.values)) if len(one.values) > 1 else None for one in figures]


def interval_words(figures: Sequence[Figure]) -> str:
    """What the intervals of these figures are."""
    return CONFIDENCE if _have_intervals(figures) else RANGE


def _have_intervals(figures: Sequence[Figure]) -> bool:
    return bool(figures) and all(len(figure.values) >= fewest_for_interval() for figure in figures)


def are_apart(one: Interval | None, other: Interval | None) -> bool:
    """Whether two intervals have no value in common; False where one is unknown."""
    return one is not None and other is not None and (one.high < other.low or other.high < one.low)


def said_figure(figure: Figure, interval: Interval | None) -> str:
    """A median with its unit and interval: "14.2k IOPS (14.0k IOPS to 14.5k IOPS)"; "n=1" for a single round."""
    unit = figure.metric.unit
    reach = f"{format_figure(interval.low, unit)} to {format_figure(interval.high, unit)}" if interval else "n=1"
    return f"{figure} ({reach})"


def host_line(run: Run, measurements: Iterable[Measurement]) -> str:
    """On which hosts these were measured and how they were accelerated, for below a picture that is copied alone."""
    found: dict[str, dict[str, None]] = {}
    for m in measurements:
        accel = host_of(run, m.host).accel_of(m.config, on_host=m.on_host)
        words = "tcg (emulated: figures say nothing about speed)" if accel == "tcg" else accel
        found.setdefault(m.host, {})[words] = None
    return "; ".join(f"host {host}, {' and '.join(accels)}" for host, accels in found.items())


def slug_of(*parts: str) -> str:
    """Text as part of a link: a-z, 0-9 and single hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-") or "chart"


def heading(metric: Metric) -> str:
    """A metric as the title of an axis: "clat_p99, lower is better"; its unit, which scales, stands at the ticks."""
    way = "" if metric.better == "neither" else f", {metric.better} is better"
    name = metric.name if metric.name.casefold() != metric.unit.casefold() else metric.unit
    return f"{name}{way}"


def csv_text(header: Sequence[str], records: Iterable[Sequence[object]]) -> str:
    """CSV with a header; texts are harmless to a spreadsheet, numbers have six digits, None is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([plain_cell(name) for name in header])
    writer.writerows([_cell(value) for value in record] for record in records)
    return out.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.6g}"
    return plain_cell(value) if isinstance(value, str) else value


def listed(texts: Sequence[str], most: int = MOST_CELLS) -> str:
    """Texts with "; " between them, and how many more there are."""
    more = [f"and {len(texts) - most} more"] if len(texts) > most else []
    return "; ".join([*texts[:most], *more])

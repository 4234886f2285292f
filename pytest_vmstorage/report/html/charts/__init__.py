"""The charts of a run, each a picture with its figures and a sentence: those of a workload, and of the whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pytest_vmstorage.report.html.chart import Chart
from pytest_vmstorage.report.html.charts.costs import cost_charts
from pytest_vmstorage.report.html.charts.percentiles import percentile_charts
from pytest_vmstorage.report.html.charts.rounds import course_charts, dots_charts
from pytest_vmstorage.report.html.charts.shares import share_charts
from pytest_vmstorage.report.html.charts.sweeps import sweep_charts
from pytest_vmstorage.report.html.charts.within_rounds import series_charts
from pytest_vmstorage.report.html.svg import undescribed
from pytest_vmstorage.results.run import Measurement, Run


def charts_of(run: Run, measurements: Sequence[Measurement]) -> list[Chart]:
    """The charts of these measurements, which are of one workload, in the order of the questions that readers have.

    Those that have nothing to show are left out.
    """
    return list(drawn(run, measurements))


def drawn(run: Run, measurements: Sequence[Measurement]) -> Iterator[Chart]:
    """The same, each drawn when it is asked for."""
    measured = [m for m in measurements if m.samples]
    yield from percentile_charts(run, measured)
    yield from dots_charts(run, measured)
    yield from series_charts(run, measured)
    yield from share_charts(run, measured)
    yield from cost_charts(run, measured)
    yield from course_charts(run, measured)


class Kept(NamedTuple):
    """The charts of a workload that a page has room for; `is_all` says whether there are no others."""

    charts: list[Chart]
    is_all: bool


def within(weight: int, workloads: Sequence[Iterable[Chart]]) -> list[Kept]:
    """The charts of each workload that together have at most so many characters: first those of each, then the next.

    A chart is drawn when its turn comes. After the first that is too heavy, one of each workload is, to know of others.
    """
    kept: list[list[Chart]] = [[] for _ in workloads]
    waiting = {place: iter(charts) for place, charts in enumerate(workloads)}
    cut = set[int]()
    while waiting and not cut:
        for place, charts in list(waiting.items()):
            chart = next(charts, None)
            if chart is None:
                del waiting[place]
            elif cut or weight < weight_of(chart):
                cut.add(place)
                del waiting[place]
            else:
                weight -= weight_of(chart)
                kept[place].append(chart)
    cut |= {place for place, charts in waiting.items() if next(charts, None) is not None}
    return [Kept(charts, is_all=place not in cut) for place, charts in enumerate(kept)]


def weight_of(chart: Chart) -> int:
    """The characters of a chart in a page, where the picture is without its sentence: that stands behind it."""
    return len(chart.title) + len(undescribed(chart.svg)) + len(chart.csv) + len(chart.said)


def run_charts(run: Run) -> list[Chart]:
    """The charts over several workloads: rate and latency over depth and jobs."""
    return list(sweep_charts(run))

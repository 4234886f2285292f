"""The charts of a run, each a picture with its figures and a sentence: those of a workload, and of the whole."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_vmstorage.analysis.yardsticks import Yardsticks
from pytest_vmstorage.report.html.chart import Chart
from pytest_vmstorage.report.html.charts.costs import cost_charts
from pytest_vmstorage.report.html.charts.percentiles import percentile_charts
from pytest_vmstorage.report.html.charts.rounds import round_charts
from pytest_vmstorage.report.html.charts.shares import share_charts
from pytest_vmstorage.report.html.charts.sweeps import sweep_charts
from pytest_vmstorage.report.html.charts.timeline import timeline_charts
from pytest_vmstorage.report.html.charts.within_rounds import series_charts
from pytest_vmstorage.results.run import Measurement, Run


def charts_of(run: Run, measurements: Sequence[Measurement], yardsticks: Yardsticks | None = None) -> list[Chart]:
    """The charts of these measurements, which are of one workload, in the order of the questions that readers have.

    Those that have nothing to show are left out. `yardsticks` are those of the run, for a caller that asks for many
    workloads: to find them anew takes time with the number of rows.
    """
    measured = [m for m in measurements if m.samples]
    return [
        *percentile_charts(run, measured),
        *round_charts(run, measured),
        *series_charts(run, measured),
        *share_charts(run, measured, yardsticks),
        *cost_charts(run, measured),
    ]


def run_charts(run: Run) -> list[Chart]:
    """The charts over several workloads: curves over depth and jobs, and the time line."""
    return [*sweep_charts(run), *timeline_charts(run)]

"""The charts of a run: what they show, what they leave out, and that nothing is ordered without its interval.

Their modules: `report.html.charts.cells`, `report.html.charts.costs`, `report.html.charts.percentiles`,
`report.html.charts.rounds`, `report.html.charts.shares`, `report.html.charts.sweeps`, `report.html.charts.timeline`.
"""

from __future__ import annotations

import csv
import io
import re
from xml.etree import ElementTree

import pytest

from pytest_vmstorage.analysis.histograms import completion_histograms, merged
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.formats import RENDERERS
from pytest_vmstorage.report.html.chart import Chart
from pytest_vmstorage.report.html.charts import charts_of, run_charts
from pytest_vmstorage.report.html.charts.percentiles import percents_of
from pytest_vmstorage.testing import make_measurement, make_run
from tests.unit.report.html.charts.measured import CELLS, a_run, a_sweep, measured

HOSTILE = "</svg><script>alert(1)</script> \x1b[31m"


def charts_by_kind(run_rounds: int = 6, accel: str = "kvm") -> dict[str, Chart]:
    """The charts of the made-up run, by the first word of their slugs."""
    run = a_run(run_rounds, accel)
    charts = [*charts_of(run, run.measurements), *run_charts(run)]
    return {chart.slug.partition("-fio")[0]: chart for chart in charts}


def records(chart: Chart) -> list[dict[str, str]]:
    """The chart's figures."""
    return list(csv.DictReader(io.StringIO(chart.csv)))


def test_a_workload_has_its_charts_and_each_is_whole() -> None:
    """Pictures with title and description, figures with units, a sentence; slugs of one kind each."""
    charts = charts_by_kind()
    assert list(charts) == ["percentiles", "rounds", "over-the-run", "shares", "cost", "time-line"]
    for chart in charts.values():
        tree = ElementTree.fromstring(chart.svg)
        assert tree[0].text == chart.title
        assert tree[1].text == chart.said
        assert chart.said.endswith(".")
        assert "[" in chart.csv.partition("\n")[0]
        assert records(chart)


def test_percentiles_are_of_all_rounds_together() -> None:
    """The figures are those of the merged histogram, in microseconds; each round has its own column."""
    run = a_run(3)
    chart = charts_of(run, run.measurements)[0]
    whole = merged(next(iter(completion_histograms(raw).values())) for raw in run.measurements[0].raw)
    found = {float(row["percentile [%]"]): row for row in records(chart)}
    for percent in (50.0, 99.0, 99.9, 100.0):
        shown = float(found[percent]["raw none all rounds [us]"])
        assert shown == pytest.approx(1e6 * whole.percentile_s(percent), rel=1e-3)
    assert "raw none round 3 [us]" in found[99.0]
    assert found[99.99]["raw none round 1 [us]"] == "", "4000 I/Os have no 99.99th percentile"


@pytest.mark.parametrize("ios", [1, 7, 1000, 10**6, 10**12])
def test_a_curve_has_at_most_sixty_points(ios: int) -> None:
    """However many I/Os; each but the last has one beyond it, and percentages are as people write them."""
    percents = percents_of(ios)
    assert len(percents) <= 60
    assert percents == sorted(set(percents))
    assert percents[-1] == 100
    assert all((100 - percent) / 100 * ios >= 0.999 for percent in percents[:-1])


def test_a_tool_without_histograms_has_no_curve() -> None:
    """Rounds are drawn all the same."""
    m = make_measurement(workload="dd read", bw=(100.0, 110.0))
    assert [chart.slug for chart in charts_of(make_run(m), [m])] == ["rounds-dd-read"]


def test_a_percentile_chart_is_small() -> None:
    """Eight cells of six rounds: picture and figures take less than 5 kB a cell."""
    chart = charts_by_kind()["percentiles"]
    assert len(chart.svg) + len(chart.csv) < 8 * 5000


def test_rounds_are_dots_with_median_and_interval() -> None:
    """The interval is the exact one from six rounds on, and otherwise the smallest and the largest round."""
    many, few = charts_by_kind(6)["rounds"], charts_by_kind(5)["rounds"]
    assert "95 % interval" in many.said
    assert "smallest to largest round" in few.said
    row = records(few)[0]
    rounds = [float(row[f"round {number} iops [IOPS]"]) for number in range(1, 6)]
    assert float(row["low iops [IOPS]"]) == min(rounds)
    assert float(row["high iops [IOPS]"]) == max(rounds)
    assert float(row["median iops [IOPS]"]) == sorted(rounds)[2]


def test_rounds_over_the_run_are_in_its_order() -> None:
    """Each has its place; runs of earlier versions, which saved none, have no such chart."""
    places = [int(row["place in the run"]) for row in records(charts_by_kind()["over-the-run"])]
    assert sorted(places) == list(range(1, 49))
    m = make_measurement(iops=(1.0, 2.0))
    assert not any(chart.slug.startswith("over") for chart in charts_of(make_run(m), [m]))


def test_shares_have_intervals_around_them() -> None:
    """Of the native and of the null row, each with both ends; a single round of both has none."""
    rows = records(charts_by_kind()["shares"])
    assert {row["yardstick"].split()[0] for row in rows} == {"native", "null"}
    for row in rows:
        assert float(row["low [%]"]) <= float(row["share [%]"]) <= float(row["high [%]"])
    assert "n=1" in charts_by_kind(1)["shares"].said


def test_the_front_needs_intervals_that_are_apart() -> None:
    """A faster and cheaper cell beats another only where both are sure; with one round nothing is."""
    places = {row["cell"]: row["place"] for row in records(charts_by_kind()["cost"])}
    assert places["raw none"] == "on the front"
    assert places["qcow2 writethrough"] == "beaten on both"
    assert places["qcow2 writeback"] == "not decided"
    assert {row["place"] for row in records(charts_by_kind(1)["cost"])} == {"not decided"}


def test_a_sweep_is_drawn_over_its_option_and_over_its_rate() -> None:
    """All points in the order of the option, with both figures."""
    charts = run_charts(a_sweep())
    assert [chart.slug.partition("-curve")[0] for chart in charts] == ["sweep", "latency-over-rate"]
    rows = [row for row in records(charts[1]) if row["cell"] == "none"]
    assert [row["iodepth"] for row in rows] == ["1", "2", "4", "8", "16", "32"]
    assert all(float(row["low iops [IOPS]"]) <= float(row["median iops [IOPS]"]) for row in rows)


def test_the_time_line_has_all_steps_and_few_bars() -> None:
    """Spans without a visible gap are one bar; sums are those without steps within."""
    chart = charts_by_kind()["time-line"]
    rows = records(chart)
    assert {row["step"] for row in rows} >= {"start", "boot", "window", "warm-up", "report"}
    assert sum(row["step"] == "window" for row in rows) == 1
    assert {row["thread"] for row in rows} == {"pytest", "other threads"}


def test_many_cells_are_not_all_drawn_and_the_chart_says_so() -> None:
    """Eight with a look of their own, the fastest and the slowest among them; the sentence names the rest's place."""
    configs = [StorageConfig(queues=number) for number in range(1, 13)]
    rows = [measured(config, [1000.0 * number] * 2) for number, config in enumerate(configs, 1)]
    chart = charts_of(make_run(*rows), rows)[0]
    assert "8 of 12 cells are drawn" in chart.said
    assert "8 of 12 cells are drawn" in chart.svg
    names = chart.csv.partition("\n")[0]
    assert "queues=1 all" in names
    assert "queues=12 all" in names
    assert "queues=6 all" not in names


def test_emulated_figures_are_marked_in_each_picture_of_them() -> None:
    """A picture that is copied alone still says that it says nothing about speed."""
    charts = charts_by_kind(accel="tcg")
    del charts["time-line"]
    assert all("emulated: figures say nothing about speed" in chart.svg for chart in charts.values())


def test_hostile_names_stay_text() -> None:
    """Of hosts, tests and workloads: no markup in pictures, no formula in figures."""
    rows = [
        measured(config, [10.0, 20.0, 30.0], cpu_us=9, host=f"=h{number}{HOSTILE}").model_copy(
            update={"workload": HOSTILE}
        )
        for number, (config, *_) in enumerate(CELLS[:2])
    ]
    for chart in charts_of(make_run(*rows), rows):
        tree = ElementTree.fromstring(chart.svg)
        assert not [one for one in tree.iter() if one.tag.endswith("script")]
        assert "\x1b" not in chart.svg + chart.csv
        assert not [line for line in chart.csv.splitlines() if line.startswith(("=", '"='))]


def test_cells_of_one_name_are_numbered() -> None:
    """Two measurements of one cell and test do not pass for one."""
    rows = [make_measurement(iops=(1.0, 2.0)), make_measurement(iops=(3.0, 4.0))]
    assert [row["cell"][-2:] for row in records(charts_of(make_run(*rows), rows)[0])] == ["#1", "#2"]


def test_a_page_has_the_charts_of_its_workloads_and_of_its_run() -> None:
    """What `--vm-report=FILE.html` writes: each chart once, under an id of its own."""
    page = RENDERERS[".html"](a_run(3), None, False)
    charts = charts_by_kind(3)
    assert page.count('<figure class="chart"') == len(charts)
    for chart in charts.values():
        assert page.count(chart.svg) == 1
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_nothing_measured_has_no_chart() -> None:
    """Neither an error nor an empty picture."""
    assert charts_of(make_run(), []) == run_charts(make_run()) == []

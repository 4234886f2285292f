"""Charts say what the run has: points, intervals, sentence and CSV, and no text of a guest or user as markup.

Tests of `report.html.charts.cells`, `report.html.charts.percentiles`, `report.html.charts.rounds`,
`report.html.charts.shares`, `report.html.charts.costs` and `report.html.charts.sweeps`.
"""

from __future__ import annotations

import csv
import io
import statistics
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest

from pytest_vmstorage.analysis.histograms import IoKind, completion_histograms, merged
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.html.chart import Chart
from pytest_vmstorage.report.html.charts import charts_of, run_charts, weight_of, within
from pytest_vmstorage.report.html.charts.cells import MOST_CELLS, MOST_ROWS, drawn_cells, label_rows
from pytest_vmstorage.report.html.charts.costs import cost_charts, costs_of
from pytest_vmstorage.report.html.charts.percentiles import MOST_POINTS, percentile_charts, percents_of
from pytest_vmstorage.report.html.charts.rounds import course_charts, dots_charts
from pytest_vmstorage.report.html.charts.shares import share_charts
from pytest_vmstorage.report.html.charts.sweeps import sweep_charts
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.stats import median_interval
from pytest_vmstorage.testing import make_host, make_measurement, make_run
from pytest_vmstorage.testing.builders import in_turns
from unit.report.html.charts.measured import CELLS, a_run, a_sweep, fio_output, measured

HOSTILE = "</title></svg><script>alert(1)</script>\"'&\x1b]0;x\x07\u202egpj"


def table(chart: Chart) -> list[dict[str, str]]:
    """The records of a chart's CSV."""
    return list(csv.DictReader(io.StringIO(chart.csv)))


def all_charts(run: Run) -> list[Chart]:
    """Every chart of a run of one workload."""
    return [*charts_of(run, run.measurements), *run_charts(run)]


@pytest.mark.parametrize(
    "make",
    [a_run, lambda: a_run(3, "tcg"), lambda: a_run(1), a_sweep],
    ids=["six", "three", "one", "sweep"],
)
def test_a_chart_is_one_picture_with_its_title_and_sentence(make: Callable[[], Run]) -> None:
    """Well-formed, with the same words in it as beside it, no place beyond its edge, a name of its own, and a host."""
    charts = all_charts(make())
    assert len({chart.slug for chart in charts}) == len(charts) > 0
    for chart in charts:
        root = ET.fromstring(chart.svg)
        space = {"s": "http://www.w3.org/2000/svg"}
        assert root.findtext("s:title", namespaces=space) == chart.title
        assert root.findtext("s:desc", namespaces=space) == chart.said
        width, height = (float(root.attrib[name]) for name in ("width", "height"))
        for text in root.iterfind(".//s:text", space):
            assert 0 <= float(text.attrib["x"]) <= width
            assert 0 < float(text.attrib["y"]) < height
        assert "host local" in chart.svg
        assert table(chart)


def test_a_run_without_measurements_has_no_chart() -> None:
    """Nor has a cell without any sample."""
    empty = make_measurement().model_copy(update={"samples": ()})
    assert all_charts(make_run()) == []
    assert charts_of(make_run(empty), [empty]) == []


def test_percentiles_are_of_all_rounds_together() -> None:
    """A tail that one round of three has is that of a third of the I/Os: no mean of percentiles says so."""
    fast, slow = {1000: 1000}, {1000: 900, 1_000_000: 100}
    m = make_measurement(iops=(1, 2, 3))
    rounds = [fio_output(counts) for counts in (fast, fast, slow)]
    m = m.model_copy(
        update={"samples": tuple(s.model_copy(update={"raw": raw}) for s, raw in zip(m.samples, rounds, strict=True))}
    )
    (chart,) = percentile_charts(make_run(m), [m])
    whole, low, high = list(table(chart)[0])[1:]
    found = {float(record["percentile [%]"]): record for record in table(chart)}
    # 100 of 3000 I/Os are slow: beyond 96.7 %, where the mean of the rounds' 95th would be 334 us
    assert [float(found[percent][whole]) for percent in (95.0, 97.0)] == [1.0, 1000.0]
    assert [float(found[95.0][column]) for column in (low, high)] == [1.0, 1000.0]
    assert "1 us at 50 %, 1 ms at 99 %, 1 ms at 99.9 %, slowest 1 ms (3000 I/Os in 3 rounds)" in chart.said


def test_a_curve_is_that_of_the_merged_histogram() -> None:
    """Each point of each cell, to the slowest I/O; no more points than there are I/Os for, and none beyond sixty."""
    run = a_run(3)
    (chart,) = percentile_charts(run, run.measurements[:3])
    for row in drawn_cells(run.measurements[:3], MOST_CELLS).rows:
        whole = merged(completion_histograms(s.raw)[IoKind("", "write")] for s in row.measurement.samples)
        for record in table(chart):
            value = record[f"{row.label} all rounds [us]"]
            assert float(value) == pytest.approx(1e6 * whole.percentile_s(float(record["percentile [%]"])), rel=1e-5)
    assert percents_of(3) == [0.0, 30.0, 50.0, 100.0]
    assert len(percents_of(10**15)) == MOST_POINTS
    assert percents_of(100_000)[-2] == 99.999


def test_each_direction_has_a_chart() -> None:
    """Reads and writes are not one distribution; output without a histogram has none."""
    both = '{"jobs": [{"read": {"clat_ns": {"bins": {"5": 4}}}, "write": {"clat_ns": {"bins": {"9": 4}}}}]}'
    m = make_measurement(iops=(1,))
    m = m.model_copy(update={"samples": (m.samples[0].model_copy(update={"raw": both}),)})
    assert [c.title.partition(": ")[2] for c in percentile_charts(make_run(m), [m])] == [
        "completion latency of reads by percentile",
        "completion latency of writes by percentile",
    ]
    assert list(percentile_charts(make_run(), [make_measurement(iops=(1,))])) == []


def test_every_round_is_a_dot_beside_median_and_interval() -> None:
    """In the CSV as in the measurement, and so many dots in the picture; the null row is left to the shares."""
    run = a_run()
    (chart,) = dots_charts(run, run.measurements)
    there = [m for m in run.measurements if not m.config.is_null]
    records = table(chart)
    assert len(records) == len(there) == 7
    for record, m in zip(records, there, strict=True):
        assert [float(record[f"round {n} iops [IOPS]"]) for n in range(1, 7)] == pytest.approx(m.values("iops"))
        assert float(record["median iops [IOPS]"]) == pytest.approx(statistics.median(m.values("iops")), rel=1e-5)
        assert (low_high := median_interval(m.values("iops"))) is not None
        assert [float(record[f"{end} iops [IOPS]"]) for end in ("low", "high")] == pytest.approx(low_high, rel=1e-5)
    assert chart.svg.count("h0") == 7 * 6
    assert "median and 95 % interval of each cell: raw none" in chart.said


def test_few_rounds_have_a_range_and_one_round_has_none() -> None:
    """A 95 % interval needs six; in one picture all are of one kind."""
    mixed = make_run(*in_turns(measured(CELLS[0][0], (10, 20, 30)), measured(CELLS[1][0], range(10, 19))))
    assert "smallest to largest round of each cell" in next(dots_charts(mixed, mixed.measurements)).said
    one = make_run(measured(CELLS[0][0], (10,)))
    assert "10 IOPS (n=1)" in next(dots_charts(one, one.measurements)).said
    assert list(course_charts(one, one.measurements)) == []


def test_rounds_stand_at_their_places_in_the_run() -> None:
    """Cell, place, time and figure of each; none for a run that has no order."""
    run = a_run(3)
    few = run.measurements[:4]
    (chart,) = course_charts(run, few)
    expected = [(str(s.order), f"{s.figures['iops']:.6g}") for m in few for s in m.samples]
    assert [(one["place in the run"], one["iops [IOPS]"]) for one in table(chart)] == expected
    unordered = [make_measurement(iops=(1, 2, 3))]
    assert list(course_charts(make_run(*unordered), unordered)) == []


def test_a_share_has_its_interval() -> None:
    """Ratio of medians to native and null in per cent, inside of what the pairs of rounds say."""
    run = a_run()
    (chart,) = share_charts(run, run.measurements)
    records = table(chart)
    assert len(records) == 12
    medians = {str(m.config): statistics.median(m.values("iops")) for m in run.measurements}
    by_label = {row.label: str(row.measurement.config) for row in label_rows(run.measurements, run.measurements)}
    for record in records:
        whole = medians[record["yardstick"].split(" ", 1)[1]]
        share = float(record["share [%]"])
        assert share == pytest.approx(100 * medians[by_label[record["cell"]]] / whole, rel=1e-5)
        assert float(record["low [%]"]) <= share <= float(record["high [%]"])
    assert "95 % interval from pairs of rounds" in chart.said
    assert (
        list(share_charts(run, [m for m in run.measurements if not m.config.is_native and not m.config.is_null])) == []
    )


def test_cost_stands_beside_speed() -> None:
    """Who is slower and dearer by intervals that are apart is beaten; what the intervals do not tell is not decided."""
    run = a_run()
    (chart,) = cost_charts(run, run.measurements)
    places = {record["cell"]: record["place"] for record in table(chart)}
    assert places == {
        "raw none": "on the front", "raw writethrough": "beaten on both", "raw writeback": "on the front",
        "qcow2 none": "not decided", "qcow2 writethrough": "beaten on both", "qcow2 writeback": "not decided",
    }  # fmt: skip
    for record, m in zip(table(chart), run.measurements, strict=False):
        assert float(record["median CPU per I/O [s]"]) == pytest.approx(statistics.median(costs_of(m)), rel=1e-5)
    unknown = [make_measurement(config, iops=(1, 2)) for config, *_ in CELLS]
    assert list(cost_charts(make_run(*unknown), unknown)) == []


def test_a_sweep_is_drawn_over_depth_and_over_rate() -> None:
    """A point is a cell at a depth, with the medians of both figures; depths stand beside the points of the second."""
    run = a_sweep()
    over_depth, over_rate = sweep_charts(run)
    assert over_depth.csv == over_rate.csv
    records = table(over_depth)
    assert len(records) == len(run.measurements) == 18
    for record, m in zip(records, run.measurements, strict=True):
        assert float(record["iodepth"]) == m.point["iodepth"]
        for name, unit in (("iops", "IOPS"), ("clat_mean", "s")):
            middle = statistics.median(m.values(name))
            assert float(record[f"median {name} [{unit}]"]) == pytest.approx(middle, rel=1e-5)
    assert over_rate.svg.count(">32</text>") == 3


def test_a_single_axis_is_named() -> None:
    """The value off alone does not say of what; several values are told apart without their names."""
    off, full = (measured(StorageConfig(preallocation=value), (1,)) for value in ("off", "full"))
    assert [row.label for row in label_rows([off, full], [off, full])] == ["preallocation=off", "preallocation=full"]
    other = measured(StorageConfig(preallocation="off", format="qcow2"), (1,))
    assert [row.label for row in label_rows([off, full, other], [off, full, other])] == [
        "raw off", "raw full", "qcow2 off",
    ]  # fmt: skip


def test_large_runs_have_the_best_and_the_worst() -> None:
    """Charts stay as large as those of few cells, and say what they leave out."""
    configs = [
        StorageConfig.model_validate({"queue_size": 2**size, "vcpus": cpus, "format": kind})
        for size in range(4, 9)
        for cpus in range(1, 9)
        for kind in ("raw", "qcow2")
    ]
    rows = [measured(config, (100 + place, 200 + place), seed=place) for place, config in enumerate(configs)]
    run = make_run(*in_turns(*rows))
    kept = drawn_cells(run.measurements, MOST_CELLS)
    assert [row.measurement.samples[0].figures["iops"] for row in kept.rows] == [100, 101, 102, 177, 178, 179]
    assert kept.left_out.startswith("6 of 80 cells are drawn: highest and lowest medians")
    (dots,) = dots_charts(run, run.measurements)
    assert len(table(dots)) == MOST_ROWS
    assert "40 of 80 cells are drawn" in dots.svg
    assert max(map(weight_of, all_charts(run))) < 30_000


def test_texts_of_guests_and_users_are_no_markup() -> None:
    """Names of a workload, test and host in picture, sentence and CSV."""
    cells = [
        measured(config, (10, 20, 30), cpu_us=5, host=HOSTILE, test=f"tests/{HOSTILE}::{HOSTILE}").model_copy(
            update={"workload": HOSTILE}
        )
        for config, *_ in CELLS
    ]
    run = make_run(*in_turns(*cells), hosts=[make_host(HOSTILE)])
    charts = all_charts(run)
    assert len(charts) == 4
    for chart in charts:
        names = {element.tag.rpartition("}")[2] for element in ET.fromstring(chart.svg).iter()}
        assert names <= {"svg", "title", "desc", "g", "path", "text", "rect"}
        assert not {"\x1b", "\u202e"} & set(chart.svg)
        assert not {"\x1b", "\u202e"} & set(chart.csv)


def test_emulation_is_said_below_each_picture() -> None:
    """A picture that is copied alone says that its figures say nothing about speed."""
    for chart in all_charts(a_run(3, "tcg")):
        assert "figures say nothing about speed" in chart.svg


def test_charts_share_a_weight_in_turns() -> None:
    """Each workload has its first before any has its second; what is not kept is not drawn."""
    drawn = []

    def charts(name: str, count: int) -> list[Chart]:
        return [Chart(slug=f"{name}{n}", title="", svg="x" * 10, csv="", said="") for n in range(count)]

    def lazily(name: str, count: int) -> object:
        for chart in charts(name, count):
            drawn.append(chart.slug)
            yield chart

    kept = within(45, [lazily("a", 3), lazily("b", 1), lazily("c", 9)])  # type: ignore[list-item]
    assert [[chart.slug for chart in one.charts] for one in kept] == [["a0", "a1"], ["b0"], ["c0"]]
    # one more of those that have any, to know of it
    assert drawn == ["a0", "b0", "c0", "a1", "c1", "a2"]
    assert [one.is_all for one in kept] == [False, True, False]
    assert all(one.is_all for one in within(1000, [lazily("a", 3), lazily("b", 0)]))  # type: ignore[list-item]

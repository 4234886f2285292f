"""Sweeps as curves: which measurements are points of one, and how they are shown."""

from __future__ import annotations

import csv
import io
import json

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.csv import render_csv
from pytest_vmstorage.report.curves import PointTable
from pytest_vmstorage.report.markdown import render_markdown
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.report.text import render_text
from pytest_vmstorage.results.run import Measurement, Run
from pytest_vmstorage.testing.builders import make_measurement, make_run
from pytest_vmstorage.workloads.fio.fio import Fio

RAW, QCOW2 = StorageConfig(), StorageConfig(format="qcow2")


def point(job: Fio, config: StorageConfig = RAW, test: str = "t.py::test_curve", host: str = "local") -> Measurement:
    """What that job would measure: a thousand IOPS for each request in flight."""
    iops = 1000.0 * job.iodepth * job.numjobs
    made = make_measurement(
        config, workload=job.label, test=test, host=host, iops=(iops, iops * 1.02), clat_p99=(0.01, 0.01),
        clat_mean=(0.001, 0.001),
    )  # fmt: skip
    return made.model_copy(update={"point": job.point, "shape": job.shape, "shown": ("iops", "clat_p99")})


def curves_of(*measured: Measurement) -> tuple[PointTable, ...]:
    """The curves of a run of these."""
    return build_table(make_run(*measured)).point_tables


def test_a_sweep_is_one_curve_in_the_order_of_its_depths() -> None:
    """Whatever the order measured; the rate first, then the mean latency, with their spread."""
    jobs = Fio(rw="randread").over(iodepth=(32, 1, 8))
    (curves,) = curves_of(*map(point, jobs))
    assert curves.title == "curve over iodepth, fio randread 4k"
    assert curves.points == ("iodepth=1", "iodepth=8", "iodepth=32")
    assert [row.metric for row in curves.rows] == ["iops", "clat_mean"]
    assert curves.rows[0].points == ("1010 IOPS ±1 %", "8080 IOPS ±1 %", "32.3k IOPS ±1 %")
    assert curves.rows[1].points == ("1 ms ±0 %",) * 3
    assert (curves.axes, curves.rows[0].cell) == (("cell",), ("raw-none-virtio-blk-off",))


def test_two_points_are_no_curve() -> None:
    """Nor are three jobs that do different things, or stand in three cells."""
    two = Fio(rw="randread").over(iodepth=(1, 8))
    assert curves_of(*map(point, two), point(Fio(rw="randwrite", iodepth=32))) == ()
    caches = [StorageConfig(cache=cache) for cache in ("none", "unsafe", "writeback")]
    depths = Fio(rw="randread").over(iodepth=(1, 8, 32))
    assert curves_of(*(point(job, cache) for job, cache in zip(depths, caches, strict=True))) == ()


def test_each_cell_has_its_row_and_a_gap_where_it_was_not_measured() -> None:
    """Named by what tells rows apart; a cell with too few points has none."""
    jobs = Fio(rw="randread").over(iodepth=(1, 2, 4, 8))
    unsafe = StorageConfig(cache="unsafe")
    measured = [point(job) for job in jobs] + [point(job, QCOW2) for job in jobs[1:]]
    (curves,) = curves_of(*measured, *(point(job, unsafe) for job in jobs[:2]))
    assert curves.axes == ("format", "cache")
    assert [(row.metric, *row.cell) for row in curves.rows] == [
        ("iops", "raw", "none"), ("iops", "qcow2", "none"),
        ("clat_mean", "raw", "none"), ("clat_mean", "qcow2", "none"),
    ]  # fmt: skip
    assert curves.rows[1].points[0] == "-"


def test_depths_times_jobs_are_curves_over_both() -> None:
    """Over one option at each value of the other."""
    jobs = Fio(rw="randread").over(iodepth=(1, 2, 4), numjobs=(1, 2, 4))
    titles = [curves.title for curves in curves_of(*map(point, jobs))]
    shape = "fio randread 4k"
    over_depth = [f"curve over iodepth, {shape}{jobs}" for jobs in ("", ", numjobs=2", ", numjobs=4")]
    over_jobs = [f"curve over numjobs, {shape}{depth}" for depth in ("", ", iodepth=2", ", iodepth=4")]
    assert sorted(titles) == sorted(over_depth + over_jobs)


def test_tests_that_measure_the_same_have_a_curve_each() -> None:
    """And say which."""
    jobs = Fio(rw="randread").over(iodepth=(1, 2, 4))
    measured = [point(job, test=f"t.py::{name}") for name in ("test_a", "test_b") for job in jobs]
    titles = [curves.title for curves in curves_of(*measured)]
    assert titles == [f"curve over iodepth, fio randread 4k, {name}" for name in ("test_a", "test_b")]


def test_points_of_two_tests_are_no_curve() -> None:
    """Of two that have three each, in different cells or at different depths, there are two, and they say whose."""
    jobs = Fio(rw="randread").over(iodepth=(1, 2, 4, 8, 16, 32))
    apart = [point(job, test="t.py::test_low") for job in jobs[:2]]
    assert curves_of(*apart, *(point(job, test="t.py::test_high") for job in jobs[2:4])) == ()
    low = [point(job, test="t.py::test_low") for job in jobs[:3]]
    high = [point(job, test="t.py::test_high") for job in jobs[3:]]
    both = curves_of(*low, *high)
    assert [(curves.title, curves.points[0]) for curves in both] == [
        ("curve over iodepth, fio randread 4k, test_low", "iodepth=1"),
        ("curve over iodepth, fio randread 4k, test_high", "iodepth=8"),
    ]
    (only,) = curves_of(*low, *high[:2])
    assert (only.title, only.points) == ("curve over iodepth, fio randread 4k", ("iodepth=1", "iodepth=2", "iodepth=4"))


def test_rows_of_several_hosts_are_told_apart() -> None:
    """By the host's name."""
    jobs = Fio(rw="randread").over(iodepth=(1, 2, 4))
    (curves,) = curves_of(*(point(job, host=host) for host in ("a", "b") for job in jobs))
    assert curves.axes == ("host",)
    assert [row.cell for row in curves.rows] == [("a",), ("b",), ("a",), ("b",)]


def test_mixed_jobs_have_a_mean_latency_for_each_direction() -> None:
    """Both, and none for the two together."""
    measured = []
    for job in Fio(rw="randrw").over(iodepth=(1, 2, 4)):
        figures = {"iops": (1.0,), "read_clat_mean": (0.1,), "write_clat_mean": (0.2,)}
        made = make_measurement(RAW, workload=job.label, **figures)
        measured.append(made.model_copy(update={"point": job.point, "shape": job.shape}))
    assert [row.metric for row in curves_of(*measured)[0].rows] == ["iops", "read_clat_mean", "write_clat_mean"]


def test_the_text_is_no_wider_than_asked() -> None:
    """A column a point; what does not fit stands below, with its leading columns again."""
    jobs = Fio(rw="randread").over(iodepth=(1, 2, 4, 8, 16, 32, 64, 128))
    run = make_run(*map(point, jobs), *(point(job, QCOW2) for job in jobs))
    text = render_text(build_table(run), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("curve over iodepth, fio randread 4k:") == 1
    blocks = text.partition("curve over iodepth")[2].split("\n\n")[1:4]
    assert blocks[0].split("\n") == [
        "metric     format       iodepth=1       iodepth=2       iodepth=4",
        "---------  ------  --------------  --------------  --------------",
        "iops       raw     1010 IOPS ±1 %  2020 IOPS ±1 %  4040 IOPS ±1 %",
        "iops       qcow2   1010 IOPS ±1 %  2020 IOPS ±1 %  4040 IOPS ±1 %",
        "clat_mean  raw          1 ms ±0 %       1 ms ±0 %       1 ms ±0 %",
        "clat_mean  qcow2        1 ms ±0 %       1 ms ±0 %       1 ms ±0 %",
    ]
    assert blocks[1].split("\n")[0].split() == ["metric", "format", *(f"iodepth={depth}" for depth in (8, 16, 32))]


def test_axes_of_curves_keep_their_names() -> None:
    """Each has a column of its own, also in Markdown; where they are too wide, values stand behind names."""
    jobs = Fio(rw="randread").over(iodepth=(1, 2, 4))
    cells = [StorageConfig(state="filled", total_iops_sec=500), StorageConfig(state="rewritten", size="64M")]
    cells += [StorageConfig(queues=4, vcpus=4, iothread=True, guest_fs="ext4", scheduler="none", detect_zeroes="on")]
    table = build_table(make_run(*(point(job, cell) for cell in cells for job in jobs)))
    text = render_text(table, 80)
    assert max(map(len, text.splitlines())) <= 80
    curve = " ".join(text.partition("curve over iodepth")[2].partition("what moves what:")[0].split())
    names = ("state", "iothread", "queues", "detect_zeroes", "total_iops_sec", "guest_fs", "scheduler", "vcpus", "size")
    assert [name for name in names if f"{name}=" not in curve] == []
    assert f"| metric | {' | '.join(names).replace('_', chr(92) + '_')} | iodepth=1 |" in render_markdown(table)


def test_markdown_has_a_table() -> None:
    """Under a heading of its own."""
    text = render_markdown(build_table(make_run(*map(point, Fio(rw="randread").over(iodepth=(1, 8, 32))))))
    assert (
        "### curve over iodepth, fio randread 4k\n\n"
        "| metric | cell | iodepth=1 | iodepth=8 | iodepth=32 |\n"
        "| --- | --- | ---: | ---: | ---: |\n"
        "| iops | raw-none-virtio-blk-off | 1010 IOPS ±1 % | 8080 IOPS ±1 % | 32.3k IOPS ±1 % |\n"
        "| clat\\_mean | raw-none-virtio-blk-off | 1 ms ±0 % |"
    ) in text


def test_csv_says_which_curve_and_where_on_it() -> None:
    """In every row of a workload that is on one, whatever else was measured."""
    run = make_run(point(Fio(rw="randread", iodepth=8)), make_measurement(workload="dd", bw=(1,)))
    first, *_, last = csv.DictReader(io.StringIO(render_csv(run)))
    assert (first["curve"], first["at_iodepth"], first["at_numjobs"]) == ("fio randread 4k", "8", "1")
    assert (last["curve"], last["at_iodepth"], last["at_numjobs"]) == ("", "", "")


def test_runs_of_earlier_versions_have_no_curves() -> None:
    """They are read, and their points are not known."""
    run = make_run(*map(point, Fio(rw="randread").over(iodepth=(1, 8, 32))))
    saved = json.loads(run.model_dump_json())
    for measurement in saved["measurements"]:
        del measurement["point"], measurement["shape"]
    assert build_table(Run.model_validate(saved)).point_tables == ()
    assert len(build_table(Run.model_validate_json(run.model_dump_json())).point_tables) == 1

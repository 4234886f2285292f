"""iozone's figures as maps in the reports: what stands where, and what has none."""

from __future__ import annotations

from pathlib import Path

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.curves import PointTable
from pytest_vmstorage.report.markdown import render_markdown
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.report.text import render_text
from pytest_vmstorage.results.run import Measurement, Metric, Run
from pytest_vmstorage.testing.builders import make_measurement, make_run
from pytest_vmstorage.workloads.iozone import Iozone

RECORDINGS = Path(__file__).parents[1] / "recordings"
REAL = (RECORDINGS / "iozone-3.489-8M-16M.txt").read_text()
RAW, QCOW2 = StorageConfig(), StorageConfig(format="qcow2")
SMALL = Iozone(file_size=("64k", "1M"), record_size=("128k", "4k"), tests=(0,))


def measured(
    iozone: Iozone, config: StorageConfig = RAW, rounds: tuple[float, ...] = (1.0,), test: str = "t.py::test_iozone"
) -> Measurement:
    """What that iozone would measure: each figure is its place among the metrics times ten, times the round's."""
    figures = {
        metric.name: tuple(10.0 * place * one for one in rounds) for place, metric in enumerate(iozone.metrics, 1)
    }
    made = make_measurement(config, workload=iozone.label, test=test, **figures)
    return made.model_copy(update={"metrics": iozone.metrics, "primary": iozone.primary, "shown": iozone.shown})


def maps_of(*rows: Measurement) -> tuple[PointTable, ...]:
    """The maps of a run of these."""
    return build_table(make_run(*rows)).point_tables


def test_each_test_of_iozone_has_its_map() -> None:
    """File sizes down and record sizes across, both in the order of their size and not of their names."""
    write, rewrite = maps_of(measured(SMALL))
    assert write.title == "map of write [MiB/s] over file size and record size, iozone 64k/1M 128k/4k i=0"
    assert rewrite.title.startswith("map of rewrite [MiB/s]")
    assert write.points == ("4k", "128k")
    assert [(row.cell[-1], *row.points) for row in write.rows] == [("64k", "10 n=1", "-"), ("1M", "50 n=1", "30 n=1")]


def test_a_map_has_the_figures_of_iozones_own_table() -> None:
    """Of a real run, whose kB/s are those of 1024 bytes."""
    iozone = Iozone(file_size=("8M", "16M"), record_size=("4k", "16M"))
    made = measured(iozone)
    sample = made.samples[0].model_copy(update={"figures": iozone.parse(REAL)})
    found = {one.title.split()[2]: one for one in maps_of(made.model_copy(update={"samples": (sample,)}))}
    assert list(found) == list(iozone.columns)
    assert [row.cell for row in found["write"].rows] == [
        ("raw-none-virtio-blk-off", "8M"),
        ("raw-none-virtio-blk-off", "16M"),
    ]
    assert found["write"].rows[1].points[0] == "80.1 n=1"
    assert found["random_read"].rows[1].points[1] == "1303 n=1"
    assert found["random_write"].rows[1].points[1] == "21.5 n=1"
    assert found["random_write"].rows[0].points[1] == "-"


def test_each_cell_has_its_rows() -> None:
    """Named by what tells them apart."""
    write, _ = maps_of(measured(SMALL), measured(SMALL, QCOW2))
    assert [row.cell for row in write.rows] == [
        ("raw", "64k"), ("raw", "1M"), ("qcow2", "64k"), ("qcow2", "1M"),
    ]  # fmt: skip


def test_tests_that_measure_the_same_have_a_map_each() -> None:
    """And say which."""
    titles = [one.title for one in maps_of(*(measured(SMALL, test=f"t.py::{name}") for name in ("test_a", "test_b")))]
    assert [title.rpartition(", ")[2] for title in titles] == ["test_a", "test_a", "test_b", "test_b"]


def test_what_is_no_map_has_none() -> None:
    """One pair stands in the matrix, and another tool's metrics may have such names."""
    assert maps_of(measured(Iozone(file_size=("1M",), record_size=("4k",)))) == ()
    other = measured(SMALL).model_copy(update={"tool": "mine"})
    assert maps_of(other) == ()


def test_a_metric_without_sizes_is_on_no_map() -> None:
    """As one that a subclass adds."""
    made = measured(SMALL)
    extra = Metric(name="seconds", unit="s", better="lower")
    sample = made.samples[0].model_copy(update={"figures": {**made.samples[0].figures, "seconds": 1.0}})
    made = made.model_copy(update={"metrics": (*made.metrics, extra), "samples": (sample,)})
    assert len(maps_of(made)) == 2


def report() -> Run:
    """Two cells with two rounds each."""
    return make_run(measured(SMALL, rounds=(1.0, 1.02)), measured(SMALL, QCOW2, rounds=(1.0, 1.2)))


def test_the_terminal_shows_it() -> None:
    """As a table below the matrix, no wider than asked."""
    text = render_text(build_table(report()), 60)
    assert max(map(len, text.splitlines())) <= 60
    shown = text.partition("map of write")[2].partition("\n\n")[2].partition("\n\n")[0]
    assert shown.split("\n") == [
        "format  file         4k       128k",
        "------  ----  ---------  ---------",
        "raw     64k   10.1 ±1 %          -",
        "raw     1M    50.5 ±1 %  30.3 ±1 %",
        "qcow2   64k     11 ±9 %          -",
        "qcow2   1M      55 ±9 %    33 ±9 %",
    ]


def test_markdown_has_it_as_a_table() -> None:
    """With its title as a heading."""
    text = render_markdown(build_table(report()))
    assert (
        "### map of rewrite \\[MiB/s\\] over file size and record size, iozone 64k/1M 128k/4k i=0\n\n"
        "| format | file | 4k | 128k |\n| --- | --- | ---: | ---: |\n| raw | 64k | 20.2 ±1 % | \\- |\n"
    ) in text

"""Several runs in one report: each row with the name of its run, and no two of them compared."""

from __future__ import annotations

from pytest_vmstorage.analysis.axis_effects import effects
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.several_runs import NamedRun, join_runs
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.results.run import RowlessTest
from pytest_vmstorage.results.timeline import Timeline
from pytest_vmstorage.testing.builders import make_failure, make_host, make_measurement, make_run

QCOW2 = StorageConfig(format="qcow2")


def test_each_host_has_the_name_of_its_run() -> None:
    """Rows, facts and processes; the slower day's rows are not the worst of the faster one."""
    fast = make_run(*(make_measurement(cell, iops=(200, 201, 202)) for cell in (StorageConfig(), QCOW2)))
    slow = make_run(make_measurement(iops=(100, 101, 102)), failures=[make_failure(QCOW2)], hosts=[make_host(qemu="9")])
    timeline = Timeline(process="pytest", began="2026-01-02T03:04:05+00:00", wall_s=1)
    fast = fast.model_copy(update={"timelines": (timeline,), "rowless": (RowlessTest(nodeid="x", outcome="passed"),)})
    joined = join_runs([NamedRun("main", fast), NamedRun("branch", slow)])
    table = build_table(joined)
    assert [(*row.axes, row.cells[0].mark) for row in table.rows] == [
        ("main: local", "raw", ""),
        ("main: local", "qcow2", ""),
        ("branch: local", "raw", ""),
        ("branch: local", "qcow2", ""),
    ]
    assert [host.name for host in joined.hosts] == ["main: local", "branch: local"]
    assert [line.process for line in joined.timelines] == ["main: pytest"]
    assert [test.nodeid for test in joined.rowless] == ["main: x"]
    assert joined.started == "2026-01-02T03:04:05+00:00 (main), 2026-01-02T03:04:05+00:00 (branch)"
    assert {one.host for one in effects(joined)} == {"main: local"}


def test_runs_of_one_name_are_told_apart() -> None:
    """By when they began, and by their place where that is the same."""
    days = [make_run(make_measurement(), started=started) for started in ("2026-01-02", "2026-01-03", "2026-01-03")]
    joined = join_runs([NamedRun("main", day) for day in days])
    assert [m.host for m in joined.measurements] == [
        "main of 2026-01-02: local", "main of 2026-01-03: local", "main of 2026-01-03 #2: local",
    ]  # fmt: skip


def test_a_single_run_is_as_it_was() -> None:
    """Its hosts keep their names."""
    run = make_run(make_measurement())
    assert join_runs([NamedRun("main", run)]) == run

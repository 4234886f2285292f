"""Outcomes of tests: from their reports into measurements, and into words and marks of the report.

Tests of `plugin.recorder`.
"""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from pytest_vmstorage.analysis.gate.by_days import compare
from pytest_vmstorage.analysis.gate.policy import GatePolicy
from pytest_vmstorage.cli.show import show_cell
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.plugin.recorder import Outcomes
from pytest_vmstorage.report.csv import HEADER, render_csv
from pytest_vmstorage.report.formats import render_json
from pytest_vmstorage.report.markdown import render_markdown
from pytest_vmstorage.report.pull_request import render_summary
from pytest_vmstorage.report.sections import tally
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.report.text import render_text
from pytest_vmstorage.results.run import Measurement, RowlessTest, Run
from pytest_vmstorage.results.saved import Baseline
from pytest_vmstorage.testing.builders import make_baseline, make_failure, make_measurement, make_run

QCOW2 = StorageConfig(format="qcow2")
NODE = "t.py::test_x"


def report(outcome: Any, when: Any = "call", longrepr: Any = None, **attributes: Any) -> pytest.TestReport:
    """A phase's report."""
    return pytest.TestReport(
        nodeid=NODE, location=("t.py", 1, "test_x"), keywords={}, outcome=outcome, longrepr=longrepr, when=when,
        **attributes,
    )  # fmt: skip


def become(*reports: pytest.TestReport) -> tuple[str, str]:
    """What a test with these reports became."""
    outcomes = Outcomes()
    for one in reports:
        outcomes.note(one)
    return outcomes.take(reports[-1])


SET_UP, TORN_DOWN = report("passed", "setup"), report("passed", "teardown")


@pytest.mark.parametrize(
    ("reports", "told"),
    [
        ([report("passed")], ("passed", "")),
        ([report("failed", longrepr="iops of x is REGRESSED:\nmore")], ("failed", "iops of x is REGRESSED:")),
        ([report("failed", longrepr="Failed: iops of x is REGRESSED")], ("failed", "iops of x is REGRESSED")),
        ([report("failed", longrepr="[XPASS(strict)] old")], ("failed", "[XPASS(strict)] old")),
        ([report("skipped", longrepr=("t.py", 3, "Skipped: too few"))], ("skipped", "too few")),
        ([report("skipped", wasxfail="reason: waived by jane")], ("xfailed", "waived by jane")),
        ([report("passed", wasxfail="QEMU issue")], ("xpassed", "QEMU issue")),
        # a subtest that failed, and the test after it
        ([report("failed", longrepr="assert 1 > 2"), report("passed")], ("failed", "assert 1 > 2")),
        ([report("failed", longrepr="1 > 2"), report("failed", longrepr="contains 1")], ("failed", "1 > 2")),
        # a subtest that was skipped, or passed, before the test was
        ([report("skipped", longrepr=("t.py", 3, "Skipped: x"), context=1), report("passed")], ("passed", "")),
        ([report("passed", context=1), report("skipped", longrepr=("t.py", 3, "Skipped: x"))], ("skipped", "x")),
        # another plugin runs it again
        ([report("rerun", longrepr="once"), SET_UP, report("passed")], ("passed", "")),
        ([report("failed", longrepr="once"), SET_UP, report("passed")], ("passed", "")),
        ([report("failed", longrepr="\n\n  \x1b[31mred\x1b[0m  line\n")], ("failed", "red line")),
    ],
)  # fmt: skip
def test_a_test_becomes_what_its_reports_say(reports: list[pytest.TestReport], told: tuple[str, str]) -> None:
    """In pytest's words, with the first line of the reason."""
    assert become(SET_UP, *reports, TORN_DOWN) == told


def test_set_up_and_teardown_make_errors() -> None:
    """Of a test that passed too; what failed before stays."""
    broken = report("failed", "teardown", "left over")
    assert become(report("failed", "setup", "no guest"), TORN_DOWN) == ("error", "no guest")
    assert become(SET_UP, report("passed"), broken) == ("error", "left over")
    assert become(SET_UP, report("failed", longrepr="slow"), broken) == ("failed", "slow")
    assert become(SET_UP, report("skipped", longrepr=("t.py", 3, "Skipped: x")), broken) == ("error", "left over")
    assert become(SET_UP, report("skipped", wasxfail="known"), broken) == ("error", "left over")


def test_subtests_of_a_run_that_is_taken_back_say_nothing() -> None:
    """pytest-rerunfailures holds back all but the reports of subtests, and these come before that of the set-up."""
    sub, call = report("failed", longrepr="1 > 2", context=1), report("failed", longrepr="contains 1 failed subtest")
    assert become(sub, SET_UP, call, TORN_DOWN) == ("failed", "1 > 2")
    # what came before pytest 9 has a call that passes
    assert become(sub, SET_UP, report("passed"), TORN_DOWN) == ("failed", "1 > 2")
    again = report("rerun", longrepr="contains 1 failed subtest")
    assert become(sub, SET_UP, again, SET_UP, report("passed"), TORN_DOWN) == ("passed", "")
    assert become(sub, SET_UP, again, TORN_DOWN, sub, SET_UP, call, TORN_DOWN) == ("failed", "1 > 2")
    # a plugin that takes nothing back by a word of its own
    assert become(SET_UP, sub, call, SET_UP, report("passed"), TORN_DOWN) == ("passed", "")


def test_a_test_is_forgotten_once_it_is_told() -> None:
    """Workers of --dist=each run the same test at one time; of one that was killed there is no last report."""
    outcomes = Outcomes()
    first = [report(outcome, when, worker_id="gw0") for outcome, when in (("passed", "call"), ("passed", "teardown"))]
    for one in (first[0], report("failed", longrepr="slow", worker_id="gw1"), first[1]):
        outcomes.note(one)
    assert outcomes.take(first[1]) == ("passed", "")
    assert outcomes.take(first[1]) == ("", "")
    assert outcomes.take(report("passed", "teardown", worker_id="gw1")) == ("failed", "slow")
    outcomes.note(report("failed", "???", "worker 'gw1' crashed while running 't.py::test_x'"))
    assert outcomes.of(NODE) == ("failed", "worker 'gw1' crashed while running 't.py::test_x'")
    assert outcomes.of("another") == ("", "")


def measured(outcome: Any, message: str = "", config: StorageConfig | None = None, **figures: Any) -> Measurement:
    """A measurement whose test became that."""
    made = make_measurement(config, **(figures or {"iops": (1000.0, 1010.0)}))
    return made.model_copy(update={"outcome": outcome, "message": message})


def test_the_first_line_counts_tests() -> None:
    """Those that measured, cells without a figure, and tests without a row; a test that measured twice is one."""
    twice = measured("failed", "slow", clat=(0.1,))
    run = make_run(measured("failed", "slow"), twice, measured("passed", config=QCOW2))
    assert tally(run) == "1 passed, 1 FAILED"
    run = make_run(measured("", config=QCOW2), measured("error"), failures=[make_failure(StorageConfig(bus="sata"))])
    assert tally(run) == "1 FAILED, 1 ERROR, 1 not reported"
    assert tally(make_run(failures=[make_failure()])) == "1 FAILED"
    without_guest = make_failure(StorageConfig(bus="sata")).model_copy(update={"test_outcome": "error"})
    run = make_run(measured("error"), failures=[without_guest]).model_copy(update={"rowless": ROWLESS})
    assert tally(run) == "1 passed, 1 FAILED, 2 ERRORS"
    # an earlier version says nothing of its tests
    assert tally(make_run(make_measurement())) == ""


ROWLESS = (
    RowlessTest(nodeid="t.py::test_ratio", outcome="failed", message="qcow2 is 0.5 times as fast"),
    RowlessTest(nodeid="t.py::test_boots[raw]", outcome="passed"),
)


def test_a_test_without_a_row_counts_and_is_told() -> None:
    """One between cells marks no cell; it is a row of CSV without a figure, and the summary begins with it."""
    run = make_run(measured("passed"), measured("passed", config=QCOW2)).model_copy(update={"rowless": ROWLESS})
    table = build_table(run)
    assert not any(cell.told for row in table.rows for cell in row.cells)
    markdown = render_markdown(table)
    assert markdown.startswith("## Storage matrix: 3 passed, 1 FAILED\n")
    assert "### failed tests\n\n- t.py::test\\_ratio: qcow2 is 0.5 times as fast" in markdown
    assert "test_boots" not in markdown
    assert list(csv.DictReader(io.StringIO(render_csv(run))))[2:] == [
        {**dict.fromkeys([*HEADER, "round_1", "round_2"], ""), **one.model_dump(), "started": run.started}
        for one in ROWLESS
    ]
    assert json.loads(render_json(run))["rowless"] == [one.model_dump() for one in ROWLESS]
    comparison = compare(run, make_baseline(run), GatePolicy())
    summary = render_summary(run, comparison)
    assert summary.startswith("## VM storage: 1 test FAILED; 2 INCONCLUSIVE against baseline 'main'\n")
    assert "<summary>tests that failed, and why</summary>\n\n- t.py::test\\_ratio: qcow2" in summary


def test_vmstorage_show_tells_what_failed() -> None:
    """Beside the figure of the cell; nothing of one that passed."""
    run = make_run(measured("failed", "slow"), measured("passed", config=QCOW2))
    assert "  test failed: slow" in show_cell(run, "raw-none-virtio-blk-off", "r.json")
    assert not any("passed" in line for line in show_cell(run, "qcow2-none-virtio-blk-off", "r.json"))


def test_what_failed_is_marked_and_said() -> None:
    """In every cell of its test, in terminal and Markdown, with its sentence below; in CSV and JSON in two fields."""
    run = make_run(measured("failed", "assert iops 1005 IOPS > 5k IOPS"), measured("passed", config=QCOW2))
    table = build_table(run)
    assert [row.cells[0].text for row in table.rows] == ["1005 IOPS ±0.5 % FAIL", "1005 IOPS ±0.5 %"]
    assert "FAIL its test failed" in table.legend
    text, markdown = render_text(table, 80), render_markdown(table)
    assert text.startswith("1 passed, 1 FAILED\nhost local, kvm, QEMU 7.2.9, 2 cores, Example CPU 3.0 GHz\nall rows: ")
    assert "raw     1005 ±0.5 FAIL\n" in text
    assert markdown.startswith("## Storage matrix: 1 passed, 1 FAILED\n\nall rows: ")
    assert "| raw | 1005 IOPS ±0.5 % FAIL |" in markdown
    said = "test_random_write on raw-none-virtio-blk-off 1G, local: assert iops 1005 IOPS > 5k IOPS"
    assert f"failed tests:\n  {said[:60]}" in text
    assert "## VM storage: 1 passed, 1 FAILED\n" in render_summary(run)
    first, second = csv.DictReader(io.StringIO(render_csv(run)))
    assert (first["outcome"], first["message"]) == ("failed", "assert iops 1005 IOPS > 5k IOPS")
    assert (second["outcome"], second["message"]) == ("passed", "")
    saved = json.loads(render_json(run))["measurements"][0]
    assert (saved["outcome"], saved["message"]) == ("failed", "assert iops 1005 IOPS > 5k IOPS")
    assert "verdict" not in saved


def test_a_cell_without_a_figure_has_its_outcome_in_csv() -> None:
    """And the first line of its reason."""
    failure = make_failure(reason="No boot.\nconsole")
    for outcome in ("failed", "error"):
        told = failure.model_copy(update={"test_outcome": outcome if outcome == "error" else ""})
        (row,) = csv.DictReader(io.StringIO(render_csv(make_run(failures=[told]))))
        assert (row["outcome"], row["message"]) == (outcome, "No boot.")


def test_the_gates_word_is_in_json_and_is_not_said_twice() -> None:
    """A test that the gate skipped bears INCONCLUSIVE, one that it failed bears both words, and has its own section."""
    now = [measured("skipped", "why", iops=(1000, 1001)), measured("failed", config=QCOW2, iops=(500, 501))]
    then = make_run(make_measurement(iops=(1000, 1001)), make_measurement(QCOW2, iops=(1000, 1001)))
    baseline: Baseline = make_baseline(then)
    comparison = compare(make_run(*now), baseline, GatePolicy(day_spread=0.05))
    (undecided, slower) = comparison.gated
    assert (undecided.kind, slower.kind) == ("INCONCLUSIVE", "SUSPECT")
    run = make_run(now[0], now[1].model_copy(update={"message": slower.reason}))
    table = build_table(run, comparison)
    assert [row.cells[0].text.split()[-1] for row in table.rows] == ["INCONCLUSIVE", "FAIL"]
    assert "SUSPECT FAIL" in table.rows[1].cells[0].text
    titles = [section.title for section in table.sections]
    assert "suspected of a loss" in titles
    assert "failed tests" not in titles
    one, other = json.loads(render_json(run, comparison))["measurements"]
    assert (one["verdict"], other["verdict"]) == ("INCONCLUSIVE", "SUSPECT")
    assert other["verdict_reason"] == slower.reason
    assert other["change"] == pytest.approx(-0.5, abs=0.01)
    assert Run.model_validate_json(render_json(run, comparison)) == run

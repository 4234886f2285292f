"""A saved run as baseline: what got worse is red, what has no counterpart is listed."""

from __future__ import annotations

import json

import pytest
from projects import QCOW2, RANDOM_WRITE, RAW, TWO_CELLS, flat, text_of

JUDGED = ("--vm-baseline=base", "--vm-max-regression=20%", "--vm-day-spread=3%")
"""One saved day is enough where the user says how much days differ."""


@pytest.fixture
def saved(two_cells):
    """A project whose two cells were saved at 10000 IOPS."""
    two_cells.begin_with("--benchmark-save=base")
    two_cells.log()
    return two_cells


def test_a_worse_figure_is_red(saved):
    """The test that got worse by more than tolerated fails with a sentence, in JUnit too; the other passes."""
    saved.wish(speed={"qcow2-*": 0.75, "raw-*": 0.98})
    result = saved.run(*JUDGED, "--vm-confirm", "--junitxml=j.xml")
    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    sentence = "iops of fio randwrite 4k qd32 on qcow2-none-virtio-blk-off 1G is REGRESSED against baseline 'base'"
    # a fresh guest's first round after its warm-up takes 1 % more time in this lab
    assert f"{sentence}: 1 saved day, +34.7 % time per operation (95 % interval +2" in flat(result)
    assert "tolerated 20 %" in flat(result)
    assert " % REGRESSED" in text_of(result)
    assert "-2.0 %" in text_of(result)
    assert "1 REGRESSED, 1 PASS" in text_of(result)
    assert "Traceback" not in text_of(result)
    junit = (saved.path / "j.xml").read_text()
    assert 'failures="1"' in junit
    assert 'skipped="0"' in junit
    assert sentence.replace("'", "&apos;") in junit or sentence in junit


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
def test_what_looks_worse_is_not_green(saved, workers):
    """Without fresh rounds it is a suspect, whose test fails: the reason says what can confirm it; the other passes."""
    saved.wish(speed={"qcow2-*": 0.75, "raw-*": 0.98})
    result = saved.run(*JUDGED, *workers)
    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "1 SUSPECT, 1 PASS" in text_of(result)
    result = saved.run(*JUDGED, *workers, "-rs", "--vm-inconclusive=warn")
    result.assert_outcomes(passed=1, skipped=1)
    assert result.ret == pytest.ExitCode.OK
    assert "1 saved day, +33.3 % time per operation" in flat(result)
    assert "--vm-confirm can confirm it in fresh rounds" in flat(result)
    assert "SKIPPED [1] test_two.py:6: iops of fio" in text_of(result)
    assert "-25.0 % SUSPECT" in text_of(result)


def test_what_cannot_be_said_may_be_a_failure(saved):
    """One saved day alone says nothing, in either policy; with =fail that is red."""
    for policy, outcome in (("warn", {"skipped": 2}), ("fail", {"failed": 2})):
        result = saved.run("--vm-baseline=base", f"--vm-inconclusive={policy}", "-rs")
        result.assert_outcomes(**outcome)
        assert "one day does not say how much days differ" in flat(result)
        assert "2 INCONCLUSIVE" in flat(result)


def test_a_better_figure_is_green_and_said(saved):
    """An improvement passes and stands in the matrix."""
    saved.wish(speed=2.0)
    result = saved.run(*JUDGED)
    result.assert_outcomes(passed=2)
    assert "+100.0 % IMPROVED" in text_of(result)


def test_a_cell_without_counterpart_is_listed(saved):
    """A new cell is listed and does not fail; one that is gone is listed, but not one that was deselected."""
    saved.write(test_two=TWO_CELLS.replace('["raw", "qcow2"]', '["raw"]'), test_new=RANDOM_WRITE + NEW)
    result = saved.run(*JUDGED)
    result.assert_outcomes(passed=1, skipped=1)
    said = flat(result)
    assert "iops of fio randwrite 4k qd32 on raw-unsafe-virtio-blk-off 1G was not compared with baseline 'base'" in said
    assert "the baseline has no such cell" in said
    assert "measured before and not in this run: fio randwrite 4k qd32 on qcow2-none-virtio-blk-off 1G" in said
    saved.write(test_two=TWO_CELLS)
    result = saved.run(*JUDGED, "-k", "raw")
    result.assert_outcomes(passed=1, deselected=2)
    assert "not in this run" not in text_of(result)


NEW = '@pytest.mark.parametrize("cache", ["unsafe"])\ndef test_new(measure): measure(FIO)\n'


def test_a_run_is_not_compared_with_itself(saved):
    """Saved under the baseline's own name, a run is still judged and shown against what was there before."""
    saved.wish(speed=0.5)
    result = saved.run(*JUDGED, "--benchmark-save=base")
    result.assert_outcomes(failed=2)
    assert "-50.0 % SUSPECT" in text_of(result)
    assert len(list(saved.path.glob(".benchmarks/*/*_base.json"))) == 2


def test_a_baseline_by_path_and_from_the_ini_file(saved):
    """The file itself will do, be it pytest-benchmark's or our JSON report, and so will the ini file."""
    saved.run("--vm-report=mine/report.json").assert_outcomes(passed=2)
    (path,) = saved.path.glob(".benchmarks/*/0001_base.json")
    saved.wish(speed={"qcow2-*": 0.5})
    for name in (str(path), "mine/report.json"):
        given = (f"--vm-baseline={name}", "--vm-day-spread=3%", "--vm-confirm")
        saved.run(*given).assert_outcomes(passed=1, failed=1)
    saved.write(pytest__ini="[pytest]\nvm_baseline = base\nvm_max_regression = 300%\nvm_day_spread = 3%\n")
    result = saved.run()
    result.assert_outcomes(passed=2)
    assert "-50.0 %" in text_of(result)


def test_rows_of_other_acceleration_are_not_compared(saved):
    """KVM against TCG is no comparison: the test is skipped, and says why there is no verdict."""
    saved.wish(speed=0.1, accel="tcg")
    result = saved.run(*JUDGED)
    result.assert_outcomes(skipped=2)
    assert "it was saved under kvm and measured under tcg now" in flat(result)


def test_a_failed_cell_is_not_called_missing(saved):
    """A cell whose guest failed is listed as failed, once."""
    saved.wish(boots={"qcow2-*": 0})
    result = saved.run(*JUDGED)
    result.assert_outcomes(passed=1, errors=1)
    assert "not in this run" not in text_of(result)
    assert QCOW2 not in RAW


def test_the_page_has_the_history_of_the_name(two_cells):
    """A day saved before and this run's; a run that is judged and not saved adds none to its baseline."""
    for day in ("2026-01-02", "2026-01-03"):
        two_cells.begin_with("--vm-save=nightly") if day == "2026-01-02" else two_cells.run("--vm-save=nightly")
        newest = max(two_cells.path.glob(".benchmarks/*/*_nightly.json"))
        content = json.loads(newest.read_text())
        content["vmstorage"]["started"] = f"{day}T03:00:00+00:00"
        newest.write_text(json.dumps(content))
    two_cells.run("--vm-baseline=nightly", "--vm-report=r.html", "--vm-report=r.md")
    assert "history of baseline &#x27;nightly&#x27;: 2 days from" in (two_cells.path / "r.html").read_text()
    assert "history of baseline" not in (two_cells.path / "r.md").read_text()
    two_cells.run("--vm-save=nightly", "--vm-report=r.html")
    assert "history of baseline &#x27;nightly&#x27;: 3 days from" in (two_cells.path / "r.html").read_text()
    newest.write_text("{")
    result = two_cells.run("--vm-save=nightly", "--vm-report=r.html")
    assert "the page has no history: the baseline" in flat(result)
    assert "history of baseline" not in (two_cells.path / "r.html").read_text()

"""Plugins that run tests again or in another order, and pytest's own options for it.

Tests of `plugin.entry`, `plugin.session` and `plugin.interleave`.
"""

from __future__ import annotations

import json

import pytest
from plugged import ALL, HEAD, IN_TURNS
from projects import text_of

RED = (
    HEAD
    + """
@CELLS
def test_red(measure, format):
    note(f"before {format}")
    found = measure(FIO)
    note(f"behind {format} {found.iops.values}")
    assert found.iops > 1e9
"""
)
RERUN = ("--reruns=2", "--tb=no", "-rR", "--vm-report=r.json")


def rounds_of(project):
    """What the rows say of their rounds."""
    return [one["hygiene"]["rounds"] for one in json.loads((project.path / "r.json").read_text())["measurements"]]


@pytest.mark.parametrize("plugins", [("rerunfailures",), ALL], ids=["alone", "together"])
def test_each_attempt_measures_anew(project, plugins):
    """An entry that was ended at `measure` is no attempt; the row has the last attempt's figures and says so."""
    project.write(test_it=RED)
    project.wish(noise=0.3)
    result = project.run_with([*plugins, "no:sugar"], *RERUN)
    result.assert_outcomes(failed=2)
    assert "4 rerun" in text_of(result)
    assert text_of(result).count("RERUN test_it.py") == 4
    for cell in ("raw", "qcow2"):
        seen = [line for line in project.notes() if f" {cell}" in line]
        # one to learn, and three attempts
        assert seen.count(f"before {cell}") == 4
        figures = [line for line in seen if line.startswith("behind")]
        assert len(set(figures)) == 3
    assert rounds_of(project) == ["in a row, measured anew in attempt 3"] * 2


def test_attempts_under_xdist_have_one_entry_in_json_report(project):
    """Workers take turns of their own, and the report has each test once."""
    project.write(test_it=RED.replace('"raw", "qcow2"', '"raw", "qcow2", "vdi", "qed"'))
    plugins = ["rerunfailures", "metadata", "pytest_jsonreport"]
    result = project.run_with(plugins, *RERUN, "-n2", "--json-report")
    result.assert_outcomes(failed=4)
    assert "8 rerun" in text_of(result)
    assert rounds_of(project) == ["in a row, measured anew in attempt 3"] * 4
    found = json.loads((project.path / ".report.json").read_text())
    assert len(found["tests"]) == 4
    assert {one["outcome"] for one in found["tests"]} == {"failed"}
    assert all(len(one["user_properties"]) == 6 for one in found["tests"])


def test_a_test_that_fails_once_before_it_measures(project):
    """Its attempts are told, with the rounds of the second one; the other cell's are taken in turns."""
    project.write(
        test_it=HEAD
        + """
FIRST = []
@CELLS
@pytest.mark.parametrize("is_prepared", [False, True])
def test_flaky(measure, request, format, is_prepared):
    assert is_prepared in FIRST or FIRST.append(is_prepared)
    note(len(measure(FIO).samples))

@CELLS
def test_guest(measure, guest, format):
    assert "guest" in FIRST or FIRST.append("guest")
    note(len(measure(FIO).samples))
"""
    )
    result = project.run_with(["rerunfailures"], *RERUN)
    result.assert_outcomes(passed=6)
    assert "3 rerun" in text_of(result)
    assert project.notes() == ["3"] * 6
    anew = [one for one in rounds_of(project) if one == "in a row, measured anew in attempt 2"]
    assert len(anew) == 3


def test_failed_subtests_are_those_of_the_last_attempt(project):
    """The first of two depths fails in each attempt; ending the function at the second one is none."""
    project.write(
        test_it=HEAD
        + """
@CELLS
def test_depths(measure, subtests):
    for depth in (1, 8):
        with subtests.test(depth=depth):
            found = measure(Fio(rw="randread", bs="4k", iodepth=depth, size="32M", runtime=1))
            assert found.iops > (1e9 if depth == 1 else 1)
"""
    )
    result = project.run_with(["rerunfailures"], *RERUN)
    # a subtest and a test in each cell
    result.assert_outcomes(failed=4)
    assert "4 rerun" in text_of(result)


def test_an_order_of_chance_keeps_turns(project):
    """pytest-randomly: cells stay together, and each entry meets the same random numbers."""
    project.write(
        test_it=HEAD
        + """
import random
@CELLS
@pytest.mark.parametrize("depth", [1, 8])
def test_it(measure, format, depth):
    note(f"{format} {depth} {random.random()}")
    measure(FIO)
"""
    )
    project.run_with(["randomly"], "--randomly-seed=4", "--vm-report=r.json").assert_outcomes(passed=4)
    assert all(one.startswith(IN_TURNS) for one in rounds_of(project))
    assert sorted(project.notes()) == sorted(2 * list(set(project.notes())))


def test_a_repeated_test_has_a_row_for_each_time(project):
    """pytest-repeat makes tests of its own, whose rounds are taken in turns."""
    project.write(test_it=HEAD + "@CELLS\ndef test_it(measure):\n    measure(FIO)\n")
    project.run_with(["repeat"], "--count=2", "--vm-report=r.json").assert_outcomes(passed=4)
    rounds = rounds_of(project)
    assert len(rounds) == 4
    assert all(one.startswith(IN_TURNS) for one in rounds)


def test_stepwise_and_last_failed_go_on_with_what_failed(project):
    """A test that fails in its entry to learn or in its report is the one that the next run begins with."""
    project.write(
        test_it=HEAD
        + """
@CELLS
def test_green(measure):
    measure(FIO)

@CELLS
def test_red(measure, format):
    assert measure(FIO).iops > (1e9 if format == "qcow2" else 1)
"""
    )
    for option, others in (("--stepwise", {"passed": 3}), ("--lf", {}), ("--stepwise", {"deselected": 3})):
        result = project.run_with([], option, "--tb=no")
        result.assert_outcomes(failed=1, **others)
        assert "FAILED test_it.py::test_red[qcow2]" in text_of(result)

"""Assertions between cells: when their tests are run, what they see, and what becomes of each outcome.

Tests of `plugin.cell_assertions`.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from projects import RANDOM_WRITE, assert_refused, flat, text_of

MEASURED = (
    RANDOM_WRITE
    + """
from pytest_vmstorage import cell

{tests}

@pytest.mark.parametrize("format", ["raw", "qcow2"])
def test_write(measure):
    measure(FIO)
"""
)
RATIO = """
def test_ratio(assert_ratio):
    assert_ratio(cell("qcow2"), cell("raw"), at_least=0.9)
"""
ROUNDS = "--vm-rounds=6"
SLOW = {"qcow2-*": 0.8}


def project_with(project, tests=RATIO, speed=None):
    """The project with these tests between cells, before those that measure, and qcow2 this fast."""
    project.write(test_it=MEASURED.replace("{tests}", tests))
    project.wish(speed=speed or {})
    return project


def test_one_that_holds_passes_and_is_told(project):
    """With ratio and interval: pytest itself says nothing of what holds."""
    result = project_with(project).run(ROUNDS)
    result.assert_outcomes(passed=3)
    assert "VM storage assertions" in text_of(result)
    assert (
        "HOLDS test_it.py::test_ratio: format=qcow2 is at least 0.9 times as fast as format=raw: it is so; "
        "fio randwrite 4k qd32 on qcow2-none-virtio-blk-off 1G, iops 10k IOPS (9900 IOPS to 10.1k IOPS in 6 rounds), "
        "against raw-none-virtio-blk-off 1G 10k IOPS (9900 IOPS to 10.1k IOPS in 6 rounds): 1 times as fast, "
        "95 % interval 1 to 1 from 6 pairs of rounds" in flat(result)
    )


def test_one_that_does_not_hold_fails(project):
    """With both figures, units, spread, interval, configurations and host, at the line of the test that says it."""
    result = project_with(project, speed=SLOW).run(ROUNDS)
    result.assert_outcomes(passed=2, failed=1)
    text = flat(result)
    for said in (
        "AssertionError: format=qcow2 is at least 0.9 times as fast as format=raw: it is not so",
        "qcow2-none-virtio-blk-off 1G, iops 8000 IOPS (7920 IOPS to 8080 IOPS in 6 rounds)",
        "against raw-none-virtio-blk-off 1G 10k IOPS (9900 IOPS to 10.1k IOPS in 6 rounds)",
        "0.8 times as fast, 95 % interval 0.8 to 0.8 from 6 pairs of rounds",
        "measured on fakehost (Example CPU 3.0 GHz, kvm)",
        "> assert_ratio(cell(",
    ):
        assert said in text
    assert "test_it.py:10: AssertionError" in text
    assert "plugin/cell_assertions.py" not in text


@pytest.mark.parametrize("fixture", ["cells", "assert_ratio"])
def test_both_spellings(project, fixture):
    """The fixture `cells` has all three, and each is one of its own; in several runs of one process."""
    call = "cells.assert_ratio" if fixture == "cells" else "assert_ratio"
    test = RATIO.replace("(assert_ratio)", f"({fixture})").replace("    assert_ratio", f"    {call}")
    for _ in range(2):
        project_with(project, test).run(ROUNDS).assert_outcomes(passed=3)


def test_the_other_two(project):
    """raw is the fastest, and the curve does not fall."""
    tests = """
def test_fastest(assert_fastest):
    assert_fastest(cell("raw"))

def test_curve(assert_monotonic, cells):
    assert_monotonic(axis="iodepth", workload="fio randread*")
    cells.assert_monotonic("iodepth", falling=True, where=cell("qcow2"), workload="fio randread*")

@pytest.mark.parametrize("format", ["raw", "qcow2"])
@pytest.mark.parametrize("iodepth", [1, 8])
def test_read(measure, iodepth):
    measure(Fio(rw="randread", bs="4k", iodepth=iodepth, size="256M", runtime=5))
"""
    result = project_with(project, tests, speed=SLOW).run("--vm-rounds=8")
    result.assert_outcomes(passed=8)
    assert flat(result).count("HOLDS test_it.py::test_curve: no step of iodepth") == 2
    assert "HOLDS test_it.py::test_fastest: format=raw is not slower than any other cell: 3 of 3 couples" in flat(
        result
    )


def test_two_workloads_of_one_cell(project):
    """A dd is 12.6 times as many IOPS as nobody counts, so by the metric that both have; a metric alone is refused."""
    tests = """
def test_across(assert_ratio):
    assert_ratio(cell("raw"), cell("raw"), at_least=1, workload="dd *", other_workload="fio *", other_metric="bw")

def test_no_workload(assert_ratio):
    assert_ratio(cell("raw"), cell("qcow2"), at_least=1, other_metric="bw")

@pytest.mark.parametrize("format", ["raw", "qcow2"])
def test_dd(measure):
    measure(Dd(bs="1M", count=64, oflag="direct"))
"""
    result = project_with(project, tests).run("--vm-rounds=8")
    result.assert_outcomes(passed=5, failed=1)
    assert "HOLDS test_it.py::test_across: dd * with format=raw is at least 1 times as fast as fio * with" in flat(
        result
    )
    assert "other_metric='bw' is of no other workload. Name one by other_workload." in flat(result)


def test_they_are_run_last_in_their_own_order(project):
    """Also those of another file, whose tests pytest met first; others stay where they were."""
    tests = RATIO + RATIO.replace("test_ratio", "test_again") + "\ndef test_plain(): pass\n"
    project_with(project, tests)
    project.write(test_a="from pytest_vmstorage import cell\n" + RATIO)
    names = project.ids()
    assert names == ["test_plain", "test_write[raw]", "test_write[qcow2]", "test_ratio", "test_ratio", "test_again"]
    project.run(ROUNDS).assert_outcomes(passed=6)


@pytest.mark.parametrize("args", [["--vm-rounds=5"], [ROUNDS, "--vm-without=turns"], [ROUNDS, "-k", "ratio or raw"]])
def test_what_nobody_can_say_is_a_skip(project, args):
    """Never a silent pass: too few rounds, rounds in a row, a side that was left out; each says what it would take."""
    result = project_with(project, speed=SLOW).run("-rs", "--junitxml=junit.xml", *args)
    passed = 1 if "-k" in args else 2
    result.assert_outcomes(passed=passed, skipped=1, deselected=2 - passed)
    reason = {
        5: "5 pairs of rounds, and an interval takes 6; at least 6 rounds would tell (--vm-rounds=6 or",
        2: "rounds were taken in a row",
        1: "no cell with format=qcow2 was measured: 1 storage test was deselected",
    }[5 if len(args) == 1 else passed]
    assert "INCONCLUSIVE test_it.py::test_ratio: format=qcow2" in flat(result)
    assert reason in flat(result)
    (skipped,) = ET.parse(project.path / "junit.xml").iter("skipped")
    assert skipped.get("message", "").startswith("INCONCLUSIVE: format=qcow2 is at least 0.9")
    assert reason in skipped.get("message", "")


def test_inconclusive_may_fail(project):
    """By the assertion's own argument."""
    tests = RATIO.replace("at_least=0.9", 'at_least=0.9, inconclusive="fail"')
    result = project_with(project, tests).run("--vm-rounds=5")
    result.assert_outcomes(passed=2, failed=1)
    assert "AssertionError: INCONCLUSIVE: format=qcow2 is at least" in flat(result)


def test_inconclusive_may_fail_by_the_option(project):
    """--vm-inconclusive=fail, as for the gate; the argument is stronger."""
    tests = RATIO + RATIO.replace("test_ratio", "test_warned").replace("0.9", '0.9, inconclusive="warn"')
    result = project_with(project, tests).run("--vm-rounds=5", "--vm-inconclusive=fail")
    result.assert_outcomes(passed=2, failed=1, skipped=1)


def test_an_unknown_policy_is_refused(project):
    """One sentence."""
    tests = RATIO.replace("at_least=0.9", 'at_least=0.9, inconclusive="pass"')
    result = project_with(project, tests).run(ROUNDS)
    result.assert_outcomes(passed=2, failed=1)
    assert "inconclusive='pass' is not known. It is one of: warn, fail." in flat(result)


def test_what_fails_later_in_the_test_fails_it(project):
    """An assertion that nobody can decide does not hide one behind it."""
    tests = """
def test_two(cells):
    cells.assert_ratio(cell("qcow2"), cell("raw"), at_least=0.8001, at_most=1.5)
    cells.assert_ratio(cell("qcow2"), cell("raw"), at_least=0.9)
"""
    speed = {"qcow2-*": [0.75, 0.85]}
    result = project_with(project, tests, speed=speed).run("--vm-rounds=7")
    result.assert_outcomes(passed=2, failed=1)
    assert "INCONCLUSIVE test_it.py::test_two: format=qcow2 is at least 0.8001" in flat(result)
    assert "at least 0.9 times as fast as format=raw: it is not so" in flat(result)


def test_a_cell_that_failed_is_named(project):
    """With its reason."""
    project_with(project)
    project.wish(boots={"qcow2-*": 0})
    result = project.run(ROUNDS, "-rs")
    result.assert_outcomes(passed=1, errors=1, skipped=1)
    assert (
        "no cell with format=qcow2 was measured: qcow2-none-virtio-blk-off 1G has no figure: "
        "guest did not answer: The guest of qcow2-none-virtio-blk-off did not answer" in flat(result)
    )


@pytest.mark.parametrize(
    ("selectors", "sentence"),
    [
        (
            'cell("vdi"), cell("raw")',
            "cannot be said: no cell with format=vdi was measured. Measure what it is about in",
        ),
        ('cell("raw"), cell("none")', "a cell can have both format=raw and cache=none."),
        ('cell("qcwo2"), cell("raw")', "cell('qcwo2'): no axis has such a value by name. Did you mean 'qcow2'?"),
        ('cell("qcow2"), cell("raw"), metric="lat"', "fio randwrite 4k qd32 has no metric 'lat'; it has: iops,"),
        ('cell("qcow2"), cell("raw"), metric="usr_cpu"', "usr_cpu of fio randwrite 4k qd32 is in %, and no speed."),
        (
            'cell("qcow2"), cell("raw"), workload="dd*"',
            "no workload measured matches 'dd*', of: fio randwrite 4k qd32.",
        ),
    ],
)
def test_what_was_never_to_be_measured_is_an_error(project, selectors, sentence):
    """No number of rounds would help: the test fails with one sentence."""
    tests = RATIO.replace('cell("qcow2"), cell("raw")', selectors)
    result = project_with(project, tests).run(ROUNDS)
    result.assert_outcomes(passed=2, failed=1)
    assert sentence in flat(result)


def test_alone_it_has_nothing_to_say(project):
    """Deselected tests are named; without any it is an error."""
    project_with(project)
    result = project.run("-k", "ratio", "-rs")
    result.assert_outcomes(skipped=1, deselected=2)
    assert "this run has measured nothing: 2 storage tests were deselected" in flat(result)
    project.write(test_it="from pytest_vmstorage import cell\n" + RATIO)
    result = project.run()
    result.assert_outcomes(failed=1)
    assert "this run has measured nothing. Measure what it is about in the same run" in flat(result)


@pytest.mark.parametrize("fixture", ["measure", "guest", "storage"])
def test_a_test_that_measures_cannot_assert_between_cells(project, fixture):
    """It has a cell, and is run when others were not measured yet."""
    result = project_with(project, f"def test_both(cells, {fixture}): pass").run()
    assert_refused(result, "A test cannot measure and assert between cells")
    assert project.events == []


FOREIGN = """
import pytest

@pytest.fixture
def cells():
    return 3

def test_a(cells):
    assert cells == 3

def test_b():
    pass
"""


def test_a_fixture_of_that_name_that_is_not_ours(project):
    """Is left alone, and so is the order of its tests."""
    project.write(test_it=FOREIGN)
    assert project.ids() == ["test_a", "test_b"]
    project.run().assert_outcomes(passed=2)


@pytest.mark.parametrize("args", [["-n1"], ["-n2"]])
def test_not_with_several_processes(project, args):
    """A worker does not see what others measured."""
    result = project_with(project).run("-rs", *args)
    result.assert_outcomes(passed=2, skipped=1)
    assert "INCONCLUSIVE: assertions between cells need all of a run in one process" in flat(result)


def test_a_plan_and_a_collection_run_none(project):
    """They have no cell, and are in no plan."""
    project_with(project)
    assert "2 cells, 2 guests, 2 tests" in flat(project.run("--vm-plan"))
    assert "3 tests collected" in flat(project.run("--co", "-q"))


def test_effects_stand_in_the_report(project):
    """Of both forms."""
    result = project_with(project, speed=SLOW).run(
        ROUNDS, "--vm-report=r.md", "--vm-details", "--deselect=test_it.py::test_ratio"
    )
    basis = "raw fastest, qcow2 slowest; 1 couple, 95 % interval 1.25x to 1.25x"
    said = f"format moves fio randwrite 4k qd32 by 1.25x ({basis})"
    assert f"what moves what: {said}" in flat(result)
    assert f"### what moves what\n\n- {said}\n" in (project.path / "r.md").read_text()

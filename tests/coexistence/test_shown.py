"""What pytest prints while tests are entered: nothing of an entry that was ended, and whole lines.

Tests of `plugin.entry` and `plugin.progress_line`.
"""

from __future__ import annotations

from plugged import HEAD
from projects import text_of

LOUD = (
    HEAD
    + """
import logging
@CELLS
def test_it(measure, format):
    print(f"printed {format}")
    logging.getLogger("mine").warning(f"logged {format}")
    measure(FIO)
"""
)


def test_without_a_terminal(project):
    """Exit statuses are as with one."""
    project.write(test_it=LOUD)
    assert project.run_with(["no:terminal"]).ret == 0
    project.write(test_it=LOUD + "    assert 0\n")
    result = project.run_with(["no:terminal"])
    assert result.ret == 1
    assert text_of(result) == ""


def test_output_that_is_not_captured(project):
    """With -s what an entry prints is seen at once, in each of them."""
    project.write(test_it=LOUD)
    result = project.run_with([], "-s")
    result.assert_outcomes(passed=2)
    assert text_of(result).count("printed raw") == 2
    assert text_of(result).count("vmstorage: round") == 3


def test_live_logs_stand_below_their_tests(project):
    """A line of a test is told with its report once; of entries that were ended their own lines alone are."""
    project.write(test_it=LOUD)
    result = project.run_with([], "--log-cli-level=INFO")
    result.assert_outcomes(passed=2)
    assert text_of(result).count("test_it.py::test_it[raw] ") == 1
    assert "PASSED" in text_of(result)


def test_set_ups_are_shown_on_lines_of_their_own(project):
    """Those of both entries; what the plugin says of rounds stands between them."""
    project.write(test_it=LOUD)
    result = project.run_with([], "--setup-show")
    result.assert_outcomes(passed=2)
    lines = [line.strip() for line in result.outlines]
    assert lines.count("SETUP    F measure (fixtures used: storage)") == 4
    assert lines.count("TEARDOWN F measure") == 4
    said = [line for line in lines if line.startswith("vmstorage: round ")]
    assert [line.partition(", about ")[0] for line in said] == [
        f"vmstorage: round {number}, 2 cells in turns" for number in (1, 2, 3)
    ]

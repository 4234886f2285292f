"""Time limits of other plugins guard the user's code in each entry, and not the rounds that are taken between them.

Tests of `plugin.entry` and `plugin.interleave`.
"""

from __future__ import annotations

from collections import Counter

import pytest
from plugged import ALL, HEAD
from projects import text_of

HANGS = HEAD + "@CELLS\ndef test_it(measure, format):\n    note(format)\n    time.sleep(2)\n    measure(FIO)\n"
QUICK = HEAD + "@CELLS\ndef test_it(measure):\n    measure(FIO)\n"


@pytest.mark.parametrize("plugins", [("timeout",), ALL], ids=["alone", "together"])
def test_a_test_that_hangs_before_it_measures_fails_once(project, plugins):
    """In its first entry: three rounds and two cells are no longer than two limits."""
    project.write(test_it=HANGS)
    result = project.run_with([*plugins, "no:sugar"], "--timeout=1", "--tb=line")
    result.assert_outcomes(failed=2)
    assert text_of(result).count("FAILED test_it.py") == 2
    assert Counter(project.notes()) == {"raw": 1, "qcow2": 1}
    assert "vmstorage: round" not in text_of(result)


def test_rounds_in_turns_may_take_longer(project):
    """Four rounds with the warm-up take twice the limit."""
    project.wish(round_s=0.5)
    project.write(test_it=QUICK)
    project.run_with(["timeout"], "--timeout=1").assert_outcomes(passed=2)


def test_faulthandler_dumps_what_hangs_in_an_entry(project):
    """And nothing of rounds that take longer."""
    project.write(test_it=HANGS.replace("sleep(2)", "sleep(0.8)"))
    result = project.run_with([], "-ofaulthandler_timeout=0.4")
    result.assert_outcomes(passed=2)
    # each entry is watched, to learn and to report
    assert text_of(result).count("Timeout (0:00:00.4") == 4
    project.wish(round_s=0.2)
    project.write(test_it=QUICK)
    result = project.run_with([], "-ofaulthandler_timeout=0.4")
    result.assert_outcomes(passed=2)
    assert "Timeout (" not in text_of(result)

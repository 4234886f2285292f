"""The simulation of the history's error rates, run small: what it prints, and what a slip would move far."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[4] / "benchmarks" / "history_simulation.py"
pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="benchmarks are not part of a source distribution")


def test_a_quiet_world_is_told_rightly() -> None:
    """At 3 %: no alarm, every step of 10 % and every creep found, the day in its span, one finding for each cause."""
    words = ("--quick", "--worlds", "iid", "--cv", "3", "--markdown")
    run = subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, check=True, timeout=300)
    told = json.loads(run.stdout.splitlines()[-1])
    (world,) = told["worlds"]
    assert (world["name"], world["cv"], world["jobs"]) == ("iid", 0.03, 4)
    assert world["false_alarm"] <= 0.25
    assert world["found_5"] == world["found_12"] == world["shared_5"] == world["shared_12"] == world["creep"] == 1
    assert world["inside"] == 1
    assert 0.012 < world["day"] < 0.016
    findings = [cause["findings"] for cause in told["causes"]]
    assert len(findings) == 24
    assert sum(findings) / len(findings) < 1.15
    assert f"| iid | 3 | {100 * world['day']:.1f} |" in run.stdout
    assert set(told["speed"]) == {"cells", "days", "seconds", "mib", "findings"}

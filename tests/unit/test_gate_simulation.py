"""The simulation of the gate's error rates, run small: what it prints, and rates that a slip would move far."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gate_simulation.py"
pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="benchmarks are not part of a source distribution")


def simulated(*options: str) -> list[dict[str, Any]]:
    """The worlds of the last line."""
    run = subprocess.run([sys.executable, SCRIPT, *options], capture_output=True, text=True, check=True, timeout=300)
    worlds: list[dict[str, Any]] = json.loads(run.stdout.splitlines()[-1])["worlds"]
    return worlds


def test_quiet_worlds_are_decided_rightly() -> None:
    """At 3 %: no job of 20 alarms, nearly all of 100 losses are found; pytest-benchmark's rule finds half of them."""
    worlds = simulated("--jobs", "20", "--cv", "3", "--worlds", "iid,drift")
    assert [(world["name"], world["cv"], world["jobs"]) for world in worlds] == [("iid", 0.03, 20), ("drift", 0.03, 20)]
    for world in worlds:
        assert world["false_alarm"] == world["false_alarm_mixed"] == 0
        assert world["found_10"] >= 0.95
        assert world["found_20"] == 1
        assert world["false_pass"] <= 0.05
        assert 12 <= world["runs_per_cell"] < 15
        assert 0.3 < world["rules"]["mean:10%"]["found_10"] < 0.7


def test_a_seed_gives_the_same_again() -> None:
    """And another one something else; with noise of 15 % much stays open."""
    options = ("--jobs", "2", "--cv", "15", "--worlds", "boot")
    (first,), (again,), (other,) = simulated(*options), simulated(*options), simulated(*options, "--seed", "2")
    assert first == again != other
    assert first["inconclusive"] > 0.5
    assert first["rules"]["saved mean:10%"]["false_alarm"] == 1

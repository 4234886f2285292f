"""The simulation of the gate's error rates, run small: what it prints, and rates that a slip would move far."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[4] / "benchmarks" / "gate_simulation.py"
DATA = SCRIPT.parent / "data"
pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="benchmarks are not part of a source distribution")


def simulated(*options: str) -> list[dict[str, Any]]:
    """The worlds of the last line."""
    run = subprocess.run([sys.executable, SCRIPT, *options], capture_output=True, text=True, check=True, timeout=300)
    worlds: list[dict[str, Any]] = json.loads(run.stdout.splitlines()[-1])["worlds"]
    return worlds


def test_quiet_worlds_are_decided_rightly() -> None:
    """At 3 %: no job of 20 alarms, nearly all of 100 losses are found; pytest-benchmark's rule finds half of them."""
    worlds = simulated("--jobs", "20", "--cv", "3", "--worlds", "iid,drift,outliers")
    assert [world["name"] for world in worlds] == ["iid", "drift", "outliers"]
    for world in worlds:
        assert (world["cv"], world["jobs"]) == (0.03, 20)
        assert world["false_alarm"] == world["false_alarm_mixed"] == 0
        assert world["found_10"] >= 0.95
        assert world["found_20"] >= 0.98
        assert world["false_pass"] <= 0.05
        assert 12 <= world["runs_per_cell"] < (22 if world["name"] == "outliers" else 15)
        assert 0.3 < world["rules"]["mean:10% fresh guests"]["found_10"] < 0.7
    # a fifth of the cells has an outlier more now than then, or then than now
    assert 0.1 < worlds[-1]["rules"]["mean:10% fresh guests"]["cell"] < 0.3
    assert worlds[-1]["rules"]["mean:10% as used"]["job"] == 1


def test_drift_and_few_rounds_decide_nothing_falsely() -> None:
    """Against saved days at 8 %: few false alarms and passes, and one round against one day decides nothing."""
    names = (
        "drifting rounds of 8 days,1 round of 8 days,1 round of a day and its spread,3 rounds of a day and its spread"
    )
    options = ("--jobs", "8", "--cv", "8", "--worlds", names, "--markdown")
    run = subprocess.run([sys.executable, SCRIPT, *options], capture_output=True, text=True, check=True, timeout=300)
    worlds = {world["name"]: world for world in json.loads(run.stdout.splitlines()[-1])["of_days"]}
    assert list(worlds) == names.split(",")
    for world in worlds.values():
        # of 8 jobs and 40 cells; docs/explanation/gate.md has more of them
        assert world["false_alarm"] <= 0.15
        assert world["false_pass"] <= 0.08
        assert world["found_25"] + world["green_25"] < 1
        assert f"| {world['name']} | 8 |" in run.stdout
    one = worlds["1 round of a day and its spread"]
    assert one["passed"] < 0.02
    assert worlds["drifting rounds of 8 days"]["green_25"] < 0.2


def test_a_seed_gives_the_same_again() -> None:
    """In one process or two; and another seed something else; with noise of 15 % much stays open."""
    options = ("--jobs", "2", "--cv", "15", "--worlds", "boot")
    (first,), (again,), (other,) = (simulated(*options, *more) for more in (("--workers", "1"), (), ("--seed", "2")))
    assert first == again != other
    assert first["inconclusive"] > 0.5
    assert first["rules"]["mean:10% as used"]["job"] == 1


def test_recorded_runs_are_a_world() -> None:
    """Its noise is that of the recordings, and there are no other days in it."""
    (world,) = simulated("--jobs", "4", "--worlds", "real busy", "--markdown")
    assert 0.01 < world["cv"] < 0.4
    assert world["saved"] is None
    assert world["found_20"] > 0.5
    assert world["passed"] + world["inconclusive"] == pytest.approx(1, abs=0.01)


def test_what_is_recorded_can_be_resampled() -> None:
    """At least 40 runs of each job over all recordings, each in a guest of its own, and nothing of the machine."""
    texts = [path.read_text() for path in sorted(DATA.glob("noise-*.json"))]
    counts: Counter[str] = Counter()
    for text in texts:
        recording = json.loads(text)
        assert recording["note"]
        orders = [run["order"] for job in recording["jobs"] for run in job["runs"]]
        assert sorted(orders) == list(range(1, len(orders) + 1))
        for job in recording["jobs"]:
            assert job["runs"] == sorted(job["runs"], key=lambda run: run["started"])
            assert min(run["value"] for run in job["runs"]) > 0
            counts[job["label"]] += len(job["runs"])
        assert "/" not in "".join(map(str, (*recording["host"].values(), recording["note"], recording["cell"])))
    assert min(counts.values()) >= 40

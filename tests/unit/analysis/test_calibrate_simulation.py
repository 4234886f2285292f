"""The simulation of calibrated hosts, run small: what it prints, and rates that a slip would move far."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "calibrate_simulation.py"
pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="benchmarks are not part of a source distribution")


def simulated(*options: str) -> dict[tuple[str, float, float], dict[str, Any]]:
    """The rates by world, cv and bend."""
    run = subprocess.run([sys.executable, SCRIPT, *options], capture_output=True, text=True, check=True, timeout=120)
    rows = json.loads(run.stdout.splitlines()[-1])["rates"]
    assert all(row["accepted"] + row["refused"] + row["open"] == pytest.approx(1, abs=0.001) for row in rows)
    first, where = rows[0], f"{rows[0]['world']}, {rows[0]['cv'] * 100:.1f} %"
    shares = f"{first['accepted'] * 100:.1f} / {first['refused'] * 100:.1f}"
    assert re.search(rf"^\| {re.escape(where)} \| [\d.]+ \| {re.escape(shares)} \|", run.stdout, re.MULTILINE)
    return {(row["world"], row["cv"], row["bent"]): row for row in rows}


def test_quiet_hosts_are_told_apart_and_noisy_ones_stay_open() -> None:
    """Unbent: accepted; bent by 3 and 5 %: refused, hardly one accepted; at the margin one in twenty at most."""
    found = simulated("--hosts", "200", "--worlds", "iid,boot", "--cv", "0.5,8", "--markdown")
    for world in ("iid", "boot"):
        assert found[world, 0.005, 0.0]["accepted"] > 0.9
        assert found[world, 0.005, 0.0]["refused"] == 0
        # two workloads, of which each has the risk: both are seldom taken for equal
        assert found[world, 0.005, 0.02]["accepted"] <= 0.05
        assert found[world, 0.005, 0.02]["refused"] <= 0.15
        assert found[world, 0.005, 0.03]["accepted"] <= 0.005
        assert found[world, 0.005, 0.05]["accepted"] == 0
        assert found[world, 0.005, 0.05]["refused"] > 0.9
        assert found[world, 0.08, 0.0]["pairs"] == 40
        assert found[world, 0.08, 0.0]["open"] > 0.8
        assert found[world, 0.08, 0.05]["accepted"] <= 0.02


def test_a_seed_gives_the_same_again() -> None:
    """And another one something else."""
    options = ("--hosts", "50", "--worlds", "drift", "--cv", "1", "--bent", "1", "--markdown")
    first, again, other = (simulated(*options, "--seed", seed) for seed in ("1", "1", "2"))
    assert first == again != other

"""The example of a workload of one's own, in a real guest, as a user would run it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_workload"


def test_the_example_measures_copies_that_reach_the_disk(tmp_path: Path) -> None:
    """On each file system as many bytes as the file has are read and written, and each round took its time."""
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(EXAMPLE), f"--vm-report={report}"]
    done = subprocess.run(
        [*command, "-k", "none", "--vm-rounds=2", f"--rootdir={tmp_path}"],
        capture_output=True, text=True, check=False, timeout=400, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(report.read_text())["measurements"]
    assert {row["config"]["guest_fs"] for row in rows} == {"ext4", "xfs"}
    assert {row["workload"] for row in rows} == {"Copy mib=32"}
    for sample in (sample for row in rows for sample in row["samples"]):
        assert 0.001 < sample["figures"]["seconds"] <= sample["seconds"]
        assert sample["moved"]["guest_read_bytes"] >= 32 * 2**20
        assert sample["moved"]["guest_written_bytes"] >= 32 * 2**20

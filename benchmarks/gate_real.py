"""The gate on real guests: the same stack against itself ten times over, and one that is slower by a known loss.

Each run is a pytest run of its own with --vm-against. Against itself: the other side has 4 MiB more memory and nothing
else, so each REGRESSED is a false alarm. Slower: libvirt's <iotune> lets one side do 400 I/O operations a second and
the other 500, so that each takes a quarter longer. The last line is JSON: `false_alarms` and `verdicts` of `runs`
against itself, and for the slowed cell `verdict`, `loss` with its interval `loss_low`, `loss_high`, and `true_loss`.

    python benchmarks/gate_real.py [--runs 10]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from pytest_vmstorage.analysis.gate.by_pairs import compare_pairs
from pytest_vmstorage.analysis.gate.policy import GatePolicy
from pytest_vmstorage.analysis.gate.verdicts import Verdict
from pytest_vmstorage.results.run import Run

TEST = """
import pytest
from pytest_vmstorage import Fio

@pytest.mark.storage(size="64M"{fields})
def test_randread(measure):
    measure(Fio(rw="randread", bs="4k", iodepth=4, size="32M", runtime=1))
"""

TRUE_LOSS = 500 / 400 - 1


def judged(fields: str, recipe: str) -> Verdict:
    """One run of the test with such fields of its cell, against the recipe."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_gate.py").write_text(TEST.format(fields=fields))
        report = Path(folder) / "run.json"
        argv = [sys.executable, "-m", "pytest", "-q", f"--vm-against={recipe}", f"--vm-report={report}"]
        done = subprocess.run(
            [*argv, "-p", "no:cacheprovider"], cwd=folder, check=False, capture_output=True, text=True
        )
        if not report.exists():
            sys.exit(f"pytest ended with status {done.returncode}.\n{done.stdout}{done.stderr}")
        return compare_pairs(Run.model_validate_json(report.read_text()), GatePolicy()).gated[0]


def main() -> None:
    """Run all and print what came of it."""
    parser = argparse.ArgumentParser(description="the gate on real guests")
    parser.add_argument("--runs", type=int, default=10, help="runs against itself (default: 10)")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    for number in range(1, arguments.runs + 1):
        begin = time.monotonic()
        found = judged("", "memory=516M")
        counts[found.kind.value] += 1
        print(f"run {number}, {time.monotonic() - begin:.0f} s: {found.reason}", flush=True)
    slowed = judged(", total_iops_sec=400", "total_iops_sec=500")
    print(f"slowed: {slowed.reason}")
    finding = slowed.finding
    interval = finding.interval if finding else None
    line = {
        "runs": arguments.runs,
        "false_alarms": counts["REGRESSED"],
        "verdicts": dict(counts),
        "verdict": slowed.kind.value,
        "loss": round(finding.loss, 4) if finding and finding.loss is not None else None,
        "loss_low": round(interval.low, 4) if interval else None,
        "loss_high": round(interval.high, 4) if interval else None,
        "true_loss": TRUE_LOSS,
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()

"""Time outside of workloads over the time in them, for a whole published matrix of 180 measurements.

The matrix is that of examples/studies/test_proxmox4.py: 2 formats, 5 cache modes and 2 buses, each with 8 fio jobs and
ioping, scaled to windows of 2 s and files of 256 MiB (STUDY=scaled), in a pytest run of its own. Time in workloads is
what the tools took, from the order to start one until its output is here; all else of the run's wall time is overhead:
collection, guests, filling, dropping of caches, proofs, teardown, report, and saving guests from which others are
restored where no earlier run left them. The last line is JSON: `overhead` (a fraction), `measurements`.

    python benchmarks/overhead.py [-k EXPRESSION] [--boot fresh]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pytest_vmstorage.results import Run

STUDY = Path(__file__).parents[1] / "examples" / "studies" / "test_proxmox4.py"


def main() -> None:
    """Run the matrix and print the fraction."""
    parser = argparse.ArgumentParser(description="time outside of workloads over the time in them")
    parser.add_argument("-k", default="fio or ioping", help="which tests, as pytest has it (default: all with a guest)")
    parser.add_argument("--boot", choices=("restore", "fresh"), help="how guests begin (default: the plugin's)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "run.json"
        argv = [sys.executable, "-m", "pytest", str(STUDY), "-q", "-k", arguments.k, f"--vm-report={report}"]
        argv += [f"--vm-boot={arguments.boot}"] if arguments.boot else []
        begin = time.monotonic()
        done = subprocess.run(
            [*argv, "-p", "no:cacheprovider"], env={**os.environ, "STUDY": "scaled"}, cwd=folder, check=False
        )
        wall = time.monotonic() - begin
        if done.returncode:
            sys.exit(f"pytest ended with status {done.returncode}.")
        run = Run.model_validate_json(report.read_text())
    within = sum(sample.seconds for measured in run.measurements for sample in measured.samples)
    line = {
        "overhead": round((wall - within) / within, 4),
        "measurements": len(run.measurements),
        "wall_s": round(wall, 1),
        "workloads_s": round(within, 1),
        "boot": sorted({measured.hygiene["boot"] for measured in run.measurements}),
        "accel": run.hosts[0].accel,
    }
    sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()

"""Time outside of workloads over the time in them, for a whole published matrix of 180 measurements.

The matrix is that of examples/studies/test_proxmox4.py: 2 formats, 5 cache modes and 2 buses, each with 8 fio jobs and
ioping, scaled to windows of 2 s and files of 256 MiB (STUDY=scaled), in a pytest run of its own. Time in workloads is
what the tools took, from the order to start one until its output is here; all else of the run's wall time is overhead:
collection, guests, filling, dropping of caches, proofs, teardown, report.

A run of two cells goes before it, one on each bus: what is made once on a host, the appliance, and once in each of its
boots, the saved guests from which others are restored, is made there. It is told, and not counted. Before
the last line stands where the time went, by step and by cell. The last line is JSON: `overhead` and `unaccounted`
(fractions), `measurements`, `by_step` (seconds), `first_run_s` (what that run took in all).

    python benchmarks/overhead.py [-k EXPRESSION] [--boot fresh] [--accel kvm]
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

from pytest_vmstorage.report.time_spent import time_lines
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.results.timeline import by_step

STUDY = Path(__file__).parents[1] / "examples" / "studies" / "test_proxmox4.py"

FIRST = "ioping and raw and none"
"""One measurement on each bus."""


def measured(tests: str, boot: str | None, accel: str) -> tuple[Run, float]:
    """What pytest measured in those tests, and how many seconds it took in all; exits where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "run.json"
        argv = [sys.executable, "-m", "pytest", str(STUDY), "-q", "-k", tests]
        argv += [f"--vm-report={report}", f"--vm-accel={accel}"]
        argv += [f"--vm-boot={boot}"] if boot else []
        begin = time.monotonic()
        done = subprocess.run(
            [*argv, "-p", "no:cacheprovider"], env={**os.environ, "STUDY": "scaled"}, cwd=folder, check=False
        )
        wall_s = time.monotonic() - begin
        if done.returncode:
            sys.exit(f"pytest ended with status {done.returncode}.")
        return Run.model_validate_json(report.read_text()), wall_s


def main() -> None:
    """Run the matrix and print the fraction."""
    parser = argparse.ArgumentParser(description="time outside of workloads over the time in them")
    parser.add_argument("-k", default="fio or ioping", help="which tests, as pytest has it (default: all with a guest)")
    parser.add_argument("--boot", choices=("restore", "fresh"), help="how guests begin (default: the plugin's)")
    parser.add_argument("--accel", choices=("auto", "kvm", "tcg"), default="auto")
    arguments = parser.parse_args()
    _, first_s = measured(FIRST, arguments.boot, arguments.accel)
    run, wall = measured(arguments.k, arguments.boot, arguments.accel)
    within = sum(sample.seconds for one in run.measurements for sample in one.samples)
    steps = by_step(run.timelines)
    line = {
        "overhead": round((wall - within) / within, 4),
        "unaccounted": round((wall - sum(steps.values())) / wall, 4),
        "by_step": {step: round(seconds, 2) for step, seconds in steps.items()},
        "measurements": len(run.measurements),
        "wall_s": round(wall, 1),
        "workloads_s": round(within, 1),
        "boot": sorted({one.hygiene["boot"] for one in run.measurements}),
        "accel": run.hosts[0].accel,
        "first_run_s": round(first_s, 1),
    }
    sys.stdout.write("\n".join([*time_lines(run.timelines), json.dumps(line)]) + "\n")


if __name__ == "__main__":
    main()

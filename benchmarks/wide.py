"""Time outside of workloads over the time in them where a matrix is wide: many cells, and few measurements in each.

2 formats, 3 cache modes and the 6 common buses are 36 cells; one fio of 1 s each, in 3 rounds and a warm-up. Time in
workloads is what the tools took in rounds and warm-ups; all else of the process's wall time is overhead. The times are
those that the run itself saved, and its wall time is taken from outside, so that `unaccounted` is what no step of the
run took of the time that its user waited.

A run of one cell on each bus goes before it, in which is made what is made once on a host and in each of its boots; it
is told, and not counted. The last line is JSON: `overhead` and `unaccounted` (fractions), `cells`, `by_step` (seconds).

    python benchmarks/wide.py [-k EXPRESSION] [--boot fresh] [--timeline FILE]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pytest_vmstorage.report.time_spent import time_lines
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.results.timeline import by_step

TEST = """
import pytest
from pytest_vmstorage import Fio

@pytest.mark.parametrize("format", ["raw", "qcow2"])
@pytest.mark.parametrize("cache", ["none", "writeback", "unsafe"])
@pytest.mark.parametrize("bus", ["virtio-blk", "virtio-scsi", "ide", "sata", "usb", "nvme"])
@pytest.mark.storage(size="128M")
def test_random_read(measure):
    measure(Fio(rw="randread", bs="4k", iodepth=4, size="64M", runtime=1, time_based=True), rounds=3, warmup=1)
"""

FIRST = "raw and none"
"""One cell on each bus."""

WORKLOADS = ("window", "warm-up")


def measured(tests: str, boot: str | None, timeline: Path | None = None) -> tuple[Run, float]:
    """What pytest measured in those tests, and how many seconds its process took; exits where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_wide.py").write_text(TEST)
        report = Path(folder, "run.json")
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--vm-report={report}"]
        argv += [*(["-k", tests] if tests else []), *([f"--vm-boot={boot}"] if boot else [])]
        argv += [f"--vm-timeline={timeline.absolute()}"] if timeline else []
        begin = time.monotonic()
        done = subprocess.run(argv, cwd=folder, check=False)
        wall_s = time.monotonic() - begin
        if done.returncode:
            sys.exit(f"pytest ended with status {done.returncode}.")
        return Run.model_validate_json(report.read_text()), wall_s


def main() -> None:
    """Run the matrix; print the run's own tables of time, and the fractions."""
    parser = argparse.ArgumentParser(description="time outside of workloads over the time in them, many cells")
    parser.add_argument("-k", default="", help="which cells, as pytest has it (default: all)")
    parser.add_argument("--boot", choices=("restore", "fresh"), help="how guests begin (default: the plugin's)")
    parser.add_argument("--timeline", type=Path, help="file for the run's --vm-timeline")
    arguments = parser.parse_args()
    _, first_s = measured(FIRST, arguments.boot)
    run, wall_s = measured(arguments.k, arguments.boot, arguments.timeline)
    steps = by_step(run.timelines)
    within = sum(steps.get(step, 0.0) for step in WORKLOADS)
    line = {
        "overhead": round((wall_s - within) / within, 4),
        "cells": len({one.config for one in run.measurements}),
        "unaccounted": round((wall_s - sum(steps.values())) / wall_s, 4),
        "by_step": {step: round(seconds, 2) for step, seconds in steps.items()},
        "wall_s": round(wall_s, 1),
        "workloads_s": round(within, 1),
        "boot": sorted({one.hygiene["boot"] for one in run.measurements}),
        "accel": run.hosts[0].accel,
        "first_run_s": round(first_s, 1),
    }
    sys.stdout.write("\n".join([*time_lines(run.timelines), json.dumps(line)]) + "\n")


if __name__ == "__main__":
    main()

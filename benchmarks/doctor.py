"""How long `vmstorage doctor` takes on this machine, whose acceleration is known by then; it boots no guest.

The last line is JSON: `median_s`, `min_s`, `max_s` of the runs.

    python benchmarks/doctor.py [--runs 5]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time


def doctor_seconds() -> float:
    """Seconds from start to end of the command, with a folder of its own to try things in."""
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-m", "pytest_vmstorage.cli.command", "doctor", "--vm-dir", folder]
        begin = time.monotonic()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - begin


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="how long vmstorage doctor takes")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    # the first one may boot a guest to find the acceleration
    doctor_seconds()
    seconds = [doctor_seconds() for _ in range(arguments.runs)]
    line = {"median_s": statistics.median(seconds), "min_s": min(seconds), "max_s": max(seconds)}
    sys.stdout.write(json.dumps({name: round(value, 2) for name, value in line.items()}) + "\n")


if __name__ == "__main__":
    main()

"""The gate by saved days on real guests: a disk that lost a quarter, and runs of one round in which nothing changed.

Two guests, qcow2 and raw, whose disks QEMU's block_set_io_throttle holds at 1000 I/O operations a second, behind the
plugin's back: no cell has a limit. A run of 8 rounds is saved, and then run `--runs` times with the qcow2 disk held at
750, so that each operation takes a third longer, and the gate's defaults with --vm-confirm and a day spread of 2 %.
Beside it as many runs of one round each against a saved one, with nothing changed: there no verdict is due.

The last line is JSON: `throttled` and `unchanged` count the verdicts of the throttled cell and of the cells of
unchanged runs, `raw` those of the cell beside the throttled one, `exits` the exit statuses of pytest in both.

    python benchmarks/gate_throttled.py [--runs 10]
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

CONFTEST = """
import os
from pytest_vmstorage.lab.environments import GuestEnvironment

LIMITS = dict.fromkeys(("bps", "bps_rd", "bps_wr", "iops_rd", "iops_wr"), 0)
begin = GuestEnvironment.__init__

def throttled(self, guest, services):
    # here the guest is proven, and no round has begun
    monitor = guest.machine.domain.monitor
    device = next(one["qdev"] for one in monitor("query-block") if "ua-test" in one["qdev"])
    iops = int(os.environ["IOPS_" + guest.config.format.upper()])
    monitor("block_set_io_throttle", id=device, iops=iops, **LIMITS)
    begin(self, guest, services)

GuestEnvironment.__init__ = throttled
"""

TEST = """
import pytest
from pytest_vmstorage import Fio

@pytest.mark.parametrize("format", ["qcow2", "raw"])
@pytest.mark.storage(size="64M")
def test_randread(measure):
    measure(Fio(rw="randread", bs="4k", iodepth=4, size="16M", runtime=1, time_based=True))
"""

HELD_AT = 1000
LOST_AT = 750


def pytest_run(folder: Path, *options: str, qcow2: int = HELD_AT) -> tuple[int, dict[str, str]]:
    """One run in the folder: pytest's exit status, and of each format the verdict on its primary figure."""
    report = folder / "report.csv"
    report.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--vm-report={report}", *options]
    limits = {"IOPS_QCOW2": str(qcow2), "IOPS_RAW": str(HELD_AT)}
    done = subprocess.run(argv, cwd=folder, env=os.environ | limits, check=False, capture_output=True, text=True)
    if not report.exists():
        sys.exit(f"pytest ended with status {done.returncode}.\n{done.stdout}{done.stderr}")
    with report.open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "iops"]
    if len(rows) != 2:
        sys.exit(f"There are {len(rows)} cells, not 2.\n{done.stdout}{done.stderr}")
    return done.returncode, {row["format"]: row["verdict"] for row in rows}


def main() -> None:
    """Save, run, and print what came of it."""
    parser = argparse.ArgumentParser(description="the gate by saved days on real guests")
    parser.add_argument("--runs", type=int, default=10, help="runs of each kind (default: 10)")
    count = parser.parse_args().runs
    throttled: Counter[str] = Counter()
    raw: Counter[str] = Counter()
    unchanged: Counter[str] = Counter()
    exits: dict[str, Counter[int]] = {"throttled": Counter(), "unchanged": Counter()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "test_gate.py").write_text(TEST)
        pytest_run(folder, "--vm-save=eight", "--vm-rounds=8")
        pytest_run(folder, "--vm-save=one", "--vm-rounds=1")
        eight = ("--vm-baseline=eight", "--vm-rounds=8", "--vm-confirm", "--vm-day-spread=2%")
        one = ("--vm-baseline=one", "--vm-rounds=1", "--vm-day-spread=2%")
        for number in range(1, count + 1):
            begin = time.monotonic()
            status, found = pytest_run(folder, *eight, qcow2=LOST_AT)
            throttled[found["qcow2"]] += 1
            raw[found["raw"]] += 1
            exits["throttled"][status] += 1
            status, same = pytest_run(folder, *one)
            unchanged.update(same.values())
            exits["unchanged"][status] += 1
            print(f"run {number}, {time.monotonic() - begin:.0f} s: throttled {found}, unchanged {same}", flush=True)
    print(json.dumps({"runs": count, "throttled": throttled, "raw": raw, "unchanged": unchanged, "exits": exits}))


if __name__ == "__main__":
    main()

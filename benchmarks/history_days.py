"""Saved days of real guests with one injected cause, as data for a test of the history.

Each day is a run of its own: four guests (raw and qcow2, on two buses), whose disks QEMU's block_set_io_throttle holds
at 400 I/O operations a second, behind the plugin's back: no cell has a limit. From the eighth day on those on
virtio-scsi are held at 300. The clock and one fingerprint are set: the n-th run is dated to the n-th day, and from the
eighth day on QEMU's version is another one. Raw outputs, series and proofs are left out of what is kept.

    python benchmarks/history_days.py FOLDER [--days 14]
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pytest_vmstorage.results.packed import json_lines, pack_run
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.results.saved import load_baseline

CONFTEST = """
import os
from pytest_vmstorage.lab.environments import GuestEnvironment

LIMITS = dict.fromkeys(("bps", "bps_rd", "bps_wr", "iops_rd", "iops_wr"), 0)
begin = GuestEnvironment.__init__

def throttled(self, guest, services):
    # here the guest is proven, and no round has begun
    monitor = guest.machine.domain.monitor
    device = next(one["qdev"] for one in monitor("query-block") if "ua-test" in one["qdev"])
    is_slower = os.environ["SLOWER"] == guest.config.bus
    monitor("block_set_io_throttle", id=device, iops=300 if is_slower else 400, **LIMITS)
    begin(self, guest, services)

GuestEnvironment.__init__ = throttled
"""

TEST = """
import pytest
from pytest_vmstorage import Fio

@pytest.mark.parametrize("bus", ["virtio-blk", "virtio-scsi"])
@pytest.mark.parametrize("format", ["raw", "qcow2"])
@pytest.mark.storage(size="64M")
def test_randread(measure):
    measure(Fio(rw="randread", bs="4k", iodepth=4, size="16M", runtime=1, time_based=True), rounds=1, warmup=0)
"""

FIRST = datetime.date(2026, 10, 1)
CHANGED = 7
"""The first day of the cause, from 0."""


def one_day(folder: Path, number: int) -> str:
    """A day's run as it is kept."""
    limits = {"SLOWER": "virtio-scsi" if number >= CHANGED else ""}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--vm-save=nightly"]
    done = subprocess.run(argv, cwd=folder, env=os.environ | limits, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"pytest ended with status {done.returncode}.\n{done.stdout}{done.stderr}")
    run = load_baseline("nightly", folder / ".benchmarks").run
    version = {"qemu": f"{run.hosts[0].qemu}+1"} if number >= CHANGED else {}
    slim = {"raw": "", "series": None, "warm_ups": ()}
    measured = [
        m.model_copy(update={"samples": tuple(one.model_copy(update=slim) for one in m.samples), "proof": ()})
        for m in run.measurements
    ]
    begin = f"{FIRST + datetime.timedelta(number)}T03:00:00+00:00"
    kept = run.model_copy(
        update={
            "started": begin,
            "hosts": tuple(host.model_copy(update=version) for host in run.hosts),
            "measurements": tuple(measured),
            "timelines": (),
        }
    )
    return json_lines({"datetime": begin, "benchmarks": [], "vmstorage": pack_run(kept.model_dump(mode="json"))})


def main() -> None:
    """Measure the days and keep them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--days", type=int, default=14)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "conftest.py").write_text(CONFTEST)
        (Path(name) / "test_days.py").write_text(TEST)
        for number in range(arguments.days):
            text = one_day(Path(name), number)
            (arguments.folder / f"{number + 1:04}_nightly.json").write_text(text, encoding="utf-8")
            kept = Run.model_validate(json.loads(text)["vmstorage"])
            told = ", ".join(f"{m.config.label} {m.figure('iops')}" for m in kept.measurements)
            print(f"day {number + 1}: {told}", flush=True)


if __name__ == "__main__":
    main()

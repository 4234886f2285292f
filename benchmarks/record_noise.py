"""Records how much real guests differ: the same few fio jobs again and again, each run in a fresh guest of its own.

Each repeat has every job once, in random order. A run is: boot a guest, make and fill its disk, forget what is
cached, half a second that is not counted, one window that is; then the guest goes. The file is written after each
repeat, so that an end in the middle loses nothing. The last line is JSON: for each job the spread of its runs, and of
runs in a row.

    python benchmarks/record_noise.py NAME --note TEXT [--repeats 40] [--minutes 15] [--seed 1] [--accel tcg]

writes benchmarks/data/noise-NAME.json, which `gate_simulation.py` then resamples as its world "real NAME".
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import time
from collections.abc import Mapping
from pathlib import Path

from recorded_noise import DATA, RecordedJob, RecordedRun, Recording

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.lab.opening import open_lab
from pytest_vmstorage.measure.runner import measure
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.results.run import Measurement
from pytest_vmstorage.workloads.fio.fio import Fio

CELL = StorageConfig(format="raw", cache="none", bus="virtio-blk", size=256 * 2**20)
PLAN = Plan(rounds=1, warmup=0)
RAMP_S = 0.5
WINDOW_S = 1
JOBS = (
    Fio(rw="randread", bs="4k", iodepth=16, size="64M", ramp_time=RAMP_S, runtime=WINDOW_S, time_based=True),
    Fio(rw="randwrite", bs="4k", iodepth=16, size="64M", ramp_time=RAMP_S, runtime=WINDOW_S, time_based=True),
    Fio(rw="read", bs="1M", iodepth=4, size="64M", ramp_time=RAMP_S, runtime=WINDOW_S, time_based=True),
)


class Recorder:
    """Runs jobs in fresh guests and keeps each one's figures, in order."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._guest: Mapping[str, str] = {}
        self._order = 0
        self._runs: dict[Fio, list[RecordedRun]] = {job: [] for job in JOBS}

    def run(self, job: Fio) -> None:
        """One more run of that job."""
        lab = self._lab
        with lab.alone():
            lab.drop()
            measured = measure(lab.environment(CELL), job, PLAN)
        self._order += 1
        self._guest = measured.guest
        self._runs[job].append(_recorded(measured, self._order))

    def recording(self, date: str, note: str, seed: int) -> Recording:
        """All runs so far."""
        facts = self._lab.facts
        host = facts.model_dump(
            include={"cpu", "cores", "memory_bytes", "kernel", "governor", "qemu", "libvirt", "accel", "file_system"}
        )
        jobs = tuple(
            RecordedJob(
                label=job.label,
                options=job.model_dump(exclude_unset=True),
                metric=next(metric for metric in job.metrics if metric.name == job.primary),
                runs=tuple(runs),
            )
            for job, runs in self._runs.items()
        )
        plan: dict[str, str | float] = {
            "order": "random within each repeat",
            "seed": seed,
            "ramp_s": RAMP_S,
            "window_s": WINDOW_S,
        }
        return Recording(date=date, note=note, cell=str(CELL), plan=plan, host=host, guest=dict(self._guest), jobs=jobs)


def _recorded(measured: Measurement, order: int) -> RecordedRun:
    (sample,) = measured.samples
    return RecordedRun(order=order, started=sample.started, value=sample.figures[measured.primary])


def record(lab: Lab, path: Path, options: argparse.Namespace) -> Recording:
    """So many repeats, or as many as there is time for; the file has all whole ones."""
    draw, begin = random.Random(options.seed), time.monotonic()
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    recorder = Recorder(lab)
    for repeat in range(1, options.repeats + 1):
        for job in draw.sample(JOBS, len(JOBS)):
            recorder.run(job)
        found = recorder.recording(date, options.note, options.seed)
        path.write_text(found.model_dump_json(indent=1) + "\n")
        minutes = (time.monotonic() - begin) / 60
        print(f"repeat {repeat}/{options.repeats}, {minutes:.1f} minutes", flush=True)
        if minutes * (repeat + 1) / repeat > options.minutes:
            break
    return found


def main() -> None:
    """Record and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--note", required=True, help="what else the host did meanwhile")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=15.0, help="no repeat begins that would end later")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--accel", default="auto")
    options = parser.parse_args()
    lab = open_lab(LabSettings(accel=options.accel, boot="fresh"), print)
    try:
        found = record(lab, DATA / f"noise-{options.name}.json", options)
    finally:
        lab.close()
    spreads = {
        job.label: {"runs": len(job.runs), "cv": round(job.spread, 4), "in_a_row": round(job.pair_spread, 4)}
        for job in found.jobs
    }
    print(json.dumps({"jobs": spreads, "accel": found.host["accel"]}))


if __name__ == "__main__":
    main()

"""A workload's figure through the plugin over the same fio in a bare QEMU of the same options.

Ten pairs of fresh guests, one of the plugin's and one bare, both running; in each pair the same fio line runs in
them in turn, ABBA, so that a drift of the host meets both alike. The last line is JSON: `ratio` (geometric mean
over the pairs of plugin/bare) and its 95 % interval (Student's t on the pairs' log ratios). The spread is between
boots: on a shared machine of 2 cores two bare guests differ by 10 to 20 %, and only more pairs narrow the interval.

    python benchmarks/fidelity.py [--pairs 10] [--accel tcg]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable, Sequence

from pytest_vmstorage.cli.calibrate.bare import bare_guest_of, fill_bare, run_bare
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.lab.opening import open_lab
from pytest_vmstorage.measure.runner import measure
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.workloads.fio.fio import Fio

JOBS = (Fio(rw="randread", bs="4k", iodepth=32, size="64M", runtime=2, time_based=True),)
TURNS = "ABBA"
"""A is the plugin, B the bare guest; every other pair has them the other way round."""

# two-sided 95 % points of Student's t for n - 1 degrees of freedom (NIST handbook, 1.3.6.7.2)
T_975 = {
    2: 12.706,
    3: 4.303,
    4: 3.182,
    5: 2.776,
    6: 2.571,
    8: 2.365,
    10: 2.262,
    12: 2.201,
    16: 2.131,
    20: 2.093,
    30: 2.045,
    40: 2.023,
}

Round = Callable[[Fio], float]


def plugin_round(lab: Lab, config: StorageConfig) -> Round:
    """A function that runs a job once through the plugin, in a fresh guest."""
    guest = lab.guest(config)
    subject = lab.environment(guest.config)
    return lambda job: float(measure(subject, job, Plan(rounds=1, warmup=0)).iops)


def pair(lab: Lab, number: int) -> list[float]:
    """Log ratios plugin/bare of each job, medians over their turns, in a pair of fresh guests."""
    config = StorageConfig(format="raw", cache="none", bus="virtio-blk", size=(256 + number) * 2**20)
    logs = []
    with bare_guest_of(lab, config) as (bare, disk):
        fill_bare(bare, max(job.size for job in JOBS))
        sides: dict[str, Round] = {"A": plugin_round(lab, config), "B": lambda job: run_bare(lab, bare, disk, job)}
        lab.factory.settle()
        turns = TURNS if number % 2 == 0 else TURNS.translate(str.maketrans("AB", "BA"))
        for job in JOBS:
            for side in sides.values():
                side(job)  # a warm-up
            iops: dict[str, list[float]] = {"A": [], "B": []}
            for turn in turns:
                iops[turn].append(sides[turn](job))
            ours, theirs = statistics.median(iops["A"]), statistics.median(iops["B"])
            logs.append(math.log(ours / theirs))
            print(
                f"pair {number}, {job.label}: plugin {ours:.0f} IOPS, bare {theirs:.0f}, ratio {ours / theirs:.3f}",
                flush=True,
            )
    return logs


def interval(logs: Sequence[float]) -> dict[str, float]:
    """The geometric mean and its 95 % interval."""
    mean = statistics.mean(logs)
    half = T_975[len(logs)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return {
        "ratio": round(math.exp(mean), 4),
        "ratio_low": round(math.exp(mean - half), 4),
        "ratio_high": round(math.exp(mean + half), 4),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=10, choices=sorted(T_975))
    parser.add_argument("--accel", default="auto")
    arguments = parser.parse_args()
    lab = open_lab(LabSettings(accel=arguments.accel, boot="fresh"), print)
    try:
        logs = [pair(lab, number) for number in range(arguments.pairs)]
    finally:
        lab.close()
    print(f"raw-none-virtio-blk-off, {lab.facts.cpu}, QEMU {lab.facts.qemu}, {lab.facts.accel}")
    jobs = {job.label: interval([each[index] for each in logs]) for index, job in enumerate(JOBS)}
    both = interval([statistics.mean(each) for each in logs])
    print(json.dumps({**both, "pairs": len(logs), "accel": lab.facts.accel, "jobs": jobs}))


if __name__ == "__main__":
    main()

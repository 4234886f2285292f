"""A workload's figure through the plugin over the same fio in a bare QEMU of the same options.

Pairs of fresh guests, plugin and bare in turn first (ABBA), the same fio line in both. The last line is JSON:
`ratio` (geometric mean of the pairs' plugin/bare) and its 95 % interval (Student's t on the log ratios).

    python benchmarks/fidelity.py [--pairs 10] [--accel tcg]
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import statistics

from bare import bare_guest

from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.lab import Lab, LabSettings, open_lab
from pytest_vmstorage.provision.disk import drop_caches, make_disk, remove_disk
from pytest_vmstorage.runner import FILL_ARGV, FORGET, Plan, Regions, Subject, measure
from pytest_vmstorage.workloads.base import Target
from pytest_vmstorage.workloads.fio import Fio

JOB = Fio(rw="randwrite", bs="4k", iodepth=32, size="64M", runtime=5, time_based=True)

# two-sided 95 % points of Student's t for n - 1 degrees of freedom (NIST handbook, 1.3.6.7.2)
T_975 = {3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 8: 2.365, 10: 2.262, 12: 2.201, 16: 2.131, 20: 2.093, 30: 2.045}


def plugin_iops(lab: Lab, config: StorageConfig) -> float:
    """IOPS of the job through the plugin, in a fresh guest; one warm-up round, one measured."""
    lab.drop()
    lab.pool.settle()
    guest = lab.guest(config)
    subject = Subject(
        guest.shell,
        guest.disk,
        config,
        lab.host.name,
        {},
        Regions(config.size),
        lambda: lab.drop_host_caches(guest),
    )
    iops = float(measure(subject, JOB, Plan(rounds=1, warmup=1)).iops)
    lab.drop()
    lab.pool.settle()
    return iops


def bare_iops(lab: Lab, config: StorageConfig) -> float:
    """IOPS of the same fio line in a fresh bare guest, filled and warmed up by hand in the same way."""
    disk = f"{lab.pool.folder}/bare.{config.format}"
    make_disk(lab.shell, config, disk)
    with bare_guest(lab.pool.spec("bare", config, disk, lab.accel.used)) as guest:
        guest.wait()
        target = Target(path="/dev/vdb", size_bytes=config.size)
        guest.run(FILL_ARGV.format(path=target.path, size=JOB.size, offset=0))
        for _ in ("warm-up", "measured"):
            guest.run(f"sh -c {shlex.quote(FORGET)} sh {target.path} {JOB.output_file}")
            drop_caches(lab.shell, disk)
            guest.run(shlex.join(JOB.argv(target)), poll_s=0.5)
        iops = JOB.parse(guest.run(f"cat {JOB.output_file}"))["iops"]
    remove_disk(lab.shell, disk)
    return iops


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=10, choices=sorted(T_975))
    parser.add_argument("--accel", default="auto")
    arguments = parser.parse_args()
    config = StorageConfig(format="raw", cache="none", bus="virtio-blk", size="256M")
    lab = open_lab(LabSettings(accel=arguments.accel), print)
    logs = []
    try:
        for number in range(arguments.pairs):
            sides = {}
            # ABBA: a drift of the host meets both sides alike
            for side in (plugin_iops, bare_iops) if number % 2 == 0 else (bare_iops, plugin_iops):
                sides[side] = side(lab, config)
            logs.append(math.log(sides[plugin_iops] / sides[bare_iops]))
            print(
                f"pair {number}: plugin {sides[plugin_iops]:.0f} IOPS, bare {sides[bare_iops]:.0f} IOPS,"
                f" ratio {math.exp(logs[-1]):.3f}",
                flush=True,
            )
    finally:
        lab.close()
    mean = statistics.mean(logs)
    half = T_975[len(logs)] * statistics.stdev(logs) / math.sqrt(len(logs))
    print(f"{JOB.label} on {config.label}, {lab.facts.cpu}, QEMU {lab.facts.qemu}, {lab.facts.accel}")
    print(
        json.dumps(
            {
                "ratio": round(math.exp(mean), 4),
                "ratio_low": round(math.exp(mean - half), 4),
                "ratio_high": round(math.exp(mean + half), 4),
                "pairs": len(logs),
                "accel": lab.facts.accel,
            }
        )
    )


if __name__ == "__main__":
    main()

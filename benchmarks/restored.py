"""Whether a restored guest has the figures of a booted one: interleaved pairs, random and sequential fio, three buses.

In each pair one guest of the cell is restored and one booted, in turns which of them comes first, each with a new disk,
and fio measures in both. What is restored is saved anew for each pair: all guests of one saved one have its memory
layout, so that the luck of one boot would stand in every pair. `ratio` is the speed in restored guests over that in
booted ones: the Hodges-Lehmann estimate of the pairs' ratios, `low` and `high` its exact interval of 95 % by the signed
ranks. The last line is JSON: a list `ratios` of `bus`, `workload`, `ratio`, `low`, `high`, `pairs`.

    python benchmarks/restored.py [--pairs 20] [--buses virtio-blk,virtio-scsi,sata,ide,usb] [--markdown]
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_vmstorage import Fio, StorageConfig
from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.lab.opening import open_lab
from pytest_vmstorage.measure.runner import measure
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.stats import hodges_lehmann, shift_interval

JOBS = (
    Fio(rw="randread", bs="4k", iodepth=8, size="48M", runtime=1),
    Fio(rw="read", bs="128k", iodepth=4, size="48M", runtime=1),
)


def speeds(lab: Lab, config: StorageConfig, *, restored: bool) -> list[float]:
    """IOPS of each job in a guest of its own, after a warm-up round each."""
    assert lab.provisioner.restoring is not None
    lab.drop()
    lab.factory.settle()
    lab.factory.begin_by(lab.provisioner.restoring.begin if restored else None)
    guest = lab.guest(config)
    assert guest.machine.is_restored == restored
    lab.provisioner.restoring.forget(guest.machine.spec)
    return [measure(lab.environment(guest.config), job, Plan(rounds=1, warmup=1)).iops for job in JOBS]


def pairs(lab: Lab, config: StorageConfig, count: int) -> list[list[float]]:
    """For each job the natural logarithms of the pairs' ratios, restored over booted."""
    logs: list[list[float]] = [[] for _ in JOBS]
    for number in range(count):
        first = number % 2 == 0
        found = {side: speeds(lab, config, restored=side) for side in (first, not first)}
        for job, (restored, booted) in enumerate(zip(found[True], found[False], strict=True)):
            logs[job].append(math.log(restored / booted))
        print(f"{config.bus} pair {number + 1}: " + ", ".join(f"{math.exp(log[-1]):.3f}" for log in logs), flush=True)
    return logs


def rows(bus: str, logs: Sequence[Sequence[float]]) -> Iterator[dict[str, Any]]:
    """What came of one bus."""
    for job, ratios in zip(JOBS, logs, strict=True):
        interval = shift_interval(ratios)
        low, high = (math.exp(interval.low), math.exp(interval.high)) if interval else (None, None)
        yield {
            "bus": bus,
            "workload": job.label,
            "ratio": round(math.exp(hodges_lehmann(ratios)), 4),
            "low": low and round(low, 4),
            "high": high and round(high, 4),
            "pairs": len(ratios),
        }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="restored guests against booted ones")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--buses", default="virtio-blk,virtio-scsi,sata,ide,usb")
    parser.add_argument("--accel", default="auto")
    parser.add_argument("--markdown", action="store_true", help="print a table for the docs, too")
    arguments = parser.parse_args()
    lab = open_lab(LabSettings(accel=arguments.accel, wait_s=600, boot="fresh"), print)
    found: list[dict[str, Any]] = []
    try:
        for bus in arguments.buses.split(","):
            config = StorageConfig.model_validate({"bus": bus, "size": "64M", "cache": "none"})
            found += rows(bus, pairs(lab, config, arguments.pairs))
    finally:
        lab.close()
    facts = lab.facts
    print(f"{facts.cpu}, {facts.cores} cores, QEMU {facts.qemu}, libvirt {facts.libvirt}, {facts.accel}")
    if arguments.markdown:
        print("| bus | workload | restored over booted | 95 % interval | pairs |\n|---|---|---:|---:|---:|")
        for row in found:
            print("| {bus} | {workload} | {ratio:.3f} | {low:.3f} to {high:.3f} | {pairs} |".format(**row))
    print(json.dumps({"ratios": found, "accel": facts.accel}))


if __name__ == "__main__":
    main()

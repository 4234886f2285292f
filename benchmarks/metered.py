"""A workload's figure while its disk's counters are read twice a second, over the same without that.

Both sides run in one guest, in turns, and every other pair begins with the other side: boots differ by far more than
the meter could cost. The last line is JSON: `ratio` (geometric mean over the pairs of with/without) with its 95 %
interval (Student's t on the pairs' log ratios), `reading_ms` (median time of one reading while fio runs), `pairs` and
`accel`.

    python benchmarks/metered.py [--pairs 12] [--accel tcg]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from typing import cast

from fidelity import JOBS, T_975, interval

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.lab.opening import open_lab
from pytest_vmstorage.measure.runner import measure
from pytest_vmstorage.measure.system import Plan, SystemUnderTest
from pytest_vmstorage.results.series import Counts


class Metered:
    """A system whose counters are read, or not, as `is_on` says; `took_s` has the time of each reading."""

    def __init__(self, system: SystemUnderTest) -> None:
        self._system = system
        self.is_on = True
        self.took_s: list[float] = []

    def count(self) -> Counts | None:
        """Read as the system does, where that is on."""
        if not self.is_on:
            return None
        begin = time.monotonic()
        counts = self._system.count()
        self.took_s.append(time.monotonic() - begin)
        return counts

    def __getattr__(self, name: str) -> object:
        return getattr(self._system, name)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=12, choices=sorted(T_975))
    parser.add_argument("--accel", default="auto")
    arguments = parser.parse_args()
    lab = open_lab(LabSettings(accel=arguments.accel, boot="fresh"), print)
    config, job = StorageConfig(format="raw", cache="none", bus="virtio-blk", size="256M"), JOBS[0]
    try:
        metered = Metered(lab.environment(lab.guest(config).config))

        def iops(*, is_on: bool) -> float:
            metered.is_on = is_on
            return float(measure(cast("SystemUnderTest", metered), job, Plan(rounds=1, warmup=0)).iops)

        iops(is_on=True)  # a warm-up
        logs = []
        for number in range(arguments.pairs):
            order = (True, False) if number % 2 == 0 else (False, True)
            found = {is_on: iops(is_on=is_on) for is_on in order}
            logs.append(math.log(found[True] / found[False]))
            print(f"pair {number}: with {found[True]:.0f} IOPS, without {found[False]:.0f}", flush=True)
    finally:
        lab.close()
    print(f"{job.label} on raw-none-virtio-blk-off, {lab.facts.cpu}, QEMU {lab.facts.qemu}, {lab.facts.accel}")
    reading_ms = round(1000 * statistics.median(metered.took_s), 2)
    print(json.dumps({**interval(logs), "reading_ms": reading_ms, "pairs": len(logs), "accel": lab.facts.accel}))


if __name__ == "__main__":
    main()

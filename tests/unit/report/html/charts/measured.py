"""Runs to draw: fio's output with made-up histograms, costs, orders of rounds, yardsticks, sweeps and a time line."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Mapping, Sequence

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.results.cost import Cost
from pytest_vmstorage.results.counters import IoCounters
from pytest_vmstorage.results.run import Measurement, Run
from pytest_vmstorage.results.timeline import Span, Timeline
from pytest_vmstorage.testing import make_host, make_measurement, make_run
from pytest_vmstorage.testing.builders import in_turns

WORKLOAD = "fio randwrite 4k qd32"


def fio_output(counts: Mapping[int, int], way: str = "write") -> str:
    """An output of fio with this histogram, by latency in ns."""
    bins = {str(middle): count for middle, count in counts.items()}
    return json.dumps({"fio version": "fio-3.33", "jobs": [{"jobname": "job", way: {"clat_ns": {"bins": bins}}}]})


def tail(seed: int, ios: int = 4000, median_ns: float = 2e6) -> dict[int, int]:
    """A histogram with a long tail; bins are 1/32 wide."""
    source, counts = random.Random(seed), dict[int, int]()
    for _ in range(ios):
        value = median_ns * source.lognormvariate(0, 0.35) * (8 if source.random() < 0.003 else 1)
        step = 2 ** max(0, int(value).bit_length() - 6)
        middle = int(value) // step * step
        counts[middle] = counts.get(middle, 0) + 1
    return counts


def measured(
    config: StorageConfig, iops: Sequence[float], *, cpu_us: float = 0, seed: int = 1, **more: object
) -> Measurement:
    """A cell with rounds of fio: their outputs, and the CPU time of QEMU where it is given."""
    source = random.Random(seed)
    m = make_measurement(config, workload=WORKLOAD, iops=iops, clat_p99=[32 / one for one in iops], **more)  # type: ignore[arg-type]
    samples = [
        sample.model_copy(
            update={
                "raw": fio_output(tail(seed * 100 + place, median_ns=32e9 / iops[place])),
                "moved": IoCounters(layer_reads=0, layer_writes=5000),
                "cost": Cost(cpu_s={"vCPU": 5000 * cpu_us * 1e-6 * source.uniform(0.95, 1.05)} if cpu_us else {}),
            }
        )
        for place, sample in enumerate(m.samples)
    ]
    return m.model_copy(update={"samples": tuple(samples)})


def noisy(middle: float, rounds: int, seed: int, noise: float = 0.04) -> list[float]:
    """So many figures around a middle."""
    source = random.Random(seed)
    return [float(f"{middle * source.gauss(1, noise):.5g}") for _ in range(rounds)]


CELLS = [
    (StorageConfig(format=fmt, cache=cache), speed, cpu)
    for (fmt, cache, speed, cpu) in (
        ("raw", "none", 14200, 21), ("raw", "writethrough", 6100, 34), ("raw", "writeback", 15900, 26),
        ("qcow2", "none", 13600, 24), ("qcow2", "writethrough", 5600, 37), ("qcow2", "writeback", 15600, 29),
    )
]  # fmt: skip


@functools.cache
def a_run(rounds: int = 6, accel: str = "kvm") -> Run:
    """Six cells in turns, with a native and a null row, and where the time went."""
    cells = [measured(c, noisy(s, rounds, n), cpu_us=u, seed=n) for n, (c, s, u) in enumerate(CELLS, 1)]
    native = measured(StorageConfig(backing="native"), noisy(17100, rounds, 21), seed=21)
    null = measured(StorageConfig(backing="null"), noisy(48000, rounds, 22), cpu_us=12, seed=22)
    run = make_run(*in_turns(*cells, native, null), hosts=[make_host(accel=accel)])
    return run.model_copy(update={"timelines": (a_timeline(),)})


@functools.cache
def a_sweep(rounds: int = 6) -> Run:
    """Three cells at six depths."""
    rows = []
    for number, (config, speed, _) in enumerate(CELLS[:3]):
        for depth in (1, 2, 4, 8, 16, 32):
            rate = speed * depth / (depth + 5)
            m = make_measurement(
                config, workload=f"fio randread 4k qd{depth}", test="tests/test_depth.py::test_depth",
                iops=noisy(rate, rounds, number * 50 + depth), clat_mean=noisy(depth / rate, rounds, depth),
            )  # fmt: skip
            point = {"iodepth": float(depth), "numjobs": 1.0}
            nodeid = f"tests/test_depth.py::test_depth[{depth}-{config}]"
            rows.append(m.model_copy(update={"point": point, "shape": "fio randread 4k", "nodeid": nodeid}))
    return make_run(*rows)


def a_timeline(cells: int = 8, rounds: int = 7) -> Timeline:
    """A run of so many cells, in which other threads make guests beside the first."""
    source, at, spans = random.Random(5), 0.0, []

    def step(name: str, seconds: float, thread: str = "", **more: object) -> None:
        nonlocal at
        spans.append(
            Span.model_validate(
                {"step": name, "begin_s": at, "seconds": seconds, "own_s": seconds, "thread": thread, **more}
            )
        )
        at += 0 if thread else seconds

    step("start", 1.2)
    step("opening", 2.4)
    for number in range(cells):
        step("boot", source.uniform(3, 6), thread="" if number < 2 else "guests")
        step("proof", source.uniform(0.2, 0.6))
        step("filling", source.uniform(2, 4))
    for number in range(rounds):
        for cell in range(cells):
            step("turn", 0.2)
            step("forgetting", 0.3)
            step("window" if number else "warm-up", source.uniform(1.9, 2.3), round=number, cell=str(cell))
            step("journal", 0.05)
    step("teardown", 3.0)
    step("report", 0.6)
    return Timeline(process="pytest", began="2026-01-02T03:04:05+00:00", wall_s=at + 1.5, spans=tuple(spans))

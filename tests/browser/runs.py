"""Made-up runs whose reports are looked at in a browser: each with its comparison, if it has one."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

from pytest_vmstorage.analysis.gate.by_pairs import compare_pairs
from pytest_vmstorage.analysis.gate.policy import GatePolicy
from pytest_vmstorage.analysis.gate.verdicts import Comparison
from pytest_vmstorage.analysis.history.history import (
    BaselineHistory,
    Census,
    HistoryDay,
    HistoryFinding,
    HistoryLine,
    HistoryMark,
)
from pytest_vmstorage.config.buses import Cache
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.results.cautions import Caution
from pytest_vmstorage.results.cost import Cost
from pytest_vmstorage.results.counters import IoCounters
from pytest_vmstorage.results.host import HostState
from pytest_vmstorage.results.run import Measurement, Proof, Run
from pytest_vmstorage.results.timeline import Span, Timeline
from pytest_vmstorage.testing import in_turns, make_failure, make_host, make_measurement, make_metric, make_run

RECORDED = Path(__file__).parents[1] / "unit" / "recordings" / "fio-3.33-randwrite.json"
RANDOM_WRITE = "fio randwrite 4k qd32"

Rounds = Sequence[float]


class Made(NamedTuple):
    """A run, and what it was compared with."""

    run: Run
    comparison: Comparison | None = None


def cells(*, buses: Sequence[str] = ("virtio-blk", "virtio-scsi")) -> list[StorageConfig]:
    """The quickstart's configurations."""
    return [
        StorageConfig.model_validate({"format": kind, "cache": cache, "bus": bus, "preallocation": filled})
        for kind, cache, bus, filled in itertools.product(
            ("raw", "qcow2"), ("none", "writeback"), buses, ("off", "full")
        )
    ]


def speed_of(cell: StorageConfig) -> float:
    """How fast a cell is beside the slowest: the bus moves most, the cache a little, preallocation nothing."""
    return (1.5 if cell.bus == "virtio-blk" else 1.0) * (1.2 if cell.cache == "writeback" else 1.0)


def rounds_of(chance: random.Random, middle: float, count: int = 5) -> Rounds:
    """So many rounds within some per cent of the middle."""
    return [middle * chance.uniform(0.97, 1.03) for _ in range(count)]


@cache
def recorded() -> Mapping[str, Any]:
    """What fio printed of a random write, with its histogram."""
    return json.loads(RECORDED.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


@cache
def fio_output(slower: float) -> str:
    """That output with each latency of its histogram so many times as long."""
    output = json.loads(RECORDED.read_text(encoding="utf-8"))
    written = output["jobs"][0]["write"]["clat_ns"]
    written["bins"] = {str(round(int(edge) * slower)): count for edge, count in written["bins"].items()}
    return json.dumps(output)


def printing(slower: float) -> Callable[[int], str]:
    """What fio prints in each round of a cell that is so many times slower than another."""
    return lambda _round: fio_output(slower)


def furnished(measured: Measurement, raw: Callable[[int], str] = lambda _round: "") -> Measurement:
    """The same with what a real run has beside figures: output, counters, cost, proof, the host around it."""
    moved = 512 * 2**20
    samples = [
        sample.model_copy(
            update={
                "raw": raw(number),
                "moved": IoCounters(
                    guest_written_bytes=moved, layer_written_bytes=moved, layer_writes=moved // 4096, layer_reads=0,
                    layer_flushes=3, host_written_bytes=moved, device_written_bytes=moved,
                ),
                "cost": Cost(cpu_s={"vCPU": 2.1, "worker": 0.9, "main loop": 0.2}, waited_s=0.1, switches=20_000),
                "boot": "first",
            }
        )
        for number, sample in enumerate(measured.samples)
    ]  # fmt: skip
    proof = [
        Proof(field="cache", asked=measured.config.cache, found=measured.config.cache, status="proven", where="QMP"),
        Proof(field="bus", asked=measured.config.bus, found=measured.config.bus, status="proven", where="the guest"),
    ]
    return measured.model_copy(
        update={
            "samples": tuple(samples),
            "proof": tuple(proof),
            "around": HostState(governor="powersave", turbo="on", device="vda", scheduler="none", others=0),
            "hygiene": {"fill": "written once before the first round", "caches": "dropped before each round"},
            "guest": {"kernel": "6.1.0-30-amd64", "fio": "fio-3.33", "qemu": ""},
            "outcome": "passed",
        }
    )


def where_time_went() -> Timeline:
    """A timeline with one span of each common step."""
    steps = ("start", "opening", "boot", "proof", "filling", "set-up", "warm-up", "window", "teardown", "report")
    spans = [
        Span(step=step, begin_s=10.0 * n, seconds=10.0, own_s=10.0, cell="raw-none-virtio-blk-off", round=1)
        for n, step in enumerate(steps)
    ]
    return Timeline(process="pytest", began="2026-01-02T03:04:05+00:00", wall_s=103.0, spans=tuple(spans))


def demo() -> Made:
    """Sixteen cells with three workloads each, emulated, with a caution on all of them."""
    chance = random.Random(24)
    caution = Caution(
        says="the CPU governor was powersave, not performance", brief="the CPU governor was powersave",
        remedy="--vm-governor=performance", weight=1,
    )  # fmt: skip
    measured = []
    for cell in cells():
        fast = speed_of(cell)
        iops, tail = rounds_of(chance, 9000 * fast), rounds_of(chance, 0.006 / fast)
        measured += [
            furnished(
                make_measurement(cell, host="vm", iops=iops, clat_p99=tail), printing(1 / fast)
            ),
            furnished(
                make_measurement(
                    cell, host="vm", workload="dd write 1M", test="tests/test_disk.py::test_sequential_write",
                    bw=rounds_of(chance, 350 * fast),
                )
            ),
            furnished(
                make_measurement(
                    cell, host="vm", workload="hdparm -t", test="tests/test_disk.py::test_buffered_read",
                    buffered_read=rounds_of(chance, 1300),
                )
            ),
        ]  # fmt: skip
    measured = [m.model_copy(update={"cautions": (caution,)}) for m in measured]
    host = make_host("vm", accel="tcg", accel_reason="no /dev/kvm", cpu="AMD EPYC-Milan Processor", qemu="7.2.22")
    run = make_run(*in_turns(*measured), hosts=[host])
    return Made(run.model_copy(update={"timelines": (where_time_went(),)}))


def red() -> Made:
    """A job in pairs: one cell lost half its speed, one has an impossible figure, one test missed its threshold."""
    chance, there = random.Random(5), cells()
    slow, impossible, missed = there[1], there[2], there[3]
    now = []
    for cell in there:
        iops = list(rounds_of(chance, 4000 if cell == slow else 9000, 18))
        iops[3] = 0.0 if cell == impossible else iops[3]
        now.append(furnished(make_measurement(cell, iops=iops)))
    now[1] = now[1].model_copy(update={"fresh": 12, "outcome": "failed", "message": "REGRESSED"})
    now[3] = now[3].model_copy(update={"outcome": "failed", "message": "AssertionError: assert 9000 > 10000"})
    assert now[3].config == missed
    then = [make_measurement(cell, iops=rounds_of(chance, 9000, 18)) for cell in there]
    run = make_run(*now, against=then, recipe="emulator=/opt/qemu-8/bin/qemu-system-x86_64")
    return Made(run, compare_pairs(run, GatePolicy()))


def broken() -> Made:
    """Cells with figures beside one that failed, one whose figure is INVALID, one that was skipped."""
    chance, (first, second, third, *others) = random.Random(6), cells()
    failures = [
        make_failure(first, reason="The guest did not answer within 60 s.\nits console:\n[    1.2] Kernel panic"),
        make_failure(
            second, reason="The figure of fio randwrite 4k qd32 is INVALID: it claims 2 GiB, its disk moved 1."
        ),
        make_failure(third, reason="QEMU 7.2 cannot do that.").model_copy(update={"outcome": "skipped"}),
    ]
    measured = [furnished(make_measurement(cell, iops=rounds_of(chance, 9000 * speed_of(cell)))) for cell in others]
    return Made(make_run(*measured, failures=failures))


def two_hosts() -> Made:
    """The same cells on a host with KVM and on one without."""
    chance = random.Random(7)
    hosts = [make_host("lab1"), make_host("lab2", accel="tcg", accel_reason="no /dev/kvm", kernel="6.12.0")]
    measured = [
        furnished(make_measurement(cell, host=host.name, iops=rounds_of(chance, by * speed_of(cell))))
        for host, by in zip(hosts, (90_000, 9000), strict=True)
        for cell in cells()
    ]
    return Made(make_run(*measured, hosts=hosts))


def curves() -> Made:
    """A queue depth swept in two cells: rate and latency of each point."""
    chance, measured = random.Random(8), []
    for cell, depth in itertools.product(cells()[:2], (1, 2, 4, 8, 16, 32, 64)):
        iops, tail = 20_000 * depth / (depth + 6), 0.0002 * (1 + depth / 6)
        one = make_measurement(
            cell, workload=f"fio randread 4k qd{depth}", test=f"tests/test_disk.py::test_depth_{depth}",
            iops=rounds_of(chance, iops), clat_p99=rounds_of(chance, tail),
        )  # fmt: skip
        swept = {"point": {"iodepth": depth, "numjobs": 1}, "shape": "fio randread 4k"}
        measured.append(furnished(one, printing(depth / 4)).model_copy(update=swept))
    return Made(make_run(*measured))


def nightly() -> BaselineHistory:
    """Forty days of two cells, one of which is slower since QEMU changed."""
    days = [date(2026, 10, 1) + timedelta(number) for number in range(40)]
    lines = [
        HistoryLine(
            nodeid="tests/test_disk.py::test_random_write", workload=RANDOM_WRITE, config=cell, host="local", nth=0,
            metric=make_metric("iops"), why_not="",
            days=tuple(
                HistoryDay(day=day, value=value, low=value * 0.9, high=value * 1.1, guests=3)
                for day in days
                for value in [800.0 if day >= days[20] and not number else 1000.0]
            ),
        )
        for number, cell in enumerate(cells()[:2])
    ]  # fmt: skip
    mark = HistoryMark(host="local", what="QEMU was 9.1 and is 9.2 now", after=days[19], on=days[20])
    found = HistoryFinding(
        kind="step", way="slower", after=days[18], on=days[20], change=0.25, least=0.25, most=0.25, lines=(0,),
        sure=(0,), where="one cell", p=1e-9, marks=(mark,),
    )  # fmt: skip
    return BaselineHistory(
        name="nightly", first=days[0], last=days[-1], days=len(days), lines=tuple(lines), findings=(found,),
        marks=(mark,), census=Census(lines=2, judged=2),
    )  # fmt: skip


HOSTILE = (
    "<script>window.executed=1</script>",
    "<img src=x onerror=window.executed=1>",
    "\"'><svg/onload=window.executed=1>",
    "</script></style></title><script>window.executed=1</script>",
    "javascript:window.executed=1",
    "]]><!--<script>window.executed=1</script>-->",
    "\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe\N{RIGHT-TO-LEFT ISOLATE}",
    "\x1b]0;title\x07\x00\x9b31m",
)
"""Texts that execute something, or turn those around them, where they are taken for markup."""


def hostile() -> Made:
    """Every text that a guest or a user has a hand in is hostile, all of them and a figure in each cell."""
    everything, chance = " ".join(HOSTILE), random.Random(9)
    caution = Caution(says=everything, brief=everything, remedy=everything, weight=3)
    measured = []
    for text, cell in zip(HOSTILE, cells(), strict=False):
        one = furnished(
            make_measurement(
                cell, workload=f"script {text}", test=f"tests/test_{text}.py::test_{text}", host=everything,
                iops=rounds_of(chance, 9000),
            ),
            lambda _round: everything,
        )  # fmt: skip
        proof = Proof(field="cache", asked=everything, found=everything, status="unprovable", where=text, why=text)
        measured.append(
            one.model_copy(
                update={
                    "command": everything, "notes": (text, everything), "message": text, "outcome": "failed",
                    "guest": {"kernel": everything, "fio": text, text: text}, "hygiene": {text: text},
                    "cautions": (caution,), "proof": (proof,), "made_from": {text: text},
                }
            )
        )  # fmt: skip
    failure = make_failure(cells()[-1], reason=f"{everything}\n{everything}", test=everything, host=everything)
    host = make_host(
        everything, **dict.fromkeys(("cpu", "kernel", "folder", "file_system", "accel_reason"), everything)
    )
    return Made(make_run(*measured, failures=[failure], hosts=[host], recipe=everything))


def many(rows: int = 10_000, *, with_output: bool = False) -> Made:
    """So many cells with two metrics and three rounds each; `with_output` each round has fio's histogram too."""
    chance = random.Random(10)
    outputs = [fio_output(by) if with_output else "" for by in (0.8, 0.9, 1.0, 1.1)]
    measured = []
    for number, cell in enumerate(itertools.islice(_any_cells(), rows)):
        fast = 1 + number % 7 / 10
        one = make_measurement(
            cell, iops=rounds_of(chance, 9000 * fast, 3), clat_p99=rounds_of(chance, 0.006 / fast, 3)
        )
        samples = [sample.model_copy(update={"raw": outputs[number % 4]}) for sample in one.samples]
        measured.append(one.model_copy(update={"samples": tuple(samples), "outcome": "passed"}))
    return Made(make_run(*measured))


def _any_cells() -> Iterator[StorageConfig]:
    axes = {
        "format": ("raw", "qcow2"),
        "cache": get_args(Cache),
        "preallocation": ("off", "full"),
        "queue_size": (16, 32, 64, 128, 256),
        "vcpus": (1, 2, 4, 8),
        "memory": ("256M", "512M", "1G", "2G", "4G"),
        "size": ("1G", "2G", "4G", "8G", "16G"),
    }
    for values in itertools.product(*axes.values()):
        yield StorageConfig.model_validate(dict(zip(axes, values, strict=True)))


RUNS: Mapping[str, Callable[[], Made]] = {
    "demo": demo,
    "red": red,
    "broken": broken,
    "two hosts": two_hosts,
    "curves": curves,
    "hostile": hostile,
    "many": many,
}
"""Every made-up run by its name."""

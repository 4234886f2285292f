"""Programs that move no byte: fio and dd of a fake lab, which measure what its options say and count as if they had."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.host.shell import CommandResult
from pytest_vmstorage.testing.guest import BLOCK_BYTES, FakeDomain
from pytest_vmstorage.testing.host import answer_of
from pytest_vmstorage.testing.options import LabOptions, chosen, matches
from pytest_vmstorage.testing.shell import Asked, FakeShell
from pytest_vmstorage.units import parse_size

IOPS = 10_000.0
MIB_PER_SECOND = 200.0
SCATTER = (1.0, 0.99, 1.0, 1.01)
"""Factors of one round after the other, so that figures have a spread without chance."""

PID = 4242
"""The process of every guest on a fake host."""

DEVICE = "vda"
"""The device of a fake host below the folder for disks."""

_PART_S = 0.1
"""How often a disk's counters grow while a tool runs."""

_LATENCIES_NS: Mapping[str, tuple[float, Mapping[float, int]]] = {
    "slat_ns": (5476.0, {50: 3760, 95: 13760, 99: 21120, 99.9: 75264}),
    "clat_ns": (115812.0, {50: 81408, 95: 317440, 99: 1368064, 99.9: 1368064}),
    "lat_ns": (121288.0, {50: 86528, 95: 321536, 99: 1368064, 99.9: 1368064}),
}
"""Mean and percentiles of a job that fio 3.33 ran in a guest."""

BeforeRound = Callable[[StorageConfig, int], object]
"""Called before a round with the cell and the round's number in its guest."""


class FakePrograms:
    """fio and dd of all cells of one fake lab on that host."""

    def __init__(
        self, host: FakeShell, options: LabOptions, note: Callable[[str], object], before_round: BeforeRound
    ) -> None:
        self._options = options
        self._note = note
        self._before_round = before_round
        self._chance = random.Random(options.seed)  # noqa: S311 (noise, no secret)
        self._on_host = (0, 0)
        self._flushes = 0
        host.answer(re.compile("^pgrep "), f"{PID}\n")
        host.answer(re.compile("df --output=source"), f"{DEVICE} yes {_stat((0, 0), 0)}\n")
        host.do(re.compile("grep -asH"), self._grep)

    def install(
        self, shell: FakeShell, config: StorageConfig, *, disk: str = "", domain: FakeDomain | None = None
    ) -> None:
        """Let that shell run the tools on the cell's disk: on any in its guest, on the path `disk` on the host."""
        numbers, on_disk = itertools.count(1), f".*{re.escape(disk)}"

        def fill(asked: Asked) -> CommandResult:
            self._note(f"fill {config}")
            return answer_of(asked)

        def run(asked: Asked) -> CommandResult:
            return self._run(asked, config, next(numbers), shell, domain)

        if domain is not None:
            self._count_in_guest(shell, domain, (0, 0))
        shell.do(re.compile(f"(^| )fio --name=fill {on_disk}"), fill)
        shell.do(re.compile(f"^(fio --name=vmstorage|env LC_ALL=C dd) {on_disk}"), run)

    def _run(
        self, asked: Asked, config: StorageConfig, number: int, shell: FakeShell, domain: FakeDomain | None
    ) -> CommandResult:
        options, done = self._options, answer_of(asked).model_copy(update={"seconds": 0.01})
        noise = math.exp(self._chance.gauss(0, options.noise))
        self._before_round(config, number)
        if domain is not None and number == chosen(options.dies, config, 0):
            time.sleep(options.round_s)
            self._note(f"die {config}")
            domain.die()
            return done
        if 0 < chosen(options.hangs, config, 0) <= number:
            time.sleep(options.round_s)
            self._note(f"hang {config}")
            return done.model_copy(update={"seconds": math.inf})
        factor = SCATTER[(number - 1) % len(SCATTER)] * options.factor(config, number) * noise
        words = dict(word.lstrip("-").partition("=")[::2] for word in asked.argv)
        if "dd" in asked.argv:
            copied = parse_size(words["bs"]) * int(words["count"])
            moved = (copied, 0) if words["of"] == "/dev/null" else (0, copied)
            seconds = copied / 2**20 / (MIB_PER_SECOND * factor)
            done = done.model_copy(update={"stderr": f"{copied} bytes copied, {seconds:.9f} s, x MB/s\n"})
        else:
            document = fio_document(factor, words)
            moved = tuple(document["jobs"][0][way]["io_bytes"] for way in ("read", "write"))
            shell.files[words["output"]] = json.dumps(document).encode()
        self._move(shell, domain, moved)
        if not config.is_null and not matches(options.cached, config):
            self._count_on_host(moved)
        if matches(options.write_through, config):
            shell.files[f"{_queue(shell)}/write_cache"] = b"write through\n"
        return done

    def _move(self, shell: FakeShell, domain: FakeDomain | None, moved: tuple[int, ...]) -> None:
        """Let the time of a round pass, and the guest's disk move its share of the bytes in each part of it."""
        parts = 1 + int(self._options.round_s / _PART_S)
        for part in range(parts):
            time.sleep(self._options.round_s / parts)
            if domain is not None:
                read, written = (count * (part + 1) // parts - count * part // parts for count in moved)
                self._count_in_guest(shell, domain, (read, written))

    def _count_in_guest(self, shell: FakeShell, domain: FakeDomain, moved: tuple[int, int]) -> None:
        domain.moved = (domain.moved[0] + moved[0], domain.moved[1] + moved[1])
        shell.files[_queue(shell).replace("/queue", "/stat")] = _stat(domain.moved, 0).encode()

    def _count_on_host(self, moved: tuple[int, int]) -> None:
        self._on_host = (self._on_host[0] + moved[0], self._on_host[1] + moved[1])
        # a cache that promises to flush is proven by one flush
        self._flushes += bool(moved[1])

    def _grep(self, asked: Asked) -> CommandResult:
        """What a look at the host prints of its counters; it has none of the other files that are looked for."""
        read, written = self._on_host
        counters = {
            f"/sys/class/block/{DEVICE}/stat": (_stat(self._on_host, self._flushes),),
            f"/proc/{PID}/io": (f"read_bytes: {read}", f"write_bytes: {written}"),
        }
        found = [(path, line) for path in asked.argv[2].split() for line in counters.get(path, ())]
        return answer_of(asked, "".join(f"{path}:{line}\n" for path, line in found))


def fio_document(factor: float, options: Mapping[str, str]) -> Mapping[str, Any]:
    """The JSON of a job of 1 s with these options; latencies are inverse to the factor."""
    asked = [float(text) for text in options.get("percentile_list", "50:95:99:99.9").split(":")]
    latencies = {
        name: {"mean": mean / factor, "percentile": dict(_percentiles(known, asked, factor))}
        for name, (mean, known) in _LATENCIES_NS.items()
    }
    kind, depth = options.get("rw", "read"), min(int(options.get("iodepth", "1")), 64)
    does = {
        "read": "read" in kind or kind in ("rw", "randrw") or "verify" in options,
        "write": "write" in kind or kind in ("rw", "randrw"),
    }
    rates = {way: IOPS * factor * is_done for way, is_done in does.items()}
    ways = {
        way: {
            "iops": iops,
            "total_ios": int(iops),
            **dict.fromkeys(("bw_bytes", "io_bytes"), int(iops * BLOCK_BYTES)),
            "runtime": 1000,
            **latencies,
        }
        for way, iops in rates.items()
    }
    edges = [2**power for power in range(7)]
    levels = {f">={edge}" if edge == 64 else str(edge): 100.0 * (edge <= depth < 2 * edge) for edge in edges}
    job = {
        "jobname": "vmstorage",
        "error": 0,
        **ways,
        "sync": {"lat_ns": latencies["lat_ns"]},
        "usr_cpu": 42.9,
        "sys_cpu": 0.0,
        "ctx": 46,
        "iodepth_level": levels,
        "steadystate": {"attained": 1, "data": {"iops_mean": IOPS * factor, "bw_mean": IOPS * factor * BLOCK_BYTES}},
    }
    return {"fio version": "fio-3.33", "jobs": [job]}


def _percentiles(known: Mapping[float, int], asked: list[float], factor: float) -> Iterator[tuple[str, float]]:
    for one in asked:
        # one that was not recorded has the value of the next
        value = next((ns for percentile, ns in known.items() if percentile >= one), max(known.values()))
        yield f"{one:.6f}", value / factor


def _queue(shell: FakeShell) -> str:
    """Path of the queue of the disk under test in a guest."""
    return next(path for path in shell.files if path.endswith("/queue/write_cache")).rpartition("/")[0]


def _stat(moved: tuple[int, int], flushes: int) -> str:
    """A line of /sys/block/X/stat: sectors read and written, and flushes."""
    read, written = (count // 512 for count in moved)
    return f"0 0 {read} 0 0 0 {written} 0 0 0 0 0 0 0 0 {flushes} 0"

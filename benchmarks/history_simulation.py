"""How often the history alarms for nothing and what it finds, on simulated days with the shipped code.

Histories of 100 cells over 60 days in the worlds of `noise_worlds.py`. A day of a cell has five runs, each in a fresh
guest, as in the simulation of the gate by days; its figure is that of the shipped code. In `days` the day itself is the
noise: one run a day. Each world's own spread of days is told, as `day`. In a recorded world a day is five
runs drawn from a recorded job. For each world, the drawn ones at a coefficient of variation of 3 and 8 % a source

    false_alarm   of histories in which nothing changed: in how many there is any finding; known to +-`error`
    found_5, found_12  of histories in which one cell is slower by 10 % for its last 5 or 12 days: in how many that cell
                  has a finding
    shared_5, shared_12  the same where five cells share a value of an axis, and are slower since then: of these cells
    inside        of steps of 10 % somewhere in days 12 to 48 that were found: how many spans have the true day
    creep         of cells slower by 10 % at the end, growing over all 60 days: how many have a finding
    spans         the median length of those spans, in days
    known_*       what a rule would find of the same changes in one cell that knew their day, their shape and the noise,
                  with a risk of 5 % for all cells (Bonferroni) and normal days: hardly more can be found
    otava_*       with --otava, where apache-otava is installed, of it on the same series (p of 0.001, its default):
                  alarms in series and histories, steps found, the true day as the one that it names, creep

Besides, `causes`: one cause over k of 100 cells, on each axis, a step of 10 % at 3 % of noise, and two causes on two
days: how many findings come out for each cause. `speed`: 180 cells over 1000 days with three steps: seconds and MiB.
The last line is JSON.

    python benchmarks/history_simulation.py [--jobs 200] [--worlds "iid,real busy"] [--cv 3,8] [--seed 1] [--quick]
                                            [--unchanged 10] [--otava] [--markdown]
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import json
import math
import random
import resource
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from noise_worlds import DRAWN, Drawn, Noise, cvs, noise, recorded

from pytest_vmstorage.analysis.history.causes import Cause, Judged, find_causes
from pytest_vmstorage.analysis.history.days import day_figure

WORLDS = ("days", *DRAWN, *recorded())
DAYS, GUESTS = 60, 5
UNCHANGED = 10
"""The number of histories without a change for each with one, but for --quick: alarms are seldom."""

STEP = math.log1p(0.10)
AXES = {
    "format": ("raw", "qcow2"),
    "cache": ("none", "writeback", "unsafe", "directsync", "writethrough"),
    "bus": ("virtio-blk", "virtio-scsi", "ide", "sata", "nvme"),
    "workload": ("fio randread 4k", "fio randwrite 4k"),
}
CELLS = [dict(zip(AXES, values, strict=True)) for values in itertools.product(*AXES.values())]
SHARED = {"format": "raw", "cache": "none", "workload": "fio randread 4k"}
"""Five cells: one for each bus."""

Job = list[list[float]]


class OneRun(Noise):
    """A day with one run, whose noise is all that there is."""

    def __init__(self, cv: float, draw: random.Random) -> None:
        self.cv, self.draw = cv, draw

    def new_day(self) -> None:
        """Each is for itself."""

    def rounds(self, count: int) -> list[float]:
        """Not asked for."""
        raise NotImplementedError

    def pairs(self, count: int, slower: float) -> list[tuple[float, float]]:
        """Not asked for."""
        raise NotImplementedError


def one_day(world: Noise) -> float:
    """A cell's figure of the next day."""
    world.new_day()
    if isinstance(world, OneRun):
        return world.draw.gauss(0, world.cv)
    guests = [world.run() for _ in range(GUESTS)] if isinstance(world, Drawn) else recorded_day(world)
    return day_figure(guests)


def recorded_day(world: Noise) -> list[float]:
    """Runs of a recorded job, drawn with replacement."""
    runs = world.runs  # type: ignore[attr-defined]
    return world.draw.choices(runs, k=GUESTS)  # type: ignore[attr-defined, no-any-return]


def unchanged(world: str, cv: float, draw: random.Random) -> Job:
    """The days of all cells."""
    cells: list[Noise] = [OneRun(cv, draw) if world == "days" else noise(world, cv, draw) for _ in CELLS]
    return [[one_day(cell) for _ in range(DAYS)] for cell in cells]


def judged(job: Job) -> list[Judged]:
    """The job as the analysis takes it."""
    return [Judged(range(1, len(values) + 1), values, axes) for values, axes in zip(job, CELLS, strict=True)]


def with_step(job: Job, hit: Callable[[int], bool], first: int, size: float = STEP) -> Job:
    """The job with some cells slower from that day on, counted from 0."""
    return [
        [value + size * (place >= first) for place, value in enumerate(values)] if hit(number) else values
        for number, values in enumerate(job)
    ]


def found_in(causes: Sequence[Cause], number: int, first: int = -1) -> bool:
    """Whether the cell has a finding; from a day on, one that begins about then."""
    return any(number in one.members and (first < 0 or one.on >= first - 6) for one in causes)


SHARING = [number for number, cell in enumerate(CELLS) if SHARED.items() <= cell.items()]


def job(world: str, cv: float, seed: int, number: int, otava: Otava | None, others: int) -> Counter[str]:
    """One history, unchanged and with changes, and others without: how often what came out."""
    draw, count = random.Random(f"{seed} {world} {cv * 100:g} {number}"), Counter[str]()
    plain = unchanged(world, cv, draw)
    count["jobs"] += 1
    for days in (plain, *(unchanged(world, cv, draw) for _ in range(others))):
        count["without"] += 1
        count["false alarm"] += bool(find_causes(judged(days)))
    spread = statistics.fmean(statistics.stdev(values) for values in plain)
    count["day"] += round(spread * 1e6)
    count["core"] += round(core_spread(plain) * 1e6)
    one = draw.randrange(len(CELLS))
    for last in (5, 12):
        first = DAYS - last
        count[f"found {last}"] += found_in(find_causes(judged(with_step(plain, one.__eq__, first))), one, first)
        causes = find_causes(judged(with_step(plain, SHARING.__contains__, first)))
        count[f"shared {last}"] += sum(found_in(causes, cell, first) for cell in SHARING)
    first = draw.randint(12, 48)
    for cause in find_causes(judged(with_step(plain, one.__eq__, first))):
        if one in cause.members and cause.kind == "step":
            count["steps"] += 1
            count["inside"] += cause.after < first + 1 <= cause.on
            count[f"span {cause.on - cause.after}"] += 1
    ramp = [value + STEP * place / (DAYS - 1) for place, value in enumerate(plain[one])]
    creeping = find_causes(judged([*plain[:one], ramp, *plain[one + 1 :]]))
    count["creep"] += found_in(creeping, one)
    count["told as creep"] += any(one in cause.members and cause.kind == "creep" for cause in creeping)
    if otava is not None:
        count["otava alarm"] += any(otava(values) for values in plain)
        count["otava alarms"] += sum(bool(otava(values)) for values in plain)
        for last in (5, 12):
            count[f"otava {last}"] += bool(otava(with_step(plain, one.__eq__, DAYS - last)[one]))
        places = otava(with_step(plain, one.__eq__, first)[one])
        count["otava steps"] += bool(places)
        count["otava inside"] += first in places
        count["otava creep"] += bool(otava(ramp))
    return count


def core_spread(job: Job) -> float:
    """The standard deviation of days, by the median distance from each cell's median, which outliers hardly move."""
    away = [abs(value - middle) for values in job for middle in [statistics.median(values)] for value in values]
    return 1.4826 * statistics.median(away)


def known(spread: float) -> dict[str, float]:
    """The shares of changes in one cell that a test finds which knows all but whether there is one."""
    normal = statistics.NormalDist()
    bound = normal.inv_cdf(1 - 0.05 / len(CELLS) / 2)
    middle = (DAYS - 1) / 2
    ramp = math.sqrt(sum((day - middle) ** 2 for day in range(DAYS))) / (DAYS - 1)
    parts = {"known_creep": ramp} | {f"known_{last}": math.sqrt(last * (DAYS - last) / DAYS) for last in (5, 12)}
    return {name: round(normal.cdf(STEP / spread * part - bound), 4) for name, part in parts.items()}


Otava = Callable[[Sequence[float]], Sequence[int]]


def find_otava() -> Otava | None:
    """The change points of a series by apache-otava's own analysis; None where it is not installed."""
    if importlib.util.find_spec("otava") is None:
        return None
    compute_change_points = importlib.import_module("otava.analysis").compute_change_points

    def places(values: Sequence[float]) -> Sequence[int]:
        points, _ = compute_change_points(list(map(math.exp, values)), window_len=50, max_pvalue=0.001, min_magnitude=0)
        return [point.index for point in points]

    return places


def summary(world: str, cv: float, count: Mapping[str, int], with_otava: bool) -> dict[str, Any]:
    """The shares, as the last line has them."""
    jobs = count["jobs"]

    def share(name: str, of: int) -> float:
        return round(count[name] / of, 4) if of else math.nan

    alarmed = share("false alarm", count["without"])
    spans = sorted(
        itertools.chain.from_iterable(
            [int(name.split()[1])] * times for name, times in count.items() if name.startswith("span ")
        )
    )
    told = {
        "name": world,
        "cv": cv,
        "day": round(count["day"] / jobs / 1e6, 4),
        "jobs": jobs,
        "false_alarm": alarmed,
        "error": round(math.sqrt(alarmed * (1 - alarmed) / count["without"]), 4),
        "found_5": share("found 5", jobs),
        "found_12": share("found 12", jobs),
        "shared_5": share("shared 5", jobs * len(SHARING)),
        "shared_12": share("shared 12", jobs * len(SHARING)),
        "steps": share("steps", jobs),
        "inside": share("inside", count["steps"]),
        "spans": statistics.median(spans) if spans else None,
        "creep": share("creep", jobs),
        "told_as_creep": share("told as creep", jobs),
        **known(count["core"] / jobs / 1e6),
    }
    if with_otava:
        told |= {
            "otava_false_alarm": share("otava alarm", jobs),
            "otava_series": share("otava alarms", jobs * len(CELLS)),
            "otava_5": share("otava 5", jobs),
            "otava_12": share("otava 12", jobs),
            "otava_inside": share("otava inside", count["otava steps"]),
            "otava_creep": share("otava creep", jobs),
        }
    return told


def conditions() -> dict[str, dict[str, str]]:
    """A value of each axis, and of two or three together, by a name that says how many cells have it."""
    found: dict[str, dict[str, str]] = {"all cells": {}}
    for size in (1, 2, 3, 4):
        for names in itertools.combinations(AXES, size):
            found[" and ".join(names)] = {name: AXES[name][-1] for name in names}
    return found


def causes_found(cv: float, seed: int, times: int) -> list[dict[str, Any]]:
    """One cause over the cells that share values, and two causes on two days: findings for each cause."""
    told = []
    for name, values in conditions().items():
        hit = [number for number, cell in enumerate(CELLS) if values.items() <= cell.items()]
        told.append(_of_cause(name, [(hit, 40)], cv, seed, times))
    for size in (1, 2, 7, 23, 64, 99):
        draw = random.Random(f"{seed} {size}")
        told.append(
            _of_cause(f"{size} cells at random", [(sorted(draw.sample(range(100), size)), 40)], cv, seed, times)
        )
    ide = [number for number, cell in enumerate(CELLS) if cell["bus"] == "ide"]
    raw = [number for number, cell in enumerate(CELLS) if cell["format"] == "raw"]
    told.append(_of_cause("two: bus, format", [(ide, 25), (raw, 45)], cv, seed, times))
    told.append(_of_cause("two: format, format", [(raw, 25), (raw, 45)], cv, seed, times))
    return told


def _of_cause(name: str, hits: Sequence[tuple[Sequence[int], int]], cv: float, seed: int, times: int) -> dict[str, Any]:
    findings, right = 0, 0
    for number in range(times):
        days = unchanged("days", cv, random.Random(f"{seed} {name} {number}"))
        for hit, first in hits:
            days = with_step(days, hit.__contains__, first)
        causes = find_causes(judged(days))
        findings += len(causes)
        right += sorted(list(one.members) for one in causes) == sorted(list(hit) for hit, _ in hits)
    cells = len(hits[0][0])
    return {"name": name, "cells": cells, "findings": findings / times / len(hits), "exact": right / times}


def speed(cells: int = 180, days: int = 1000) -> dict[str, float]:
    """Seconds that a long history with three steps takes, and the process' largest memory in MiB."""
    draw = random.Random(1)

    def level_at(part: float) -> int:
        return (part > 0.2) + (part > 0.5) - 2 * (part > 0.8)

    many = [
        Judged(
            range(days),
            [draw.gauss(0.1 * level_at(place / days), 0.03) for place in range(days)],
            {"cell": str(number), "half": str(number % 2)},
        )
        for number in range(cells)
    ]
    begun = time.perf_counter()
    found = find_causes(many)
    took = time.perf_counter() - begun
    return {
        "cells": cells,
        "days": days,
        "seconds": round(took, 2),
        "mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "findings": len(found),
    }


def main() -> None:
    """Run the worlds and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--cv", default="3,8")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--unchanged", type=int, default=UNCHANGED, help=f"histories without a change for each with one; {UNCHANGED}"
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--otava", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    jobs, others = (4, 1) if arguments.quick else (arguments.jobs, arguments.unchanged - 1)
    # before the rest: the largest memory of a process only grows
    fast = speed(20, 200) if arguments.quick else speed()
    otava = find_otava() if arguments.otava else None
    told = []
    for world in arguments.worlds.split(","):
        asked = [float(cv) / 100 for cv in arguments.cv.split(",")]
        for cv in asked if world == "days" else cvs(world, asked):
            count = Counter[str]()
            for number in range(jobs):
                count.update(job(world, cv, arguments.seed, number, otava, others))
            told.append(summary(world, cv, count, otava is not None))
            print(told[-1], file=sys.stderr, flush=True)
    causes = causes_found(0.03, arguments.seed, 1 if arguments.quick else max(2, jobs // 10))
    if arguments.markdown:
        print(markdown(told, causes, fast))
    print(json.dumps({"worlds": told, "causes": causes, "speed": fast}))


def markdown(
    worlds: Sequence[Mapping[str, Any]], causes: Sequence[Mapping[str, Any]], fast: Mapping[str, float]
) -> str:
    """The tables of docs/explanation/history.md; shares in per cent."""

    def per_cent(*shares: float) -> str:
        return " / ".join(f"{100 * share:.1f}" for share in shares)

    head = (
        *("world", "noise", "a day's noise", "false alarm", "one cell: after 5 / 12 days", "with the day known"),
        *("five cells: after 5 / 12 days", "true day in the span", "days of a span", "creep"),
        "with its shape known",
    )
    rows = [
        (
            *(one["name"], f"{100 * one['cv']:.2g}", per_cent(one["day"])),
            f"{per_cent(one['false_alarm'])} ± {per_cent(one['error'])}",
            *(per_cent(one["found_5"], one["found_12"]), per_cent(one["known_5"], one["known_12"])),
            *(per_cent(one["shared_5"], one["shared_12"]), per_cent(one["inside"])),
            *(f"{one['spans'] or 0:g}", per_cent(one["creep"]), per_cent(one["known_creep"])),
        )
        for one in worlds
    ]
    parts = [_table(head, rows)]
    if any("otava_5" in one for one in worlds):
        heads = (
            *("world", "noise", "alarm in a series / in a history", "one cell: after 5 / 12 days"),
            *("true day named", "creep"),
        )
        parts.append(
            _table(
                heads,
                [
                    (
                        *(one["name"], f"{100 * one['cv']:.2g}"),
                        *(per_cent(one["otava_series"], one["otava_false_alarm"]),),
                        *(per_cent(one["otava_5"], one["otava_12"]), per_cent(one["otava_inside"])),
                        per_cent(one["otava_creep"]),
                    )
                    for one in worlds
                ],
            )
        )
    parts.append(
        _table(
            ("cause", "cells", "findings for each cause", "just these cells"),
            [(one["name"], one["cells"], f"{one['findings']:.2f}", per_cent(one["exact"])) for one in causes],
        )
    )
    parts.append(f"{fast['cells']} cells x {fast['days']} days: {fast['seconds']} s, {fast['mib']} MiB")
    return "\n\n".join(parts)


def _table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


if __name__ == "__main__":
    main()

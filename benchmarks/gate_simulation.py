"""How often the gate alarms for nothing, finds a loss and lets one pass, on simulated noise with the shipped code.

Jobs of 100 cells in four worlds of noise, each at a coefficient of variation (cv) of 3, 8 and 15 % a source:

    iid       every run for itself
    boot      and each guest has an effect of its own, of the same size; every run is in a fresh guest
    drift     and each day has one, and the host drifts within the day (AR(1), 0.95 from run to run)
    outliers  iid, and one run in twenty takes twice as long

A job is run unchanged, and again with five of its cells slower. The last line is JSON; for each world

    false_alarm   of the jobs in which nothing is slower: in how many any cell is REGRESSED
    false_alarm_mixed  the same of the unchanged cells of jobs in which five cells are slower by 10 %
    found_5, found_10, found_20, false_pass  of the slower cells: how many are REGRESSED; of 10 %, how many PASS
    passed, inconclusive  of the unchanged cells
    runs_per_cell   before and after together, confirmation included, of unchanged jobs
    rules         what pytest-benchmark's own --benchmark-compare-fail says: of the very runs that the screening looked
                  at, and ("saved") as it is used: five rounds in one guest of another day, five in one guest now
    saved         of `against_days` with 8 saved days of 5 guests each: shares of unchanged cells and of slower ones

    python benchmarks/gate_simulation.py [--jobs 1000] [--worlds iid,boot] [--cv 3,8] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pytest_benchmark.utils import parse_compare_fail

from pytest_vmstorage.days import against_days
from pytest_vmstorage.loss import Finding, Loss, Standing
from pytest_vmstorage.sequential import confirm, screen

WORLDS = ("iid", "boot", "drift", "outliers")
CELLS = 100
SLOWED = 5
ROUNDS = 5
DAYS, GUESTS = 8, 5
RULES = ("mean:10%", "min:10%")
CHECKS = {rule: parse_compare_fail(rule) for rule in RULES}  # type: ignore[no-untyped-call]
STAYS = 0.95
"""How much of the host's drift is left from one run to the next."""

POLICY = Loss()
SCREENED, CONFIRMED = POLICY.screening[-1].pairs, POLICY.confirmation[-1].pairs

Pair = tuple[float, float]


class Noise:
    """One cell's noise, as log(seconds): what its next run has, in the order in which they are asked for."""

    def __init__(self, world: str, cv: float, draw: random.Random) -> None:
        self.world, self.cv, self.draw = world, cv, draw
        self.new_day()

    def new_day(self) -> None:
        """The host on another day."""
        self.day = self.draw.gauss(0, self.cv) if self.world == "drift" else 0.0
        self.drift = self.draw.gauss(0, self.cv) if self.world == "drift" else 0.0

    def new_guest(self) -> float:
        """What a fresh guest has of its own."""
        return self.draw.gauss(0, self.cv) if self.world == "boot" else 0.0

    def round(self) -> float:
        """One more round in a guest, without the guest's own effect."""
        own = self.draw.gauss(0, self.cv)
        if self.world == "drift":
            self.drift = STAYS * self.drift + self.draw.gauss(0, self.cv * math.sqrt(1 - STAYS**2))
            return own + self.day + self.drift
        if self.world == "outliers" and self.draw.random() < 0.05:
            return own + math.log(2)
        return own

    def run(self) -> float:
        """One run in a fresh guest."""
        return self.new_guest() + self.round()

    def rounds(self, count: int) -> list[float]:
        """So many in one fresh guest."""
        guest = self.new_guest()
        return [guest + self.round() for _ in range(count)]

    def pairs(self, count: int, slower: float) -> list[Pair]:
        """So many runs before and after, ABBA, `after` slower by that shift."""
        found = []
        for place in range(count):
            first, second = self.run(), self.run()
            before, after = (second, first) if place % 2 else (first, second)
            found.append((before, after + slower))
        return found


class Cell(NamedTuple):
    """A screened cell: what was found, on which pairs, and the fresh ones that a suspect gets."""

    finding: Finding
    pairs: Sequence[Pair]
    fresh: Sequence[float]


def shifts(pairs: Sequence[Pair]) -> list[float]:
    """The pairs' differences."""
    return [after - before for before, after in pairs]


def screened(noise: Noise, slower: float) -> Cell:
    """One cell, screened."""
    pairs = noise.pairs(SCREENED, slower)
    finding = screen(shifts(pairs), POLICY)
    suspected = finding.standing is Standing.SUSPECT
    if suspected:
        noise.new_day()
    return Cell(finding, pairs, shifts(noise.pairs(CONFIRMED, slower)) if suspected else ())


def judged(cells: Sequence[Cell]) -> tuple[list[Standing], int]:
    """Where each cell of a job stands in the end, and how many pairs were run."""
    confirmed = confirm({place: cell.fresh for place, cell in enumerate(cells) if cell.fresh})
    standings = [confirmed.get(place, cell.finding).standing for place, cell in enumerate(cells)]
    pairs = sum(cell.finding.count for cell in cells) + sum(finding.count for finding in confirmed.values())
    return standings, pairs


def alarms(rule: str, before: Sequence[float], after: Sequence[float]) -> bool:
    """What pytest-benchmark says of rounds saved and rounds now, both log(seconds)."""
    of = statistics.fmean if rule.startswith("mean") else min
    field = rule.partition(":")[0]
    current, compared = ({field: of([math.exp(value) for value in values])} for values in (after, before))
    return bool(CHECKS[rule].fails(current, compared))


def used(rule: str, noise: Noise, slower: float) -> bool:
    """A rule as it is used: rounds of one guest, saved on another day."""
    noise.new_day()
    saved = noise.rounds(ROUNDS)
    noise.new_day()
    return alarms(rule, saved, [slower + value for value in noise.rounds(ROUNDS)])


def on_pairs(rule: str, cell: Cell) -> bool:
    """A rule on the runs that the screening looked at."""
    before, after = zip(*cell.pairs[: cell.finding.count], strict=True)
    return alarms(rule, before, after)


def of_days(noise: Noise, slower: float) -> Standing:
    """Where a cell stands that has saved days alone."""
    days = []
    for _ in range(DAYS + 1):
        noise.new_day()
        days.append([noise.run() for _ in range(GUESTS)])
    return against_days(days[:-1], [slower + value for value in days[-1]], POLICY).standing


def job(world: str, cv: float, draw: random.Random, count: Counter[str]) -> None:
    """One job, unchanged and with slower cells; what came out is added to `count`."""
    cells = [screened(Noise(world, cv, draw), 0.0) for _ in range(CELLS)]
    standings, pairs = judged(cells)
    count["pairs"] += pairs
    count["false alarm"] += Standing.REGRESSED in standings
    count.update(f"unchanged {standing}" for standing in standings)
    for percent in (5, 10, 20):
        slower = math.log1p(percent / 100)
        slowed = [screened(Noise(world, cv, draw), slower) for _ in range(SLOWED)]
        mixed, _ = judged([*slowed, *cells[SLOWED:]])
        count[f"mixed {percent}"] += Standing.REGRESSED in mixed[SLOWED:]
        count.update(f"slower {percent} {standing}" for standing in mixed[:SLOWED])
        if percent == 10:
            rules(world, cv, draw, (cells, slowed), count)
    for name, slower in (("unchanged", 0.0), ("slower", POLICY.limit)):
        count.update(f"days {name} {of_days(Noise(world, cv, draw), slower)}" for _ in range(SLOWED))


def rules(
    world: str, cv: float, draw: random.Random, both: tuple[Sequence[Cell], Sequence[Cell]], count: Counter[str]
) -> None:
    """What pytest-benchmark's rules say of the same cells."""
    cells, slowed = both
    for rule in RULES:
        count[f"{rule} false"] += any(on_pairs(rule, cell) for cell in cells)
        count[f"{rule} found"] += sum(on_pairs(rule, cell) for cell in slowed)
        count[f"saved {rule} false"] += any(used(rule, Noise(world, cv, draw), 0.0) for _ in range(CELLS))
        count[f"saved {rule} found"] += sum(used(rule, Noise(world, cv, draw), POLICY.limit) for _ in range(SLOWED))


def summary(world: str, cv: float, jobs: int, count: Mapping[str, int]) -> dict[str, object]:
    """The shares, as the last line has them."""

    def share(name: str, of: int) -> float:
        return round(count[name] / of, 4)

    slowed = jobs * SLOWED
    return {
        "name": world,
        "cv": cv,
        "jobs": jobs,
        "false_alarm": share("false alarm", jobs),
        "false_alarm_mixed": share("mixed 10", jobs),
        "found_5": share("slower 5 REGRESSED", slowed),
        "found_10": share("slower 10 REGRESSED", slowed),
        "found_20": share("slower 20 REGRESSED", slowed),
        "false_pass": share("slower 10 PASS", slowed),
        "passed": share("unchanged PASS", jobs * CELLS),
        "inconclusive": share("unchanged INCONCLUSIVE", jobs * CELLS),
        "runs_per_cell": round(2 * count["pairs"] / (jobs * CELLS), 1),
        "rules": {
            name: {"false_alarm": share(f"{name} false", jobs), "found_10": share(f"{name} found", slowed)}
            for rule in RULES
            for name in (rule, f"saved {rule}")
        },
        "saved": {
            f"{which}_{standing.lower()}": share(f"days {which} {standing}", slowed)
            for which in ("unchanged", "slower")
            for standing in (Standing.PASS, Standing.SUSPECT)
        },
    }


def main() -> None:
    """Run the worlds one after the other, a line each, then the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000, help="jobs of 100 cells in each world")
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--cv", default="3,8,15", help="per cent")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = []
    for world in options.worlds.split(","):
        for per_cent in map(float, options.cv.split(",")):
            count: Counter[str] = Counter()
            for number in range(options.jobs):
                job(world, per_cent / 100, random.Random(f"{options.seed} {world} {per_cent} {number}"), count)
            found.append(summary(world, per_cent / 100, options.jobs, count))
            print(" ".join(f"{name}={value}" for name, value in found[-1].items()), flush=True)
    print(json.dumps({"worlds": found}))


if __name__ == "__main__":
    main()

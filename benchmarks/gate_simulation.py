"""How often the gate alarms for nothing, finds a loss and lets one pass, on noise with the shipped code.

Jobs of 100 cells in the worlds of `noise_worlds.py`, the drawn ones each at a coefficient of variation (cv) of 3, 8 and
15 % a source. A job is run unchanged, and again with five of its cells slower. The last line is JSON; for each world

    false_alarm   of the jobs in which nothing is slower: in how many any cell is REGRESSED; known to +-`error`
    false_alarm_mixed  the same of the unchanged cells of jobs in which five cells are slower by 10 %
    found_5, found_10, found_20, false_pass  of the slower cells: how many are REGRESSED; of 10 %, how many PASS
    passed, inconclusive  of the unchanged cells
    runs_per_cell   before and after together, confirmation included, of unchanged jobs
    rules         what pytest-benchmark's own --benchmark-compare-fail says with five rounds saved and five now: of the
                  first five pairs that the gate looked at ("fresh guests"), and of five rounds in one guest of another
                  day against five in one guest now ("as used"). `cell` and `job`: in how many unchanged cells, and jobs
                  of 100, it alarms; `found_10` of cells slower by 10 %
    saved         of the gate by days with 8 saved days of 5 guests each: shares of unchanged cells and of slower ones

Besides, jobs of 100 cells that are compared with saved days alone, suspects being confirmed in six fresh guests: runs
of one guest whose rounds drift by 5 to 20 % from the first to the last (8 rounds), and runs of 1, 2 and 3 rounds. Each
with 8 saved days, and with one saved day and a stated spread of days, which is the true one. For each of these worlds

    false_alarm, false_pass, passed  as above; `false_pass` of cells slower by 10 %
    not_green     of the unchanged cells: how many are SUSPECT in the end, which fails their tests by default
    green_25      of cells slower by 25 %: how many are neither REGRESSED nor SUSPECT
    found_25      how many of them are REGRESSED

    python benchmarks/gate_simulation.py [--jobs 1000] [--worlds "iid,real busy"] [--cv 3,8] [--seed 1]
                                         [--workers 2] [--markdown]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from noise_worlds import DRAWN, Drawn, Noise, Pair, cvs, noise, recorded
from pytest_benchmark.utils import parse_compare_fail

from pytest_vmstorage.analysis.gate.by_days import Days, confirm_days, drifting
from pytest_vmstorage.analysis.gate.by_pairs import confirm, screen
from pytest_vmstorage.analysis.gate.kinds import Kind
from pytest_vmstorage.analysis.gate.policy import Finding, Loss
from pytest_vmstorage.results.run import steadiness

WORLDS = (*DRAWN, *recorded())
CELLS = 100
SLOWED = 5
ROUNDS = 5
FRESH = 6
DAYS, GUESTS = 8, 5
RULES = ("mean:10%", "min:10%")
CHECKS = {rule: parse_compare_fail(rule) for rule in RULES}  # type: ignore[no-untyped-call]

POLICY = Loss()
SCREENED, CONFIRMED = POLICY.screening[-1].pairs, POLICY.confirmation[-1].pairs


class Cell(NamedTuple):
    """A screened cell: what was found, on which pairs, and the fresh ones that a suspect gets."""

    finding: Finding
    pairs: Sequence[Pair]
    fresh: Sequence[float]


def shifts(pairs: Sequence[Pair]) -> list[float]:
    """The pairs' differences."""
    return [after - before for before, after in pairs]


def screened(world: Noise, slower: float) -> Cell:
    """One cell, screened."""
    pairs = world.pairs(SCREENED, slower)
    finding = screen(shifts(pairs), POLICY)
    suspected = finding.kind is Kind.SUSPECT
    if suspected:
        world.new_day()
    return Cell(finding, pairs, shifts(world.pairs(CONFIRMED, slower)) if suspected else ())


def judged(cells: Sequence[Cell]) -> tuple[list[Kind], int]:
    """Where each cell of a job stands in the end, and how many pairs were run."""
    confirmed = confirm({place: cell.fresh for place, cell in enumerate(cells) if cell.fresh})
    standings = [confirmed.get(place, cell.finding).kind for place, cell in enumerate(cells)]
    pairs = sum(cell.finding.count for cell in cells) + sum(finding.count for finding in confirmed.values())
    return standings, pairs


def alarms(rule: str, before: Sequence[float], after: Sequence[float]) -> bool:
    """What pytest-benchmark says of rounds saved and rounds now, both log(seconds)."""
    of = statistics.fmean if rule.startswith("mean") else min
    field = rule.partition(":")[0]
    current, compared = ({field: of([math.exp(value) for value in values])} for values in (after, before))
    return bool(CHECKS[rule].fails(current, compared))


def as_used(rule: str, world: Noise, slower: float) -> bool:
    """A rule as it is used: rounds of one guest, saved on another day."""
    world.new_day()
    saved = world.rounds(ROUNDS)
    world.new_day()
    return alarms(rule, saved, [slower + value for value in world.rounds(ROUNDS)])


def in_fresh_guests(rule: str, cell: Cell) -> bool:
    """A rule on runs that the screening looked at."""
    before, after = zip(*cell.pairs[:ROUNDS], strict=True)
    return alarms(rule, before, after)


def of_days(world: Drawn, slower: float) -> Kind:
    """Where a cell stands that has saved days alone."""
    days = []
    for _ in range(DAYS + 1):
        world.new_day()
        days.append([world.run() for _ in range(GUESTS)])
    return Days(days[:-1], [slower + value for value in days[-1]], policy=POLICY).finding.kind


class OfDays(NamedTuple):
    """A world of saved days: rounds of one guest a day, how many days are saved, and whether the rounds drift."""

    rounds: int
    days: int
    drifts: bool = False

    @property
    def name(self) -> str:
        """As the lines have it."""
        what = "drifting rounds" if self.drifts else f"{self.rounds} round{'s' * (self.rounds > 1)}"
        return f"{what} of {f'{self.days} days' if self.days > 1 else 'a day and its spread'}"

    def run(self, cv: float, day: float, draw: random.Random) -> list[float]:
        """log(seconds) of the rounds of one guest on a day that has this; days and rounds have equal noise."""
        each = cv / math.sqrt(2)
        slope = draw.choice((-1, 1)) * draw.uniform(0.05, 0.20) if self.drifts else 0.0
        middle, step = (self.rounds - 1) / 2, slope / max(1, self.rounds - 1)
        return [day + (place - middle) * step + draw.gauss(0, each) for place in range(self.rounds)]

    def cell(self, cv: float, slower: float, draw: random.Random) -> tuple[Finding, Days]:
        """What is found at first, and the fresh rounds of the same day that a suspect gets."""
        each = cv / math.sqrt(2)
        saved = [self.run(cv, draw.gauss(0, each), draw) for _ in range(self.days)]
        day = slower + draw.gauss(0, each)
        today = self.run(cv, day, draw)
        spread = each if self.days == 1 else None
        means = [[statistics.fmean(day)] for day in saved]
        first = Days(means, [statistics.fmean(today)], spread, POLICY, saved_rounds=saved, today_rounds=today)
        steady = steadiness([math.exp(-value) for value in today])
        found = first.finding
        if steady.is_judged and not steady.is_steady:
            found = drifting(found, str(steady))
        # what the day has is in the fresh guests as well; each has a round of its own
        fresh = [day + draw.gauss(0, each) for _ in range(FRESH)]
        return found, first._replace(today=fresh, today_rounds=fresh, are_fresh=True)


OF_DAYS = (
    *(OfDays(8, days, drifts=True) for days in (8, 1)),
    *(OfDays(rounds, days) for rounds in (1, 2, 3) for days in (8, 1)),
)


def job_of_days(world: OfDays, cv: float, seed: int, number: int) -> Counter[str]:
    """One job of cells that have saved days alone, unchanged and with slower cells: how often what came out."""
    draw, count = random.Random(f"{seed} {world.name} {cv * 100:g} {number}"), Counter[str]()
    unchanged = [world.cell(cv, 0.0, draw) for _ in range(CELLS)]
    for percent in (0, 10, 25):
        slowed = [world.cell(cv, math.log1p(percent / 100), draw) for _ in range(SLOWED)] if percent else []
        cells = [*slowed, *unchanged[len(slowed) :]]
        suspects = {place: fresh for place, (found, fresh) in enumerate(cells) if found.kind is Kind.SUSPECT}
        confirmed = confirm_days(suspects, CELLS)
        ends = [confirmed.get(place, found).kind for place, (found, _) in enumerate(cells)]
        count.update(f"{percent} {standing}" for standing in (ends[:SLOWED] if percent else ends))
        if not percent:
            count["false alarm"] += Kind.REGRESSED in ends
    return count


def summary_of_days(world: OfDays, cv: float, jobs: int, count: Mapping[str, int]) -> dict[str, Any]:
    """The shares, as the last line has them."""

    def share(name: str, of: int) -> float:
        return round(count[name] / of, 4)

    slowed, cells = jobs * SLOWED, jobs * CELLS
    return {
        "name": world.name,
        "cv": cv,
        "jobs": jobs,
        "false_alarm": share("false alarm", jobs),
        "false_pass": share("10 PASS", slowed),
        "passed": share("0 PASS", cells),
        "not_green": share("0 SUSPECT", cells),
        "green_25": round(1 - (count["25 REGRESSED"] + count["25 SUSPECT"]) / slowed, 4),
        "found_25": share("25 REGRESSED", slowed),
    }


def job(world: str, cv: float, seed: int, number: int) -> Counter[str]:
    """One job, unchanged and with slower cells: how often what came out."""
    draw, count = random.Random(f"{seed} {world} {cv * 100:g} {number}"), Counter[str]()
    cells = [screened(noise(world, cv, draw), 0.0) for _ in range(CELLS)]
    standings, pairs = judged(cells)
    count["pairs"] += pairs
    count["false alarm"] += Kind.REGRESSED in standings
    count.update(f"unchanged {standing}" for standing in standings)
    for percent in (5, 10, 20):
        slower = math.log1p(percent / 100)
        slowed = [screened(noise(world, cv, draw), slower) for _ in range(SLOWED)]
        mixed, _ = judged([*slowed, *cells[SLOWED:]])
        count[f"mixed {percent}"] += Kind.REGRESSED in mixed[SLOWED:]
        count.update(f"slower {percent} {standing}" for standing in mixed[:SLOWED])
        if percent == 10:
            for rule in RULES:
                unchanged = [in_fresh_guests(rule, cell) for cell in cells]
                ruled(f"{rule} fresh guests", unchanged, [in_fresh_guests(rule, cell) for cell in slowed], count)
    for rule in RULES:
        unchanged, slow = (
            [as_used(rule, noise(world, cv, draw), slower) for _ in range(cells)]
            for cells, slower in ((CELLS, 0.0), (SLOWED, POLICY.limit))
        )
        ruled(f"{rule} as used", unchanged, slow, count)
    if world in DRAWN:
        for name, slower in (("unchanged", 0.0), ("slower", POLICY.limit)):
            count.update(f"days {name} {of_days(Drawn(world, cv, draw), slower)}" for _ in range(SLOWED))
    return count


def ruled(name: str, unchanged: Sequence[bool], slowed: Sequence[bool], count: Counter[str]) -> None:
    """Add in which cells a rule alarmed."""
    count[f"{name} cell"] += sum(unchanged)
    count[f"{name} job"] += any(unchanged)
    count[f"{name} found"] += sum(slowed)


def summary(world: str, cv: float, jobs: int, count: Mapping[str, int]) -> dict[str, Any]:
    """The shares, as the last line has them."""

    def share(name: str, of: int) -> float:
        return round(count[name] / of, 4)

    slowed, cells = jobs * SLOWED, jobs * CELLS
    alarmed = share("false alarm", jobs)
    return {
        "name": world,
        "cv": cv,
        "jobs": jobs,
        "false_alarm": alarmed,
        "error": round(math.sqrt(alarmed * (1 - alarmed) / jobs), 4),
        "false_alarm_mixed": share("mixed 10", jobs),
        "found_5": share("slower 5 REGRESSED", slowed),
        "found_10": share("slower 10 REGRESSED", slowed),
        "found_20": share("slower 20 REGRESSED", slowed),
        "false_pass": share("slower 10 PASS", slowed),
        "passed": share("unchanged PASS", cells),
        "inconclusive": share("unchanged INCONCLUSIVE", cells),
        "runs_per_cell": round(2 * count["pairs"] / cells, 1),
        "rules": {
            f"{rule} {how}": {
                "cell": share(f"{rule} {how} cell", cells),
                "job": share(f"{rule} {how} job", jobs),
                "found_10": share(f"{rule} {how} found", slowed),
            }
            for rule in RULES
            for how in ("fresh guests", "as used")
        },
        "saved": {
            f"{which}_{standing.lower()}": share(f"days {which} {standing}", slowed)
            for which in ("unchanged", "slower")
            for standing in (Kind.PASS, Kind.SUSPECT)
        }
        if world in DRAWN
        else None,
    }


def markdown(worlds: Sequence[Mapping[str, Any]], of_days: Sequence[Mapping[str, Any]]) -> str:
    """The tables of docs/explanation/gate.md: the gate, pytest-benchmark's rules beside it, saved days; in per cent."""

    def per_cent(*shares: float) -> str:
        return " / ".join(f"{100 * share:.1f}" for share in shares)

    head = (
        "world", "noise", "false alarm in a job", "+5 % found", "+10 % found", "+20 % found", "+10 % passed",
        "unchanged: passed / inconclusive", "runs per cell",
    )  # fmt: skip
    gate = [
        (
            world["name"], f"{100 * world['cv']:.2g}", f"{per_cent(world['false_alarm'])} ± {per_cent(world['error'])}",
            *(per_cent(world[f"found_{size}"]) for size in (5, 10, 20)), per_cent(world["false_pass"]),
            per_cent(world["passed"], world["inconclusive"]), world["runs_per_cell"],
        )
        for world in worlds
    ]  # fmt: skip
    rules = [
        (
            world["name"],
            f"{100 * world['cv']:.2g}",
            *(per_cent(found["cell"], found["job"], found["found_10"]) for found in world["rules"].values()),
        )
        for world in worlds
    ]
    rule_names = [name for world in worlds[:1] for name in world["rules"]]
    return "\n\n".join(
        (
            _table(head, gate),
            _table(("world", "noise", *(f"{name}: cell / job / +10 % found" for name in rule_names)), rules),
            _table(
                (
                    *("saved days", "noise", "false alarm in a job", "+10 % passed", "unchanged: passed / suspected"),
                    "+25 %: found / green",
                ),
                [
                    (
                        *(one["name"], f"{100 * one['cv']:.2g}", per_cent(one["false_alarm"])),
                        *(per_cent(one["false_pass"]), per_cent(one["passed"], one["not_green"])),
                        per_cent(one["found_25"], one["green_25"]),
                    )
                    for one in of_days
                ],
            ),
        )
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def main() -> None:
    """Run the worlds one after the other, a line each, then the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000, help="jobs of 100 cells in each world")
    parser.add_argument("--worlds", default=",".join((*WORLDS, *(world.name for world in OF_DAYS))))
    parser.add_argument("--cv", default="3,8,15", help="per cent, of the worlds that are drawn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes; they change no figure")
    parser.add_argument("--markdown", action="store_true", help="print docs/explanation/gate.md's tables, too")
    options = parser.parse_args()
    found = []
    with ProcessPoolExecutor(options.workers) as workers:
        for world in [one for one in options.worlds.split(",") if one not in {saved.name for saved in OF_DAYS}]:
            for cv in cvs(world, [float(per_cent) / 100 for per_cent in options.cv.split(",")]):
                jobs = workers.map(partial(job, world, cv, options.seed), range(options.jobs), chunksize=5)
                found.append(summary(world, cv, options.jobs, sum(jobs, Counter())))
                print(" ".join(f"{name}={value}" for name, value in found[-1].items()), flush=True)
        of_days = []
        for saved in [one for one in OF_DAYS if one.name in options.worlds.split(",")]:
            for cv in [float(per_cent) / 100 for per_cent in options.cv.split(",")]:
                counted = workers.map(partial(job_of_days, saved, cv, options.seed), range(options.jobs), chunksize=5)
                of_days.append(summary_of_days(saved, cv, options.jobs, sum(counted, Counter())))
                print(" ".join(f"{name}={value}" for name, value in of_days[-1].items()), flush=True)
    if options.markdown:
        print(markdown(found, of_days))
    print(json.dumps({"worlds": found, "of_days": of_days}))


if __name__ == "__main__":
    main()

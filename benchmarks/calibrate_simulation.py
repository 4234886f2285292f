"""How often a calibration takes restored guests for equal, on simulated hosts that bend their figures by 0 to 5 %.

A host is calibrated as `vmstorage calibrate` does it, by the shipped code: the noise of six boots of three rounds says
how many pairs are taken (6 to 40), and the pairs of two workloads say what becomes of the bus. Worlds of noise are
those of `noise_worlds.py`, the drawn ones at a coefficient of variation (cv) of 0.5, 1, 3 and 8 % a source. For each
world and each part by which restored guests are faster

    accepted   of the hosts: in how many the guests are equal, and restored by default from then on
    refused    in how many they differ, and are booted by default
    open       in how many the pairs do not decide, and the shipped default stays
    pairs      how many were taken, median

At 2 %, the margin, at most 5 % may be accepted. The last line is JSON.

    python benchmarks/calibrate_simulation.py [--hosts 500] [--worlds "iid,real busy"] [--cv 0.5,1,3,8]
                                              [--bent 0,1,2,3,5] [--seed 1] [--markdown]
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from noise_worlds import DRAWN, cvs, noise, recorded

from pytest_vmstorage.analysis.calibration import Equality, Noise, RestoredBus, Sameness, pairs_to_take

WORLDS = (*DRAWN, *recorded())
BOOTS, ROUNDS, WORKLOADS = 6, 3, 2


def calibrated(world: str, cv: float, bent: float, draw: random.Random) -> tuple[Sameness, int]:
    """What becomes of the bus on one host, and how many pairs were taken."""
    found = [noise(world, cv, draw) for _ in range(WORKLOADS)]
    boots = [[[math.exp(-log) for log in one.rounds(ROUNDS)] for _ in range(BOOTS)] for one in found]
    count = pairs_to_take([Noise.of("fio", "IOPS", one) for one in boots])
    # faster guests take less time
    pairs = [[before - after for before, after in one.pairs(count, -math.log1p(bent))] for one in found]
    compared = tuple(Equality.of("fio", logs) for logs in pairs)
    return RestoredBus(bus="virtio-blk", compared=compared).verdict, count


def rates(world: str, cv: float, bent: float, hosts: int, seed: int) -> dict[str, Any]:
    """The shares of hosts by what became of the bus."""
    draw = random.Random(f"{seed} {world} {cv} {bent}")
    found = [calibrated(world, cv, bent, draw) for _ in range(hosts)]
    verdicts = Counter(verdict for verdict, _ in found)
    return {
        "world": world,
        "cv": cv,
        "bent": bent,
        "accepted": round(verdicts["equal"] / hosts, 4),
        "refused": round(verdicts["differs"] / hosts, 4),
        "open": round(verdicts["open"] / hosts, 4),
        "pairs": statistics.median(count for _, count in found),
    }


def table_lines(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A table in Markdown: accepted / refused for each part by which hosts bend their figures, in percent of hosts."""
    bents = list(dict.fromkeys(row["bent"] for row in rows))
    yield "| noise | pairs | " + " | ".join(f"{bent * 100:.0f} %" for bent in bents) + " |"
    yield "|---|---:|" + "---:|" * len(bents)
    for (world, cv), group in itertools.groupby(rows, key=lambda row: (row["world"], row["cv"])):
        found = list(group)
        shares = [f"{row['accepted'] * 100:.1f} / {row['refused'] * 100:.1f}" for row in found]
        pairs = statistics.median(row["pairs"] for row in found)
        yield f"| {world}, {cv * 100:.1f} % | {pairs:g} | {' | '.join(shares)} |"


def percents(text: str) -> list[float]:
    """Numbers such as "0.5,1" as fractions."""
    return [float(one) / 100 for one in text.split(",")]


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description="error rates of a calibration's equivalence tests")
    parser.add_argument("--hosts", type=int, default=500)
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--cv", type=percents, default=percents("0.5,1,3,8"))
    parser.add_argument("--bent", type=percents, default=percents("0,1,2,3,5"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--markdown", action="store_true", help="print a table for the docs, too")
    arguments = parser.parse_args()
    rows = []
    for world in arguments.worlds.split(","):
        for cv in cvs(world, arguments.cv):
            for bent in arguments.bent:
                row = rates(world, cv, bent, arguments.hosts, arguments.seed)
                rows.append(row)
                print(
                    "{world}, cv {cv:.1%}, bent by {bent:.0%}: accepted {accepted:.1%}, refused {refused:.1%},"
                    " open {open:.1%}, {pairs:g} pairs".format(**row),
                    flush=True,
                )
    if arguments.markdown:
        print("\n".join(table_lines(rows)))
    print(json.dumps({"hosts": arguments.hosts, "rates": rows}))


if __name__ == "__main__":
    main()

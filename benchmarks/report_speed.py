"""How long it takes to make the HTML report of a run, and how large it is, by the number of its rows.

The runs are made up: cells that differ in up to seven axes, one fio job of three rounds in each (two jobs up to 200
rows), with a tenth of a millisecond's noise and no output of a tool. The last line is JSON: for each number of rows
`seconds` (the least of the repeats), `bytes` and `cells`, the matrix's number of figures. The limits are 1 s and 600 kB
for 180 rows, 3 s and 6 MB for 10,000, and 120 kB for 16.

    python benchmarks/report_speed.py [--rows 16,180,10000] [--repeats 3] [--keep FOLDER] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import itertools
import json
import pstats
import random
import time
from collections.abc import Iterator
from pathlib import Path

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.formats import RENDERERS
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.results.run import Measurement, Run
from pytest_vmstorage.testing.builders import in_turns, make_measurement, make_run

_ROUNDS = 3
_FEW = 200
AXES = {
    "cache": ("none", "writethrough", "writeback", "directsync", "unsafe"),
    "format": ("raw", "qcow2"),
    "bus": ("virtio-blk", "virtio-scsi"),
    "vcpus": tuple(range(1, 11)),
    "total_iops_sec": tuple(range(1000, 11_000, 1000)),
    "memory": tuple(f"{256 * factor}M" for factor in range(1, 6)),
}


def cells(number: int) -> Iterator[StorageConfig]:
    """So many cells; the first axes vary most."""
    products = itertools.product(*reversed(AXES.values()))
    for values in itertools.islice(products, number):
        yield StorageConfig.model_validate(dict(zip(reversed(AXES), values, strict=True)))


def measured(cell: StorageConfig, workload: str, noise: random.Random) -> Measurement:
    """Three rounds, faster with more vCPUs and slower with qcow2."""
    rate = 1000.0 * (1 + cell.vcpus / 10) * (0.9 if cell.format == "qcow2" else 1)
    rounds = [rate * noise.gauss(1, 0.02) for _ in range(_ROUNDS)]
    return make_measurement(cell, workload=workload, iops=rounds, clat_p99=[32 / one for one in rounds])


def made_up(rows: int) -> Run:
    """A run of so many rows."""
    noise = random.Random(rows)
    workloads = ("fio randwrite 4k qd32", "fio randread 4k qd32")[: 2 if rows <= _FEW else 1]
    return make_run(*in_turns(*(measured(cell, one, noise) for cell in cells(rows) for one in workloads)))


def look_at(rows: int, repeats: int, keep: Path | None) -> dict[str, float]:
    """The time and size of the page of so many rows."""
    run, took, page = made_up(rows), [], ""
    for _ in range(repeats):
        begin = time.perf_counter()
        page = RENDERERS[".html"](run, None, False)
        took.append(time.perf_counter() - begin)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{rows}.html").write_text(page, encoding="utf-8")
    table = build_table(run)
    figures = sum(bool(cell.figure) for row in table.rows for cell in row.cells)
    return {"seconds": round(min(took), 3), "bytes": len(page.encode()), "cells": figures}


def main() -> None:
    """Make each of the pages."""
    parser = argparse.ArgumentParser(description="Time and size of HTML reports.")
    parser.add_argument("--rows", default="16,180,10000", help="numbers of rows, with commas between")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the pages there")
    parser.add_argument("--profile", action="store_true", help="say where the time of the last one goes")
    arguments = parser.parse_args()
    numbers = [int(one) for one in arguments.rows.split(",")]
    found = {rows: look_at(rows, arguments.repeats, arguments.keep) for rows in numbers}
    if arguments.profile:
        run, profile = made_up(numbers[-1]), cProfile.Profile()
        profile.runcall(RENDERERS[".html"], run, None, False)
        pstats.Stats(profile).sort_stats("cumulative").print_stats(45)
    print(json.dumps(found))


if __name__ == "__main__":
    main()

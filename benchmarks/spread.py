"""How much sooner two lab hosts are through with a matrix than one: `--vm-spread=shard` with a worker for each.

24 cells, each with a guest of its own, whose workload sleeps: of two emulated guests that computed, each would have
half of this machine. The hosts are those of the laboratory of tests (tests/lab, needs root), or real ones with --hosts.
What a first contact costs is paid before: the appliance lies on both hosts, and their acceleration is known. The run on
two hosts is saved in one file, which `pytest-benchmark compare` has to read. The last line is JSON: `ratio`, the time
on two hosts over that on one; 0.6 at most is wanted.

    python benchmarks/spread.py [--seconds 12] [--hosts lab01,lab02]
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]

CELLS = 24
WANTED = 0.6

MATRIX = """
import pytest
from pytest_vmstorage import Metric, Workload


class Sleep(Workload):
    tool = "sleep"
    package = "coreutils"
    reads = False
    writes = False
    metrics = (Metric(name="seconds", unit="s", better="lower"),)

    length: float = 1.0

    @property
    def region_bytes(self):
        return 0

    @property
    def expected_seconds(self):
        return self.length

    def argv(self, target):
        script = "begin=${EPOCHREALTIME/./}; sleep $0; echo seconds $((${EPOCHREALTIME/./} - begin))e-6"
        return ("bash", "-c", script, str(self.length))


@pytest.mark.parametrize("format", ["raw", "qcow2"])
@pytest.mark.parametrize("cache", ["none", "writeback", "writethrough"])
@pytest.mark.parametrize("bus", ["virtio-blk", "virtio-scsi"])
@pytest.mark.parametrize("preallocation", ["off", "full"])
@pytest.mark.storage(size="64M")
def test_sleep(measure):
    measure(Sleep(length=SECONDS), rounds=1, warmup=0)
"""

Pytest = Callable[..., tuple[int, str]]
"""Runs pytest on the controller with these arguments: its status and what it printed."""


@contextmanager
def controller(folder: Path, hosts: str) -> Iterator[tuple[Pytest, str]]:
    """What runs a command where the hosts can be reached, and their names."""
    if hosts:

        def here(*argv: str) -> tuple[int, str]:
            done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr

        yield here, hosts
        return
    sys.path.insert(0, str(ROOT / "tests" / "lab"))
    from laboratory import NAMES, laboratory  # type: ignore[import-not-found]

    with laboratory() as lab:
        yield lambda *argv: lab.run(list(argv), folder, timeout_s=1800), ",".join(NAMES)


def main() -> None:
    """Measure both ways and print the ratio."""
    parser = argparse.ArgumentParser(description="time of a matrix on two lab hosts over that on one")
    parser.add_argument("--seconds", type=float, default=12.0, help="how long each workload sleeps (default: 12)")
    parser.add_argument("--hosts", default="", help="two real lab hosts (default: those of the tests' laboratory)")
    arguments = parser.parse_args()
    # the laboratory has a /tmp of its own
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        (folder / "test_matrix.py").write_text(MATRIX.replace("SECONDS", str(arguments.seconds)))
        with controller(folder, arguments.hosts) as (run, hosts):
            print(json.dumps(compare(run, folder, hosts, arguments.seconds)))


def compare(run: Pytest, folder: Path, hosts: str, seconds: float) -> dict[str, object]:
    """The figures of both runs."""
    first = hosts.partition(",")[0]

    def timed(*options: str, report: str, cells: int) -> float:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--vm-report={report}", *options]
        begin = time.monotonic()
        code, text = run(*command)
        wall_s = time.monotonic() - begin
        print(text)
        if code or len(json.loads((folder / report).read_text())["measurements"]) != cells:
            sys.exit(f"pytest ended with status {code} and not with {cells} measurements.")
        return wall_s

    each = ("--vm-spread=each", "-k", "raw and none and blk and off")
    timed(f"--vm-host={hosts}", *each, report="contact.json", cells=2)
    one_s = timed(f"--vm-host={first}", report="one.json", cells=CELLS)
    both = (f"--vm-host={hosts}", "-n2", "--vm-spread=shard", "--vm-save=spread")
    two_s = timed(*both, report="two.json", cells=CELLS)
    code, text = run(sys.executable, "-m", "pytest_benchmark", "compare", "--columns=median")
    compared = len(set(re.findall(r"test_sleep\[\S+\]", text)))
    if code or compared != CELLS or len(list(folder.glob(".benchmarks/*/*.json"))) != 1:
        sys.exit(f"pytest-benchmark compare ended with status {code} and {compared} rows:\n{text}")
    measured = json.loads((folder / "two.json").read_text())["measurements"]
    per_host = Counter(one["host"] for one in measured)
    if set(per_host.values()) != {CELLS // 2}:
        sys.exit(f"the cells were not halved: {dict(per_host)}.")
    return {
        "ratio": round(two_s / one_s, 3),
        "wanted": WANTED,
        "one_host_s": round(one_s, 1),
        "two_hosts_s": round(two_s, 1),
        "cells": CELLS,
        "sleep_s": seconds,
        "per_host": per_host,
        "compared": compared,
    }


if __name__ == "__main__":
    main()

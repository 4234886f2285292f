"""What the plugin, installed but not used, adds to the start of a pytest run: paired runs with and without it.

The project and pytest-benchmark are installed as wheels in a folder of this script's own, as users have them: an
editable install has other costs. Two states are measured in turns:

- "uncached": PYTHONDONTWRITEBYTECODE is set, as in most containers, or the install is read-only. Python's own bytecode
  is there, which pip writes; pytest's is not, so that it rewrites the assertions of each plugin at each start.
- "cached": pytest's bytecode was kept by an earlier run.

Python's garbage collector visits all objects after each 70,000 or so that were made, which takes as long as what is
measured here. A few objects more or less decide whether it does so once more before pytest ends, so each pair begins
with a random number of objects: otherwise one and the same coincidence would be in every pair.

The last line is JSON: for each state `added_ms` (median of the pairs' differences), `pytest_benchmark_adds_ms`, and
`share`, the one over the other; and the same in processor time.

    python benchmarks/startup.py [--pairs 30]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]

KINDS = {"wall": "_ms", "processor": "_cpu_ms"}
"""What is measured of each run, and how the last line names it; processor time bears a machine that is busy."""


PASS_OBJECTS = 700 * 10 * 10
"""How many objects are made between two passes over all of them, by Python's own thresholds."""


class State:
    """A folder with both plugins, and whether pytest may keep what it compiles of them."""

    def __init__(self, name: str, installed: Path, tests: Path, *, is_cached: bool) -> None:
        self.name = name
        self._tests = tests
        self._environ = {**os.environ, "PYTHONPATH": str(installed)}
        self._environ.pop("PYTHONDONTWRITEBYTECODE", None)
        if not is_cached:
            self._environ["PYTHONDONTWRITEBYTECODE"] = "1"
        self.added: dict[str, list[float]] = {kind: [] for kind in KINDS}
        self.benchmark: dict[str, list[float]] = {kind: [] for kind in KINDS}
        self.bare: dict[str, list[float]] = {kind: [] for kind in KINDS}

    def seconds(self, *without: str, objects: int = 0) -> tuple[float, float]:
        """Wall and processor seconds of a pytest run of one empty test, with plugins of these entry points blocked."""
        blocked = [word for name in without for word in ("-p", f"no:{name}")]
        begun = f"objects = [[] for _ in range({objects})]\nimport pytest\nraise SystemExit(pytest.main())"
        argv = [sys.executable, "-c", begun, "-q", "-p", "no:cacheprovider", *blocked]
        quiet = subprocess.DEVNULL
        begin = time.monotonic()
        process = subprocess.Popen(argv, cwd=self._tests, env=self._environ, stdout=quiet, stderr=quiet)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"pytest ended with status {process.returncode}.")
        return wall_s, usage.ru_utime + usage.ru_stime

    def pair(self, objects: int) -> None:
        """Measure once with all, without ours, and without both."""
        all_of_it, without, neither = (
            self.seconds(*blocked, objects=objects) for blocked in ((), ("vmstorage",), ("vmstorage", "benchmark"))
        )
        for place, kind in enumerate(KINDS):
            self.added[kind].append(all_of_it[place] - without[place])
            self.benchmark[kind].append(without[place] - neither[place])
            self.bare[kind].append(neither[place])

    def found(self) -> dict[str, float]:
        """The medians."""
        found: dict[str, float] = {}
        for kind, suffix in KINDS.items():
            added, benchmark = statistics.median(self.added[kind]), statistics.median(self.benchmark[kind])
            found |= {
                f"added{suffix}": round(added * 1000, 1),
                f"pytest_benchmark_adds{suffix}": round(benchmark * 1000, 1),
                f"share{suffix.removesuffix('_ms')}": round(added / benchmark, 3),
                f"without_both{suffix}": round(statistics.median(self.bare[kind]) * 1000, 1),
            }
        return found


def install(folder: Path) -> None:
    """Both plugins as wheels, without what they depend on: that is this interpreter's."""
    version = importlib.metadata.version("pytest-benchmark")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder)]
    subprocess.run([*pip, str(ROOT), f"pytest-benchmark=={version}"], check=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=30)
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as folder:
        tests, uncached, cached = (Path(folder, name) for name in ("tests", "uncached", "cached"))
        tests.mkdir()
        (tests / "test_empty.py").write_text("def test_nothing():\n    pass\n")
        install(uncached)
        shutil.copytree(uncached, cached)
        states = [
            State("uncached", uncached, tests, is_cached=False),
            State("cached", cached, tests, is_cached=True),
        ]
        for state in states:
            state.seconds()
        draw = random.Random(pairs)
        for _ in range(pairs):
            objects = draw.randrange(PASS_OBJECTS)
            for state in states:
                state.pair(objects)
        assert not list(uncached.rglob("*-pytest-*.pyc")), "pytest kept what it was not to keep"
        assert list(cached.rglob("*-pytest-*.pyc")), "pytest kept nothing"
    print(json.dumps({**{state.name: state.found() for state in states}, "pairs": pairs}))


if __name__ == "__main__":
    main()

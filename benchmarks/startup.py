"""What the plugin, installed but not used, adds to the start of a pytest run: paired runs with and without it.

The last line is JSON: `added_ms` (median of the pairs' differences), and beside it what pytest-benchmark adds.

    python benchmarks/startup.py [--pairs 30]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def seconds(folder: str, *without: str) -> float:
    """Wall seconds of a pytest run of one empty test, with plugins of these entry-point names blocked."""
    blocked = [word for name in without for word in ("-p", f"no:{name}")]
    begin = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *blocked],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return time.monotonic() - begin


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=30)
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_empty.py").write_text("def test_nothing():\n    pass\n")
        seconds(folder)
        added, benchmark, bare = [], [], []
        for _ in range(pairs):
            all_of_it = seconds(folder)
            without = seconds(folder, "vmstorage")
            neither = seconds(folder, "vmstorage", "benchmark")
            added.append(all_of_it - without)
            benchmark.append(without - neither)
            bare.append(neither)
    print(
        json.dumps(
            {
                "added_ms": round(statistics.median(added) * 1000, 1),
                "pytest_benchmark_adds_ms": round(statistics.median(benchmark) * 1000, 1),
                "without_both_ms": round(statistics.median(bare) * 1000, 1),
                "pairs": pairs,
            }
        )
    )


if __name__ == "__main__":
    main()

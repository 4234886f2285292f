"""What this host's guests cost and are worth, as a row of a table that can be pasted into the documentation.

It runs `guest_ready.py`, `fidelity.py`, `restored.py` and `overhead.py` one after the other, shows what they print, and
ends with the table: host, QEMU, until a guest answers (booted, restored, and a bare QEMU's), the plugin's figure over a
bare QEMU's, a restored guest's over a booted one's, and the time outside of workloads over the time in them. Where
guests ran emulated the row says so, and says nothing of speed.

    python benchmarks/kvm_table.py [--accel kvm] [--guests 10] [--pairs 10] [--buses virtio-blk] [-k EXPRESSION]
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

HEAD = (
    "| host | QEMU | guests | booted, s | restored, s | bare QEMU, s | plugin over bare QEMU"
    " | restored over booted | time outside of workloads |\n|---|---|---|---:|---:|---:|---|---|---:|"
)


def told(script: str, *options: str) -> tuple[str, Any]:
    """What a script printed and the JSON of its last line; exits where it fails."""
    print(f"\n$ python benchmarks/{script} {' '.join(options)}", flush=True)
    said = []
    with subprocess.Popen(
        [sys.executable, str(HERE / script), *options], stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            print(line, end="", flush=True)
    if process.returncode:
        sys.exit(f"{script} ended with status {process.returncode}.")
    return "".join(said), json.loads(said[-1])


def row(
    facts: str,
    ready: Mapping[str, Any],
    fidelity: Mapping[str, Any],
    restored: Sequence[Mapping[str, Any]],
    overhead: Mapping[str, Any],
) -> str:
    """The row; `facts` is the line of `guest_ready.py` on its host."""
    found = re.fullmatch(r"(.+, \d+ cores), QEMU (\S+), libvirt \S+, (\w+)", facts)
    assert found, facts
    accel = "emulated (TCG)" if found[3] == "tcg" else found[3]
    begins = [f"{ready[name]:.2f}" for name in ("fresh_median_s", "restored_median_s", "bare_median_s")]
    same = "{ratio:.3f} ({ratio_low:.3f} to {ratio_high:.3f})".format(**fidelity)
    pairs = "<br>".join(f"{one['bus']}, {one['workload']}: {_interval(one)}" for one in restored)
    return (
        f"| {found[1]} | {found[2]} | {accel} | {' | '.join(begins)} | {same} | {pairs} | {overhead['overhead']:.0%} |"
    )


def _interval(one: Mapping[str, Any]) -> str:
    within = "too few pairs" if one["low"] is None else f"{one['low']:.3f} to {one['high']:.3f}"
    return f"{one['ratio']:.3f} ({within})"


def main() -> None:
    """Run all and print the table."""
    parser = argparse.ArgumentParser(description="the figures of this host's guests, as a row of a table")
    parser.add_argument("--accel", default="kvm", choices=("auto", "kvm", "tcg"))
    parser.add_argument("--guests", default="10", help="guests of guest_ready.py")
    parser.add_argument("--pairs", default="10", help="pairs of fidelity.py and restored.py")
    parser.add_argument("--buses", default="virtio-blk", help="buses of restored.py")
    parser.add_argument("-k", default="fio or ioping", help="which tests overhead.py runs")
    given = parser.parse_args()
    accel = ("--accel", given.accel)
    text, ready = told("guest_ready.py", *accel, "--guests", given.guests)
    _, fidelity = told("fidelity.py", *accel, "--pairs", given.pairs)
    _, restored = told("restored.py", *accel, "--pairs", given.pairs, "--buses", given.buses)
    _, overhead = told("overhead.py", *accel, "-k", given.k)
    print(f"\n{HEAD}\n{row(text.splitlines()[-2], ready, fidelity, restored['ratios'], overhead)}")


if __name__ == "__main__":
    main()

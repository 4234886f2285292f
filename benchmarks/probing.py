"""How long a run takes where libvirt's driver modules were unpacked at different times, beside one where they were not.

libvirt asks QEMU anew what it can where it meets a module that is newer than the first. Two causes made a run wait for
that for 80 s: modules were counted as they were loaded, and a QEMU that died while the process adopts orphans was not
reaped. In each round a run of one cell with a passphrase, for which libvirt loads a module in the middle, sees copies
of the modules in a mount namespace of its own:

- "equal": all of one second;
- "apart": the QEMU driver older than the others;
- "apart, unmended": the same, in a pytest run in which neither cause is mended (with --unmended, which takes long).

What libvirt knows of QEMU is kept from the first run, which is not counted. The last line is JSON: `ratio` (median of
"apart" over "equal" of the same round, with `ratio_min` and `ratio_max`) and the medians of all in seconds. As root.

    python benchmarks/probing.py [--pairs 10] [--unmended]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pytest_vmstorage.host.folders import cache_folder

MODULES = Path("/usr/lib/x86_64-linux-gnu/libvirt/connection-driver")
FIRST = "libvirt_driver_qemu.so"
TEST = """
import pytest
from pytest_vmstorage import Fio

@pytest.mark.storage(size="64M", format="qcow2", encryption="luks")
def test_read(measure):
    measure(Fio(rw="randread", bs="4k", size="16M", runtime=1), rounds=1, warmup=0)
"""
UNMENDED = """
from pytest_vmstorage.guest.libvirt import hypervisor, start

hypervisor.count_all_modules = lambda: 0
start.orphan_daemons = set
"""


def copies(folder: Path, *, apart: bool) -> Path:
    """Copies of the modules: with change times in one second, or the QEMU driver's in an earlier one."""
    folder.mkdir()
    others = [path.name for path in MODULES.glob("*.so") if path.name != FIRST]
    for name in (FIRST, *others):
        shutil.copyfile(MODULES / name, folder / name)

    def second(name: str) -> int:
        return int((folder / name).stat().st_ctime)

    # change times cannot be set, only be waited for
    while (second(FIRST) >= min(map(second, others))) if apart else len({second(one) for one in (FIRST, *others)}) > 1:
        time.sleep(0.05)
        for name in others if apart else (FIRST, *others):
            (folder / name).touch()
    return folder


class State:
    """A folder with the test and a cache of its own, whose runs see those copies."""

    def __init__(self, folder: Path, modules: Path, *, unmended: bool = False) -> None:
        self._folder, self._modules = folder, modules
        self.seconds: list[float] = []
        (folder / "cache").mkdir(parents=True)
        (folder / "cache" / "appliance").symlink_to(cache_folder() / "appliance")
        (folder / "test_it.py").write_text(TEST)
        if unmended:
            (folder / "conftest.py").write_text(UNMENDED)

    def run(self) -> float:
        """How long one run takes, in seconds."""
        mounted = 'mount --bind "$0" "$1" && shift && exec "$@"'
        argv = ["unshare", "-m", "sh", "-c", mounted, str(self._modules), str(MODULES), sys.executable, "-m", "pytest"]
        argv += ["-q", "-p", "no:cacheprovider", "--vm-boot=fresh", f"--vm-dir={self._folder}/disks"]
        begin = time.monotonic()
        done = subprocess.run(
            argv,
            cwd=self._folder,
            env={**os.environ, "VMSTORAGE_CACHE": str(self._folder / "cache")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(done.stdout)
        return time.monotonic() - begin


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--unmended", action="store_true", help="beside them runs in which the causes are not mended")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vmstorage-probing-", dir="/var/tmp") as name:
        folder = Path(name)
        equal, apart = (copies(folder / one, apart=one == "apart") for one in ("equal", "apart"))
        states = {"equal": State(folder / "1", equal), "apart": State(folder / "2", apart)}
        if arguments.unmended:
            states["apart, unmended"] = State(folder / "3", apart, unmended=True)
        for state in states.values():
            state.run()
        for number in range(arguments.pairs):
            order = list(states.items())[:: -1 if number % 2 else 1]
            for _, state in order:
                state.seconds.append(state.run())
            said = "; ".join(f"{one} {state.seconds[-1]:.2f} s" for one, state in states.items())
            print(f"{number + 1}: {said}", flush=True)
    ratios = [b / a for a, b in zip(states["equal"].seconds, states["apart"].seconds, strict=True)]
    told = {"ratio": statistics.median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios)}
    told |= {f"{one} [s]": statistics.median(state.seconds) for one, state in states.items()}
    print(json.dumps({one: round(value, 3) for one, value in told.items()}))


if __name__ == "__main__":
    main()

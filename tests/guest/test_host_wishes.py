"""Real guests: what a run asks of its host, and what its rows then say."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from test_runs import run, write

CPUS = len(os.sched_getaffinity(0))
CELLS = f"""
import pytest
from pytest_vmstorage import Fio

JOB = Fio(rw="randwrite", bs="4k", iodepth=8, size="16M", runtime=1)

@pytest.mark.storage(size="64M")
def test_plain(measure): measure(JOB, rounds=1, warmup=0)

@pytest.mark.storage(size="64M", iothread=True)
def test_iothread(measure): measure(JOB, rounds=1, warmup=0)

@pytest.mark.storage(size="64M", vcpus={CPUS})
def test_too_many(measure): measure(JOB, rounds=1, warmup=0)

@pytest.mark.storage(size="64M", backing="native")
def test_native(measure): measure(JOB, rounds=1, warmup=0)
"""


def rows(folder: Path) -> dict[str, Any]:
    """The measurements of the JSON report there by their tests."""
    written = json.loads((folder / "r.json").read_text())["measurements"]
    return {row["nodeid"].partition("::")[2]: row for row in written}


@pytest.mark.skipif(CPUS < 2, reason="one CPU is none to choose from")
def test_pinned_guests_run_where_they_were_put(tmp_path: Path) -> None:
    """A vCPU and the rest of QEMU on two CPUs, read back from the threads; more vCPUs than cores are left, and said."""
    write(tmp_path, CELLS)
    done = run(tmp_path, "--vm-pin", "--vm-report=r.json")
    assert done.returncode == 0, done.stdout
    seen = rows(tmp_path)
    said = {name: row["hygiene"].get("pinning") for name, row in seen.items()}
    where = {name: row["around"]["may_run"] for name, row in seen.items()}
    plain = re.fullmatch(r"vCPU 0 on CPU (\d+), all else of QEMU on CPU (\d+), NUMA node \d+", said["test_plain"])
    assert plain, said
    assert plain[1] != plain[2]
    assert f"vCPU on {plain[1]}" in where["test_plain"]
    assert re.search(rf"main loop[^;]* on {plain[2]}(;|$)", where["test_plain"])
    cpus = re.findall(r"on CPU (\d+)", said["test_iothread"])
    assert len(cpus) == 3
    assert cpus[0] not in cpus[1:]
    assert ("no core left for it alone" in said["test_iothread"]) is (cpus[1] == cpus[2])
    few = f"not pinned: {CPUS} vCPUs and the rest of QEMU want {CPUS + 1} cores, and "
    assert said["test_too_many"].startswith(few)
    assert ";" not in where["test_too_many"]
    assert (said["test_native"], where["test_native"]) == (None, "no QEMU")


def test_strict_refuses_what_cannot_be_pinned(tmp_path: Path) -> None:
    """The test fails with the numbers, and no guest is made for it."""
    write(tmp_path, CELLS)
    done = run(tmp_path, "--vm-pin", "--vm-strict", "-k", "too_many")
    assert done.returncode == 1
    refusal = f"--vm-pin cannot be had: {CPUS} vCPUs and the rest of QEMU want {CPUS + 1} cores"
    assert f"--vm-strict: {refusal}" in done.stdout

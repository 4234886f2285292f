"""Real guests: what a run asks of its host, and what its rows then say."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_runs import argv, run, write

from pytest_vmstorage.lab.opening import lease_book

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
    few = f"not pinned: {CPUS} vCPUs and the rest of QEMU need {CPUS + 1} cores, and "
    assert said["test_too_many"].startswith(few)
    assert ";" not in where["test_too_many"]
    assert (said["test_native"], where["test_native"]) == (None, "no QEMU")


def test_strict_refuses_what_cannot_be_pinned(tmp_path: Path) -> None:
    """The test fails with the numbers, and no guest is made for it."""
    write(tmp_path, CELLS)
    done = run(tmp_path, "--vm-pin", "--vm-strict", "-k", "too_many")
    assert done.returncode == 1
    refusal = f"--vm-pin is not possible: {CPUS} vCPUs and the rest of QEMU need {CPUS + 1} cores"
    assert f"--vm-strict: {refusal}" in done.stdout


@pytest.fixture
def loop_folder(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A folder on a loop device of its own, and the file of its I/O scheduler: nobody else's device is touched."""
    image, folder = tmp_path / "image", tmp_path / "disks"
    folder.mkdir()
    with image.open("wb") as stream:
        stream.truncate(2**30)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    found = subprocess.run(["losetup", "-f", "--show", image], check=True, capture_output=True, text=True)
    loop = found.stdout.strip()
    subprocess.run(["mount", loop, folder], check=True)
    yield folder, Path("/sys/class/block") / Path(loop).name / "queue/scheduler"
    subprocess.run(["umount", folder], check=True)
    subprocess.run(["losetup", "-d", loop], check=True)


def in_effect(scheduler: Path) -> str:
    """The one in brackets."""
    return scheduler.read_text().partition("[")[2].partition("]")[0]


def other(scheduler: Path) -> str:
    """One that the device has and does not use."""
    return next(word for word in scheduler.read_text().split() if not word.startswith("["))


def test_the_hosts_scheduler_is_set_for_the_run_alone(tmp_path: Path, loop_folder: tuple[Path, Path]) -> None:
    """The kernel's own word around the rounds, in the row and after the run; one that it lacks is refused."""
    folder, scheduler = loop_folder
    before, wanted = in_effect(scheduler), other(scheduler)
    write(tmp_path, CELLS)
    done = run(tmp_path, f"--vm-host-scheduler={wanted}", f"--vm-dir={folder}", "--vm-report=r.json", "-k", "plain")
    assert done.returncode == 0, done.stdout
    row = rows(tmp_path)["test_plain"]
    device = scheduler.parts[-3]
    assert row["hygiene"]["host scheduler"] == f"{wanted} on {device} (--vm-host-scheduler)"
    assert (row["around"]["device"], row["around"]["scheduler"]) == (device, wanted)
    assert in_effect(scheduler) == before
    refused = run(tmp_path, "--vm-host-scheduler=cfq", f"--vm-dir={folder}")
    assert refused.returncode == 4
    assert f"--vm-host-scheduler=cfq is not available on {device}. It has: none," in refused.stderr + refused.stdout
    assert not any(lease.folder.startswith(str(folder)) for lease in lease_book())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill"])
def test_the_scheduler_is_set_back_after_a_run_that_was_ended(
    tmp_path: Path, loop_folder: tuple[Path, Path], number: signal.Signals
) -> None:
    """By the run itself after Ctrl-C; after SIGKILL by `vmstorage reap`, which says so."""
    folder, scheduler = loop_folder
    before, wanted = in_effect(scheduler), other(scheduler)
    write(tmp_path, CELLS.replace("runtime=1", "runtime=60, time_based=True"))
    options = (f"--vm-host-scheduler={wanted}", f"--vm-dir={folder}", "-k", "plain")
    with subprocess.Popen(argv(*options), cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while in_effect(scheduler) != wanted and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert in_effect(scheduler) == wanted
        process.send_signal(number)
        process.wait(timeout=60)
    if number == signal.SIGKILL:
        assert in_effect(scheduler) == wanted
        reaped = subprocess.run(
            [sys.executable, "-m", "pytest_vmstorage.cli.command", "reap"], capture_output=True, text=True, check=True
        )
        assert f"scheduler set back to {before}" in reaped.stdout
    assert in_effect(scheduler) == before
    assert list(folder.glob("run-*")) == []


@pytest.mark.skipif(any(Path("/sys/devices/system/cpu/cpufreq").glob("policy*")), reason="this host has cpufreq")
@pytest.mark.parametrize("option", ["--vm-governor=performance", "--vm-turbo=off"])
def test_what_a_virtual_machine_has_not_is_refused_before_any_test(tmp_path: Path, option: str) -> None:
    """One sentence and exit status 4, and no lease is left."""
    write(tmp_path, CELLS)
    done = run(tmp_path, option, f"--vm-dir={tmp_path}/disks")
    said = " ".join((done.stderr + done.stdout).split())
    assert done.returncode == 4
    assert f"{option} cannot be set: this host shows no " in said
    assert "Traceback" not in said
    assert not any(lease.folder.startswith(str(tmp_path)) for lease in lease_book())

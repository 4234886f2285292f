"""`vmstorage calibrate` on this machine, with few guests; what runs make of it, and its lapse. `cli.calibrate.bare`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vmstorage.analysis.calibration import Calibration, Equality, RestoredBus
from pytest_vmstorage.host.calibrations import calibrations_of, keep_calibration
from pytest_vmstorage.host.folders import cache_folder

FEW = """
import sys
from pytest_vmstorage.cli import command
from pytest_vmstorage.cli.calibrate import taking
taking.BOOTS, taking.ROUNDS, taking.FIRST_ROUNDS, taking.BARE_PAIRS, taking.FEWEST_PAIRS = 2, 3, 3, 1, 1
taking.pairs_to_take = lambda noises: 1
taking._BUSES, taking.WORKLOADS = ("virtio-blk",), taking.WORKLOADS[1:]
sys.exit(command.main(["calibrate", *sys.argv[1:]]))
"""
"""The command with fewer guests of each kind than it takes by itself, which would be 20 minutes of them."""

RUN = """
import pytest
from pytest_vmstorage import Fio

@pytest.mark.parametrize("bus", ["virtio-blk", "usb"])
@pytest.mark.storage(size="64M")
def test_it(guest, measure):
    measure(Fio(rw="randread", size="8M", runtime=1, time_based=True), rounds=1, warmup=0)
    print(guest.config.bus, "restored" if guest.machine.is_restored else "booted")
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of its own, in which the host has no calibration yet; what is built once is in it."""
    own = tmp_path_factory.mktemp("cache")
    shared = cache_folder()
    for name in ("appliance", "accel.json"):
        if (shared / name).exists():
            (own / name).symlink_to((shared / name).resolve())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VMSTORAGE_CACHE", str(own))
        yield own


@pytest.fixture(scope="module")
def calibration(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Calibration:
    """What the command found, as it kept it."""
    folder = tmp_path_factory.mktemp("disks")
    done = subprocess.run(
        [sys.executable, "-c", FEW, "--format=json", f"--vm-dir={folder}"],
        capture_output=True, text=True, check=False, timeout=900, env={**os.environ, "VMSTORAGE_CACHE": str(cache)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list(folder.iterdir()) == []
    made = Calibration.model_validate_json(done.stdout)
    assert calibrations_of(made.host.name) == (made,)
    return made


def run(folder: Path, disks: str) -> str:
    """A run in that folder, with its disks where the calibration had them; its output."""
    (folder / "test_it.py").write_text(RUN)
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rP", f"--vm-dir={disks}", "--vm-report=r.json"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout + done.stderr


def test_a_real_host_is_calibrated_and_its_runs_use_it(calibration: Calibration, tmp_path: Path) -> None:
    """Each step was taken; a run boots where restored guests differ and restores where they are equal, and says so."""
    assert calibration.left_out == ()
    assert [one.workload for one in calibration.noise] == ["fio randwrite 4k qd32 size=64M"]
    assert {one.place for one in calibration.yardsticks} == {"null", "native", "page cache"}
    assert all(one.low <= one.figure <= one.high for one in calibration.yardsticks)
    assert [len(one.compared) for one in calibration.restored] == [1]
    assert [one.pairs for one in calibration.bare] == [1]
    assert all(0.3 < one.ratio < 3 for one in calibration.bare)
    assert calibration.booted_s is not None
    assert calibration.restored_s is not None
    found = {
        bus: RestoredBus(bus=bus, compared=(Equality(workload="fio", pairs=9, ratio=1, p=0, verdict=verdict),))
        for bus, verdict in (("virtio-blk", "differs"), ("usb", "equal"))
    }
    decided = calibration.model_copy(update={"id": "decided000", "restored": tuple(found.values())})
    keep_calibration(decided)
    text = run(tmp_path, calibration.host.folder)
    assert "virtio-blk booted" in text
    assert "usb restored" in text
    (host,) = json.loads((tmp_path / "r.json").read_text())["hosts"]
    assert host["calibration"] == "decided000"
    told = "guests are restored by default on usb; guests are booted on virtio-blk, where restored ones differ"
    assert host["calibrated"] == f"calibration decided000 of {calibration.day}: {told}"


def test_it_lapses_when_the_host_changes(calibration: Calibration, tmp_path: Path) -> None:
    """With another kernel than it was made on nothing of it is used, and the run says why."""
    other = calibration.host.model_copy(update={"kernel": "5.10.0-1-amd64"})
    keep_calibration(calibration.model_copy(update={"id": "other00000", "host": other}))
    text = run(tmp_path, calibration.host.folder)
    assert "virtio-blk restored" in text
    assert "usb booted" in text
    (host,) = json.loads((tmp_path / "r.json").read_text())["hosts"]
    assert host["calibration"] == ""
    kernel = calibration.host.kernel
    assert f"nothing of it is used: kernel was 5.10.0-1-amd64 and is {kernel}" in host["calibrated"]
    assert "`vmstorage calibrate` makes another one" in host["calibrated"]
    assert host["calibrated"] in text

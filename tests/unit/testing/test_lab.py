"""The shipped fake lab behaves as its options say.

Tests of `testing.options` and `testing.programs` as well. `testing.builders`, `testing.guest`, `testing.host`,
`testing.image_operations`, `testing.qmp` and `testing.shell` are what most other tests stand on.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.errors import (
    BootTimeoutError,
    GuestDiedError,
    ProvisionError,
    SpaceError,
    UnsupportedError,
    VmStorageError,
    WorkloadError,
)
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.measure.image_operations import measure_images
from pytest_vmstorage.measure.runner import measure
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.results.run import Measurement
from pytest_vmstorage.testing import FakeShell, LabOptions, make_guest_shell, make_lab
from pytest_vmstorage.workloads.base import Workload
from pytest_vmstorage.workloads.dd import Dd
from pytest_vmstorage.workloads.fio.fio import Fio
from pytest_vmstorage.workloads.hdparm import Hdparm
from pytest_vmstorage.workloads.image_operations import ImageOperations

RAW, QCOW2, NATIVE = StorageConfig(), StorageConfig(format="qcow2"), StorageConfig(backing="native")
WRITE = Fio(rw="randwrite", bs="4k", iodepth=32, size="64M", runtime=1)


class Scene:
    """A fake lab, and what was noted in it."""

    def __init__(self, folder: Path, **options: object) -> None:
        self.events: list[str] = []
        self.rounds: list[tuple[str, int]] = []
        self.lab: Lab = make_lab(
            folder,
            options=LabOptions.model_validate(options),
            settings=LabSettings(timeout_s=0.5),
            note=self.events.append,
            before_round=lambda config, number: self.rounds.append((config.format, number)),
        )

    def measure(self, config: StorageConfig = RAW, workload: Workload = WRITE, rounds: int = 3) -> Measurement:
        """Rounds of that workload in the cell, without warm-up."""
        row = self.lab.environment(config)
        return measure(row, workload, Plan(rounds=rounds, warmup=0, timeout_s=0.5))


def test_all_cells_measure_alike(tmp_path: Path) -> None:
    """In guests and on the host; rounds differ by a percent, without chance, and layers count what was written."""
    scene = Scene(tmp_path)
    for config in (RAW, StorageConfig(guest_fs="ext4"), StorageConfig(backing="null"), NATIVE):
        assert scene.measure(config).values("iops") == (10000.0, 9900.0, 10000.0)
        scene.lab.drop()
    moved = scene.measure().moved
    assert moved.guest_written_bytes == moved.layer_written_bytes == moved.host_written_bytes == 29900 * 4096
    assert scene.measure(workload=Dd(rw="read", bs="1M", count=64, iflag="direct")).bw == pytest.approx(199.3, abs=1.5)
    scene.lab.close()


def test_what_happens_is_noted(tmp_path: Path) -> None:
    """Each event with its cell, in order."""
    scene = Scene(tmp_path)
    scene.lab.expect([RAW, QCOW2, RAW])
    for config in (RAW, QCOW2, RAW):
        scene.measure(config, rounds=1)
    scene.lab.close()
    raw, qcow2 = str(RAW), str(QCOW2)
    assert scene.events == [
        *(f"guest {raw}", f"fill {raw}", f"pause {raw}", f"guest {qcow2}", f"fill {qcow2}", f"pause {qcow2}"),
        *(f"resume {raw}", f"discard {raw}", f"discard {qcow2}", "close"),
    ]
    assert scene.rounds == [("raw", 1), ("qcow2", 1), ("raw", 2)]


def test_speed_is_by_cell_and_by_round(tmp_path: Path) -> None:
    """The first pattern that matches counts; a list goes round and round."""
    scene = Scene(tmp_path, speed={"qcow2-*": [1.0, 0.5], "*": 2.0})
    assert scene.measure(QCOW2, rounds=4).values("iops") == (10000.0, 4950.0, 10000.0, 5050.0)
    assert scene.measure(RAW, rounds=1).iops == 20000.0


def test_noise_is_by_seed(tmp_path: Path) -> None:
    """The same seed gives the same figures."""
    figures = [
        Scene(tmp_path / str(number), noise=0.1, seed=seed).measure().values("iops")
        for number, seed in enumerate((7, 7, 8))
    ]
    assert figures[0] == figures[1] != figures[2]
    assert len(set(figures[0])) == 3


def test_rounds_and_boots_may_take_time(tmp_path: Path) -> None:
    """A boot that takes longer than its time limit is none."""
    scene, begin = Scene(tmp_path, round_s=0.05, boot_s={"raw-*": 0.05, "*": 60}), time.monotonic()
    scene.measure(rounds=2)
    assert time.monotonic() - begin > 0.15
    with pytest.raises(BootTimeoutError, match="did not answer within"):
        scene.lab.guest(QCOW2)


def test_guests_of_a_cell_may_boot_some_times_only(tmp_path: Path) -> None:
    """And then never answer; nobody waits for them."""
    scene = Scene(tmp_path, boots={"qcow2-*": 1, "raw-*": 0})
    scene.lab.guest(QCOW2)
    scene.lab.drop()
    for config in (QCOW2, RAW):
        with pytest.raises(BootTimeoutError, match="its agent does not answer"):
            scene.lab.guest(config)
    assert [event for event in scene.events if "mute" in event] == [f"mute {QCOW2}", f"mute {RAW}"]


def test_a_guest_may_die_in_a_round(tmp_path: Path) -> None:
    """The rounds before it stay."""
    scene = Scene(tmp_path, dies={"*": 2})
    with pytest.raises(GuestDiedError):
        scene.measure()
    assert scene.rounds == [("raw", 1), ("raw", 2)]
    assert f"die {RAW}" in scene.events


def test_a_round_may_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended at its time limit, which is long for what takes long."""
    monkeypatch.setattr(Fio, "expected_seconds", 0.1)
    scene = Scene(tmp_path, hangs={"*": 2})
    with pytest.raises(WorkloadError, match="did not end within"):
        scene.measure()
    assert f"hang {RAW}" in scene.events


def test_a_guest_may_turn_its_write_cache_off(tmp_path: Path) -> None:
    """Which leaves no figure."""
    with pytest.raises(WorkloadError, match=r"INVALID: after the last round cache is write through"):
        Scene(tmp_path, write_through="raw-*").measure()


REFUSALS: dict[str, tuple[dict[str, object], type[VmStorageError], str]] = {
    "unsupported": ({"unsupported": {"*": "Not here."}}, UnsupportedError, "Not here."),
    "full": ({"full": "*"}, SpaceError, "no room for"),
    "no space": ({"free_bytes": 2**20}, SpaceError, "free"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_the_host_may_refuse(tmp_path: Path, name: str) -> None:
    """A guest, the host's own disk, and images alike."""
    options, error, sentence = REFUSALS[name]
    scene, images = Scene(tmp_path, **options), ImageOperations(data="16M")
    with pytest.raises(error, match=sentence):
        scene.lab.guest(RAW)
    with pytest.raises(error, match=sentence):
        scene.lab.environment(NATIVE)
    with pytest.raises(error, match=sentence), scene.lab.images(RAW, images):
        pass


def test_bytes_may_stay_in_the_hosts_cache(tmp_path: Path) -> None:
    """Of cells that match, no layer below QEMU's counts any."""
    moved = Scene(tmp_path, cached="raw-*").measure().moved
    assert (moved.layer_written_bytes, moved.host_written_bytes) == (29900 * 4096, 0)


def test_memory_for_waiting_guests(tmp_path: Path) -> None:
    """None waits where there is none."""
    scene = Scene(tmp_path, memory_bytes=0)
    scene.lab.expect([RAW, QCOW2, RAW])
    for config in (RAW, QCOW2, RAW):
        scene.lab.guest(config)
    assert [event.split()[0] for event in scene.events].count("guest") == 3


def test_files_that_cannot_be_removed(tmp_path: Path) -> None:
    """The lab says so at its end."""
    scene = Scene(tmp_path, keeps_files=True)
    with pytest.raises(ProvisionError, match="Device or resource busy"):
        scene.lab.close()


def test_images_are_measured_on_the_same_host(tmp_path: Path) -> None:
    """Half a second for each operation."""
    workload = ImageOperations(data="16M")
    with Scene(tmp_path).lab.images(QCOW2, workload) as bench:
        assert measure_images(bench, workload, Plan(rounds=1, warmup=0)).create == 0.5


def test_other_tools_answer_by_the_guests_shell(tmp_path: Path) -> None:
    """As a user's own workload would."""

    def guest_shell(config: StorageConfig) -> FakeShell:
        return make_guest_shell(config).answer(["uptime"], f"up with {config.format}\n")

    lab = make_lab(tmp_path, guest_shell=guest_shell)
    assert lab.guest(QCOW2).run(["uptime"]).stdout == "up with qcow2\n"


def test_an_option_that_is_none_is_refused() -> None:
    """As pydantic does."""
    with pytest.raises(ValidationError):
        LabOptions.model_validate({"sped": 2.0})


def test_percentiles_and_directions_are_those_asked_for(tmp_path: Path) -> None:
    """Mixed jobs have both directions, and hdparm is no tool of the lab's own."""
    mixed = Fio(rw="randrw", bs="4k", size="64M", percentile_list="50:99.99")
    measured = Scene(tmp_path).measure(workload=mixed, rounds=1)
    assert measured.read_clat_p9999 > measured.read_clat_p50
    assert measured.iops == 20000.0
    with pytest.raises(LookupError, match="hdparm"):
        Scene(tmp_path / "other").measure(workload=Hdparm(t=True))

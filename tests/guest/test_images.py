"""Operations on whole images for real: every format, a file system that shares blocks, whole pytest runs, Ctrl-C.

No guest is booted, but for the canary of a run and where LVM needs a device mapper (test_volumes.py).
Tests of `lab.image_operations`.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import WorkloadError
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.measure.image_operations import measure_images
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.results.run import Measurement
from pytest_vmstorage.workloads.image_operations import OPERATIONS, ImageOperations

MIB = 2**20
KINDS: list[dict[str, object]] = [
    {"format": "raw", "preallocation": "falloc"},
    {"format": "qcow2", "preallocation": "metadata", "extended_l2": True},
    {"format": "qcow2", "compression": "zstd"},
    {"format": "qcow2", "encryption": "luks", "preallocation": "full"},
    {"format": "qed"},
    {"format": "vmdk"},
    {"format": "vmdk", "subformat": "monolithicFlat"},
    {"format": "vmdk", "subformat": "streamOptimized"},
    {"format": "vdi"},
    {"format": "vpc"},
    {"format": "vpc", "subformat": "fixed"},
]


def measured(lab: Lab, rounds: int = 1, convert_to: str | None = None, **cell: object) -> Measurement:
    """All operations on an image of 32 MiB, with 8 MiB of data; nothing of it is left."""
    config = StorageConfig(**{"size": "32M", **cell})
    workload = ImageOperations(data="8M", convert_to=convert_to)
    # another test's guest may be on its way out
    lab.drop()
    lab.factory.settle()
    before = sorted(Path(lab.factory.folder).iterdir())
    with lab.images(config, workload) as bench:
        result = measure_images(bench, workload, Plan(rounds=rounds))
    assert sorted(Path(lab.factory.folder).iterdir()) == before
    return result


def done_in(result: Measurement) -> set[str]:
    """The operations that have a figure."""
    return {metric.name for metric in result.metrics} & {*OPERATIONS}


@pytest.mark.parametrize("cell", KINDS, ids=lambda cell: str(StorageConfig(**cell)))
def test_every_format_does_what_it_can(lab: Lab, cell: dict[str, object]) -> None:
    """Data are read back after each operation; what has no figure has a reason; the image is proven."""
    result = measured(lab, **cell)
    assert done_in(result) | {one.metric.name for one in result.left_out} >= {*OPERATIONS}
    assert done_in(result) >= {"create", "convert", "delete"}
    assert (result.create_before, result.delete_after) == (0, 0)
    assert {proof.field for proof in result.proof if proof.status == "proven"} >= {"format", "size", "preallocation"}
    assert all(result.figure(name) > 0 for name in done_in(result))


def test_raw_on_ext4_or_the_like(lab: Lab) -> None:
    """Full preallocation takes the whole size, converting as much as there are data; sparse takes next to nothing."""
    result = measured(lab, rounds=2)
    assert result.create_taken < MIB
    assert 32 * MIB <= result.preallocate_taken < 33 * MIB
    assert 8 * MIB <= result.convert_taken < 9 * MIB
    assert result.delete_before >= 8 * MIB
    assert len(result.samples) == 2


def test_qcow2_snapshot_keeps_the_old_data(lab: Lab) -> None:
    """Taken it costs nothing; what is written after it doubles the image, and stays its own after the rollback."""
    result = measured(lab, format="qcow2")
    assert done_in(result) == {*OPERATIONS}
    assert result.snapshot_taken < MIB
    assert result.rollback_before >= 16 * MIB
    assert result.clone_taken < MIB


@pytest.mark.parametrize("kind", ["xfs", "btrfs"])
def test_a_file_system_that_shares_blocks(lab: Lab, kind: str) -> None:
    """Raw has snapshot, rollback and clone by cp --reflink=always, and each shared block counts once."""
    result = measured(lab, host_fs=kind)
    assert done_in(result) == {*OPERATIONS}
    assert {result.hygiene[name] for name in ("snapshot", "rollback", "clone")} == {"by cp --reflink=always"}
    assert result.clone_taken < MIB
    assert result.snapshot_taken < MIB
    assert result.rollback_before >= 16 * MIB
    assert result.rollback_after <= 9 * MIB


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_a_disk_may_be_larger_than_the_file_system_below_its_data(lab: Lab, kind: str) -> None:
    """The file system is as large as the operations need; a sparse image of any size lies on it."""
    config = StorageConfig(size="20G", host_fs=kind)
    workload = ImageOperations(data="8M", operations=["create", "convert", "delete"])
    lab.drop()
    with lab.images(config, workload) as bench:
        result = measure_images(bench, workload, Plan(rounds=1))
    assert done_in(result) == {"create", "convert", "delete"}
    # with the tables of a qcow2 of that size
    assert 8 * MIB <= result.convert_taken < 12 * MIB


def test_conversion_into_the_cells_own_format_keeps_its_options(lab: Lab) -> None:
    """A compressed image is compressed again."""
    plain = measured(lab, format="qcow2", convert_to="qcow2")
    compressed = measured(lab, format="qcow2", compression="zlib", convert_to="qcow2")
    assert compressed.convert_taken < 0.7 * plain.convert_taken


def test_a_full_file_system_is_told_by_its_name(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """qemu-img's own words, and nothing is left of what was half made."""
    workload = ImageOperations(data="8M", operations=["preallocate"])
    config = StorageConfig(size="1G", host_fs="ext4")
    before = set(Path(lab.factory.folder).glob("fs-*"))
    monkeypatch.setattr("pytest_vmstorage.lab.image_operations.room_needed", lambda *_args, **_words: 32 * MIB)
    with (
        pytest.raises(WorkloadError, match="no space on the host: preallocate of image operations") as caught,
        lab.images(config, workload) as bench,
    ):
        measure_images(bench, workload, Plan(rounds=1))
    assert "No space left on device" in caught.value.output
    assert set(Path(lab.factory.folder).glob("fs-*")) <= before


RUN = """
import pytest
from pytest_vmstorage import ImageOperations

@pytest.mark.parametrize(("format", "host_fs"), [("raw", "as-found"), ("qcow2", "as-found"), ("raw", "xfs")])
@pytest.mark.storage(size="32M")
def test_image(measure_image):
    result = measure_image(ImageOperations(data="8M"), rounds=2)
    assert result.create < 10
    assert result.delete_after == 0
"""


def argv(folder: Path, *options: str) -> list[str]:
    """A pytest run as a user starts it."""
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--vm-dir={folder}/disks", *options]


def test_a_run_with_the_fixture(tmp_path: Path) -> None:
    """Green, with a matrix that says what is left out, and nothing about emulation, for no guest ran."""
    (tmp_path / "test_it.py").write_text(RUN)
    done = subprocess.run(
        argv(tmp_path, "--vm-report=m.json", "--benchmark-json=b.json"),
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    said = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stdout
    assert "snapshot" in said
    assert "left out" in said
    assert "clone of raw-none-virtio-blk-off: raw has no backing files, and" in said
    assert "say nothing about" not in said
    assert len(json.loads((tmp_path / "b.json").read_text())["benchmarks"]) == 3
    assert len(json.loads((tmp_path / "m.json").read_text())["measurements"]) == 3
    assert list((tmp_path / "disks").iterdir()) == []


def test_interrupt_leaves_nothing(tmp_path: Path) -> None:
    """SIGINT to pytest alone, while qemu-img writes a gigabyte: tool, images, file system and folders go."""
    (tmp_path / "test_it.py").write_text(RUN.replace('"32M"', '"4G"').replace('("raw", "as-found"), ', ""))
    process = subprocess.Popen(
        argv(tmp_path, "-k", "xfs"), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not list((tmp_path / "disks").glob("*/*/images-*/full.raw")):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 2, output
    assert "not all was removed" not in output
    assert list((tmp_path / "disks").iterdir()) == []
    assert str(tmp_path) not in Path("/proc/mounts").read_text()

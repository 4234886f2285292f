"""Guests from a user's own cloud image: booted by its loader, told by a seed, measured, and the image left alone."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cloud_image import cloud_image

from pytest_vmstorage.results.run import Run

TEST = """
import pytest
from pytest_vmstorage import Fio, Ioping

CELL = pytest.mark.storage(size="64M", memory="768M", bus="BUS")

@CELL
def test_random_write(guest, measure):
    assert guest.host.file("/etc/debian_version").exists
    assert guest.run("cloud-init status").stdout.strip() == "status: done"
    names = guest.run("hostname; cat /var/lib/cloud/data/instance-id").stdout.split()
    assert names[0] == names[1] and names[0].startswith("vms-")
    assert guest.run("findmnt -no FSTYPE,LABEL /").stdout.split() == ["ext4", "root"]
    assert guest.run("echo written >/root/by-the-guest && sync").ok
    result = measure(Fio(rw="randwrite", bs="4k", iodepth=8, size="16M", runtime=1), rounds=2, warmup=0)
    assert result.iops > 10

@CELL
def test_latency(measure):
    measure(Ioping(), rounds=1, warmup=0)
"""


def run_pytest(folder: Path, *options: str) -> tuple[int, str]:
    """A finished run there: its return code, and its output on one line."""
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--vm-timeout=900s", "-rs", *options]
    done = subprocess.run(
        argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=2400, check=False, text=True
    )
    return done.returncode, " ".join(done.stdout.split())


@pytest.mark.own_image
@pytest.mark.skipif(os.geteuid() != 0, reason="the image for this test is built as root")
def test_a_cloud_image_takes_the_appliances_place(tmp_path: Path) -> None:
    """By agent and by ssh: the same proofs, workloads and reports; what the image lacks is named."""
    image = cloud_image()
    before = hashlib.sha256(image.read_bytes()).hexdigest()
    for reach, bus in (("agent", "virtio-blk"), ("ssh", "virtio-scsi")):
        (tmp_path / "test_it.py").write_text(TEST.replace("BUS", bus))
        options = [f"--vm-image={image}", f"--vm-image-reach={reach}", "--vm-report=run.json"]
        code, text = run_pytest(tmp_path, *options)
        assert code == 0, text
        assert f"The image {image.name} sha256:{before[:16]} lacks ioping. Install it in the image;" in text
        (measured,) = Run.model_validate_json((tmp_path / "run.json").read_text()).measurements
        facts = measured.guest
        assert facts["image"] == f"{image.name} sha256:{before[:16]}"
        assert "-cloud-" in facts["kernel"]
        assert facts["fio"].startswith("3.")
        assert {proof.status for proof in measured.proof if proof.field == "bus"} == {"proven"}
        assert hashlib.sha256(image.read_bytes()).hexdigest() == before
    code, text = run_pytest(tmp_path, f"--vm-image={image}", f"--vm-image-sha256={'0' * 64}")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "does not match its checksum" in text

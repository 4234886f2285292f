"""What a device's last image leaves on it, tried on files with the real tools."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pytest_vmstorage.errors import ProvisionError
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.storage.image import forget_format


def kind(path: Path) -> str:
    """What QEMU takes it for."""
    argv = ["qemu-img", "info", "--output=json", str(path)]
    return str(json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)["format"])


@pytest.mark.parametrize("left", ["qcow2", "vmdk", "vdi", "qed"])
def test_a_raw_disk_is_not_taken_for_the_image_before_it(tmp_path: Path, left: str) -> None:
    """Its header is blanked, and nothing beside it."""
    path = tmp_path / "device"
    subprocess.run(["qemu-img", "create", "-q", "-f", left, str(path), "8M"], check=True)
    with path.open("r+b") as stream:
        stream.truncate(8 * 2**20)
        stream.seek(2**20 - 1)
        stream.write(b"x")
    assert kind(path) == left
    forget_format(LocalShell(), str(path))
    assert kind(path) == "raw"
    assert path.stat().st_size == 8 * 2**20
    assert path.read_bytes()[2**20 - 1 : 2**20] == b"x"


def test_without_an_image_nothing_is_written(tmp_path: Path) -> None:
    """Data that look like no image stay."""
    path = tmp_path / "device"
    path.write_bytes(b"data" * 2**18)
    forget_format(LocalShell(), str(path))
    assert path.read_bytes() == b"data" * 2**18


def test_what_cannot_be_looked_at_is_told(tmp_path: Path) -> None:
    """In a sentence."""
    with pytest.raises(ProvisionError, match="looking at"):
        forget_format(LocalShell(), str(tmp_path / "none"))

"""The kind of a path: files and what is neither here; real block devices are in tests/guest/test_devices.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_vmstorage.errors import ProvisionError
from pytest_vmstorage.host.device_node import node_facts
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.testing.shell import FakeShell


def test_a_file_is_known_behind_a_link(tmp_path: Path) -> None:
    """And a character device is neither a file nor a block device."""
    (tmp_path / "image").touch()
    (tmp_path / "link").symlink_to("image")
    assert str(node_facts(LocalShell(), str(tmp_path / "link"))) == "a regular file"
    assert str(node_facts(LocalShell(), "/dev/null")) == "neither a file nor a block device"


def test_a_block_device_has_kind_number_and_size() -> None:
    """The kernel counts sectors of 512 bytes; a volume has device mapper's name."""
    shell = FakeShell()
    shell.answer(re.compile("stat"), "lvm 253:3 2048 dm-3 vg0-vms--run--1\n")
    facts = node_facts(shell, "/dev/vg0/vms-run-1")
    assert (facts.kind, facts.number, facts.name, facts.size_bytes) == ("lvm", "253:3", "vg0-vms--run--1", 2**20)
    assert str(facts) == "lvm vg0-vms--run--1 (253:3)"


def test_a_path_without_anything_is_an_error(tmp_path: Path) -> None:
    """It names the path."""
    with pytest.raises(ProvisionError, match=f"looking at {tmp_path}/none failed"):
        node_facts(LocalShell(), str(tmp_path / "none"))

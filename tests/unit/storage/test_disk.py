"""A cell's disk and what lies under it: made together, removed together, nothing left of what was half made."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import LabHost
from pytest_vmstorage.errors import ProvisionError
from pytest_vmstorage.storage import disk
from pytest_vmstorage.storage.block import BlockPlace
from pytest_vmstorage.storage.disk import HostDisks, folder_bytes
from pytest_vmstorage.storage.space import HEADROOM_BYTES, space_needed
from pytest_vmstorage.testing.host import make_host_shell
from pytest_vmstorage.testing.shell import FakeShell

FOLDER = "/srv/vm/run-0123456789"
LVM = StorageConfig(backing="lvm", size="64M")
PLACE = BlockPlace(path="/dev/vg0/vms-1", kind="lvm", name="vg0", description="lvm vg0", size_bytes=2**26)


class Scene:
    """Disks of a run; what is asked of volumes is written down."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[str] = []
        self.shell: FakeShell = make_host_shell()
        self.disks = HostDisks(self.shell, LabHost(name="here", uri=None, ssh=None, folder="/srv/vm"), FOLDER, "01")
        self.fails: BaseException | None = None
        monkeypatch.setattr(disk, "make_block", self._make)
        monkeypatch.setattr(disk, "remove_block", lambda _shell, place: self.events.append(f"remove {place.path}"))
        monkeypatch.setattr(disk, "reap_blocks", lambda _shell, run_id: self.events.append(f"reap {run_id}"))

    def _make(self, *_about: Any, **_more: Any) -> BlockPlace:
        self.events.append("make")
        if self.fails is not None:
            raise self.fails
        return PLACE


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A healthy host."""
    return Scene(monkeypatch)


def test_a_volume_that_was_half_made_goes_with_the_run(scene: Scene) -> None:
    """Ctrl-C while it is made: nobody holds it, and it is found by its mark when the run ends."""
    scene.fails = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        scene.disks.make(LVM, 1)
    scene.disks.close()
    assert scene.events == ["make", "reap 01"]


def test_who_made_no_volume_looks_for_none(scene: Scene) -> None:
    """Ordinary runs pay nothing for it."""
    scene.disks.make(StorageConfig(), 1)
    scene.disks.close()
    assert scene.events == []


@pytest.mark.parametrize("uri", [None, "qemu+ssh://lab01/system?no_tty=1"])
def test_an_image_is_its_owners_alone_where_others_pass_through(uri: str | None) -> None:
    """A daemon's QEMU is another user and passes through the run's folder; the embedded driver's folder is closed."""
    shell = make_host_shell()
    host = LabHost(name="here", uri=uri, ssh=None, folder="/srv/vm")
    made = HostDisks(shell, host, FOLDER, "01").make(StorageConfig(), 1)
    closed = [asked.argv for asked in shell.asked if asked.argv[0] == "chmod"]
    assert closed == ([("chmod", "600", "--", made.path)] if uri else [])


def test_a_volume_whose_image_cannot_be_made_is_removed(scene: Scene) -> None:
    """And nothing is ever removed by its path."""
    scene.shell.answer(re.compile("^test -b "))
    scene.shell.answer(re.compile("blockdev --getsize64"), "4096\n")
    with pytest.raises(ProvisionError, match="needs 64 MiB"):
        scene.disks.make(LVM, 1)
    assert scene.events == ["make", f"remove {PLACE.path}"]
    assert not [line for line in scene.shell.lines if line.startswith("rm ")]


def test_a_disk_in_the_folder_takes_its_room_there_and_a_devices_none() -> None:
    """What the plan adds up."""
    raw, xfs = StorageConfig(size="1G"), StorageConfig(size="1G", host_fs="xfs")
    assert folder_bytes(raw) == space_needed(raw) - HEADROOM_BYTES == 2**30
    assert folder_bytes(xfs) > 2**30
    assert folder_bytes(LVM) == folder_bytes(StorageConfig(backing="native:ssd")) == 0

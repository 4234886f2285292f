"""What a row says of the file it was measured on."""

from __future__ import annotations

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.guest.file_system import GuestFs
from pytest_vmstorage.host.file_systems import FileSystem
from pytest_vmstorage.lab.systems import file_note
from pytest_vmstorage.storage.block import BlockPlace
from pytest_vmstorage.storage.disk import HostDisk

MADE = GuestFs(
    kind="ext4",
    mountpoint="/mnt/vmstorage",
    path="/mnt/vmstorage/test",
    size_bytes=256 * 2**20,
    mkfs=(),
    found=FileSystem(kind="ext4", device="/dev/vdb", mountpoint="/mnt/vmstorage", options=()),
)
PARTITION = BlockPlace(path="/dev/sdx1", kind="partition", name="p1", description="partition p1", size_bytes=2**30)
VOLUME = PARTITION.model_copy(update={"kind": "lvm"})


def on(config: StorageConfig, block: BlockPlace | None = None) -> HostDisk:
    """That cell's disk."""
    return HostDisk(config=config, path="/srv/disk", block=block)


EXT4 = StorageConfig(guest_fs="ext4")


@pytest.mark.parametrize(
    ("disk", "made", "keep", "words"),
    [
        (on(EXT4), MADE, False, "256M on ext4 in the guest, removed with the guest's disk"),
        (
            on(EXT4),
            MADE,
            True,
            "256M on ext4 in the guest, removed with the guest's disk, unless its guest is kept (--vm-keep)",
        ),
        (on(EXT4, VOLUME), MADE, False, "256M on ext4 in the guest, removed with the guest's disk"),
        (on(EXT4, PARTITION), MADE, False, "256M on ext4 in the guest, left on the partition"),
        (on(StorageConfig(backing="native")), None, True, "1G on the host, removed after the row"),
    ],
)
def test_what_becomes_of_a_test_file(disk: HostDisk, made: GuestFs | None, keep: bool, words: str) -> None:
    """It goes with its disk; what is the host's own stays as it is."""
    assert file_note(disk, made, keep=keep) == {"test file": words}


def test_a_whole_disk_is_no_file() -> None:
    """Neither a guest's, nor a device of the host."""
    assert file_note(on(StorageConfig()), None, keep=False) == {}
    assert file_note(on(StorageConfig(backing="native:p1"), PARTITION), None, keep=False) == {}

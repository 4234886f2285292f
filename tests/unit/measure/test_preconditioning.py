"""Where zeros are stored as nothing: by QEMU, by ZFS, by a btrfs that compresses."""

from __future__ import annotations

import pytest

from pytest_vmstorage import Fio
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.host.file_systems import FileSystem
from pytest_vmstorage.measure.preconditioning import stored_as_nothing, zeros_vanish
from pytest_vmstorage.storage.block import BlockPlace
from pytest_vmstorage.storage.disk import HostDisk
from pytest_vmstorage.testing.shell import FakeShell
from pytest_vmstorage.workloads.fio.job import FioJob

RAW = StorageConfig()
# mountinfo(5) lines as the kernel writes them
BTRFS = "36 27 0:31 / /srv rw,relatime shared:1 - btrfs /dev/loop0 rw,compress=zstd:3,space_cache=v2\n"
EXT4 = "36 27 7:0 / /srv rw,relatime shared:1 - ext4 /dev/loop0 rw\n"


def mounted(kind: str, *options: str) -> FileSystem:
    """A file system with these options."""
    return FileSystem(kind=kind, device="/dev/vdb", mountpoint="/srv", options=("rw", *options))


def test_most_layers_store_zeros_like_data() -> None:
    """ext4, xfs, and a btrfs that does not compress; a qcow2 image as well."""
    plain = [mounted("ext4"), mounted("xfs"), mounted("btrfs", "compress-none", "nodatacow")]
    assert stored_as_nothing(RAW, plain) == ""
    assert stored_as_nothing(StorageConfig(format="qcow2", discard="unmap"), []) == ""


@pytest.mark.parametrize(("value", "words"), [("on", "an order to store none"), ("unmap", "QEMU discards")])
def test_qemu_that_looks_for_zeros(value: str, words: str) -> None:
    """Both values of detect_zeroes that look."""
    assert words in stored_as_nothing(StorageConfig(discard="unmap", detect_zeroes=value), [])


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (mounted("zfs"), "ZFS on /srv may compress, and its default is to"),
        (mounted("btrfs", "compress=zstd:3"), "btrfs on /srv compresses (compress=zstd:3)"),
        (mounted("btrfs", "compress-force=lzo"), "btrfs on /srv compresses (compress-force=lzo)"),
    ],
)
def test_a_file_system_that_compresses(found: FileSystem, sentence: str) -> None:
    """In the guest or below the image, whichever it is of several."""
    assert stored_as_nothing(RAW, [mounted("ext4"), found]) == sentence


@pytest.mark.parametrize("backing", ["zvol", "native:tank"])
@pytest.mark.parametrize(("note", "clause"), [("lz4", "the ZFS volume compresses"), ("off", "")])
def test_a_volume_tells_its_compression(note: str, clause: str, backing: str) -> None:
    """It was read when the volume was made, for a guest or for a native row."""
    place = BlockPlace(
        path="/dev/zvol/tank/v",
        kind="zvol",
        name="tank",
        description=f"dataset tank: dataset tank/vms, volblocksize 16K, compression {note}",
        size_bytes=2**30,
    )
    disk = HostDisk(config=StorageConfig(backing=backing), path=place.path, block=place)
    assert zeros_vanish(FakeShell(), disk) == clause


@pytest.mark.parametrize(("mounts", "clause"), [(BTRFS, "btrfs on /srv compresses (compress=zstd:3)"), (EXT4, "")])
def test_the_hosts_file_system_is_looked_at(mounts: str, clause: str) -> None:
    """That on which the image lies."""
    shell = FakeShell()
    shell.answer(
        ["sh", "-c", '# reads\nreadlink -f -- "$1" && cat /proc/self/mountinfo', "sh", "/srv/d.raw"],
        f"/srv/d.raw\n{mounts}",
    )
    assert zeros_vanish(shell, HostDisk(config=RAW, path="/srv/d.raw")) == clause


@pytest.mark.parametrize(
    ("line", "writes"),
    [
        ("zero_buffers", True), ("zero_buffers=0", False), ("buffer_pattern=0x00", True), ("buffer_pattern=0", True),
        ("buffer_pattern=0xdeadbeef", False), ("refill_buffers", False),
    ],
)  # fmt: skip
def test_a_fio_job_file_may_ask_for_zeros(line: str, writes: bool) -> None:
    """fio's own data are none."""
    text = "[global]\nrw={}\nsize=16M\n" + line + "\n[one]\n"
    assert FioJob(text=text.format("write"), name="file").writes_zeros is writes
    assert not FioJob(text=text.format("read"), name="file").writes_zeros
    assert not Fio(rw="write", size="16M").writes_zeros

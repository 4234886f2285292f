"""Whether a guest's disk, after the last round, is still what it was proven to be."""

from __future__ import annotations

import pytest

from pytest_vmstorage.guest.facts import GuestFacts
from pytest_vmstorage.host.file_systems import FileSystem
from pytest_vmstorage.measure.proof.guest import changed_in_guest
from pytest_vmstorage.testing.shell import FakeShell

FACTS = GuestFacts(
    kernel="6.1", cpus=1, memory_kib=500000, disk="/dev/vdb", disk_bytes=2**30, write_cache="write back",
    scheduler="mq-deadline", logical_block_bytes=512, rotational=True, driver="virtio_blk",
)  # fmt: skip
MOUNTED = FACTS.model_copy(
    update={"mounted": (FileSystem(kind="ext4", device="/dev/vdb", mountpoint="/mnt/vmstorage", options=("rw",)),)}
)
QUEUE = "/sys/block/vdb/queue"
SAME = {f"{QUEUE}/write_cache": "write back\n", f"{QUEUE}/scheduler": "none [mq-deadline] kyber\n"}
ROOT = "/dev/vda / erofs ro,relatime 0 0\n"
LOST = "[ 2.1] virtio_blk: fine\n[ 43.1] nvme nvme0: I/O 192 QID 1 timeout, completion polled\n"


@pytest.mark.parametrize(
    ("facts", "files", "console", "sentence"),
    [
        (FACTS, SAME, "", ""),
        (MOUNTED, {**SAME, "/proc/mounts": f"{ROOT}/dev/vdb /mnt/vmstorage ext4 rw,relatime 0 0\n"}, "", ""),
        (
            FACTS,
            {**SAME, f"{QUEUE}/write_cache": "write through\n"},
            "",
            "after the last round cache is write through (guest sysfs), not write back",
        ),
        (
            FACTS,
            {**SAME, f"{QUEUE}/scheduler": "mq-deadline [none]\n"},
            "",
            "after the last round scheduler is none (guest sysfs), not mq-deadline",
        ),
        (
            MOUNTED,
            {**SAME, "/proc/mounts": f"{ROOT}/dev/vdb /mnt/vmstorage ext4 ro,relatime 0 0\n"},
            "",
            "after the last round guest_mount is ro",
        ),
        (MOUNTED, {**SAME, "/proc/mounts": ROOT}, "", "after the last round guest_mount is not mounted"),
        (FACTS, SAME, LOST, "the guest's kernel had trouble with its disk: [ 43.1] nvme nvme0: I/O 192 QID 1 timeout"),
        (FACTS, SAME, "EXT4-fs (vdb): Remounting filesystem read-only\n", "the guest's kernel had trouble"),
        (FACTS, {}, "", "after the last round cache is unknown"),
    ],
)
def test_what_changed_is_told(facts: GuestFacts, files: dict[str, str], console: str, sentence: str) -> None:
    """Nothing where nothing did; no process is started in the guest for it."""
    shell = FakeShell()
    shell.files.update({path: text.encode() for path, text in files.items()})
    told = changed_in_guest(shell, facts, console)
    assert told.startswith(sentence)
    assert bool(told) is bool(sentence)
    assert shell.asked == []

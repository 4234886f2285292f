"""Whether a guest's disk, after the last round, is still what it was proven to be."""

from __future__ import annotations

import re

import pytest

from pytest_vmstorage.file_system import FileSystem
from pytest_vmstorage.guest import GuestFacts
from pytest_vmstorage.recheck import changed_in_guest
from pytest_vmstorage.testing import FakeShell

FACTS = GuestFacts(
    kernel="6.1", cpus=1, memory_kib=500000, disk="/dev/vdb", disk_bytes=2**30, write_cache="write back",
    scheduler="mq-deadline", logical_block_bytes=512, rotational=True, driver="virtio_blk",
)  # fmt: skip
MOUNTED = FACTS.model_copy(
    update={"mounted": (FileSystem(kind="ext4", device="/dev/vdb", mountpoint="/mnt/vmstorage", options=("rw",)),)}
)
SAME = "cache|write back\nscheduler|[mq-deadline] none\n"


@pytest.mark.parametrize(
    ("facts", "text", "sentence"),
    [
        (FACTS, SAME, ""),
        (MOUNTED, SAME + "options|rw,relatime\n", ""),
        (FACTS, SAME.replace("back", "through"), "after the last round cache is write through (guest sysfs)"),
        (FACTS, SAME.replace("[mq-deadline] none", "mq-deadline [none]"), "after the last round scheduler is none"),
        (MOUNTED, SAME + "options|ro,relatime\n", "after the last round guest_mount is ro"),
        (MOUNTED, SAME, "after the last round guest_mount is not mounted"),
        (FACTS, SAME + "trouble|[ 43.1] nvme nvme0: I/O 192 QID 1 timeout\n", "the guest's kernel had trouble"),
        (FACTS, "", "after the last round cache is unknown"),
    ],
)
def test_what_changed_is_told(facts: GuestFacts, text: str, sentence: str) -> None:
    """Nothing where nothing did."""
    told = changed_in_guest(FakeShell().answer(re.compile("write_cache"), text), facts)
    assert told.startswith(sentence)
    assert bool(told) is bool(sentence)

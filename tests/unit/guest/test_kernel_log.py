"""Trouble with disks in a guest's kernel log."""

from __future__ import annotations

import re

import pytest

from pytest_vmstorage.guest.kernel_log import TROUBLE, disk_trouble
from pytest_vmstorage.testing.shell import FakeShell

# the first from a guest of QEMU 7.2 under TCG, the others as Linux 6.1 prints them
LINES = [
    "[   43.1] nvme nvme0: I/O 192 QID 1 timeout, reset controller",
    "[   33.0] sd 2:0:0:0: [sda] tag#12 timing out command, waited 180s",
    "[   31.6] ata1.00: failed command: WRITE DMA",
    "[    9.2] I/O error, dev vdb, sector 2048 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2",
    "[  241.7] INFO: task fio:312 blocked for more than 120 seconds.",
]
QUIET = [
    "[    0.5] virtio_blk virtio1: [vdb] 262144 512-byte logical blocks (134 MB/128 MiB)",
    "[    0.9] nvme nvme0: 1/0/0 default/read/poll queues",
    "[    1.0] ata1: SATA link up 1.5 Gbps (SStatus 113 SControl 300)",
    "[    0.3] io scheduler mq-deadline registered",
]


@pytest.mark.parametrize("line", LINES)
def test_lost_and_failed_commands_are_trouble(line: str) -> None:
    """Each of the kernel's ways to say so."""
    assert re.search(TROUBLE, line)


@pytest.mark.parametrize("line", QUIET)
def test_what_every_boot_says_is_none(line: str) -> None:
    """A healthy guest is not accused."""
    assert not re.search(TROUBLE, line)


def test_the_first_line_is_told() -> None:
    """grep finds it in the guest; without one there is no trouble."""
    shell = FakeShell().answer(re.compile("dmesg"), f"{LINES[0]}\n")
    assert disk_trouble(shell) == LINES[0]
    assert disk_trouble(FakeShell().answer(re.compile("dmesg"), returncode=1)) == ""

"""Disk trouble in a guest's kernel log: a round with such trouble does not measure the disk."""

from __future__ import annotations

from pytest_vmstorage.guest.file_system import MOUNTPOINT
from pytest_vmstorage.host.shell import Shell

# Linux 6.1: nvme_timeout in drivers/nvme/host/pci.c, libata-eh.c, scsi_error.c, blk_print_req_error in block/blk-mq.c
TROUBLE = (
    r"I/O [0-9]+ .*timeout, |timing out command|ata[0-9.]+: (exception Emask|failed command)|I/O error|"
    r"blk_update_request: .*error|INFO: task .* blocked for more than"
)

# the options begin with rw or ro; since "ext4: don't set SB_RDONLY after filesystem errors", which is in late 6.1 as
# well, they go on saying rw, and only the kernel's log tells
_READ_ONLY = """
while read -r _ at _ options _; do
  [ "$at" = "$1" ] || continue
  case $options in ro|ro,*|*emergency_ro*) echo "$at"; exit;; esac
  dmesg | grep -q 'Remounting filesystem read-only' && echo "$at"
done </proc/mounts
"""


def disk_trouble(shell: Shell) -> str:
    """The first line of the guest's kernel log about lost or failed I/O, "" where there is none."""
    done = shell.run(["/bin/sh", "-c", 'dmesg | grep -m 1 -E -- "$1"', "sh", TROUBLE], timeout_s=60)
    return done.stdout.strip() if done.ok else ""


def last_error(shell: Shell) -> str:
    """The last error of any kind in the guest's kernel log, "" where there is none."""
    done = shell.run(["/bin/sh", "-c", "dmesg --level=emerg,alert,crit,err | tail -n 1"], timeout_s=60)
    return done.stdout.strip() if done.ok else ""


def read_only_mount(shell: Shell) -> str:
    """The mount point under test if it has become read-only, as ext4 does after an error, else ""."""
    done = shell.run(["/bin/sh", "-c", _READ_ONLY, "sh", MOUNTPOINT], timeout_s=60)
    return done.stdout.strip() if done.ok else ""

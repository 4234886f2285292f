"""What a guest's kernel logged of trouble with its disks: a figure of such a round is none of the disk's."""

from __future__ import annotations

from pytest_vmstorage.command import Shell

# Linux 6.1: nvme_timeout in drivers/nvme/host/pci.c, libata-eh.c, scsi_error.c, blk_print_req_error in block/blk-mq.c
TROUBLE = (
    r"I/O [0-9]+ .*timeout, |timing out command|ata[0-9.]+: (exception Emask|failed command)|I/O error|"
    r"blk_update_request: .*error|INFO: task .* blocked for more than"
)


def disk_trouble(shell: Shell) -> str:
    """The first line of the guest's kernel log about lost or failed I/O, "" where there is none."""
    done = shell.run(["/bin/sh", "-c", 'dmesg | grep -m 1 -E -- "$1"', "sh", TROUBLE], timeout_s=60)
    return done.stdout.strip() if done.ok else ""

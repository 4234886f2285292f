"""The file that workloads run on where a cell has one: what was made, and what becomes of it; pure."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_vmstorage.guest_fs import GuestFs
from pytest_vmstorage.provision.hostdisk import HostDisk
from pytest_vmstorage.units import format_size


def file_note(disk: HostDisk, in_guest: GuestFs | None, *, keep: bool) -> Mapping[str, str]:
    """What a row says of its test file, {} where the workload runs on a whole disk.

    A guest's goes with the disk; a listed device keeps what is on it, and with `keep` (--vm-keep) one guest stays.
    """
    if in_guest is not None:
        made = f"{format_size(in_guest.size_bytes)} on {in_guest.kind} in the guest"
        if disk.is_block and disk.block is not None and disk.block.kind in ("device", "partition"):
            return {"test file": f"{made}, left on the {disk.block.kind}"}
        stays = ", unless its guest is kept (--vm-keep)" if keep else ""
        return {"test file": f"{made}, removed with the guest's disk{stays}"}
    if disk.config.is_native and not disk.is_block:
        return {"test file": f"{format_size(disk.config.size)} on the host, removed after the row"}
    return {}

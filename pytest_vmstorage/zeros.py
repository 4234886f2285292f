"""Which layer below a workload stores zeros as nothing, so that a write of zeros measures nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_vmstorage.command import Shell
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.file_system import FileSystem, look_at
from pytest_vmstorage.provision.block import BlockPlace
from pytest_vmstorage.provision.hostdisk import HostDisk

_BY_QEMU: Mapping[str, str] = {
    "on": "QEMU makes of zeros an order to store none (detect_zeroes=on)",
    "unmap": "QEMU discards what zeros are written to (detect_zeroes=unmap)",
}


def stored_as_nothing(config: StorageConfig, mounted: Iterable[FileSystem], lies_on: BlockPlace | None = None) -> str:
    """Why zeros are not stored like data there, in a clause; "" where no layer is known to do that.

    `mounted` are the file systems in the way, in guest and on host; `lies_on` is the host's block device below all of
    them, whether disk, native row or file system is on it.
    Sources: qemu-img(1) detect-zeroes (tried: 16 MiB of zeros took 0 bytes), zfsprops(7) compression, btrfs(5)
    compress; a device that does it by itself cannot be seen.
    """
    if config.detect_zeroes in _BY_QEMU and not config.is_native:
        return _BY_QEMU[config.detect_zeroes]
    if lies_on is not None and lies_on.kind == "zvol" and "compression off" not in lies_on.description:
        return "the ZFS volume compresses"
    return next((clause for one in mounted if (clause := _of_file_system(one))), "")


def _of_file_system(found: FileSystem) -> str:
    if found.kind == "zfs":
        return f"ZFS on {found.mountpoint} may compress, and its default is to"
    packing = [option for option in found.options if option.startswith(("compress=", "compress-force="))]
    if found.kind == "btrfs" and packing:
        return f"btrfs on {found.mountpoint} compresses ({packing[0]})"
    return ""


def zeros_vanish(shell: Shell, disk: HostDisk, in_guest: FileSystem | None = None) -> str:
    """The same of a disk on that shell's machine, and of the file system that the guest has on it."""
    on_host = None if disk.is_block else look_at(shell, disk.path, defaults=False)
    return stored_as_nothing(disk.config, [one for one in (in_guest, on_host) if one is not None], disk.block)

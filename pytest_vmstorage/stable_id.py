"""Ids of block devices in vmstorage.toml: what no reboot and no other cable changes, and what does; pure.

Accepted are a name below /dev/disk/by-id (or its WWN or serial number as such), by-partuuid/UUID and by-partlabel/LABEL
for a partition, and for trying things out loop:/FILE, the loop device that is attached to that file.
"""

from __future__ import annotations

import re

from pytest_vmstorage.errors import ConfigError

_KERNEL_NAME = re.compile(
    r"(?:/dev/)?(?:(?:[shvx]|xv)d[a-z]+\d*|(?:nvme\d+n|mmcblk|loop|nbd|pmem|nullb|md|zd|ram|sr)\d+(?:p\d+)?|dm-\d+)"
)
_PLACE_NAME = re.compile(r"(?:by-path/|pci-|platform-|acpi-|ccw-|virtio-pci-|ip-).*")
_FOLDERS = ("by-id/", "by-partuuid/", "by-partlabel/")
STABLE = (
    'Give a stable id: a name below /dev/disk/by-id such as {key} = "wwn-0x5002538e40a1b2c3", a WWN or a serial number,'
    " or by-partuuid/UUID of a partition; `ls -l /dev/disk/by-id` shows them."
)
"""What to do about an id that is none, with `{key}` for the key it stands under."""

LOST = "Write allow_destroy = true only where all that is on the {kind} may be lost."
"""What to do about an allow_destroy that is neither, with `{kind}` for what it is of."""


def stable_id(text: str, where: str, kind: str, key: str = "id") -> str:
    """The id without /dev/disk/ and by-id/ before it; raises ConfigError where it may be another device tomorrow."""
    what, hint = f"{where}: {key} = {text!r}", STABLE.format(key=key)
    if text.startswith("loop:"):
        if not text.startswith("loop:/") or kind == "partition":
            raise ConfigError(
                f"{what} is not the file of a loop device.",
                hint="Write loop:/FILE for a whole loop device, and by-partuuid/UUID for a partition of one.",
            )
        return text
    short = text.removeprefix("/dev/disk/")
    if is_kernel_name(text) or (short == text and text.startswith("/")):
        raise ConfigError(f"{what} is a name that may be another {kind}'s after the next boot.", hint=hint)
    if _PLACE_NAME.fullmatch(short):
        raise ConfigError(f"{what} names the place a {kind} is plugged into, not the {kind}.", hint=hint)
    if short.startswith(("by-uuid/", "by-label/")):
        raise ConfigError(f"{what} names a file system, and measuring destroys that.", hint=hint)
    if "/" in short and (not short.startswith(_FOLDERS) or short.count("/") > 1 or short.endswith("/")):
        raise ConfigError(f"{what} is no id of a {kind}.", hint=hint)
    if kind == "device" and short.startswith(("by-partuuid/", "by-partlabel/")):
        raise ConfigError(f"{what} is a partition's.", hint="List it under partitions.")
    # the kernel writes a partition's UUID in small letters, gdisk in capitals
    return short.lower() if short.startswith("by-partuuid/") else short.removeprefix("by-id/")


def is_kernel_name(text: str) -> bool:
    """Whether that is a name the kernel gives anew at each boot, such as /dev/sdb or nvme0n1p1."""
    return _KERNEL_NAME.fullmatch(text) is not None


def kind_of_id(text: str) -> str:
    """Either "partition", for an id that only a partition has, or "device"."""
    short = text.removeprefix("/dev/disk/")
    is_part = short.startswith(("by-partuuid/", "by-partlabel/")) or re.search(r"-part\d+$", short) is not None
    return "partition" if is_part else "device"

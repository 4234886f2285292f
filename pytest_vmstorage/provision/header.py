"""The header by which QEMU takes what lies on a device for an image."""

from __future__ import annotations

import json

from pytest_vmstorage.command import Shell, check

HEADER_BYTES = 64 * 1024
"""Every format that QEMU probes for has its mark in there."""


def forget_format(shell: Shell, path: str) -> None:
    """Blank the header that another cell's image left on the device: with it a raw disk would pass for that image.

    A device without one is left as it is. Raises ProvisionError.
    """
    told = check(shell.run(["qemu-img", "info", "-U", "--output=json", path]), f"looking at {path}")
    if json.loads(told.stdout)["format"] != "raw":
        options = (f"bs={HEADER_BYTES}", "count=1", "conv=notrunc,fsync", "status=none")
        check(shell.run(["dd", "if=/dev/zero", f"of={path}", *options]), f"blanking the header on {path}")

"""Boot files on a lab host: QEMU's path there, and the appliance's files where that QEMU reads them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.buses import BUSES
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import LabHost
from pytest_vmstorage.config.settings import Accel
from pytest_vmstorage.guest.appliance.build import Appliance
from pytest_vmstorage.guest.appliance.recipe import kernel_cmdline
from pytest_vmstorage.guest.cloud_image.image import ImageBoot, PlacedImage, boot_of, make_boot, remove_boot
from pytest_vmstorage.host.shell import CommandResult, Shell, check
from pytest_vmstorage.progress import Progress
from pytest_vmstorage.units import format_about

PROGRESS_S = 5.0
"""Time between two reports on a long copy."""


class BootFiles(BaseModel):
    """Paths on the lab host of QEMU and of the appliance or the user's image, with the SHA-256 of the root's file."""

    model_config = ConfigDict(frozen=True)

    emulator: str
    kernel: str
    initrd: str
    root: str
    root_sha256: str = ""
    image: PlacedImage | None = None

    def cmdline(self, config: StorageConfig | None, accel: Accel) -> str:
        """The kernel command line of a cell's guest, which loads only the driver of the disk's bus."""
        return kernel_cmdline(BUSES[config.bus].modules if config else (), is_emulated=accel == "tcg")

    def image_boot(self, config: StorageConfig | None, folder: str, name: str) -> ImageBoot | None:
        """Boot disks of a cell's guest from the user's image, None without one; a canary always boots the appliance."""
        return boot_of(self.image, folder, name) if self.image is not None and config is not None else None

    def make(self, shell: Shell, config: StorageConfig | None, folder: str, name: str) -> None:
        """Make the boot disks of one guest of a cell in the run's folder; raises ProvisionError."""
        if self.image is not None and config is not None:
            make_boot(shell, self.image, folder, name)

    def remove(self, shell: Shell, folder: str, name: str) -> None:
        """Remove the boot disks of one guest; raises ProvisionError."""
        if self.image is not None:
            remove_boot(shell, self.image, folder, name)


def place_appliance(
    host: LabHost, shell: Shell, appliance: Appliance, emulator: str, *, draft: str, say: Progress
) -> BootFiles:
    """The appliance's files as the host's QEMU sees them; raises ProvisionError, HostError.

    They are copied once to another machine, through the folder `draft` there, and kept under a name made of their
    checksums, which are checked at each run.
    """
    paths = {"kernel": appliance.kernel, "initrd": appliance.initrd, "root": appliance.root}
    known = {"emulator": emulator, "root_sha256": appliance.manifest.files[appliance.root.name].sha256}
    if host.is_local:
        return BootFiles.model_validate({**known, **{name: str(path) for name, path in paths.items()}})
    sums = "".join(f"{appliance.manifest.files[path.name].sha256}  {path.name}\n" for path in paths.values())
    folder = f"{host.folder}/appliance-{hashlib.sha256(sums.encode()).hexdigest()[:16]}"
    if not _is_there(shell, folder, sums, host.name, say):
        _copy(shell, list(paths.values()), draft, host.name, say)
        check(_summed(shell, draft, sums), f"checking the appliance's copy on {host.name}")
        # another run may have been faster
        moved = shell.run(["mv", "-T", "--", draft, folder])
        if not moved.ok and not _summed(shell, folder, sums).ok:
            check(moved, f"keeping the appliance in {folder} on {host.name}")
    return BootFiles.model_validate({**known, **{name: f"{folder}/{path.name}" for name, path in paths.items()}})


def _is_there(shell: Shell, folder: str, sums: str, host: str, say: Progress) -> bool:
    if not shell.run(["test", "-e", folder]).ok:
        return False
    if _summed(shell, folder, sums).ok:
        return True
    say(f"the guest appliance on {host} is damaged")
    check(shell.run(["rm", "-rf", "--", folder]), f"removing {folder} on {host}")
    return False


def _summed(shell: Shell, folder: str, sums: str) -> CommandResult:
    return shell.run(["sh", "-c", 'cd -- "$1" && sha256sum --quiet -c -', "sh", folder], stdin=sums.encode())


def _copy(shell: Shell, paths: Sequence[Path], folder: str, host: str, say: Progress) -> None:
    """Copy files into a new folder, readable for all: QEMU may run as another user there."""
    total = sum(path.stat().st_size for path in paths)
    say(f"copying the guest appliance to {host} ({format_about(total)})")
    check(shell.run(["mkdir", "-p", "-m", "755", "--", folder]), f"making {folder} on {host}")
    copied, said_at = 0, time.monotonic()

    def moved(size: int) -> None:
        nonlocal copied, said_at
        copied += size
        if time.monotonic() - said_at > PROGRESS_S:
            said_at = time.monotonic()
            say(f"copied {format_about(copied)} of {format_about(total)}")

    for path in paths:
        shell.put(path, f"{folder}/{path.name}", moved=moved)
    check(shell.run(["chmod", "644", "--", *(f"{folder}/{path.name}" for path in paths)]), "copying the appliance")

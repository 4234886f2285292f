"""User images in place of the appliance: checked, placed on the host, and never written to.

Each guest has its own overlay over the image, and a seed that cloud-init reads.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.guest_image import ListedImage
from pytest_vmstorage.config.inventory import LabHost
from pytest_vmstorage.errors import HostError, ProvisionError
from pytest_vmstorage.guest.cloud_image.network import Door, ImageKeys, door_of
from pytest_vmstorage.guest.cloud_image.seed import check_seed_tools, make_seed, seed_texts
from pytest_vmstorage.host.shell import LocalShell, Shell, check
from pytest_vmstorage.leftovers import temporary
from pytest_vmstorage.progress import Progress
from pytest_vmstorage.units import format_about

_COPY_S = 3600.0


class PlacedImage(BaseModel):
    """An image where the host's QEMU reads it; `description` stands in the rows of its guests.

    `keys` is the folder of the run's keys where ssh reaches the guests, "" where their agents do; `jump` is the ssh
    target of a host that is another machine.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    format: Literal["qcow2", "raw"]
    description: str
    keys: str = ""
    jump: str = ""


class ImageBoot(BaseModel):
    """Boot disks of one guest, the overlay and the seed, as paths on the host; `door` is its network."""

    model_config = ConfigDict(frozen=True)

    overlay: str
    seed: str
    description: str
    door: Door


def place_image(
    host: LabHost, shell: Shell, image: ListedImage, say: Progress, keys: ImageKeys | None = None, *, draft: str
) -> PlacedImage:
    """Check the image, and copy it once to a host that is another machine, under a name made of its checksum.

    The copy is the file `draft`, in the run's own folder, until it is complete. Raises HostError where the image
    differs from its checksum or cannot be a root disk; ProvisionError.
    """
    check_seed_tools()
    found = _sum(image.path)
    if found != image.sha256:
        raise HostError(
            f"The image {image.path} does not match its checksum: it has {found[:16]}... instead of"
            f" {image.sha256[:16]}....",
            hint="Fetch it again, or write down the checksum of what you want to measure with.",
            code="VM513",
        )
    kind = _kind(image.path)
    path = str(image.path) if host.is_local else _copied(host, shell, image, draft, say)
    return PlacedImage(
        path=path,
        format=kind,
        description=image.description,
        keys=str(keys.folder) if keys is not None else "",
        jump=host.ssh or "",
    )


def _sum(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise HostError(
            f"The image {path} cannot be read: {error.strerror}.", hint="Name an image that you may read.", code="VM514"
        ) from None


def _kind(path: Path) -> Literal["qcow2", "raw"]:
    done = check(LocalShell().run(["qemu-img", "info", "--output=json", str(path)]), f"looking at the image {path}")
    told = json.loads(done.stdout)
    if told["format"] not in ("qcow2", "raw"):
        raise HostError(
            f"The image {path} is {told['format']}, and guests boot from qcow2 or raw.",
            hint=f"Make one of it: qemu-img convert -O qcow2 {path.name} IMAGE.qcow2",
            code="VM514",
        )
    below = told.get("backing-filename") or told.get("format-specific", {}).get("data", {}).get("data-file")
    if below:
        raise HostError(
            f"The image {path} depends on another file, {below}, which its checksum does not cover.",
            hint=f"Make one file of both: qemu-img convert -O qcow2 {path.name} IMAGE.qcow2",
            code="VM514",
        )
    return "qcow2" if told["format"] == "qcow2" else "raw"


def _copied(host: LabHost, shell: Shell, image: ListedImage, draft: str, say: Progress) -> str:
    target = f"{host.folder}/image-{image.sha256[:32]}"
    line = f"{image.sha256}  {target}\n".encode()
    check_argv = ["sha256sum", "--quiet", "-c", "-"]
    if shell.run(["test", "-e", target]).ok and shell.run(check_argv, stdin=line, timeout_s=_COPY_S).ok:
        return target
    say(f"copying the image {image.path.name} to {host.name} ({format_about(image.path.stat().st_size)})")
    shell.put(image.path, draft)
    # QEMU may run as another user there
    check(shell.run(["chmod", "644", "--", draft]), f"copying the image to {host.name}")
    check(shell.run(["mv", "-T", "--", draft, target]), f"keeping the image in {target} on {host.name}")
    check(shell.run(check_argv, stdin=line, timeout_s=_COPY_S), f"checking the image's copy on {host.name}")
    return target


def boot_of(image: PlacedImage, folder: str, name: str) -> ImageBoot:
    """Paths of the overlay and the seed of a guest, and its network."""
    return ImageBoot(
        overlay=f"{folder}/{name}.root",
        seed=f"{folder}/{name}.seed",
        description=image.description,
        door=door_of(name, image.keys, image.jump),
    )


def make_boot(shell: Shell, image: PlacedImage, folder: str, name: str) -> None:
    """Make the guest's overlay and seed in the run's folder; raises ProvisionError."""
    made = boot_of(image, folder, name)
    argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", image.format, "-b", image.path, made.overlay]
    check(shell.run(argv), f"making the root disk of {name}")
    with temporary("seed") as scratch:
        seed = scratch / "seed"
        make_seed(seed, seed_texts(name, made.door))
        shell.put(seed, made.seed)


def remove_boot(shell: Shell, image: PlacedImage, folder: str, name: str) -> None:
    """Remove the guest's overlay and seed, where they exist; raises ProvisionError."""
    made = boot_of(image, folder, name)
    done = shell.run(["rm", "-f", "--", made.overlay, made.seed])
    if not done.ok:
        raise ProvisionError(f"The root disk of {name} cannot be removed: {done.tail(1)}.", code="VM443")

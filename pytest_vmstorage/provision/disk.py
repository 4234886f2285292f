"""Make, prove and remove the disk under test: one function per verb, all through the host's shell."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.command import NOT_FOUND, Shell, check
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.errors import AttestationError, HostError, SpaceError
from pytest_vmstorage.units import format_about

HEADROOM_BYTES = 64 * 2**20
"""Kept free beside the disk: image metadata, the console log, the leases."""

_MAKING_S = 600.0
"""Time limit for making one image: full preallocation writes every byte."""


class FolderFacts(BaseModel):
    """The folder the disks lie in: its file system, the device below it, and free space in bytes."""

    model_config = ConfigDict(frozen=True)

    path: str
    file_system: str
    device: str
    free_bytes: int


class ImageFacts(BaseModel):
    """What an image takes on its file system, in bytes; `unwritten` is None where extents cannot be seen."""

    model_config = ConfigDict(frozen=True)

    length_bytes: int
    allocated_bytes: int
    unwritten: bool | None


def prepare_folder(shell: Shell, path: str, *, chosen: bool) -> FolderFacts:
    """Make the folder if need be and say what it lies on; raises HostError where it cannot hold disks.

    A tmpfs is memory and no disk: it is refused unless the user chose the folder.
    """
    made = shell.run(["mkdir", "-p", "--", path])
    probe = f"{path}/.write-test"
    written = shell.run(["sh", "-c", 'echo x >"$1" && rm -f "$1"', "sh", probe]) if made.ok else made
    if not written.ok:
        raise HostError(
            f"The folder for disks {path} cannot be written: {written.tail(1)}.",
            hint="Name another one with --vm-dir=FOLDER.",
        )
    facts = folder_facts(shell, path)
    if facts.file_system in ("tmpfs", "ramfs") and not chosen:
        raise HostError(
            f"The folder for disks {path} is a {facts.file_system}, which is memory and no disk.",
            hint="Name a folder on a disk with --vm-dir=FOLDER (a tmpfs named there is used and recorded).",
        )
    return facts


def folder_facts(shell: Shell, path: str) -> FolderFacts:
    """File system, device and free space of a folder, from df(1)."""
    done = check(shell.run(["df", "-B1", "--output=fstype,avail,source", "--", path]), f"looking at the folder {path}")
    fstype, free, device = done.stdout.splitlines()[-1].split(maxsplit=2)
    return FolderFacts(path=path, file_system=fstype, device=device, free_bytes=int(free))


def check_space(facts: FolderFacts, config: StorageConfig) -> None:
    """Raise SpaceError where the disk, once written in full, would not fit the folder."""
    need = config.size + HEADROOM_BYTES
    if facts.free_bytes < need:
        raise SpaceError(
            f"{facts.path} has {format_about(facts.free_bytes)} free, but a disk of "
            f"{format_about(config.size)} may need {format_about(need)}.",
            hint="Free some space, name another folder with --vm-dir, or ask for a smaller size.",
        )


def create_argv(config: StorageConfig, path: str) -> tuple[str, ...]:
    """The qemu-img line that makes this cell's image."""
    options = ",".join(create_options(config))
    chosen = ("-o", options) if options else ()
    return ("qemu-img", "create", "-q", "-f", config.format, *chosen, path, str(config.size))


def create_options(config: StorageConfig) -> Iterator[str]:
    """qemu-img's -o for the cell; what a tool's default would decide is said."""
    if config.format in ("raw", "qcow2"):
        yield f"preallocation={config.preallocation}"
    if config.format == "qcow2":
        # old libvirt makes 0.10, which has no zero clusters
        yield "compat=1.1"
        yield from (f"cluster_size={config.cluster_size}",) if config.cluster_size else ()
        yield f"lazy_refcounts={'on' if config.lazy_refcounts else 'off'}"
        yield from ("extended_l2=on",) if config.extended_l2 else ()
    if config.subformat:
        yield f"subformat={config.subformat}"
    if config.format == "vpc":
        # without it the size is rounded to what cylinders, heads and sectors can say
        yield "force_size=on"


def make_disk(shell: Shell, config: StorageConfig, path: str) -> ImageFacts:
    """Make the image and prove its preallocation; raises ProvisionError, AttestationError."""
    done = shell.run(create_argv(config, path), timeout_s=_MAKING_S)
    check(done, f"making the disk for {config}", hint="Install qemu-utils." if done.returncode == NOT_FOUND else "")
    facts = image_facts(shell, path)
    verify_preallocation(config, facts)
    return facts


def remove_disk(shell: Shell, path: str) -> None:
    """Remove the image, and the extents that a vmdk has beside it; none there is no error."""
    check(shell.run(["rm", "-f", "--", *image_files(shell, path)]), f"removing {path}")


def image_files(shell: Shell, path: str) -> tuple[str, ...]:
    """The image's path, and behind it those of the extents that a vmdk may have beside it."""
    if not path.endswith(".vmdk"):
        return (path,)
    listed = shell.run(["sh", "-c", 'ls -d -- "${1%.vmdk}"-[fs]*.vmdk', "sh", path])
    return (path, *listed.stdout.splitlines()) if listed.ok else (path,)


def drop_caches(shell: Shell, path: str) -> str:
    """Make the host forget what it cached of the image; says how, since without root only the image itself can go."""
    files = image_files(shell, path)
    shell.run(["sync", *files])
    if shell.run(["sh", "-c", "echo 3 >/proc/sys/vm/drop_caches"]).ok:
        return "dropped before each round"
    # dd with nocache and count=0 is posix_fadvise(POSIX_FADV_DONTNEED) on the whole file (coreutils manual)
    advised = [shell.run(["dd", f"if={file}", "iflag=nocache", "count=0", "status=none"]) for file in files]
    return "image evicted by advice before each round" if all(done.ok for done in advised) else "not dropped"


def image_facts(shell: Shell, path: str) -> ImageFacts:
    """Length and allocation of all its files from stat(1), unwritten extents from filefrag(8), synced first."""
    files = image_files(shell, path)
    done = check(shell.run(["stat", "-c", "%s %b %B", "--", *files]), f"looking at {path}")
    sizes = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
    extents = shell.run(["filefrag", "-s", "-v", path])
    # lines of extents begin with their number; the image's path, in a line before, may hold any word
    unwritten = re.search(r"^ *\d+:.*\bunwritten\b", extents.stdout, re.MULTILINE) is not None if extents.ok else None
    length, allocated = sum(size for size, _, _ in sizes), sum(blocks * unit for _, blocks, unit in sizes)
    return ImageFacts(length_bytes=length, allocated_bytes=allocated, unwritten=unwritten)


def verify_preallocation(config: StorageConfig, facts: ImageFacts) -> None:
    """Raise AttestationError where the image is not preallocated as asked.

    qemu-img accepts the option for formats that ignore it, so its exit status proves nothing
    (tried on 7.2); what the image takes on its file system does.
    """
    found = observed_preallocation(config, facts)
    asked = config.preallocation
    same = found == asked or (found == "falloc or full" and asked in ("falloc", "full"))
    if not same:
        raise AttestationError(
            f"preallocation of the {config.format} image",
            asked=asked,
            found=f"{found} ({format_about(facts.allocated_bytes)} of {format_about(config.size)} allocated)",
            hint="The folder's file system may compress, or lack fallocate; try another --vm-dir.",
        )


def observed_preallocation(config: StorageConfig, facts: ImageFacts) -> str:
    """What the image's length, allocation and extents say; "falloc or full" where extents cannot be seen."""
    if facts.allocated_bytes >= config.size:
        return {None: "falloc or full", True: "falloc", False: "full"}[facts.unwritten]
    if facts.allocated_bytes > config.size // 2:
        return "partial"
    # qcow2 with all its tables written ends behind the last data cluster; a raw file always has full length
    if config.format == "qcow2" and facts.length_bytes >= config.size:
        return "metadata"
    return "off"

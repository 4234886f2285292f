"""Disk images on the host: made, proven and removed with one function per verb, all through the host's shell."""

from __future__ import annotations

import contextlib
import glob
import itertools
import json
import shlex
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import PurePosixPath

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import AttestationError, ProvisionError
from pytest_vmstorage.host.folders import FolderFacts, check_room
from pytest_vmstorage.host.shell import NOT_FOUND, LocalShell, Shell, check
from pytest_vmstorage.storage.encryption import TRIES, image_name, luks_options, secret_argv
from pytest_vmstorage.storage.extents import file_extents
from pytest_vmstorage.storage.layers import fill, layer_paths
from pytest_vmstorage.storage.space import bytes_on_device, space_needed
from pytest_vmstorage.units import format_about

HEADER_BYTES = 64 * 1024
"""Every format that QEMU probes for has its signature within these."""


def forget_format(shell: Shell, path: str) -> None:
    """Blank the header that another cell's image left on the device: a raw disk would pass for that image.

    A device without a header is not written to. Raises ProvisionError.
    """
    told = check(shell.run(["qemu-img", "info", "-U", "--output=json", path]), f"looking at {path}")
    if json.loads(told.stdout)["format"] != "raw":
        options = (f"bs={HEADER_BYTES}", "count=1", "conv=notrunc,fsync", "status=none")
        check(shell.run(["dd", "if=/dev/zero", f"of={path}", *options]), f"blanking the header on {path}")


_MAKING_S = 600.0
"""Time limit for making one image: full preallocation writes every byte."""


class ImageFacts(BaseModel):
    """An image's length and allocation on its file system; `unwritten` is None where extents cannot be seen.

    An image that arrives filled is measured before its data is written. With `is_block` it lies on a block device:
    `length_bytes` is then how far the format reaches into it, and no file system allocates anything.
    """

    model_config = ConfigDict(frozen=True)

    length_bytes: int
    allocated_bytes: int
    unwritten: bool | None
    is_block: bool = False


def check_space(facts: FolderFacts, config: StorageConfig) -> None:
    """Raise SpaceError where the disk would not fit the folder once it is written in full."""
    check_room(facts, space_needed(config), f"a disk of {format_about(config.size)}")


def create_argv(config: StorageConfig, path: str, below: str = "") -> tuple[str, ...]:
    """The qemu-img line that makes one image of this cell, empty, on the backing file `below` if that is named."""
    options = ",".join(create_options(config))
    chosen = ("-o", options) if options else ()
    # -u: the size is given, and the file below may be made later, or be encrypted
    on = ("-u", "-b", below, "-F", config.format) if below else ()
    return (
        *("qemu-img", "create", "-q", "-f", config.format),
        *(*secret_argv(config), *chosen, *on, path, str(config.size)),
    )


def create_options(config: StorageConfig) -> Iterator[str]:
    """qemu-img's -o for the cell; no option is left to a default of the tool."""
    if config.format in ("raw", "qcow2"):
        yield f"preallocation={config.preallocation}"
    if config.format == "qcow2":
        # version 0.10, which old libvirt makes, has no zero clusters
        yield "compat=1.1"
        yield from (f"cluster_size={config.cluster_size}",) if config.cluster_size else ()
        yield f"lazy_refcounts={'on' if config.lazy_refcounts else 'off'}"
        yield from ("extended_l2=on",) if config.extended_l2 else ()
        yield from (f"compression_type={config.compression}",) if config.compression != "off" else ()
        yield from luks_options() if config.encryption == "luks" else ()
    if config.subformat:
        yield f"subformat={config.subformat}"
    if config.format == "vpc":
        # without it the size is rounded to whole cylinders
        yield "force_size=on"


def make_disk(shell: Shell, config: StorageConfig, path: str) -> ImageFacts:
    """Make the image, prove its preallocation, then write the data with which the cell arrives.

    `path` may be a block device: a raw disk needs no making there, only its size is checked. Raises ProvisionError,
    AttestationError.
    """
    on_device = is_block(shell, path)
    if on_device:
        _check_device(shell, config, path)
    layers = layer_paths(config, path)
    if on_device and config.format == "raw":
        forget_format(shell, path)
    else:
        _create(shell, config, create_argv(config, path, *layers[:1]))
    facts = image_facts(shell, path)
    if on_device and config.format == "qcow2":
        facts = facts.model_copy(update={"length_bytes": _end_of_image(shell, config, path)})
    verify_preallocation(config, facts)
    for layer, below in zip_longest(layers, layers[1:], fillvalue=""):
        _create(shell, config, create_argv(config, layer, below))
    if config.arrives_filled:
        fill(shell, config, path)
    return facts


def _create(shell: Shell, config: StorageConfig, argv: tuple[str, ...]) -> None:
    done = shell.run(argv, timeout_s=_MAKING_S)
    for _ in range(TRIES - 1 if config.encryption == "luks" else 0):
        done = done if done.ok else shell.run(argv, timeout_s=_MAKING_S)
    check(done, f"making the disk for {config}", hint="Install qemu-utils." if done.returncode == NOT_FOUND else "")


def is_block(shell: Shell, path: str) -> bool:
    """Whether the path is a block device of the host."""
    return shell.run(["test", "-b", path]).ok


def _device_bytes(shell: Shell, path: str) -> int:
    return int(check(shell.run(["blockdev", "--getsize64", path]), f"looking at {path}").stdout)


def _check_device(shell: Shell, config: StorageConfig, path: str) -> None:
    there, need = _device_bytes(shell, path), bytes_on_device(config)
    if there < need:
        raise ProvisionError(
            f"{path} has {format_about(there)}, and a {config.format} disk of {format_about(config.size)} needs"
            f" {format_about(need)}.",
            hint="Ask for a smaller size, or name a larger device.",
            code="VM533",
        )


def _end_of_image(shell: Shell, config: StorageConfig, path: str) -> int:
    """How far a qcow2 reaches into its device, in bytes."""
    argv = ["qemu-img", "check", "--output=json", *secret_argv(config), image_name(config, path)]
    return int(json.loads(check(shell.run(argv), f"looking at {path}").stdout)["image-end-offset"])


def remove_disk(shell: Shell, path: str) -> None:
    """Remove the image and the files that belong to it; missing files are not an error.

    A block device stays, with its contents.
    """
    if not is_block(shell, path):
        check(shell.run(["rm", "-f", "--", *image_files(shell, path)]), f"removing {path}")


# files that belong to an image, by its suffix: a vmdk's extents, a qcow2's backing files, the block that fills it
_BESIDE = {".vmdk": ("{stem}-[fs]*.vmdk", "{path}.block"), ".qcow2": ("{stem}.*-of-*.qcow2", "{path}.block")}


def image_files(shell: Shell, path: str) -> tuple[str, ...]:
    """The image's path, then those of a vmdk's extents or a qcow2's backing files, which lie next to it."""
    if isinstance(shell, LocalShell):
        found = (sorted(glob.glob(one)) for one in _beside(path, glob.escape))  # noqa: PTH207 (patterns have a root)
        return (path, *itertools.chain.from_iterable(found))
    beside = neighbours_for_sh(path)
    listed = shell.run(["sh", "-c", f"ls -d -- {beside} 2>/dev/null"]).stdout if beside else ""
    return (path, *listed.splitlines())


def neighbours_for_sh(path: str) -> str:
    """Words of sh that match the files next to an image that belong to it."""
    return " ".join(_beside(path, shlex.quote))


def _beside(path: str, quote: Callable[[str], str]) -> tuple[str, ...]:
    name = PurePosixPath(path)
    stem = quote(str(name.with_suffix("")))
    return tuple(one.format(stem=stem, path=quote(path)) for one in _BESIDE.get(name.suffix, ()))


def image_facts(shell: Shell, path: str) -> ImageFacts:
    """The facts of an image: length and allocation of all files from stat(1), unwritten extents from filefrag(8) -s.

    For a block device its size, from blockdev(8).
    """
    if is_block(shell, path):
        size = _device_bytes(shell, path)
        return ImageFacts(length_bytes=size, allocated_bytes=0, unwritten=None, is_block=True)
    files = image_files(shell, path)
    done = check(shell.run(["stat", "-c", "%s %b %B", "--", *files]), f"looking at {path}")
    sizes = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
    extents = shell.run(["filefrag", "-s", "-v", path])
    unwritten = None
    if extents.ok:
        # of extents that cannot be read nothing is claimed
        with contextlib.suppress(ProvisionError):
            unwritten = _mostly_unwritten(extents.stdout)
    length, allocated = sum(size for size, _, _ in sizes), sum(blocks * unit for _, blocks, unit in sizes)
    return ImageFacts(length_bytes=length, allocated_bytes=allocated, unwritten=unwritten)


def _mostly_unwritten(listing: str) -> bool:
    """Whether filefrag -v shows more unwritten than written blocks.

    On xfs a fully written qcow2 ends with some unwritten ones: QEMU asks it for extents of 1 MiB. falloc leaves all
    but the image's tables unwritten (over 99 %, tried on ext4, xfs and btrfs).
    """
    sizes = [(one.at.length_bytes, one.is_unwritten) for one in file_extents(listing)]
    return 2 * sum(size for size, is_unwritten in sizes if is_unwritten) > sum(size for size, _ in sizes)


def verify_preallocation(config: StorageConfig, facts: ImageFacts) -> None:
    """Raise AttestationError where the image is not preallocated as asked.

    qemu-img accepts the option for formats that ignore it (tried on 7.2), so only the image's allocation proves it.
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
            code="VM602",
        )


def observed_preallocation(config: StorageConfig, facts: ImageFacts) -> str:
    """The preallocation by length, allocation and extents; "falloc or full" where extents cannot be seen."""
    if not facts.is_block and facts.allocated_bytes >= config.size:
        return {None: "falloc or full", True: "falloc", False: "full"}[facts.unwritten]
    if facts.allocated_bytes > config.size // 2:
        return "partial"
    # qcow2 with all its tables written ends behind the last data cluster; a raw file always has full length
    if config.format == "qcow2" and facts.length_bytes >= config.size:
        return "metadata"
    return "off"

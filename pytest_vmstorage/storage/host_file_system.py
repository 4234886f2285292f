"""File systems made under the image: on a loop device over a file in the run's folder, or on a listed device."""

from __future__ import annotations

import time

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.fs_options import mkfs_argv, mount_options
from pytest_vmstorage.errors import ProvisionError, UnsupportedError, VmStorageError
from pytest_vmstorage.host.file_systems import MOUNTS, asked_words, look_at, make_file_system, mount, read_mounts
from pytest_vmstorage.host.folders import check_room, folder_facts
from pytest_vmstorage.host.guard import guard_of
from pytest_vmstorage.host.shell import NOT_FOUND, Shell, check
from pytest_vmstorage.storage.space import HEADROOM_BYTES, space_needed
from pytest_vmstorage.units import format_about

SMALLEST_BYTES = {"ext4": 512 * 2**20, "xfs": 304 * 2**20, "btrfs": 256 * 2**20}
"""mkfs.xfs 6.1 refuses less than 300 MiB, mkfs.btrfs 6.2 less than 109 MiB; a smaller ext4 has blocks of 1 KiB."""

_BESIDE = {"ext4": (64 * 2**20, 0.09), "xfs": (96 * 2**20, 0.03), "btrfs": (160 * 2**20, 0.10)}
_ALIGN = 2**20
_WHERE = "on the lab host"
_PATIENCE_S = 15.0
_PAUSE_S = 0.1


class HostFs(BaseModel):
    """A file system made for one cell: its mount point, device, mkfs line, options and free bytes.

    `image` is the loop device's file, "" where a listed device was used. `direct` says whether the loop device
    reads and writes its file past the host's page cache; `note` says why not, in a clause.
    """

    model_config = ConfigDict(frozen=True)

    kind: str
    mountpoint: str
    device: str
    image: str
    mkfs: tuple[str, ...]
    options: tuple[str, ...]
    free_bytes: int
    direct: bool = True
    note: str = ""


def host_fs_bytes(config: StorageConfig, image_bytes: int | None = None) -> int:
    """The size of the cell's file system in bytes: room for images, by default the cell's own, and for its metadata.

    In addition to data ext4 keeps a journal, inode tables and 5 % for root, xfs a log, btrfs its metadata twice. With
    copy on write btrfs keeps an extent until its last block is rewritten: the image may take twice its size.
    """
    fixed, share = _BESIDE[config.host_fs]
    options = mount_options(config.host_fs, config.host_mount, field="host_mount")
    copies = config.host_fs == "btrfs" and "nodatacow" not in options
    image = space_needed(config) - HEADROOM_BYTES if image_bytes is None else image_bytes
    need = image * (2 if copies else 1) + HEADROOM_BYTES
    whole = max(SMALLEST_BYTES[config.host_fs], int(need * (1 + share)) + fixed)
    return -(-whole // _ALIGN) * _ALIGN


def make_host_fs(
    shell: Shell,
    folder: str,
    config: StorageConfig,
    *,
    number: int,
    device: str | None = None,
    image_bytes: int | None = None,
) -> HostFs:
    """Make and mount the cell's host_fs below the run's folder; `device` is used in place of a loop device.

    With `image_bytes` it is for images that take so much together, whatever the cell's size; else for the cell's disk.
    Raises UnsupportedError where this host cannot (no root, no loop device, no mkfs, no driver), ConfigError with the
    message of mkfs or mount for options that they refuse, ProvisionError; after an error nothing is left.
    """
    options = mount_options(config.host_fs, config.host_mount, field="host_mount")
    # checked before anything is made: some options are refused here, and not by mkfs
    mkfs_argv(config.host_fs, config.host_mkfs, "", field="host_mkfs", discard=True)
    if shell.run(["id", "-u"]).stdout.strip() != "0":
        raise UnsupportedError(
            f"host_fs={config.host_fs} is made with mkfs and mount, which takes root {_WHERE}.",
            hint="Run as root, or choose host_fs=as-found.",
            code="VM422",
        )
    image = "" if device else f"{folder}/fs-{number}.img"
    mountpoint = f"{folder}/fs-{number}"
    size = host_fs_bytes(config, image_bytes)
    contents = f"images of {config}" if image_bytes is not None else f"a disk of {format_about(config.size)}"
    try:
        if not device:
            check_room(folder_facts(shell, folder), size + HEADROOM_BYTES, f"a {config.host_fs} for {contents}")
            device = _attach(shell, image, size)
        there = _make(shell, config, HostFs(
            kind=config.host_fs,
            mountpoint=mountpoint,
            device=device,
            image=image,
            mkfs=mkfs_argv(config.host_fs, config.host_mkfs, device, field="host_mkfs", discard=True),
            options=options,
            free_bytes=0,
            direct=not image or _set_direct(shell, device),
        ))  # fmt: skip
        _check_contents(config, there, image_bytes)
        return there
    except BaseException:
        _undo(shell, mountpoint, image)
        raise


def _make(shell: Shell, config: StorageConfig, planned: HostFs) -> HostFs:
    make_file_system(shell, planned.mkfs, asked=asked_words(host_mkfs=config.host_mkfs), where=_WHERE)
    asked = asked_words(host_mkfs=config.host_mkfs, host_mount=config.host_mount)
    mount(shell, planned.kind, planned.device, planned.mountpoint, planned.options, asked=asked, where=_WHERE)
    # a guest's QEMU may run as another user, which must pass through here as through the folder above
    check(shell.run(["chmod", "711", "--", planned.mountpoint]), f"opening {planned.mountpoint}")
    found, free = look_at(shell, planned.mountpoint), folder_facts(shell, planned.mountpoint).free_bytes
    if found is None or found.mountpoint.rpartition("/")[2] != planned.mountpoint.rpartition("/")[2]:
        raise ProvisionError(
            f"The {planned.kind} was made, but nothing is mounted on {planned.mountpoint}.", code="VM532"
        )
    note = "" if planned.direct else "its loop device caches the same pages again: the folder takes no direct I/O"
    return planned.model_copy(update={"options": found.options, "free_bytes": free, "note": note})


def _check_contents(config: StorageConfig, there: HostFs, image_bytes: int | None) -> None:
    """Raise ProvisionError where options of mkfs left less than the cell's disk, or its images, may take."""
    least = config.size if image_bytes is None else image_bytes
    if there.free_bytes < least:
        takes = "the disk has" if image_bytes is None else f"images of {config} may take"
        raise ProvisionError(
            f"The {there.kind} of host_mkfs={config.host_mkfs!r} has {format_about(there.free_bytes)} free, but {takes}"
            f" {format_about(least)}.",
            hint="Leave more room with other options, or ask for another size.",
            code="VM532",
        )


def _attach(shell: Shell, image: str, size: int) -> str:
    argv = ["sh", "-c", 'umask 077 && exec truncate -s "$2" -- "$1"', "sh", image, str(size)]
    check(shell.run(argv), f"making {image}")
    sectors = shell.run(["sh", "-c", 'blockdev --getss "$(df --output=source -- "$1" | tail -n 1)"', "sh", image])
    # direct I/O on a file needs blocks no smaller than those of the device below; overlays do not show them
    size_of_sector = sectors.stdout.strip() if sectors.ok else "512"
    done = shell.run(["losetup", "--find", "--show", "--sector-size", size_of_sector, "--", image])
    if not done.ok:
        reason = "there is no losetup" if done.returncode == NOT_FOUND else done.tail(1).rstrip(".")
        raise UnsupportedError(
            f"A file system under the image needs a loop device, and {_WHERE} there is none: {reason}.",
            hint="modprobe loop there; in a container, pass /dev/loop-control and the loop devices in.",
            code="VM421",
        )
    device = done.stdout.strip()
    guard_of(shell).allow(device)
    return device


def _set_direct(shell: Shell, device: str) -> bool:
    shell.run(["losetup", "--direct-io=on", device])
    # the kernel may accept the request and not fulfil it
    return shell.read(f"/sys/block/{device.rpartition('/')[2]}/loop/dio").strip() == "1"


def _undo(shell: Shell, mountpoint: str, image: str) -> None:
    try:
        _unmount(shell, mountpoint)
        _detach(shell, image)
        if image:
            shell.run(["rm", "-f", "--", image])
    except VmStorageError:
        # the error of `make_host_fs` is raised; the rest goes with the run's folder
        return


def remove_host_fs(shell: Shell, host_fs: HostFs) -> None:
    """Unmount it, detach its loop device, remove its file; waits for a guest on its way out. Raises ProvisionError.

    A listed device keeps what was written to it.
    """
    _unmount(shell, host_fs.mountpoint)
    if host_fs.image:
        _detach(shell, host_fs.image)
        check(shell.run(["rm", "-f", "--", host_fs.image]), f"removing {host_fs.image}")


def _unmount(shell: Shell, mountpoint: str) -> None:
    """Unmount all that is mounted there, and remove the folder."""
    for found in reversed(read_mounts(shell.read(MOUNTS))):
        if found.mountpoint == _real(shell, mountpoint):
            _patiently(shell, ["umount", "--", found.mountpoint], f"unmounting {mountpoint}")
    shell.run(["rmdir", "--", mountpoint])


def _detach(shell: Shell, image: str) -> None:
    real = _real(shell, image)
    for device, file in _loops(shell):
        if image and file == real:
            _detach_from(shell, device, file)
            guard_of(shell).forbid(device)


def _detach_from(shell: Shell, device: str, file: str) -> None:
    """Detach a loop device from its file; raises ProvisionError.

    While another program has the device open, as one that looks for file systems on all of them, `losetup -d` ends at
    once and the kernel detaches it when it is closed. It is not asked again: by then it may have another's file.
    """
    _patiently(shell, ["losetup", "-d", device], f"detaching {device}")
    deadline = time.monotonic() + _PATIENCE_S
    while (device, file) in _loops(shell):
        if time.monotonic() > deadline:
            raise ProvisionError(
                f"{device} has been detached from {file}, but some process still has it open.",
                hint=f"`fuser -v {device}` names the process; the kernel detaches the device when it is closed.",
                code="VM443",
            )
        time.sleep(_PAUSE_S)


def _patiently(shell: Shell, argv: list[str], doing: str) -> None:
    """Run argv, again for a while where a process on its way out holds the mount. Raises ProvisionError."""
    deadline = time.monotonic() + _PATIENCE_S
    while not (done := shell.run(argv)).ok:
        if time.monotonic() > deadline:
            check(done, doing, hint="Some process still uses it: fuser -vm names it.")
        time.sleep(_PAUSE_S)


def _loops(shell: Shell) -> list[tuple[str, str]]:
    """Each loop device in use, and the file below it, without the kernel's note that the file was removed."""
    told = shell.run(["sh", "-c", "grep -H . /sys/block/loop*/loop/backing_file"]).stdout.splitlines()
    pairs = [line.split(":", 1) for line in told if ":" in line]
    return [(f"/dev/{path.split('/')[3]}", file.removesuffix(" (deleted)")) for path, file in pairs]


def _real(shell: Shell, path: str) -> str:
    return shell.run(["readlink", "-f", "--", path]).stdout.rstrip("\n") or path


def remove_folder(shell: Shell, folder: str) -> None:
    """Unmount everything in a run's folder and remove the folder, never files on another file system."""
    reap_host_fs(shell, folder)
    check(shell.run(["rm", "-rf", "--one-file-system", "--", folder]), f"removing {folder}")


def reap_host_fs(shell: Shell, folder: str, *, look_only: bool = False) -> list[str]:
    """Unmount all that is mounted below a run's folder, detach loop devices over files in it; a clause for each.

    The folder's name suffices, so that it also clears what a killed run left. With `look_only` nothing is changed.
    Raises ProvisionError.
    """
    real = _real(shell, folder)
    said = []
    below = [one for one in read_mounts(shell.read(MOUNTS)) if one.mountpoint.startswith(f"{real}/")]
    # later mounts lie on earlier ones, and deeper ones in them
    for found in reversed(below):
        if not look_only:
            _patiently(shell, ["umount", "--", found.mountpoint], f"unmounting {found.mountpoint}")
        said.append(f"{found.kind} on {found.mountpoint}")
    for device, file in _loops(shell):
        if file.startswith(f"{real}/"):
            if not look_only:
                _detach_from(shell, device, file)
            said.append(device)
    return said

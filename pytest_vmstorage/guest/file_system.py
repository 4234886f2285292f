"""The file system on the disk under test in the guest, and the file there that workloads run on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.fs_options import mkfs_argv, mount_options
from pytest_vmstorage.errors import GuestError
from pytest_vmstorage.host.file_systems import FileSystem, asked_words, look_at, make_file_system, mount
from pytest_vmstorage.host.shell import Shell, run_line
from pytest_vmstorage.storage.extents import Extent, filled_places

MOUNTPOINT = "/mnt/vmstorage"
"""The mount point: /mnt is a tmpfs in the appliance, whose root is read-only."""

FILE_NAME = "test"
FREE_PERCENT = 5
"""Room left free by the test file: a full file system behaves differently."""

FREE_PERCENT_COW = 60
"""Room left free where each write goes to a new place: btrfs keeps an extent until its last block was rewritten.

Tried: a file of 95 % written sequentially, then at random, ends in ENOSPC; one of 40 % does not.
"""

_WHERE = "in the guest"
_MIB = 2**20

# a guest that has just booted has no entropy yet, and each UUID of mkfs would wait 2 s for it: virtio_rng fills it
# from the host in 0.3 s; without that a reader that blocks makes the kernel collect it in 1.6 s
_ENTROPY = (
    'read -r bits </proc/sys/kernel/random/entropy_avail; [ "$bits" -ge 256 ]'
    " || { modprobe -q virtio_rng; head -c 1 /dev/random >/dev/null; }"
)

# the file gets its size and no block
_TEST_FILE = r"""
set -e
set -- "$@" $(stat -f -c '%a %S' -- "$1")
size=$(($4 * $5 / 100 * $3 / 1048576 * 1048576))
truncate -s "$size" "$2"
echo "$size"
"""

_THERE = 'exec stat -c %s -- "$2"'

_FREEZE = 'export LC_ALL=C; filefrag -v -- "$2" && exec fsfreeze --freeze "$1"'
_FREEZE_S = 60.0


class GuestFs(BaseModel):
    """A file system in a guest: `path` is the test file of `size_bytes`, `found` the file system mounted there.

    It was made by `mkfs` in this guest, or if `is_copied` in another guest of the run and copied on the host.
    """

    model_config = ConfigDict(frozen=True)

    kind: str
    mountpoint: str
    path: str
    size_bytes: int
    mkfs: tuple[str, ...]
    found: FileSystem
    is_copied: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """The mount options in effect."""
        return self.found.options


def make_guest_fs(shell: Shell, disk: str, config: StorageConfig, *, is_copied: bool = False) -> GuestFs:
    """Make and mount the cell's file system on a disk, with a sparse test file that leaves 5 % free (btrfs: 60 %).

    If `is_copied`, file system and test file are on the disk already, and the disk is only mounted.

    The disk is not discarded: its blocks on the host stay as they were. Raises ConfigError with mkfs's or mount's words
    for options they refuse, UnsupportedError where the guest lacks tool or driver, GuestError for a disk too small.
    """
    options = mount_options(config.guest_fs, config.guest_mount, field="guest_mount")
    argv = mkfs_argv(config.guest_fs, config.guest_mkfs, disk, field="guest_mkfs", discard=False)
    if not is_copied:
        make_file_system(shell, argv, asked=asked_words(guest_mkfs=config.guest_mkfs), where=_WHERE, before=_ENTROPY)
    asked = asked_words(guest_mkfs=config.guest_mkfs, guest_mount=config.guest_mount)
    mount(shell, config.guest_fs, disk, MOUNTPOINT, options, asked=asked, where=_WHERE)
    path = f"{MOUNTPOINT}/{FILE_NAME}"
    copies = config.guest_fs == "btrfs" and "nodatacow" not in options
    percent = 100 - (FREE_PERCENT_COW if copies else FREE_PERCENT)
    script = _THERE if is_copied else _TEST_FILE
    done = run_line(shell, script, MOUNTPOINT, path, str(percent), timeout_s=60)
    size = int(done.stdout) if done.ok else 0
    found = look_at(shell, path, is_real=True)
    if size < _MIB or found is None:
        reason = "no room" if done.ok else done.tail(1)
        what = "There is no copied test file" if is_copied else "No test file could be made"
        raise GuestError(f"{what} on the guest's {config.guest_fs}: {reason}.", code="VM507")
    return GuestFs(
        kind=config.guest_fs,
        mountpoint=MOUNTPOINT,
        path=path,
        size_bytes=size,
        mkfs=argv,
        found=found,
        is_copied=is_copied,
    )


@contextlib.contextmanager
def frozen(shell: Shell, made: GuestFs, filled_bytes: int) -> Iterator[tuple[Extent, ...]]:
    """Context in which nothing writes to that file system, and its disk holds all that was written, as after umount.

    Gives the places on the disk of the test file's first `filled_bytes`, () where they cannot be told or nothing can
    stop the writing. Raises GuestError where the file system does not thaw.
    """
    done = run_line(shell, _FREEZE, made.mountpoint, made.path, timeout_s=_FREEZE_S)
    try:
        yield filled_places(done.stdout, filled_bytes) if done.ok else ()
    finally:
        thawed = shell.run(["fsfreeze", "--unfreeze", made.mountpoint], timeout_s=_FREEZE_S)
        if done.ok and not thawed.ok:
            raise GuestError(f"The guest's {made.kind} stays frozen: {thawed.tail(1)}.", code="VM507")

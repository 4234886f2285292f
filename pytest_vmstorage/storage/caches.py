"""A lab host's page cache of a disk: written back, and dropped before a round."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence

from pytest_vmstorage.host.shell import LocalShell, Shell
from pytest_vmstorage.storage.image import image_files, neighbours_for_sh

DROP_CACHES = "/proc/sys/vm/drop_caches"

_BLKFLSBUF = 0x1261
"""The request of ioctl(2) behind blockdev --flushbufs (linux/fs.h); ENOTTY if not a block device."""

# dd with nocache and count=0 is posix_fadvise(POSIX_FADV_DONTNEED) on the whole file (coreutils manual)
_EVICT = 'for one; do dd "if=$one" iflag=nocache count=0 status=none; done'

# one command: over ssh each takes 10 ms
_FORGET = """
drop=$2
set -- "$1"
for one in {beside}; do [ ! -e "$one" ] || set -- "$@" "$one"; done
exec 2>/dev/null
sync -- "$@"
said=
# a device's own pages: drop_caches keeps them while another program holds the device open
[ -b "$1" ] && blockdev --flushbufs "$1" && said=flushed
if echo 3 >"$drop"; then said=dropped; fi
if [ -z "$said" ]; then
    said=advised
    for one; do dd "if=$one" iflag=nocache count=0 status=none || said=; done
fi
echo "$said"
"""
_FORGOTTEN = {
    "dropped": "dropped before each round",
    "flushed": "device flushed before each round",
    "advised": "image evicted by advice before each round",
}


def sync_disk(shell: Shell, path: str) -> None:
    """Make the host write back all files of the image."""
    files = image_files(shell, path)
    if isinstance(shell, LocalShell):
        _sync(files)
    else:
        shell.run(["sync", *files])


def evict(shell: Shell, path: str) -> None:
    """Advise the host to drop its cache of the image, which was written back; no other pages are dropped."""
    files = image_files(shell, path)
    if isinstance(shell, LocalShell):
        for one in files:
            _is_done(one, _advise)
    else:
        shell.run(["sh", "-c", _EVICT, "sh", *files])


def drop_caches(shell: Shell, path: str, drop: str = DROP_CACHES) -> str:
    """Make the host write back and drop its cache of the image, as far as it can without root; returns the way."""
    if isinstance(shell, LocalShell):
        said = _forget(image_files(shell, path), drop)
    else:
        said = shell.run(["sh", "-c", _FORGET.format(beside=neighbours_for_sh(path)), "sh", path, drop]).stdout.strip()
    return _FORGOTTEN.get(said, "not dropped")


def _forget(files: Sequence[str], drop: str) -> str:
    """Do the same as the script, without its programs: their pages would be dropped as well, and read anew."""
    _sync(files)
    said = "flushed" if _is_done(files[0], lambda file: fcntl.ioctl(file, _BLKFLSBUF)) else ""
    if _is_done(drop, lambda file: os.write(file, b"3\n"), os.O_WRONLY):
        return "dropped"
    if said:
        return said
    advised = [_is_done(one, _advise) for one in files]
    return "advised" if all(advised) else ""


def _sync(files: Sequence[str]) -> None:
    for one in files:
        _is_done(one, os.fsync)


def _advise(file: int) -> None:
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def _is_done(path: str, do: Callable[[int], object], mode: int = os.O_RDONLY) -> bool:
    """Whether the file could be opened and `do` called with its descriptor without an error."""
    try:
        file = os.open(path, mode)
    except OSError:
        return False
    try:
        do(file)
    except OSError:
        return False
    finally:
        os.close(file)
    return True

"""What a lab host has cached of a disk: written back, and forgotten before a round."""

from __future__ import annotations

from pathlib import PurePosixPath

from pytest_vmstorage.command import Shell
from pytest_vmstorage.provision.disk import BESIDE, image_files

DROP_CACHES = "/proc/sys/vm/drop_caches"

# one command: over ssh each takes 10 ms
_FORGET = """
drop=$2
set -- "$1"
for one in {beside}; do [ ! -e "$one" ] || set -- "$@" "$one"; done
exec 2>/dev/null
sync -- "$@"
said=
# a device's own pages: other programs may hold it open, and then it alone does not go
[ -b "$1" ] && blockdev --flushbufs "$1" && said=flushed
if echo 3 >"$drop"; then said=dropped; fi
if [ -z "$said" ]; then
    said=advised
    # dd with nocache and count=0 is posix_fadvise(POSIX_FADV_DONTNEED) on the whole file (coreutils manual)
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
    """Make the host write back what it holds of the image, in all its files."""
    shell.run(["sync", *image_files(shell, path)])


def drop_caches(shell: Shell, path: str) -> str:
    """Make the host write back and forget what it cached of the image; says how, as far as it can be without root."""
    script = _FORGET.format(beside=BESIDE.get(PurePosixPath(path).suffix, ""))
    said = shell.run(["sh", "-c", script, "sh", path, DROP_CACHES]).stdout.strip()
    return _FORGOTTEN.get(said, "not dropped")

"""What the host's block device below a disk has moved and flushed, from its /sys/class/block/X/stat."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.command import Shell

_SECTOR_BYTES = 512

# of a file's file system df names the device; a partition's flushes are counted by the disk that it is a part of;
# device mapper and md hand bios on and count no flushes
_PROBE = r"""
source=$1
[ -b "$source" ] || source=$(df --output=source -- "$1" | tail -n 1)
[ -b "$source" ] || exit 3
name=$(readlink -f -- "$source"); path=$(readlink -f "/sys/class/block/${name##*/}")
[ -e "$path/partition" ] && path=${path%/*}
counts=no; read -r cache <"$path/queue/write_cache"
case ${path##*/} in dm-*|md*) ;; *) [ "$cache" = 'write back' ] && counts=yes;; esac
read -r stat <"$path/stat" && echo "${path##*/} $counts $stat"
"""


class DeviceStat(BaseModel):
    """Since the host booted, by whomever: bytes read and written, and flushes that the device completed.

    `flushes` is None where the kernel sends the device none to count: it has no volatile cache, or hands I/O on.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    read_bytes: int
    written_bytes: int
    flushes: int | None

    def as_counters(self) -> Mapping[str, int | None]:
        """The same under the names of IoCounters."""
        return {
            "device_read_bytes": self.read_bytes,
            "device_written_bytes": self.written_bytes,
            "host_flushes": self.flushes,
        }


def device_stat(shell: Shell, path: str) -> DeviceStat | None:
    """The counters of the device that is the path, or that the path's file lies on; None where there is none to see."""
    done = shell.run(["sh", "-c", _PROBE, "sh", path])
    return read_device_stat(done.stdout) if done.ok else None


def read_device_stat(text: str) -> DeviceStat | None:
    """Read the probe's line (Documentation/block/stat.rst: sectors of 512 bytes; flushes are 16th since 5.5)."""
    name, counts, *fields = text.split() or ("", "")
    if len(fields) < 7:
        return None
    numbers = [int(field) for field in fields]
    return DeviceStat(
        name=name,
        read_bytes=numbers[2] * _SECTOR_BYTES,
        written_bytes=numbers[6] * _SECTOR_BYTES,
        flushes=numbers[15] if counts == "yes" and len(numbers) > 15 else None,
    )

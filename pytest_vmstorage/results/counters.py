"""Where a round's bytes went: the tool's, the guest's, QEMU's block layer's and the host's, side by side; pure.

A figure is only as good as the layer that served it. `direct=1` in the guest says nothing about the host's page
cache: a published study measured that cache and took it for the disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.units import format_about

SLACK_BYTES = 4 * 2**20
"""Counters are read around a round, not at its first and last byte: the tool's own files, a late flush."""

SLACK_FRACTION = 0.02

_SECTOR_BYTES = 512


class IoCounters(BaseModel):
    """The bytes that each layer has moved since it began, and the flushes.

    guest: the guest kernel's count for the disk, from the agent or /sys/block/X/stat; layer: QMP query-blockstats of
    the disk, with the numbers of reads, writes and flushes; host: /proc/PID/io of QEMU, its I/O on the host's devices;
    device: /sys/block/X/stat of the host's device below, with all flushes that it completed. None for an unknown count.
    """

    model_config = ConfigDict(frozen=True)

    guest_read_bytes: int | None = None
    guest_written_bytes: int | None = None
    layer_read_bytes: int | None = None
    layer_written_bytes: int | None = None
    layer_reads: int | None = None
    layer_writes: int | None = None
    layer_flushes: int | None = None
    host_read_bytes: int | None = None
    host_written_bytes: int | None = None
    device_read_bytes: int | None = None
    device_written_bytes: int | None = None
    host_flushes: int | None = None

    def since(self, before: IoCounters) -> IoCounters:
        """The difference of two looks; None where either is."""
        pairs = {name: (getattr(before, name), getattr(self, name)) for name in type(self).model_fields}
        return IoCounters(**{name: None if None in pair else pair[1] - pair[0] for name, pair in pairs.items()})


def total(rounds: Iterable[IoCounters]) -> IoCounters:
    """The sum of several rounds; None where one of them is None."""
    looks = [_counts(vars(look)) for look in rounds]
    sums = [None if None in column else sum(column) for column in zip(*looks, strict=True)] or [0] * len(_NAMES)
    # what is summed was checked; a copy takes a third of the time, and a report asks twice for each of its rows
    return _NOTHING_KNOWN.model_copy(update=dict(zip(_NAMES, sums, strict=True)))


_NAMES = tuple(IoCounters.model_fields)
_NOTHING_KNOWN = IoCounters()
_counts = itemgetter(*_NAMES)


def read_guest_stat(text: str) -> Mapping[str, int]:
    """The guest's counters from /sys/block/X/stat (Documentation/block/stat.rst: sectors of 512 bytes)."""
    words = text.split()
    return guest_counters(int(words[2]), int(words[6])) if len(words) >= 7 else {}


def guest_counters(read_sectors: int, written_sectors: int) -> Mapping[str, int]:
    """The guest's counters from those of its disk, in sectors of 512 bytes."""
    return {
        "guest_read_bytes": read_sectors * _SECTOR_BYTES,
        "guest_written_bytes": written_sectors * _SECTOR_BYTES,
    }


def read_block_stats(stats: Mapping[str, int]) -> Mapping[str, int]:
    """The block layer's counters from the `stats` of QMP query-blockstats."""
    return {
        "layer_read_bytes": stats["rd_bytes"],
        "layer_written_bytes": stats["wr_bytes"],
        "layer_reads": stats["rd_operations"],
        "layer_writes": stats["wr_operations"],
        "layer_flushes": stats["flush_operations"],
    }


def read_process_io(text: str) -> Mapping[str, int]:
    """QEMU's counters from /proc/PID/io (proc(5): read_bytes and write_bytes reach the storage layer)."""
    said = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if not {"read_bytes", "write_bytes"} <= said.keys():
        return {}
    return {"host_read_bytes": int(said["read_bytes"]), "host_written_bytes": int(said["write_bytes"])}


def host_cache_share(moved: IoCounters) -> float | None:
    """The fraction of QEMU's reads that came from the host's page cache and no device; None where nothing was read."""
    if not moved.layer_read_bytes or moved.host_read_bytes is None:
        return None
    return max(0.0, 1 - moved.host_read_bytes / moved.layer_read_bytes)


def write_amplification(moved: IoCounters) -> float | None:
    """Bytes the host wrote for each byte the guest wrote; None where nothing was written."""
    if not moved.guest_written_bytes or moved.host_written_bytes is None:
        return None
    return moved.host_written_bytes / moved.guest_written_bytes


def guest_ios(moved: IoCounters) -> int | None:
    """Reads and writes that the guest gave to QEMU; None where QEMU's counters are unknown.

    The guest's own count does not serve: Linux counts a flush without data as a write (tried on 6.1).
    """
    return _sum(moved.layer_reads, moved.layer_writes)


NO_STORAGE = "QEMU's null driver answered, and there was no storage"
"""Which layer served the rounds of a disk on the null driver."""


def served_by(moved: IoCounters) -> str:
    """A clause on the layer that served the round of a disk with storage; empty where the counters are unknown."""
    said = []
    share = host_cache_share(moved)
    if share is not None and moved.layer_read_bytes and moved.layer_read_bytes > SLACK_BYTES:
        where = "the host's page cache" if share >= 0.5 else "the host's device"
        said.append(f"{max(share, 1 - share):.0%} of reads came from {where}")
    amplification = write_amplification(moved)
    if amplification is not None and moved.guest_written_bytes and moved.guest_written_bytes > SLACK_BYTES:
        said.append(f"the host wrote {amplification:.2f} bytes for each byte of the guest")
    return "; ".join(said)


def impossible(moved: IoCounters, tool_bytes: int | None) -> str:
    """A clause why the round's figure is impossible; empty where the counters agree.

    `tool_bytes` are the bytes that the tool reports past the guest's page cache, None where it went through it.
    """
    guest = _sum(moved.guest_read_bytes, moved.guest_written_bytes)
    layer = _sum(moved.layer_read_bytes, moved.layer_written_bytes)
    if tool_bytes is not None and guest is not None and _exceeds(tool_bytes, guest):
        return (
            f"the tool says it moved {format_about(tool_bytes)} past the guest's cache, "
            f"but the guest's disk moved {format_about(guest)}"
        )
    if guest is not None and layer is not None and _exceeds(guest, layer):
        return f"the guest's disk moved {format_about(guest)}, but QEMU's block layer {format_about(layer)}"
    return ""


def _exceeds(claimed: int, moved: int) -> bool:
    return claimed > moved * (1 + SLACK_FRACTION) + SLACK_BYTES


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def unflushed(moved: IoCounters, cache: str) -> str:
    """A clause why a round's writes were less durable than its cache mode promises; empty where they were not.

    Write-through modes promise a flush for each write, none and writeback one for each flush of the guest. Others use
    the device too, so only a count of zero is evidence. `unsafe` promises nothing.
    """
    if cache == "unsafe" or moved.host_flushes is None or moved.host_flushes > 0:
        return ""
    if cache in ("writethrough", "directsync") and (moved.layer_written_bytes or 0) > 0:
        return f"cache={cache} promises to flush what is written, and not one flush reached the host's device"
    if (moved.layer_flushes or 0) > 0 and (moved.layer_written_bytes or 0) > 0:
        return (
            f"the guest asked for {moved.layer_flushes} flushes, which cache={cache} promises to hand on, and not one"
            " reached the host's device"
        )
    return ""


def stored(moved: IoCounters) -> str:
    """A clause why a round cannot have been without storage; empty where the counters agree.

    QEMU's reads do not count: the guest's tools come from the host too.
    """
    written = moved.host_written_bytes or 0
    if written <= SLACK_BYTES + SLACK_FRACTION * (moved.layer_written_bytes or 0):
        return ""
    return f"the disk is QEMU's null driver, which stores nothing, and QEMU wrote {format_about(written)} on the host"


NATIVE_MARGIN = 0.25
"""How far above the best native round a cell's rate may lie: rounds and boots vary by a fifth on an idle host."""


def above_native(rate: float, native: float, moved: IoCounters, cache: str) -> str:
    """A clause why a rate cannot be the device's: it lies above the native row's, and no cache explains it.

    `rate` is the cell's and `native` the best round of the same workload on the same device without a guest, both in
    one unit. Bytes that the host's page cache took or gave count as explained.
    """
    asked = _sum(moved.layer_read_bytes, moved.layer_written_bytes)
    written = moved.host_written_bytes
    if cache in ("writeback", "unsafe") and written is not None:
        # the kernel counts a process's write when it makes a page dirty, and not when the page is written (tried:
        # 64 MiB without fsync are 64 MiB at once in /proc/PID/io, and 0 in the device's own count until the fsync)
        written = min(written, moved.device_written_bytes or 0)
    reached = _sum(moved.host_read_bytes, written)
    if not asked or reached is None:
        return ""
    from_device = min(1.0, reached / asked)
    if rate * from_device <= native * (1 + NATIVE_MARGIN):
        return ""
    return (
        f"it is {rate / native:.2f} times the native row of the same device, and {from_device:.0%} of its bytes reached"
        f" that device, so that no cache explains more than {1 - from_device:.0%} of it"
    )

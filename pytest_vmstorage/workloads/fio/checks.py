"""Errors in the options of a fio job, before fio runs: options that exclude one another, or measure nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.units import format_size, parse_size
from pytest_vmstorage.workloads.fio import output

if TYPE_CHECKING:
    from pytest_vmstorage.workloads.fio.fio import Fio


_ONE_AT_A_TIME = ("sync", "psync", "vsync", "pvsync", "pvsync2")
_SECTOR = 512
_LEAST_SECONDS = 0.001
_LEAST_WINDOW = 2
_PERCENTILE = re.compile(r"\d{1,2}(\.\d{1,4})?")
_STEADY = re.compile(r"(iops|bw)(_slope)?:\d+(\.\d+)?%?")
_DISTRIBUTIONS = {"zipf": (0.0, float("inf")), "pareto": (0.0, 1.0), "normal": (0.0, 100.0)}

Slip = tuple[str, str]
"""An error, and its remedy."""


def slips(fio: Fio) -> Iterator[Slip]:
    """The errors in a job, each as it is found."""
    for check in (
        *(_size_slips, _split_slips, _time_slips, _depth_slips, _direction_slips),
        *(_pace_slips, _order_slips, _verify_slips, _steady_slips),
    ):
        yield from check(fio)
    yield from percentile_slips(fio.percentile_list)


def _size_slips(fio: Fio) -> Iterator[Slip]:
    if not fio.bs or fio.bs > fio.size:
        yield (
            f"bs={format_size(fio.bs)} does not fit into size={format_size(fio.size)}",
            "A job needs at least one block of at least one byte.",
        )
    if fio.direct and (fio.bs % _SECTOR or (fio.offset_increment or 0) % _SECTOR):
        yield (
            "direct I/O goes in whole sectors",
            "Give bs and offset_increment as multiples of 512 bytes, or direct=False.",
        )
    if fio.numjobs > 1 and not fio.is_random and fio.offset_increment is None:
        yield (
            f"{fio.numjobs} sequential jobs would share the same blocks",
            f'Give each its own with offset_increment="{format_size(fio.size)}", or say offset_increment=0.',
        )


def _split_slips(fio: Fio) -> Iterator[Slip]:
    if fio.bssplit is None:
        return
    if "bs" in fio.model_fields_set:
        yield f"bssplit={fio.bssplit!r} leaves no use for bs", "Give one of them."
    parts = fio.bssplit.split(",")
    if len(parts) > (2 if fio.is_mixed else 1):
        yield (
            f"bssplit={fio.bssplit!r} is for {len(parts)} directions",
            "Give one list of sizes, or in a mixed job two: reads, then writes.",
        )
    for part in parts:
        sizes = _split(part)
        if not sizes or round(sum(sizes.values()), 6) != 100:
            # fio accepts shares of 110 % silently, and never comes to the last one
            yield f"bssplit={fio.bssplit!r} does not add up to 100 %", 'Write for example "4k/60:64k/40".'
        elif any(not size or size > fio.size or (fio.direct and size % _SECTOR) for size in sizes):
            yield f"bssplit={fio.bssplit!r} has a size that cannot be used", "Give whole sectors, no more than size."


def _split(text: str) -> dict[int, float]:
    """Block sizes and their shares in percent; empty where it cannot be read."""
    try:
        pairs = [piece.split("/") for piece in text.split(":")]
        return {parse_size(size): float(share) for size, share in pairs}
    except (ValueError, ConfigError):
        return {}


def _time_slips(fio: Fio) -> Iterator[Slip]:
    if fio.runtime is not None and fio.runtime < _LEAST_SECONDS:
        yield f"runtime={fio.runtime:g} is too short", "Give at least a millisecond; some seconds measure better."
    if fio.time_based and fio.runtime is None:
        yield "time_based without runtime has no end", "Give runtime=10, or leave time_based out."
    if fio.io_size is not None and (fio.time_based or fio.io_size < fio.bs):
        yield (
            f"io_size={format_size(fio.io_size)} with time_based, or below a block, does not end the job",
            "Give one of io_size and time_based, and a block at least.",
        )


def _depth_slips(fio: Fio) -> Iterator[Slip]:
    if fio.iodepth == 1:
        return
    if fio.ioengine in _ONE_AT_A_TIME:
        yield (
            f"ioengine={fio.ioengine!r} has one I/O in flight whatever iodepth={fio.iodepth} says",
            'Use ioengine="libaio" or "io_uring", or numjobs for more at a time.',
        )
    if fio.ioengine == "libaio" and not fio.direct:
        # fio's own count would say that the depth was reached: it counts I/Os handed to the kernel
        yield (
            f"libaio without direct has one I/O in flight whatever iodepth={fio.iodepth} says",
            'Leave direct=True, or use ioengine="io_uring".',
        )


def _direction_slips(fio: Fio) -> Iterator[Slip]:
    if fio.rwmixread is not None and not fio.is_mixed:
        yield "rwmixread needs a mixed job", 'Use rw="rw" or rw="randrw", or leave rwmixread out.'
    if (fio.fsync or fio.fdatasync or fio.end_fsync or fio.sync) and not fio.writes:
        yield "a job that only reads has nothing to sync", "Leave fsync, fdatasync, end_fsync and sync out."
    if fio.pre_read and (fio.direct or not fio.reads):
        yield "pre_read fills the page cache, which direct jobs bypass and writes do not need", "Leave it out."
    if fio.fsync and fio.fdatasync:
        yield "fsync and fdatasync would be timed as one", "Give one of them."


def _pace_slips(fio: Fio) -> Iterator[Slip]:
    if fio.rate is not None and fio.rate_iops is not None:
        yield "rate and rate_iops are two limits", "Give one of them."
    if fio.rate is not None and not fio.rate:
        yield "rate=0 is no limit", "Leave rate out, or give bytes a second."
    if fio.thinktime_blocks is not None and fio.thinktime is None:
        yield "thinktime_blocks without thinktime does nothing", "Give thinktime, in microseconds."


def _order_slips(fio: Fio) -> Iterator[Slip]:
    if fio.random_distribution is None:
        return
    if not fio.is_random:
        yield "random_distribution needs a random job", 'Use rw="randread", "randwrite" or "randrw".'
    name, _, text = fio.random_distribution.partition(":")
    low, high = _DISTRIBUTIONS.get(name, (0.0, 0.0))
    try:
        is_known = low < float(text) < high and (name, float(text)) != ("zipf", 1.0)
    except ValueError:
        is_known = False
    if not is_known:
        yield (
            f"random_distribution={fio.random_distribution!r} is not known here",
            'Write "zipf:1.2" (any theta but 1), "pareto:0.2" (between 0 and 1) or "normal:30" (percent).',
        )


def _verify_slips(fio: Fio) -> Iterator[Slip]:
    if fio.verify is None:
        if fio.verify_fatal or fio.verify_backlog:
            yield "verify_fatal and verify_backlog need verify", 'Give verify="crc32c".'
        return
    if fio.directions != ("write",):
        yield (
            "verify checks what the job itself wrote, and a job that reads would be timed with it",
            'Use rw="write" or rw="randwrite".',
        )
    if fio.time_based:
        yield "verify with time_based never checks its last pass", "Leave time_based and runtime out."
    if not fio.jobs_are_apart:
        yield (
            f"{fio.numjobs} jobs on the same blocks would read each other's data",
            f'Give each its own with offset_increment="{format_size(fio.size)}".',
        )
    if fio.iodepth > 1 and (fio.norandommap or fio.random_distribution):
        yield (
            "verify with several writes of one block in flight reports corruption where there is none",
            "Leave norandommap and random_distribution out, or use iodepth=1.",
        )


def _steady_slips(fio: Fio) -> Iterator[Slip]:
    if fio.steadystate is None:
        if fio.ss_dur is not None or fio.ss_ramp is not None:
            yield "ss_dur and ss_ramp need steadystate", 'Give steadystate="iops_slope:10%".'
        return
    if not _STEADY.fullmatch(fio.steadystate):
        yield (
            f"steadystate={fio.steadystate!r} is not known here",
            'Write "iops:20%", "bw:20%", "iops_slope:10%" or "bw_slope:10%".',
        )
    if fio.ss_dur is None or fio.ss_dur < _LEAST_WINDOW or fio.ss_dur != int(fio.ss_dur):
        yield "steadystate needs a window of whole seconds, two or more", "Give ss_dur=10."
    elif not fio.time_based or (fio.runtime or 0.0) <= fio.ss_dur + (fio.ss_ramp or 0.0):
        yield (
            "steadystate ends with size, or with a runtime that its window does not fit into",
            f"Give time_based=True and a runtime above {fio.ss_dur + (fio.ss_ramp or 0.0):g} seconds.",
        )


def percentile_slips(text: str) -> Iterator[Slip]:
    """The errors in fio's percentile_list."""
    parts = text.split(":")
    if not all(_PERCENTILE.fullmatch(part) and float(part) for part in parts):
        yield f"percentile_list={text!r} is not a list of percentiles", 'Write for example "50:95:99:99.9".'
    elif len({output.percentile_name(part) for part in parts}) < len(parts):
        yield f"percentile_list={text!r} has two percentiles of one name", "Leave one of them out."

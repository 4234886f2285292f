"""What is wrong with a fio job before fio is asked: options that exclude one another, or measure nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_vmstorage.units import format_size
from pytest_vmstorage.workloads import fio_json

if TYPE_CHECKING:
    from pytest_vmstorage.workloads.fio import Fio

_ONE_AT_A_TIME = ("sync", "psync", "vsync", "pvsync", "pvsync2")
_SECTOR = 512
_LEAST_SECONDS = 0.001
_PERCENTILE = re.compile(r"\d{1,2}(\.\d{1,4})?")


def slips(fio: Fio) -> Iterator[tuple[str, str]]:
    """What is wrong with a job and what to do, each as it is found."""
    yield from _size_slips(fio)
    yield from _time_slips(fio)
    yield from _depth_slips(fio)
    yield from _direction_slips(fio)
    yield from _percentile_slips(fio.percentile_list)


def _size_slips(fio: Fio) -> Iterator[tuple[str, str]]:
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
            f"{fio.numjobs} sequential jobs would go through the same blocks together",
            f'Give each its own with offset_increment="{format_size(fio.size)}", or say offset_increment=0.',
        )


def _time_slips(fio: Fio) -> Iterator[tuple[str, str]]:
    if fio.runtime is not None and fio.runtime < _LEAST_SECONDS:
        yield f"runtime={fio.runtime:g} is too short", "Give at least a millisecond; some seconds measure better."
    if fio.time_based and fio.runtime is None:
        yield "time_based without runtime has no end", "Give runtime=10, or leave time_based out."


def _depth_slips(fio: Fio) -> Iterator[tuple[str, str]]:
    if fio.iodepth == 1:
        return
    if fio.ioengine in _ONE_AT_A_TIME:
        yield (
            f"ioengine={fio.ioengine!r} has one I/O in flight whatever iodepth={fio.iodepth} says",
            'Use ioengine="libaio" or "io_uring", or numjobs for more at a time.',
        )
    if fio.ioengine == "libaio" and not fio.direct:
        yield (
            f"libaio without direct has one I/O in flight whatever iodepth={fio.iodepth} says",
            'Leave direct=True, or use ioengine="io_uring".',
        )


def _direction_slips(fio: Fio) -> Iterator[tuple[str, str]]:
    if fio.rwmixread is not None and not fio.is_mixed:
        yield "rwmixread needs a mixed job", 'Use rw="rw" or rw="randrw", or leave rwmixread out.'
    if (fio.fsync or fio.fdatasync) and "write" not in fio.directions:
        yield "a job that only reads has nothing to sync", "Leave fsync and fdatasync out."
    if fio.fsync and fio.fdatasync:
        yield "fsync and fdatasync would be timed as one", "Give one of them."


def _percentile_slips(text: str) -> Iterator[tuple[str, str]]:
    parts = text.split(":")
    if not all(_PERCENTILE.fullmatch(part) and float(part) for part in parts):
        yield f"percentile_list={text!r} is no list of percentiles", 'Write for example "50:95:99:99.9".'
    elif len({fio_json.percentile_name(part) for part in parts}) < len(parts):
        yield f"percentile_list={text!r} has two percentiles of one name", "Leave one of them out."

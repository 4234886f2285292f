"""Writes a disk before it is measured: with fio, in order or in a random one, data that no layer can shrink."""

from __future__ import annotations

from pytest_vmstorage.command import check_time
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.errors import WorkloadError
from pytest_vmstorage.parked_fio import run_fio
from pytest_vmstorage.subject import Plan, Subject

FILL_ARGV = (
    "fio --name=fill --filename={path} --allow_file_create=0 --rw=write --bs={bs} --size={size} --offset={offset}"
    " --direct=1 --ioengine=libaio --iodepth=8 --refill_buffers --end_fsync=1 --output-format=terse --output=/dev/null"
    " --thread --clocksource=gettimeofday"
)
"""How blocks are written before a `filled` measurement: sequentially, with data that no layer can shrink.

Nobody reads its times: without a process and a calibrated clock of its own it begins sooner.
"""

FILL_BYTES = 2**20
"""Size of a block of the fill; what is less at the disk's end is written in smaller ones."""

AGE_SEED = 20260301
"""Seed of the order in which an `aged` disk is written: the same pieces in every run."""

AGE_ARGV = (
    "fio --name=age --filename={path} --allow_file_create=0 --rw=randwrite --bs=64k --size={size} --offset={offset}"
    " --direct=1 --ioengine=psync --random_generator=lfsr --randseed={seed} --refill_buffers --end_fsync=1"
    " --output-format=terse --output=/dev/null"
)
"""Every piece once, in a random order: one in flight, so that the order is that of the seed."""

_LEAST_REQUEST_BYTES = 2**16
"""Guests' kernels cut larger blocks into requests, on no bus into smaller ones (120 KiB on usb, 128 KiB on sata)."""


def end_of_fill(region_bytes: int, size_bytes: int) -> int:
    """Up to which byte a disk of that size is filled for such a region: in whole blocks, for fio writes no others."""
    return min(-(-region_bytes // FILL_BYTES) * FILL_BYTES, size_bytes)


def write_disk(subject: Subject, argv: str, begin: int, end: int, plan: Plan) -> None:
    """Write the disk from that byte to that one by FILL_ARGV or AGE_ARGV; raises WorkloadError, LateError."""
    # a disk that ends within a block is filled in blocks of the largest power of two that its size is a multiple of
    rest = (end - begin) % FILL_BYTES
    bs = rest & -rest if rest else FILL_BYTES
    line = argv.format(path="{path}", size=end - begin, offset=begin, seed=AGE_SEED, bs=bs)
    # the path comes last: it may hold a blank
    words = [subject.disk.join(word.split("{path}")) for word in line.split()]
    limited_s = _limited_s(subject.config, end - begin, min(bs, _LEAST_REQUEST_BYTES))
    timeout_s = plan.timeout_s + end / 2**20 + limited_s
    result = run_fio(subject.shell, words, is_parked=subject.has_parked_fio, timeout_s=timeout_s)
    filling = f"Filling {subject.disk} before the measurement"
    check_time(result, filling)
    if not result.ok:
        raise WorkloadError(f"{filling} failed: exit status {result.returncode}.", output=result.tail(15))


def _limited_s(config: StorageConfig, size_bytes: int, request_bytes: int) -> float:
    """How long the cell's limits let a disk take for that many bytes, in requests no smaller than that."""
    bytes_s = size_bytes / config.total_bytes_sec if config.total_bytes_sec else 0.0
    iops_s = size_bytes / request_bytes / config.total_iops_sec if config.total_iops_sec else 0.0
    return bytes_s + iops_s

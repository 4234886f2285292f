"""Latency histograms in fio's raw output, merged over rounds, and their percentiles; pure.

Percentiles of rounds cannot be averaged: the 99th of two rounds together is no mean of both. fio's json+ has a count
for each of its bins, and counts add up.

Source: fio's stat.c, `calc_clat_percentiles`: a percentile is the middle of the first bin with which the count reaches
that part of all I/Os. Bins are at most 1/64 of their value wide (FIO_IO_U_PLAT_BITS, stat.h).
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import accumulate
from typing import Any, NamedTuple

_DOCUMENT = re.compile(r"^\{", re.MULTILINE)
_WAYS = ("read", "write")
_COMPLETION = "clat_ns"


class Histogram(NamedTuple):
    """The number of I/Os by latency: middles of bins in ns, ascending, and for each the count of it and all below."""

    middles_ns: tuple[int, ...]
    reached: tuple[int, ...]

    @property
    def ios(self) -> int:
        """The number of I/Os."""
        return self.reached[-1] if self.reached else 0

    def percentile_s(self, percent: float) -> float:
        """The latency in seconds that so many per cent of the I/Os do not exceed; ValueError where there were none.

        0 is that of the fastest, 100 that of the slowest bin.
        """
        if not self.ios:
            raise ValueError("a histogram without I/O has no percentile")
        # as fio does it: the percentage is a double, the product is not rounded
        wanted = max(Fraction(1), Fraction(percent) * self.ios / 100)
        return self.middles_ns[min(bisect_left(self.reached, wanted), len(self.reached) - 1)] / 1e9

    def counts(self) -> Mapping[int, int]:
        """The count of each bin, by its middle in ns."""
        steps = (now - before for before, now in zip((0, *self.reached), self.reached, strict=False))
        return dict(zip(self.middles_ns, steps, strict=True))


def histogram_of(counts: Mapping[int, int]) -> Histogram:
    """The histogram with these counts by latency in ns; empty bins are left out."""
    middles = tuple(sorted(middle for middle, count in counts.items() if count > 0))
    return Histogram(middles, tuple(accumulate(counts[middle] for middle in middles)))


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """All of their I/Os in one histogram."""
    total: dict[int, int] = {}
    for one in histograms:
        for middle, count in one.counts().items():
            total[middle] = total.get(middle, 0) + count
    return histogram_of(total)


class IoKind(NamedTuple):
    """What a histogram is of: the job's name where the output has several, and "read", "write" or "fsync"."""

    job: str
    way: str

    def __str__(self) -> str:
        return f"{self.job} {self.way}".strip()


def completion_histograms(raw: str) -> Mapping[IoKind, Histogram]:
    """The completion latencies in a raw output of fio, from submission to completion; {} where it has none.

    Output of another tool, or of a fio without json+, has none; a direction without I/O is left out.
    """
    jobs = _jobs(raw)
    names = [str(job.get("jobname", "")) if len(jobs) > 1 else "" for job in jobs]
    found: dict[IoKind, list[Histogram]] = {}
    for name, job in zip(names, jobs, strict=True):
        for way, bins in _bins(job):
            found.setdefault(IoKind(name, way), []).append(bins)
    return {kind: merged(ones) if len(ones) > 1 else ones[0] for kind, ones in found.items()}


def _jobs(raw: str) -> list[Mapping[str, Any]]:
    begin = _DOCUMENT.search(raw)
    if begin is None:
        return []
    try:
        document, _ = json.JSONDecoder().raw_decode(raw, begin.start())
    except (ValueError, RecursionError):
        return []
    jobs = document.get("jobs")
    return [job for job in jobs if isinstance(job, dict)] if isinstance(jobs, list) else []


def _bins(job: Mapping[str, Any]) -> Iterator[tuple[str, Histogram]]:
    places = [*((way, (way, _COMPLETION)) for way in _WAYS), ("fsync", ("sync", "lat_ns"))]
    for way, keys in places:
        value: Any = job
        for key in (*keys, "bins"):
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, dict) and (found := histogram_of(_read(value))).ios:
            yield way, found


def _read(bins: Mapping[str, Any]) -> dict[int, int]:
    """The counts; a saved file can hold anything, and what is no count is none."""
    return {
        int(key): count
        for key, count in bins.items()
        if key.isascii() and key.isdigit() and len(key) < 20 and isinstance(count, int) and not isinstance(count, bool)
    }

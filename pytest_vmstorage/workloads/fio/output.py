"""fio's output: its jobs and the figures of each, in IOPS, MiB/s, seconds and percent, and why it failed; pure."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from pytest_vmstorage.errors import WorkloadError
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.workloads.base import MIB, Target, Workload, metrics_in

_DOCUMENT = re.compile(r"^\{", re.MULTILINE)
_VERSION = re.compile(r"fio-(\d+)\.(\d+)")
_LEAST_VERSION = (3, 2)
"""Older ones have microseconds where these have nanoseconds, and no `bw_bytes` (fio's git history)."""

_CORRUPT = re.compile(r"^.*\bat file .+ offset \d+.*$", re.MULTILINE)
_EILSEQ = 84
"""The errno that fio gives a job that did not read what it had written (3.28, 3.33 and 3.42, tried)."""

Job = Mapping[str, Any]
"""One entry of `jobs`: a job, or a group of jobs under group_reporting."""


def percentile_name(text: str) -> str:
    """A percentile as part of a metric's name: "99" -> "p99", "99.9" and "99.90" -> "p999"."""
    whole, _, fraction = text.partition(".")
    return f"p{int(whole)}{fraction.rstrip('0')}"


def entries(text: str, count: int) -> tuple[Sequence[Job], str]:
    """The `count` entries of `jobs`, and the text that fio printed before its JSON.

    A job that failed has only an errno; which call failed, and for which file, is in that text. Raises WorkloadError
    for a failed job, another number of entries, or a fio that is too old.
    """
    begin = _DOCUMENT.search(text)
    if begin is None:
        raise WorkloadError("fio left no JSON.", output=text, code="VM702")
    try:
        document, _ = json.JSONDecoder().raw_decode(text, begin.start())
    except ValueError as error:
        raise WorkloadError(f"fio's JSON cannot be read: {error}.", output=text, code="VM702") from None
    version = _VERSION.match(fio := str(document.get("fio version")))
    if version and (int(version[1]), int(version[2])) < _LEAST_VERSION:
        hint = "Use fio 3.2 or a later one in this guest."
        raise WorkloadError(f"{fio} is too old: its figures have other units.", hint=hint, code="VM705")
    jobs = document.get("jobs")
    found = len(jobs) if isinstance(jobs, list) else 0
    if found != count:
        expected = "one group" if count == 1 else f"{count} groups"
        raise WorkloadError(f"fio reported {found} jobs instead of {expected}.", output=text, code="VM710")
    said = text[: begin.start()].strip()
    for job in jobs:
        # with continue_on_error a job has no error, but names its first one
        code = int(number(job, "error")) or int(job.get("first_error", 0))
        if code == _EILSEQ:
            raise WorkloadError("fio found data that it had not written: corruption.", output=said, code="VM706")
        if code:
            raise WorkloadError(f"fio ended with error {code} ({os.strerror(code)}).", output=said, code="VM707")
    return jobs, said


def moved_bytes(text: str, count: int = 1) -> int:
    """Bytes read and written by all jobs, from the raw output; fio counts none of its ramp time."""
    jobs, _ = entries(text, count)
    return sum(int(number(job, way, "io_bytes")) for job in jobs for way in ("read", "write"))


def number(job: Job, path: str, *keys: str) -> float:
    """The finite number at that place: a dotted path, then keys that may hold dots themselves."""
    steps = (*path.split("."), *keys)
    value: Any = job
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else None
    where = "/".join(steps)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WorkloadError(f"fio's output has no figure at {where}.", code="VM702")
    if not math.isfinite(value):
        raise WorkloadError(f"fio's output has {value} at {where}.", code="VM702")
    return float(value)


ASYNC_ENGINES = ("libaio", "io_uring", "posixaio")
"""Engines that submit and complete separately: only these have a submission latency (fio 3.33, each engine tried)."""

REPORT = ("slat_percentiles=1", "clat_percentiles=1", "lat_percentiles=1")
"""fio's options for percentiles of all latencies; by default it has those of completion alone."""

_NS = 1e-9
_MS = 1e-3
_DEEPEST = 64
_REACHED = 0.9
_NO_IO_HINT = "If it ran at all, give it a larger size, a longer runtime or a shorter ramp_time."
_UNVERIFIED_HINT = "fio verifies after it has written all of size; a runtime that ends before leaves no time for it."


class FioWorkload(Workload):
    """A workload that fio runs: its result is a file, and corrupt data is its failure."""

    tool: ClassVar[str] = "fio"

    def output_file(self, target: Target) -> str:
        """A file, because fio prints warnings where it prints results."""
        return f"{target.scratch}/vmstorage-fio.json"

    def failure(self, output: str) -> str:
        """The first block with corrupt data, in fio's words with file and offset; "" where it names none."""
        found = _CORRUPT.search(output)
        return f"found corrupt data: {found[0].strip()}" if found else ""


class Reading(NamedTuple):
    """The figures of an entry: its job's directions, percentiles, and options that add figures or conditions.

    One direction has no prefix. With two, rates are also added up; latencies are not, since a mean of reads and writes
    describes neither. `iodepth` is the requested depth. Without `has_latencies` fio times no I/O. A job that
    `ends_by_size` takes as long as its I/O does; the time of any other is given, and ranks nothing.
    """

    directions: tuple[str, ...]
    percentiles: tuple[str, ...]
    has_slat: bool = True
    syncs: bool = False
    iodepth: int = 1
    steadystate: bool = False
    verifies: bool = False
    has_latencies: bool = True
    ends_by_size: bool = False

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefix of each direction's figures."""
        return tuple(f"{way}_" for way in self.directions) if len(self.directions) > 1 else ("",)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Rates, latencies, CPU and depth, in the order in which they are worth reading."""
        rates = tuple(dict.fromkeys(("", *self.prefixes)))
        steady = [
            *metrics_in("%", "higher", "steadystate_attained"),
            *metrics_in("IOPS", "higher", "steadystate_iops"),
            *metrics_in("MiB/s", "higher", "steadystate_bw"),
        ]
        return (
            *metrics_in("IOPS", "higher", *(f"{prefix}iops" for prefix in rates)),
            *metrics_in("MiB/s", "higher", *(f"{prefix}bw" for prefix in rates)),
            *metrics_in("s", "lower", *self.times),
            *metrics_in("s", "lower" if self.ends_by_size else "neither", "runtime"),
            *metrics_in("%", "lower", "usr_cpu", "sys_cpu"),
            *metrics_in("switches", "lower", "ctx"),
            *metrics_in("in flight", "higher", "iodepth_reached"),
            *(steady if self.steadystate else ()),
        )

    @property
    def times(self) -> tuple[str, ...]:
        """Names of all latencies."""
        kinds = [f"{kind}_{part}" for kind in self._latencies for part in self._parts]
        syncs = [f"fsync_{part}" for part in self._parts] if self.syncs else []
        return (*(f"{prefix}{kind}" for prefix in self.prefixes for kind in kinds), *syncs)

    @property
    def _latencies(self) -> tuple[str, ...]:
        return ("lat", "clat", *(["slat"] if self.has_slat else [])) if self.has_latencies else ()

    @property
    def _parts(self) -> tuple[str, ...]:
        return ("mean", *(percentile_name(text) for text in self.percentiles))

    def figures(self, job: Job, said: str = "") -> Mapping[str, float]:
        """Figures by metric name: seconds from fio's nanoseconds, MiB/s from `bw_bytes` (its `bw` is KiB/s).

        Raises WorkloadError for no I/O, nothing verified, or a field that is missing or not finite. Source: the output
        of fio 3.28, 3.33 and 3.42, and the HOWTO, "JSON output".
        """
        found: dict[str, float] = {}
        for direction, prefix in zip(self.directions, self.prefixes, strict=True):
            if not number(job, f"{direction}.total_ios"):
                raise WorkloadError(
                    f"fio did no {direction} in the time measured.", hint=_NO_IO_HINT, output=said, code="VM708"
                )
            found |= {f"{prefix}{name}": value for name, value in self._direction(job, direction)}
        if len(self.directions) > 1:
            found |= {rate: sum(found[f"{way}_{rate}"] for way in self.directions) for rate in ("iops", "bw")}
        if self.syncs:
            found |= dict(self._latency(job, "sync.lat_ns", "fsync"))
        if self.verifies and not number(job, "read.total_ios"):
            raise WorkloadError(
                "fio verified nothing of what it wrote.", hint=_UNVERIFIED_HINT, output=said, code="VM709"
            )
        return found | dict(self._other_figures(job))

    def _direction(self, job: Job, direction: str) -> Iterator[tuple[str, float]]:
        yield "iops", number(job, f"{direction}.iops")
        yield "bw", number(job, f"{direction}.bw_bytes") / MIB
        for kind in self._latencies:
            yield from self._latency(job, f"{direction}.{kind}_ns", kind)

    def _latency(self, job: Job, where: str, name: str) -> Iterator[tuple[str, float]]:
        yield f"{name}_mean", number(job, f"{where}.mean") * _NS
        for text in self.percentiles:
            value = number(job, f"{where}.percentile", f"{float(text):.6f}")
            yield f"{name}_{percentile_name(text)}", value * _NS

    def _other_figures(self, job: Job) -> Iterator[tuple[str, float]]:
        # job_runtime would be the sum over the jobs of a group
        yield "runtime", max(number(job, f"{way}.runtime") for way in self.directions) * _MS
        for name in ("usr_cpu", "sys_cpu", "ctx"):
            yield name, number(job, name)
        yield "iodepth_reached", depth_reached(job)
        if self.steadystate:
            yield "steadystate_attained", 100.0 * number(job, "steadystate.attained")
            yield "steadystate_iops", number(job, "steadystate.data.iops_mean")
            yield "steadystate_bw", number(job, "steadystate.data.bw_mean") / MIB

    def remarks(self, job: Job) -> Iterator[str]:
        """The goals of the job that it did not reach: its queue depth, its steady state."""
        reached = depth_reached(job)
        # the lower edge of the bucket with the requested depth, as fio tells no more
        edge = 2 ** (min(self.iodepth, _DEEPEST).bit_length() - 1)
        if reached < _REACHED * edge:
            yield f"iodepth={self.iodepth} was not reached: {reached:.1f} in flight on average"
        if self.steadystate and not number(job, "steadystate.attained"):
            steady = job["steadystate"]
            yield f"steady state was not attained: {steady.get('ss')} asked, {steady.get('criterion')} found"


def depth_reached(job: Job) -> float:
    """How many I/Os at least were in flight when each was submitted, on average: the mean of the buckets' edges.

    fio counts submissions by depth in buckets 1, 2-3, 4-7 ... 32-63, 64 and more, and names each by its lower edge
    (HOWTO, "IO depths"; io_u_mark_depth in its io_u.c): depth 6 is seen as 4, 128 as 64. It raises shares below 0.1 %
    to 0.1 (stat_calc_dist), hence the division by their sum.
    """
    edges: list[int] = [2**power for power in range(_DEEPEST.bit_length())]
    shares = [number(job, "iodepth_level", f">={edge}" if edge == _DEEPEST else str(edge)) for edge in edges]
    if not sum(shares):
        raise WorkloadError("fio reported I/O at no queue depth.", hint=_NO_IO_HINT, code="VM708")
    weighted: float = sum(edge * share for edge, share in zip(edges, shares, strict=True))
    return weighted / sum(shares)

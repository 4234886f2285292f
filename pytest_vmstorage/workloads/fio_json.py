"""Reading fio's JSON: figures in IOPS, MiB/s, seconds and percent. Pure."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_vmstorage.errors import WorkloadError

_MIB = 2**20
_NS = 1e-9
_NO_IO_HINT = "If it ran at all, give it a larger size, a longer runtime or a shorter ramp_time."
_DOCUMENT = re.compile(r"^\{", re.MULTILINE)


def percentile_name(text: str) -> str:
    """A percentile as part of a metric's name: "99" -> "p99", "99.9" and "99.90" -> "p999"."""
    whole, _, fraction = text.partition(".")
    return f"p{int(whole)}{fraction.rstrip('0')}"


def figures(text: str, *, directions: Sequence[str], percentiles: Sequence[str], syncs: bool) -> Mapping[str, float]:
    """Figures of the one group of jobs in fio's output (json or json+), by metric name.

    Times are seconds (fio's nanoseconds), `bw` is MiB/s (fio's `bw_bytes`; its `bw` is KiB/s). One direction
    has no prefix; of two, rates are also added up, latencies never. Raises WorkloadError for a failed job, no
    I/O, or a field that is missing or not finite. Source: fio 3.33's output and its HOWTO, "JSON output".
    """
    job, said = _job(text)
    found: dict[str, float] = {}
    for direction in directions:
        prefix = f"{direction}_" if len(directions) > 1 else ""
        if not _number(job, f"{direction}.total_ios"):
            raise WorkloadError(f"fio did no {direction} in the time measured.", hint=_NO_IO_HINT, output=said)
        found |= {f"{prefix}{name}": value for name, value in _direction(job, direction, percentiles)}
    if len(directions) > 1:
        found |= {rate: sum(found[f"{direction}_{rate}"] for direction in directions) for rate in ("iops", "bw")}
    if syncs:
        found |= dict(_percentiles(job, "sync.lat_ns", "fsync", percentiles))
    return found | {name: _number(job, name) for name in ("usr_cpu", "sys_cpu")}


def moved_bytes(text: str) -> int:
    """Bytes read and written by all jobs, from the raw output; fio counts none of its ramp time."""
    job, _ = _job(text)
    return sum(int(_number(job, way, "io_bytes")) for way in ("read", "write"))


def _direction(job: Mapping[str, Any], direction: str, percentiles: Sequence[str]) -> Iterator[tuple[str, float]]:
    yield "iops", _number(job, f"{direction}.iops")
    yield "bw", _number(job, f"{direction}.bw_bytes") / _MIB
    yield "lat_mean", _number(job, f"{direction}.lat_ns.mean") * _NS
    yield from _percentiles(job, f"{direction}.clat_ns", "clat", percentiles)


def _percentiles(
    job: Mapping[str, Any], where: str, name: str, percentiles: Sequence[str]
) -> Iterator[tuple[str, float]]:
    for text in percentiles:
        value = _number(job, f"{where}.percentile", f"{float(text):.6f}")
        yield f"{name}_{percentile_name(text)}", value * _NS


def _number(job: Mapping[str, Any], path: str, *keys: str) -> float:
    """The finite number at that place: a dotted path, then keys that may hold dots themselves."""
    steps = (*path.split("."), *keys)
    value: Any = job
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else None
    where = "/".join(steps)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WorkloadError(f"fio's output has no figure at {where}.")
    if not math.isfinite(value):
        raise WorkloadError(f"fio's output has {value} at {where}.")
    return float(value)


def _job(text: str) -> tuple[Mapping[str, Any], str]:
    """The only entry of `jobs`, the whole group under --group_reporting, and what fio said before the JSON.

    A job that failed has only an errno; which call failed, and for which file, is in what fio said.
    """
    begin = _DOCUMENT.search(text)
    if begin is None:
        raise WorkloadError("fio left no JSON.", output=text)
    try:
        document, _ = json.JSONDecoder().raw_decode(text, begin.start())
    except ValueError as error:
        raise WorkloadError(f"fio's JSON cannot be read: {error}.", output=text) from None
    jobs = document.get("jobs")
    if not isinstance(jobs, list) or len(jobs) != 1:
        count = len(jobs) if isinstance(jobs, list) else 0
        raise WorkloadError(f"fio reported {count} jobs instead of one group.", output=text)
    said = text[: begin.start()].strip()
    code = int(_number(jobs[0], "error"))
    if code:
        raise WorkloadError(f"fio ended with error {code} ({os.strerror(code)}).", output=said)
    return jobs[0], said

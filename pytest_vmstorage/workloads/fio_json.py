"""fio's JSON as it is: the entries of its jobs, the numbers in them, and what fio said around it. Pure."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_vmstorage.errors import WorkloadError

_DOCUMENT = re.compile(r"^\{", re.MULTILINE)
_VERSION = re.compile(r"fio-(\d+)\.(\d+)")
_LEAST_VERSION = (3, 2)
"""Older ones have microseconds where these have nanoseconds, and no `bw_bytes` (fio's git history)."""

_CORRUPT = re.compile(r"^.*\bat file .+ offset \d+.*$", re.MULTILINE)
_EILSEQ = 84
"""The errno that fio gives a job whose data was not what it had written (3.28, 3.33 and 3.42, tried)."""

Job = Mapping[str, Any]
"""One entry of `jobs`: a job, or a group of jobs under group_reporting."""


def percentile_name(text: str) -> str:
    """A percentile as part of a metric's name: "99" -> "p99", "99.9" and "99.90" -> "p999"."""
    whole, _, fraction = text.partition(".")
    return f"p{int(whole)}{fraction.rstrip('0')}"


def entries(text: str, count: int) -> tuple[Sequence[Job], str]:
    """The `count` entries of `jobs`, and what fio said before its JSON.

    A job that failed has only an errno; which call failed, and for which file, is in what fio said. Raises
    WorkloadError for a failed job, another number of entries, or a fio that is too old to be read.
    """
    begin = _DOCUMENT.search(text)
    if begin is None:
        raise WorkloadError("fio left no JSON.", output=text)
    try:
        document, _ = json.JSONDecoder().raw_decode(text, begin.start())
    except ValueError as error:
        raise WorkloadError(f"fio's JSON cannot be read: {error}.", output=text) from None
    _check_version(str(document.get("fio version")))
    jobs = document.get("jobs")
    found = len(jobs) if isinstance(jobs, list) else 0
    if found != count:
        expected = "one group" if count == 1 else f"{count} groups"
        raise WorkloadError(f"fio reported {found} jobs instead of {expected}.", output=text)
    said = text[: begin.start()].strip()
    for job in jobs:
        # with continue_on_error a job has no error, but says which was the first
        _check_error(int(number(job, "error")) or int(job.get("first_error", 0)), said)
    return jobs, said


def corruption(output: str) -> str:
    """fio's first words about a block that is not what it wrote, with file and offset; "" where it has none."""
    found = _CORRUPT.search(output)
    return found[0].strip() if found else ""


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
        raise WorkloadError(f"fio's output has no figure at {where}.")
    if not math.isfinite(value):
        raise WorkloadError(f"fio's output has {value} at {where}.")
    return float(value)


def _check_version(text: str) -> None:
    version = _VERSION.match(text)
    if version and (int(version[1]), int(version[2])) < _LEAST_VERSION:
        raise WorkloadError(
            f"{text} is too old: its figures have other units.", hint="Use fio 3.2 or a later one in this guest."
        )


def _check_error(code: int, said: str) -> None:
    if code == _EILSEQ:
        raise WorkloadError("fio found data that it had not written: corruption.", output=said)
    if code:
        raise WorkloadError(f"fio ended with error {code} ({os.strerror(code)}).", output=said)

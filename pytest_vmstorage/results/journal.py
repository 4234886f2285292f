"""The journal of a run: each finished sample on disk before the next begins, and the times of tests in earlier runs."""

from __future__ import annotations

import contextlib
import json
import math
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.user_input import parse_json
from pytest_vmstorage.errors import ConfigError, HostError
from pytest_vmstorage.results.packed import pack, pack_output, unpack
from pytest_vmstorage.results.run import Sample
from pytest_vmstorage.results.timeline import Span, Timeline


class Journal:
    """An append-only file of samples, and of the spans of time around them; made with the first sample.

    `spans` returns the spans that ended since its last call, as plain JSON values.
    """

    def __init__(self, path: Path, spans: Callable[[], Sequence[Mapping[str, Any]]] = tuple) -> None:
        self.path = path
        self._spans = spans
        self._file: int | None = None

    def write(self, nodeid: str, workload: str, config: StorageConfig, host: str, sample: Sample) -> None:
        """Append one sample and wait until it is on disk; raises HostError where it cannot be written.

        Its raw output is packed (see `results.packed`), and so are the spans after it.
        """
        record: dict[str, Any] = {
            "nodeid": nodeid,
            "workload": workload,
            "config": config.model_dump(mode="json"),
            "host": host,
            "sample": sample.model_dump(mode="json", exclude={"raw"}),
            "packed": pack_output(sample.raw),
        }
        try:
            self._append(f"{_line(record)}{self._timed()}".encode())
        except OSError as error:
            raise HostError(
                f"A finished sample cannot be written to {self.path}: {error.strerror}.",
                hint="Samples are kept below pytest's rootdir: make it writable, or set --rootdir.",
                code="VM442",
            ) from None

    def close(self) -> None:
        """Close the file, if one was made, with the spans since the last sample."""
        if self._file is not None:
            # only the times of the run's end are lost with these spans
            with contextlib.suppress(OSError):
                self._append(self._timed().encode())
            os.close(self._file)
            self._file = None

    def _timed(self) -> str:
        new = self._spans()
        if not new:
            return ""
        # all are of this process
        head = {name: new[0][name] for name in ("process", "began")}
        return _line({**head, "packed": pack([one["span"] for one in new], quick=True)})

    def _append(self, line: bytes) -> None:
        """Write a line in one piece: with O_APPEND no other process's line comes between."""
        file = self._open()
        written = os.write(file, line)
        while written < len(line):
            # a disk that is nearly full takes a part; the next call raises the reason
            written += os.write(file, line[written:])
        os.fsync(file)

    def _open(self) -> int:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # as in pytest's own cache: nobody should commit results by accident
            ignore = self.path.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        return self._file


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"


def read_timelines(lines: Iterable[str]) -> tuple[Timeline, ...]:
    """The timelines in a run's journal: one for each process, until its last span ended.

    Lines without spans, such as one cut short by a crash, are skipped.
    """
    found: dict[tuple[str, str], list[Span]] = {}
    for line in lines:
        try:
            record = parse_json(line)
            key = (str(record["process"]), str(record["began"]))
            # earlier versions wrote one a line
            spans = [record["span"]] if "span" in record else unpack(record["packed"])
            new = [Span.model_validate(one) for one in spans]
        except (ValueError, TypeError, KeyError, ConfigError):
            continue
        found.setdefault(key, []).extend(new)
    walls = {key: max(one.begin_s + one.seconds for one in spans) for key, spans in found.items()}
    return tuple(
        Timeline(process=key[0], began=key[1], wall_s=walls[key], spans=tuple(spans)) for key, spans in found.items()
    )


GUEST_S = 5.0
"""Assumed for a guest: its disk made, booted, torn down."""

ROUND_S = 5.0
"""Assumed for a round of a test that no journal knows."""

WARMUP_ROUNDS = 1


class Past(BaseModel):
    """The last measurement of a test: seconds a round of all its workloads, and the number of rounds.

    `last` is the begin of its last round: UTC, ISO 8601.
    """

    model_config = ConfigDict(frozen=True)

    round_s: float
    rounds: int
    last: str


class Estimate(NamedTuple):
    """The expected seconds of a test, without its guest, and the basis of that."""

    seconds: float
    basis: Literal["measured", "other cells", "declared", "assumed"]


class History(BaseModel):
    """The last time of each test by node id."""

    model_config = ConfigDict(frozen=True)

    tests: Mapping[str, Past] = {}

    def last(self, nodeid: str) -> str:
        """When the test was last measured, "" for never; times sort as texts."""
        past = self.tests.get(nodeid)
        return "" if past is None else past.last

    def estimate(self, nodeid: str, rounds: int) -> Estimate:
        """The time of a test that measures: its own last one, the median of its other cells', or an assumption.

        As many rounds as last time are counted, `rounds` at least, and the warm-up. Filling the disk is not known.
        """
        past = self.tests.get(nodeid)
        if past is not None:
            return Estimate(_seconds(past, rounds), "measured")
        stem = stem_of(nodeid)
        others = [_seconds(one, rounds) for name, one in self.tests.items() if stem_of(name) == stem]
        if others:
            return Estimate(statistics.median(others), "other cells")
        return Estimate((rounds + WARMUP_ROUNDS) * ROUND_S, "assumed")


def stem_of(nodeid: str) -> str:
    """A node id without its parameters; a folder may have brackets in its name too."""
    file, separator, name = nodeid.partition("::")
    return file + separator + name.partition("[")[0]


def read_history(journals: Iterable[Iterable[str]]) -> History:
    """The history in journals, each given by its lines; for each test the journal that measured it last counts.

    Lines without a sample, such as one cut short by a crash, are skipped.
    """
    tests: dict[str, Past] = {}
    for lines in journals:
        for nodeid, past in _journal(lines).items():
            if nodeid not in tests or past.last > tests[nodeid].last:
                tests[nodeid] = past
    return History(tests=tests)


def _journal(lines: Iterable[str]) -> dict[str, Past]:
    found: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for line in lines:
        try:
            record = parse_json(line)
            nodeid, workload, sample = record["nodeid"], record["workload"], record["sample"]
            seconds, started = float(sample["seconds"]), str(sample["started"])
        except (ValueError, TypeError, KeyError):
            continue
        if 0 <= seconds < math.inf:
            kept = {"seconds": seconds, "started": started}
            found.setdefault(str(nodeid), {}).setdefault(str(workload), []).append(kept)
    return {nodeid: _past(list(workloads.values())) for nodeid, workloads in found.items()}


def _past(workloads: list[list[Mapping[str, Any]]]) -> Past:
    return Past(
        round_s=sum(statistics.mean(one["seconds"] for one in samples) for samples in workloads),
        rounds=max(len(samples) for samples in workloads),
        last=max(one["started"] for samples in workloads for one in samples),
    )


def _seconds(past: Past, rounds: int) -> float:
    return past.round_s * (max(past.rounds, rounds) + WARMUP_ROUNDS)

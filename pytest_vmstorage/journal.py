"""Every finished sample on disk before the next begins: a line of JSON each, synced; processes may share the file."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.errors import HostError
from pytest_vmstorage.results import Sample
from pytest_vmstorage.timeline import Span, Timeline
from pytest_vmstorage.user_input import parse_json


class Journal:
    """An append-only file of samples, and of the spans of time around them; made with the first sample.

    `spans` gives those that ended since it was asked last, as plain JSON values.
    """

    def __init__(self, path: Path, spans: Callable[[], Sequence[Mapping[str, Any]]] = tuple) -> None:
        self.path = path
        self._spans = spans
        self._file: int | None = None

    def write(self, nodeid: str, workload: str, config: StorageConfig, host: str, sample: Sample) -> None:
        """Append one sample and wait until it is on disk; raises HostError where it cannot be written."""
        record: dict[str, Any] = {
            "nodeid": nodeid,
            "workload": workload,
            "config": config.model_dump(mode="json"),
            "host": host,
            "sample": sample.model_dump(mode="json"),
        }
        try:
            self._append(f"{json.dumps(record)}\n{self._timed()}".encode())
        except OSError as error:
            raise HostError(
                f"A finished sample cannot be written to {self.path}: {error.strerror}.",
                hint="Samples are kept below pytest's rootdir: make it writable, or set --rootdir.",
            ) from None

    def close(self) -> None:
        """Close the file, if one was made, with the spans since the last sample."""
        if self._file is not None:
            # nothing is lost with them but where the time of the run's end went
            with contextlib.suppress(OSError):
                self._append(self._timed().encode())
            os.close(self._file)
            self._file = None

    def _timed(self) -> str:
        return "".join(f"{json.dumps(one)}\n" for one in self._spans())

    def _append(self, line: bytes) -> None:
        """Write a line in one piece: with O_APPEND no other process's line comes between."""
        file = self._open()
        written = os.write(file, line)
        while written < len(line):
            # a disk that is nearly full takes a part; the next call says why
            written += os.write(file, line[written:])
        os.fsync(file)

    def _open(self) -> int:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # as pytest's own cache does: results are nobody's to commit by accident
            ignore = self.path.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        return self._file


def read_timelines(lines: Iterable[str]) -> tuple[Timeline, ...]:
    """Where the time of a run went, by its journal: one timeline for each process, until its last span ended.

    A line that is no span, such as one cut short by a crash, is passed over.
    """
    found: dict[tuple[str, str], list[Span]] = {}
    for line in lines:
        try:
            record = parse_json(line)
            key, span = (str(record["process"]), str(record["began"])), Span.model_validate(record["span"])
        except (ValueError, TypeError, KeyError):
            continue
        found.setdefault(key, []).append(span)
    return tuple(
        Timeline(
            process=process,
            began=began,
            wall_s=max(one.begin_s + one.seconds for one in spans),
            spans=tuple(spans),
        )
        for (process, began), spans in found.items()
    )

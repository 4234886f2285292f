"""Every finished sample on disk before the next begins: a line of JSON each, synced; processes may share the file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.errors import HostError
from pytest_vmstorage.results import Sample


class Journal:
    """An append-only file of samples; made with the first one."""

    def __init__(self, path: Path) -> None:
        self.path = path
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
            self._append((json.dumps(record) + "\n").encode())
        except OSError as error:
            raise HostError(
                f"A finished sample cannot be written to {self.path}: {error.strerror}.",
                hint="Samples are kept below pytest's rootdir: make it writable, or set --rootdir.",
            ) from None

    def close(self) -> None:
        """Close the file, if one was made."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

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

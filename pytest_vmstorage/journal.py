"""Every finished sample on disk before the next begins: a line of JSON each, synced."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, TextIO

from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.errors import HostError
from pytest_vmstorage.results import Sample


class Journal:
    """An append-only file of samples; made with the first one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream: TextIO | None = None

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
            stream = self._open()
            stream.write(json.dumps(record) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        except OSError as error:
            raise HostError(
                f"A finished sample cannot be written to {self.path}: {error.strerror}.",
                hint="Samples are kept below pytest's rootdir: make it writable, or set --rootdir.",
            ) from None

    def close(self) -> None:
        """Close the file, if one was made."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _open(self) -> TextIO:
        if self._stream is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # as pytest's own cache does: results are nobody's to commit by accident
            ignore = self.path.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
            self._stream = self.path.open("a", encoding="utf-8")
        return self._stream

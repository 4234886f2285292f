"""Files that are written whole or not at all, and what is left of it where the writer was killed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from pytest_vmstorage.process import is_left, mark

_DRAFT = re.compile(r"\.(?P<name>.+)\.(?P<mark>\d+-\d+-\d+)\.new")


def write_whole(path: Path, text: str) -> None:
    """Replace the file as a whole, on disk before this returns; what killed writers of it left goes first.

    Raises OSError where it cannot be written, and then leaves nothing.
    """
    for left in left_drafts(path.parent, path.name):
        left.unlink(missing_ok=True)
    draft = path.with_name(f".{path.name}.{mark()}.new")
    try:
        with draft.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def left_drafts(folder: Path, name: str = "") -> Iterator[Path]:
    """Drafts in that folder whose writers are gone; of one file, or of all."""
    for path in sorted(folder.glob(".*.new")):
        match = _DRAFT.fullmatch(path.name)
        if match is not None and name in ("", match["name"]) and is_left(path, match["mark"]):
            yield path

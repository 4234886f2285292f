"""Folders in /tmp for what must not outlive its process: by its name, a killed one's is found."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pytest_vmstorage.process import is_left, mark

_NAME = re.compile(r"vms-[a-z]+-(?P<mark>\d+-\d+-\d+)-\w+")


def make_temporary(what: str) -> Path:
    """A folder that this user alone can enter, for the caller to remove; `what` is a word such as "keys"."""
    return Path(tempfile.mkdtemp(prefix=f"vms-{what}-{mark()}-"))


@contextlib.contextmanager
def temporary(what: str) -> Iterator[Path]:
    """The same, gone afterwards."""
    folder = make_temporary(what)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(*, look_only: bool = False) -> list[str]:
    """Remove this user's folders whose processes were killed; a phrase for each."""
    said = []
    for path in sorted(Path(tempfile.gettempdir()).glob("vms-*")):
        match = _NAME.fullmatch(path.name)
        if match is None or not _is_ours(path) or not is_left(path, match["mark"]):
            continue
        said.append(f"folder {path}")
        if not look_only:
            shutil.rmtree(path, ignore_errors=True)
    return said


def _is_ours(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()

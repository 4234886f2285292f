"""Files that stay in this machine's page cache when caches are dropped."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_cache import ON_DISK, cached_bytes

from pytest_vmstorage.host.resident import ResidentFiles
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.testing.shell import FakeShell

BYTES = 2**20


@pytest.fixture
def held() -> Iterator[ResidentFiles]:
    """None yet."""
    files = ResidentFiles(LocalShell())
    yield files
    files.close()


@pytest.fixture
def file() -> Iterator[Path]:
    """One on a disk."""
    with tempfile.TemporaryDirectory(dir=ON_DISK) as folder:
        path = Path(folder, "state")
        path.write_bytes(b"a" * BYTES)
        yield path


def test_a_held_file_stays_where_another_is_dropped(held: ResidentFiles, file: Path) -> None:
    """Up to its end; once it is released it is dropped like others."""
    assert cached_bytes(file) == 0
    held.hold(str(file))
    assert cached_bytes(file) == BYTES
    held.release(str(file))
    assert cached_bytes(file) == 0


def test_a_file_that_grew_is_held_anew(held: ResidentFiles, file: Path) -> None:
    """With what it had before."""
    held.hold(str(file))
    file.write_bytes(b"b" * 2 * BYTES)
    held.hold(str(file))
    assert cached_bytes(file) == 2 * BYTES


def test_after_the_end_nothing_is_held(held: ResidentFiles, file: Path) -> None:
    """It may be called twice."""
    held.hold(str(file))
    held.close()
    held.close()
    assert cached_bytes(file) == 0


@pytest.mark.parametrize("content", [None, b""], ids=["missing", "empty"])
def test_what_cannot_be_held_is_no_error(held: ResidentFiles, tmp_path: Path, content: bytes | None) -> None:
    """It is read from its device each time, by whoever can."""
    path = tmp_path / "state"
    if content is not None:
        path.write_bytes(content)
    held.hold(str(path))
    held.release(str(path))


def test_files_of_another_machine_are_not_held(file: Path) -> None:
    """Even where this one has a file of that name."""
    elsewhere = ResidentFiles(FakeShell())
    elsewhere.hold(str(file))
    assert cached_bytes(file) == 0
    elsewhere.close()

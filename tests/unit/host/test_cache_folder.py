"""The cache folder: where it is, and one sentence where it cannot be used or is not the user's alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pytest_vmstorage.cli.command import main
from pytest_vmstorage.errors import HostError
from pytest_vmstorage.host.folders import cache_folder, use_cache_folder

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root alone can give files away and mount")


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"VMSTORAGE_CACHE": "/own", "XDG_CACHE_HOME": "/xdg", "HOME": "/home/u"}, "/own"),
        ({"XDG_CACHE_HOME": "/xdg", "HOME": "/home/u"}, "/xdg/pytest-vmstorage"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/u"}, "/home/u/.cache/pytest-vmstorage"),
        ({"HOME": "/home/u"}, "/home/u/.cache/pytest-vmstorage"),
    ],
)
def test_cache_folder_follows_the_environment(environ: dict[str, str], folder: str) -> None:
    """Our own variable first, then XDG's rules."""
    assert cache_folder(environ) == Path(folder)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the cache is to be."""
    monkeypatch.setenv("VMSTORAGE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_it_is_made_as_its_users_alone(folder: Path) -> None:
    """And nothing is left of the try whether it can be written."""
    assert use_cache_folder() == folder
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.iterdir()) == []
    assert use_cache_folder() == folder


def test_the_try_whether_it_can_be_written_has_no_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kill -9 in the middle of it leaves nothing."""
    there = []

    class Looking:
        def __index__(self) -> int:
            there.append(list(folder.iterdir()))
            return 1

    monkeypatch.setattr("pytest_vmstorage.host.folders._TRIED_BYTES", Looking())
    use_cache_folder()
    assert there == [[]]


def refused(words: str) -> None:
    """It cannot be used, in one sentence with the remedy."""
    with pytest.raises(HostError, match=words) as error:
        use_cache_folder()
    assert error.value.hint == "Name another one with VMSTORAGE_CACHE=FOLDER in the environment."


def test_what_is_no_folder_is_told(folder: Path) -> None:
    """A file in its place, or in the place of one above; links in a circle."""
    folder.write_text("")
    refused(f"The cache folder {folder} cannot be used: File exists")
    folder.unlink()
    folder.symlink_to(folder)
    refused("cannot be used: (File exists|Symlink loop|Too many levels)")


def test_below_a_file_it_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a HOME that is a file."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VMSTORAGE_CACHE", str(tmp_path / "file" / "cache"))
    refused("cannot be used: Not a directory")


@needs_root
@pytest.mark.parametrize(
    ("options", "why"), [("ro,mode=700", "Read-only file system"), ("size=4k,mode=700", "No space left")]
)
def test_a_file_system_that_takes_nothing_is_told(folder: Path, options: str, why: str) -> None:
    """Read-only or full: before a host is waited for, and not in the middle of a run."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=True)
    try:
        refused(f"cannot be used: {why}")
        assert list(folder.iterdir()) == []
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@needs_root
@pytest.mark.parametrize("kind", ["theirs", "a link of theirs", "open"])
def test_a_folder_that_others_can_change_is_refused(folder: Path, kind: str) -> None:
    """What lies in it is run: a link leads to whatever its maker wants."""
    there = folder.with_name("theirs") if "link" in kind else folder
    there.mkdir()
    if "link" in kind:
        folder.symlink_to(there)
    if kind == "open":
        there.chmod(0o1777)
        refused(r"is not used: others may write to it \(mode 1777\)")
    else:
        os.chown(there, 65534, 65534)
        refused("is not used: it belongs to the user nobody, who could replace what lies in it")
    assert list(there.iterdir()) == []


def test_vmstorage_reap_tells_it_in_one_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And not by a traceback; a second line says where more is said of it."""
    folder.write_text("")
    assert main(["reap"]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 2)
    assert said.err.startswith(f"vmstorage: The cache folder {folder} cannot be used: File exists.")

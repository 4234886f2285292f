"""Files that are written whole or not at all, and files and folders whose names say whose they are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from pytest_vmstorage.leftovers import is_left, left_drafts, make_temporary, mark, sweep, temporary, write_whole

KILLED_WRITER = """
import os, signal, sys
from pathlib import Path
from pytest_vmstorage import leftovers
leftovers.os.fsync = lambda _number: os.kill(os.getpid(), signal.SIGKILL)
leftovers.write_whole(Path(sys.argv[1]), "half")
"""


def test_a_killed_writer_leaves_the_old_file_and_a_draft_that_the_next_removes(tmp_path: Path) -> None:
    """Whoever writes the file next, or looks for drafts in the folder."""
    path = tmp_path / "m.csv"
    write_whole(path, "old")
    done = subprocess.run([sys.executable, "-c", KILLED_WRITER, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    (left,) = left_drafts(tmp_path)
    assert list(left_drafts(tmp_path, "m.csv")) == [left]
    assert list(left_drafts(tmp_path, "csv")) == []
    write_whole(path, "new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk."""

    def full(_number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "m.csv", "x")
    assert list(tmp_path.iterdir()) == []


def test_a_living_writers_draft_stays(tmp_path: Path) -> None:
    """Another process's too."""
    with subprocess.Popen(["sleep", "30"]) as child:
        ticks = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
        for one in (mark(), f"{mark().split('-')[0]}-{child.pid}-{ticks}"):
            (tmp_path / f".m.csv.{one}.new").touch()
        assert list(left_drafts(tmp_path)) == []
        child.kill()
        child.wait()
    assert len(list(left_drafts(tmp_path))) == 1


def test_what_a_process_of_another_container_made_counts_as_left_after_a_day(tmp_path: Path) -> None:
    """Its pid says nothing here."""
    path = tmp_path / "file"
    path.touch()
    assert not is_left(path, "1-1-1")
    os.utime(path, (0, time.time() - 25 * 3600))
    assert is_left(path, "1-1-1")
    assert not is_left(tmp_path / "none", "1-1-1")


KILLED_MAKER = """
import os, signal
from pytest_vmstorage.leftovers import make_temporary
(make_temporary("keys") / "id_ed25519").write_text("secret")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /tmp of this test's own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_killed_processs_folder_goes_and_a_living_ones_stays(tmp: Path) -> None:
    """With all that is in it; names that are alike, and links, are nobody's to remove."""
    living = make_temporary("keys")
    done = subprocess.run([sys.executable, "-c", KILLED_MAKER], check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = set(tmp.iterdir()) - {living}
    # chance may have ended it with any of them
    last = "a" if left.name.endswith("_") else "_"
    others = {tmp / f"{left.name}.txt", tmp / f"x{left.name}", tmp / f"{left.name[:-1]}{last}"}
    for path in others:
        path.symlink_to("/")
    assert sweep(look_only=True) == [f"folder {left}"]
    assert left.exists()
    assert sweep() == [f"folder {left}"]
    assert set(tmp.iterdir()) == {living, *others}


def test_one_for_a_block_goes_with_it(tmp: Path) -> None:
    """Nobody else can enter it meanwhile."""
    with temporary("seed") as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "meta-data").touch()
    assert list(tmp.iterdir()) == []

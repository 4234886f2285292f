"""Folders in /tmp whose names say whose they are."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pytest_vmstorage.leftovers import make_temporary, sweep, temporary

KILLED = """
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
    done = subprocess.run([sys.executable, "-c", KILLED], check=False)
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

"""The folder in which image operations make their files: cleared of files, and of programs that still work there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.storage.operations.files import clear_folder

WAIT_S = 30.0


@pytest.mark.parametrize("name", ["plain", "a b", "[ab]*?", "back\\slash", "a\nb"])
def test_what_works_in_the_folder_is_killed(tmp_path: Path, name: str) -> None:
    """Also where its name has a pattern's characters; programs elsewhere, and the folder itself, stay."""
    cleared, spared = tmp_path / name, [tmp_path, tmp_path / "a", tmp_path / f"{name}.b"]
    for folder in (cleared, *spared):
        folder.mkdir(exist_ok=True)
    (cleared / "image").write_text("data")
    (cleared / "deeper").mkdir()
    (cleared / "deeper" / "copy").write_text("data")
    with subprocess.Popen(["sleep", "300"], cwd=cleared) as inside:
        others = [subprocess.Popen(["sleep", "300"], cwd=folder) for folder in spared]
        try:
            clear_folder(LocalShell(), str(cleared))
            assert inside.wait(WAIT_S) == -9
            assert list(cleared.iterdir()) == []
            assert [one.poll() for one in others] == [None] * len(others)
        finally:
            for one in (inside, *others):
                one.kill()
                one.wait(WAIT_S)

"""Workloads that make files: what they have in common, by their real commands."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_vmstorage.workloads.base import FileWorkload, Target
from pytest_vmstorage.workloads.iozone import Iozone
from pytest_vmstorage.workloads.postmark import Postmark
from pytest_vmstorage.workloads.tar import Tar
from pytest_vmstorage.workloads.web import Web


@pytest.mark.parametrize("kind", [Iozone, Postmark, Tar, Web], ids=lambda kind: kind.tool)
def test_files_and_scratch_may_lie_in_one_folder(tmp_path: Path, kind: type[FileWorkload]) -> None:
    """As on a native row; none of it is left afterwards."""
    workload = kind()
    target = Target(path="/dev/vdb", size_bytes=0, folder=str(tmp_path), scratch=str(tmp_path))
    for command in workload.setup(target):
        subprocess.run(command, check=True, timeout=120)
    assert Path(workload.place(target)).is_dir()
    assert Path(workload.beside(target)).exists() is (kind is not Tar)
    for command in workload.cleanup(target):
        subprocess.run(command, check=True, timeout=120)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [Iozone, Postmark, Tar, Web], ids=lambda kind: kind.tool)
def test_they_touch_nothing_of_the_test_file(kind: type[FileWorkload]) -> None:
    """What they read they wrote, so that nothing is filled for them and a fresh disk will do."""
    workload = kind()
    assert (workload.needs_folder, workload.region_bytes, workload.reads, workload.writes) == (True, 0, False, True)
    assert workload.fresh_is_possible


@pytest.mark.parametrize("kind", [Iozone, Postmark, Tar, Web], ids=lambda kind: kind.tool)
def test_files_that_are_set_aside_keep_their_blocks(tmp_path: Path, kind: type[FileWorkload]) -> None:
    """Each round's under a name of its own; what is not on the disk under test goes."""
    workload = kind()
    (tmp_path / "scratch").mkdir()
    target = Target(path="/dev/vdb", size_bytes=0, folder=str(tmp_path), scratch=str(tmp_path / "scratch"))
    for _round in range(3):
        for command in (*workload.setup(target), *workload.set_aside(target)):
            subprocess.run(command, check=True, timeout=120)
    place = Path(workload.place(target))
    assert {path.name for path in tmp_path.iterdir()} == {"scratch", *(f"{place.name}.{n}" for n in (1, 2, 3))}
    assert list((tmp_path / "scratch").iterdir()) == []

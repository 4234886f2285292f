"""Assertions between cells on real guests: virtio-blk against IDE, by rounds that were really taken in turns."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.couples import Couple, paired_rounds
from pytest_vmstorage.results import Run

BUSES = """
import pytest
from pytest_vmstorage import Fio, cell

def test_virtio_is_faster(assert_ratio):
    assert_ratio(cell("virtio-blk"), cell("ide"), at_least=1.1)

def test_ide_keeps_up(assert_ratio):
    assert_ratio(cell("ide"), cell("virtio-blk"), at_least=0.9)

def test_virtio_is_fastest(assert_fastest):
    assert_fastest(cell("virtio-blk"))

@pytest.mark.parametrize("bus", ["virtio-blk", "ide"])
@pytest.mark.storage(size="64M")
def test_random_read(measure):
    measure(Fio(rw="randread", bs="4k", iodepth=8, size="16M", runtime=1, time_based=True), warmup=0)
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a run of these cells, six rounds each, and what it printed."""
    folder = tmp_path_factory.mktemp("between")
    (folder / "test_it.py").write_text(BUSES)
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--vm-dir={folder}/disks", "--vm-rounds=6"]
    done = subprocess.run(
        [*argv, "--vm-report=r.json", "-v"], cwd=folder, capture_output=True, text=True, timeout=400, check=False
    )
    return folder, done.stdout + done.stderr


def test_what_holds_and_what_does_not(finished: tuple[Path, str]) -> None:
    """IDE is slower by far: the assertion that it keeps up fails with both cells in its text, and the others hold."""
    _, text = finished
    assert "1 failed, 4 passed" in text, text
    told = " ".join(text.split())
    assert "HOLDS test_it.py::test_virtio_is_faster: bus=virtio-blk is at least 1.1 times as fast as bus=ide" in told
    assert "FAILS test_it.py::test_ide_keeps_up: bus=ide is at least 0.9 times as fast as bus=virtio-blk: it is" in told
    assert "E fio randread 4k qd8 size=16M on raw-none-ide-off 64M, iops " in told
    assert "from 6 pairs of rounds" in told
    assert "bus moves fio randread 4k qd8 size=16M by " in told
    assert "(virtio-blk fastest, ide slowest; 1 couple, 95 % interval " in told


def test_rounds_are_pairs(finished: tuple[Path, str]) -> None:
    """Each pair lies between the one before and the one after it."""
    folder, text = finished
    saved: Any = json.loads((folder / "r.json").read_text())
    run = Run.model_validate(saved)
    assert len(run.measurements) == 2, text
    couple = Couple(*run.measurements)
    pairs = paired_rounds(couple)
    assert len(pairs) == 6
    assert sorted(sample.order for pair in pairs for sample in pair) == list(range(1, 13))

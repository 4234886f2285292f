"""In how many pieces an image's data lies."""

from __future__ import annotations

import random
import re
from pathlib import Path

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.host.shell import LocalShell, check
from pytest_vmstorage.storage.space import count_pieces, fragments
from pytest_vmstorage.testing.shell import FakeShell

QCOW2 = StorageConfig(format="qcow2", size="4M")
CLUSTER = 2**16


def written(folder: Path, order: list[int]) -> int | None:
    """A real qcow2 image whose clusters were written in that order, and its pieces."""
    path = str(folder / "x.qcow2")
    check(LocalShell().run(["qemu-img", "create", "-q", "-f", "qcow2", path, str(QCOW2.size)]), "making it")
    writes = [word for n in order for word in ("-c", f"write -q {n * CLUSTER} {CLUSTER}")]
    check(LocalShell().run(["qemu-io", "-f", "qcow2", *writes, path]), "writing it")
    return fragments(LocalShell(), QCOW2, path)


def test_clusters_written_in_order_are_one_piece(tmp_path: Path) -> None:
    """A real image, written from its begin to its end."""
    assert written(tmp_path, list(range(64))) == 1


def test_clusters_written_in_disorder_are_many(tmp_path: Path) -> None:
    """Nearly each cluster for itself."""
    order = random.Random(1).sample(range(64), 64)
    pieces = written(tmp_path, order)
    assert pieces is not None
    assert pieces > 55


def test_what_holds_no_data_is_no_piece() -> None:
    """Holes lie nowhere, and data behind a hole may still lie behind the data before it."""
    extents = [
        {"data": True, "offset": 0, "length": 10},
        {"data": False, "length": 10},
        {"data": True, "offset": 10, "length": 10},
        {"data": True, "offset": 40, "length": 5},
    ]
    assert count_pieces(extents) == 2


def test_a_raw_files_pieces_are_its_extents() -> None:
    """As filefrag counts them; where it cannot, nobody tells."""
    shell = FakeShell().answer(re.compile("^sync ")).answer(re.compile("^filefrag "), "/d/x.raw: 16 extents found\n")
    assert fragments(shell, StorageConfig(), "/d/x.raw") == 16
    mute = FakeShell().answer(re.compile("^sync ")).answer(re.compile("^filefrag "), returncode=1)
    assert fragments(mute, StorageConfig(), "/d/x.raw") is None

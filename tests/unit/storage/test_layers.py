"""Data in images before their guests start: which piece lies where, what is asked of qemu-io, and the room it takes.

Tests of `storage.layers` and `storage.encryption`.
"""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ProvisionError
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.storage.encryption import image_name, secret_argv
from pytest_vmstorage.storage.image import image_files, make_disk, remove_disk
from pytest_vmstorage.storage.layers import (
    PATTERN_BYTES,
    fill,
    layer_paths,
    pattern,
    pieces_after_snapshot,
    pieces_of_layer,
    rewritten_bytes,
    unit_bytes,
    whole_disk,
    write_commands,
)
from pytest_vmstorage.storage.space import HEADROOM_BYTES, bytes_on_device, metadata_bytes, space_needed
from pytest_vmstorage.testing.shell import FakeShell

MIB = 2**20


def qcow2(**values: object) -> StorageConfig:
    """A qcow2 with these values."""
    return StorageConfig(**{"format": "qcow2", "size": 64 * MIB, **values})


@pytest.mark.parametrize("size", [MIB, 16 * MIB + 512, 2**30, 2**40], ids=str)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_every_piece_of_the_disk_lies_in_one_layer(size: int, depth: int) -> None:
    """Together they are the disk, no two overlap, none is larger than one write, and their number stays small."""
    config = qcow2(size=size, backing_chain=depth) if size > MIB else qcow2(size=size, backing_chain=1)
    shares = [list(pieces_of_layer(config, number)) for number in range(config.backing_chain)]
    pieces = sorted(piece for share in shares for piece in share)
    assert [offset for offset, _ in pieces] == [0, *(offset + length for offset, length in pieces)][:-1]
    assert sum(length for _, length in pieces) == size
    assert all(len(share) >= 8 for share in shares)
    assert len(pieces) <= max(4096, size // (64 * MIB))


@pytest.mark.parametrize(("cluster", "unit"), [(None, MIB), ("512", MIB), ("2M", 2 * MIB)])
def test_a_piece_is_whole_clusters(cluster: str | None, unit: int) -> None:
    """A part of a cluster would be copied up from below."""
    assert unit_bytes(qcow2(cluster_size=cluster, backing_chain=3, size="1G")) == unit
    assert unit_bytes(qcow2(backing_chain=8, size="8M")) == 2**17


def test_layers_lie_beside_the_image_and_are_found_there(tmp_path: Path) -> None:
    """Their names say which of how many; another disk's are not taken for them."""
    path = str(tmp_path / "disk-1.qcow2")
    names = [f"{tmp_path}/disk-1.1-of-2.qcow2", f"{tmp_path}/disk-1.2-of-2.qcow2"]
    assert list(layer_paths(qcow2(backing_chain=2), path)) == names
    assert layer_paths(qcow2(), path) == ()
    for one in (path, *names, f"{path}.block", f"{tmp_path}/disk-11.1-of-2.qcow2", f"{tmp_path}/disk-11.qcow2"):
        Path(one).touch()
    assert set(image_files(LocalShell(), path)) == {path, *names, f"{path}.block"}
    remove_disk(LocalShell(), path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["disk-11.1-of-2.qcow2", "disk-11.qcow2"]


def test_what_is_to_be_compressed_shrinks_by_half_and_the_rest_does_not_shrink() -> None:
    """In qcow2's smallest and largest cluster; the same data every time."""
    block = pattern(qcow2(compression="zstd"))
    assert len(block) == len(pattern(qcow2())) == PATTERN_BYTES
    for cluster in (512, 2**16, 2**21):
        assert 0.45 < len(zlib.compress(block[:cluster])) / cluster < 0.7
        assert len(zlib.compress(pattern(qcow2())[:cluster])) >= cluster
    assert block == pattern(qcow2(compression="zlib"))
    assert pattern(StorageConfig(format="vmdk", subformat="streamOptimized")) == block


def test_qemu_io_writes_the_block_over_and_over() -> None:
    """64 MiB at a time; compressed where the cell is, and a vmdk's file is closed by an empty write."""
    assert list(write_commands(qcow2(size="100M"), "b", whole_disk(qcow2(size="100M")))) == [
        f"write -q -s b 0 {64 * MIB}",
        f"write -q -s b {64 * MIB} {36 * MIB}",
    ]
    (only,) = write_commands(qcow2(compression="zlib"), "b", whole_disk(qcow2()))
    assert only == f"write -q -c -s b 0 {64 * MIB}"
    vmdk = StorageConfig(format="vmdk", subformat="streamOptimized", size=MIB)
    assert list(write_commands(vmdk, "b", whole_disk(vmdk))) == [f"write -q -c -s b 0 {MIB}", "write -q -c 0 0"]


def test_each_snapshot_keeps_a_part_of_its_own() -> None:
    """An eighth of the disk for each where there are few; never the same piece twice."""
    config = qcow2(snapshots=3)
    shares = [set(pieces_after_snapshot(config, number)) for number in range(3)]
    assert [sum(length for _, length in share) for share in shares] == [8 * MIB] * 3
    assert not shares[0] & shares[1]
    assert rewritten_bytes(config) == 24 * MIB
    assert rewritten_bytes(qcow2(snapshots=16)) == 64 * MIB


def test_the_block_is_removed_also_where_qemu_io_fails() -> None:
    """Its words are told."""
    shell = FakeShell().answer(re.compile("qemu-io"), stderr="write failed: No space left on device", returncode=1)
    shell.answer(re.compile("^rm "))
    with pytest.raises(ProvisionError, match=r"filling /srv/d\.qcow2 failed: write failed: No space left"):
        fill(shell, qcow2(compression="zlib"), "/srv/d.qcow2")
    assert shell.lines[-1] == "rm -f -- /srv/d.qcow2.block"


def test_direct_io_is_asked_for_where_the_cell_asks_for_it() -> None:
    """A folder without it still takes the other cache modes."""
    for cache, mode in (("none", "none"), ("directsync", "none"), ("writeback", "writeback"), ("unsafe", "writeback")):
        shell = FakeShell().answer(re.compile("qemu-io")).answer(re.compile("^rm "))
        fill(shell, qcow2(compression="zlib", cache=cache), "/srv/d.qcow2")
        assert f"qemu-io -t {mode} " in shell.lines[0]


def test_an_image_is_opened_by_itself_and_with_its_passphrase() -> None:
    """What lies below it is no part of it, and may be encrypted too."""
    name = json.loads(image_name(qcow2(encryption="luks"), "/srv/d").removeprefix("json:"))
    assert (name["backing"], name["encrypt"]["key-secret"]) == (None, "vmstorage")
    assert "encrypt" not in image_name(qcow2(), "/srv/d")
    assert json.loads(image_name(qcow2(), "/dev/loop1").removeprefix("json:"))["file"]["driver"] == "host_device"
    assert image_name(StorageConfig(format="vmdk"), "/srv/d") == "/srv/d"
    assert secret_argv(qcow2()) == ()


@pytest.mark.parametrize(
    ("values", "data"),
    [
        ({"format": "raw"}, 1.0),
        ({"format": "raw", "backing": "partition"}, 0.0),
        ({"backing_chain": 3}, 2.0),
        ({"snapshots": 2}, 2.25),
        ({"compression": "zstd"}, 1.625),
        ({"compression": "zstd", "backing_chain": 1}, 2.0),
    ],
    ids=str,
)
def test_the_room_a_disk_takes(values: dict[str, object], data: float) -> None:
    """What arrives with it, what a guest may write, and the tables; a block device takes nothing of the folder."""
    config = qcow2(size="1G", **values)
    tables = metadata_bytes(config)
    rest = space_needed(config) - HEADROOM_BYTES - data * 2**30
    assert rest == tables + (PATTERN_BYTES if data == 1.625 else 0)
    assert (tables > 0) is (config.format == "qcow2")


@pytest.mark.parametrize(
    "values", [{}, {"cluster_size": "512"}, {"extended_l2": True}, {"cluster_size": "2M"}], ids=str
)
def test_a_devices_size_is_enough_for_a_full_qcow2(tmp_path: Path, values: dict[str, object]) -> None:
    """By this machine's qemu-img, with all its blocks; and not far more."""
    config = qcow2(preallocation="full", **values)
    path = str(tmp_path / "d")
    facts = make_disk(LocalShell(), config, path)
    assert (
        facts.length_bytes <= bytes_on_device(config) <= facts.length_bytes * 1.1 + 8 * (config.cluster_size or 65536)
    )


@pytest.mark.parametrize(
    "values",
    [{"compression": "zstd"}, {"backing_chain": 2}, {"snapshots": 2}, {"encryption": "luks", "backing_chain": 1}],
    ids=str,
)
def test_a_filled_image_takes_no_more_than_was_told(tmp_path: Path, values: dict[str, object]) -> None:
    """Made on this machine; in a folder whose name has a blank, which qemu-io would take for two words."""
    folder = tmp_path / "the disks"
    folder.mkdir()
    config = qcow2(**values)
    facts = make_disk(LocalShell(), config, str(folder / "disk-1.qcow2"))
    assert facts.allocated_bytes < 4 * MIB
    taken = sum(one.stat().st_blocks * 512 for one in folder.iterdir())
    assert taken >= config.size // 2
    assert taken + config.size <= space_needed(config)
    assert not [one for one in folder.iterdir() if one.name.endswith(".block")]

"""Disks that the host fills before their guests begin: which, with what, and what becomes of those that fail."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from page_cache import ON_DISK, cached_bytes

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import LabHost
from pytest_vmstorage.errors import ProvisionError
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.progress import silent
from pytest_vmstorage.results.spans import SpanRecorder, recording
from pytest_vmstorage.storage import fill as fill_module
from pytest_vmstorage.storage.caches import evict
from pytest_vmstorage.storage.disk import HostDisks
from pytest_vmstorage.storage.fill import MOST_BYTES, PIECE_BYTES, SHIFTS, HostFill, may_be_filled
from pytest_vmstorage.storage.image import make_disk
from pytest_vmstorage.testing.host import make_host_shell
from pytest_vmstorage.testing.shell import FakeShell

MIB = 2**20
FOLDER = "/srv/vm/run-0123456789"


@pytest.mark.parametrize(
    ("fields", "may"),
    [
        ({}, True),
        ({"format": "qcow2", "preallocation": "metadata", "cluster_size": "2M"}, True),
        ({"format": "vmdk", "cache": "directsync", "bus": "nvme"}, True),
        ({"format": "vpc"}, True),
        ({"format": "vdi"}, False),
        ({"format": "qed"}, False),
        ({"format": "vpc", "subformat": "fixed"}, False),
        ({"state": "fresh"}, False),
        ({"state": "rewritten"}, False),
        ({"state": "aged"}, False),
        ({"guest_fs": "ext4", "guest_mkfs": "-m 0"}, True),
        ({"guest_fs": "xfs"}, True),
        ({"guest_fs": "btrfs"}, False),
        ({"format": "qcow2", "encryption": "luks"}, False),
        ({"format": "qcow2", "backing_chain": 1}, False),
        ({"format": "qcow2", "snapshots": 1}, False),
        ({"format": "qcow2", "compression": "zstd"}, False),
        ({"format": "vmdk", "subformat": "streamOptimized"}, False),
        ({"total_iops_sec": 100}, False),
        ({"total_bytes_sec": "50M"}, False),
        ({"emulator": "/opt/qemu/bin/qemu-system-x86_64"}, False),
        ({"backing": "lvm"}, False),
        ({"backing": "null"}, False),
        ({"backing": "native"}, False),
    ],
    ids=str,
)
def test_the_host_fills_what_comes_to_the_same(fields: dict[str, object], *, may: bool) -> None:
    """Plain image files that are to be filled; all others are written from where they are measured."""
    assert may_be_filled(StorageConfig(**fields)) is may


@pytest.mark.parametrize(("cache", "mode"), [("none", "none"), ("directsync", "none"), ("unsafe", "writeback")])
def test_it_is_written_by_the_cells_own_way_through_the_hosts_cache(cache: str, mode: str) -> None:
    """From the start, in order, as much as asked for; of it nothing is left in that cache."""
    shell = make_host_shell()
    assert HostFill(shell, FOLDER).fill(StorageConfig(cache=cache, format="vpc"), "/d/disk-1.vpc", 9 * MIB) == 9 * MIB
    filling, evicting = shell.asked[-2:]
    *words, source, target = filling.argv
    assert words == ["qemu-img", "convert", "-n", "-t", mode, "-O", "vpc"]
    window = json.loads(source.removeprefix("json:"))
    assert (window["size"], window["file"]["filename"]) == (9 * MIB, f"{FOLDER}/fill.data")
    assert target == evicting.argv[-1] == "/d/disk-1.vpc"


def test_a_large_disk_is_filled_in_pieces_with_less_data_than_it_takes() -> None:
    """Each begins where the one before it ends, and has the data from another byte on."""
    shell = make_host_shell(free_bytes=2**40)
    HostFill(shell, FOLDER).fill(StorageConfig(), "/d/disk-1.raw", 2 * PIECE_BYTES + MIB)
    (line,) = [one.argv for one in shell.asked if one.argv[1] == "convert"]
    windows = [json.loads(word.removeprefix("json:")) for word in line if word.startswith("json:")]
    assert [one["size"] for one in windows] == [PIECE_BYTES, PIECE_BYTES, MIB]
    assert len({one["offset"] for one in windows}) == 3
    (made,) = [one.argv[-1] for one in shell.asked if "urandom" in one.line]
    assert made == str(PIECE_BYTES + SHIFTS)


def test_data_are_made_once_and_no_disk_has_them_from_the_same_byte_on() -> None:
    """Also where several are filled at once; what a larger one lacks is added."""
    shell = make_host_shell()
    fill = HostFill(shell, FOLDER)
    with ThreadPoolExecutor(4) as workers:
        list(workers.map(lambda number: fill.fill(StorageConfig(), f"/d/disk-{number}.raw", 2 * MIB), range(8)))
    fill.fill(StorageConfig(), "/d/disk-9.raw", 5 * MIB)
    made = [one for one in shell.asked if "urandom" in one.line]
    assert [one.argv[-1] for one in made] == [str(2 * MIB + SHIFTS), str(3 * MIB)]
    # nothing of them is to be written back during a round
    assert all(one.argv[2].endswith('&& sync -- "$1"') for one in made)
    begins = [json.loads(one.argv[-2][5:])["offset"] for one in shell.asked if one.argv[1] == "convert"]
    assert len(set(begins)) == len(begins) == 9


def test_data_stay_in_the_page_cache_until_the_run_ends() -> None:
    """Caches are dropped before each round, and each disk's fill would read them from where they lie."""
    with tempfile.TemporaryDirectory(dir=ON_DISK) as folder:
        fill, data = HostFill(LocalShell(), folder), Path(folder, "fill.data")
        for size in (MIB, 2 * MIB):
            disk = Path(folder, f"disk-{size}.raw")
            disk.touch()
            os.truncate(disk, 4 * MIB)
            assert fill.fill(StorageConfig(cache="writeback", size="4M"), str(disk), size) == size
            assert cached_bytes(data) == size + SHIFTS
        fill.close()
        assert cached_bytes(data) == 0


def test_closing_the_disks_of_a_run_lets_its_data_go() -> None:
    """Their file is removed, and takes no room from then on."""
    with tempfile.TemporaryDirectory(dir=ON_DISK) as name:
        folder, kept = Path(name, "run"), Path(name, "kept")
        folder.mkdir()
        host = LabHost(name="here", uri=None, ssh=None, folder=name)
        made = HostDisks(LocalShell(), host, str(folder), "01")
        made.make(StorageConfig(cache="writeback", size="4M"), 1, fill_bytes=MIB)
        os.link(folder / "fill.data", kept)
        assert cached_bytes(kept) == MIB + SHIFTS
        made.close()
        assert not folder.exists()
        assert cached_bytes(kept) == 0


@pytest.mark.parametrize(("free", "size"), [(2**40, MOST_BYTES + MIB), (StorageConfig().size + 66 * MIB, 8 * MIB)])
def test_what_is_too_much_is_left_to_the_guest(free: int, size: int) -> None:
    """A large region, or data that would take the room which the disk itself needs."""
    shell = make_host_shell(free_bytes=free)
    assert HostFill(shell, FOLDER).fill(StorageConfig(), "/d/disk-1.raw", size) == 0
    assert not [line for line in shell.lines if "convert" in line or "urandom" in line]


def test_as_much_as_it_may_the_host_fills() -> None:
    """Up to the last byte of the bound."""
    shell = make_host_shell(free_bytes=2**40)
    assert HostFill(shell, FOLDER).fill(StorageConfig(), "/d/disk-1.raw", MOST_BYTES) == MOST_BYTES


def disks(shell: FakeShell) -> HostDisks:
    """The disks of a run on that host."""
    return HostDisks(shell, LabHost(name="here", uri=None, ssh=None, folder="/srv/vm"), FOLDER, "01")


@pytest.mark.parametrize(
    ("fails", "told"), [("^qemu-img convert", f"filling {FOLDER}/disk-1.raw"), ("urandom", "making data")]
)
def test_a_disk_that_is_not_filled_is_none(fails: str, told: str) -> None:
    """What was half written is removed, and the cell told why."""
    shell = make_host_shell()
    shell.answer(re.compile(fails), stderr="No space left on device", returncode=1)
    with pytest.raises(ProvisionError, match=f"{told}(.|\n)*No space left"):
        disks(shell).make(StorageConfig(), 1, fill_bytes=MIB)
    assert shell.files == {}


def test_the_disk_knows_what_was_written_and_the_run_how_long_it_took() -> None:
    """A step of its own within that in which the disk is made; its image was looked at before."""
    shell, recorder = make_host_shell(), SpanRecorder()
    made = disks(shell)
    with recording(recorder, silent):
        filled, plain = made.make(StorageConfig(), 1, fill_bytes=MIB), made.make(StorageConfig(), 2)
    assert (filled.filled_bytes, plain.filled_bytes) == (MIB, 0)
    assert [span.step for span in recorder.timeline().spans] == ["filling"]
    words = [" ".join(one.argv[:2]) for one in shell.asked if "disk-1" in one.line]
    assert words.index("stat -c") < words.index("qemu-img convert")


@pytest.mark.parametrize(
    "fields",
    [{}, {"format": "qcow2"}, {"format": "qcow2", "preallocation": "metadata"}, {"format": "vpc"}, {"format": "vmdk"}],
    ids=str,
)
def test_qemu_writes_what_nothing_shrinks(
    fields: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No block like another on all disks, none left out, and nothing behind the end."""
    if shutil.which("qemu-img") is None:
        pytest.skip("qemu-utils is not installed")
    monkeypatch.setattr(fill_module, "PIECE_BYTES", 4 * MIB)
    config, shell = StorageConfig(size="16M", cache="writeback", **fields), LocalShell()
    fill, blocks, flat = HostFill(shell, str(tmp_path)), set[bytes](), str(tmp_path / "flat")
    for number in (1, 2):
        path = str(tmp_path / f"disk-{number}.{config.format}")
        make_disk(shell, config, path)
        assert fill.fill(config, path, 9 * MIB) == 9 * MIB
        assert shell.run(["qemu-img", "convert", "-f", config.format, "-O", "raw", path, flat]).ok
        data = Path(flat).read_bytes()
        assert len(data) == 16 * MIB
        assert not any(data[9 * MIB :])
        blocks.update(data[begin : begin + 4096] for begin in range(0, 9 * MIB, 4096))
        assert len(zlib.compress(data[: 9 * MIB])) > 9 * MIB
    assert len(blocks) == 2 * 9 * 256


@pytest.mark.parametrize("is_here", [True, False])
def test_the_host_forgets_the_image_and_no_other_file(tmp_path: Path, is_here: bool) -> None:
    """Here and over ssh; the image is as it was."""
    image, other = tmp_path / "disk-1.raw", tmp_path / "disk-2.raw"
    for path in (image, other):
        path.write_bytes(b"x" * MIB)
    assert LocalShell().run(["sync", str(image), str(other)]).ok
    there = FakeShell().do(re.compile("^sh -c"), lambda one: LocalShell().run(one.argv))
    assert LocalShell().run(["stat", "-f", "-c", "%T", str(tmp_path)]).stdout != "tmpfs\n", "no page of a tmpfs goes"
    for _ in range(20):
        for path in (image, other):
            path.read_bytes()
        evict(LocalShell() if is_here else there, str(image))
        cached = LocalShell().run(["fincore", "-nb", "-o", "PAGES", str(image), str(other)]).stdout.split()
        # somebody who measures on this machine may just have dropped the caches of all
        if cached == ["0", "256"]:
            break
    assert cached == ["0", "256"]
    assert image.read_bytes() == b"x" * MIB

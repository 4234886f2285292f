"""File systems under the image: made on real loop devices, proven, and removed also after their run was killed.

Tests of `storage.host_file_system` and `host.file_systems`; `guest.file_system` has its tests of the latter, too.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ConfigError, ProvisionError, UnsupportedError
from pytest_vmstorage.host.file_systems import look_at, read_mounts
from pytest_vmstorage.host.lease import Lease, LeaseBook, this_process
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.lab.reaper import reap
from pytest_vmstorage.measure.proof.file_systems import of_host_fs
from pytest_vmstorage.results.run import Proof
from pytest_vmstorage.storage import host_file_system as module
from pytest_vmstorage.storage.host_file_system import HostFs, host_fs_bytes, make_host_fs, reap_host_fs, remove_host_fs
from pytest_vmstorage.storage.image import make_disk
from pytest_vmstorage.testing.shell import FakeShell

SHELL = LocalShell()
RUN = f"{os.getpid():010x}"
"""Of this process alone: who reaps it ends all commands that name it."""
KINDS = ("ext4", "xfs", "btrfs")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[str]:
    """A run's folder; what a test left in it is unmounted and detached."""
    path = tmp_path / f"run-{RUN}"
    path.mkdir()
    yield str(path)
    reap_host_fs(SHELL, str(path))


def cell(kind: str, mkfs: str = "", mount: str = "", size: str = "64M", **values: object) -> StorageConfig:
    """A cell on a file system of that kind."""
    return StorageConfig(host_fs=kind, host_mkfs=mkfs, host_mount=mount, size=size, **values)


def made(folder: str, config: StorageConfig, number: int = 1) -> HostFs:
    """The file system, where this machine can have one."""
    try:
        return make_host_fs(SHELL, folder, config, number=number)
    except UnsupportedError as error:
        pytest.skip(str(error))


def left_in(folder: str) -> list[str]:
    """What is mounted, attached or lies below the folder."""
    mounts = [one.mountpoint for one in read_mounts(Path("/proc/self/mountinfo").read_text())]
    loops = []
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        # one of another test may go meanwhile
        with contextlib.suppress(OSError):
            loops.append(path.read_text())
    return [text for text in (*mounts, *loops) if text.startswith(f"{folder}/")] + sorted(
        map(str, Path(folder).iterdir())
    )


def proofs(config: StorageConfig, path: str) -> list[Proof]:
    """What the host says of the file system below that path."""
    return list(of_host_fs(config, look_at(SHELL, path, superblock=bool(config.host_mkfs))))


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_system_is_made_used_and_removed(folder: str, kind: str) -> None:
    """An image fits on it with every block written, and afterwards nothing is left."""
    config = cell(kind, preallocation="full")
    there = made(folder, config)
    assert (there.kind, there.mountpoint, there.image) == (kind, f"{folder}/fs-1", f"{folder}/fs-1.img")
    assert there.free_bytes >= config.size
    assert there.direct or there.note
    make_disk(SHELL, config, f"{there.mountpoint}/disk-1.raw")
    remove_host_fs(SHELL, there)
    assert left_in(folder) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("preallocation", ["off", "falloc", "full"])
def test_preallocation_is_seen_on_every_kind(folder: str, kind: str, preallocation: str) -> None:
    """stat and filefrag tell the same on each of them for a raw image."""
    config = cell(kind, preallocation=preallocation)
    make_disk(SHELL, config, f"{made(folder, config).mountpoint}/disk-1.raw")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", ["1M", "64M", "1G", "20G"])
def test_a_disk_of_any_size_finds_its_room(folder: str, kind: str, size: str) -> None:
    """Made of a sparse file, with what the kind keeps for itself on top."""
    config = cell(kind, size=size)
    there = made(folder, config)
    assert there.free_bytes >= config.size * (2 if kind == "btrfs" else 1)
    assert host_fs_bytes(config) > there.free_bytes


@pytest.mark.parametrize("kind", KINDS)
def test_images_that_take_less_than_the_disk_need_no_room_for_it(folder: str, kind: str) -> None:
    """Operations on whole images write their data alone, and a sparse image may be larger than what is below it."""
    config = cell(kind, size="20G")
    try:
        there = make_host_fs(SHELL, folder, config, number=1, image_bytes=64 * 2**20)
    except UnsupportedError as error:
        pytest.skip(str(error))
    assert 64 * 2**20 <= there.free_bytes < config.size / 10
    make_disk(SHELL, config, f"{there.mountpoint}/disk-1.raw")
    with pytest.raises(ProvisionError, match=r"free, but images of .* may take 256 MiB"):
        make_host_fs(SHELL, folder, cell("ext4", "-m 50", size="20G"), number=2, image_bytes=256 * 2**20)


def test_btrfs_that_does_not_copy_needs_no_second_room() -> None:
    """With nodatacow the image is written in place."""
    assert host_fs_bytes(cell("btrfs", mount="nodatacow", size="8G")) < 10 * 2**30
    assert host_fs_bytes(cell("btrfs", size="8G")) > 16 * 2**30
    assert host_fs_bytes(cell("xfs"), 2**30) > 2**30


OPTIONS = [
    ("ext4", "-b 2048 -I 512 -O ^metadata_csum,inline_data -J size=8 -m 0 -E stride=16,stripe_width=32", "noatime"),
    ("ext4", "", "-o data=writeback,nobarrier,commit=30,nodelalloc"),
    ("ext4", "-i 65536", "barrier=1,data=ordered,delalloc"),
    ("xfs", "-d agcount=8,su=64k,sw=2 -m reflink=0,rmapbt=1 -l size=64m -b size=4096 -i size=1024", "noatime"),
    ("xfs", "-dagcount=2 -n size=8k", "-o logbsize=262144,nodiscard,allocsize=1m,inode64"),
    ("btrfs", "-n 32k --csum xxhash -O no-holes,^extref -m single --data single", "compress=zstd,noatime"),
    ("btrfs", "-M", "-o nodatacow,nodiscard,ssd,autodefrag,commit=60"),
    ("btrfs", "--nodesize=16384 -L lab", "-o compress-force=zlib:5 -o datasum"),
]


@pytest.mark.parametrize(("kind", "mkfs", "mount"), OPTIONS)
def test_options_are_read_back(folder: str, kind: str, mkfs: str, mount: str) -> None:
    """Every one from the finished file system or from the kernel's list; -i alone is no figure that stands there."""
    config = cell(kind, mkfs, mount, size="1G")
    found = proofs(config, f"{made(folder, config).mountpoint}/disk-1.raw")
    found = [proof for proof in found if proof.field != "cache"]
    assert {proof.field for proof in found} == {"host_fs", "host_mkfs", "host_mount"}
    open_ones = [proof for proof in found if proof.status != "proven"]
    assert [(proof.status, proof.field) for proof in open_ones] == [("unprovable", "host_mkfs")] * ("-i 6" in mkfs)
    assert all("does not tell of -i 65536" in proof.why for proof in open_ones)


OTHERS = [
    ("ext4", "", "", "-b 2048", "", "host_mkfs", "-b 4096"),
    ("ext4", "-O ^has_journal", "", "-O has_journal", "", "host_mkfs", "has_journal not there"),
    ("ext4", "-m 5", "", "-m 0", "", "host_mkfs", "-m: "),
    ("xfs", "-d agcount=4", "", "-d agcount=8", "", "host_mkfs", "-d agcount=4"),
    ("xfs", "", "", "-m reflink=0", "", "host_mkfs", "-m reflink=1"),
    ("xfs", "-l size=64m", "", "-l size=80m", "", "host_mkfs", "-l size: 67108864"),
    ("btrfs", "-n 16k", "", "-n 32k", "", "host_mkfs", "-n 16384"),
    ("btrfs", "", "", "-O ^no-holes", "", "host_mkfs", "NO_HOLES there"),
    ("btrfs", "", "", "-M", "", "host_mkfs", "MIXED_GROUPS not there"),
    ("ext4", "", "", "", "noatime", "host_mount", "relatime"),
    ("ext4", "", "data=writeback", "", "data=ordered", "host_mount", "data=writeback"),
    ("xfs", "", "", "", "logbsize=256k", "host_mount", "logbsize=32k"),
    ("xfs", "", "discard", "", "nodiscard", "host_mount", "discard"),
    ("btrfs", "", "compress=zstd", "", "compress=lzo", "host_mount", "compress=zstd:3"),
    ("btrfs", "", "nodatacow", "", "datacow", "host_mount", "nodatacow"),
]


@pytest.mark.parametrize(("kind", "mkfs", "mount", "other_mkfs", "other_mount", "field", "found"), OTHERS)
def test_options_that_are_not_in_effect_are_contradicted(
    folder: str, kind: str, mkfs: str, mount: str, other_mkfs: str, other_mount: str, field: str, found: str
) -> None:
    """The same file system under another label."""
    there = made(folder, cell(kind, mkfs, mount))
    told = proofs(cell(kind, other_mkfs, other_mount), f"{there.mountpoint}/disk-1.raw")
    (wrong,) = [proof for proof in told if proof.status == "contradicted"]
    assert wrong.field == field
    assert found in wrong.found


def test_a_remount_behind_our_back_is_contradicted(folder: str) -> None:
    """The proof reads what is in effect then, and not what mount was told once."""
    config = cell("ext4", mount="noatime")
    there = made(folder, config)
    image = f"{there.mountpoint}/disk-1.raw"
    assert {proof.status for proof in proofs(config, image)} == {"proven"}
    assert SHELL.run(["mount", "-o", "remount,strictatime", there.mountpoint]).ok
    assert [p.field for p in proofs(config, image) if p.status == "contradicted"] == ["host_mount"]


@pytest.mark.parametrize(
    ("kind", "mount", "cache", "is_told"),
    [
        ("ext4", "data=journal", "none", True),
        ("ext4", "", "none", False),
        ("xfs", "", "directsync", False),
        ("btrfs", "", "directsync", True),
        ("btrfs", "compress=zstd", "none", True),
        ("btrfs", "nodatasum", "none", False),
        ("btrfs", "nodatacow", "none", False),
        ("btrfs", "", "writeback", False),
    ],
)
def test_direct_io_that_is_none_is_warned_of(folder: str, kind: str, mount: str, cache: str, is_told: bool) -> None:
    """The option of the cell is in effect, and the host's page cache is used all the same."""
    config = cell(kind, mount=mount, cache=cache)
    found = [proof for proof in proofs(config, f"{made(folder, config).mountpoint}/d") if proof.field == "cache"]
    assert [proof.status for proof in found] == ["unprovable"] * is_told
    assert all("page cache" in proof.why for proof in found)


def test_another_kind_and_a_folder_of_the_host_are_contradicted(folder: str) -> None:
    """ext4 is not xfs, an image beside the mount is not on it, and what was made is not as found."""
    there = made(folder, cell("ext4"))
    inside, beside = f"{there.mountpoint}/disk-1.raw", f"{folder}/disk-1.raw"
    for config, path, found in [
        (cell("xfs"), inside, "ext4 made for this image"),
        (cell("ext4"), beside, "found there"),
        (StorageConfig(size="64M"), inside, "made for this image"),
    ]:
        (wrong,) = [proof for proof in proofs(config, path) if proof.field == "host_fs"]
        assert (wrong.status, found in wrong.found) == ("contradicted", True)


def test_as_found_is_proven_by_the_kind_that_is_there(folder: str) -> None:
    """Below a block device there is none; a host that does not tell proves nothing."""
    config = StorageConfig(size="64M")
    assert {proof.status for proof in proofs(config, f"{folder}/disk-1.raw")} == {"proven"}
    assert {proof.status for proof in of_host_fs(StorageConfig(backing="device:d"), None)} == {"proven"}
    assert {proof.status for proof in of_host_fs(config, None)} == {"unprovable"}


@pytest.mark.parametrize(
    ("kind", "mkfs", "mount", "words"),
    [
        ("ext4", "-O nosuch", "", r"mkfs\.ext4 failed .* with host_mkfs='-O nosuch': Invalid .* option set: nosuch"),
        ("ext4", "-E stride=nosuch", "", r"Invalid stride parameter: nosuch"),
        ("xfs", "-d agcount=nosuch", "", "agcount"),
        ("xfs", "-d su=64k,sw=2 -l size=32m", "", "Log size must be at least"),
        ("btrfs", "--csum nosuch", "", "unknown csum type nosuch"),
        ("ext4", "", "data=nosuch", r"mounting the ext4 failed .* with host_mount='data=nosuch': "),
        ("btrfs", "", "compress=nosuch", "host_mount='compress=nosuch'"),
    ],
)  # fmt: skip
def test_options_that_the_tools_refuse_are_told_in_their_words(
    folder: str, kind: str, mkfs: str, mount: str, words: str
) -> None:
    """One sentence, and nothing is left behind."""
    made(folder, cell(kind), number=2)
    reap_host_fs(SHELL, folder)
    with pytest.raises(ConfigError, match=words) as error:
        make_host_fs(SHELL, folder, cell(kind, mkfs, mount), number=1)
    assert "\n" not in error.value.what
    assert [left for left in left_in(folder) if "fs-1" in left] == []


def test_options_that_leave_no_room_are_told(folder: str) -> None:
    """How much is free, and how much the disk has."""
    made(folder, cell("ext4"), number=2)
    with pytest.raises(ProvisionError, match=r"host_mkfs='-m 50' has .* free, but the disk has 256 MiB"):
        make_host_fs(SHELL, folder, cell("ext4", "-m 50", size="256M"), number=1)


@pytest.mark.parametrize(
    ("mkfs", "mount", "word"),
    [
        ("-t ext2", "", "'-t'"),
        ("-text2", "", "'-text2'"),
        ("-n", "", "'-n'"),
        ("/dev/sda", "", "'/dev/sda'"),
        ("-J device=/dev/sda", "", "'-J device=/dev/sda'"),
        ("-L 'one", "", "No closing quotation"),
        ("", "-o remount", "'remount'"),
        ("", "-o loop=3", "'loop=3'"),
        ("", "bind", "'bind'"),
        ("", "-t vfat", "'-t"),
        ("", "-o noatime /mnt", "'/mnt'"),
        ("", "ro", "'ro'"),
    ],
)
def test_options_that_say_what_or_where_are_refused(mkfs: str, mount: str, word: str) -> None:
    """Before a single command is run."""
    shell = FakeShell()
    with pytest.raises(ConfigError, match=re.escape(word)):
        make_host_fs(shell, "/srv/run-1", cell("ext4", mkfs, mount), number=1)
    assert shell.asked == []


def host(**answers: int) -> FakeShell:
    """A host where a file system can be made, but for the commands that give these codes."""
    shell = FakeShell({"/sys/block/loop3/loop/dio": b"1\n"})
    shell.answer(re.compile("truncate|^(rm|rmdir|chmod|losetup|mkfs|umount)"))
    shell.answer(re.compile("backing_file"), returncode=2)
    shell.answer(re.compile("^readlink"), "")
    shell.answer(re.compile("getss"), "512\n")
    shell.answer(re.compile("^df "), f"Type Avail Filesystem\next4 {2**40} /dev/vda\n")
    shell.answer(re.compile("losetup --find"), "/dev/loop3\n")
    shell.answer(["id", "-u"], "0\n")
    shell.answer(re.compile("mkdir"))
    own = "30 1 7:3 / /srv/run-1/fs-1 rw - xfs /dev/loop3 rw\n"
    shell.answer(re.compile("readlink .*mountinfo"), f"/srv/run-1/fs-1\n{own}")
    for command, code in answers.items():
        text = "mount: unknown filesystem type 'xfs'." if command == "mount" else "refused"
        shell.answer(re.compile(rf"(^|[ ]){command}[. ]"), stderr=text, returncode=code)
    return shell


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"mkfs": 127}, "no mkfs.xfs on the lab host. Install the Debian package xfsprogs there"),
        ({"mount": 32}, "The kernel on the lab host knows no xfs"),
        ({"losetup": 1}, "needs a loop device, and on the lab host there is none: refused"),
        ({"losetup": 127}, "there is no losetup"),
    ],
    ids=str,
)
def test_what_this_host_cannot_is_a_skip_with_its_reason(answers: dict[str, int], words: str) -> None:
    """Each with what to do about it."""
    with pytest.raises(UnsupportedError) as error:
        make_host_fs(host(**answers), "/srv/run-1", cell("xfs"), number=1)
    assert words in str(error.value)
    assert error.value.hint


def test_without_root_it_is_a_skip() -> None:
    """Nothing is tried."""
    shell = FakeShell().answer(["id", "-u"], "1000\n")
    with pytest.raises(UnsupportedError, match="takes root"):
        make_host_fs(shell, "/srv/run-1", cell("xfs"), number=1)


def test_a_loop_device_without_direct_io_is_told() -> None:
    """The same pages are then cached twice."""
    assert make_host_fs(host(), "/srv/run-1", cell("xfs"), number=1).direct
    shell = host()
    shell.files["/sys/block/loop3/loop/dio"] = b"0\n"
    there = make_host_fs(shell, "/srv/run-1", cell("xfs"), number=1)
    assert (there.direct, "caches the same pages again" in there.note) == (False, True)


def test_a_folder_that_is_too_small_is_told() -> None:
    """Before the file is made."""
    shell = host().answer(re.compile("^df "), f"Type Avail Filesystem\next4 {2**28} /dev/vda\n")
    with pytest.raises(ProvisionError, match="has 256 MiB free, but a xfs for a disk of 64 MiB may need 368 MiB"):
        make_host_fs(shell, "/srv/run-1", cell("xfs"), number=1)
    assert not [line for line in shell.lines if "truncate" in line]


def test_a_listed_device_takes_the_loop_devices_place(folder: str) -> None:
    """It is made anew, used, and only unmounted afterwards."""
    helper = made(folder, cell("ext4"), number=1)
    assert SHELL.run(["umount", helper.mountpoint]).ok
    there = make_host_fs(SHELL, folder, cell("ext4", "-L spare"), number=2, device=helper.device)
    assert (there.device, there.image) == (helper.device, "")
    remove_host_fs(SHELL, there)
    assert "spare" in SHELL.run(["dumpe2fs", "-h", helper.device]).stdout


def test_a_process_on_its_way_out_is_waited_for(folder: str) -> None:
    """QEMU takes a second or two to end; one that stays is named by the tool that is told of."""
    there = made(folder, cell("ext4"))
    with subprocess.Popen(["sleep", "1"], cwd=there.mountpoint):
        remove_host_fs(SHELL, there)
    assert left_in(folder) == []


def test_a_program_that_looks_at_a_loop_device_is_waited_for(folder: str) -> None:
    """While it has the device open the kernel keeps the file attached, and losetup says nothing of it."""
    there = made(folder, cell("ext4"))
    with Path(there.device).open("rb") as opened, subprocess.Popen(["sleep", "1"], stdin=opened):
        opened.close()
        remove_host_fs(SHELL, there)
    assert left_in(folder) == []


def test_a_loop_device_that_stays_open_is_told(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what names the process; the file goes from the device when it is closed."""
    monkeypatch.setattr(module, "_PATIENCE_S", 0.3)
    there = made(folder, cell("ext4"))
    with Path(there.device).open("rb"):
        with pytest.raises(ProvisionError, match="but some process still has it open") as error:
            remove_host_fs(SHELL, there)
        assert f"fuser -v {there.device}" in str(error.value.hint)


def dead_lease(folder: str) -> Lease:
    """The lease of a run that was killed, with that folder."""
    owner = this_process().model_copy(update={"started_ticks": 1})
    return Lease(run_id=RUN, owner=owner, expires=time.time() + 60, uri=None, ssh=None, folder=folder)


def test_what_a_killed_run_left_is_unmounted_before_it_is_removed(folder: str, tmp_path: Path) -> None:
    """Mounts, mounts in mounts, and loop devices without a mount, by the folder's name alone."""
    first, second = made(folder, cell("ext4"), 1), made(folder, cell("xfs"), 2)
    inner = f"{first.mountpoint}/inner"
    assert SHELL.run(["sh", "-c", 'mkdir "$1" && mount -t tmpfs none "$1"', "sh", inner]).ok
    assert SHELL.run(["umount", second.mountpoint]).ok
    book = LeaseBook(tmp_path / "leases")
    book.write(dead_lease(folder))
    (sentence,) = map(str, reap(book, SHELL))
    assert sentence.startswith(f"removed what run {RUN}")
    assert not Path(folder).exists()
    assert folder not in SHELL.run(["losetup", "-a"]).stdout
    assert list(book) == []


def test_reaping_says_what_it_unmounted_and_leaves_the_rest(folder: str, tmp_path: Path) -> None:
    """Another run's folder, whose name begins alike, is not touched."""
    alike = f"{folder}-2"
    Path(alike).mkdir()
    made(folder, cell("ext4"))
    other = made(alike, cell("ext4"))
    try:
        said = reap_host_fs(SHELL, folder)
        assert said[0] == f"ext4 on {folder}/fs-1"
        assert re.fullmatch(r"/dev/loop\d+", said[1])
        assert reap_host_fs(SHELL, folder) == []
        assert f"{alike}/fs-1" in left_in(alike)
    finally:
        remove_host_fs(SHELL, other)


def test_a_mount_that_is_in_use_is_never_emptied(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease stays, with a sentence; rm does not go down into another file system."""
    monkeypatch.setattr(module, "_PATIENCE_S", 0.2)
    there = made(folder, cell("ext4"))
    kept = Path(there.mountpoint, "disk-1.raw")
    kept.write_text("x")
    book = LeaseBook(tmp_path / "leases")
    book.write(dead_lease(folder))
    with subprocess.Popen(["sleep", "600"], cwd=there.mountpoint) as user:
        (sentence,) = map(str, reap(book, SHELL))
        user.kill()
    assert f"unmounting {there.mountpoint} failed" in sentence
    assert "fuser" in sentence
    assert kept.read_text() == "x"
    assert len(list(book)) == 1

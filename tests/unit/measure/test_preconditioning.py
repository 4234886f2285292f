"""What a workload may need of a disk and of its room, checked before it runs, and where zeros are stored as nothing."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vmstorage import (
    AioStress,
    Dd,
    Fio,
    Hdparm,
    ImageOperations,
    Ioping,
    Iozone,
    Postmark,
    Sqlite,
    Tar,
    Tiobench,
    Web,
    Workload,
)
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.host.file_systems import FileSystem
from pytest_vmstorage.measure.preconditioning import check_fits, prepare, stored_as_nothing, zeros_vanish
from pytest_vmstorage.measure.system import Paths, Plan, Regions
from pytest_vmstorage.storage.block import BlockPlace
from pytest_vmstorage.storage.disk import HostDisk
from pytest_vmstorage.testing.shell import FakeShell
from pytest_vmstorage.testing.system import FakeSystem
from pytest_vmstorage.workloads.base import Target
from pytest_vmstorage.workloads.fio.job import FioJob

RAW = StorageConfig()
# mountinfo(5) lines as the kernel writes them
BTRFS = "36 27 0:31 / /srv rw,relatime shared:1 - btrfs /dev/loop0 rw,compress=zstd:3,space_cache=v2\n"
EXT4 = "36 27 7:0 / /srv rw,relatime shared:1 - ext4 /dev/loop0 rw\n"


def mounted(kind: str, *options: str) -> FileSystem:
    """A file system with these options."""
    return FileSystem(kind=kind, device="/dev/vdb", mountpoint="/srv", options=("rw", *options))


def test_most_layers_store_zeros_like_data() -> None:
    """ext4, xfs, and a btrfs that does not compress; a qcow2 image as well."""
    plain = [mounted("ext4"), mounted("xfs"), mounted("btrfs", "compress-none", "nodatacow")]
    assert stored_as_nothing(RAW, plain) == ""
    assert stored_as_nothing(StorageConfig(format="qcow2", discard="unmap"), []) == ""


@pytest.mark.parametrize(("value", "words"), [("on", "an order to store none"), ("unmap", "QEMU discards")])
def test_qemu_that_looks_for_zeros(value: str, words: str) -> None:
    """Both values of detect_zeroes that look."""
    assert words in stored_as_nothing(StorageConfig(discard="unmap", detect_zeroes=value), [])


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (mounted("zfs"), "ZFS on /srv may compress, and its default is to"),
        (mounted("btrfs", "compress=zstd:3"), "btrfs on /srv compresses (compress=zstd:3)"),
        (mounted("btrfs", "compress-force=lzo"), "btrfs on /srv compresses (compress-force=lzo)"),
    ],
)
def test_a_file_system_that_compresses(found: FileSystem, sentence: str) -> None:
    """In the guest or below the image, whichever it is of several."""
    assert stored_as_nothing(RAW, [mounted("ext4"), found]) == sentence


@pytest.mark.parametrize("backing", ["zvol", "native:tank"])
@pytest.mark.parametrize(("note", "clause"), [("lz4", "the ZFS volume compresses"), ("off", "")])
def test_a_volume_tells_its_compression(note: str, clause: str, backing: str) -> None:
    """It was read when the volume was made, for a guest or for a native row."""
    place = BlockPlace(
        path="/dev/zvol/tank/v",
        kind="zvol",
        name="tank",
        description=f"dataset tank: dataset tank/vms, volblocksize 16K, compression {note}",
        size_bytes=2**30,
    )
    disk = HostDisk(config=StorageConfig(backing=backing), path=place.path, block=place)
    assert zeros_vanish(FakeShell(), disk) == clause


@pytest.mark.parametrize(("mounts", "clause"), [(BTRFS, "btrfs on /srv compresses (compress=zstd:3)"), (EXT4, "")])
def test_the_hosts_file_system_is_looked_at(mounts: str, clause: str) -> None:
    """That on which the image lies."""
    shell = FakeShell()
    shell.answer(
        ["sh", "-c", '# reads\nreadlink -f -- "$1" && cat /proc/self/mountinfo', "sh", "/srv/d.raw"],
        f"/srv/d.raw\n{mounts}",
    )
    assert zeros_vanish(shell, HostDisk(config=RAW, path="/srv/d.raw")) == clause


@pytest.mark.parametrize(
    ("line", "writes"),
    [
        ("zero_buffers", True), ("zero_buffers=0", False), ("buffer_pattern=0x00", True), ("buffer_pattern=0", True),
        ("buffer_pattern=0xdeadbeef", False), ("refill_buffers", False),
    ],
)  # fmt: skip
def test_a_fio_job_file_may_ask_for_zeros(line: str, writes: bool) -> None:
    """fio's own data are none."""
    text = "[global]\nrw={}\nsize=16M\n" + line + "\n[one]\n"
    assert FioJob(text=text.format("write"), name="file").writes_zeros is writes
    assert not FioJob(text=text.format("read"), name="file").writes_zeros
    assert not Fio(rw="write", size="16M").writes_zeros


KIB, MIB = 2**10, 2**20
FILES = StorageConfig(size="64M", guest_fs="ext4")
PLAN = Plan(rounds=1)
REMEDY = "Make the disk larger with @pytest.mark.storage(size=...), or the workload smaller."

TAKEN: list[tuple[Workload, int | None]] = [
    (Fio(rw="randwrite", size="16M"), 16 * MIB),
    (Fio(rw="read", size="16M", numjobs=2, offset_increment="16M"), 32 * MIB),
    (Tiobench(rw="read", numjobs=2, size="1M"), 2 * MIB),
    (AioStress(size="32M"), 32 * MIB),
    (Dd(rw="write", bs="1M", count=7), 7 * MIB),
    (Hdparm(t=True), None),
    (Ioping(work_size="1M"), MIB),
    (Ioping(directory=True), MIB),
    (Ioping(directory=True, rapid=True), 64 * MIB),
    (Iozone(file_size=("1M", "4M")), 4 * MIB),
    (Postmark(number=10, size=("4k", "12k")), 10 * (8 + 2) * KIB),
    (Sqlite(insertions=100, runs=3), 300 * 52),
    (Sqlite(insertions=100, index=True), 100 * 64),
    (Tar(files=10, folders=2, total_size="1M"), 5 * (MIB + 12 * 8 * KIB)),
    (Web(pages=10, size="5k"), 10 * (8 + 4) * KIB),
    (ImageOperations(data="8M"), 8 * MIB),
]


@pytest.mark.parametrize(("workload", "taken"), TAKEN, ids=[one.label for one, _ in TAKEN])
def test_a_workload_knows_what_it_puts_on_the_disk(workload: Workload, taken: int | None) -> None:
    """In bytes; hdparm chooses by itself."""
    assert workload.bytes_on_disk == taken


def used(folder: Path) -> int:
    """Bytes of the blocks below it."""
    return int(subprocess.run(["du", "-sB1", folder], capture_output=True, text=True, check=True).stdout.split()[0])


@pytest.mark.parametrize(
    "workload", [Tar(files=200, folders=20, total_size="8M"), Sqlite(insertions=3000, synchronous="OFF")]
)
def test_that_is_what_it_really_takes(workload: Workload, tmp_path: Path) -> None:
    """Nothing that fits is refused for it, and nothing is let through that is twice as large as the disk."""
    folder, scratch = tmp_path / "disk", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    target = Target(path="/dev/vdb", size_bytes=0, folder=str(folder), scratch=str(scratch))
    for argv in (*workload.setup(target), workload.argv(target)):
        subprocess.run(argv, check=True, timeout=120, capture_output=True)
    assert workload.bytes_on_disk is not None
    assert used(folder) / 2 < workload.bytes_on_disk
    # headers and blocks of a small tree are counted generously
    assert workload.bytes_on_disk < 1.5 * used(folder)


TOO_LARGE = {
    "tar 400 files 25 folders 9T makes files of 45 TiB, but the disk has 64 MiB.": Tar(total_size="9T"),
    "tar 1000000 files 25 folders 32M makes files of 38.3 GiB, but the disk has 64 MiB.": Tar(files=10**6),
    "sqlite 10000000 insertions makes files of 496 MiB, but the disk has 64 MiB.": Sqlite(insertions=10**7),
    "iozone 1G 64k i=012 makes files of 1 GiB, but the disk has 64 MiB.": Iozone(
        file_size=("1G",), record_size=("64k",)
    ),
    "web 100000 pages 16k c=10 makes files of 1.91 GiB, but the disk has 64 MiB.": Web(pages=10**5),
    "fio randwrite 4k qd1 size=1T needs 1T, but the disk has 64M.": Fio(rw="randwrite", size="1T"),
}


@pytest.mark.parametrize("sentence", TOO_LARGE)
def test_what_is_larger_than_the_disk_is_refused_with_both_sizes(sentence: str) -> None:
    """By what the cell says, without a guest."""
    with pytest.raises(ConfigError) as caught:
        check_fits(FILES, TOO_LARGE[sentence], PLAN)
    assert caught.value.told == f"{sentence} {REMEDY}"


def test_a_fresh_disk_has_room_for_the_files_of_all_rounds() -> None:
    """Which it keeps; a filled one has those of one round."""
    tar, plan = Tar(total_size="8M"), Plan(rounds=8, warmup=0)
    for size, state in ((512, "fresh"), (64, "filled")):
        check_fits(StorageConfig(size=f"{size}M", state=state, guest_fs="ext3"), tar, plan)
    with pytest.raises(ConfigError) as caught:
        check_fits(StorageConfig(size="256M", state="fresh", guest_fs="ext3"), tar, plan)
    assert "8M makes files of 56.6 MiB in each of 8 rounds, which a fresh disk keeps, but the disk has 256 MiB." in str(
        caught.value
    )


@pytest.mark.parametrize("cell", [{"backing": "native"}, {"backing": "partition:p"}, {"backing": "device:d"}])
def test_a_file_system_that_may_be_larger_than_the_cell_is_asked_itself(cell: dict[str, str]) -> None:
    """The host's, or that of a whole device."""
    check_fits(StorageConfig(size="64M", format="raw", **cell), Tar(total_size="1G"), PLAN)


@pytest.mark.parametrize(
    ("workload", "sentence"),
    [
        (Ioping(count=10**9), "ioping read 4k count=1000000000 would take about 277777 h 46 min in each round."),
        (Fio(rw="randread", runtime="90d", time_based=True), "fio randread 4k qd1 would take about 2160 h 00 min"),
    ],
)
def test_what_takes_longer_than_anybody_waits_is_refused(workload: Workload, sentence: str) -> None:
    """Ten years are more than a time limit can be, too."""
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        check_fits(StorageConfig(), workload, PLAN)


def subject_with(free: str, folder: str = "/mnt/vmstorage", config: StorageConfig = FILES) -> FakeSystem:
    """A subject whose df says so."""
    shell = FakeShell()
    shell.answer(re.compile("df -B1"), free)
    paths = Paths(disk=f"{folder}/test", is_file=True, folder=folder)
    return FakeSystem(shell=shell, config=config, regions=Regions(config.size), paths=paths)


@pytest.mark.parametrize(
    ("config", "folder", "remedy"),
    [
        (FILES, "/mnt/vmstorage", REMEDY),
        (
            StorageConfig(size="64M", backing="native"),
            "/srv/run-1",
            "Free some space there, or make the workload smaller.",
        ),
    ],
)
def test_the_file_systems_room_is_asked_before_anything_is_made(
    config: StorageConfig, folder: str, remedy: str
) -> None:
    """Other tests may have filled it, and a native row lies on the host's."""
    subject = subject_with("52428799\n", folder, config)
    tar = Tar(files=1, folders=1, total_size=10 * MIB - 16 * KIB)
    assert tar.bytes_on_disk == 52428800
    with pytest.raises(ConfigError) as caught:
        prepare(subject, tar, PLAN, print)
    assert caught.value.told.endswith(
        f"makes files of 50 MiB, but the file system in {folder} has room for 50 MiB. {remedy}"
    )


@pytest.mark.parametrize("said", ["52428800\n", "", "df: no such option\n"])
def test_with_room_or_where_nobody_can_tell_it_is_run(said: str) -> None:
    """What a workload's own set-up then finds is told by that."""
    prepare(subject_with(said), Tar(files=1, folders=1, total_size=10 * MIB - 16 * KIB), PLAN, print)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Tar(files=10**8),
        lambda: Tar(folders=10**8),
        lambda: Sqlite(insertions=10**8),
        lambda: Postmark(number=10**8),
        lambda: Postmark(subdirectories=10**8),
        lambda: Web(pages=10**8),
    ],
)
def test_counts_have_a_bound(make: Callable[[], Workload]) -> None:
    """An awk that makes a list of them takes all memory of the machine."""
    with pytest.raises(ConfigError, match="Input should be less than or equal to 10000000"):
        make()

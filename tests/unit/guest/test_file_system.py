"""The file system in the guest, its scheduler, and the proofs of both: on what real guests answered."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.fs_options import mkfs_argv, mount_options, read_back, single_options
from pytest_vmstorage.errors import ConfigError, GuestError, ProvisionError, UnsupportedError
from pytest_vmstorage.guest.file_system import GuestFs, frozen, make_guest_fs
from pytest_vmstorage.guest.guest import set_scheduler
from pytest_vmstorage.host.file_systems import FileSystem, mount_of, read_mounts
from pytest_vmstorage.measure.proof.file_systems import in_effect, of_guest_fs
from pytest_vmstorage.results.run import Proof
from pytest_vmstorage.storage.extents import Extent
from pytest_vmstorage.testing.shell import FakeShell

MOUNTS = """\
23 1 254:0 / / ro,relatime - erofs /dev/vda ro,user_xattr,acl,cache_strategy=readaround
28 23 0:24 / /mnt rw,relatime - tmpfs tmpfs rw,inode64
30 28 254:16 / /mnt/vmstorage rw,noatime - xfs /dev/vdb rw,attr2,inode64,logbufs=8,logbsize=256k,noquota
31 28 0:26 / /mnt/with\\040blank rw,relatime shared:1 master:2 - btrfs /dev/vdc rw,compress=zstd:3
"""


def cell(kind: str, mkfs: str = "", mount: str = "") -> StorageConfig:
    """A cell with that file system in the guest."""
    return StorageConfig(guest_fs=kind, guest_mkfs=mkfs, guest_mount=mount)


def guest(free_bytes: int = 10**9) -> FakeShell:
    """A guest whose mkfs and mount do as they are told."""
    shell = FakeShell().answer(re.compile("mkfs|mkdir"))
    size = free_bytes // 100 * 95 // 2**20 * 2**20
    shell.answer(re.compile("truncate"), f"{size}\n")
    shell.files["/proc/self/mountinfo"] = MOUNTS.encode()
    return shell


@pytest.mark.parametrize(
    ("kind", "options", "line"),
    [
        ("ext4", "", "mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0 /dev/vdb"),
        ("ext3", "-b 4096", "mkfs.ext3 -q -F -E nodiscard,lazy_itable_init=0 -b 4096 /dev/vdb"),
        ("ext4", "-E stride=4 -m 0", "mkfs.ext4 -q -F -E stride=4,nodiscard,lazy_itable_init=0 -m 0 /dev/vdb"),
        ("ext4", "-E discard -Estride=4", "mkfs.ext4 -q -F -E discard,stride=4,lazy_itable_init=0 /dev/vdb"),
        ("ext4", "-E lazy_itable_init=1", "mkfs.ext4 -q -F -E lazy_itable_init=1,nodiscard /dev/vdb"),
        ("xfs", "-d agcount=2", "mkfs.xfs -q -f -K -d agcount=2 /dev/vdb"),
        ("btrfs", "-L 'a b'", "mkfs.btrfs -q -f -K -L 'a b' /dev/vdb"),
    ],
)
def test_mkfs_discards_nothing_unless_it_is_asked_to(kind: str, options: str, line: str) -> None:
    """The blocks below stay as they were; inode tables are not left to a thread that writes during the rounds."""
    shell = guest()
    make_guest_fs(shell, "/dev/vdb", cell(kind, options))
    (asked,) = [asked for asked in shell.asked if "mkfs" in asked.line]
    assert shlex.join(asked.argv).endswith(f"sh {line}")
    # without it the UUID that mkfs wants takes 2 s in a guest that booted just now
    assert "virtio_rng" in asked.argv[2]


def test_on_a_loop_device_mkfs_does_as_it_always_does() -> None:
    """There discarding costs nothing."""
    assert mkfs_argv("xfs", "", "/dev/loop0", field="host_mkfs", discard=True) == ("mkfs.xfs", "-q", "-f", "/dev/loop0")
    assert "nodiscard" not in str(mkfs_argv("ext4", "", "/dev/loop0", field="host_mkfs", discard=True))


def test_the_test_file_is_told_with_its_size() -> None:
    """What workloads run on."""
    shell = guest()
    made = make_guest_fs(shell, "/dev/vdb", cell("xfs", mount="-o noatime -o logbsize=256k"))
    assert (made.kind, made.mountpoint, made.path) == ("xfs", "/mnt/vmstorage", "/mnt/vmstorage/test")
    assert made.size_bytes % 2**20 == 0
    assert made.options[:2] == ("rw", "noatime")
    assert any(
        line.endswith("mount -t xfs -o noatime,logbsize=256k -- /dev/vdb /mnt/vmstorage") for line in shell.lines
    )


@pytest.mark.parametrize(
    ("kind", "mount", "percent"), [("xfs", "", "95"), ("btrfs", "", "40"), ("btrfs", "nodatacow", "95")]
)
def test_where_every_write_goes_elsewhere_more_is_left_free(kind: str, mount: str, percent: str) -> None:
    """btrfs keeps an extent until its last block was written anew."""
    shell = guest()
    make_guest_fs(shell, "/dev/vdb", cell(kind, mount=mount))
    (asked,) = [asked for asked in shell.asked if "truncate" in asked.line]
    assert asked.argv[-1] == percent


def test_the_test_files_script_runs_in_a_real_shell(tmp_path: Path) -> None:
    """A whole number of MiB, no block allocated, and room left."""
    shell = guest()
    make_guest_fs(shell, "/dev/vdb", cell("xfs"))
    (script,) = [asked.argv[2] for asked in shell.asked if "truncate" in asked.line]
    file = tmp_path / "test"
    # one percent: the disk below these tests may be larger than a file can be
    done = subprocess.run(["sh", "-c", script, "sh", tmp_path, file, "1"], capture_output=True, text=True, check=True)
    assert file.stat().st_size == int(done.stdout) > 0
    assert int(done.stdout) % 2**20 == 0
    assert file.stat().st_blocks == 0


def test_what_the_host_copied_is_mounted_and_nothing_else() -> None:
    """The test file has the size that it was made with in another guest."""
    shell = guest().answer(re.compile("exec stat"), f"{700 * 2**20}\n")
    made = make_guest_fs(shell, "/dev/vdb", cell("xfs", "-d agcount=2", "noatime"), is_copied=True)
    assert (made.is_copied, made.size_bytes) == (True, 700 * 2**20)
    assert made.mkfs == mkfs_argv("xfs", "-d agcount=2", "/dev/vdb", field="guest_mkfs", discard=False)
    assert not [line for line in shell.lines if "mkfs" in line or "truncate" in line]
    assert any("mount -t xfs -o noatime -- /dev/vdb" in line for line in shell.lines)


MADE = GuestFs(
    kind="ext4",
    mountpoint="/mnt/vmstorage",
    path="/mnt/vmstorage/test",
    size_bytes=2**26,
    mkfs=(),
    found=FileSystem(kind="ext4", device="/dev/vdb", mountpoint="/mnt/vmstorage", options=()),
)
# in the form of filefrag 1.47.0, without its trailing blanks
FILEFRAG = """\
Filesystem type is: ef53
File size of /mnt/vmstorage/test is 67108864 (16384 blocks of 4096 bytes)
 ext:     logical_offset:        physical_offset: length:   expected: flags:
   0:        0..     511:        768..      1279:    512:             last
/mnt/vmstorage/test: 1 extent found
"""


def test_a_copied_test_file_that_is_missing_is_told() -> None:
    """As stat has it; nobody takes it for a disk that is too small."""
    shell = guest().answer(re.compile("exec stat"), stderr="stat: cannot statx: No such file", returncode=1)
    with pytest.raises(GuestError, match=r"There is no copied test file on the guest's xfs: stat: .* No such file"):
        make_guest_fs(shell, "/dev/vdb", cell("xfs"), is_copied=True)


def test_a_frozen_file_system_thaws_and_tells_where_its_file_lies() -> None:
    """Also where the work meanwhile fails."""
    shell = FakeShell().answer(re.compile("--freeze"), FILEFRAG).answer(re.compile("^fsfreeze --unfreeze /mnt/vms"))
    with frozen(shell, MADE, 2**21) as extents:
        assert extents == (Extent(768 * 4096, 2**21),)
        assert len(shell.lines) == 1
    with pytest.raises(LookupError), frozen(shell, MADE, 2**21):
        raise LookupError
    assert [line.startswith("fsfreeze --unfreeze") for line in shell.lines] == [False, True, False, True]
    assert shell.asked[0].argv[-2:] == ("/mnt/vmstorage", "/mnt/vmstorage/test")


def test_where_nothing_stops_the_writing_no_place_is_told() -> None:
    """It is thawed all the same, should it be frozen after all."""
    shell = FakeShell().answer(re.compile("freeze"), FILEFRAG, returncode=1)
    with frozen(shell, MADE, 2**21) as extents:
        assert extents == ()
    assert shell.lines[-1].startswith("fsfreeze --unfreeze")


def test_a_file_system_that_does_not_thaw_is_told() -> None:
    """Nothing could be measured on it."""
    shell = FakeShell().answer(re.compile("--freeze"), FILEFRAG)
    shell.answer(re.compile("unfreeze"), stderr="fsfreeze: unfreeze failed: Invalid argument", returncode=1)
    said = "The guest's ext4 stays frozen: fsfreeze: unfreeze failed: Invalid argument"
    with pytest.raises(GuestError, match=said), frozen(shell, MADE, 2**21):
        pass


def test_a_disk_without_room_is_told() -> None:
    """Not a file of no size."""
    with pytest.raises(GuestError, match="No test file could be made on the guest's ext4: no room"):
        make_guest_fs(guest(10**6), "/dev/vdb", cell("ext4"))


@pytest.mark.parametrize(
    ("mkfs", "mount", "pattern", "code", "stderr", "error", "words"),
    [
        ("-d agcount=x", "", "mkfs", 1, "bad -d agcount=x\nUsage: mkfs.xfs\n/*", ConfigError, "=x. .VM423.$"),
        ("", "", "mkfs", 1, "Filesystem must be larger than 300MB.\nUsage: mkfs.xfs", ProvisionError, "MB. .VM423.$"),
        ("", "", "mkfs", 127, "", UnsupportedError, "Install the Debian package xfsprogs there"),
        ("", "dax=x", "mkdir", 32, "mount: bad option.\n", ConfigError, "guest_mount='dax=x': mount: bad option."),
        ("", "", "mkdir", 32, "mount: unknown filesystem type 'xfs'.", UnsupportedError, "in the guest knows no xfs"),
    ],
)  # fmt: skip
def test_what_the_guest_refuses_is_told_in_its_words(
    mkfs: str, mount: str, pattern: str, code: int, stderr: str, error: type[Exception], words: str
) -> None:
    """One sentence each, of the right kind: the user's, the guest's, or ours."""
    shell = guest().answer(re.compile(pattern), stderr=stderr, returncode=code)
    with pytest.raises(error, match=words):
        make_guest_fs(shell, "/dev/vdb", cell("xfs", mkfs, mount))


def test_bad_options_are_refused_before_the_disk_is_written() -> None:
    """Of mkfs and of mount."""
    for wrong in ({"guest_mkfs": "-d /etc"}, {"guest_mount": "remount"}):
        # a cell with them cannot be made; this one was not checked
        config = cell("ext4").model_copy(update=wrong)
        shell = FakeShell()
        with pytest.raises(ConfigError):
            make_guest_fs(shell, "/dev/vdb", config)
        assert shell.asked == []


@pytest.mark.parametrize(
    "text", ["-o acl,sync -o quota", "-oacl,sync --options=quota", "acl,sync,quota", "acl sync quota"]
)
def test_mount_options_are_read_as_people_write_them(text: str) -> None:
    """With -o or without."""
    assert mount_options("ext4", text, field="guest_mount") == ("acl", "sync", "quota")


def test_mounts_are_read_with_what_stands_between() -> None:
    """Optional fields, octal blanks; the deepest mount holds a path, and of two on one folder the last."""
    mounts = read_mounts(MOUNTS)
    assert [one.mountpoint for one in mounts] == ["/", "/mnt", "/mnt/vmstorage", "/mnt/with blank"]
    assert mounts[3].device == "/dev/vdc"
    for path, kind in [("/mnt/vmstorage/test", "xfs"), ("/mnt/vmstorage2", "tmpfs"), ("/etc", "erofs")]:
        found = mount_of(mounts, path)
        assert found is not None
        assert found.kind == kind
    over = read_mounts(MOUNTS + "40 1 0:9 / /mnt rw - ramfs none rw\n")
    assert mount_of(over, "/mnt/x") == over[-1]
    assert mount_of((), "/x") is None


def statuses(config: StorageConfig, mounted: tuple[FileSystem, ...]) -> dict[str, set[str]]:
    """What the guest's mounts say of the three fields."""
    proofs: list[Proof] = list(of_guest_fs(config, mounted, "/dev/vdb"))
    return {proof.field: {one.status for one in proofs if one.field == proof.field} for proof in proofs}


XFS = read_mounts(MOUNTS)[2:3]


@pytest.mark.parametrize(
    ("config", "mounted", "wrong"),
    [
        (StorageConfig(), (), set()),
        (StorageConfig(), XFS, {"guest_fs", "guest_mkfs", "guest_mount"}),
        (cell("xfs"), XFS, set()),
        (cell("xfs"), (), {"guest_fs"}),
        (cell("ext4"), XFS, {"guest_fs"}),
        (cell("xfs", mount="noatime,logbsize=256k"), XFS, set()),
        (cell("xfs", mount="noatime,logbsize=32k"), XFS, {"guest_mount"}),
        (cell("xfs", mount="nodiratime"), XFS, {"guest_mount"}),
    ],
)
def test_what_is_mounted_proves_or_contradicts(
    config: StorageConfig, mounted: tuple[FileSystem, ...], wrong: set[str]
) -> None:
    """Each field has a word of its own."""
    found = statuses(config, mounted)
    assert found.keys() >= ({"guest_fs", "guest_mkfs", "guest_mount"} if mounted or not wrong else {"guest_fs"})
    assert {field for field, told in found.items() if "contradicted" in told} == wrong
    assert {field for field, told in found.items() if "unprovable" in told} == set()


def mounted(kind: str, options: str) -> FileSystem:
    """A file system with these options."""
    return FileSystem(kind=kind, device="/dev/vdb", mountpoint="/mnt", options=tuple(options.split(",")))


@pytest.mark.parametrize(
    ("asked", "kind", "told", "verdict"),
    [
        ("noatime", "xfs", "rw,noatime", True),
        ("noatime", "xfs", "rw,relatime", False),
        ("strictatime", "xfs", "rw", True),
        ("strictatime", "xfs", "rw,relatime", False),
        ("nodiscard", "btrfs", "rw,discard=async", False),
        ("nodiscard", "btrfs", "rw", True),
        ("discard", "btrfs", "rw,discard", True),
        ("discard=async", "btrfs", "rw,discard=async", True),
        ("compress", "btrfs", "rw,compress=zlib:3", True),
        ("compress=zstd", "btrfs", "rw,compress=zstd:3", True),
        ("compress=zstd", "btrfs", "rw,compress=lzo", False),
        ("compress=zstd:1", "btrfs", "rw,compress=zstd:3", False),
        ("compress=no", "btrfs", "rw,compress=zstd:3", False),
        ("datacow", "btrfs", "rw", True),
        ("datacow", "btrfs", "rw,nodatacow", False),
        ("commit=30", "btrfs", "rw", True),
        ("commit=60", "btrfs", "rw", False),
        ("barrier=0", "ext4", "rw,nobarrier", True),
        ("nobarrier", "ext4", "rw,barrier", False),
        ("nouid32", "ext4", "rw,barrier", False),
        ("logbsize=262144", "xfs", "rw,logbsize=256k", True),
        ("logbsize=256k", "xfs", "rw,logbsize=32k", False),
        ("nosuchdefault", "xfs", "rw", None),
        ("swalloc", "xfs", "rw", False),
    ],
)
def test_a_mount_option_is_in_effect_where_the_kernel_says_so(
    asked: str, kind: str, told: str, verdict: bool | None
) -> None:
    """Or where it prints nothing of it for being the default; None where neither can be known."""
    assert in_effect(asked, mounted(kind, told)) is verdict


def test_what_the_kernel_does_not_print_is_unprovable_with_its_reason() -> None:
    """Neither proven by silence nor contradicted by it."""
    (proof,) = [p for p in of_guest_fs(cell("xfs", mount="noiversion"), XFS, "/dev/vdb") if p.field == "guest_mount"]
    assert proof.status == "unprovable"
    assert "the kernel does not print noiversion" in proof.why


def test_options_of_mkfs_are_taken_apart() -> None:
    """Suboptions one by one, features by name, long names of btrfs by their short ones."""
    assert list(single_options("xfs", "-d agcount=8,su=64k -K -mreflink=0 -i sparse")) == [
        ("-d agcount", "8"), ("-d su", "64k"), ("-K", ""), ("-m reflink", "0"), ("-i sparse", "1"),
    ]  # fmt: skip
    assert list(single_options("ext4", "-O ^has_journal,bigalloc -F -b 4096")) == [
        ("-O", "^has_journal"), ("-O", "bigalloc"), ("-F", ""), ("-b", "4096"),
    ]  # fmt: skip
    assert list(single_options("btrfs", "--nodesize=16k --csum xxhash -M")) == [
        ("-n", "16k"), ("--csum", "xxhash"), ("-M", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "options"), [("xfs", "-l size=16384b"), ("xfs", "-m uuid=generate"), ("ext4", "-U random"), ("xfs", "-K")]
)
def test_what_mkfs_chose_itself_is_not_compared(kind: str, options: str) -> None:
    """A random UUID, and sizes in units of the file system."""
    assert [found for _, found in read_back(kind, options, "log =internal bsize=4096 blocks=16384")] == [None]


def test_options_that_shape_nothing_are_no_claim() -> None:
    """They are mkfs's own manners."""
    assert list(read_back("xfs", "-f -q", "")) == []


@pytest.mark.parametrize("kind", ["ext3", "ext4", "xfs", "btrfs"])
def test_without_a_superblock_no_option_is_proven(kind: str) -> None:
    """The tool that reads it may be missing."""
    options = {"xfs": "-d agcount=8 -l size=64m", "btrfs": "-n 16k -M -O no-holes"}.get(kind, "-b 4096 -O ^x -m 1")
    assert {found for _, found in read_back(kind, options, "")} == {None}


def test_a_scheduler_is_chosen_through_sysfs() -> None:
    """With its module first; the default is left alone."""
    shell = FakeShell()
    set_scheduler(shell, "/dev/vdb", StorageConfig())
    assert shell.asked == []
    shell.answer(re.compile("queue/scheduler"))
    set_scheduler(shell, "/dev/nvme0n1", StorageConfig(scheduler="kyber"))
    assert shell.asked[0].argv[-3:] == ("nvme0n1", "kyber", "kyber-iosched")


def test_a_scheduler_that_the_guests_kernel_lacks_is_a_skip() -> None:
    """With those it has."""
    shell = FakeShell().answer(re.compile("queue/scheduler"), "[mq-deadline] none\n", returncode=1)
    with pytest.raises(UnsupportedError, match=r"no I/O scheduler bfq for /dev/vdb \(it has: mq-deadline, none\)"):
        set_scheduler(shell, "/dev/vdb", StorageConfig(scheduler="bfq"))

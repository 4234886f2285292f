"""File systems under the image and in the guest, schedulers and memory: real guests, a real fio on each, and liars."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage import Fio, StorageConfig
from pytest_vmstorage.errors import AttestationError, ConfigError, WorkloadError
from pytest_vmstorage.guest import domain_xml
from pytest_vmstorage.guest import guest as guest_module
from pytest_vmstorage.guest.domain_xml import GuestSpec
from pytest_vmstorage.guest.file_system import GuestFs, make_guest_fs
from pytest_vmstorage.guest.guest import Guest, set_scheduler
from pytest_vmstorage.host.lease import Lease
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.lab import factory
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.measure.runner import measure
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.storage import disk as hostdisk_module
from pytest_vmstorage.storage.host_file_system import HostFs, make_host_fs, reap_host_fs

pytestmark = pytest.mark.restored

JOB = Fio(rw="randrw", bs="4k", iodepth=8, size="16M", runtime=1, time_based=True)

# sizes that no other test uses: the lab remembers which cells failed
SIZES = itertools.count(512 + 1)
NUMBERS = itertools.count(9001)


def cell(**values: object) -> StorageConfig:
    """A cell that no other test has."""
    return StorageConfig(**values, size=next(SIZES) * 2**20)


def run_fio(lab: Lab, guest: Guest) -> None:
    """A real fio on its disk, or on the file there, gives figures."""
    result = measure(lab.environment(guest.config), JOB, Plan(rounds=1, warmup=0))
    assert result.iops > 10


def proven(guest: Guest, *fields: str) -> None:
    """Every word that is said of these fields proves them."""
    for field in fields:
        assert {proof.status for proof in guest.proof if proof.field == field} == {"proven"}, field


GUEST_CELLS: list[dict[str, object]] = [
    {"guest_fs": "ext3", "scheduler": "kyber", "memory": "256M"},
    {
        "guest_fs": "ext4",
        "guest_mkfs": "-b 2048 -O ^metadata_csum -J size=8",
        "guest_mount": "-o noatime,data=writeback",
        "scheduler": "bfq",
        "queues": 2,
        "vcpus": 2,
    },
    {
        "guest_fs": "xfs",
        "guest_mkfs": "-d agcount=2 -m reflink=0",
        "guest_mount": "noatime,logbsize=256k",
        "scheduler": "bfq",
        "bus": "nvme",
        "vcpus": 2,
        "memory": "1G",
    },
    {"guest_fs": "btrfs", "guest_mkfs": "-n 32k", "guest_mount": "-o compress=zstd", "scheduler": "none"},
    {"guest_fs": "btrfs", "guest_mount": "nodatacow", "bus": "virtio-scsi", "memory": "2G"},
]


@pytest.mark.parametrize("values", GUEST_CELLS, ids=lambda values: f"{values['guest_fs']}-{values.get('scheduler')}")
def test_a_file_system_in_the_guest_is_proven_and_measured(lab: Lab, values: dict[str, object]) -> None:
    """Each kind, with options that are read back; fio writes the test file past the guest's page cache."""
    guest = lab.guest(cell(**values))
    proven(guest, "guest_fs", "guest_mkfs", "guest_mount", "scheduler", "memory")
    made = guest.file_system
    assert made is not None
    assert guest.run(f"stat -c '%s %b' {made.path}").stdout == f"{made.size_bytes} 0\n"
    assert made.size_bytes > 0.3 * guest.config.size
    run_fio(lab, guest)
    pages, blocks = guest.run(f"fincore -n -o PAGES {made.path}; stat -c %b {made.path}").stdout.split()
    assert (int(pages), int(blocks) * 512 >= 16 * 2**20) == (0, True)


def test_a_disk_without_a_file_system_is_proven_so(lab: Lab) -> None:
    """Nothing of it is mounted; the scheduler is the one that was found."""
    guest = lab.guest(cell())
    assert guest.file_system is None
    proven(guest, "guest_fs", "guest_mkfs", "guest_mount", "scheduler", "memory", "host_fs", "host_mkfs", "host_mount")


def test_a_file_on_btrfs_is_rewritten_at_random_without_end(lab: Lab) -> None:
    """Copy on write needs room for old extents: a file of 95 % ended in ENOSPC here."""
    guest = lab.guest(cell(guest_fs="btrfs"))
    made = guest.file_system
    assert made is not None
    size = made.size_bytes // 2**20
    common = f"--filename={made.path} --allow_file_create=0 --direct=1 --ioengine=libaio --size={size}M"
    fill = f"fio --name=fill {common} --rw=write --bs=1M --iodepth=8 --refill_buffers --end_fsync=1"
    again = f"fio --name=again {common} --rw=randwrite --bs=16k --iodepth=32 --loops=2"
    for line in (fill, again):
        done = guest.run(f"{line} --output-format=terse --output=/dev/null", timeout_s=300)
        assert done.ok, done.tail()


def host_fs_made_as(patch: pytest.MonkeyPatch, make: Callable[..., HostFs]) -> None:
    """Let disks lie on what `make` makes of a cell's host_fs."""
    patch.setattr(hostdisk_module, "make_host_fs", make)


HOST_CELLS: list[dict[str, object]] = [
    {"host_fs": "ext4", "host_mkfs": "-b 4096 -O ^has_journal", "host_mount": "-o noatime", "preallocation": "full"},
    {"host_fs": "xfs", "host_mkfs": "-d agcount=8", "host_mount": "logbsize=256k", "format": "qcow2"},
    {"host_fs": "btrfs", "host_mkfs": "--csum xxhash", "host_mount": "-o compress=zstd", "preallocation": "falloc"},
    {"host_fs": "btrfs", "host_mount": "nodatacow", "cache": "writeback", "format": "qcow2", "guest_fs": "ext4"},
]


@pytest.mark.parametrize("values", HOST_CELLS, ids=lambda values: f"{values['host_fs']}-{values.get('host_mount')}")
def test_a_file_system_under_the_image_is_proven_and_measured(lab: Lab, values: dict[str, object]) -> None:
    """Each kind on a loop device, with cache=none too; both sides can have one."""
    guest = lab.guest(cell(**values))
    disk = guest.machine.disk
    assert disk is not None
    assert disk.host_fs is not None
    assert disk.path.startswith(f"{disk.host_fs.mountpoint}/")
    proven(guest, "host_fs", "host_mkfs", "host_mount", "backing")
    run_fio(lab, guest)
    lab.drop()
    lab.factory.settle()
    assert disk.host_fs.mountpoint not in lab.shell.read("/proc/self/mountinfo")
    assert disk.host_fs.image not in lab.shell.run(["losetup", "-a"]).stdout


def caught(lab: Lab, config: StorageConfig) -> AttestationError:
    """The error of a cell that is not what its label says."""
    with pytest.raises(AttestationError) as error:
        lab.guest(config)
    return error.value


def test_a_host_mount_option_that_went_away_is_caught(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remounted without it after it was made."""

    def remounted(shell: Shell, *args: Any, **more: Any) -> HostFs:
        there = make_host_fs(shell, *args, **more)
        assert shell.run(["mount", "-o", "remount,strictatime", there.mountpoint]).ok
        return there

    host_fs_made_as(monkeypatch, remounted)
    config = cell(host_fs="ext4", host_mount="noatime")
    error = caught(lab, config)
    assert (error.field, error.asked) == (f"host_mount of {config}", "noatime")


def test_another_file_system_under_the_image_is_caught(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labelled xfs and made as ext4."""

    def as_ext4(shell: Shell, folder: str, config: StorageConfig, **more: Any) -> HostFs:
        return make_host_fs(shell, folder, config.model_copy(update={"host_fs": "ext4"}), **more)

    host_fs_made_as(monkeypatch, as_ext4)
    error = caught(lab, cell(host_fs="xfs"))
    assert (error.asked, error.found.startswith("ext4 made")) == ("xfs made for this image", True)


def test_a_file_system_that_was_never_made_is_caught(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The image lies on what was found there."""

    def never(shell: Shell, folder: str, config: StorageConfig, *, number: int, **_more: Any) -> HostFs:
        mountpoint = f"{folder}/fs-{number}"
        assert shell.run(["mkdir", mountpoint]).ok
        return HostFs(
            kind=config.host_fs, mountpoint=mountpoint, device="", image="", mkfs=(), options=(), free_bytes=0
        )

    host_fs_made_as(monkeypatch, never)
    assert "found there" in caught(lab, cell(host_fs="xfs")).found


def test_a_host_that_drops_flushes_gives_no_figure(lab: Lab) -> None:
    """ext4 without barriers: the guest's flushes end in the host, as nobody's label says."""
    guest = lab.guest(cell(host_fs="ext4", host_mount="barrier=0", host_mkfs="-O ^has_journal"))
    job = Fio(rw="randwrite", bs="4k", size="16M", fsync=8)
    with pytest.raises(WorkloadError, match=r"INVALID: the guest asked for \d+ flushes, .* not one reached"):
        measure(lab.environment(guest.config), job, Plan(rounds=1, warmup=0))


def made_in_the_guest_as(patch: pytest.MonkeyPatch, **values: object) -> None:
    """Let guests get the file system of another cell."""

    def other(shell: Shell, disk: str, config: StorageConfig, *, is_copied: bool) -> GuestFs:
        return make_guest_fs(shell, disk, config.model_copy(update=values), is_copied=is_copied)

    patch.setattr(guest_module, "make_guest_fs", other)


LIARS: list[tuple[str, dict[str, object], dict[str, object], str]] = [
    ("guest_fs", {"guest_fs": "ext4"}, {"guest_fs": "ext3"}, "ext3 of /dev/vdb"),
    ("guest_mkfs", {"guest_fs": "xfs", "guest_mkfs": "-d agcount=2"}, {"guest_mkfs": "-d agcount=8"}, "-d agcount=8"),
    ("guest_mount", {"guest_fs": "ext4", "guest_mount": "noatime"}, {"guest_mount": "relatime"}, "rw,relatime"),
]


@pytest.mark.parametrize(("field", "labelled", "built", "found"), LIARS, ids=lambda value: str(value)[:12])
def test_a_file_system_in_the_guest_unlike_its_label_is_caught(
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    field: str,
    labelled: dict[str, object],
    built: dict[str, object],
    found: str,
) -> None:
    """Made as another kind, with other options, or mounted with others."""
    made_in_the_guest_as(monkeypatch, **built)
    error = caught(lab, cell(**labelled))
    assert error.field.startswith(f"{field} of ")
    assert error.found.startswith(found)


def test_a_scheduler_that_was_changed_behind_our_back_is_caught(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The facts are read after it was chosen."""

    def chosen_and_changed(shell: Shell, disk: str, config: StorageConfig) -> None:
        set_scheduler(shell, disk, config)
        set_scheduler(shell, disk, config.model_copy(update={"scheduler": "none"}))

    monkeypatch.setattr(guest_module, "set_scheduler", chosen_and_changed)
    error = caught(lab, cell(scheduler="bfq"))
    assert (error.asked, error.found) == ("bfq", "none (guest sysfs)")


def test_other_memory_is_caught(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the domain and by the guest."""
    real = domain_xml.domain_xml

    def smaller(spec: GuestSpec, lease: Lease | None = None) -> str:
        return real(spec.model_copy(update={"memory_bytes": 384 * 2**20}), lease)

    monkeypatch.setattr(factory, "domain_xml", smaller)
    error = caught(lab, cell(memory="512M"))
    assert (error.asked, error.found) == ("512M", "384M (live XML)")


def test_options_that_the_guest_refuses_are_told_in_its_words(lab: Lab) -> None:
    """Of mkfs and of mount."""
    with pytest.raises(ConfigError, match=r"mkfs\.xfs failed in the guest with .*agcount"):
        lab.guest(cell(guest_fs="xfs", guest_mkfs="-d agcount=nosuch"))
    with pytest.raises(ConfigError, match="mounting the ext4 failed in the guest with guest_mount='data=nosuch'"):
        lab.guest(cell(guest_fs="ext4", guest_mount="data=nosuch"))


def test_what_a_run_left_mounted_is_cleared_by_its_folder_alone(lab: Lab) -> None:
    """As the reaper does it after a run was killed, while a guest still ran on it."""
    config = cell(host_fs="xfs")
    there = make_host_fs(lab.shell, lab.factory.folder, config, number=next(NUMBERS))
    assert reap_host_fs(lab.shell, lab.factory.folder) == [f"xfs on {there.mountpoint}", there.device]
    assert there.image not in lab.shell.run(["losetup", "-a"]).stdout


KILLED = """
import os, signal, sys
from pytest_vmstorage import StorageConfig
from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.lab.opening import open_lab

lab = open_lab(LabSettings(folder=sys.argv[1]))
guest = lab.guest(StorageConfig(size="600M", host_fs="xfs", guest_fs="ext4"))
there = guest.machine.disk.host_fs
print(there.mountpoint, there.device, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_after_a_kill_the_file_system_under_a_running_guest_is_cleared(tmp_path: Path) -> None:
    """The guest goes first, then the mount, its loop device, and only then the folder."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path / "disks"], capture_output=True, text=True, timeout=120, check=False
    )
    mountpoint, device = done.stdout.split()
    assert done.returncode == -signal.SIGKILL
    subprocess.run([sys.executable, "-m", "pytest_vmstorage.cli.command", "reap"], capture_output=True, check=True)
    assert mountpoint not in Path("/proc/self/mountinfo").read_text()
    backing = Path(f"/sys/block/{Path(device).name}/loop/backing_file")
    # the device may be another run's by now
    assert not backing.exists() or str(tmp_path) not in backing.read_text()
    assert list((tmp_path / "disks").iterdir()) == []

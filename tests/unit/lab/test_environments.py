"""A guest, the host and a machine as the system under test: looks, pauses, notes about test files.

Tests of `lab.environments` and of `lab.pool`, the protocol that it implements.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import GuestError
from pytest_vmstorage.guest.agent import AgentShell
from pytest_vmstorage.guest.file_system import GuestFs
from pytest_vmstorage.host.file_systems import FileSystem
from pytest_vmstorage.host.shell import SshShell
from pytest_vmstorage.lab.environments import GuestEnvironment, HostEnvironment, guests_file
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.lab.pool import Environment
from pytest_vmstorage.measure.system import Identity, Regions
from pytest_vmstorage.storage.block import BlockPlace
from pytest_vmstorage.storage.disk import HostDisk
from pytest_vmstorage.testing.guest import FakeDomain
from pytest_vmstorage.testing.host import make_host_shell
from pytest_vmstorage.testing.lab import make_lab
from pytest_vmstorage.testing.shell import FakeShell


@pytest.fixture
def shell() -> FakeShell:
    """A healthy host's."""
    return make_host_shell()


@pytest.fixture
def lab(tmp_path: Path, shell: FakeShell) -> Lab:
    """A lab on fakes."""
    return make_lab(tmp_path, shell=shell)


def test_a_guest_that_waits_is_paused_and_written_back(lab: Lab, shell: FakeShell) -> None:
    """Its disk's pages stay in the host's cache: dropping them is a step of a round, which may be left out."""
    made = lab.environment(StorageConfig())
    guest = made.fixture_value
    shell.asked.clear()
    made.pause()
    domain = guest.machine.domain
    assert isinstance(domain, FakeDomain)
    assert domain.paused
    assert f"sync {guest.machine.spec.disk}" in shell.lines
    assert not [line for line in shell.lines if "drop_caches" in line or "nocache" in line]


def test_what_the_guests_kernel_wrote_to_its_console_is_looked_at(lab: Lab, shell: FakeShell) -> None:
    """After the last round, beside QEMU's log and the guest's sysfs."""
    guest, made = lab.guest(StorageConfig()), lab.environment(StorageConfig())
    assert made.recheck() == ""
    shell.files[guest.machine.spec.console] = b"[ 43.1] nvme nvme0: I/O 192 QID 1 timeout, completion polled\n"
    assert made.recheck().startswith("the guest's kernel had trouble with its disk: [ 43.1] nvme nvme0")


def test_an_io_mode_that_qemu_fell_back_from_is_looked_at(lab: Lab, shell: FakeShell) -> None:
    """By QEMU's log, where the cell asked for another than threads."""
    guest = lab.guest(StorageConfig(io="io_uring"))
    shell.files[lab.services.log(guest.machine)] = b"qemu: Unable to use io_uring, falling back to thread pool\n"
    assert lab.environment(guest.config).recheck().startswith("io is no longer io_uring: qemu: Unable to use io_uring")


def test_where_to_look_for_a_guest_is_found_once(lab: Lab, shell: FakeShell) -> None:
    """Its process and the device below its disk stay what they are; another guest's are others."""
    shell.answer(re.compile("df --output=source"), "vda yes 1 2 3\n").answer(re.compile("grep -asH"))
    shell.answer(re.compile("^pgrep -f "), "77\n")
    cells = (StorageConfig(), StorageConfig(format="qcow2"))
    shell.answer(re.compile("^du "), "0 folder\n")
    lab.expect(cells)
    guest, other = map(lab.guest, cells)
    for one in (guest, guest, other):
        lab.environment(one.config).watch()()
    found = [line for line in shell.lines if line.startswith("pgrep -f ")]
    assert [guest.machine.spec.uuid in line for line in found] == [True, False]
    assert other.machine.spec.uuid in found[1]


@pytest.mark.parametrize("is_local", [True, False])
def test_a_look_has_the_counts_with_which_a_series_begins(
    lab: Lab, shell: FakeShell, monkeypatch: pytest.MonkeyPatch, *, is_local: bool
) -> None:
    """They are those of the disk then, on another host too: libvirt's connection to it has them."""
    shell.answer(re.compile("df --output=source"), returncode=3).answer(re.compile("grep -asH"))
    shell.answer(re.compile("^pgrep -f "), returncode=1)
    guest, made = lab.guest(StorageConfig()), lab.environment(StorageConfig())
    domain = guest.machine.domain
    assert isinstance(domain, FakeDomain)
    if not is_local:
        monkeypatch.setattr(made, "_below", object.__new__(SshShell))
    domain.moved = (8192, 4096)
    looked = (made.begin_look()().counts, made.look().counts)
    assert looked == (made.count(), made.count())
    assert looked[0] is not None
    assert looked[0][:4] == (2, 1, 8192, 4096)


class Telling(FakeDomain):
    """A guest whose agent counts what its disks moved, as qemu-ga 7.2 answered on Debian 12; what fails is not told."""

    told: Any = None

    def _guest_get_diskstats(self) -> Any:
        return self.told


DISKSTATS = [
    {"name": "vda", "major": 254, "minor": 0, "stats": {"read-sectors": 46056, "write-sectors": 0, "read-ios": 379}},
    {"name": "vdb", "major": 254, "minor": 16, "stats": {"read-sectors": 114, "write-sectors": 58416, "read-ios": 15}},
]


def test_a_guests_agent_tells_what_its_disk_moved(tmp_path: Path, shell: FakeShell) -> None:
    """In sectors of 512 bytes, of that disk; the file with the same numbers is not read."""
    shell.answer(re.compile("df --output=source"), returncode=3).answer(re.compile("grep -asH"))
    shell.answer(re.compile("^pgrep -f "), returncode=1)
    lab = make_lab(tmp_path, shell=shell)
    guest, made = lab.guest(StorageConfig()), lab.environment(StorageConfig())
    domain = guest.machine.domain
    assert isinstance(domain, FakeDomain)
    domain.monitor_answers = {"query-blockstats": []}
    domain.shell.files["/sys/block/vdb/stat"] = b"1 0 8 0 1 0 16 0 0 0 0"
    old = made.look().moved
    assert (old.guest_read_bytes, old.guest_written_bytes) == (8 * 512, 16 * 512)
    domain.__class__ = Telling
    Telling.told = DISKSTATS
    still = made.look().moved
    assert still == old, "an agent that does not know it is asked once"
    guest.shell = AgentShell(domain)
    new = made.look().moved
    assert made.begin_look()().moved == new
    assert (new.guest_read_bytes, new.guest_written_bytes) == (114 * 512, 58416 * 512)
    for told in ([], DISKSTATS[:1], [{**DISKSTATS[1], "stats": {"read-ios": 15}}]):
        Telling.told = told
        assert made.look().moved == old


MADE = GuestFs(
    kind="ext4",
    mountpoint="/mnt/vmstorage",
    path="/mnt/vmstorage/test",
    size_bytes=256 * 2**20,
    mkfs=(),
    found=FileSystem(kind="ext4", device="/dev/vdb", mountpoint="/mnt/vmstorage", options=()),
)
PARTITION = BlockPlace(path="/dev/sdx1", kind="partition", name="p1", description="partition p1", size_bytes=2**30)
VOLUME = PARTITION.model_copy(update={"kind": "lvm"})


def on(config: StorageConfig, block: BlockPlace | None = None) -> HostDisk:
    """That cell's disk."""
    return HostDisk(config=config, path="/srv/disk", block=block)


EXT4 = StorageConfig(guest_fs="ext4")


@pytest.mark.parametrize(
    ("disk", "made", "keep", "words"),
    [
        (on(EXT4), MADE, False, "256M on ext4 in the guest, removed with the guest's disk"),
        (
            on(EXT4),
            MADE,
            True,
            "256M on ext4 in the guest, removed with the guest's disk, unless its guest is kept (--vm-keep)",
        ),
        (
            on(EXT4),
            MADE.model_copy(update={"is_copied": True}),
            False,
            "256M on ext4 in the guest, its file system copied on the host from another guest of this run, its data its"
            " own, removed with the guest's disk",
        ),
        (on(EXT4, VOLUME), MADE, False, "256M on ext4 in the guest, removed with the guest's disk"),
        (on(EXT4, PARTITION), MADE, False, "256M on ext4 in the guest, left on the partition"),
    ],
)
def test_what_becomes_of_a_test_file(disk: HostDisk, made: GuestFs, keep: bool, words: str) -> None:
    """It goes with its disk; what is the host's own stays as it is."""
    assert guests_file(disk, made, keep=keep) == {"test file": words}


@pytest.mark.parametrize(
    ("disk", "words"),
    [
        (on(StorageConfig(backing="native")), "1G on the host, removed after the row"),
        (on(StorageConfig(backing="native:p1"), PARTITION), None),
    ],
)
def test_a_file_of_the_hosts_goes_and_a_device_is_no_file(disk: HostDisk, words: str | None, lab: Lab) -> None:
    """The row says what becomes of it."""
    made = HostEnvironment(disk, FakeShell(), Identity(host="local"), "/srv", lab.services)
    assert made.set_host().get("test file") == words


def test_a_whole_disk_of_a_guests_is_no_file(lab: Lab) -> None:
    """Nothing is said of one."""
    assert "test file" not in lab.environment(StorageConfig()).set_host()


QCOW2 = StorageConfig(format="qcow2")


def waiting(lab: Lab) -> Environment:
    """An emulated guest that waits and begins alike; it counts how often it is prepared."""
    made = SimpleNamespace(
        config=QCOW2, is_emulated=True, regions=Regions(2**30), resume=lambda: None, pause=lambda: None
    )
    lab.services.prefetch.alike = [QCOW2]
    lab.pool.waiting[QCOW2] = cast("Environment", made)
    return lab.pool.waiting[QCOW2]


@pytest.mark.parametrize("is_emulated", [True, False])
def test_only_where_guests_are_emulated_waiting_ones_are_prepared(tmp_path: Path, *, is_emulated: bool) -> None:
    """Under KVM the guest's own writing takes as long, and is its own cell's."""
    lab = make_lab(tmp_path, shell=make_host_shell())
    lab.services.is_emulated = is_emulated
    made, other = lab.environment(StorageConfig()), waiting(lab)
    made.note_need(2**20)
    assert lab.services.prefetch.fill_bytes(QCOW2) == (2**20 if is_emulated else 0)
    prepared: list[object] = []
    with made.alongside(prepared.append):
        pass
    assert prepared == ([other] if is_emulated else [])


FILEFRAG = """\
Filesystem type is: ef53
File size of /mnt/vmstorage/test is 536870912 (131072 blocks of 4096 bytes)
 ext:     logical_offset:        physical_offset: length:   expected: flags:
   0:        0..     255:        768..      1023:    256:             last
/mnt/vmstorage/test: 1 extent found
"""


def shell_in(made: GuestEnvironment) -> FakeShell:
    """The shell that the guest's agent runs commands on."""
    domain = made.guest.machine.domain
    assert isinstance(domain, FakeDomain)
    return domain.shell


@pytest.mark.parametrize(
    ("is_emulated", "is_restored", "other", "is_taken"),
    [
        (True, True, {"cache": "unsafe"}, True),
        (True, True, {"format": "qcow2"}, True),
        (True, True, {"bus": "virtio-scsi"}, False),
        (True, False, {"cache": "unsafe"}, False),
        (False, True, {"cache": "unsafe"}, False),
    ],
)
def test_of_a_filled_test_file_other_disks_are_made(
    tmp_path: Path, other: dict[str, str], *, is_emulated: bool, is_restored: bool, is_taken: bool
) -> None:
    """Where a cell that begins alike has no guest yet, and its guest will be restored under emulation."""
    shell = make_host_shell().answer(re.compile("^truncate|^sync|^qemu-img convert|^qemu-io"))
    shell.answer(re.compile("^filefrag -v"), FILEFRAG).answer(re.compile("^qemu-img map"), "[]")
    lab = make_lab(tmp_path, shell=shell)
    lab.services.is_emulated = is_emulated
    following = EXT4.model_copy(update=other)
    lab.services.prefetch.alike = [EXT4, following]
    made = lab.environment(EXT4)
    assert isinstance(made, GuestEnvironment)
    object.__setattr__(made.guest.machine, "is_restored", is_restored)
    made.regions.written_bytes = 2**20
    guest = shell_in(made)
    guest.answer(re.compile("freeze"), FILEFRAG)
    made.share_filled()
    template = lab.factory.templates.find(following, 2**20)
    assert (template is not None) is is_taken
    assert len([line for line in guest.lines if "freeze" in line]) == 2 * is_taken
    # once is enough
    made.share_filled()
    assert len([line for line in guest.lines if "freeze" in line]) == 2 * is_taken


def test_a_guest_whose_file_system_stays_frozen_is_ended(tmp_path: Path) -> None:
    """It would be found dead at its turn; no tool waits for it."""
    lab = make_lab(tmp_path, shell=make_host_shell())
    lab.services.is_emulated = True
    lab.services.prefetch.alike = [EXT4.model_copy(update={"cache": "unsafe"})]
    made = lab.environment(EXT4)
    assert isinstance(made, GuestEnvironment)
    object.__setattr__(made.guest.machine, "is_restored", True)
    shell = shell_in(made).answer(re.compile("--freeze"), FILEFRAG)
    shell.answer(re.compile("unfreeze"), stderr="fsfreeze: it is busy", returncode=1)
    with pytest.raises(GuestError, match="stays frozen: fsfreeze: it is busy"):
        made.share_filled()
    assert not made.is_alive()


def test_of_a_file_whose_place_nobody_knows_no_disk_is_made(tmp_path: Path) -> None:
    """A hole in it, or blocks that are not written: guests of later cells fill their own."""
    lab = make_lab(tmp_path, shell=make_host_shell())
    lab.services.is_emulated = True
    following = EXT4.model_copy(update={"cache": "unsafe"})
    lab.services.prefetch.alike = [following]
    made = lab.environment(EXT4)
    assert isinstance(made, GuestEnvironment)
    object.__setattr__(made.guest.machine, "is_restored", True)
    made.regions.written_bytes = 2**21
    shell_in(made).answer(re.compile("freeze"), FILEFRAG)
    made.share_filled()
    assert lab.factory.templates.find(following, 2**21) is None


def test_the_host_itself_prepares_nothing(lab: Lab) -> None:
    """Its figures are those of its disk, also where guests are emulated."""
    made = HostEnvironment(on(StorageConfig(backing="native")), FakeShell(), Identity(host="h"), "/srv", lab.services)
    waiting(lab)
    made.note_need(2**20)
    assert lab.services.prefetch.fill_bytes(QCOW2) == 0
    prepared: list[object] = []
    with made.alongside(prepared.append):
        pass
    assert prepared == []

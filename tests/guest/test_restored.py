"""Guests that are restored from a saved one: as a booted one in all that is proven, and nobody's twin."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vmstorage import Fio, StorageConfig
from pytest_vmstorage.errors import AttestationError, GuestError
from pytest_vmstorage.guest import guest
from pytest_vmstorage.guest.guest import Guest
from pytest_vmstorage.guest.restore.parking import WARM, WARM_MODULE
from pytest_vmstorage.guest.restore.restoring import Restoring
from pytest_vmstorage.guest.restore.states import States, remove_states
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.measure.runner import measure
from pytest_vmstorage.measure.system import Plan

MIB = 2**20
BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
RANDOM = "cat /proc/sys/kernel/random/uuid /proc/sys/kernel/random/boot_id; od -An -tx1 -N16 /dev/urandom"


class Saved:
    """A lab that restores its guests, from states in a folder of their own."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.said: list[str] = []
        self._restoring: Restoring | None = None
        self.begin_anew()

    def begin_anew(self) -> None:
        """As another run would: with nothing of its own yet."""
        own = self.lab.factory.folder
        self.close()
        LocalShell().run(["sh", "-c", f"rm -f {own}/state-*"])
        self.states = States(LocalShell(), str(self.folder), own, boot_id=BOOT_ID, conditions={})
        self._restoring = self.lab.provisioner.restoring = Restoring(
            self.lab.hypervisor,
            self.states,
            xml_of=self.lab.factory.xml,
            note=self.lab.held.note_domain,
            timeout_s=60,
            say=self.said.append,
        )
        self.lab.factory.begin_by(self.lab.provisioner.restoring.begin)

    def close(self) -> None:
        """Drop the guest, and let the states go."""
        self.lab.drop()
        if self._restoring is not None:
            self._restoring.close()

    def guest(self, config: StorageConfig) -> Guest:
        """A guest of that cell, which was not there before."""
        self.lab.drop()
        return self.lab.guest(config)

    @property
    def kept(self) -> list[Path]:
        """The states that are kept."""
        return sorted(path for path in self.folder.glob("state-*") if path.suffix != ".sum")


@pytest.fixture(scope="module")
def saved(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Saved]:
    """The lab, set back afterwards."""
    restoring = lab.provisioner.restoring
    made = Saved(lab, tmp_path_factory.mktemp("states"))
    yield made
    made.close()
    lab.provisioner.restoring = restoring
    lab.factory.begin_by(None)


@pytest.mark.parametrize("bus", ["virtio-blk", "virtio-scsi"])
def test_one_saved_guest_serves_every_disk_of_a_bus(saved: Saved, bus: str) -> None:
    """Each sees its own disk's size and write cache, as proven as after a boot, and is measured as ever."""
    saved.begin_anew()
    before = len(saved.kept)
    cells = (
        StorageConfig(bus=bus, format="raw", cache="writeback", size="64M"),
        StorageConfig(bus=bus, format="qcow2", cache="directsync", size="96M"),
        StorageConfig(bus=bus, format="qcow2", cache="none", size="64M", encryption="luks"),
        StorageConfig(bus=bus, format="raw", cache="none", size="64M", total_iops_sec=500),
    )
    for cell in cells:
        made = saved.guest(cell)
        assert made.machine.is_restored, saved.said
        assert made.facts.disk_bytes == cell.size
        assert made.facts.write_cache == ("write through" if cell.cache == "directsync" else "write back")
        assert {one.status for one in made.proof if one.field in ("size", "cache", "bus", "format")} == {"proven"}
        measured = measure(
            saved.lab.environment(made.config), Fio(rw="randwrite", bs="4k", size="8M"), Plan(rounds=1, warmup=0)
        )
        assert measured.iops > 1
        assert measured.hygiene["boot"] == "restored"
    assert len(saved.kept) == before + 1


def test_a_restored_guest_need_not_read_what_every_guest_runs(saved: Saved) -> None:
    """Programs are in its cache, and ext4's driver is loaded; addresses are as after a boot."""
    made = saved.guest(StorageConfig(size="64M"))
    assert made.machine.is_restored, saved.said
    for tool in WARM:
        pages = made.run(f'fincore -n -o pages "$(readlink -f "$(command -v {tool})")"')
        assert int(pages.stdout) > 0, (tool, pages)
    assert WARM_MODULE in made.run("cat /proc/filesystems").stdout.split()
    is_random = made.run("cat /proc/sys/kernel/randomize_va_space").stdout.strip() != "0"
    assert is_random == (saved.lab.accel.used != "tcg")


def test_a_fio_waits_in_it_to_fill_its_disk(saved: Saved) -> None:
    """The region has its data, and nothing waits any more; where nothing is to be filled nothing waits at all."""
    begun = "ps -o args= -C fio"
    made = saved.guest(StorageConfig(size="64M"))
    assert made.machine.is_restored, saved.said
    assert made.run(begun).stdout.count("parked") == 1
    assert made.run("cat /proc/$(pidof fio)/wchan").stdout == "wait_for_partner"
    measure(saved.lab.environment(made.config), Fio(rw="randread", bs="4k", size="16M"), Plan(rounds=1, warmup=0))
    assert made.run(begun).stdout == ""
    zeros = made.run(f"for at in 0 8 15; do dd if={made.disk} bs=1M skip=$at count=1 | tr -d '\\0' | wc -c; done")
    assert all(int(count) > 0.99 * MIB for count in zeros.stdout.split()), zeros
    assert made.run(f"dd if={made.disk} bs=1M skip=16 count=1 | tr -d '\\0' | wc -c").stdout.strip() == "0"
    assert saved.guest(StorageConfig(size="64M", state="fresh")).run(begun).stdout == ""


def test_another_machine_has_a_state_of_its_own(saved: Saved) -> None:
    """Memory, processors and queues are the saved guest's, and no two guests with other ones share it."""
    names = {
        saved.states.name(saved.lab.factory.spec("n", "u", saved.guest(cell).machine.disk, "tcg"))
        for cell in (StorageConfig(size="32M"), StorageConfig(size="32M", memory="384M"))
    }
    assert len(names) == 2


def test_no_two_restored_guests_share_random_numbers(saved: Saved) -> None:
    """The kernel is told that it is another guest now (vmgenid), before it gives its first number away."""
    cell = StorageConfig(size="64M")
    given = []
    for _ in range(3):
        made = saved.guest(cell)
        assert made.machine.is_restored, saved.said
        given += made.run(RANDOM).stdout.split("\n")[:3]
        assert "crng reseeded due to virtual machine fork" in made.run("dmesg").stdout
    assert len(set(given)) == 9, given


def test_the_clock_is_right(saved: Saved) -> None:
    """A guest that was saved a while ago does not live in that time."""
    saved.guest(StorageConfig(size="64M"))
    time.sleep(5)
    # what it is sent is the time at some moment from here on, however long it then takes to set its clock
    before = time.time()
    made = saved.guest(StorageConfig(size="64M", format="qcow2"))
    assert made.machine.is_restored, saved.said
    told = float(made.run("date +%s.%N").stdout)
    assert before < told < time.time() + 0.5


@pytest.mark.quick
def test_a_damaged_state_is_made_anew(saved: Saved) -> None:
    """Whatever was written into the file: the next run neither restores it nor fails."""
    cell = StorageConfig(size="64M")
    saved.guest(cell)
    (kept,) = (path for path in saved.kept if path.name == saved.states.name(saved.lab.guest(cell).machine.spec))
    with kept.open("r+b") as stream:
        stream.seek(9 * MIB)
        stream.write(b"damage")
    damaged = kept.read_bytes()
    saved.begin_anew()
    assert saved.guest(cell).machine.is_restored, saved.said
    assert kept.read_bytes() != damaged


def test_a_restored_guest_that_fails_is_booted(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cell has its figure all the same, the user a sentence, and nobody that state any more."""
    cell = StorageConfig(size="64M", cache="writethrough")

    def fail(_shell: object) -> str:
        raise GuestError("its disk is gone.")

    monkeypatch.setattr(guest, "wait_until_awake", fail)
    saved.begin_anew()
    made = saved.guest(cell)
    assert not made.machine.is_restored
    assert saved.states.name(made.machine.spec) not in {path.name for path in saved.kept}
    assert "so such guests are booted: its disk is gone." in saved.said[-1]
    saved.begin_anew()


def test_disks_of_ata_have_states_of_their_own(saved: Saved) -> None:
    """QEMU saves what a SATA disk says of itself with it, so that another one would go by its name."""
    before = saved.kept
    for size, cache, states in (
        ("64M", "none", 1),
        ("96M", "none", 2),
        ("64M", "unsafe", 2),
        ("96M", "writeback", 2),
    ):
        made = saved.guest(StorageConfig.model_validate({"bus": "sata", "size": size, "cache": cache}))
        assert made.machine.is_restored, saved.said
        assert made.facts.disk_bytes == made.config.size
        assert len([path for path in saved.kept if path not in before]) == states


@pytest.mark.parametrize("cache", ["writethrough", "directsync"])
@pytest.mark.parametrize("bus", ["virtio-blk", "virtio-scsi", "sata", "ide"])
def test_what_is_to_be_flushed_with_each_write_is(saved: Saved, bus: str, cache: str) -> None:
    """By a restored guest as by a booted one; QEMU would turn an ATA disk's write cache on, so these are booted."""
    # a device of its own, whose flushes nobody else makes
    cell = StorageConfig.model_validate({"bus": bus, "cache": cache, "host_fs": "xfs", "size": "320M"})
    made = saved.guest(cell)
    assert made.machine.is_restored is bus.startswith("virtio"), saved.said
    assert {one.status for one in made.proof if one.where == "QMP query-block, writeback"} == {"proven"}
    job = Fio(rw="randwrite", bs="4k", size="4M", io_size="1M")
    (sample,) = measure(saved.lab.environment(made.config), job, Plan(rounds=1, warmup=0)).samples
    assert sample.moved.host_flushes is not None
    assert sample.moved.host_flushes >= (sample.moved.layer_writes or 0) // 2 > 100


def test_what_qemu_cannot_save_is_booted(saved: Saved) -> None:
    """Its NVMe controller; the row says so."""
    made = saved.guest(StorageConfig(bus="nvme", size="64M"))
    assert not made.machine.is_restored
    assert made.machine.notes["boot"] == "fresh"


def test_a_cell_that_cannot_be_does_not_cost_the_others_their_state(saved: Saved) -> None:
    """QEMU 7.2 has no write-through disk on usb: that is no fault of the saved guest."""
    with pytest.raises(AttestationError, match="cache of"):
        saved.guest(StorageConfig(bus="usb", cache="writethrough", size="64M"))
    assert saved.guest(StorageConfig(bus="usb", cache="none", size="64M")).machine.is_restored, saved.said


def test_saved_guests_are_told_and_removed(saved: Saved) -> None:
    """As `vmstorage reap` does."""
    saved.guest(StorageConfig(size="64M"))
    count = len(saved.kept)
    assert count >= 1
    assert remove_states(LocalShell(), str(saved.folder), look_only=True) == count
    assert remove_states(LocalShell(), str(saved.folder)) == count
    assert not saved.folder.exists()
    assert remove_states(LocalShell(), str(saved.folder)) == 0

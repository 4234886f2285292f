"""The factory of guests: a lease before anything is made, and nothing left whatever goes wrong."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import LabHost
from pytest_vmstorage.errors import AttestationError, ForeignPathError, GuestDiedError, HypervisorError, ProvisionError
from pytest_vmstorage.guest.boot import BootFiles
from pytest_vmstorage.host.guard import Guard
from pytest_vmstorage.host.lease import Lease, LeaseBook, RunLease, this_process
from pytest_vmstorage.host.shell import CommandResult
from pytest_vmstorage.lab.factory import GuestFactory, hold
from pytest_vmstorage.testing.guest import FakeDomain, FakeHypervisor
from pytest_vmstorage.testing.host import make_host_shell
from pytest_vmstorage.testing.lab import make_guest_shell
from pytest_vmstorage.testing.shell import Asked, FakeShell

RAW = StorageConfig()
QCOW2 = StorageConfig(format="qcow2")
FOLDER = "/srv/vm/run-0123456789"


class Place:
    """A pool on fakes, and the book its lease is in."""

    def __init__(self, folder: Path, shell: FakeShell | None = None) -> None:
        self.shell = shell or make_host_shell()
        self.hypervisor = FakeHypervisor(self.boot)
        self.book = LeaseBook(folder)
        self.leased_at_start: list[bool] = []
        self.refuse: Callable[..., object] | None = None
        lease = Lease(
            run_id="0123456789", owner=this_process(), expires=4e9, uri=None, ssh=None, folder=FOLDER, root="/tmp/r"
        )
        self.held, self.teardown = RunLease(self.book, lease), ExitStack()
        hold(self.held, self.shell, self.teardown)
        self.pool = GuestFactory(
            shell=self.shell,
            host=LabHost(name="local", uri=None, ssh=None, folder="/srv/vm"),
            hypervisor=self.hypervisor,
            boot=BootFiles(emulator="/usr/bin/qemu", kernel="/k", initrd="/i", root="/r"),
            lease=self.held,
        )
        self.teardown.push(self.held.removal(self.pool.close))

    def close(self) -> None:
        """Tear all down, as a lab does."""
        self.teardown.close()

    def boot(self, xml: str) -> FakeDomain:
        """Boot a guest, and look whether the lease on disk names it by then."""
        self.leased_at_start.append(any(f"<uuid>{uuid}</uuid>" in xml for uuid in self.leased()))
        domain = FakeDomain(make_guest_shell())
        if self.refuse is not None:
            domain.monitor = self.refuse  # type: ignore[method-assign]
        return domain

    def leased(self) -> tuple[str, ...]:
        """Guests that the lease on disk names."""
        return next((lease.domains for lease in self.book), ())

    def is_empty(self) -> bool:
        """Whether no guest runs, no disk is there and no lease."""
        return not (self.hypervisor.running or self.shell.files or list(self.book))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A healthy host."""
    return Place(tmp_path)


def test_a_lease_is_on_disk_before_its_guest_starts(place: Place) -> None:
    """Whatever kills the run after this, the next one knows what to remove."""
    machines = [place.pool.make(RAW, "tcg"), place.pool.make(QCOW2, "tcg")]
    assert place.leased_at_start == [True, True]
    assert place.leased() == tuple(machine.spec.uuid for machine in machines)


def test_a_lease_is_on_disk_before_its_disk_is_made(place: Place) -> None:
    """The disk may take minutes, in which the run may be killed."""
    seen = []

    def create(asked: Asked) -> CommandResult:
        seen.append(len(place.leased()))
        return make_host_shell().run(asked.argv)

    place.shell.do(re.compile("qemu-img create"), create)
    place.shell.answer(re.compile("^stat "), f"{RAW.size} 8 512")
    place.shell.answer(re.compile("^filefrag "))
    place.pool.make(RAW, "tcg")
    assert seen == [1]


def test_a_machine_is_what_was_asked_for(place: Place) -> None:
    """Its disk lies in the run's folder, its XML is the cell's, its image was proved, and each step was said."""
    said: list[str] = []
    machine = place.pool.make(QCOW2, "tcg", said.append)
    assert machine.config == QCOW2
    assert machine.spec.disk == f"{FOLDER}/disk-1.qcow2"
    assert machine.domain_name == "vms-0123456789-1"
    assert 'type="qcow2"' in machine.domain.xml()
    assert machine.image is not None
    assert machine.image.unwritten is False
    assert said == ["making disk", "booting"]
    reserved = place.pool.make(QCOW2.model_copy(update={"preallocation": "falloc"}), "tcg")
    assert reserved.image is not None
    assert reserved.image.unwritten is True


def test_a_cell_may_name_its_emulator(place: Place) -> None:
    """The others, and canaries, have the host's own."""
    cells = (StorageConfig(emulator="/opt/qemu-9/bin/qemu"), RAW, None)
    there = [ElementTree.fromstring(place.pool.make(config, "tcg").domain.xml()) for config in cells]
    assert [xml.findtext("devices/emulator") for xml in there] == [
        "/opt/qemu-9/bin/qemu",
        "/usr/bin/qemu",
        "/usr/bin/qemu",
    ]


def test_an_nvme_disk_is_limited_as_libvirt_limits_others(place: Place) -> None:
    """By the same command, once, as soon as its guest runs; another disk has its limits in the XML."""
    nvme = StorageConfig(bus="nvme", total_iops_sec=200)
    machine = place.pool.make(nvme, "tcg")
    (block,) = machine.domain.monitor("query-block")
    assert (block["inserted"]["iops"], block["inserted"]["bps"]) == (200, 0)
    assert "iotune" not in machine.domain.xml()
    assert "<total_iops_sec>200<" in place.pool.make(StorageConfig(total_iops_sec=200), "tcg").domain.xml()


def test_an_nvme_disk_that_cannot_be_limited_is_no_cell(place: Place) -> None:
    """Its guest has started by then, and is ended."""

    def refuse(command: str, **_arguments: object) -> object:
        raise HypervisorError(f"monitor command {command} failed: no.")

    place.refuse = refuse
    with pytest.raises(HypervisorError, match="monitor command block_set_io_throttle failed"):
        place.pool.make(StorageConfig(bus="nvme", total_bytes_sec="50M"), "tcg")
    assert not place.hypervisor.running
    assert place.shell.files == {}


def test_a_canary_has_no_disk(place: Place) -> None:
    """Nothing is made for it, and nothing removed."""
    machine = place.pool.make(None, "kvm")
    assert (machine.image, machine.spec.disk, machine.spec.accel) == (None, "", "kvm")
    place.pool.discard(machine)
    place.pool.settle()
    assert not [line for line in place.shell.lines if line.startswith(("rm", "qemu-img"))]


@pytest.mark.parametrize(
    "error", [HypervisorError("No such machine type."), GuestDiedError("It died."), KeyboardInterrupt()]
)
def test_a_guest_that_does_not_start_leaves_no_disk(place: Place, error: BaseException) -> None:
    """The error is told as it is, and the pool goes on to the next cell."""
    place.hypervisor.refusals = [error]
    with pytest.raises(type(error)):
        place.pool.make(RAW, "tcg")
    assert place.shell.files == {}
    assert place.pool.make(QCOW2, "tcg").config == QCOW2


def test_an_image_that_is_not_as_asked_is_removed(place: Place) -> None:
    """An attestation that fails is a failure half-way, too."""
    place.shell.answer(re.compile("^stat "), f"{RAW.size} {RAW.size // 512} 512")
    with pytest.raises(AttestationError):
        place.pool.make(RAW, "tcg")
    assert place.shell.files == {}
    assert place.hypervisor.domains == {}


def test_ctrl_c_while_a_guest_starts_leaves_no_guest(place: Place) -> None:
    """libvirt may have started it by the time the interrupt is seen, and nobody holds it."""
    start = place.hypervisor.start

    def interrupted(xml: str) -> FakeDomain:
        start(xml)
        raise KeyboardInterrupt

    place.hypervisor.start = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        place.pool.make(RAW, "tcg")
    place.close()
    assert place.is_empty()


def test_a_failure_to_clean_up_does_not_hide_the_failure_itself(place: Place) -> None:
    """What went wrong first is told; the rest is told when the pool closes, and the lease stays."""
    place.hypervisor.refusals = [HypervisorError("No such machine type.")]
    place.shell.answer(re.compile("^rm -f "), stderr="Input/output error", returncode=1)
    with pytest.raises(HypervisorError, match="No such machine type"):
        place.pool.make(RAW, "tcg")
    with pytest.raises(ProvisionError, match="Input/output error"):
        place.close()
    assert len(list(place.book)) == 1


def test_no_room_for_the_disk_is_told_before_it_is_made(place: Place) -> None:
    """Free space and what is needed, and no qemu-img that fills the host."""
    place.shell.answer(re.compile("^df "), "Type Avail Filesystem\next4 1000000 /dev/vda\n")
    with pytest.raises(ProvisionError, match="has 977 KiB free"):
        place.pool.make(RAW, "tcg")
    assert not [line for line in place.shell.lines if line.startswith("qemu-img")]


def test_the_disk_before_is_waited_for_when_room_is_short(place: Place) -> None:
    """It is removed in the background; the next cell must not fail for its sake."""
    gate = threading.Event()
    healthy = make_host_shell()

    def df(asked: Asked) -> CommandResult:
        is_gone = f"{FOLDER}/disk-1.raw" not in place.shell.files
        gate.set()
        return healthy.answer(asked.argv, f"x\next4 {2 * RAW.size if is_gone else 1000} d\n").run(asked.argv)

    first = place.pool.make(RAW, "tcg")
    place.shell.do(re.compile("^df "), df)
    destroy = first.domain.destroy
    first.domain.destroy = lambda: (gate.wait(60), destroy())[1]  # type: ignore[method-assign]
    place.pool.discard(first)
    assert place.pool.make(QCOW2, "tcg").config == QCOW2


def test_a_discarded_guest_is_gone_after_settling(place: Place) -> None:
    """Guest and disk; discarding twice is no error."""
    machine = place.pool.make(RAW, "tcg")
    place.pool.discard(machine)
    place.pool.discard(machine)
    place.pool.settle()
    assert place.hypervisor.running == []
    assert place.shell.files == {}


def test_a_guest_that_died_is_discarded_like_any_other(place: Place) -> None:
    """Its disk goes, and its death is no error of the teardown."""
    machine = place.pool.make(RAW, "tcg")

    def destroy() -> None:
        raise GuestDiedError("gone")

    machine.domain.destroy = destroy  # type: ignore[method-assign]
    place.pool.discard(machine)
    place.close()
    assert place.shell.files == {}
    assert list(place.book) == []


def test_closing_leaves_nothing(place: Place) -> None:
    """Guests, disks, the folder, the lease."""
    for config in (RAW, QCOW2):
        place.pool.make(config, "tcg")
    place.close()
    assert place.is_empty()
    folders = [line for line in place.shell.lines if line.startswith("rm -rf")]
    assert folders[-2:] == [f"rm -rf --one-file-system -- {folder}" for folder in ("/tmp/r", FOLDER)]


def test_a_guest_that_is_kept_keeps_its_disk_and_its_lease(place: Place) -> None:
    """The others go; the lease says that it is kept, so that no reaper takes it."""
    kept, other = place.pool.make(RAW, "tcg"), place.pool.make(QCOW2, "tcg")
    place.pool.keep(kept)
    place.pool.keep(other)
    place.close()
    assert kept.domain.is_active()
    assert not other.domain.is_active()
    assert list(place.shell.files) == [kept.spec.disk]
    (lease,) = place.book
    assert lease.kept


def test_a_guest_that_cannot_be_ended_keeps_its_lease(place: Place) -> None:
    """The others are removed all the same; the error is told at the end, and not in another cell's measurement."""
    stuck, other = place.pool.make(RAW, "tcg"), place.pool.make(QCOW2, "tcg")

    def destroy() -> None:
        raise HypervisorError("destroying the guest failed: still there.")

    stuck.domain.destroy = destroy  # type: ignore[method-assign]
    place.pool.discard(stuck)
    place.pool.settle()
    with pytest.raises(HypervisorError, match="still there"):
        place.close()
    assert not other.domain.is_active()
    (lease,) = place.book
    assert stuck.spec.uuid in lease.domains


def test_a_folder_that_cannot_be_removed_keeps_its_lease(place: Place) -> None:
    """The next run's reaper tries again."""
    place.pool.make(RAW, "tcg")
    place.shell.answer(re.compile("^rm -rf "), stderr="rm: Device or resource busy", returncode=1)
    with pytest.raises(ProvisionError, match=f"removing {FOLDER} failed: rm: Device or resource busy"):
        place.close()
    assert len(list(place.book)) == 1


def test_a_consoles_tail_is_text_without_carriage_returns(place: Place) -> None:
    """As many lines as asked for, from the end of the file the guest writes to, however long its lines are."""
    machine = place.pool.make(RAW, "tcg")
    place.shell.answer(["tail", "-c", "65536", "--", f"{FOLDER}/vms-0123456789-1.console"], "z\r\na\r\nb\r\nc\r\n")
    assert machine.console_tail(3) == "a\nb\nc"


def test_the_lease_goes_last(place: Place) -> None:
    """Whoever is killed before has left something that a lease names."""
    seen: list[int] = []
    remove = make_host_shell()

    def note(asked: Asked) -> CommandResult:
        seen.append(len(list(place.book)))
        return remove.run(asked.argv)

    place.pool.make(RAW, "tcg")
    place.shell.do(re.compile("^rm -rf "), note)
    place.close()
    assert seen == [1, 1, 1], "the disks' folder, the driver's, and the run's once more"
    assert list(place.book) == []


def test_a_kept_guest_keeps_both_folders(place: Place) -> None:
    """Without its libvirt's folder nobody reaches it."""
    place.pool.keep(place.pool.make(RAW, "tcg"))
    place.close()
    assert not [line for line in place.shell.lines if line.startswith("rm -rf")]


def test_a_kept_guest_keeps_both_folders_where_ctrl_c_ends_the_teardown(place: Place) -> None:
    """The user wanted a look at that guest, and not at the rest of the run."""
    place.pool.keep(place.pool.make(RAW, "tcg"))

    def press() -> None:
        raise KeyboardInterrupt

    place.pool.settle = press  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        place.close()
    assert not [line for line in place.shell.lines if line.startswith("rm -rf")]
    assert len(list(place.book)) == 1


def test_of_two_steps_that_fail_the_first_is_told_and_all_are_tried(place: Place) -> None:
    """The lease stays for the next run."""

    def fail(why: str) -> Callable[[], None]:
        def step() -> None:
            raise ProvisionError(why)

        return step

    place.teardown.push(place.held.removal(fail("second")))
    place.teardown.push(place.held.removal(fail("first")))
    place.pool.make(RAW, "tcg")
    with pytest.raises(ProvisionError, match="first"):
        place.close()
    assert place.hypervisor.running == []
    assert len(list(place.book)) == 1


def test_ctrl_c_in_the_middle_of_a_teardown_leaves_the_lease(place: Place) -> None:
    """What it kept from being removed, the next run removes."""

    def press() -> None:
        raise KeyboardInterrupt

    place.teardown.push(place.held.removal(press))
    with pytest.raises(KeyboardInterrupt):
        place.close()
    assert len(list(place.book)) == 1


def test_qemu_is_given_no_disk_that_is_not_the_runs_own(place: Place) -> None:
    """It writes to that without a command of ours; no guest is started, and nothing is left."""
    place.shell.guard = Guard(["/nonexistent/"])  # type: ignore[attr-defined]
    with pytest.raises(ForeignPathError, match=f"QEMU would be given {FOLDER}/disk-1.raw on the host, "):
        place.pool.make(RAW, "tcg")
    assert not place.hypervisor.running

"""A lab: one guest for a cell, a broken cell stays broken, and all is gone at the end.

Tests of `lab.lab` and `lab.provisioner`.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import find_host
from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.errors import BootTimeoutError, GuestDiedError, ProvisionError, SpaceError
from pytest_vmstorage.guest.restore.restoring import Restoring
from pytest_vmstorage.host.lease import LeaseBook
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.lab.pool import Environment
from pytest_vmstorage.progress import Progress, silent
from pytest_vmstorage.testing.guest import FakeDomain, FakeHypervisor
from pytest_vmstorage.testing.host import make_host_shell
from pytest_vmstorage.testing.lab import make_guest_shell, make_lab
from pytest_vmstorage.testing.shell import FakeShell

RAW = StorageConfig()
QCOW2 = StorageConfig(format="qcow2")
USB = StorageConfig(bus="usb")


class Host:
    """What a lab stands on: guests of a cell in `dead` die, those in `mute` never answer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shell = make_host_shell()
        self.mute: set[StorageConfig] = set()
        self.booted: list[str] = []
        self.hypervisor = FakeHypervisor(self._boot)

    def _boot(self, xml: str) -> FakeDomain:
        kind = "qcow2" if 'type="qcow2"' in xml else "usb" if 'bus="usb"' in xml else "raw"
        self.booted.append(kind)
        config = {"qcow2": QCOW2, "usb": USB, "raw": RAW}[kind]
        return FakeDomain(make_guest_shell(config), boots=config not in self.mute)

    def lab(self, root: str = "", **settings: object) -> Lab:
        """A lab with these settings."""
        return make_lab(
            self.folder,
            root=root,
            hypervisor=self.hypervisor,
            shell=self.shell,
            settings=LabSettings.model_validate({"timeout_s": 5, **settings}),
        )

    def leases(self) -> int:
        """How many leases are on disk."""
        return len(list(LeaseBook(self.folder / "leases")))


def restore(lab: Lab, **more: Callable[[], object]) -> None:
    """Have the lab's guests restored, as far as they are meant to be."""
    lab.provisioner.restoring = cast("Restoring", SimpleNamespace(go_on=lambda: None, calibrated={}, **more))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A healthy host."""
    return Host(tmp_path)


def test_a_cell_has_one_guest(host: Host) -> None:
    """All its tests share it; the next cell's guest takes its place."""
    lab = host.lab()
    first = lab.guest(RAW)
    assert lab.guest(RAW) is first
    second = lab.guest(QCOW2)
    assert host.booted == ["raw", "qcow2"]
    lab.factory.settle()
    assert host.hypervisor.running == [second.machine.domain]


def test_an_earlier_guest_goes_in_the_background_and_is_gone_when_its_follower_is_settled(host: Host) -> None:
    """What it was told to do may take as long as it likes until then."""
    lab = host.lab()
    first = lab.guest(RAW).machine.domain
    ends, destroy = threading.Event(), first.destroy

    def end() -> None:
        ends.wait(60)
        destroy()

    first.destroy = end  # type: ignore[method-assign]
    second = lab.guest(QCOW2)
    assert host.hypervisor.running == [first, second.machine.domain]
    ends.set()
    host.shell.answer(re.compile("df --output=source"), returncode=3).answer(re.compile("grep -asH"))
    host.shell.answer(re.compile("^pgrep -f "), returncode=1)
    lab.environment(second.config).watch()
    assert host.hypervisor.running == [second.machine.domain]


def test_beside_a_guest_that_boots_the_next_that_boots_is_made(host: Host) -> None:
    """And not one that is to be restored, though its turn comes sooner; where none is restored, the next in turn is."""
    lab = host.lab()
    lab.at_once = 2
    host.shell.answer(re.compile("^du "), "0 folder\n")
    other = USB.model_copy(update={"cache": "unsafe"})
    lab.expect([USB, RAW, other])
    restore(lab)
    lab.guest(USB)
    assert sorted(host.booted) == ["usb", "usb"]
    lab.drop()
    lab.expect([])
    host.booted.clear()
    lab.provisioner.restoring = None
    lab.expect([USB, RAW, other])
    lab.guest(USB)
    assert sorted(host.booted) == ["raw", "usb"]


def test_a_cell_that_failed_fails_again_without_another_try(host: Host) -> None:
    """With the same error, console and all; the other cells go on."""
    lab = host.lab()
    host.mute = {QCOW2}
    with pytest.raises(BootTimeoutError, match="init: ready") as first:
        lab.guest(QCOW2)
    assert lab.guest(RAW).config == RAW
    with pytest.raises(BootTimeoutError) as second:
        lab.guest(QCOW2)
    assert second.value is first.value
    assert host.booted == ["qcow2", "raw"]


def test_a_guest_that_does_not_boot_leaves_nothing(host: Host) -> None:
    """Guest and disk go at once, and not at the end of the run."""
    lab = host.lab()
    host.mute = {RAW}
    with pytest.raises(BootTimeoutError):
        lab.guest(RAW)
    lab.factory.settle()
    assert host.hypervisor.running == []
    assert host.shell.files == {}


def test_ctrl_c_while_a_guest_begins_stops_those_that_are_saved(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads would be waited for; another error of this cell stops nobody."""
    lab, stopped = host.lab(), []
    restore(lab, stop=lambda: stopped.append("all"))
    host.mute = {QCOW2}
    with pytest.raises(BootTimeoutError):
        lab.guest(QCOW2)
    assert stopped == []
    monkeypatch.setattr(host.hypervisor, "start", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        lab.guest(RAW)
    assert stopped == ["all"]


def test_a_disk_that_cannot_be_made_breaks_its_cell_alone(host: Host) -> None:
    """Nothing is tried twice."""
    lab = host.lab()
    host.shell.answer(re.compile("qemu-img create .*qcow2"), stderr="qemu-img: I/O error", returncode=1)
    for _ in range(2):
        with pytest.raises(ProvisionError, match="I/O error"):
            lab.guest(QCOW2)
    assert sum("qemu-img" in line for line in host.shell.lines) == 1
    assert lab.guest(USB).config == USB


def test_a_disk_without_room_takes_that_of_guests_that_wait(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many go as it takes, the one with the farthest turn first; it is an error where none is left."""
    lab = host.lab()
    lab.pool.expect((RAW, QCOW2, USB, QCOW2, RAW))
    for config in (RAW, QCOW2):
        lab.guest(config)
    lab.pool.expect((USB, QCOW2, RAW))
    make, full, refused = lab.provisioner.make, False, []

    def make_in_a_full_folder(config: StorageConfig, say: Progress) -> Environment:
        refused.append([one.format for one in lab.pool.waiting])
        if lab.pool.waiting or full:
            raise SpaceError("The folder has no room.", code="VM409")
        return make(config, say)

    monkeypatch.setattr(lab.provisioner, "make", make_in_a_full_folder)
    assert lab.guest(USB).config == USB
    assert refused == [["raw", "qcow2"], ["qcow2"], []]
    full = True
    with pytest.raises(SpaceError, match="no room"):
        lab.guest(RAW)
    lab.close()


def test_a_guest_that_died_between_its_tests_breaks_its_cell(host: Host) -> None:
    """No second guest is made, whose disk would be another one than the first test's."""
    lab = host.lab()
    lab.guest(RAW).machine.domain.die()  # type: ignore[attr-defined]
    for _ in range(2):
        with pytest.raises(GuestDiedError, match=r"ended before this test(.|\n)*init: ready"):
            lab.guest(RAW)
    assert host.booted == ["raw"]
    assert lab.guest(QCOW2).config == QCOW2


def test_closing_leaves_nothing(host: Host) -> None:
    """Guests, disks, connection, lease."""
    lab = host.lab()
    lab.guest(RAW)
    lab.guest(QCOW2)
    assert host.leases() == 1
    assert lab.close() is None
    assert host.hypervisor.running == []
    assert host.hypervisor.closed
    assert host.shell.files == {}
    assert host.leases() == 0


def test_closing_goes_on_where_something_cannot_be_removed(host: Host) -> None:
    """The connection is closed and the root removed; the error is told, the lease stays."""
    lab = host.lab(root="/tmp/vms-0123456789")
    lab.guest(RAW)
    host.shell.answer(re.compile("^rm -rf --one-file-system -- /srv"), stderr="rm: busy", returncode=1)
    with pytest.raises(ProvisionError, match="rm: busy"):
        lab.close()
    assert host.hypervisor.closed
    assert host.shell.lines[-1] == "rm -rf --one-file-system -- /tmp/vms-0123456789"
    assert host.leases() == 1


def test_the_last_guest_is_kept_where_none_failed(host: Host) -> None:
    """--vm-keep: running, with its disk, its root and a lease that says so."""
    lab = host.lab(root="/tmp/vms-0123456789", keep=True)
    lab.guest(RAW)
    last = lab.guest(QCOW2).machine
    assert lab.close() is last
    assert host.hypervisor.running == [last.domain]
    assert list(host.shell.files) == [last.spec.disk]
    assert "rm -rf --one-file-system -- /tmp/vms-0123456789" not in host.shell.lines
    assert next(iter(LeaseBook(host.folder / "leases"))).kept


def test_the_first_guest_that_a_test_failed_in_is_kept(host: Host) -> None:
    """Not the last one, and not a later failure's."""
    lab = host.lab(keep=True)
    first = lab.guest(RAW).machine
    lab.note_failure()
    lab.guest(QCOW2)
    lab.note_failure()
    assert lab.close() is first
    assert host.hypervisor.running == [first.domain]


def test_a_guest_that_did_not_boot_is_kept_for_a_look(host: Host) -> None:
    """The message of the time-out says so."""
    lab = host.lab(keep=True)
    host.mute = {RAW}
    with pytest.raises(BootTimeoutError, match="keep it for a look with --vm-keep"):
        lab.guest(RAW)
    lab.guest(QCOW2)
    kept = lab.close()
    assert kept is not None
    assert kept.config == RAW
    assert host.hypervisor.running == [kept.domain]


def test_without_the_option_nothing_is_kept(host: Host) -> None:
    """A failure alone keeps no guest."""
    lab = host.lab()
    lab.guest(RAW)
    lab.note_failure()
    assert lab.close() is None
    assert host.hypervisor.running == []


def test_the_hosts_caches_of_the_guests_disk_are_dropped(host: Host) -> None:
    """Of that disk's image."""
    lab = host.lab()
    assert lab.environment(RAW).drop_caches() == "dropped before each round"
    (asked,) = (one for one in host.shell.asked if "drop_caches" in one.line)
    assert asked.argv[-2] == lab.guest(RAW).machine.spec.disk


def test_a_cell_alike_has_its_disk_filled_when_it_is_made(host: Host) -> None:
    """By the host, as far as the same test needed it of the cell before; a booted guest fills its disk itself."""
    lab = host.lab()
    restore(lab)
    host.shell.answer(re.compile("^du "), "0 folder\n")
    for config in (RAW, QCOW2, USB):
        lab.expect([RAW, QCOW2, USB], alike=[QCOW2, USB])
        made = lab.environment(config)
        made.note_need(2**24)
        assert made.regions.written_bytes == (2**24 if config is QCOW2 else 0)
    (filling,) = (one for one in host.shell.asked if one.argv[:2] == ("qemu-img", "convert"))
    assert filling.argv[-1] == lab.guest(QCOW2).machine.spec.disk
    assert lab.guest(QCOW2).machine.spec.is_filled


def test_a_guest_that_is_booted_instead_of_restored_fills_its_disk_itself(host: Host) -> None:
    """As when a restored one failed its proof: what the host knows of the cell's need is not used."""
    lab = host.lab()
    restore(lab)
    lab.environment(RAW).note_need(2**24)
    made = [lab.provisioner.make_guest(RAW, silent, fresh=fresh) for fresh in (False, True)]
    assert [one.guest.machine.spec.is_filled for one in made] == [True, False]


def test_this_machine_is_used_without_a_daemon() -> None:
    """No name, or "local": the embedded driver, and a folder of this user's that is no tmpfs by custom."""
    for name in (None, "local"):
        here = find_host(name, None)
        assert (here.uri, here.ssh, here.is_local) == (None, None, True)
        assert here.folder.startswith("/var/tmp/pytest-vmstorage-")
    assert find_host(None, "/data").folder == "/data"


def test_a_user_without_a_name_has_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may run under a number that no passwd knows."""

    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 1000650000")

    monkeypatch.setattr("getpass.getuser", nameless)
    assert find_host(None, None).folder == f"/var/tmp/pytest-vmstorage-{os.getuid()}"


@pytest.mark.parametrize("name", ["lab01", "root@lab01.example.org", "10.0.0.1"])
def test_another_machine_is_reached_through_ssh(name: str) -> None:
    """The URI never lets ssh ask for a password."""
    there = find_host(name, None)
    assert (there.uri, there.ssh, there.is_local) == (f"qemu+ssh://{name}/system?no_tty=1", name, False)


@pytest.mark.parametrize("name", ["lab 01", "-oProxyCommand=x", "-l@lab01", "lab01/system", "qemu+ssh://lab01", ""])
def test_what_is_no_host_name_is_refused(name: str) -> None:
    """Nothing that ssh could take for an option, or libvirt for a path."""
    with pytest.raises(Exception, match=r"is not a host name\. Write NAME or USER@NAME"):
        find_host(name, None)


def test_a_fake_lab_needs_no_more_than_a_folder(tmp_path: Path) -> None:
    """The shipped builder: a guest that answers, on fakes alone."""
    lab = make_lab(tmp_path)
    assert lab.guest(RAW).run(["/bin/sh", "-c", "read -r kernel </proc/sys/kernel/osrelease"]).ok
    assert isinstance(lab.shell, FakeShell)
    assert lab.close() is None


def test_the_canarys_answer_is_remembered_once_a_guest_booted(host: Host) -> None:
    """Not before, and not for a guest that failed: a host on which nothing starts is no host without KVM."""
    lab = host.lab(timeout_s=0.1)
    remembered: list[str] = []
    lab.provisioner.remember_accel = lambda: remembered.append("yes")
    host.mute.add(RAW)
    with pytest.raises(BootTimeoutError):
        lab.guest(RAW)
    assert remembered == []
    lab.guest(QCOW2)
    assert remembered == ["yes"]

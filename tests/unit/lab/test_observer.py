"""What is done from the host around a guest's rounds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.guest.agent import AgentShell
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.testing.guest import FakeDomain
from pytest_vmstorage.testing.lab import make_host_shell, make_lab
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
    guest = lab.guest(StorageConfig())
    shell.asked.clear()
    lab.looks.put_by(guest)
    domain = guest.machine.domain
    assert isinstance(domain, FakeDomain)
    assert domain.paused
    assert f"sync {guest.machine.spec.disk}" in shell.lines
    assert not [line for line in shell.lines if "drop_caches" in line or "nocache" in line]


def test_what_the_guests_kernel_wrote_to_its_console_is_looked_at(lab: Lab, shell: FakeShell) -> None:
    """After the last round, beside QEMU's log and the guest's sysfs."""
    guest = lab.guest(StorageConfig())
    assert lab.looks.changed(guest) == ""
    shell.files[guest.machine.spec.console] = b"[ 43.1] nvme nvme0: I/O 192 QID 1 timeout, completion polled\n"
    assert lab.looks.changed(guest).startswith("the guest's kernel had trouble with its disk: [ 43.1] nvme nvme0")


def test_an_io_mode_that_qemu_fell_back_from_is_looked_at(lab: Lab, shell: FakeShell) -> None:
    """By QEMU's log, where the cell asked for another than threads."""
    guest = lab.guest(StorageConfig(io="io_uring"))
    shell.files[lab.looks.log(guest.machine)] = b"qemu: Unable to use io_uring, falling back to thread pool\n"
    assert lab.looks.changed(guest).startswith("io is no longer io_uring: qemu: Unable to use io_uring")


def test_where_to_look_for_a_guest_is_found_once(lab: Lab, shell: FakeShell) -> None:
    """Its process and the device below its disk stay what they are; another guest's are others."""
    shell.answer(re.compile("df --output=source"), "vda yes 1 2 3\n").answer(re.compile("grep -asH"))
    shell.answer(re.compile("^pgrep -f "), "77\n")
    guest, other = lab.guest(StorageConfig()), lab.guest(StorageConfig(format="qcow2"))
    for one in (guest, guest, other):
        lab.looks.watch(one).begin()()
    found = [line for line in shell.lines if line.startswith("pgrep -f ")]
    assert [guest.machine.spec.uuid in line for line in found] == [True, False]
    assert other.machine.spec.uuid in found[1]


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
    guest = lab.guest(StorageConfig())
    domain = guest.machine.domain
    assert isinstance(domain, FakeDomain)
    domain.monitor_answers = {"query-blockstats": []}
    domain.shell.files["/sys/block/vdb/stat"] = b"1 0 8 0 1 0 16 0 0 0 0"
    old = lab.looks.look(guest).moved
    assert (old.guest_read_bytes, old.guest_written_bytes) == (8 * 512, 16 * 512)
    domain.__class__ = Telling
    Telling.told = DISKSTATS
    still = lab.looks.look(guest).moved
    assert still == old, "an agent that does not know it is asked once"
    guest.shell = AgentShell(domain)
    new = lab.looks.look(guest).moved
    assert lab.looks.begin_look(guest, lab.looks.watch(guest))().moved == new
    assert (new.guest_read_bytes, new.guest_written_bytes) == (114 * 512, 58416 * 512)
    for told in ([], DISKSTATS[:1], [{**DISKSTATS[1], "stats": {"read-ios": 15}}]):
        Telling.told = told
        assert lab.looks.look(guest).moved == old

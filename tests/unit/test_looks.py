"""What is done from the host around a guest's rounds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.lab import Lab
from pytest_vmstorage.testing import FakeDomain, FakeShell, make_host_shell, make_lab


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

"""Diagnosis: the evidence looked for after a failure, and questions that nobody answers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import DiskMissingError, VmStorageError, WorkloadError
from pytest_vmstorage.measure.diagnosis import look_for_symptoms
from pytest_vmstorage.results.failures import Room, Symptoms
from pytest_vmstorage.testing.guest import FakeDomain, FakeHypervisor
from pytest_vmstorage.testing.lab import make_guest_shell, make_lab
from pytest_vmstorage.testing.shell import FakeShell

FIO = WorkloadError("fio failed.")


class Scene:
    """A guest of that cell whose kernel logged no trouble, its domain, its shell."""

    def __init__(self, folder: Path, kind: str = "none") -> None:
        config = StorageConfig(guest_fs=kind)
        self.shell = make_guest_shell(config)
        self.shell.answer(re.compile("dmesg .*grep|/proc/mounts"), returncode=1)
        self.shell.answer(re.compile("dmesg --level"), "[ 1.2] Module nvme is blacklisted\n")
        self.domain = FakeDomain(self.shell)
        self.lab = make_lab(folder, hypervisor=FakeHypervisor(lambda _xml: self.domain))
        self.machine = self.lab.guest(config).machine

    def symptoms(self, error: VmStorageError = FIO) -> Symptoms:
        """What is found after that error."""
        return look_for_symptoms(self.machine, self.lab.shell, error)


def test_a_healthy_guest_has_no_symptoms(tmp_path: Path) -> None:
    """Its agent answers, and its folder has room."""
    assert Scene(tmp_path).symptoms() == Symptoms(agent="answers", free_bytes=100 * 2**30)


def test_other_errors_of_the_kernel_matter_where_the_disk_is_missing(tmp_path: Path) -> None:
    """Then nothing was read or written that could have failed."""
    assert Scene(tmp_path).symptoms(DiskMissingError("No disk.")).kernel_log == "[ 1.2] Module nvme is blacklisted"


@pytest.mark.parametrize(
    ("kind", "said", "room"),
    [("ext4", "0 4096 65536 7", Room(free_bytes=0, free_inodes=7)), ("btrfs", "9 4096 0 0", Room(free_bytes=36864))],
)
def test_room_is_asked_of_a_file_system_in_the_guest(tmp_path: Path, kind: str, said: str, room: Room) -> None:
    """btrfs counts no inodes."""
    scene = Scene(tmp_path, kind)
    scene.shell.answer(re.compile("^stat -f"), said)
    assert scene.symptoms().room == room


def test_a_guest_that_ends_while_it_is_asked_is_told_without_its_answers(tmp_path: Path) -> None:
    """What failed first is what the user wants to know."""
    scene = Scene(tmp_path)
    scene.domain.dies_after = len(scene.domain.asked) + 2
    assert scene.symptoms() == Symptoms(agent="answers", free_bytes=100 * 2**30)
    assert scene.symptoms() == Symptoms(free_bytes=100 * 2**30)


def test_an_agent_that_does_not_answer_is_asked_nothing_more(tmp_path: Path) -> None:
    """Each question would wait for its time limit."""
    scene = Scene(tmp_path)
    scene.domain.boots = False
    before = len(scene.shell.asked)
    assert scene.symptoms().agent == "does not answer"
    assert len(scene.shell.asked) == before


def test_a_host_that_cannot_tell_is_no_other_failure(tmp_path: Path) -> None:
    """df fails where the folder is gone."""
    scene = Scene(tmp_path)
    assert isinstance(scene.lab.shell, FakeShell)
    scene.lab.shell.answer(re.compile("^df "), stderr="df: no such folder", returncode=1)
    assert scene.symptoms().free_bytes is None

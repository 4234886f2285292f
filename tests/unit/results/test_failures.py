"""Failures have names: the cause before its effects."""

from __future__ import annotations

import pytest

from pytest_vmstorage.errors import (
    AttestationError,
    BootTimeoutError,
    CommandStuckError,
    DiskMissingError,
    GuestDiedError,
    GuestError,
    GuestSilentError,
    LateError,
    LostError,
    VmStorageError,
    WorkloadError,
)
from pytest_vmstorage.results.failures import CODES, OUTCOMES, Room, Symptoms, named, outcome_of

FIO = WorkloadError("fio failed with exit status 1.")
TAR = WorkloadError("tar failed.", output="tar: tree/f1: Cannot write: No space left on device")
FULL = "No space left on device"
LOG = "[ 9.2] I/O error, dev vdb, sector 2048"


@pytest.mark.parametrize(
    ("error", "seen", "name"),
    [
        (FIO, Symptoms(), ""),
        (
            FIO,
            Symptoms(io_errors=(FULL,), kernel_log=LOG, read_only="/mnt/vmstorage", free_bytes=2**30),
            "no space on the host",
        ),
        (FIO, Symptoms(io_errors=("",), free_bytes=4096), "no space on the host"),
        (FIO, Symptoms(io_errors=("",), free_bytes=0), "no space on the host"),
        (FIO, Symptoms(io_errors=("",), free_bytes=2**30, kernel_log=LOG), "I/O error"),
        (FIO, Symptoms(io_errors=("",)), "I/O error"),
        (FIO, Symptoms(kernel_log=LOG, read_only="/mnt/vmstorage"), "mount became read-only"),
        (FIO, Symptoms(kernel_log=LOG), "I/O error"),
        (GuestDiedError("The guest ended during: x."), Symptoms(), "guest ended"),
        (GuestSilentError("The agent did not answer."), Symptoms(agent="does not answer"), "guest stopped answering"),
        (BootTimeoutError("The guest did not answer."), Symptoms(), "guest did not answer"),
        (GuestError("No test file could be made."), Symptoms(), ""),
        (CommandStuckError("A command did not end."), Symptoms(agent="answers"), "past its time limit"),
        (CommandStuckError("A command did not end."), Symptoms(kernel_log=LOG), "I/O error"),
        (DiskMissingError("No disk."), Symptoms(kernel_log="[ 1.5] Module nvme is blacklisted"), "disk did not appear"),
        (FIO, Symptoms(io_errors=(FULL,)), "no space on the device"),
        (FIO, Symptoms(io_errors=("Input/output error",)), "I/O error"),
        (FIO, Symptoms(room=Room(free_bytes=0, free_inodes=9)), "no space in the guest"),
        (FIO, Symptoms(room=Room(free_bytes=2**30, free_inodes=0)), "no space in the guest"),
        (FIO, Symptoms(room=Room(free_bytes=2**30)), ""),
        (TAR, Symptoms(room=Room(free_bytes=2**30)), "no space in the guest"),
        (TAR, Symptoms(is_native=True), "no space on the host"),
        (TAR, Symptoms(io_errors=("",), free_bytes=2**30), "I/O error"),
        (LateError("fio did not end within 9 s."), Symptoms(), "past its time limit"),
        (LostError("The ssh connection to lab01 was lost: it ended."), Symptoms(), "host was lost"),
    ],
)
def test_what_happened_has_a_name(error: VmStorageError, seen: Symptoms, name: str) -> None:
    """A tool that failed for reasons of its own has none."""
    assert outcome_of(error, seen) == name
    assert name in ("", *OUTCOMES)


def test_the_sentence_has_name_and_evidence() -> None:
    """In one line, for the cell of the matrix."""
    seen = Symptoms(io_errors=(FULL, FULL), kernel_log=LOG, free_bytes=0)
    error = named(WorkloadError("fio failed with exit status 1.", output="fio: io_u error"), seen)
    assert error.what == (
        "no space on the host: fio failed with exit status 1 (QEMU reported 2 I/O errors of the disk:"
        f" {FULL}; its folder has 0 B free; guest's kernel: {LOG})."
    )
    assert "io_u error" in str(error)


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (Symptoms(agent="answers", room=Room(free_bytes=2**30)), "past its time limit: It hangs (its agent answers)."),
        (Symptoms(agent="does not answer"), "past its time limit: It hangs (its agent does not answer)."),
        (
            Symptoms(read_only="/mnt/vmstorage", agent="answers"),
            "mount became read-only: It hangs (/mnt/vmstorage is mounted read-only; its agent answers).",
        ),
    ],
)
def test_the_agents_state_is_part_of_the_evidence(seen: Symptoms, told: str) -> None:
    """Room on a file system that has some is not."""
    assert named(LateError("It hangs."), seen).what == told


def test_a_full_file_system_is_told_with_what_is_left() -> None:
    """Bytes and inodes, as either may run out; some file systems count no inodes."""
    for room, words in ((Room(free_bytes=0, free_inodes=7), "0 B and 7 inodes free"), (Room(free_bytes=0), "0 B free")):
        told = named(FIO, Symptoms(room=room, agent="answers")).what
        assert told == (
            f"no space in the guest: fio failed with exit status 1 (its file system has {words}; its agent answers)."
        )


def test_a_failure_of_a_tools_own_has_no_evidence() -> None:
    """An agent that answers says nothing about it."""
    assert named(FIO, Symptoms(agent="answers", free_bytes=0)).what == FIO.what


def test_the_error_itself_stays_as_it_was() -> None:
    """What is told is a copy of the same kind, with all that the error carries and where it came from."""
    for error in (
        GuestDiedError("The guest ended.", hint="Look.", console="panic"),
        AttestationError("cache", asked="none", found="unsafe"),
    ):
        before = str(error)
        with pytest.raises(VmStorageError):
            raise error
        other = named(error, Symptoms(io_errors=(FULL,), free_bytes=0))
        assert (str(error), type(other)) == (before, type(error))
        assert other.what.startswith("no space on the host: ")
        assert (other.hint, other.args) == (error.hint, (other.what,))
        assert {**vars(other), "what": "", "code": ""} == {**vars(error), "what": ""}
        assert other.code == CODES["no space on the host"]
        assert other.__traceback__ is error.__traceback__

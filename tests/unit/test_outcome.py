"""Failures have names: the cause before its effects."""

from __future__ import annotations

import pytest

from pytest_vmstorage.errors import (
    AttestationError,
    GuestDiedError,
    GuestError,
    LateError,
    VmStorageError,
    WorkloadError,
)
from pytest_vmstorage.outcome import Symptoms, named, outcome_of

FIO = WorkloadError("fio failed with exit status 1.")
LOG = "[ 9.2] I/O error, dev vdb, sector 2048"


@pytest.mark.parametrize(
    ("error", "seen", "name"),
    [
        (FIO, Symptoms(), ""),
        (FIO, Symptoms(io_errors=("enospc",), kernel_log=LOG, read_only="/mnt/vmstorage"), "no space on the host"),
        (FIO, Symptoms(io_errors=("",), free_bytes=4096), "no space on the host"),
        (FIO, Symptoms(io_errors=("",), free_bytes=0), "no space on the host"),
        (FIO, Symptoms(io_errors=("",), free_bytes=2**30, kernel_log=LOG), "I/O error"),
        (FIO, Symptoms(io_errors=("",)), "I/O error"),
        (FIO, Symptoms(kernel_log=LOG, read_only="/mnt/vmstorage"), "mount became read-only"),
        (FIO, Symptoms(kernel_log=LOG), "I/O error"),
        (GuestDiedError("The guest ended during: x."), Symptoms(), "guest ended"),
        (GuestError("The agent did not answer."), Symptoms(), "guest stopped answering"),
        (LateError("fio did not end within 9 s."), Symptoms(), "past its time limit"),
    ],
)
def test_what_happened_has_a_name(error: VmStorageError, seen: Symptoms, name: str) -> None:
    """A tool that failed for reasons of its own has none."""
    assert outcome_of(error, seen) == name


def test_the_sentence_has_name_and_evidence() -> None:
    """In one line, for the cell of the matrix."""
    seen = Symptoms(io_errors=("enospc", "enospc"), kernel_log=LOG, free_bytes=0)
    error = named(WorkloadError("fio failed with exit status 1.", output="fio: io_u error"), seen)
    assert error.what == (
        "no space on the host: fio failed with exit status 1 (QEMU reported 2 I/O errors of the disk: enospc;"
        f" its folder has 0 B free; guest's kernel: {LOG})."
    )
    assert "io_u error" in str(error)


def test_the_error_itself_stays_as_it_was() -> None:
    """What is told is a copy of the same kind, with all that the error carries and where it came from."""
    for error in (
        GuestDiedError("The guest ended.", hint="Look.", console="panic"),
        AttestationError("cache", asked="none", found="unsafe"),
    ):
        before = str(error)
        with pytest.raises(VmStorageError):
            raise error
        other = named(error, Symptoms(io_errors=("enospc",)))
        assert (str(error), type(other)) == (before, type(error))
        assert other.what.startswith("no space on the host: ")
        assert (other.hint, other.args) == (error.hint, (other.what,))
        assert {**vars(other), "what": ""} == {**vars(error), "what": ""}
        assert other.__traceback__ is error.__traceback__

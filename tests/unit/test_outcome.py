"""Failures have names: the cause before its effects."""

from __future__ import annotations

import pytest

from pytest_vmstorage.errors import GuestDiedError, GuestError, VmStorageError, WorkloadError
from pytest_vmstorage.outcome import Evidence, named, outcome_of

FIO = WorkloadError("fio failed with exit status 1.")
LOG = "[ 9.2] I/O error, dev vdb, sector 2048"


@pytest.mark.parametrize(
    ("error", "seen", "name"),
    [
        (FIO, Evidence(), ""),
        (FIO, Evidence(io_errors=("enospc",), kernel_log=LOG, read_only="/mnt/vmstorage"), "no space on the host"),
        (FIO, Evidence(io_errors=("",), free_bytes=4096), "no space on the host"),
        (FIO, Evidence(io_errors=("",), free_bytes=0), "no space on the host"),
        (FIO, Evidence(io_errors=("",), free_bytes=2**30, kernel_log=LOG), "I/O error"),
        (FIO, Evidence(io_errors=("",)), "I/O error"),
        (FIO, Evidence(kernel_log=LOG, read_only="/mnt/vmstorage"), "mount became read-only"),
        (FIO, Evidence(kernel_log=LOG), "I/O error"),
        (GuestDiedError("The guest ended during: x."), Evidence(), "guest ended"),
        (GuestError("The agent did not answer."), Evidence(), "guest stopped answering"),
        (WorkloadError("fio did not end within 9 s."), Evidence(), "past its time limit"),
    ],
)
def test_what_happened_has_a_name(error: VmStorageError, seen: Evidence, name: str) -> None:
    """A tool that failed for reasons of its own has none."""
    assert outcome_of(error, seen) == name


def test_the_sentence_has_name_and_evidence() -> None:
    """In one line, for the cell of the matrix."""
    seen = Evidence(io_errors=("enospc", "enospc"), kernel_log=LOG, free_bytes=0)
    error = named(WorkloadError("fio failed with exit status 1.", output="fio: io_u error"), seen)
    assert error.what == (
        "no space on the host: fio failed with exit status 1 (QEMU reported 2 I/O errors of the disk: enospc;"
        f" its folder has 0 B free; guest's kernel: {LOG})."
    )
    assert "io_u error" in str(error)

"""What became of a cell whose round failed: a name and the evidence, from guest, QEMU and host; pure."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.errors import GuestDiedError, GuestError, LateError, VmStorageError
from pytest_vmstorage.units import format_about

LITTLE_BYTES = 2**20
"""With less than this free no image grows."""


class Symptoms(BaseModel):
    """What was found after a failure: QEMU's reasons for I/O errors, the guest's kernel log, mounts, free bytes.

    `io_errors` are libvirt's words ("enospc", or "" for any other); `free_bytes` is None below a block device.
    """

    model_config = ConfigDict(frozen=True)

    io_errors: tuple[str, ...] = ()
    kernel_log: str = ""
    read_only: str = ""
    free_bytes: int | None = None


NO_SPACE = "no space on the host"
READ_ONLY = "mount became read-only"
IO_ERROR = "I/O error"
ENDED = "guest ended"
NO_ANSWER = "guest stopped answering"
LATE = "past its time limit"


def outcome_of(error: VmStorageError, seen: Symptoms) -> str:
    """The name of what happened, the cause before its effects; "" for a tool that failed for reasons of its own."""
    # QEMU tells "enospc" only where it would pause the guest for it, and here it reports the error to the guest
    is_full = seen.free_bytes is not None and seen.free_bytes < LITTLE_BYTES
    if "enospc" in seen.io_errors or (seen.io_errors and is_full):
        return NO_SPACE
    if isinstance(error, GuestDiedError):
        return ENDED
    if seen.read_only:
        return READ_ONLY
    if seen.io_errors or seen.kernel_log:
        return IO_ERROR
    if isinstance(error, GuestError):
        return NO_ANSWER
    return LATE if isinstance(error, LateError) else ""


def named(error: VmStorageError, seen: Symptoms) -> VmStorageError:
    """A copy of the error with its outcome's name before the sentence and the evidence behind it."""
    name = outcome_of(error, seen)
    told = "; ".join(_told(seen))
    what = f"{name}: {error.what}" if name else error.what
    if told:
        what = f"{what.rstrip('.')} ({told})."
    return error.retold(what)


def _told(seen: Symptoms) -> Iterator[str]:
    if seen.io_errors:
        kinds = ", ".join(dict.fromkeys(reason or "other" for reason in seen.io_errors))
        yield f"QEMU reported {len(seen.io_errors)} I/O errors of the disk: {kinds}"
    if seen.free_bytes is not None and seen.io_errors:
        yield f"its folder has {format_about(seen.free_bytes)} free"
    if seen.read_only:
        yield f"{seen.read_only} is mounted read-only"
    if seen.kernel_log:
        yield f"guest's kernel: {seen.kernel_log}"

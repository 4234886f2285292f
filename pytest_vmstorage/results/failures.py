"""The outcome of a cell whose round failed: a name and the evidence, from guest, QEMU and host; pure."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.errors import (
    BootTimeoutError,
    CommandStuckError,
    DiskMissingError,
    GuestDiedError,
    GuestSilentError,
    LateError,
    LostError,
    VmStorageError,
    WorkloadError,
)
from pytest_vmstorage.units import format_about

LITTLE_BYTES = 2**20
"""With less free space than this, no image and no file can grow."""


class Room(BaseModel):
    """The free space of a file system: bytes, and inodes (None where it has no count of them)."""

    model_config = ConfigDict(frozen=True)

    free_bytes: int
    free_inodes: int | None = None

    @property
    def is_none(self) -> bool:
        """Whether no file can be made or grow."""
        return self.free_bytes < LITTLE_BYTES or self.free_inodes == 0

    def __str__(self) -> str:
        inodes = "" if self.free_inodes is None else f" and {self.free_inodes} inodes"
        return f"{format_about(self.free_bytes)}{inodes} free"


class Symptoms(BaseModel):
    """The evidence after a failure: QEMU's reasons for I/O errors, the guest's kernel log, mounts, room, its agent.

    `io_errors` are QEMU's words ("" where it has none); `free_bytes` is of the image's folder, None below a block
    device. `room` is on the guest's file system under test, None without one. `agent` is a predicate ("answers"), ""
    where there is no agent. With `is_native` there is no guest.
    """

    model_config = ConfigDict(frozen=True)

    io_errors: tuple[str, ...] = ()
    kernel_log: str = ""
    read_only: str = ""
    free_bytes: int | None = None
    room: Room | None = None
    agent: str = ""
    is_native: bool = False


NO_SPACE = "no space on the host"
NO_SPACE_ON_DEVICE = "no space on the device"
NO_SPACE_IN_GUEST = "no space in the guest"
READ_ONLY = "mount became read-only"
IO_ERROR = "I/O error"
ENDED = "guest ended"
NO_ANSWER = "guest did not answer"
SILENT = "guest stopped answering"
NO_DISK = "disk did not appear"
LATE = "past its time limit"
LOST = "host was lost"
CODES = {
    NO_SPACE: "VM541",
    NO_SPACE_ON_DEVICE: "VM541",
    NO_SPACE_IN_GUEST: "VM542",
    READ_ONLY: "VM543",
    IO_ERROR: "VM544",
    ENDED: "VM502",
    NO_ANSWER: "VM501",
    SILENT: "VM503",
    NO_DISK: "VM505",
    LATE: "VM704",
    LOST: "VM402",
}
"""The code of each outcome, in the place of that of the error by which it was noticed."""

OUTCOMES = (
    *(NO_SPACE, NO_SPACE_ON_DEVICE, NO_SPACE_IN_GUEST, READ_ONLY, IO_ERROR),
    *(ENDED, NO_ANSWER, SILENT, NO_DISK, LATE, LOST),
)
"""All names of outcomes; a name begins the sentence and stands in the matrix."""

# the messages of strerror(3), SQLite, LVM and ZFS
_NO_SPACE_LEFT = "No space left on device"
_FULL = (_NO_SPACE_LEFT, "database or disk is full", "insufficient free space", "out of space")


def outcome_of(error: VmStorageError, seen: Symptoms) -> str:
    """The name of the outcome, the cause before its effects; "" for an error with a reason of its own."""
    return next((name for name, is_so in _causes(error, seen) if is_so), "")


def _causes(error: VmStorageError, seen: Symptoms) -> Iterator[tuple[str, bool]]:
    yield LOST, isinstance(error, LostError)
    yield NO_SPACE_ON_DEVICE if seen.free_bytes is None else NO_SPACE, _is_full_below(seen)
    yield ENDED, isinstance(error, GuestDiedError)
    yield NO_DISK, isinstance(error, DiskMissingError)
    yield READ_ONLY, bool(seen.read_only)
    yield IO_ERROR, bool(seen.io_errors or seen.kernel_log)
    yield NO_SPACE if seen.is_native else NO_SPACE_IN_GUEST, _is_full(error, seen)
    yield NO_ANSWER, isinstance(error, BootTimeoutError)
    yield SILENT, isinstance(error, GuestSilentError)
    yield LATE, isinstance(error, LateError | CommandStuckError)


def _is_full_below(seen: Symptoms) -> bool:
    is_full = seen.free_bytes is not None and seen.free_bytes < LITTLE_BYTES
    return _NO_SPACE_LEFT in seen.io_errors or bool(seen.io_errors and is_full)


def _is_full(error: VmStorageError, seen: Symptoms) -> bool:
    if not isinstance(error, WorkloadError):
        return False
    return any(words in error.output for words in _FULL) or (seen.room is not None and seen.room.is_none)


def named(error: VmStorageError, seen: Symptoms) -> VmStorageError:
    """A copy of the error with its outcome's name before the sentence, the evidence behind it, and its code."""
    name = outcome_of(error, seen)
    if not name:
        return error.retold(error.what)
    what, evidence = f"{name}: {error.what}", "; ".join(_told(seen))
    return error.retold(f"{what.rstrip('.')} ({evidence})." if evidence else what, code=CODES[name])


def _told(seen: Symptoms) -> Iterator[str]:
    if seen.io_errors:
        kinds = ", ".join(dict.fromkeys(reason or "other" for reason in seen.io_errors))
        yield f"QEMU reported {len(seen.io_errors)} I/O errors of the disk: {kinds}"
    if seen.free_bytes is not None and seen.io_errors:
        yield f"its folder has {format_about(seen.free_bytes)} free"
    if seen.read_only:
        yield f"{seen.read_only} is mounted read-only"
    if seen.room is not None and seen.room.is_none:
        yield f"its file system has {seen.room}"
    if seen.kernel_log:
        yield f"guest's kernel: {seen.kernel_log}"
    if seen.agent:
        yield f"its agent {seen.agent}"

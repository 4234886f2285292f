"""Values of fio's options as fio reads them."""

from __future__ import annotations

from typing import Any, Literal

from pytest_vmstorage.units import format_size

Rw = Literal["read", "write", "randread", "randwrite", "rw", "readwrite", "randrw"]
Engine = Literal["libaio", "io_uring", "posixaio", "sync", "psync", "vsync", "pvsync", "pvsync2"]

Verify = Literal["crc32c", "crc64", "crc32", "crc16", "crc7", "md5", "sha1", "sha256", "sha512", "xxhash"]

_SIZES = ("bs", "size", "io_size", "offset_increment", "rate")
_TIMES = ("runtime", "ramp_time", "ss_dur", "ss_ramp")

FIO_DOES = {
    "time_based": False, "norandommap": False, "refill_buffers": False, "randrepeat": True, "verify_fatal": False,
    "end_fsync": False, "sync": False, "pre_read": False,
    "gtod_reduce": False,
}  # fmt: skip
"""What fio does by itself, and need not be told."""


def option_text(name: str, value: Any) -> str:
    """An option's value: bytes with a binary suffix, seconds or milliseconds, 1 and 0."""
    if name in _SIZES:
        return format_size(value)
    return _time(value) if name in _TIMES else str(int(value) if isinstance(value, bool) else value)


def _time(seconds: float) -> str:
    """Whole seconds, or milliseconds: "1.5" is 1 s for fio (tried with 3.33)."""
    return f"{seconds:.0f}" if seconds == int(seconds) else f"{round(seconds * 1000)}ms"

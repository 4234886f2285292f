"""dd: one sequential stream of whole blocks to or from the disk. Options carry dd's own names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from pytest_vmstorage.config.cell import Count
from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.units import Bytes, format_size
from pytest_vmstorage.workloads.base import MIB, Target, Workload, metrics_in

if TYPE_CHECKING:
    from typing import Unpack

    from pytest_vmstorage.workloads.signatures import DdOptions

_FLAGS = {
    "iflag": ("direct", "dsync", "sync", "nocache", "fullblock"),
    "oflag": ("direct", "dsync", "sync", "nocache"),
    "conv": ("fsync", "fdatasync"),
}
_REACHES_DISK = {"direct", "dsync", "sync", "fsync", "fdatasync"}
_SECTOR = 512
_GUESSED_MIB_PER_SECOND = 400.0
_COPIED = re.compile(r"^(\d+) bytes? (?:\(.*\) )?copied, ([\d.e+-]+) s", re.MULTILINE)


class Dd(Workload):
    """One dd of `count` blocks of `bs` to the disk (`rw="write"`) or from it (`rw="read"`).

    `rw` is the only name that is not dd's: one of `if` and `of` is always the disk. A write takes `if_`,
    `oflag` and `conv`, a read `iflag`; flags are separated by commas. The default input is /dev/zero, as in
    every dd recipe. Where a layer stores zeros as nothing (detect_zeroes, ZFS, btrfs that compresses) such a write
    cannot be measured and is refused; no layer shrinks /dev/urandom, but it is slower than many disks.
    Without direct, dsync, sync, fsync or fdatasync the guest's page cache is measured too, and the label says
    "buffered".

    Figures: `bw` in MiB/s from dd's bytes and seconds (never its rounded rate), and `seconds`. Raises
    ConfigError for options that do not go together.
    """

    tool: ClassVar[str] = "dd"
    package: ClassVar[str] = "coreutils"
    metrics: ClassVar[tuple[Metric, ...]] = (*metrics_in("MiB/s", "higher", "bw"), *metrics_in("s", "lower", "seconds"))

    rw: Literal["write", "read"] = Field("write", description="Direction: write to the disk, or read from it.")
    bs: Bytes = Field(MIB, description="Read and write up to so many bytes at a time.")
    count: Count = Field(128, description="Number of blocks that are copied.")
    if_: str | None = Field(None, description="The file that a write reads: dd's if. None is /dev/zero.")
    iflag: str | None = Field(
        None, description="Flags of a read, with commas: direct, dsync, sync, nocache, fullblock."
    )
    oflag: str | None = Field(None, description="Flags of a write, with commas: direct, dsync, sync, nocache.")
    conv: str | None = Field(None, description="What a write does at its end: fsync or fdatasync.")

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[DdOptions]) -> None: ...

    @field_validator("iflag", "oflag", "conv")
    @classmethod
    def _known(cls, text: str | None, info: Any) -> str | None:
        if text is None:
            return None
        known, flags = _FLAGS[info.field_name], set(text.split(","))
        if not flags <= set(known):
            raise ConfigError(
                f"Dd({info.field_name}={text!r}) is not known here.",
                hint=f"It is one or more of, with commas between: {', '.join(known)}.",
                code="VM301",
            )
        return ",".join(sorted(flags))

    @model_validator(mode="after")
    def _goes_together(self) -> Dd:
        if self.if_ == "":
            raise ConfigError("Dd(if_='') names no file.", hint="Leave it out for /dev/zero.", code="VM302")
        for name in ("if_", "oflag", "conv") if self.reads else ("iflag",):
            if getattr(self, name) is not None:
                hint = "A write takes if_, oflag, conv; a read iflag."
                raise ConfigError(f"Dd(rw={self.rw!r}) has no use for {name}.", hint=hint, code="VM302")
        if not self.bs or ("direct" in self._flags and self.bs % _SECTOR):
            hint = "Give a multiple of 512 bytes."
            raise ConfigError(f"Dd(bs={self.bs}) cannot be copied in whole sectors.", hint=hint, code="VM302")
        return self

    @property
    def _flags(self) -> tuple[str, ...]:
        given = (self.iflag, self.oflag, self.conv)
        return tuple(flag for flags in given if flags for flag in flags.split(","))

    @property
    def label(self) -> str:
        """Direction, block size, flags or "buffered", and other options that differ from the defaults."""
        reaches = {"direct"} if self.reads else _REACHES_DISK
        parts = ["dd", self.rw, format_size(self.bs), *self._flags]
        parts += [] if reaches & set(self._flags) else ["buffered"]
        parts += self._changed("count")
        return " ".join(parts + ([f"if={self.if_}"] if self.if_ not in (None, "/dev/zero") else []))

    @property
    def reads(self) -> bool:
        """Whether the disk is dd's input."""
        return self.rw == "read"

    @property
    def writes_zeros(self) -> bool:
        """Whether its input is /dev/zero."""
        return self.writes and self.if_ in (None, "/dev/zero")

    @property
    def writes(self) -> bool:
        """Whether the disk is dd's output."""
        return not self.reads

    @property
    def region_bytes(self) -> int:
        """All that is copied."""
        return self.bs * self.count

    @property
    def expected_seconds(self) -> float:
        """A second, and the time that a disk of 400 MiB/s would take."""
        return 1.0 + self.region_bytes / MIB / _GUESSED_MIB_PER_SECOND

    def argv(self, target: Target) -> tuple[str, ...]:
        """The command line, in the C locale; dd never makes or truncates a file.

        Raises ConfigError where the region does not fit or does not begin at a multiple of `bs`.
        """
        self._check_room(target, "count")
        blocks, rest = divmod(target.offset_bytes, self.bs)
        if rest:
            raise ConfigError(
                f"{self.label} cannot begin at byte {target.offset_bytes}, which is not a multiple of its bs.",
                hint="dd counts its offset in blocks; give a smaller bs.",
                code="VM311",
            )
        if self.reads:
            flags = (f"iflag={self.iflag}",) if self.iflag else ()
            ends = (f"if={target.path}", "of=/dev/null", f"skip={blocks}", *flags)
        else:
            # without nocreat a wrong path makes a file in the guest's /dev, which is memory
            conv = ",".join(("notrunc", "nocreat", *(self.conv.split(",") if self.conv else ())))
            flags = (f"oflag={self.oflag}",) if self.oflag else ()
            ends = (f"if={self.if_ or '/dev/zero'}", f"of={target.path}", f"seek={blocks}", *flags, f"conv={conv}")
        return ("env", "LC_ALL=C", "dd", *ends, f"bs={format_size(self.bs)}", f"count={self.count}")

    def moved_bytes(self, text: str) -> int | None:
        """All that was copied, if the disk's side was direct."""
        lines = _COPIED.findall(text)
        return int(lines[-1][0]) if lines and "direct" in self._flags else None

    def parse(self, text: str) -> Mapping[str, float]:
        """Figures from dd's last line; raises WorkloadError where it copied less than asked."""
        lines = _COPIED.findall(text)
        if not lines:
            raise WorkloadError("dd did not say how much it copied.", output=text, code="VM702")
        copied, seconds = int(lines[-1][0]), float(lines[-1][1])
        if copied != self.region_bytes:
            raise WorkloadError(f"dd copied {copied} of {self.region_bytes} bytes.", output=text, code="VM710")
        if seconds <= 0:
            raise WorkloadError(
                "dd took no time that it could measure.", hint="Give a larger count.", output=text, code="VM708"
            )
        return {"bw": copied / MIB / seconds, "seconds": seconds}

"""dd: one sequential stream of whole blocks to or from the disk. Options carry dd's own names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.units import Bytes, format_size
from pytest_vmstorage.workloads.base import Target, Workload

_FLAGS = {
    "iflag": ("direct", "dsync", "sync", "nocache", "fullblock"),
    "oflag": ("direct", "dsync", "sync", "nocache"),
    "conv": ("fsync", "fdatasync"),
}
_REACHES_DISK = {"direct", "dsync", "sync", "fsync", "fdatasync"}
_SECTOR = 512
_MIB = 2**20
_GUESSED_MIB_PER_SECOND = 400.0
_COPIED = re.compile(r"^(\d+) bytes? (?:\(.*\) )?copied, ([\d.e+-]+) s", re.MULTILINE)


class Dd(Workload):
    """One dd of `count` blocks of `bs` to the disk (`rw="write"`) or from it (`rw="read"`).

    `rw` is the only name that is not dd's: one of `if` and `of` is always the disk. A write takes `if_`,
    `oflag` and `conv`, a read `iflag`; flags are separated by commas. The default input is /dev/zero, as in
    every dd recipe. Where a layer stores zeros as nothing (detect_zeroes, ZFS, btrfs that compresses) such a write
    is refused when it is to be measured; /dev/urandom is an input that none can shrink, and slower than many disks.
    Without direct, dsync, sync, fsync or fdatasync the guest's page cache is measured too, and the label says
    "buffered".

    Figures: `bw` in MiB/s from dd's bytes and seconds (never its rounded rate), and `seconds`. Raises
    ConfigError for options that do not go together.
    """

    tool: ClassVar[str] = "dd"
    package: ClassVar[str] = "coreutils"

    rw: Literal["write", "read"] = "write"
    bs: Bytes = _MIB
    count: Annotated[int, Field(ge=1)] = 128
    if_: str | None = None
    iflag: str | None = None
    oflag: str | None = None
    conv: str | None = None

    if TYPE_CHECKING:  # a type checker would refuse bs="4k", which a validator makes bytes of

        def __init__(self, **options: Any) -> None: ...

    @field_validator("iflag", "oflag", "conv")
    @classmethod
    def _known(cls, text: str | None, info: Any) -> str | None:
        if text is None:
            return None
        known = _FLAGS[info.field_name]
        flags = set(text.split(","))
        if not flags <= set(known):
            raise ConfigError(
                f"Dd({info.field_name}={text!r}) is not known here.",
                hint=f"It is one or more of, with commas between: {', '.join(known)}.",
            )
        return ",".join(sorted(flags))

    @model_validator(mode="after")
    def _goes_together(self) -> Dd:
        if self.if_ == "":
            raise ConfigError("Dd(if_='') names no file.", hint="Leave it out for /dev/zero.")
        foreign = ("if_", "oflag", "conv") if self.reads else ("iflag",)
        for name in foreign:
            if getattr(self, name) is not None:
                raise ConfigError(
                    f"Dd(rw={self.rw!r}) has no use for {name}.",
                    hint="A write takes if_, oflag, conv; a read iflag.",
                )
        if not self.bs or ("direct" in self._flags and self.bs % _SECTOR):
            raise ConfigError(
                f"Dd(bs={self.bs}) cannot be copied in whole sectors.", hint="Give a multiple of 512 bytes."
            )
        return self

    @property
    def _flags(self) -> tuple[str, ...]:
        given = (self.iflag, self.oflag, self.conv)
        return tuple(flag for flags in given if flags for flag in flags.split(","))

    @property
    def label(self) -> str:
        """Direction, block size, flags or "buffered", and whatever else differs from the defaults."""
        parts = ["dd", self.rw, format_size(self.bs), *self._flags]
        reaches = {"direct"} if self.reads else _REACHES_DISK
        parts += [] if reaches & set(self._flags) else ["buffered"]
        parts += [] if self.count == type(self).model_fields["count"].default else [f"count={self.count}"]
        parts += [f"if={self.if_}"] if self.if_ not in (None, "/dev/zero") else []
        return " ".join(parts)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The rate and the time it was computed from."""
        return (
            Metric(name="bw", unit="MiB/s", better="higher"),
            Metric(name="seconds", unit="s", better="lower"),
        )

    @property
    def primary(self) -> str:
        """The rate."""
        return "bw"

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
        """A second and what a disk of 400 MiB/s would take."""
        return 1.0 + self.region_bytes / _MIB / _GUESSED_MIB_PER_SECOND

    def argv(self, target: Target) -> tuple[str, ...]:
        """The command line, in the C locale; dd never makes or truncates a file.

        Raises ConfigError where the region does not fit or does not begin at a multiple of `bs`.
        """
        if self.region_bytes > target.size_bytes:
            raise ConfigError(
                f"{self.label} needs {format_size(self.region_bytes)}, but {target.path} has"
                f" {format_size(target.size_bytes)} for it.",
                hint="Make the disk larger (the cell's size) or the workload's count smaller.",
            )
        blocks, rest = divmod(target.offset_bytes, self.bs)
        if rest:
            raise ConfigError(
                f"{self.label} cannot begin at byte {target.offset_bytes}, which is no multiple of its bs.",
                hint="dd counts its offset in blocks; give a smaller bs.",
            )
        ends = self._from(target, blocks) if self.reads else self._to(target, blocks)
        return ("env", "LC_ALL=C", "dd", *ends, f"bs={format_size(self.bs)}", f"count={self.count}")

    def _from(self, target: Target, blocks: int) -> tuple[str, ...]:
        flags = (f"iflag={self.iflag}",) if self.iflag else ()
        return (f"if={target.path}", "of=/dev/null", f"skip={blocks}", *flags)

    def _to(self, target: Target, blocks: int) -> tuple[str, ...]:
        """Without nocreat a slip in the path makes a file in the guest's /dev, which is memory."""
        flags = (f"oflag={self.oflag}",) if self.oflag else ()
        conv = ",".join(("notrunc", "nocreat", *(self.conv.split(",") if self.conv else ())))
        return (
            f"if={self.if_ or '/dev/zero'}",
            f"of={target.path}",
            f"seek={blocks}",
            *flags,
            f"conv={conv}",
        )

    def moved_bytes(self, text: str) -> int | None:
        """All that was copied, if the disk's side was direct."""
        flags = self.oflag if self.rw == "write" else self.iflag
        lines = _COPIED.findall(text)
        return int(lines[-1][0]) if lines and "direct" in (flags or "").split(",") else None

    def parse(self, text: str) -> Mapping[str, float]:
        """Figures from dd's last line; raises WorkloadError where it copied less than asked."""
        lines = _COPIED.findall(text)
        if not lines:
            raise WorkloadError("dd did not say what it copied.", output=text)
        copied, seconds = int(lines[-1][0]), float(lines[-1][1])
        if copied != self.region_bytes:
            raise WorkloadError(f"dd copied {copied} of {self.region_bytes} bytes.", output=text)
        if seconds <= 0:
            raise WorkloadError("dd took no time that it could measure.", hint="Give a larger count.", output=text)
        return {"bw": copied / _MIB / seconds, "seconds": seconds}

"""fio: random and sequential I/O at a queue depth, with latencies. Options carry fio's own names."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, field_validator, model_validator

from pytest_vmstorage.config import Count
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.results import Metric
from pytest_vmstorage.units import Bytes, MaybeBytes, MaybeSeconds, format_size
from pytest_vmstorage.workloads import fio_json
from pytest_vmstorage.workloads.base import Target, Workload
from pytest_vmstorage.workloads.fio_slips import slips

Rw = Literal["read", "write", "randread", "randwrite", "rw", "readwrite", "randrw"]
Engine = Literal["libaio", "io_uring", "posixaio", "sync", "psync", "vsync", "pvsync", "pvsync2"]

_KNOWN = {"rw": get_args(Rw), "ioengine": get_args(Engine)}
_LARGE_BS = 64 * 2**10
_GUESSED_SECONDS = 5.0
_SIZES = ("bs", "size", "offset_increment")
_TIMES = ("runtime", "ramp_time")
_FIO_DOES = {"time_based": False, "norandommap": False, "refill_buffers": False, "randrepeat": True}
_LABELLED = (
    "rwmixread", "fsync", "fdatasync", "ioengine", "size", "offset_increment",
    "norandommap", "randrepeat", "randseed", "refill_buffers",
)  # fmt: skip


class Fio(Workload):
    """One fio job on the disk under test, e.g. `Fio(rw="randwrite", bs="4k", iodepth=32, runtime=10)`.

    Sizes are bytes or texts such as "4k", times seconds or texts such as "90s". Raises ConfigError for a job
    that cannot run or whose figures would mean nothing. Three defaults are not fio's: `direct` and
    `ioengine="libaio"`, without which a queue depth is not reached, and `refill_buffers`, without which fio
    3.33 writes data that gzip shrinks 45 times, so that a compressing layer would store next to nothing.
    `randrepeat` gives every round the same order of blocks.

    Figures: `iops`, `bw` in MiB/s (both directions together), latencies in seconds. A mixed job has them per
    direction (`read_clat_p99`, `write_clat_p99`), since a mean of reads and writes describes neither.
    `usr_cpu` and `sys_cpu` are percent of one CPU in a job.
    """

    tool: ClassVar[str] = "fio"

    rw: Rw
    bs: Bytes = 4096
    iodepth: Count = 1
    numjobs: Count = 1
    size: Bytes = 256 * 2**20
    offset_increment: MaybeBytes = None
    runtime: MaybeSeconds = None
    ramp_time: MaybeSeconds = None
    time_based: bool = False
    ioengine: Engine = "libaio"
    direct: bool = True
    rwmixread: Annotated[int, Field(ge=1, le=99)] | None = None
    fsync: Count | None = None
    fdatasync: Count | None = None
    refill_buffers: bool = True
    norandommap: bool = False
    randrepeat: bool = True
    randseed: Annotated[int, Field(ge=0)] | None = None
    percentile_list: str = "50:95:99:99.9"

    if TYPE_CHECKING:  # a type checker would refuse bs="4k", which a validator makes bytes of

        def __init__(self, **options: Any) -> None: ...

    @field_validator("rw", "ioengine", mode="before")
    @classmethod
    def _known(cls, value: object, info: Any) -> object:
        known = _KNOWN[info.field_name]
        if value not in known:
            close = difflib.get_close_matches(str(value), known, n=1)
            meant = f"Did you mean {close[0]!r}? " if close else ""
            raise ConfigError(
                f"Fio({info.field_name}={value!r}) is not known here.",
                hint=f"{meant}It is one of: {', '.join(known)}.",
            )
        return value

    @model_validator(mode="after")
    def _means_something(self) -> Fio:
        for what, hint in slips(self):
            raise ConfigError(f"Fio(rw={self.rw!r}): {what}.", hint=hint)
        return self

    @property
    def is_random(self) -> bool:
        """Whether blocks are met in random order."""
        return self.rw.startswith("rand")

    @property
    def directions(self) -> tuple[str, ...]:
        """What it does: "read", "write", or both in a mixed job."""
        return ("read", "write") if self.is_mixed else (self.rw.removeprefix("rand"),)

    @property
    def is_mixed(self) -> bool:
        """Whether it reads and writes."""
        return self.rw in ("rw", "readwrite", "randrw")

    @property
    def reads(self) -> bool:
        """Whether one of its directions is reading."""
        return "read" in self.directions

    @property
    def writes(self) -> bool:
        """Whether one of its directions is writing."""
        return "write" in self.directions

    @property
    def fresh_is_possible(self) -> bool:
        """Whether no block is written twice: not when time, jobs or chance bring it back to one."""
        jobs_are_apart = self.numjobs == 1 or (self.offset_increment or 0) >= self.size
        comes_back = self.time_based or (self.is_random and self.norandommap)
        return not self.reads and jobs_are_apart and not comes_back

    @property
    def label(self) -> str:
        """Its shape, then whatever differs from the defaults; how long it is measured is left out."""
        parts = ["fio", self.rw, format_size(self.bs), f"qd{self.iodepth}"]
        parts += [f"x{self.numjobs}"] if self.numjobs > 1 else []
        parts += [] if self.direct else ["buffered"]
        for name in _LABELLED:
            if getattr(self, name) != type(self).model_fields[name].default:
                parts.append(f"{name}={self._text(name)}")
        return " ".join(parts)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Rates, latencies and CPU, in the order in which they are worth reading."""
        rates = dict.fromkeys(("", *self._prefixes))
        iops = [Metric(name=f"{prefix}iops", unit="IOPS", better="higher") for prefix in rates]
        bw = [Metric(name=f"{prefix}bw", unit="MiB/s", better="higher") for prefix in rates]
        times = [Metric(name=name, unit="s", better="lower") for name in self._time_names]
        cpu = [Metric(name=name, unit="%", better="lower") for name in ("usr_cpu", "sys_cpu")]
        return (*iops, *bw, *times, *cpu)

    @property
    def _prefixes(self) -> tuple[str, ...]:
        return tuple(f"{direction}_" for direction in self.directions) if self.is_mixed else ("",)

    @property
    def _time_names(self) -> tuple[str, ...]:
        percentiles = [fio_json.percentile_name(text) for text in self.percentile_list.split(":")]
        kinds = ("lat_mean", *(f"clat_{percentile}" for percentile in percentiles))
        syncs = [f"fsync_{percentile}" for percentile in percentiles] if self.fsync or self.fdatasync else []
        return (*(f"{prefix}{kind}" for prefix in self._prefixes for kind in kinds), *syncs)

    @property
    def primary(self) -> str:
        """`bw` for sequential blocks of 64k and more, else `iops`."""
        return "bw" if not self.is_random and self.bs >= _LARGE_BS else "iops"

    @property
    def shown(self) -> tuple[str, ...]:
        """The rate and the 99th percentile of latency; that of writes in a mixed job."""
        tail = f"{self._prefixes[-1]}clat_p99"
        return (self.primary, tail) if tail in self._time_names else (self.primary,)

    @property
    def region_bytes(self) -> int:
        """From the first job's first byte to the last's last; without `offset_increment` they share one."""
        return self.size + (self.numjobs - 1) * (self.offset_increment or 0)

    @property
    def expected_seconds(self) -> float:
        """Ramp, runtime (5 s where fio decides by size) and a second for the rest."""
        return (self.ramp_time or 0.0) + (self.runtime or _GUESSED_SECONDS) + 1.0

    def output_file(self, target: Target) -> str:
        """A file, because fio prints warnings where it prints results."""
        return f"{target.scratch}/vmstorage-fio.json"

    def argv(self, target: Target) -> tuple[str, ...]:
        """The command line; fio never makes a file. Raises ConfigError where the region does not fit."""
        if self.region_bytes > target.size_bytes:
            raise ConfigError(
                f"{self.label} needs {format_size(self.region_bytes)}, but {target.path} has"
                f" {format_size(target.size_bytes)} for it.",
                hint="Make the disk larger (the cell's size) or the workload's size smaller.",
            )
        return (
            "fio",
            "--name=vmstorage",
            "--filename=" + target.path.replace(":", r"\:"),
            f"--offset={format_size(target.offset_bytes)}",
            *self._options(),
            "--group_reporting",
            "--fallocate=none",
            "--allow_file_create=0",
            "--output-format=json+",
            f"--output={self.output_file(target)}",
        )

    def _options(self) -> Iterator[str]:
        """Each field that says something fio would not do by itself, under fio's name."""
        for name in type(self).model_fields:
            if getattr(self, name) not in (None, _FIO_DOES.get(name)):
                yield f"--{name}={self._text(name)}"

    def _text(self, name: str) -> str:
        value = getattr(self, name)
        if name in _SIZES:
            return format_size(value)
        return _fio_time(value) if name in _TIMES else str(int(value) if isinstance(value, bool) else value)

    def moved_bytes(self, text: str) -> int | None:
        """All that fio counted, if its I/O was direct."""
        return fio_json.moved_bytes(text) if self.direct else None

    def parse(self, text: str) -> Mapping[str, float]:
        """Figures from fio's JSON, warnings before it allowed; raises WorkloadError with what fio said."""
        return fio_json.figures(
            text,
            directions=self.directions,
            percentiles=self.percentile_list.split(":"),
            syncs=bool(self.fsync or self.fdatasync),
        )


def _fio_time(seconds: float) -> str:
    """Whole seconds, or milliseconds: "1.5" is 1 s for fio (tried with 3.33)."""
    return f"{seconds:.0f}" if seconds == int(seconds) else f"{round(seconds * 1000)}ms"

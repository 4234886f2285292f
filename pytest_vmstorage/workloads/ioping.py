"""ioping: the latency of one request at a time. Options carry ioping's own long names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field, model_validator

from pytest_vmstorage.config.cell import Count
from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.units import MaybeBytes, MaybeSeconds, format_size
from pytest_vmstorage.workloads.base import MIB, Target, Workload, metrics_in

if TYPE_CHECKING:
    from typing import Unpack

    from pytest_vmstorage.workloads.signatures import IopingOptions

_REQUEST = 4096
_LINEAR_REQUEST = 256 * 2**10
_FOLDER_BYTES = MIB
_RAPID_BYTES = 64 * MIB
_RAPID_SECONDS = 3.0
_GUESSED_SECONDS = 2.0
_FIELDS = 10
_LETTERS = {"direct": "-D", "cached": "-C", "linear": "-L", "rapid": "-R", "sync": "-Y", "dsync": "-y"}
_VALUES = {"warmup": "-a", "count": "-c", "entropy": "-e", "interval": "-i", "size": "-s", "work_time": "-w"}
_OWN = ("count", "size", "work_size", "write", "read_write", "directory")


class Ioping(Workload):
    """Latency of single requests with a pause between them, as `ioping -c 10`, e.g. `Ioping(count=10, interval=0)`.

    It reads, or with `write` writes, the block device (the test file, where the disk has a file system), within its
    first `work_size` bytes, all of it unless given; these are filled before they are read. With `directory` it makes
    a file of its own, 1 MiB unless `work_size` says more, in a folder of the file system, as `ioping .` does, which
    needs a guest_fs. Names left out have ioping's defaults: `interval` 1 s, `size` 4k (256k with `linear`), `warmup`
    1: the first request is not counted, so `count=10` gives nine.

    It measures one request at a time, neither throughput nor the effect of a queue. Without `direct` requests go
    through the guest's page cache, of which ioping forgets each block first and flushes after each write; `cached`
    leaves that out and measures memory. A disk that rests between requests may answer later than a busy one.

    Figures: `min`, `avg`, `max`, `mdev` (standard deviation) in seconds, and `iops` and `bw` (MiB/s), counted requests
    and their bytes per second of their own time, without the pauses. Raises ConfigError for options that do not go
    together.
    """

    tool: ClassVar[str] = "ioping"
    primary: ClassVar[str] = "avg"
    shown: ClassVar[tuple[str, ...]] = ("avg", "max", "iops", "bw")
    metrics: ClassVar[tuple[Metric, ...]] = (
        *metrics_in("s", "lower", "min", "avg", "max", "mdev"),
        *metrics_in("IOPS", "higher", "iops"),
        *metrics_in("MiB/s", "higher", "bw"),
    )

    count: Count | None = Field(
        10, description="Stop after so many requests, those for warming up included. None: after work_time."
    )
    interval: MaybeSeconds = Field(None, description="Time between requests; None is 1 s.")
    size: MaybeBytes = Field(None, description="Request size; None is 4k, with linear 256k.")
    work_size: MaybeBytes = Field(None, description="Working set size; None is all of the disk, in a folder 1M.")
    work_time: MaybeSeconds = Field(None, description="Stop after that time.")
    warmup: Annotated[int, Field(ge=0)] | None = Field(
        None, description="Number of requests at the beginning that are not counted; None is 1."
    )
    entropy: Annotated[int, Field(ge=1)] | None = Field(None, description="Seed of the random order of requests.")
    direct: bool = Field(False, description="Use direct I/O.")
    cached: bool = Field(False, description="Use cached I/O: the page cache is neither forgotten nor flushed.")
    linear: bool = Field(False, description="Requests one behind the other, and not in random order.")
    rapid: bool = Field(
        False, description="No pauses between requests, for 3 s unless work_time says otherwise: ioping's -R."
    )
    write: bool = Field(False, description="Write requests.")
    read_write: bool = Field(False, description="Read and write requests in turns.")
    sync: bool = Field(False, description="Use O_SYNC.")
    dsync: bool = Field(False, description="Use O_DSYNC.")
    directory: bool = Field(
        False, description="Make a file of its own in a folder of the file system, as `ioping .` does."
    )

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[IopingOptions]) -> None: ...

    @model_validator(mode="after")
    def _goes_together(self) -> Ioping:
        if self.count is None and self.work_time is None and not self.rapid:
            raise ConfigError("Ioping(count=None) never ends.", hint="Give it a count or a work_time.", code="VM302")
        uncounted = 1 if self.warmup is None else self.warmup
        if self.count is not None and self.count <= uncounted:
            raise ConfigError(
                f"Ioping(count={self.count}) counts nothing: the first {uncounted} are for warming up.",
                hint="Give a larger count, or warmup=0.",
                code="VM302",
            )
        if self.direct and self.cached:
            raise ConfigError(
                "Ioping(direct=True, cached=True): direct I/O goes past the cache.", hint="Choose one.", code="VM302"
            )
        if self.work_size is not None and self.work_size < self._request_bytes:
            raise ConfigError(
                f"Ioping(work_size={format_size(self.work_size)}) holds no request of"
                f" {format_size(self._request_bytes)}.",
                hint="Give a larger work_size.",
                code="VM302",
            )
        return self

    @property
    def _request_bytes(self) -> int:
        return self.size or (_LINEAR_REQUEST if self.linear else _REQUEST)

    @property
    def needs_folder(self) -> bool:
        """Whether it makes a file of its own."""
        return self.directory

    @property
    def label(self) -> str:
        """Direction and size of a request, then options that differ from the defaults."""
        way = "readwrite" if self.read_write else "write" if self.write else "read"
        parts = ["ioping", way, format_size(self._request_bytes), *(["directory"] if self.directory else [])]
        parts += [f"S={format_size(self.work_size)}"] if self.work_size is not None else []
        others = {n: getattr(self, n) for n in type(self).model_fields if n not in _OWN}
        parts += self._changed("count")
        parts += [n if value is True else f"{n}={value:g}" for n, value in others.items() if value != self._usual(n)]
        return " ".join(parts)

    @property
    def region_bytes(self) -> int | None:
        """`work_size`; all of the disk without it, as ioping has it; 0 in a folder."""
        if self.directory:
            return 0
        return self.work_size or (_RAPID_BYTES if self.rapid else None)

    @property
    def bytes_on_disk(self) -> int | None:
        """`work_size`; in a folder its file, of 1 MiB unless that is given (64 MiB with `rapid`)."""
        return self._file_bytes if self.directory else self.region_bytes

    @property
    def _file_bytes(self) -> int:
        return self.work_size or (_RAPID_BYTES if self.rapid else _FOLDER_BYTES)

    @property
    def reads(self) -> bool:
        """Whether it reads what it has not written itself."""
        return not self.directory and (self.read_write or not self.write)

    @property
    def writes(self) -> bool:
        """Whether it writes; in a folder always, as it makes a file."""
        return self.directory or self.write or self.read_write

    @property
    def fresh_is_possible(self) -> bool:
        """In a folder, where its file is new; elsewhere chance brings it back to a block."""
        return self.directory

    @property
    def expected_seconds(self) -> float:
        """The pauses, or the time it was given, and two seconds."""
        if self.work_time is not None or self.rapid:
            return (self.work_time or _RAPID_SECONDS) + _GUESSED_SECONDS
        pause = 1.0 if self.interval is None else self.interval
        return (self.count or 0) * pause + _GUESSED_SECONDS

    def argv(self, target: Target) -> tuple[str, ...]:
        """The command line; three -W, which ioping wants before it writes to a device or an existing file.

        Raises ConfigError where the region does not fit.
        """
        if self.directory:
            where: tuple[str, ...] = ("-S", format_size(self._file_bytes), target.folder)
        else:
            self._check_room(target, "work_size")
            size = format_size(self.region_bytes or target.size_bytes)
            where = ("-S", size, "-o", format_size(target.offset_bytes), target.path)
        return ("ioping", "-B", *self._options(), *where)

    def _options(self) -> Iterator[str]:
        yield from (letter for name, letter in _LETTERS.items() if getattr(self, name))
        for name, letter in _VALUES.items():
            value = getattr(self, name)
            if value is not None:
                yield from (letter, format_size(value) if name == "size" else f"{value:g}")
        yield from ["-G"] if self.read_write else []
        if self.write or self.read_write:
            yield "-W" if self.directory else "-WWW"

    def moved_bytes(self, text: str) -> int | None:
        """All requests, those for warming up too, if they were direct."""
        return int(_raw(text)[8]) * self._request_bytes if self.direct else None

    def parse(self, text: str) -> Mapping[str, float]:
        """Figures from ioping's raw statistics, times in nanoseconds; raises WorkloadError where it counted nothing."""
        count, running, iops, _speed, low, mean, high, deviation, _total, _all = _raw(text)
        if not count or not running:
            raise WorkloadError("ioping counted no request.", hint="Give a larger count.", output=text, code="VM708")
        # the unit of times has changed between versions of ioping
        if not 0.9 < iops * running / (count * 1e9) < 1.1 and iops > 10:
            raise WorkloadError("ioping's rate and its time contradict each other.", output=text, code="VM711")
        times = {"min": low, "avg": mean, "max": high, "mdev": deviation}
        per_second = count * 1e9 / running
        return {
            **{name: value / 1e9 for name, value in times.items()},
            "iops": per_second,
            "bw": per_second * self._request_bytes / MIB,
        }


def _raw(text: str) -> list[float]:
    """The numbers of ioping -B, in the order of its manual page."""
    for line in reversed(text.splitlines()):
        words = line.split()
        if len(words) == _FIELDS and all(word.isdigit() for word in words):
            return [float(word) for word in words]
    raise WorkloadError("ioping printed no raw statistics.", output=text, code="VM702")

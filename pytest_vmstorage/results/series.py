"""The series of a window: what the disk under test moved in each half second of it, whatever the tool says; pure.

A tool's figure is one number for a whole round. QEMU counts each operation of each disk, and is asked twice a second
while the tool runs: from that come a rate, a size and a time of operations within the round, for any tool.

Sources: QEMU's qapi/block-core.json, `BlockDeviceStats` (`rd_total_time_ns` is the time spent on all reads together);
Linux' Documentation/block/stat.rst (sectors of 512 bytes, times in ms, flushes since 5.5).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    NonNegativeInt,
    PositiveInt,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

STEP_S = 0.5
"""The time from one reading to the next."""

LARGEST_STEPS = 240
"""A longer series is thinned to so many steps: two minutes have that many."""

Column = tuple[NonNegativeInt, ...]
Source = Literal["QEMU", "host"]

_SECTOR_BYTES = 512


class Counts(NamedTuple):
    """What a disk has done since it began: operations, bytes, and the time that operations took together.

    Times are in microseconds; operations that overlap count each its own, so that they can exceed the time passed.
    None where nothing counts it.
    """

    reads: int
    writes: int
    read_bytes: int
    written_bytes: int
    flushes: int | None = None
    read_us: int | None = None
    write_us: int | None = None
    flush_us: int | None = None


class Counted(NamedTuple):
    """The counts at a moment, in seconds since the tool was started."""

    at_s: float
    counts: Counts


class Series(BaseModel):
    """What the disk moved within a window, step by step; each column has an entry for each step.

    `steps_ms` are the lengths of the steps, of which the first begins `begin_ms` after the tool was started; the last
    ends when the tool's end was seen, and is not shorter than half a usual one. `reads` to `flushes` are operations,
    `read_us` to `flush_us` the time that they took together, in microseconds: operations that overlap count each its
    own. A column is None where nothing counts it. `merged` neighbours make a step where the window was so long that
    there would be more than 240 (`merged` is 1 up to two minutes). `lost` readings were not answered: a step over them
    is longer, see `gaps`; where none was answered there are no steps.

    `counted_by` is QEMU, for the disk under test alone, or the host's kernel, for all users of the device below a row
    without a guest. In the first `warm_up_s` the tool itself warmed up, and counted nothing in its figures.
    """

    model_config = ConfigDict(frozen=True)

    counted_by: Source = "QEMU"
    steps_ms: tuple[PositiveInt, ...] = ()
    begin_ms: NonNegativeInt = 0
    reads: Column = ()
    writes: Column = ()
    read_bytes: Column = ()
    written_bytes: Column = ()
    flushes: Column | None = ()
    read_us: Column | None = ()
    write_us: Column | None = ()
    flush_us: Column | None = ()
    merged: PositiveInt = 1
    lost: NonNegativeInt = 0
    warm_up_s: float = 0.0

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, given: object) -> object:
        """With zeros for the columns that were left out when it was saved."""
        if not isinstance(given, Mapping):
            return given
        zeros = (0,) * len(given.get("steps_ms", ()))
        return {**dict.fromkeys(Counts._fields, zeros), **given}

    @model_validator(mode="after")
    def _checked(self) -> Self:
        columns = [column for name in Counts._fields if (column := getattr(self, name)) is not None]
        if any(len(column) != len(self.steps_ms) for column in columns):
            raise ValueError("its columns have not one entry for each step")
        return self

    @model_serializer(mode="wrap")
    def _short(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without columns of zeros and without defaults: a run has a series a round."""
        usual = {name: field.default for name, field in type(self).model_fields.items()}
        return {name: value for name, value in handler(self).items() if _says(value, usual[name])}

    def __len__(self) -> int:
        return len(self.steps_ms)

    @property
    def edges_s(self) -> tuple[float, ...]:
        """The moments of its readings, one more than there are steps, in seconds since the tool was started."""
        return tuple(edge / 1000 for edge in itertools.accumulate(self.steps_ms, initial=self.begin_ms))

    def total(self, column: str) -> int | None:
        """The sum of that column; None where nothing counts it."""
        entries = getattr(self, column)
        return None if entries is None else sum(entries)

    def rates(self, *columns: str) -> tuple[float, ...]:
        """The sum of these columns in each step, per second: `rates("reads", "writes")` are IOPS."""
        sums = map(sum, zip(*(getattr(self, column) for column in columns), strict=True))
        return tuple(1000 * count / step for count, step in zip(sums, self.steps_ms, strict=True))

    def mean_us(self, kind: Literal["read", "write", "flush"]) -> tuple[float | None, ...]:
        """The mean time of an operation in each step, in microseconds; None where there was none, or nothing counts it.

        It is the time in QEMU's block layer and below, or in the host's device: neither has the guest's queue in it.
        """
        times, counts = getattr(self, f"{kind}_us"), getattr(self, {"flush": "flushes"}.get(kind, f"{kind}s"))
        if times is None or counts is None:
            return (None,) * len(self)
        return tuple(time / count if count else None for time, count in zip(times, counts, strict=True))

    @property
    def gaps(self) -> tuple[int, ...]:
        """The places of the steps in which a reading was lost, from 0."""
        # the last step may be half a step longer
        longest = [*[self.merged + 0.5] * (len(self) - 1), 1.5 * self.merged]
        pairs = zip(self.steps_ms, longest, strict=False)
        return tuple(place for place, (step, most) in enumerate(pairs) if self.lost and step > most * STEP_S * 1000)


def _says(value: object, usual: object) -> bool:
    """Whether a field says more than its absence does."""
    return any(value) if isinstance(value, list | tuple) else value != usual


def series_of(
    readings: Sequence[Counted], counted_by: Source = "QEMU", *, lost: int = 0, warm_up_s: float = 0.0
) -> Series:
    """The series that these readings make, of which the first is its beginning; thinned where they are too many.

    As counts grow, to leave out a reading merges the steps before and after it: no operation is lost.
    """
    merged = max(1, -(-(len(readings) - 1) // LARGEST_STEPS))
    kept = list(readings[:-1:merged]) + list(readings[-1:])
    if len(kept) > 2 and kept[-1].at_s - kept[-2].at_s < merged * STEP_S / 2:
        # a rate of a few milliseconds says nothing
        del kept[-2]
    edges = _edges_ms([reading.at_s for reading in kept])
    series = Series(
        counted_by=counted_by,
        steps_ms=tuple(_increments(edges)),
        begin_ms=edges[0] if edges else 0,
        merged=merged,
        lost=lost,
        warm_up_s=warm_up_s,
    )
    columns = {name: _column([getattr(reading.counts, name) for reading in kept]) for name in Counts._fields}
    return series.model_copy(update=columns)


def _edges_ms(moments_s: Sequence[float]) -> list[int]:
    """These moments in whole milliseconds, each later than the one before."""
    edges: list[int] = []
    for moment in moments_s:
        edges.append(max(round(1000 * moment), edges[-1] + 1 if edges else 0))
    return edges


def _column(counts: Sequence[int | None]) -> tuple[int, ...] | None:
    known = [count for count in counts if count is not None]
    return tuple(_increments(known)) if len(known) == len(counts) else None


def _increments(counts: Sequence[int]) -> list[int]:
    # the kernel's times have 32 bits: where one begins anew nothing is known to have passed
    return [max(0, after - before) for before, after in itertools.pairwise(counts)]


def read_qemu_counts(stats: Mapping[str, int]) -> Counts:
    """The counts in the `stats` of QMP query-blockstats; what an emulator leaves out is not counted."""
    times = {name: stats.get(f"{kind}_total_time_ns") for name, kind in _TIMES.items()}
    return Counts(
        reads=stats["rd_operations"],
        writes=stats["wr_operations"],
        read_bytes=stats["rd_bytes"],
        written_bytes=stats["wr_bytes"],
        flushes=stats.get("flush_operations"),
        **{name: None if ns is None else ns // 1000 for name, ns in times.items()},
    )


_TIMES = {"read_us": "rd", "write_us": "wr", "flush_us": "flush"}


def read_device_counts(text: str) -> Counts | None:
    """The counts in a line of /sys/block/X/stat; None where it is none."""
    numbers = [int(field) for field in text.split() if field.isdigit()]
    if len(numbers) < 11:
        return None
    flushes, flush_ms = numbers[15:17] if len(numbers) > 16 else (None, None)
    return Counts(
        reads=numbers[0],
        writes=numbers[4],
        read_bytes=numbers[2] * _SECTOR_BYTES,
        written_bytes=numbers[6] * _SECTOR_BYTES,
        flushes=flushes,
        read_us=numbers[3] * 1000,
        write_us=numbers[7] * 1000,
        flush_us=None if flush_ms is None else flush_ms * 1000,
    )

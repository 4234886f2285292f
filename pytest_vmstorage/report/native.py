"""Each row beside the native row of its device and the null row of its guest: percent of both, time per I/O; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_vmstorage.natives import ground_of
from pytest_vmstorage.results import Measurement, Run
from pytest_vmstorage.units import format_figure

LATENCIES = ("lat_mean", "read_lat_mean", "write_lat_mean")
"""Metrics in seconds that are the mean time of one I/O; their difference is what one I/O costs more."""

PATH_FIELDS = (
    *("emulator", "iothread", "queues", "queue_size", "cache", "machine_type"),
    *("vcpus", "scheduler", "memory", "guest_fs"),
)
"""What an I/O's path through guest and QEMU depends on beside the bus, what matters most first."""

LEGEND = (
    "what an I/O takes more than natively is what virtualization costs; a null row is guest and QEMU without any"
    " storage, the most that a row behind them can reach"
)


class Yardsticks:
    """The native and null rows of a run, by which its other rows are measured."""

    def __init__(self, run: Run) -> None:
        self._natives = {_device_key(m): m for m in run.measurements if m.config.is_native}
        self._nulls = [m for m in run.measurements if m.config.is_null]

    def native_of(self, m: Measurement) -> Measurement | None:
        """The row without a guest of the same workload on the same device and host; none of one that is no guest's."""
        return None if m.config.is_native or m.config.is_null else self._natives.get(_device_key(m))

    def null_of(self, m: Measurement) -> Measurement | None:
        """The row without storage of the same workload, bus, limits and host that shares most of `PATH_FIELDS`.

        Of several that share as many, the one that shares the earlier of them; of equal ones the first measured.
        """
        if m.config.is_native or m.config.is_null:
            return None
        there = [null for null in self._nulls if _path_key(null) == _path_key(m)]
        return max(there, key=lambda null: _shared(m, null), default=None)


def _device_key(m: Measurement) -> tuple[str, str, str, str]:
    return (m.host, ground_of(m.config), m.workload, m.primary)


def _path_key(m: Measurement) -> tuple[object, ...]:
    # a limit is no storage's, and a row behind another one has another ceiling
    limits = (m.config.total_iops_sec, m.config.total_bytes_sec)
    return (m.host, m.config.bus, *limits, m.workload, m.primary)


def _shared(m: Measurement, null: Measurement) -> tuple[int, Sequence[bool]]:
    same = [getattr(m.config, name) == getattr(null.config, name) for name in PATH_FIELDS]
    return sum(same), same


def share_of(m: Measurement, other: Measurement, name: str) -> float | None:
    """The fraction of the other row's figure that this one's is; of a time the inverse: twice as long is a half.

    None where the other has no such metric, where neither way is better, or either is 0.
    """
    if not _has(other, name):
        return None
    now, then = m.figure(name), other.figure(name)
    if not now or not then or now.metric.better == "neither":
        return None
    return float(now / then if now.metric.better == "higher" else then / now)


def against_native(run: Run) -> Iterator[str]:
    """A sentence for each row with guest and storage that has a native or a null row; the last says what these are."""
    rows, has_null = Yardsticks(run), False
    for m in run.measurements:
        native, null = rows.native_of(m), rows.null_of(m)
        has_null = has_null or null is not None
        others = [("native", native)] if native is not None else []
        if null is not None:
            others.append((str(null.config), null))
            yield f"{m.config}, {m.workload}: {_percent(m, others)}{_times(m, native, null)}"
        elif native is not None:
            yield f"{m.config}, {m.workload}: {_percent(m, others)}{_cost(m, native)}"
    if has_null:
        yield LEGEND


def _percent(m: Measurement, others: Sequence[tuple[str, Measurement]]) -> str:
    shares = [(name, share_of(m, other, m.primary)) for name, other in others]
    if any(share is None for _, share in shares):
        return "no percentage of 0"
    said = " and ".join(f"{share:.0%} of {name}" for name, share in shares)
    against = " and ".join(str(other.figure(m.primary)) for _, other in others)
    return f"{said} ({m.primary} {m.figure(m.primary)} against {against})"


def _cost(m: Measurement, native: Measurement) -> str:
    both = [name for name in LATENCIES if _has(m, name) and _has(native, name)]
    return "".join(f", {_io(name)} takes {_difference(m, native, name)}" for name in both)


def _times(m: Measurement, native: Measurement | None, null: Measurement) -> str:
    """What one I/O takes, and what it takes more than in each of the rows beside it, with their own times."""
    sentences = []
    for name in LATENCIES:
        if not _has(m, name):
            continue
        beside = [("natively", native), ("on null", null)]
        parts = [
            f"{_difference(m, other, name)} than {where} ({_time(other, name)})"
            for where, other in beside
            if other is not None and _has(other, name)
        ]
        sentences += [f", {_io(name)} takes {_time(m, name)}: {', '.join(parts)}"] if parts else []
    return "".join(sentences)


def _io(name: str) -> str:
    """What one of that latency's metric is called: "an I/O", "a read"."""
    way = name.removesuffix("lat_mean").rstrip("_")
    return f"a {way}" if way else "an I/O"


def _time(m: Measurement, name: str) -> str:
    return format_figure(m.figure(name), "s")


def _difference(m: Measurement, other: Measurement, name: str) -> str:
    more = m.figure(name) - other.figure(name)
    return f"{format_figure(abs(more), 's')} {'more' if more >= 0 else 'less'}"


def _has(m: Measurement, name: str) -> bool:
    return any(metric.name == name for metric in m.metrics)

"""Each row beside the native row of the same device: percent of it, and what virtualization costs per I/O; pure."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_vmstorage.natives import ground_of
from pytest_vmstorage.results import Measurement, Run
from pytest_vmstorage.units import format_figure

LATENCIES = ("lat_mean", "read_lat_mean", "write_lat_mean")
"""Metrics in seconds that are the mean time of one I/O; their difference is what one I/O costs more."""


def against_native(run: Run) -> Iterator[str]:
    """A sentence for each row with a guest whose workload was measured natively on the same device of its host."""
    natives = {_key(m): m for m in run.measurements if m.config.is_native}
    for m in run.measurements:
        native = natives.get(_key(m))
        if native is not None and not m.config.is_native:
            yield f"{m.config}, {m.workload}: {_percent(m, native)}{_cost(m, native)}"


def _key(m: Measurement) -> tuple[str, str, str, str]:
    return (m.host, ground_of(m.config), m.workload, m.primary)


def _percent(m: Measurement, native: Measurement) -> str:
    now, then = m.figure(m.primary), native.figure(m.primary)
    # of a time the inverse: 50 % of native is half as fast, whatever was measured
    share = now / then if now.metric.better == "higher" else then / now
    return f"{share:.0%} of native ({m.primary} {now} against {then})" if now and then else "no percentage of 0"


def _cost(m: Measurement, native: Measurement) -> str:
    both = [name for name in LATENCIES if _has(m, name) and _has(native, name)]
    told = [(name, m.figure(name) - native.figure(name)) for name in both]
    parts = [
        f"{name.removesuffix('lat_mean').rstrip('_') or 'an'} I/O takes {format_figure(abs(more), 's')}"
        f" {'more' if more >= 0 else 'less'}"
        for name, more in told
    ]
    return "".join(f", {part}" for part in parts)


def _has(m: Measurement, name: str) -> bool:
    return any(metric.name == name for metric in m.metrics)

"""The native and null rows of a run, which the other rows on the same device or bus are measured by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import WorkloadError
from pytest_vmstorage.results.counters import above_native
from pytest_vmstorage.results.run import Measurement

LEAST_ROUNDS = 3
"""Fewer rounds of a native row do not show the speed of its device: one of 0.1 s has been half as fast as the next."""

PATH_FIELDS = (
    *("emulator", "iothread", "queues", "queue_size", "cache", "machine_type"),
    *("vcpus", "scheduler", "memory", "guest_fs"),
)
"""Fields beside the bus that the path of an I/O through guest and QEMU depends on, the most important first."""


class Yardsticks:
    """The native and null rows among these measurements, and among those that are checked later."""

    def __init__(self, measurements: Iterable[Measurement] = ()) -> None:
        self._natives: dict[object, list[Measurement]] = {}
        self._nulls: list[Measurement] = []
        for m in measurements:
            self._keep(m)

    def _keep(self, m: Measurement) -> None:
        kind = m.config.backing_kind
        if kind == "native":
            self._natives.setdefault(_device_key(m), []).append(m)
        elif kind == "null":
            self._nulls.append(m)

    def native_of(self, m: Measurement) -> Measurement | None:
        """The last native row of the same workload, device and host; None for a row that has no guest or no storage."""
        # most runs have none, and are asked for each of their rows
        if not self._natives or m.config.is_native or m.config.is_null:
            return None
        natives = self._natives.get(_device_key(m), [])
        return natives[-1] if natives else None

    def null_of(self, m: Measurement) -> Measurement | None:
        """The null row of the same workload, bus, limits and host that shares most of `PATH_FIELDS`.

        Of several that share as many, the one that shares the earlier fields; of equal ones the first measured.
        """
        if not self._nulls or m.config.is_native or m.config.is_null:
            return None
        there = [null for null in self._nulls if _path_key(null) == _path_key(m)]
        return max(there, key=lambda null: _shared(m, null), default=None)

    def check(self, m: Measurement) -> None:
        """Keep a native or null row; raise WorkloadError where another row is faster than any cache explains.

        Only rates are compared: a device puts no lower limit on a time. A native row counts with its best round, from
        three rounds on. Null rows have no device, and a machine that the plugin did not make has its own.
        """
        self._keep(m)
        if m.metric(m.primary).better != "higher" or m.config.is_native or m.config.is_null or m.config.is_machine:
            return
        natives = [native for native in self._natives.get(_device_key(m), ()) if len(native.samples) >= LEAST_ROUNDS]
        best = max((value for native in natives for value in native.values(m.primary)), default=0.0)
        if best and (reason := above_native(float(m.figure(m.primary)), best, m.moved, m.config.cache)):
            raise WorkloadError(f"The figure of {m.workload} is INVALID: {reason}.", code="VM703")


def _device_key(m: Measurement) -> tuple[str, ...]:
    return (m.host, _ground_of(m.config), m.workload, m.primary)


def _ground_of(config: StorageConfig) -> str:
    """The ground under a cell, by the cell's name for it: a folder is one ground, whatever format lies in it."""
    name = config.backing_name or ("folder" if config.backing_kind in ("file", "native") else config.backing_kind)
    return f"{name} {config.host_fs} {config.host_mkfs} {config.host_mount}"


def _path_key(m: Measurement) -> tuple[object, ...]:
    # only rows with the same iotune limits are compared: a throttled disk has a lower ceiling
    return (m.host, m.config.bus, m.config.total_iops_sec, m.config.total_bytes_sec, m.workload, m.primary)


def _shared(m: Measurement, null: Measurement) -> tuple[int, Sequence[bool]]:
    same = [getattr(m.config, name) == getattr(null.config, name) for name in PATH_FIELDS]
    return sum(same), same

"""The native rows of a run, against which the rates of the other rows on the same device are held."""

from __future__ import annotations

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import WorkloadError
from pytest_vmstorage.results.counters import above_native, total
from pytest_vmstorage.results.host import HostFacts
from pytest_vmstorage.results.run import Measurement

Key = tuple[str, str, str, str]
"""Workload, its command's metric, and which device."""


LEAST_ROUNDS = 3
"""Fewer rounds of a native row do not say what its device can do: one of 0.1 s has been half as fast as the next."""


class Natives:
    """Best rounds of the native rows measured so far, by workload and by what lay under them."""

    def __init__(self) -> None:
        self._best: dict[Key, float] = {}

    def check(self, measured: Measurement, host: HostFacts) -> None:
        """Keep a native row's best round; raise WorkloadError where another row is faster than no cache explains.

        Only rates are compared: a time has no device to be too fast for, and neither has a disk without storage, or one
        that lies on another machine. A native row of fewer than three rounds is no measure of its device.
        """
        metric = measured.metric(measured.primary)
        if metric.better != "higher" or measured.config.is_null or measured.config.is_machine:
            return
        key = (measured.workload, metric.name, host.name, ground_of(measured.config))
        best = max(measured.values(metric.name))
        if measured.config.is_native:
            if len(measured.samples) >= LEAST_ROUNDS:
                self._best[key] = max(best, self._best.get(key, 0.0))
            return
        native = self._best.get(key)
        moved = total(sample.moved for sample in measured.samples)
        rate, cache = float(measured.figure(metric.name)), measured.config.cache
        reason = above_native(rate, native, moved, cache) if native else ""
        if reason:
            raise WorkloadError(f"The figure of {measured.workload} is INVALID: {reason}.")


def ground_of(config: StorageConfig) -> str:
    """What lies under a cell, by the name that the cell has for it: a folder is one, whatever format lies in it."""
    name = config.backing_name or ("folder" if config.backing_kind in ("file", "native") else config.backing_kind)
    return f"{name} {config.host_fs} {config.host_mkfs} {config.host_mount}"

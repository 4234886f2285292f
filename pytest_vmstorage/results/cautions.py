"""What speaks against a figure though it is valid: its host's state, and caches that can hold what it moves; pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.buses import CACHES
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.results.counters import SLACK_BYTES, IoCounters
from pytest_vmstorage.results.host import UNKNOWN, HostState
from pytest_vmstorage.units import format_about, format_size

PRESSURE = 0.10
"""More of the rounds' time than this may no task of the host wait for a CPU or, where others cause it, for I/O."""

OTHERS_IO = 0.20
"""Less than this fraction of the device's bytes is file system metadata and log, and nobody else's I/O."""

OTHERS_CPU = 0.05
"""Of one CPU: more than this is a guest at work; a paused or idle one takes less."""


class Caution(BaseModel):
    """One thing that speaks against a measurement's figure; `share` is the fraction that was found, where it is one."""

    model_config = ConfigDict(frozen=True)

    says: str
    share: float | None = None


def host_cautions(state: HostState, pressed: Sequence[Mapping[str, float]], moved: IoCounters) -> Iterator[Caution]:
    """What the host's state says against it; `pressed` has each round's pressure, `moved` is that of all rounds.

    I/O pressure is what storage workloads make by themselves, so that it counts only where others used the device.
    """
    if state.governor not in (UNKNOWN, "performance"):
        yield Caution(says=f"the CPU governor was {state.governor}, not performance")
    cpu, io = _mean(pressed, "cpu"), _mean(pressed, "io")
    if cpu is not None and cpu > PRESSURE:
        yield Caution(says=f"tasks of the host waited for a CPU for more than {PRESSURE:.0%} of the rounds", share=cpu)
    others = others_io(moved)
    if io is not None and io > PRESSURE and others is not None and others > OTHERS_IO:
        yield Caution(
            says="tasks of the host waited for I/O, and others moved a part of its device's bytes", share=others
        )
    if state.others_cpu is not None and state.others_cpu > OTHERS_CPU:
        yield Caution(
            says="other QEMU processes were at work on the host, in fractions of one CPU", share=state.others_cpu
        )


def _mean(pressed: Sequence[Mapping[str, float]], name: str) -> float | None:
    known = [one[name] for one in pressed if name in one]
    return statistics.fmean(known) if known and len(known) == len(pressed) else None


def others_io(moved: IoCounters) -> float | None:
    """The fraction of what the host's device moved that QEMU did not; None where little moved or nobody can tell."""
    device = (moved.device_read_bytes, moved.device_written_bytes)
    qemu = (moved.host_read_bytes, moved.host_written_bytes)
    if device[0] is None or device[1] is None or qemu[0] is None or qemu[1] is None:
        return None
    others = max(0, device[0] - qemu[0]) + max(0, device[1] - qemu[1])
    return others / (device[0] + device[1]) if others > SLACK_BYTES else None


def _uses_host_cache(config: StorageConfig) -> bool:
    """Whether what the guest moves goes through the host's page cache: nothing does without storage."""
    return not CACHES[config.cache].direct and not config.is_null


class WorkingSet(BaseModel):
    """What a workload works on, in bytes (None where its tool makes files of its own), and whether it is direct.

    `is_direct` says that it goes past the page cache of the system on which its tool runs. `through_arc` says that a
    ZFS volume lies below: its reads are cached in the ARC whether they are direct or not (zfsprops(7), primarycache).
    """

    model_config = ConfigDict(frozen=True)

    label: str
    size_bytes: int | None
    is_direct: bool
    through_arc: bool = False

    def _at_most(self, config: StorageConfig) -> int:
        return config.size if self.size_bytes is None else self.size_bytes

    @property
    def size(self) -> str:
        """Its size in words."""
        return "unknown" if self.size_bytes is None else format_size(self.size_bytes)

    def holders(self, config: StorageConfig, host_memory: int | None) -> tuple[str, ...]:
        """Which caches in the way can hold all of it (facts: a buffered working set is larger than memory)."""
        size = self._at_most(config)
        through_host = (not self.is_direct) if not config.has_guest else _uses_host_cache(config)
        found = []
        if config.has_guest and not self.is_direct and size <= config.memory:
            found.append("the guest's memory")
        if through_host and host_memory is not None and size <= host_memory:
            found.append("the machine's page cache" if config.is_machine else "the host's page cache")
        if self.through_arc and host_memory is not None and size <= host_memory:
            found.append("ZFS's cache (ARC) on the host")
        return tuple(found)

    def note(self, config: StorageConfig, host_memory: int | None) -> str:
        """A few words for the row's hygiene."""
        size = self.size
        holders = self.holders(config, host_memory)
        if holders:
            return f"{size}, which {' and '.join(holders)} can hold"
        unsure = host_memory is None and _uses_host_cache(config)
        return f"{size}, and the host's memory is unknown" if unsure else size

    def cautions(self, config: StorageConfig, host_memory: int | None) -> Iterator[Caution]:
        """A sentence for each cache that can hold it."""
        size = "the whole disk" if self.size_bytes is None else f"the {format_about(self.size_bytes)}"
        for holder in self.holders(config, host_memory):
            yield Caution(says=f"{holder} lies in the way and can hold {size} that {self.label} works on")

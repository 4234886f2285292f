"""Doubts about a valid figure: its host's state, and caches that can hold the working set; pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

from pytest_vmstorage.config.buses import CACHES
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.results.counters import SLACK_BYTES, IoCounters
from pytest_vmstorage.results.host import UNKNOWN, HostState
from pytest_vmstorage.units import format_about, format_size

PRESSURE = 0.10
"""The largest part of the rounds in which tasks of the host may wait for a CPU or, because of others, for I/O."""

OTHERS_IO = 0.20
"""Less than this fraction of the device's bytes is file system metadata and log, and nobody else's I/O."""

OTHERS_CPU = 0.05
"""Part of one CPU: a guest at work takes more than this, a paused or idle one less."""


SETTING, OTHERS, CACHED = 1, 2, 3
"""Weights of doubts: a setting of the host, other work on it, and a figure that may be a cache's and not the disk's."""


class Caution(BaseModel):
    """A doubt about a measurement's figure; `share` is the fraction that was found, where it is one.

    `brief` is the same for all workloads, so that a report can count it, `remedy` the user's way out, and `weight` is
    larger where the doubt matters more; an earlier version saved none of them.
    """

    model_config = ConfigDict(frozen=True)

    says: str
    share: float | None = None
    brief: str = ""
    remedy: str = ""
    weight: int = 0

    @model_serializer(mode="wrap")
    def _as_saved(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """As an earlier version saved it where it has nothing more."""
        later = ("brief", "remedy", "weight")
        return {name: value for name, value in handler(self).items() if value or name not in later}


def host_cautions(state: HostState, pressed: Sequence[Mapping[str, float]], moved: IoCounters) -> Iterator[Caution]:
    """The doubts from the host's state; `pressed` has each round's pressure, `moved` the bytes of all rounds.

    Storage workloads cause I/O pressure by themselves, so it counts only where others used the device.
    """
    if state.governor not in (UNKNOWN, "performance"):
        said = f"the CPU governor was {state.governor}, not performance"
        yield Caution(says=said, brief=said, remedy="--vm-governor=performance", weight=SETTING)
    cpu, io = _mean(pressed, "cpu"), _mean(pressed, "io")
    if cpu is not None and cpu > PRESSURE:
        yield Caution(
            says=f"tasks of the host waited for a CPU for more than {PRESSURE:.0%} of the rounds", share=cpu,
            brief="host tasks waited for a CPU", remedy="a quiet host", weight=OTHERS,
        )  # fmt: skip
    others = others_io(moved)
    if io is not None and io > PRESSURE and others is not None and others > OTHERS_IO:
        yield Caution(
            says="tasks of the host waited for I/O, and others moved a part of its device's bytes", share=others,
            brief="others used the host's device", remedy="a quiet host, or a device of its own", weight=OTHERS,
        )  # fmt: skip
    if state.others_cpu is not None and state.others_cpu > OTHERS_CPU:
        yield Caution(
            says="other QEMU processes were at work on the host, in fractions of one CPU", share=state.others_cpu,
            brief="other QEMU processes took CPU time", remedy="a quiet host", weight=OTHERS,
        )  # fmt: skip


def _mean(pressed: Sequence[Mapping[str, float]], name: str) -> float | None:
    known = [one[name] for one in pressed if name in one]
    return statistics.fmean(known) if known and len(known) == len(pressed) else None


def others_io(moved: IoCounters) -> float | None:
    """The fraction of the device's bytes that QEMU did not move; None where little moved or a counter is unknown."""
    device = (moved.device_read_bytes, moved.device_written_bytes)
    qemu = (moved.host_read_bytes, moved.host_written_bytes)
    if device[0] is None or device[1] is None or qemu[0] is None or qemu[1] is None:
        return None
    others = max(0, device[0] - qemu[0]) + max(0, device[1] - qemu[1])
    return others / (device[0] + device[1]) if others > SLACK_BYTES else None


GUEST_MEMORY, HOST_CACHE, MACHINE_CACHE = "the guest's memory", "the host's page cache", "the machine's page cache"
ARC = "ZFS's cache (ARC) on the host"


def _uses_host_cache(config: StorageConfig) -> bool:
    """Whether the guest's I/O goes through the host's page cache: without storage it does not."""
    return not CACHES[config.cache].direct and not config.is_null


class WorkingSet(BaseModel):
    """The data that a workload uses, in bytes (None where its tool makes files of its own), and whether it is direct.

    With `is_direct` I/O bypasses the page cache of the system on which the tool runs. With `through_arc` a ZFS volume
    lies below: its reads are cached in the ARC whether they are direct or not (zfsprops(7), primarycache).
    """

    model_config = ConfigDict(frozen=True)

    label: str
    size_bytes: int | None
    is_direct: bool
    through_arc: bool = False

    @property
    def size(self) -> str:
        """Its size in words."""
        return "unknown" if self.size_bytes is None else format_size(self.size_bytes)

    def holders(self, config: StorageConfig, host_memory: int | None) -> tuple[str, ...]:
        """The caches on the I/O path that can hold all of it."""
        size = config.size if self.size_bytes is None else self.size_bytes
        through_host = (not self.is_direct) if not config.has_guest else _uses_host_cache(config)
        found = []
        if config.has_guest and not self.is_direct and size <= config.memory:
            found.append(GUEST_MEMORY)
        if through_host and host_memory is not None and size <= host_memory:
            found.append(MACHINE_CACHE if config.is_machine else HOST_CACHE)
        if self.through_arc and host_memory is not None and size <= host_memory:
            found.append(ARC)
        return tuple(found)

    def note(self, config: StorageConfig, host_memory: int | None) -> str:
        """A few words for the row's hygiene."""
        if holders := self.holders(config, host_memory):
            return f"{self.size}, which {' and '.join(holders)} can hold"
        unsure = host_memory is None and _uses_host_cache(config)
        return f"{self.size}, and the host's memory is unknown" if unsure else self.size

    def cautions(self, config: StorageConfig, host_memory: int | None) -> Iterator[Caution]:
        """A sentence for each cache that can hold it."""
        size = "the whole disk" if self.size_bytes is None else f"the {format_about(self.size_bytes)}"
        for holder in self.holders(config, host_memory):
            yield Caution(
                says=f"{holder} lies in the way and can hold {size} that {self.label} works on",
                brief=f"{holder} can hold all data", remedy=_past(holder, config, host_memory), weight=CACHED,
            )  # fmt: skip


def _past(holder: str, config: StorageConfig, host_memory: int | None) -> str:
    """The ways past a cache: more data than its memory holds, or I/O that bypasses it."""
    memory = config.memory if holder == GUEST_MEMORY else host_memory
    larger = f"size= above {format_about(memory or 0)}"
    if holder == ARC:
        return f"{larger}, primarycache=metadata"
    return f"{larger}, {'cache=none' if holder == HOST_CACHE and config.has_guest else 'direct I/O'}"

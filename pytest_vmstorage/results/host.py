"""The facts of a host, and its state around the rounds of a measurement; frozen values."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import StorageConfig

UNKNOWN = "unknown"
NO_DEVICE = "none"
"""The device, and each fact of it, of a disk without storage."""


class HostState(BaseModel):
    """The state of the host around the rounds of a measurement; each text is "unknown" where it cannot be read.

    `governor`: of all CPUs; `turbo`: "on" or "off"; `scheduler` and `write_cache`: of `device`, which is below the
    disk; `temperature`: of the hottest sensor after the last round; `numa`: nodes with their CPUs; `may_run`: CPUs on
    which QEMU's threads may run. `others_cpu` is the part of one CPU that all other QEMU processes together took from
    before the first round to after the last, `others` their number. `recent` is the kernel's avg10 of
    pressure before the first round. `memory_bytes` is MemTotal.
    """

    model_config = ConfigDict(frozen=True)

    governor: str = UNKNOWN
    turbo: str = UNKNOWN
    device: str = UNKNOWN
    scheduler: str = UNKNOWN
    write_cache: str = UNKNOWN
    temperature: str = UNKNOWN
    numa: str = UNKNOWN
    may_run: str = UNKNOWN
    memory_bytes: int | None = None
    others: int | None = None
    others_cpu: float | None = None
    recent: Mapping[str, float] = {}


EMULATED = "Guests ran under software emulation (TCG): these figures say nothing about performance."
"""The warning for emulated hosts, in all reports."""


class HostFacts(BaseModel):
    """The facts of the host of some rows; a fact that the host hides is "unknown", never left out.

    `stated` are the facts in vmstorage.toml about a foreign machine, by field; nothing proves them.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    cpu: str = "unknown"
    cores: int = 0
    memory_bytes: int = 0
    kernel: str = "unknown"
    qemu: str = "unknown"
    libvirt: str = "unknown"
    accel: str = "unknown"
    accel_requested: str = "auto"
    accel_reason: str = ""
    folder: str = ""
    file_system: str = "unknown"
    device: str = "unknown"
    governor: str = "unknown"
    stated: Mapping[str, str] = {}
    is_machine: bool = False

    def accel_of(self, config: StorageConfig, *, on_host: bool = False) -> str:
        """The acceleration of a cell's row: this host's, or "native" without a guest.

        A foreign machine is a host of its own, with an acceleration of its own.
        """
        return "native" if config.is_native or on_host else self.accel

    @property
    def is_emulated(self) -> bool:
        """Whether guests ran under TCG: such figures say nothing about performance."""
        return self.accel == "tcg"

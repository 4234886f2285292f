"""The facts of a host, and its state around the rounds of a measurement; frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

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


class Fact(NamedTuple):
    """How a fact of a host is used: `words` name it where two hosts differ, "" where they may differ unseen.

    With `must_match` figures of hosts that differ in it are not compared. `shown` names it in the first line of a
    report's section on the host, "" where it stands elsewhere.
    """

    words: str = ""
    must_match: bool = False
    shown: str = ""


class HostFacts(BaseModel):
    """The facts of the host of some rows; a fact that the host hides is "unknown", never left out.

    A new fact is a field here and a line of the script that reads it (`host.facts`): reports, CSV and comparisons take
    it from its `Fact`. `calibration` is the id of the calibration that the run used, "" without one; `calibrated` says
    in a sentence what it changed, or why one was not used. `stated` are the facts in vmstorage.toml about a foreign
    machine, by field; nothing proves them.
    """

    model_config = ConfigDict(frozen=True)

    name: Annotated[str, Fact("host", must_match=True)]
    cpu: Annotated[str, Fact("CPU", must_match=True)] = "unknown"
    cores: Annotated[int, Fact("number of cores", must_match=True)] = 0
    memory_bytes: int = 0
    kernel: Annotated[str, Fact("kernel")] = "unknown"
    qemu: Annotated[str, Fact("QEMU")] = "unknown"
    libvirt: Annotated[str, Fact("libvirt")] = "unknown"
    accel: str = "unknown"
    accel_requested: str = "auto"
    accel_reason: str = ""
    folder: str = ""
    file_system: Annotated[str, Fact("file system below the disks", must_match=True)] = "unknown"
    device: Annotated[str, Fact("device below the disks", must_match=True)] = "unknown"
    governor: Annotated[str, Fact("CPU governor", must_match=True, shown="governor")] = "unknown"
    calibration: str = ""
    calibrated: str = ""
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


FACTS: Mapping[str, Fact] = {
    name: fact for name, field in HostFacts.model_fields.items() for fact in field.metadata if isinstance(fact, Fact)
}
"""The facts of a host that have a name in comparisons, by their fields."""

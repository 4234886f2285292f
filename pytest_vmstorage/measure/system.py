"""Protocol and values between the runner and the systems on which workloads run: plan, regions, paths, identity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.settings import Hygiene
from pytest_vmstorage.host.counters import Look
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.results.host import HostState
from pytest_vmstorage.results.run import Proof
from pytest_vmstorage.results.series import Counts


class Plan(BaseModel):
    """How often a workload runs: measured rounds, warm-up rounds before them, and the hygiene around them."""

    model_config = ConfigDict(frozen=True)

    rounds: int = Field(default=3, ge=1)
    warmup: int = Field(default=1, ge=0)
    timeout_s: float = 120.0
    hygiene: Hygiene = Hygiene()

    @property
    def warmup_rounds(self) -> int:
        """Number of warm-up rounds; 0 where --vm-without leaves them out."""
        return self.warmup if self.hygiene.has("warmup") else 0


@dataclass
class Regions:
    """Parts of a disk, each from its start, that were written at all, and on the host before its guest began."""

    size_bytes: int
    written_bytes: int = 0
    filled_on_host_bytes: int = 0


class Paths(BaseModel):
    """Paths for a workload: `disk` is a block device or a file; for a file `device` is the block device below it.

    `folder` is on the file system under test; `scratch` is a folder for the tools' output. "" means none.
    """

    model_config = ConfigDict(frozen=True)

    disk: str
    is_file: bool = False
    device: str = ""
    folder: str = ""
    scratch: str = "/tmp"


class Identity(BaseModel):
    """A row's description of the system: its host's name, its facts, its tools' versions, and the proof of its cell.

    `made_from` are hashes of a guest's sources; `boot` identifies one boot of the guest, "" without a guest;
    `is_restored` says that the guest was restored, so that a fio may be parked in it.
    """

    model_config = ConfigDict(frozen=True)

    host: str
    facts: Mapping[str, str] = Field(default_factory=dict)
    tools: Mapping[str, str] = Field(default_factory=dict)
    proof: tuple[Proof, ...] = ()
    made_from: Mapping[str, str] = Field(default_factory=dict)
    boot: str = ""
    is_restored: bool = False


class SystemUnderTest(Protocol):
    """A place where workloads run, as the runner sees it: five values, and the steps and readings around rounds.

    `look`, `begin_look`, `count`, `watch` and `recheck` are called in a thread, while the shell is in use.
    """

    regions: Regions

    @property
    def config(self) -> StorageConfig:
        """The cell whose disk is measured."""

    @property
    def shell(self) -> Shell:
        """Runs commands where workloads run."""

    @property
    def paths(self) -> Paths:
        """Paths that a workload can use there."""

    @property
    def identity(self) -> Identity:
        """Description of the system for its rows."""

    def set_host(self) -> Mapping[str, str]:
        """Apply the run's settings to the host's device below the disk; returns notes for its rows."""

    def next_order(self) -> int:
        """The number of the round that ends now, counted over all cells of the run."""

    def begin_look(self) -> Callable[[], Look]:
        """Read those counters that can be read next to other work; the result reads the others."""

    def look(self) -> Look:
        """Read all counters of bytes moved so far."""

    def count(self) -> Counts | None:
        """Read what the disk has done so far, twice a second while a tool runs; None where nothing counts it.

        A reading starts no process and writes nothing.
        """

    def watch(self) -> Callable[[], HostState]:
        """Begin to watch the host once earlier guests are gone; the result returns its state since then."""

    def drop_caches(self) -> str:
        """Make the host drop its cached pages of the disk; returns a description of the way."""

    def write_back(self) -> None:
        """Make the host write back its dirty pages of the disk, and drop none."""

    def recheck(self) -> str:
        """Changes since the proof, in a clause; "" where there are none."""

    def fragments(self) -> int | None:
        """Number of pieces in which the disk's data lies on the host; None where that cannot be found out."""

    def zeros_vanish(self) -> str:
        """The layer that stores zeros as nothing, in a clause; "" where none is known to."""

    def note_need(self, end_bytes: int) -> None:
        """Learn the byte up to which this test fills the disk, so that later disks can be made filled."""

    def share_filled(self) -> None:
        """Let disks of cells that begin alike be made from this one, whose test file was just filled."""

    def alongside(self, prepare: Callable[[SystemUnderTest], None]) -> AbstractContextManager[None]:
        """Context in which `prepare` is run, in threads, on waiting systems that will run the same test first."""

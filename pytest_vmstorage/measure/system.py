"""What is measured, where it runs and how often: the protocol between the runner and whatever workloads run on."""

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


class Plan(BaseModel):
    """How often a workload is run: measured rounds, rounds before that are thrown away, and the hygiene around them."""

    model_config = ConfigDict(frozen=True)

    rounds: int = Field(default=3, ge=1)
    warmup: int = Field(default=1, ge=0)
    timeout_s: float = 120.0
    hygiene: Hygiene = Hygiene()

    @property
    def warmup_rounds(self) -> int:
        """How many rounds are thrown away, by what --vm-without left of them."""
        return self.warmup if self.hygiene.has("warmup") else 0


@dataclass
class Regions:
    """How much of a disk, from its start, was written, and how much of that on the host, before its guest began."""

    size_bytes: int
    written_bytes: int = 0
    filled_on_host_bytes: int = 0


class Paths(BaseModel):
    """What a workload can name: `disk` is a block device or a file; for a file `device` is the block device below it.

    `folder` is on the file system under test; `scratch` is a folder for the tools' output. "" where there is none.
    """

    model_config = ConfigDict(frozen=True)

    disk: str
    is_file: bool = False
    device: str = ""
    folder: str = ""
    scratch: str = "/tmp"


class Identity(BaseModel):
    """What a row tells of the system: its host's name, its facts and tools' versions, and the proof of its cell.

    `made_from` are hashes of what a guest was made from; `boot` is the guest's life, "" without one, and
    `is_restored` says that it was restored, so that a fio may be parked in it.
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
    """Where a workload runs, as the runner sees it: five values, and what is done and read around its rounds.

    `look`, `begin_look`, `watch` and `recheck` are called in a thread, while the shell is in use.
    """

    regions: Regions

    @property
    def config(self) -> StorageConfig:
        """The cell that it is."""

    @property
    def shell(self) -> Shell:
        """Runs commands where workloads run."""

    @property
    def paths(self) -> Paths:
        """What a workload can name there."""

    @property
    def identity(self) -> Identity:
        """What its rows tell of it."""

    def set_host(self) -> Mapping[str, str]:
        """Set what the run asks of the host's device below the disk; what each row says of that, and of its making."""

    def next_order(self) -> int:
        """The number of the round that ends now among all of the run's, over all cells."""

    def begin_look(self) -> Callable[[], Look]:
        """Count what was moved so far, as far as it can be counted beside other work; the result counts the rest."""

    def look(self) -> Look:
        """Count what was moved so far."""

    def watch(self) -> Callable[[], HostState]:
        """Watch the host from when earlier guests are gone; the result tells its state since then."""

    def drop_caches(self) -> str:
        """Make the host forget what it cached of the disk; says how."""

    def write_back(self) -> None:
        """Make the host write back what it holds of the disk, and forget nothing."""

    def recheck(self) -> str:
        """What is no longer as it was proven, in a clause; "" where all is."""

    def fragments(self) -> int | None:
        """In how many pieces the disk's data lies on the host; None where nobody can tell."""

    def zeros_vanish(self) -> str:
        """Which layer stores zeros as nothing, in a clause; "" where none is known to."""

    def note_need(self, end_bytes: int) -> None:
        """Learn up to which byte the disk is filled for this test: disks made later may be so from the start."""

    def alongside(self, prepare: Callable[[SystemUnderTest], None]) -> AbstractContextManager[None]:
        """Meanwhile `prepare`, each in a thread, the waiting systems that will run the same test first."""

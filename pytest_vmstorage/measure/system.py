"""What is measured: where a workload runs, in which cell, and how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

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


@dataclass
class SystemUnderTest:
    """Where a workload runs: a shell, the disk there, the cell it is with its proof, how the host forgets its cache.

    `sync_host` makes the host write back what it holds of the disk, and forget nothing. `zeros_vanish` says which layer
    stores zeros as nothing, "" where none is known to.
    `disk` is a block device or a file; for a file `device` is the block device below it, "" where there is none.
    `folder` is on the file system under test, "" without one; `scratch` is a folder for the tools' output. `fragments`
    counts the pieces in which the disk's data lies on the host, None where nobody can tell. `recheck` says, after the
    last round, what is no longer as it was proven. `notes` are put down with the hygiene of each row.
    `made_from` are hashes of what the guest was made from.
    `has_parked_fio` says of a restored guest that a fio may wait in it for what it is to write before the first round.
    `boot` is the life of the guest, "" without one; `next_order` counts the rounds of a run over all its cells.
    `settle` waits until the guests of earlier rows are gone. `alongside(fn)` is a context manager: meanwhile `fn` runs
    in threads for each waiting guest that will run the same test first; `note_need` is told up to which byte the disk
    is to be filled, which rows that are made later may have from the start. `look` counts around each round;
    `begin_look` does so for guest and QEMU, and what it returns for the host, None where there is no guest; `watch`
    begins to watch the host, and what it returns tells its state since then. These three, `settle` and `recheck` are
    called in a thread beside the shell.
    """

    shell: Shell
    disk: str
    config: StorageConfig
    host: str
    facts: Mapping[str, str]
    regions: Regions
    drop_host_caches: Callable[[], str]
    sync_host: Callable[[], object] = field(default=lambda: None)
    zeros_vanish: Callable[[], str] = field(default=lambda: "")
    tools: Mapping[str, str] = field(default_factory=dict)
    proof: tuple[Proof, ...] = ()
    look: Callable[[], Look] = Look
    begin_look: Callable[[], Callable[[], Look]] | None = None
    settle: Callable[[], None] = field(default=lambda: None)
    alongside: Callable[[Callable[[SystemUnderTest], None]], AbstractContextManager[None]] = field(
        default=lambda _do: nullcontext()
    )
    note_need: Callable[[int], None] = field(default=lambda _bytes: None)
    watch: Callable[[], Callable[[], HostState]] = field(default=lambda: HostState)
    before_round: Callable[[], None] = field(default=lambda: None)
    is_file: bool = False
    folder: str = ""
    device: str = ""
    scratch: str = "/tmp"
    fragments: Callable[[], int | None] = field(default=lambda: None)
    recheck: Callable[[], str] = field(default=lambda: "")
    notes: Mapping[str, str] = field(default_factory=dict)
    made_from: Mapping[str, str] = field(default_factory=dict)
    has_parked_fio: bool = False
    boot: str = ""
    next_order: Callable[[], int] = field(default=lambda: 0)

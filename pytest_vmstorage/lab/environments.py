"""The three environments: a guest, the host itself (backing=native), a machine that the plugin did not make."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import LabHost, ListedMachine
from pytest_vmstorage.errors import GuestError, UnsupportedError, VmStorageError
from pytest_vmstorage.guest.agent import AgentShell
from pytest_vmstorage.guest.file_system import GuestFs, frozen
from pytest_vmstorage.guest.guest import Guest, testinfra_host
from pytest_vmstorage.guest.instance import StartedGuest
from pytest_vmstorage.guest.provenance import Provenance
from pytest_vmstorage.host.counters import HostLook, Look
from pytest_vmstorage.host.settings import HostSettings
from pytest_vmstorage.host.shell import CommandResult, Shell, has_program, read_beginning, unguarded
from pytest_vmstorage.host.watch import HostWatch
from pytest_vmstorage.lab.factory import GuestFactory
from pytest_vmstorage.lab.prefetch import Prefetch
from pytest_vmstorage.lab.reaper import DAEMON_LOGS
from pytest_vmstorage.measure.diagnosis import explain_error
from pytest_vmstorage.measure.preconditioning import zeros_vanish
from pytest_vmstorage.measure.proof.evidence import block_counters, fallback_lines, io_counters
from pytest_vmstorage.measure.proof.guest import changed_in_guest
from pytest_vmstorage.measure.system import Identity, Paths, Regions, SystemUnderTest
from pytest_vmstorage.results.counters import IoCounters, guest_counters, read_guest_stat
from pytest_vmstorage.results.failures import Symptoms, named
from pytest_vmstorage.results.host import HostState
from pytest_vmstorage.results.run import Proof
from pytest_vmstorage.results.series import Counts
from pytest_vmstorage.storage.caches import drop_caches, sync_disk
from pytest_vmstorage.storage.disk import HostDisk
from pytest_vmstorage.storage.fill import may_be_filled
from pytest_vmstorage.storage.space import fragments
from pytest_vmstorage.units import format_size

CONSOLE_BYTES = 16 * 2**20
"""The most that a guest may write to its serial console; a kernel in trouble writes a few hundred KiB."""


@dataclass
class Services:
    """Services that the environments of one lab share: the host with its shell and settings, factory and prefetch.

    `root` is the folder of the embedded driver's state, "" where a daemon runs guests; with `keep` a guest may
    outlive the run. Rounds are counted over all environments.
    """

    shell: Shell
    host: LabHost
    factory: GuestFactory
    prefetch: Prefetch
    provenance: Provenance
    settings: HostSettings | None = None
    root: str = ""
    keep: bool = False
    is_emulated: bool = False
    orders: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def log(self, machine: StartedGuest) -> str:
        """Path on the host of the guest's log by libvirt and QEMU."""
        folder = f"{self.root}/log/qemu" if self.root else DAEMON_LOGS
        return f"{folder}/{machine.domain_name}.log"

    def set_on(self, disk: HostDisk) -> Mapping[str, str]:
        """Apply the run's settings to the device below that disk; returns its rows' notes on them."""
        return self.settings.notes(disk.path) if self.settings is not None else {}


class DiskEnvironment:
    """Base of all environments: a cell's disk on a machine, whose caches and state are those around the rounds.

    `below` runs commands on that machine; `uuid` is that of the guest whose disk it is, "" without a guest.
    """

    def __init__(self, disk: HostDisk, below: Shell, services: Services, uuid: str = "") -> None:
        self._disk = disk
        self._below = below
        self._services = services
        # QEMU's process and the device below the disk do not change while the environment lives
        self._watch = HostWatch(below, "" if disk.config.is_null else disk.path, uuid)

    @property
    def config(self) -> StorageConfig:
        """The cell that workloads run in."""
        return self._disk.config

    def next_order(self) -> int:
        """The number of the round that ends now, over all cells."""
        return next(self._services.orders)

    def watch(self) -> Callable[[], HostState]:
        """Watch the host once the guests of earlier cells are gone, so that they do not count as others on it."""
        self._services.factory.settle()
        return self._watch.begin()

    def drop_caches(self) -> str:
        """Make the host drop its cached pages of the disk's image or device."""
        return drop_caches(self._below, self._disk.path)

    def write_back(self) -> None:
        """Make the host write back its dirty pages of the disk."""
        sync_disk(self._below, self._disk.path)

    def fragments(self) -> int | None:
        """The number of pieces in which the disk's data lies on the host."""
        return fragments(self._below, self.config, self._disk.path)


class GuestEnvironment(DiskEnvironment):
    """A running guest as the system under test; its disk lies on the lab's host."""

    def __init__(self, guest: Guest, services: Services) -> None:
        machine = guest.machine
        super().__init__(machine.host_disk, services.shell, services, machine.spec.uuid)
        self._guest = guest
        self._machine = machine
        self._made = guest.file_system
        self.is_emulated = services.is_emulated
        filled = self._disk.filled_bytes
        size = self._made.size_bytes if self._made is not None else guest.config.size
        # so far nobody but the host, before the guest began, has written to the disk
        self.regions = Regions(size, written_bytes=filled, filled_on_host_bytes=filled)

    @property
    def guest(self) -> Guest:
        """The guest itself."""
        return self._guest

    @property
    def fixture_value(self) -> Guest:
        """The guest itself."""
        return self._guest

    @property
    def commands_run(self) -> int:
        """The number of commands that tests ran in the guest."""
        return self._guest.commands_run

    @property
    def shell(self) -> Shell:
        """Runs commands in the guest."""
        return self._guest.shell

    @property
    def paths(self) -> Paths:
        """The guest's device, or the test file on the file system there."""
        disk, made = self._guest.disk, self._made
        if made is None:
            return Paths(disk=disk)
        return Paths(disk=made.path, is_file=True, device=disk, folder=made.mountpoint)

    @functools.cached_property
    def identity(self) -> Identity:
        """Facts that the guest told of itself, and hashes of its sources."""
        guest, spec = self._guest, self._machine.spec
        chosen = {name: said for name, said in (("qemu", guest.qemu), ("image", guest.image)) if said}
        return Identity(
            host=self._services.host.name,
            facts={**guest.facts.as_text(), **chosen},
            tools=guest.facts.tools,
            proof=guest.proof,
            made_from=self._services.provenance.of(spec),
            boot=spec.uuid,
            is_restored=self._machine.is_restored,
        )

    def set_host(self) -> Mapping[str, str]:
        """Set the scheduler below the disk; returns notes on how guest and test file were made."""
        disk, made = self._disk, self._made
        test_file = guests_file(disk, made, keep=self._services.keep) if made is not None else {}
        return {**self._machine.notes, **self._services.set_on(disk), **test_file}

    def begin_look(self) -> Callable[[], Look]:
        """Read the counters of guest and QEMU's block layer; the result reads those of the host."""
        moved, (block, counts) = self._moved(), block_counters(self._machine)
        return lambda: _look(self._watch.look(), block, moved, counts)

    def look(self) -> Look:
        """Read the counters of host, QEMU's block layer and guest."""
        host, (block, counts) = self._watch.look(), block_counters(self._machine)
        return _look(host, block, self._moved(), counts)

    def count(self) -> Counts | None:
        """Read what QEMU's block layer has done for the disk; None where QEMU does not count."""
        return block_counters(self._machine)[1]

    def _moved(self) -> Mapping[str, int]:
        """The guest's own counters of its disk."""
        name, shell = Path(self._guest.disk).name, self.shell
        sectors = shell.disk_sectors(name) if isinstance(shell, AgentShell) else None
        if sectors is not None:
            return guest_counters(*sectors)
        return read_guest_stat(shell.read(f"/sys/block/{name}/stat"))

    def recheck(self) -> str:
        """Changes since the proof before the first I/O, in a clause; "" where there are none.

        The guest can turn its disk's write cache off and on, QEMU may find only now that it has no io_uring, and a
        command may be lost, for which the guest waits half a minute.
        """
        host, machine = self._below, self._machine
        fallen = fallback_lines(host.read(self._services.log(machine)))
        if fallen and self.config.io != "threads":
            return f"io is no longer {self.config.io}: {'; '.join(fallen)} (QEMU's log)"
        console = read_beginning(host, machine.spec.console, CONSOLE_BYTES + 1)
        if len(console) > CONSOLE_BYTES:
            # nothing else stops the guest: libvirt lets its console fill the folder that holds the disks
            self.kill()
            return f"the guest wrote more than {format_size(CONSOLE_BYTES)} to its console, so it was ended"
        return changed_in_guest(self.shell, self._guest.facts, console)

    def zeros_vanish(self) -> str:
        """The layer of guest or host that stores zeros as nothing."""
        made = self._made.found if self._made is not None else None
        return zeros_vanish(self._below, self._disk, made)

    def note_need(self, end_bytes: int) -> None:
        """Let the host fill disks of cells that begin alike as far, where guests are emulated."""
        if self.is_emulated:
            self._services.prefetch.note_need(self.config, end_bytes)

    def share_filled(self) -> None:
        """Take a template of the disk for cells that begin alike, where guests are emulated and restored."""
        services, made = self._services, self._made
        if made is None or not (self.is_emulated and self._machine.is_restored and may_be_filled(self.config)):
            return
        templates, others = services.factory.templates, services.prefetch.still_to_be_made(self.config)
        if not templates.is_wanted(self.config, others):
            return
        try:
            with frozen(self.shell, made, self.regions.written_bytes) as extents:
                if extents:
                    templates.take(self.config, self._disk.path, extents)
        except GuestError:
            # a tool would wait for a frozen file system until its time limit; of a waiting guest nobody hears the error
            self.kill()
            raise

    def alongside(self, prepare: Callable[[SystemUnderTest], None]) -> AbstractContextManager[None]:
        """Prepare waiting guests meanwhile, where guests are emulated: the host has other processors for that."""
        return self._services.prefetch.alongside(prepare) if self.is_emulated else nullcontext()

    def check_tool(self, tool: str) -> None:
        """Raise UnsupportedError where a user's image lacks the tool; the appliance has all tools."""
        self._guest.check_tool(tool)

    def is_alive(self) -> bool:
        """Whether libvirt says that the guest runs, or is paused."""
        return self._machine.domain.is_active()

    def pause(self) -> None:
        """Stop the guest's processors, and write back the host's dirty pages of its disk."""
        self._machine.domain.pause()
        self.write_back()

    def resume(self) -> None:
        """Let the guest's processors continue."""
        self._machine.domain.resume()

    def kill(self) -> None:
        """Destroy the domain."""
        self._machine.domain.destroy()

    def release(self) -> None:
        """Tear the guest and its disk down in the background, unless the guest is to be kept."""
        self._services.factory.discard(self._machine)

    def explain(self, error: VmStorageError) -> VmStorageError:
        """The error with the evidence of QEMU, guest and host."""
        return explain_error(self._machine, self._below, error)


class HostEnvironment(DiskEnvironment):
    """The host in a guest's place, also as a test's `guest`: `disk` is a file or device of the host."""

    is_emulated = False
    guest: None = None

    def __init__(self, disk: HostDisk, shell: Shell, identity: Identity, scratch: str, services: Services) -> None:
        super().__init__(disk, shell, services)
        self.shell = shell
        self.identity = identity
        self.commands_run = 0
        self.regions = Regions(disk.config.size)
        folder = "" if disk.is_block else str(Path(disk.path).parent)
        self.paths = Paths(disk=disk.path, is_file=not disk.is_block, folder=folder, scratch=scratch)

    @property
    def fixture_value(self) -> HostEnvironment:
        """The environment itself: there is no guest."""
        return self

    @property
    def disk(self) -> str:
        """Path on the host of the file or device that workloads run on."""
        return self._disk.path

    @property
    def facts(self) -> Mapping[str, str]:
        """Facts of the host, by name."""
        return self.identity.facts

    @property
    def proof(self) -> tuple[Proof, ...]:
        """Proofs that the disk is the cell's."""
        return self.identity.proof

    def run(self, command: str | Sequence[str], *, timeout_s: float = 60.0) -> CommandResult:
        """Run a line of sh, or an argv, there; a non-zero return code is a result, never an exception."""
        self.commands_run += 1
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else command
        return unguarded(self.shell).run(argv, timeout_s=timeout_s)

    def check_tool(self, tool: str) -> None:
        """Raise UnsupportedError where the host lacks a workload's tool: the appliance has it, the host need not."""
        if not has_program(self.shell, tool):
            host = self.identity.host
            raise UnsupportedError(
                f"backing=native runs {tool} on the host, and {host} has none; install {tool} there.", code="VM329"
            )

    def set_host(self) -> Mapping[str, str]:
        """Set the scheduler below the disk; returns notes on how the disk was made."""
        size = format_size(self.config.size)
        test_file = {} if self._disk.is_block else {"test file": f"{size} on the host, removed after the row"}
        return {**self._disk.notes, **self._services.set_on(self._disk), **test_file}

    def begin_look(self) -> Callable[[], Look]:
        """Leave the whole look to the result: there is no guest to be read before."""
        return self.look

    def look(self) -> Look:
        """Read the device below, whoever used it, in the place of a guest's disk."""
        host = self._watch.look()
        stat = host.device
        moved = IoCounters(guest_read_bytes=stat.read_bytes, guest_written_bytes=stat.written_bytes) if stat else None
        return Look(moved=moved or IoCounters(), pressure=host.pressure)

    def count(self) -> Counts | None:
        """Read what the device below has done, for whoever used it; None on another machine."""
        return self._watch.count()

    def recheck(self) -> str:
        """Return "": nothing that was proven of the host's disk can change."""
        return ""

    def zeros_vanish(self) -> str:
        """The layer of the host that stores zeros as nothing."""
        return zeros_vanish(self.shell, self._disk)

    def note_need(self, end_bytes: int) -> None:
        """Do nothing: disks of the host are not filled ahead, for they are measured themselves."""

    def share_filled(self) -> None:
        """Do nothing: no other disk is made from one of the host."""

    def alongside(self, prepare: Callable[[SystemUnderTest], None]) -> AbstractContextManager[None]:  # noqa: ARG002 (the protocol's)
        """Prepare nothing meanwhile: that would load the disk that is measured."""
        return nullcontext()

    def is_alive(self) -> bool:
        """True: the host is not a process that could have ended."""
        return True

    def pause(self) -> None:
        """Write back the host's dirty pages of the disk."""
        self.write_back()

    def resume(self) -> None:
        """Do nothing: `pause` stopped nothing."""

    def kill(self) -> None:
        """Do nothing: there is no guest to end."""

    def release(self) -> None:
        """Remove the disk in the background."""
        self._services.factory.discard(self._disk)

    def explain(self, error: VmStorageError) -> VmStorageError:
        """The error with its name, as one of the host."""
        return named(error, Symptoms(is_native=True))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.config.label}, {self.disk} of {self.identity.host}>"


BELOW = "out of reach: what lies below the machine is not the plugin's"
"""A row's note on the caches of a host that the plugin cannot reach."""

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class ForeignEnvironment(HostEnvironment):
    """A machine that the plugin did not make in a guest's place: `disk` is a file or device on it.

    `boot_id` is that of the machine when its disk was made; `remove` removes that disk.
    """

    def __init__(
        self,
        listed: ListedMachine,
        disk: HostDisk,
        shell: Shell,
        identity: Identity,
        scratch: str,
        services: Services,
        *,
        boot_id: str,
        remove: Callable[[Shell, HostDisk], None],
    ) -> None:
        super().__init__(disk, shell, identity, scratch, services)
        self._listed = listed
        self._boot_id = boot_id
        self._remove = remove

    @functools.cached_property
    def host(self) -> Any:
        """The machine as a testinfra Host, over the shell that its workloads use."""
        return testinfra_host(self._listed.name, self.run)

    def check_tool(self, tool: str) -> None:
        """Raise UnsupportedError where the machine lacks a workload's tool, or fio, which fills the disk."""
        wanted = dict.fromkeys((tool, *(() if self.config.state == "fresh" else ("fio",))))
        lacking = [one for one in wanted if not has_program(self.shell, one)]
        if lacking:
            raise UnsupportedError(
                f"The machine {self._listed.name} ({self._listed.target}) lacks {' and '.join(lacking)}.",
                hint="Install it there; the plugin installs nothing on a machine that it did not make.",
                code="VM440",
            )

    def set_host(self) -> Mapping[str, str]:
        """Set nothing; returns notes on the machine, and that the layers below it are not proven."""
        block = self._disk.block
        made = block.description if block is not None else "a file, removed after the row"
        stated = ", ".join(f"{field} {value}" for field, value in self._listed.label.items())
        note = f"{made}; the plugin made neither the machine nor what lies below it"
        return {"machine": note, **({"stated by vmstorage.toml": stated} if stated else {})}

    def drop_caches(self) -> str:
        """Drop no caches: the host below is out of reach."""
        return BELOW

    def write_back(self) -> None:
        """Do nothing: the host below is out of reach."""

    def pause(self) -> None:
        """Write back the machine's dirty pages of its disk."""
        sync_disk(self.shell, self.disk)

    def recheck(self) -> str:
        """A clause where the machine was booted again since its disk was made; "" otherwise."""
        now = self.shell.read(_BOOT_ID).strip()
        return "the machine was booted anew meanwhile" if now != self._boot_id else ""

    def fragments(self) -> int | None:
        """None: the layers below the machine are out of reach."""
        return None

    def release(self) -> None:
        """Remove the file on the machine, or the signatures on its disk."""
        self._remove(self.shell, self._disk)


def guests_file(disk: HostDisk, made: GuestFs, *, keep: bool) -> Mapping[str, str]:
    """A row's note on its test file in a guest.

    The file is removed with the disk; a listed device keeps its content, and with `keep` (--vm-keep) one guest stays.
    """
    file = f"{format_size(made.size_bytes)} on {made.kind} in the guest"
    if made.is_copied:
        file = f"{file}, its file system copied on the host from another guest of this run, its data its own"
    if disk.is_block and disk.block is not None and disk.block.kind in ("device", "partition"):
        return {"test file": f"{file}, left on the {disk.block.kind}"}
    stays = ", unless its guest is kept (--vm-keep)" if keep else ""
    return {"test file": f"{file}, removed with the guest's disk{stays}"}


def _look(host: HostLook, block: Mapping[str, int], moved: Mapping[str, int], counts: Counts | None) -> Look:
    return Look(moved=io_counters(host, block, moved), process=host.process, pressure=host.pressure, counts=counts)

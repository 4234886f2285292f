"""The only `import testinfra`: a running guest, its readiness, its facts, its testinfra Host."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vmstorage.agent import AgentShell
from pytest_vmstorage.command import CommandResult, Shell
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.errors import GuestError
from pytest_vmstorage.file_system import MOUNTS, look_at, read_mounts
from pytest_vmstorage.guest_facts import PROBE, GuestFacts, chosen_scheduler, read_facts
from pytest_vmstorage.guest_fs import GuestFs, make_guest_fs
from pytest_vmstorage.image_guest import check_programs, settle
from pytest_vmstorage.parking import wait_until_awake
from pytest_vmstorage.provision.machine import Machine
from pytest_vmstorage.reach import reach
from pytest_vmstorage.results import Proof
from pytest_vmstorage.say import Say, silent
from pytest_vmstorage.scheduler import set_scheduler
from pytest_vmstorage.spans import span, waiting_for

if TYPE_CHECKING:
    from testinfra.host import Host

COMMAND_S = 60.0
"""Time limit of a command in the guest where the caller gives none."""

DISK_S = 10.0
"""How long after its agent a guest's disk may appear."""


class Guest:
    """A running guest with the disk under test: `disk` is its device path there, `facts` what it found.

    `file_system` is what was made on the disk, None where the cell's guest_fs is none.

    `ready_seconds` is how long `connect` waited for the answer to its first command, `proof` what shows that the
    guest is the cell it is taken for. `qemu` is the version of what runs it where its cell names an emulator, else "".
    """

    proof: tuple[Proof, ...] = ()
    qemu: str = ""

    def __init__(
        self,
        machine: Machine,
        shell: Shell,
        facts: GuestFacts,
        ready_seconds: float,
        file_system: GuestFs | None = None,
    ) -> None:
        self.machine = machine
        self.shell = shell
        self.facts = facts
        self.ready_seconds = ready_seconds
        self.file_system = file_system

    @property
    def config(self) -> StorageConfig:
        """The cell this guest is."""
        return self.machine.config

    @property
    def image(self) -> str:
        """The user's image that it was booted from, with its checksum; "" of the appliance."""
        return self.machine.spec.image.description if self.machine.spec.image is not None else ""

    def check_tool(self, tool: str, host: str) -> None:  # noqa: ARG002 (a guest has nothing of its host)
        """Raise UnsupportedError where a user's image lacks a workload's tool; the appliance has all."""
        if self.image:
            check_programs(self.shell, self.image, (tool, "fio"))

    @property
    def disk(self) -> str:
        """Device path of the disk under test in the guest, such as /dev/vdb."""
        return self.facts.disk

    def run(self, command: str | Sequence[str], *, timeout_s: float = COMMAND_S) -> CommandResult:
        """Run a line of sh, or an argv, in the guest; a non-zero return code is a result, never an exception."""
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else command
        return self.shell.run(argv, timeout_s=timeout_s)

    @functools.cached_property
    def host(self) -> Host:
        """The guest as a testinfra Host, over its agent or ssh."""
        return testinfra_host(self.machine.domain_name, self.run)

    def __repr__(self) -> str:
        return f"<Guest {self.config.label}, {self.disk}>"


def connect(machine: Machine, *, timeout_s: float, tools: Mapping[str, str], say: Say = silent) -> Guest:
    """Wait until the guest answers its first command, then give it the cell's scheduler and file system.

    Raises BootTimeoutError, GuestError with the console's tail; ConfigError and UnsupportedError for what the guest
    cannot have.
    """
    begin, image = time.monotonic(), machine.spec.image
    try:
        with span("restore" if machine.is_restored else "boot", cell=machine.config), waiting_for("the guest's agent"):
            shell = reach(machine, timeout_s)
            told = wait_until_awake(AgentShell(machine.domain)) if machine.is_restored else None
            if image is not None:
                tools = settle(shell, image.description, timeout_s - (time.monotonic() - begin))
        with span("proof", cell=machine.config):
            facts = _probe(machine, shell, tools, told)
        ready_seconds = time.monotonic() - begin
        with span("file system", cell=machine.config):
            made, facts = _furnish(machine, shell, facts, say)
    except GuestError as error:
        error.console = machine.console_tail()
        raise
    return Guest(machine, shell, facts, ready_seconds, made)


def _furnish(machine: Machine, shell: Shell, facts: GuestFacts, say: Say) -> tuple[GuestFs | None, GuestFacts]:
    """Choose the cell's scheduler and make its file system; the facts are those found afterwards."""
    config = machine.config
    if config.scheduler == "default" and config.guest_fs == "none":
        return None, facts
    set_scheduler(shell, facts.disk, config)
    made = None
    if config.guest_fs != "none":
        say(f"making {config.guest_fs} in the guest")
        made = make_guest_fs(shell, facts.disk, config)
    return made, _look(facts, shell, config)


def _look(facts: GuestFacts, shell: Shell, config: StorageConfig) -> GuestFacts:
    """The facts with the scheduler and the mounts of now; a closer look at these: with defaults, and what mkfs made.

    Files are read through the agent: a process takes an emulated guest several times as long.
    """
    scheduler = chosen_scheduler(shell.read(f"/sys/block/{Path(facts.disk).name}/queue/scheduler"))
    mounts = (one for one in read_mounts(shell.read(MOUNTS)) if one.device == facts.disk)
    superblock = bool(config.guest_mkfs)
    looks = (look_at(shell, one.mountpoint, superblock=superblock, is_real=True) for one in mounts)
    mounted = tuple(one for one in looks if one is not None)
    return facts.model_copy(update={"scheduler": scheduler, "mounted": mounted})


def _probe(machine: Machine, shell: Shell, tools: Mapping[str, str], told: str | None) -> GuestFacts:
    """The guest's facts; `told` is what it said already of its own accord."""
    deadline = time.monotonic() + DISK_S
    while True:
        said = _ask(machine, shell) if told is None else told
        try:
            return read_facts(said, machine.config, tools)
        except GuestError:
            # SATA and SCSI disks are probed in the background, and may come after the agent or be half there
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
            told = None


def _ask(machine: Machine, shell: Shell) -> str:
    done = shell.run(["/bin/sh", "-c", PROBE], timeout_s=COMMAND_S)
    if not done.ok:
        raise GuestError(f"The guest of {machine.config} could not be asked for its facts: {done.tail(1)}.")
    return done.stdout


def testinfra_host(name: str, run_line: Callable[[str], CommandResult]) -> Host:
    """A testinfra Host of that name whose commands, lines of sh, are run by that function."""
    # testinfra has no entry point for backends (pytest-testinfra#10), so the Host is made here;
    # Host.get_host would cache one per name for the whole process, and guests come and go
    from testinfra.backend.base import BaseBackend
    from testinfra.backend.base import CommandResult as TestinfraResult
    from testinfra.host import Host

    class Backend(BaseBackend):  # type: ignore[misc] # testinfra ships no types
        NAME = "vmstorage"

        def run(self, command: str, *args: str, **_kwargs: Any) -> TestinfraResult:
            line = self.get_command(command, *args)
            done = run_line(line)
            return self.result(done.returncode, self.encode(line), done.stdout.encode(), done.stderr.encode())

        def get_encoding(self) -> str:
            # the inherited one runs python3 in the guest, which need not be there
            return "UTF-8"

    backend = Backend(name)
    host = Host(backend)
    backend.set_host(host)
    return host

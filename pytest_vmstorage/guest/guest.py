"""A running guest: first answer, I/O scheduler, facts, testinfra Host. The only `import testinfra`."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pytest_vmstorage.config.cell import Scheduler, StorageConfig
from pytest_vmstorage.errors import BootTimeoutError, GuestDiedError, GuestError, HostError, UnsupportedError
from pytest_vmstorage.guest.agent import AgentShell
from pytest_vmstorage.guest.cloud_image.guest import check_programs, settle
from pytest_vmstorage.guest.cloud_image.network import Door
from pytest_vmstorage.guest.facts import PROBE, GuestFacts, chosen_scheduler, read_facts
from pytest_vmstorage.guest.file_system import GuestFs, make_guest_fs
from pytest_vmstorage.guest.instance import StartedGuest
from pytest_vmstorage.guest.restore.parking import wait_until_awake
from pytest_vmstorage.host.file_systems import MOUNTS, look_at, read_mounts
from pytest_vmstorage.host.shell import CommandResult, Shell, SshShell
from pytest_vmstorage.progress import Progress, silent
from pytest_vmstorage.results.run import Proof
from pytest_vmstorage.results.spans import span, waiting_for
from pytest_vmstorage.units import format_duration

if TYPE_CHECKING:
    from testinfra.host import Host


_LATE = "Give it more time with --vm-timeout, or keep it for a look with --vm-keep."
_NO_AGENT = (
    "Give it more time with --vm-timeout; the image needs a boot loader that the BIOS starts, cloud-init or nothing to"
    " wait for, and qemu-guest-agent, enabled. Without an agent --vm-image-reach=ssh reaches it, if it has sshd."
)
_NO_SSHD = (
    "Give it more time with --vm-timeout; the image needs a boot loader that the BIOS starts, cloud-init that reads"
    " NoCloud seeds, and sshd on which root may log in with a key."
)
_AGAIN_S = 1.0


def reach(machine: StartedGuest, timeout_s: float) -> Shell:
    """Wait until the guest answers, and return the shell in it; raises BootTimeoutError, GuestDiedError."""
    image = machine.spec.image
    if image is not None and image.door.is_open:
        return _by_ssh(machine, image.door, timeout_s)
    if not machine.domain.wait_for_agent(timeout_s):
        raise _late(machine, timeout_s, _LATE if image is None else _NO_AGENT)
    return AgentShell(machine.domain)


def _by_ssh(machine: StartedGuest, door: Door, timeout_s: float) -> Shell:
    deadline = time.monotonic() + timeout_s
    shell = SshShell(door.target, door.options)
    while True:
        try:
            shell.run(["true"])
        except HostError as error:
            if not machine.domain.is_active():
                raise GuestDiedError(
                    f"The guest of {machine.config} ended before ssh reached it.", code="VM502"
                ) from None
            if time.monotonic() > deadline:
                raise _late(machine, timeout_s, f"ssh's last word: {error.what} {_NO_SSHD}") from None
            time.sleep(_AGAIN_S)
        else:
            return shell


def _late(machine: StartedGuest, timeout_s: float, hint: str) -> BootTimeoutError:
    return BootTimeoutError(
        f"The guest of {machine.config} did not answer within {format_duration(timeout_s)}.", hint=hint, code="VM501"
    )


MODULES: Mapping[Scheduler, str] = {"mq-deadline": "mq-deadline", "kyber": "kyber-iosched", "bfq": "bfq"}
"""Kernel modules of the schedulers; built in where modprobe finds none."""

_CHOOSE = r"""
file=/sys/block/$1/queue/scheduler
case " $(cat "$file") " in *"[$2]"*) exit 0;; esac
[ -z "$3" ] || modprobe "$3" 2>/dev/null
echo "$2" >"$file" 2>/dev/null && exit 0
cat "$file"; exit 1
"""


def set_scheduler(shell: Shell, disk: str, config: StorageConfig) -> None:
    """Choose the cell's scheduler for a disk of the guest, unless it is "default".

    Raises UnsupportedError where the guest's kernel has no scheduler of that name.
    """
    if config.scheduler == "default":
        return
    name = PurePosixPath(disk).name
    argv = ["/bin/sh", "-c", _CHOOSE, "sh", name, config.scheduler, MODULES.get(config.scheduler, "")]
    done = shell.run(argv, timeout_s=60)
    if not done.ok:
        there = done.stdout.replace("[", "").replace("]", "").split()
        raise UnsupportedError(
            f"The guest's kernel has no I/O scheduler {config.scheduler} for {disk} (it has: {', '.join(there)}).",
            hint="Choose one of those, or an image whose kernel has it.",
            code="VM508",
        )


COMMAND_S = 60.0
"""Time limit of a command in the guest where the caller gives none."""

DISK_S = 10.0
"""How long after its agent a guest's disk may appear."""


@dataclass(eq=False, repr=False)
class Guest:
    """A running guest with the disk under test, and its facts.

    `file_system` is the one made on the disk, None where the cell's guest_fs is none. `ready_seconds` is the time that
    `connect` waited for the answer to the first command. `proof` shows that the guest is the cell it is taken for.
    `qemu` is the version of its emulator where its cell names one, else "". `commands_run` counts commands of tests.
    """

    machine: StartedGuest
    shell: Shell
    facts: GuestFacts
    ready_seconds: float
    file_system: GuestFs | None = None
    proof: tuple[Proof, ...] = ()
    qemu: str = ""
    commands_run: int = field(default=0, init=False)

    @property
    def config(self) -> StorageConfig:
        """The cell this guest is."""
        return self.machine.config

    @property
    def image(self) -> str:
        """The user's image that the guest booted, with its checksum; "" for the appliance."""
        return self.machine.spec.image.description if self.machine.spec.image is not None else ""

    def check_tool(self, tool: str) -> None:
        """Raise UnsupportedError where a user's image lacks a workload's tool; the appliance has all."""
        if self.image:
            check_programs(self.shell, self.image, (tool, "fio"))

    @property
    def disk(self) -> str:
        """Device path of the disk under test in the guest, such as /dev/vdb."""
        return self.facts.disk

    def run(self, command: str | Sequence[str], *, timeout_s: float = COMMAND_S) -> CommandResult:
        """Run a line of sh, or an argv, in the guest; a non-zero return code is a result, never an exception."""
        self.commands_run += 1
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else command
        return self.shell.run(argv, timeout_s=timeout_s)

    @functools.cached_property
    def host(self) -> Host:
        """The guest as a testinfra Host, over its agent or ssh."""
        return testinfra_host(self.machine.domain_name, self.run)

    def __repr__(self) -> str:
        return f"<Guest {self.config.label}, {self.disk}>"


def connect(machine: StartedGuest, *, timeout_s: float, tools: Mapping[str, str], say: Progress = silent) -> Guest:
    """Wait until the guest answers its first command, then give it the cell's scheduler and file system.

    Raises BootTimeoutError, GuestError with the console's tail; ConfigError and UnsupportedError for a scheduler or
    file system that the guest cannot have.
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


def _furnish(
    machine: StartedGuest, shell: Shell, facts: GuestFacts, say: Progress
) -> tuple[GuestFs | None, GuestFacts]:
    """Choose the cell's scheduler and make its file system; the facts are read again afterwards."""
    config = machine.config
    if config.scheduler == "default" and config.guest_fs == "none":
        return None, facts
    set_scheduler(shell, facts.disk, config)
    made = None
    if config.guest_fs != "none":
        is_there = machine.host_disk.has_guest_fs
        say(f"{'mounting' if is_there else 'making'} {config.guest_fs} in the guest")
        made = make_guest_fs(shell, facts.disk, config, is_copied=is_there)
    return made, _look(facts, shell, config)


def _look(facts: GuestFacts, shell: Shell, config: StorageConfig) -> GuestFacts:
    """The facts with the present scheduler and mounts, these with their default options and what mkfs made.

    Files are read through the agent: a process takes an emulated guest several times as long.
    """
    scheduler = chosen_scheduler(shell.read(f"/sys/block/{Path(facts.disk).name}/queue/scheduler"))
    mounts = (one for one in read_mounts(shell.read(MOUNTS)) if one.device == facts.disk)
    superblock = bool(config.guest_mkfs)
    looks = (look_at(shell, one.mountpoint, superblock=superblock, is_real=True) for one in mounts)
    mounted = tuple(one for one in looks if one is not None)
    return facts.model_copy(update={"scheduler": scheduler, "mounted": mounted})


def _probe(machine: StartedGuest, shell: Shell, tools: Mapping[str, str], told: str | None) -> GuestFacts:
    """The guest's facts; `told` is the output of PROBE where a restored guest has sent it already."""
    deadline = time.monotonic() + DISK_S
    while True:
        if told is None:
            done = shell.run(["/bin/sh", "-c", PROBE], timeout_s=COMMAND_S)
            if not done.ok:
                raise GuestError(
                    f"The guest of {machine.config} could not be asked for its facts: {done.tail(1)}.", code="VM506"
                )
            told = done.stdout
        try:
            return read_facts(told, machine.config, tools)
        except GuestError:
            # the kernel probes SATA and SCSI disks in the background: they may come after the agent, or be half there
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
            told = None


def testinfra_host(name: str, run_line: Callable[[str], CommandResult]) -> Host:
    """A testinfra Host with that name; `run_line` runs its commands, which are lines of sh."""
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

"""The only `import testinfra`: a running guest, its readiness, its facts, its testinfra Host."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.command import CommandResult, Shell
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.errors import DiskMissingError, GuestError
from pytest_vmstorage.file_system import MOUNTS, FileSystem, look_at, read_mounts
from pytest_vmstorage.guest_fs import GuestFs, make_guest_fs
from pytest_vmstorage.image_guest import check_programs, settle
from pytest_vmstorage.parking import wake
from pytest_vmstorage.provision.domain import ROOT_SERIAL, SEED_SERIAL
from pytest_vmstorage.provision.machine import Machine
from pytest_vmstorage.reach import reach
from pytest_vmstorage.results import Proof
from pytest_vmstorage.say import Say, silent
from pytest_vmstorage.scheduler import set_scheduler

if TYPE_CHECKING:
    from testinfra.host import Host

COMMAND_S = 60.0
"""Time limit of a command in the guest where the caller gives none."""

DISK_S = 10.0
"""How long after its agent a guest's disk may appear."""

# One round trip for all that is wanted of a fresh guest: a line of facts, one for each disk, one for each mount. The
# shell reads for itself: each process costs an emulated guest 30 ms.
_PROBE = r"""
read -r kernel </proc/sys/kernel/osrelease
read -r _ memory _ </proc/meminfo
cpus=0; while read -r word _; do case $word in processor) cpus=$((cpus + 1));; esac; done </proc/cpuinfo
echo "$kernel|$cpus|$memory"
for path in /sys/block/*; do
  name=${path##*/}
  case $name in loop*|ram*|zram*|sr*|fd*|nullb*) continue;; esac
  read -r size <"$path/size"
  serial=; [ -r "$path/serial" ] && read -r serial <"$path/serial"
  read -r cache <"$path/queue/write_cache"; read -r scheduler <"$path/queue/scheduler"
  read -r block <"$path/queue/logical_block_size"; read -r rotational <"$path/queue/rotational"
  read -r discard <"$path/queue/discard_max_bytes"
  driver=
  for link in "$path/device/device/driver" "$path/device/driver"; do
    [ -e "$link" ] && driver=$(cd -P -- "$link" && echo "$PWD")
  done
  host=
  for file in "$path"/device/../../scsi_host/host*/proc_name; do [ -r "$file" ] && read -r host <"$file"; done
  queues=0; for queue in "$path"/mq/*; do [ -d "$queue" ] && queues=$((queues + 1)); done
  echo "$name|$size|$serial|$cache|$scheduler|$block|$rotational|${driver##*/}|$host|$queues|$discard"
done
while read -r line; do printf 'mount|%s\n' "$line"; done </proc/self/mountinfo
"""
_MOUNT = "mount|"


class GuestFacts(BaseModel):
    """What the guest says of itself and of the disk under test; memory in KiB as its kernel has it, sizes in bytes.

    `host_driver` drives the disk's SCSI or ATA host ("" without one); `queues` are the hardware queues in use.
    `mounted` is what is mounted of the disk; None where the guest did not tell.
    """

    model_config = ConfigDict(frozen=True)

    kernel: str
    cpus: int
    memory_kib: int
    disk: str
    disk_bytes: int
    write_cache: str
    scheduler: str
    logical_block_bytes: int
    rotational: bool
    driver: str
    host_driver: str = ""
    queues: int = 0
    discard_max_bytes: int = 0
    mounted: tuple[FileSystem, ...] | None = None
    tools: Mapping[str, str] = {}

    def as_text(self) -> Mapping[str, str]:
        """The facts that stand with each row; the versions of tools are in `tools`."""
        return {
            "kernel": self.kernel,
            "cpus": str(self.cpus),
            "write_cache": self.write_cache,
            "scheduler": self.scheduler,
            "logical_block_size": str(self.logical_block_bytes),
            "rotational": "yes" if self.rotational else "no",
            "driver": self.driver,
        }


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
        shell = reach(machine, timeout_s)
        if machine.is_restored:
            wake(shell)
        if image is not None:
            tools = settle(shell, image.description, timeout_s - (time.monotonic() - begin))
        facts = _probe(machine, shell, tools)
        ready_seconds = time.monotonic() - begin
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

    Files are read through the agent: a process costs an emulated guest a tenth of a second.
    """
    scheduler = chosen_scheduler(shell.read(f"/sys/block/{Path(facts.disk).name}/queue/scheduler"))
    mounts = (one for one in read_mounts(shell.read(MOUNTS)) if one.device == facts.disk)
    superblock = bool(config.guest_mkfs)
    looks = (look_at(shell, one.mountpoint, superblock=superblock, is_real=True) for one in mounts)
    mounted = tuple(one for one in looks if one is not None)
    return facts.model_copy(update={"scheduler": scheduler, "mounted": mounted})


def _probe(machine: Machine, shell: Shell, tools: Mapping[str, str]) -> GuestFacts:
    deadline = time.monotonic() + DISK_S
    while True:
        done = shell.run(["/bin/sh", "-c", _PROBE], timeout_s=COMMAND_S)
        if not done.ok:
            raise GuestError(f"The guest of {machine.config} could not be asked for its facts: {done.tail(1)}.")
        try:
            return read_facts(done.stdout, machine.config, tools)
        except GuestError:
            # SATA and SCSI disks are probed in the background and may come after the agent
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def read_facts(text: str, config: StorageConfig, tools: Mapping[str, str]) -> GuestFacts:
    """Facts from the probe's lines; raises GuestError for lines of another kind.

    Raises DiskMissingError unless exactly one disk beside the root has the cell's size.
    """
    try:
        return _read_facts(text, config, tools)
    except (ValueError, IndexError):
        raise GuestError(f"The guest of {config} answered the question for its facts with: {text!r}.") from None


def _read_facts(text: str, config: StorageConfig, tools: Mapping[str, str]) -> GuestFacts:
    lines = [line for line in text.splitlines() if line.strip()]
    mounts = read_mounts("\n".join(line.partition("|")[2] for line in lines if line.startswith(_MOUNT)))
    head, *disks = [line.split("|") for line in lines if not line.startswith(_MOUNT)]
    found = [disk for disk in disks if disk[2] not in (ROOT_SERIAL, SEED_SERIAL) and int(disk[1]) * 512 == config.size]
    if len(found) != 1:
        there = ", ".join(f"{disk[0]} of {int(disk[1]) * 512} bytes" for disk in disks) or "none"
        raise DiskMissingError(
            f"The guest of {config} does not see its disk of {config.size} bytes on {config.bus} (disks: {there}).",
            hint="Its kernel may lack the driver of that bus.",
        )
    name, size, _serial, cache, scheduler, block, rotational, driver, host_driver, queues, discard = found[0]
    return GuestFacts(
        kernel=head[0],
        cpus=int(head[1]),
        memory_kib=int(head[2]),
        disk=f"/dev/{name}",
        disk_bytes=int(size) * 512,
        write_cache=cache,
        scheduler=chosen_scheduler(scheduler),
        logical_block_bytes=int(block),
        rotational=rotational == "1",
        driver=driver,
        host_driver=host_driver,
        queues=int(queues),
        discard_max_bytes=int(discard),
        # a kernel has mounts, or it has not told of them
        mounted=tuple(one for one in mounts if one.device == f"/dev/{name}") if mounts else None,
        tools=dict(tools),
    )


def chosen_scheduler(text: str) -> str:
    """The I/O scheduler in use: the kernel writes all there are, with that one in brackets, or one alone."""
    return next((word.strip("[]") for word in text.split() if word.startswith("[")), text.strip())


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

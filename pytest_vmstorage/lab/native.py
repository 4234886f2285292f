"""The native row: a file or device of the host on which workloads run without any guest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import UnsupportedError
from pytest_vmstorage.host.counters import Look
from pytest_vmstorage.host.device_node import node_facts
from pytest_vmstorage.host.file_systems import look_at
from pytest_vmstorage.host.shell import CommandResult, Shell, unguarded
from pytest_vmstorage.host.watch import HostWatch
from pytest_vmstorage.lab.factory import GuestFactory
from pytest_vmstorage.measure.proof.without_guest import conclude_native
from pytest_vmstorage.progress import Progress, silent
from pytest_vmstorage.results.counters import IoCounters
from pytest_vmstorage.results.run import Proof
from pytest_vmstorage.storage.disk import HostDisk

_VERSIONS = r"""
fio --version 2>/dev/null | sed 's/^fio-/fio=/'
dd --version 2>/dev/null | sed -n '1s/.* /coreutils=/p'
hdparm -V 2>/dev/null | sed -n '1s/.* v/hdparm=/p'
"""
_FACTS = 'echo "kernel=$(uname -r)"; echo "cpus=$(getconf _NPROCESSORS_ONLN)"'


class Native:
    """The host in a guest's place: `disk` is a file or device there, `facts` and `tools` are the host's.

    `proof` says what is known of the cell; what only a guest has is not part of it.
    """

    def __init__(self, disk: HostDisk, shell: Shell, folder: str, proof: tuple[Proof, ...]) -> None:
        self.host_disk = disk
        self.shell = shell
        self._free = unguarded(shell)
        self.scratch = folder
        self.watch = HostWatch(shell, disk.path)
        self.proof = proof
        self.facts = _said(shell, _FACTS)
        self.tools = _said(shell, _VERSIONS)

    @property
    def config(self) -> StorageConfig:
        """The cell this is."""
        return self.host_disk.config

    @property
    def disk(self) -> str:
        """Path on the host of the file or device that workloads run on."""
        return self.host_disk.path

    def run(self, command: str | Sequence[str], *, timeout_s: float = 60.0) -> CommandResult:
        """Run a line of sh, or an argv, on the host; a non-zero return code is a result, never an exception."""
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else command
        return self._free.run(argv, timeout_s=timeout_s)

    def check_tool(self, tool: str, host: str) -> None:
        """Raise UnsupportedError where the host lacks a workload's tool: the appliance has it, the host need not."""
        if not self.shell.run(["sh", "-c", 'command -v "$1"', "sh", tool]).ok:
            raise UnsupportedError(
                f"backing=native runs {tool} on the host, and {host} has none; install {tool} there."
            )

    def look(self) -> Look:
        """What the host's device below has moved so far, by whomever, in the place of a guest's disk."""
        host = self.watch.look()
        stat = host.device
        moved = IoCounters(guest_read_bytes=stat.read_bytes, guest_written_bytes=stat.written_bytes) if stat else None
        return Look(moved=moved or IoCounters(), pressure=host.pressure)

    def __repr__(self) -> str:
        return f"<Native {self.config.label}, {self.disk}>"


def make_native(pool: GuestFactory, shell: Shell, config: StorageConfig, say: Progress = silent) -> Native:
    """Make the cell's disk on the host of that shell, and prove it; raises as `GuestFactory.make_disk` does."""
    disk = pool.make_disk(config, say)
    try:
        node = node_facts(shell, disk.path)
        ground = None if disk.is_block else look_at(shell, disk.path, superblock=bool(config.host_mkfs))
        return Native(disk, shell, pool.folder, conclude_native(disk, node, ground))
    except BaseException:
        pool.discard(disk)
        raise


def _said(shell: Shell, script: str) -> Mapping[str, str]:
    done = shell.run(["sh", "-c", script])
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)

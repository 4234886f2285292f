"""Where QEMU's threads may run: on the CPUs that vmstorage.toml lists, and with --vm-pin each on one of its own."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.cpu_list import format_cpus
from pytest_vmstorage.config.cpu_list import read_cpus as cpu_list
from pytest_vmstorage.errors import AttestationError, HostError, UnsupportedError
from pytest_vmstorage.host.files import Files, first_line, read_files
from pytest_vmstorage.host.shell import Shell

_CPUS = r"""
grep -asH '' /sys/devices/system/node/node*/cpulist /sys/devices/system/cpu/cpu*/topology/thread_siblings_list
grep -asH ^Cpus_allowed_list: /proc/self/status
"""
_THREADS = r"""
main=$(sed -n 's/^Tgid:\t*//p' "/proc/$1/status")
echo "main $(sed -n 's/^Cpus_allowed_list:\t*//p' "/proc/$main/status")"
for id; do echo "$id $(sed -n 's/^Cpus_allowed_list:\t*//p' "/proc/$id/status")"; done
"""


class Pinning(BaseModel):
    """The CPU of each of QEMU's threads: every vCPU, the I/O thread (None without one), and all others.

    `why_not` is the reason why they were left to the host's scheduler. `within` are the CPUs on which all of them may
    run where none has its own.
    """

    model_config = ConfigDict(frozen=True)

    vcpus: tuple[int, ...] = ()
    iothread: int | None = None
    others: int | None = None
    node: str = ""
    why_not: str = ""
    within: tuple[int, ...] = ()

    @property
    def shares(self) -> bool:
        """Whether the I/O thread has no CPU of its own."""
        return self.iothread is not None and self.iothread == self.others

    def __str__(self) -> str:
        kept = f"all of QEMU on CPUs {format_cpus(self.within)}" if self.within else ""
        if self.why_not:
            return "; ".join(filter(None, (f"not pinned: {self.why_not}", kept)))
        if kept:
            return kept
        places = [f"vCPU {number} on CPU {cpu}" for number, cpu in enumerate(self.vcpus)]
        places += [f"I/O thread on CPU {self.iothread}"] if self.iothread is not None else []
        shared = ", which has no core left for it alone" if self.shares else ""
        node = f", NUMA node {self.node}" if self.node else ""
        return f"{', '.join(places)}, all else of QEMU on CPU {self.others}{shared}{node}"


class HostCpus(BaseModel):
    """By NUMA node ("" where the host has none): a CPU of each core on which guests may run, in order.

    `allowed` are all CPUs that this user's processes may use.
    """

    model_config = ConfigDict(frozen=True)

    cores: Mapping[str, tuple[int, ...]]
    allowed: tuple[int, ...] = ()


class Monitor(Protocol):
    """A guest whose QEMU answers QMP."""

    def monitor(self, command: str, **arguments: object) -> object:
        """One QMP command and its return value."""


def host_cpus(shell: Shell, within: Collection[int] = ()) -> HostCpus:
    """The nodes, cores and allowed CPUs of the host; only CPUs of `within` count where it lists any."""
    return read_cpus(read_files(shell.run(["sh", "-c", _CPUS]).stdout), within)


def read_cpus(files: Files, within: Collection[int] = ()) -> HostCpus:
    """The CPUs in the files of a look; the first usable thread of a core (SMT) stands for the core."""
    there = cpu_list(first_line(files, "/proc/self/status").partition(":")[2])
    allowed = [cpu for cpu in there if not within or cpu in within]
    named = re.compile(r"/node/node(\d+)/cpulist$")
    nodes = {found[1]: set(cpu_list(lines[0])) for path, lines in files.items() if (found := named.search(path))}
    cores: dict[str, tuple[int, ...]] = {}
    for node, cpus in (nodes or {"": set(allowed)}).items():
        firsts = {_core(files, cpu): cpu for cpu in reversed(allowed) if cpu in cpus}
        cores[node] = tuple(sorted(firsts.values()))
    return HostCpus(cores=cores, allowed=there)


def _core(files: Files, cpu: int) -> str:
    return first_line(files, f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or str(cpu)


def choose(cpus: HostCpus, *, vcpus: int, iothreads: int) -> Pinning:
    """A core for each thread, all on the node with most cores; the I/O thread shares one where one core is missing.

    QEMU's other threads get the first core, where the host's own work mostly is (CPU 0).
    """
    node, cores = max(cpus.cores.items(), key=lambda item: len(item[1]))
    wanted = vcpus + iothreads + 1
    if len(cores) >= wanted - iothreads:
        others, *free = cores
        iothread = (free.pop(0) if len(cores) >= wanted else others) if iothreads else None
        return Pinning(vcpus=tuple(free[:vcpus]), iothread=iothread, others=others, node=node)
    where = f" of NUMA node {node}" if len(cpus.cores) > 1 else ""
    threads = f"{vcpus} vCPU{'s' * (vcpus > 1)}{' and an I/O thread' if iothreads else ''}"
    have, verb = (f"{len(cores)} core", "is") if len(cores) == 1 else (f"{len(cores)} cores", "are")
    return Pinning(why_not=f"{threads} and the rest of QEMU need {wanted} cores, and {have}{where} {verb} available")


class Pinner:
    """Chooses the CPUs of each guest of a run, and looks at the host once; `strict` refuses guests that get no cores.

    With `apart` each thread gets a core; without it all threads share the CPUs of `within`. `where` names the place of
    `within` in a file, for the error about CPUs that the host lacks.
    """

    def __init__(
        self, shell: Shell, *, strict: bool = False, apart: bool = True, within: Sequence[int] = (), where: str = ""
    ) -> None:
        self._shell, self._strict, self._apart, self._where = shell, strict, apart, where
        self._within = tuple(within)
        self._cpus: HostCpus | None = None

    def check(self) -> None:
        """Raise HostError where the host lacks one of the CPUs on which QEMU is to run."""
        lacking = [cpu for cpu in self._within if cpu not in self._look().allowed]
        if lacking:
            has = format_cpus(self._look().allowed) or "none that it tells of"
            raise HostError(
                f"{self._where}: cpus has {format_cpus(lacking)}, and of the host's CPUs this user may have {has}.",
                hint="List those on which QEMU may run.",
                code="VM418",
            )

    def of(self, config: StorageConfig | None) -> Pinning:
        """The CPUs of a cell's guest; a canary, which has no cell, gets no cores of its own.

        Raises UnsupportedError where there are too few cores and the pinner is strict.
        """
        if config is None or not self._apart:
            return Pinning(within=self._within)
        chosen = choose(self._look(), vcpus=config.vcpus, iothreads=int(config.iothread))
        if chosen.why_not and self._strict:
            raise UnsupportedError(
                f"--vm-pin is not possible: {chosen.why_not}.", hint="Leave it out, or use another host.", code="VM419"
            )
        return chosen.model_copy(update={"within": self._within}) if chosen.why_not else chosen

    def _look(self) -> HostCpus:
        self._cpus = self._cpus or host_cpus(self._shell, self._within)
        return self._cpus


def check_pinning(shell: Shell, guest: Monitor, pinning: Pinning) -> None:
    """Read back where the threads may run; raises AttestationError with both lists of CPUs where they differ."""
    if pinning.why_not and not pinning.within:
        return
    vcpus, iothreads = _ids(guest.monitor("query-cpus-fast")), _ids(guest.monitor("query-iothreads"))
    all_of_it = format_cpus(pinning.within)
    asked = {"main": ("main loop", all_of_it or str(pinning.others))}
    for number, tid in enumerate(vcpus):
        if all_of_it or number < len(pinning.vcpus):
            asked[str(tid)] = (f"vCPU {number}", all_of_it or str(pinning.vcpus[number]))
    asked |= {str(tid): ("I/O thread", all_of_it or str(pinning.iothread)) for tid in iothreads}
    done = shell.run(["sh", "-c", _THREADS, "sh", *(tid for tid in asked if tid != "main")])
    found = dict(line.partition(" ")[::2] for line in done.stdout.splitlines())
    way_out = "Take cpus out of the host's entry" if all_of_it else "Leave --vm-pin out"
    for thread, (what, cpus) in asked.items():
        there = found.get(thread) or "unknown"
        if there != cpus:
            hint = f"{way_out}, or look at the cpuset that guests are started in."
            raise AttestationError(f"the CPU of QEMU's {what}", asked=cpus, found=there, hint=hint, code="VM603")


def _ids(answer: object) -> list[int]:
    assert isinstance(answer, Iterable)
    return [int(one["thread-id"]) for one in answer]

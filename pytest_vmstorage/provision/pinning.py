"""A CPU of its own for each of QEMU's threads, with --vm-pin: chosen from the host's cores, and read back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.command import Shell
from pytest_vmstorage.errors import AttestationError, UnsupportedError
from pytest_vmstorage.host_look import Files, first_line, read_files

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
    """Where QEMU's threads may run, a CPU each: of every vCPU, the I/O thread (None without one), and all others.

    `why_not` says why they were left to the host's scheduler, and nothing else is set then. `shares` says that the
    others are on the I/O thread's CPU.
    """

    model_config = ConfigDict(frozen=True)

    vcpus: tuple[int, ...] = ()
    iothread: int | None = None
    others: int | None = None
    node: str = ""
    why_not: str = ""

    @property
    def shares(self) -> bool:
        """Whether the I/O thread has no CPU of its own."""
        return self.iothread is not None and self.iothread == self.others

    def __str__(self) -> str:
        if self.why_not:
            return f"not pinned: {self.why_not}"
        places = [f"vCPU {number} on CPU {cpu}" for number, cpu in enumerate(self.vcpus)]
        places += [f"I/O thread on CPU {self.iothread}"] if self.iothread is not None else []
        shared = ", which has no core left for it alone" if self.shares else ""
        node = f", NUMA node {self.node}" if self.node else ""
        return f"{', '.join(places)}, all else of QEMU on CPU {self.others}{shared}{node}"


class HostCpus(BaseModel):
    """By NUMA node ("" where the host tells none): a CPU of each core on which guests may run, in order."""

    model_config = ConfigDict(frozen=True)

    cores: Mapping[str, tuple[int, ...]]


class Monitored(Protocol):
    """A guest whose QEMU answers QMP."""

    def monitor(self, command: str, **arguments: object) -> object:
        """One QMP command and its return value."""


def host_cpus(shell: Shell) -> HostCpus:
    """Look at the host: nodes, cores, and the CPUs that this user's processes may have."""
    return read_cpus(read_files(shell.run(["sh", "-c", _CPUS]).stdout))


def read_cpus(files: Files) -> HostCpus:
    """From the files of a look; of a core's threads (SMT) the first one that may be used stands for it."""
    allowed = list(_numbers(first_line(files, "/proc/self/status").partition(":")[2]))
    named = re.compile(r"/node/node(\d+)/cpulist$")
    nodes = {found[1]: set(_numbers(lines[0])) for path, lines in files.items() if (found := named.search(path))}
    cores: dict[str, tuple[int, ...]] = {}
    for node, cpus in (nodes or {"": set(allowed)}).items():
        firsts = {_core(files, cpu): cpu for cpu in reversed(allowed) if cpu in cpus}
        cores[node] = tuple(sorted(firsts.values()))
    return HostCpus(cores=cores)


def _core(files: Files, cpu: int) -> str:
    return first_line(files, f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or str(cpu)


def _numbers(text: str) -> Iterator[int]:
    """CPUs of the kernel's list format, such as "0-3,8" (cpuset(7))."""
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def choose(cpus: HostCpus, *, vcpus: int, iothreads: int) -> Pinning:
    """A core for each thread, all on one node: the one with most. Where one is missing an I/O thread shares its own.

    The others come first, where the host's own work mostly is (CPU 0).
    """
    node, cores = max(cpus.cores.items(), key=lambda item: len(item[1]))
    wanted = vcpus + iothreads + 1
    if len(cores) >= wanted - iothreads:
        others, *free = cores
        iothread = (free.pop(0) if len(cores) >= wanted else others) if iothreads else None
        return Pinning(vcpus=tuple(free[:vcpus]), iothread=iothread, others=others, node=node)
    where = f" of NUMA node {node}" if len(cpus.cores) > 1 else ""
    threads = f"{vcpus} vCPU{'s' * (vcpus > 1)}{' and an I/O thread' if iothreads else ''}"
    have = f"{len(cores)} core{'s' * (len(cores) != 1)}"
    return Pinning(why_not=f"{threads} and the rest of QEMU want {wanted} cores, and {have}{where} can be had")


class Pinner:
    """Chooses for each guest of a run; the host is looked at once. `strict` refuses what cannot be pinned."""

    def __init__(self, shell: Shell, *, strict: bool = False) -> None:
        self._shell = shell
        self._strict = strict
        self._cpus: HostCpus | None = None

    def __call__(self, *, vcpus: int, iothreads: int) -> Pinning:
        """Where that guest's threads go; raises UnsupportedError where there are too few cores and it is strict."""
        self._cpus = self._cpus or host_cpus(self._shell)
        chosen = choose(self._cpus, vcpus=vcpus, iothreads=iothreads)
        if chosen.why_not and self._strict:
            raise UnsupportedError(f"--vm-pin cannot be had: {chosen.why_not}.")
        return chosen


def check_pinning(shell: Shell, guest: Monitored, pinning: Pinning) -> None:
    """Read back where the threads may run; raises AttestationError with both lists of CPUs where it is elsewhere."""
    if pinning.why_not:
        return
    vcpus = _ids(guest.monitor("query-cpus-fast"))
    iothreads = _ids(guest.monitor("query-iothreads")) if pinning.iothread is not None else []
    asked: dict[str, tuple[str, int | None]] = {"main": ("main loop", pinning.others)}
    asked |= {str(tid): (f"vCPU {n}", cpu) for n, (tid, cpu) in enumerate(zip(vcpus, pinning.vcpus, strict=False))}
    asked |= {str(tid): ("I/O thread", pinning.iothread) for tid in iothreads}
    done = shell.run(["sh", "-c", _THREADS, "sh", *(tid for tid in asked if tid != "main")])
    found = dict(line.partition(" ")[::2] for line in done.stdout.splitlines())
    for tid, (what, cpu) in asked.items():
        there = found.get(tid) or "unknown"
        if there != str(cpu):
            raise AttestationError(
                f"the CPU of QEMU's {what}",
                asked=str(cpu),
                found=there,
                hint="Leave --vm-pin out, or look at the cpuset that guests are started in.",
            )


def _ids(answer: object) -> list[int]:
    assert isinstance(answer, Iterable)
    return [int(one["thread-id"]) for one in answer]

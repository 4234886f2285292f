"""The cost of a round in addition to its time: CPU time of QEMU by thread class, switches, flushes, bytes; pure.

Two configurations with one speed are not equal where one of them takes twice the host's CPU for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.results.counters import IoCounters, guest_ios

CLASSES = ("vCPU", "iothread", "worker", "main loop", "other", "ended", "all threads")
"""Thread classes in the order of reports.

vCPU runs the guest with its tool; workers run the I/O that io=threads and io_uring hand to a pool; other is QEMU's
monitor, RCU and display; ended is the time of threads that were gone at the second look, nearly always workers;
all threads stands alone where the kernel does not count by thread.
"""

TICK_S = 0.01
"""Unit of utime and stime in /proc/PID/stat (USER_HZ is 100 wherever KVM runs)."""

# with debug-threads=on, which libvirt gives every guest: QEMU 7.2 to 10.0; "iou-" are the kernel's, of io_uring
_VCPU = re.compile(r"CPU \d+/|ALL CPUs/")
_WORKER = re.compile(r"worker$|iou-(wrk|sqp)-")
_MONITOR = "IO mon_iothread"


class Thread(BaseModel):
    """One thread since it began: its class, ns on a CPU, ns that it waited for one, how often it was put on one."""

    model_config = ConfigDict(frozen=True)

    kind: str
    ran_ns: int
    waited_ns: int
    switches: int


class Process(BaseModel):
    """QEMU at one moment: CPU seconds of all threads that it ever had, and by id the threads that it has."""

    model_config = ConfigDict(frozen=True)

    total_s: float
    threads: Mapping[int, Thread] = {}


class Cost(BaseModel):
    """The time of QEMU between two looks: CPU seconds by class, seconds its threads waited for a CPU, switches.

    Empty and None where the counters are unknown. Threads that ended in between are in no count but `cpu_s`.
    """

    model_config = ConfigDict(frozen=True)

    cpu_s: Mapping[str, float] = {}
    waited_s: float | None = None
    switches: int | None = None


_UNKNOWN = Cost()


def thread_class(name: str, *, is_first: bool) -> str:
    """The class of a QEMU thread by its name in /proc/PID/task/TID/comm; `is_first` says that TID is PID."""
    if is_first:
        return "main loop"
    if _VCPU.match(name):
        return "vCPU"
    if _WORKER.match(name):
        return "worker"
    # mon_iothread serves QMP and no disk
    return "iothread" if name.startswith("IO ") and name != _MONITOR else "other"


def read_process(stat: str, threads: Mapping[int, tuple[str, str]], pid: int) -> Process | None:
    """QEMU from /proc/PID/stat, and from `comm` and `schedstat` of each thread by its id; None without a stat.

    A kernel without schedstat has zeros there: then the result has no threads.
    """
    fields = stat.rpartition(")")[2].split()
    if len(fields) < 13:
        return None
    seen = {tid: _thread(name, numbers, is_first=tid == pid) for tid, (name, numbers) in threads.items()}
    known = {tid: thread for tid, thread in seen.items() if thread is not None}
    counted = any(thread.ran_ns for thread in known.values())
    # proc(5): utime and stime are the 14th and 15th field, the state behind the name the third
    return Process(total_s=(int(fields[11]) + int(fields[12])) * TICK_S, threads=known if counted else {})


def _thread(name: str, schedstat: str, *, is_first: bool) -> Thread | None:
    words = schedstat.split()
    if len(words) < 3:
        return None
    ran, waited, switches = map(int, words[:3])
    return Thread(kind=thread_class(name, is_first=is_first), ran_ns=ran, waited_ns=waited, switches=switches)


def spent(before: Process | None, after: Process | None) -> Cost:
    """The cost between two looks; empty where one is missing.

    A thread that is new at the second look spent all its time in between. Time of the process beyond that of its
    threads, and beyond two ticks of rounding, belongs to threads that ended.
    """
    if before is None or after is None:
        return Cost()
    total = after.total_s - before.total_s
    if not after.threads:
        return Cost(cpu_s={"all threads": total})
    steps = [_step(before.threads.get(tid), thread) for tid, thread in after.threads.items()]
    used = dict.fromkeys(CLASSES, 0.0)
    for step in steps:
        used[step.kind] += step.ran_ns / 1e9
    ended = total - sum(used.values())
    if ended > 2 * TICK_S:
        used["ended"] = ended
    return Cost(
        cpu_s={kind: seconds for kind, seconds in used.items() if seconds},
        waited_s=sum(step.waited_ns for step in steps) / 1e9,
        switches=sum(step.switches for step in steps),
    )


def _step(before: Thread | None, after: Thread) -> Thread:
    # an id that is given again belongs to a thread that has run for less than the one before
    if before is None or after.ran_ns < before.ran_ns:
        return after
    return Thread(
        kind=after.kind,
        ran_ns=after.ran_ns - before.ran_ns,
        waited_ns=after.waited_ns - before.waited_ns,
        switches=after.switches - before.switches,
    )


def total_cost(rounds: Iterable[Cost]) -> Cost:
    """The cost of several rounds together; empty where one of them is empty."""
    costs = list(rounds)
    if not costs or not all(one.cpu_s for one in costs):
        return _UNKNOWN
    waited, switches = [one.waited_s for one in costs], [one.switches for one in costs]
    kinds = [kind for kind in CLASSES if any(kind in one.cpu_s for one in costs)]
    return Cost(
        cpu_s={kind: sum(one.cpu_s.get(kind, 0.0) for one in costs) for kind in kinds},
        waited_s=None if None in waited else sum(filter(None, waited)),
        switches=None if None in switches else sum(filter(None, switches)),
    )


def cpu_per_io(cost: Cost, moved: IoCounters) -> Mapping[str, float]:
    """CPU seconds of QEMU for each read or write that the guest gave to it, by class; empty where either is unknown."""
    ios = guest_ios(moved)
    return {kind: seconds / ios for kind, seconds in cost.cpu_s.items()} if ios else {}


def switches_per_io(cost: Cost, moved: IoCounters) -> float | None:
    """How often a thread of QEMU was put on a CPU for each I/O of the guest; None where either is unknown."""
    ios = guest_ios(moved)
    return cost.switches / ios if ios and cost.switches is not None else None


def flushes_per_write(moved: IoCounters) -> float | None:
    """Flushes that QEMU's block layer was asked for, for each write that the guest gave to it; None without writes."""
    if not moved.layer_writes or moved.layer_flushes is None:
        return None
    return moved.layer_flushes / moved.layer_writes


def host_flushes_per_write(moved: IoCounters) -> float | None:
    """Flushes that the host's device completed, for each write that the guest gave to QEMU; None without writes.

    The guest need not ask for one: with cache=writethrough QEMU flushes after each write by itself.
    """
    if not moved.layer_writes or moved.host_flushes is None:
        return None
    return moved.host_flushes / moved.layer_writes


def host_bytes_per_guest_byte(moved: IoCounters) -> float | None:
    """Bytes that QEMU moved on the host's devices for each byte of the guest's disk, reads and writes together."""
    sides = (moved.guest_read_bytes, moved.guest_written_bytes, moved.host_read_bytes, moved.host_written_bytes)
    guest_read, guest_written, host_read, host_written = sides
    if guest_read is None or guest_written is None or host_read is None or host_written is None:
        return None
    guest = guest_read + guest_written
    return (host_read + host_written) / guest if guest else None

"""What a round cost: QEMU's threads by class, and all of it for each I/O of the guest."""

from __future__ import annotations

import pytest

from pytest_vmstorage.results.cost import (
    Cost,
    Process,
    Thread,
    cpu_per_io,
    flushes_per_write,
    host_bytes_per_guest_byte,
    host_flushes_per_write,
    read_process,
    spent,
    switches_per_io,
    thread_class,
    total_cost,
)
from pytest_vmstorage.results.counters import IoCounters

PID = 32536
# QEMU 7.2.22 under TCG with io=io_uring, two looks 2 s apart; Linux 6.18
STAT = (
    "32536 (qemu-system-x86) S 32501 32535 32535 0 -1 138412416 7356 0 11 0 1 27 0 0 20 0 5 0 1678825 2133897216 74108"
)
LATER = "32536 (qemu-system-x86) S 32501 32535 32535 0 -1 138412416 25950 0 11 0 267 94 0 0 20 0 6 0 1678825 2138091520"
NAMES = {
    PID: "qemu-system-x86",
    32538: "qemu-system-x86",
    32539: "IO mon_iothread",
    32540: "CPU 0/TCG",
    32541: "worker",
}
SCHEDSTATS = {
    PID: "354557332 171935784 4782",
    32538: "20039291 17318820 110",
    32539: "170022903 36645793 1116",
    32540: "3064386743 224323104 3285",
    32541: "6496106 5123247 360",
}


def threads() -> dict[int, tuple[str, str]]:
    """Names and schedstats of the recording."""
    return {tid: (name, SCHEDSTATS[tid]) for tid, name in NAMES.items()}


def process(total_s: float, **known: tuple[str, float]) -> Process:
    """A process with threads t1="class", seconds; each waited for as long as it ran, and ran a thousand times."""
    made = {
        int(tid.removeprefix("t")): Thread(
            kind=kind, ran_ns=int(seconds * 1e9), waited_ns=int(seconds * 1e9), switches=int(seconds * 1000)
        )
        for tid, (kind, seconds) in known.items()
    }
    return Process(total_s=total_s, threads=made)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("CPU 0/KVM", "vCPU"),
        ("CPU 12/TCG", "vCPU"),
        ("ALL CPUs/TCG", "vCPU"),
        ("IO iothread1", "iothread"),
        ("IO disk-thread", "iothread"),
        ("IO mon_iothread", "other"),
        ("worker", "worker"),
        ("iou-wrk-32536", "worker"),
        ("iou-sqp-32536", "worker"),
        ("call_rcu", "other"),
        ("qemu-system-x86", "other"),
        ("SPICE Worker", "other"),
    ],
)
def test_a_thread_is_known_by_its_name(name: str, kind: str) -> None:
    """As libvirt has QEMU name them; the monitor's iothread serves no disk."""
    assert thread_class(name, is_first=False) == kind


def test_the_first_thread_is_the_main_loop_whatever_its_name() -> None:
    """It has the program's name, as the RCU thread has."""
    assert thread_class("qemu-system-x86", is_first=True) == "main loop"


def test_a_process_is_read_from_proc() -> None:
    """Ticks of a hundredth behind the name, and nanoseconds of each thread."""
    found = read_process(STAT, threads(), PID)
    assert found is not None
    assert found.total_s == pytest.approx(0.28)
    assert found.threads[32540] == Thread(kind="vCPU", ran_ns=3064386743, waited_ns=224323104, switches=3285)
    assert [thread.kind for thread in found.threads.values()] == ["main loop", "other", "other", "vCPU", "worker"]


def test_a_name_may_hold_what_separates_fields() -> None:
    """The name ends at the last parenthesis (proc(5))."""
    found = read_process(STAT.replace("qemu-system-x86", "a) S (b c"), {}, PID)
    assert found is not None
    assert found.total_s == pytest.approx(0.28)


def test_a_process_that_is_gone_is_none() -> None:
    """Neither look says anything then."""
    assert read_process("", {}, PID) is None
    assert spent(None, process(1.0)) == Cost()
    assert spent(process(1.0), None) == Cost()


def test_a_kernel_without_schedstats_tells_of_the_whole_process() -> None:
    """It has zeros there, which are no threads that did not run."""
    zeros = {tid: (name, "0 0 0") for tid, name in NAMES.items()}
    before, after = read_process(STAT, zeros, PID), read_process(LATER, zeros, PID)
    found = spent(before, after)
    assert found.cpu_s == {"all threads": pytest.approx(3.33)}
    assert (found.waited_s, found.switches) == (None, None)


def test_time_is_added_up_by_class() -> None:
    """What each thread took between the looks, and how long it waited."""
    before = process(10.0, t1=("main loop", 4), t2=("vCPU", 3), t3=("vCPU", 3))
    after = process(13.5, t1=("main loop", 4.5), t2=("vCPU", 4), t3=("vCPU", 5))
    found = spent(before, after)
    assert found.cpu_s == {"vCPU": pytest.approx(3.0), "main loop": pytest.approx(0.5)}
    assert found.waited_s == pytest.approx(3.5)
    assert found.switches == 3500


def test_a_new_threads_time_is_of_this_round() -> None:
    """Workers come when there is work; one with the id of a thread that is gone has run for less than that one."""
    before = process(5.0, t1=("main loop", 1), t7=("worker", 4))
    after = process(7.0, t1=("main loop", 1), t7=("worker", 1.5), t8=("worker", 0.5))
    assert spent(before, after).cpu_s == {"worker": pytest.approx(2.0)}


def test_what_ended_threads_took_is_told_apart() -> None:
    """The process took a second more than the threads that are left."""
    before = process(5.0, t1=("main loop", 1), t7=("worker", 4))
    after = process(7.0, t1=("main loop", 2))
    assert spent(before, after).cpu_s == {"main loop": pytest.approx(1.0), "ended": pytest.approx(1.0)}


def test_rounding_is_no_ended_thread() -> None:
    """The process is counted in ticks, and its threads in nanoseconds."""
    before, after = process(5.0, t1=("main loop", 5.0)), process(6.01, t1=("main loop", 5.995))
    assert spent(before, after).cpu_s == {"main loop": pytest.approx(0.995)}


def test_rounds_are_added_up_unless_one_is_unknown() -> None:
    """Half a cost is none."""
    one = Cost(cpu_s={"main loop": 1.0, "vCPU": 2.0}, waited_s=0.0, switches=3)
    two = Cost(cpu_s={"vCPU": 0.5, "ended": 0.25}, waited_s=0.5, switches=0)
    assert total_cost([one, two]) == Cost(
        cpu_s={"vCPU": 2.5, "main loop": 1.0, "ended": 0.25}, waited_s=0.5, switches=3
    )
    assert total_cost([one, Cost(cpu_s={"all threads": 1.0})]).switches is None
    assert total_cost([one, Cost()]) == Cost()
    assert total_cost([]) == Cost()


def test_cost_is_told_for_each_io() -> None:
    """Reads and writes that the guest gave to QEMU."""
    cost = Cost(cpu_s={"vCPU": 0.5, "worker": 0.25}, switches=4000)
    moved = IoCounters(layer_reads=500, layer_writes=1500)
    assert cpu_per_io(cost, moved) == {"vCPU": 0.00025, "worker": 0.000125}
    assert switches_per_io(cost, moved) == 2.0


@pytest.mark.parametrize("moved", [IoCounters(), IoCounters(layer_reads=0, layer_writes=0)], ids=["unknown", "none"])
def test_without_io_nothing_is_told_for_each(moved: IoCounters) -> None:
    """A native row has no guest, and a cached read no I/O."""
    cost = Cost(cpu_s={"vCPU": 0.5}, switches=4)
    assert cpu_per_io(cost, moved) == {}
    assert switches_per_io(cost, moved) is None
    assert flushes_per_write(moved) is None
    assert host_bytes_per_guest_byte(moved) is None


def test_flushes_are_those_asked_of_qemu() -> None:
    """Others flush the host's device too."""
    moved = IoCounters(layer_writes=64, layer_flushes=4, host_flushes=96)
    assert (flushes_per_write(moved), host_flushes_per_write(moved)) == (0.0625, 1.5)
    # writethrough: the guest asks for none, and the host flushes after each write
    moved = IoCounters(layer_writes=64, layer_flushes=0, host_flushes=64)
    assert (flushes_per_write(moved), host_flushes_per_write(moved)) == (0.0, 1.0)
    assert host_flushes_per_write(IoCounters(host_flushes=9)) is None
    assert flushes_per_write(IoCounters(layer_writes=64)) is None


def test_host_bytes_are_held_against_the_guests() -> None:
    """Reads and writes together: a first write may make QEMU read."""
    moved = IoCounters(guest_read_bytes=0, guest_written_bytes=100, host_read_bytes=30, host_written_bytes=170)
    assert host_bytes_per_guest_byte(moved) == 2.0
    assert host_bytes_per_guest_byte(moved.model_copy(update={"host_read_bytes": None})) is None

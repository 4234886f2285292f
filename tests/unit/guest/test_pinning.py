"""A core for each thread: chosen on one node, said where there are too few, and read back."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import AttestationError, HostError, UnsupportedError
from pytest_vmstorage.guest.pinning import HostCpus, Pinner, Pinning, check_pinning, choose, read_cpus
from pytest_vmstorage.host.files import read_files
from pytest_vmstorage.testing.shell import FakeShell

CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"


def look(allowed: str, nodes: Mapping[int, str], siblings: Mapping[int, str]) -> str:
    """What grep prints of these files, in the formats of Linux 6.x (Documentation/admin-guide/cputopology.rst)."""
    lines = [f"{NODE}/node{node}/cpulist:{cpus}" for node, cpus in nodes.items()]
    lines += [f"{CPU}/cpu{cpu}/topology/thread_siblings_list:{text}" for cpu, text in siblings.items()]
    return "\n".join([*lines, f"/proc/self/status:Cpus_allowed_list:\t{allowed}"])


# two nodes with two cores of two threads each
TWO_NODES = look("0-7", {0: "0-1,4-5", 1: "2-3,6-7"}, {cpu: f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)})


def test_cores_are_counted_and_not_their_threads() -> None:
    """By node, the first thread of each that may be used."""
    assert read_cpus(read_files(TWO_NODES)).cores == {"0": (0, 1), "1": (2, 3)}


def test_only_what_this_user_may_have_counts() -> None:
    """A cpuset may leave a core's second thread alone."""
    limited = TWO_NODES.replace("list:\t0-7", "list:\t2,5-6")
    assert read_cpus(read_files(limited)).cores == {"0": (5,), "1": (2,)}


def test_a_host_that_hides_nodes_and_cores_has_cpus_at_least() -> None:
    """A container without /sys."""
    assert read_cpus(read_files(look("0,2-3", {}, {}))).cores == {"": (0, 2, 3)}


def cores(number: int) -> HostCpus:
    """One node with so many cores."""
    return HostCpus(cores={"0": tuple(range(number))})


@pytest.mark.parametrize(
    ("there", "vcpus", "iothreads", "chosen"),
    [(2, 1, 0, ((1,), None, 0)), (3, 1, 1, ((2,), 1, 0)), (2, 1, 1, ((1,), 0, 0)), (8, 4, 1, ((2, 3, 4, 5), 1, 0))],
)
def test_each_thread_gets_a_core(there: int, vcpus: int, iothreads: int, chosen: tuple[object, ...]) -> None:
    """The rest of QEMU is the first to share, with the I/O thread, where one core is missing."""
    found = choose(cores(there), vcpus=vcpus, iothreads=iothreads)
    assert (found.vcpus, found.iothread, found.others) == chosen
    assert not found.why_not


def test_the_node_with_most_cores_is_taken_and_no_other() -> None:
    """Memory of another node would be farther away from some of the threads."""
    found = choose(HostCpus(cores={"0": (0, 1), "1": (8, 9, 10)}), vcpus=1, iothreads=1)
    assert str(found) == "vCPU 0 on CPU 10, I/O thread on CPU 9, all else of QEMU on CPU 8, NUMA node 1"
    few = choose(HostCpus(cores={"0": (0, 1), "1": (8, 9)}), vcpus=3, iothreads=0)
    assert str(few) == (
        "not pinned: 3 vCPUs and the rest of QEMU need 4 cores, and 2 cores of NUMA node 0 are available"
    )


def test_too_few_cores_are_said_or_refused() -> None:
    """A row without pinning says so; with --vm-strict there is no such row."""
    shell = FakeShell().answer(re.compile("thread_siblings_list"), look("0", {0: "0"}, {0: "0"}))
    said = Pinner(shell).of(StorageConfig(iothread=True))
    assert (
        str(said) == "not pinned: 1 vCPU and an I/O thread and the rest of QEMU need 3 cores, and 1 core is available"
    )
    with pytest.raises(UnsupportedError, match=r"--vm-pin is not possible: 1 vCPU and the rest of QEMU need 2 cores"):
        Pinner(shell, strict=True).of(StorageConfig())


def test_the_host_is_looked_at_once() -> None:
    """Its cores do not change from guest to guest."""
    shell = FakeShell().answer(re.compile("thread_siblings_list"), TWO_NODES)
    pin = Pinner(shell)
    assert pin.of(StorageConfig()) == pin.of(StorageConfig())
    assert len(shell.asked) == 1


def test_a_host_may_keep_cpus_for_itself() -> None:
    """Cores are chosen among those that its entry lists; without --vm-pin all of QEMU has them."""
    shell = FakeShell().answer(re.compile("thread_siblings_list"), TWO_NODES)
    pinner = Pinner(shell, within=(1, 2, 3, 7))
    pinner.check()
    assert str(pinner.of(StorageConfig())) == "vCPU 0 on CPU 3, all else of QEMU on CPU 2, NUMA node 1"
    assert str(pinner.of(StorageConfig(vcpus=2))) == (
        "not pinned: 2 vCPUs and the rest of QEMU need 3 cores, and 2 cores of NUMA node 1 are available;"
        " all of QEMU on CPUs 1-3,7"
    )
    together = Pinner(shell, apart=False, within=(1, 2, 3, 7)).of(StorageConfig(vcpus=64, iothread=True))
    assert str(together) == "all of QEMU on CPUs 1-3,7"


def test_cpus_that_the_host_has_not_are_an_error_of_its_entry() -> None:
    """Before anything is made, with what it has."""
    shell = FakeShell().answer(re.compile("thread_siblings_list"), TWO_NODES)
    with pytest.raises(HostError) as caught:
        Pinner(shell, apart=False, within=(6, 7, 8, 9), where="f.toml, [hosts.lab01]").check()
    assert caught.value.told == (
        "f.toml, [hosts.lab01]: cpus has 8-9, and of the host's CPUs this user may have 0-7."
        " List those on which QEMU may run."
    )


class Guest:
    """A guest whose QEMU has two vCPUs and an I/O thread, by these ids."""

    def monitor(self, command: str, **_arguments: object) -> object:
        """As QEMU 7.2 answers, shortened."""
        ids = {"query-cpus-fast": (101, 102), "query-iothreads": (103,)}[command]
        return [{"thread-id": number} for number in ids]


TOGETHER = Pinning(within=(2, 3, 4, 5, 8))
PINNED = Pinning(vcpus=(2, 3), iothread=1, others=0, node="0")


def threads(**lists: str) -> FakeShell:
    """A host on which the threads may run there."""
    found = {"main": "0", "101": "2", "102": "3", "103": "1", **lists}
    return FakeShell().answer(re.compile("Tgid"), "".join(f"{tid} {cpus}\n" for tid, cpus in found.items()))


def test_threads_that_are_where_they_should_be() -> None:
    """All are asked for by the ids that QEMU tells."""
    shell = threads()
    check_pinning(shell, Guest(), PINNED)
    assert shell.asked[0].argv[-3:] == ("101", "102", "103")
    check_pinning(threads(**dict.fromkeys(("main", "101", "102", "103"), "2-5,8")), Guest(), TOGETHER)
    nowhere = FakeShell()
    check_pinning(nowhere, Guest(), Pinning(why_not="too few"))
    assert nowhere.asked == []


@pytest.mark.parametrize(
    ("lists", "sentence"),
    [
        ({"102": "0-7"}, "the CPU of QEMU's vCPU 1 was asked to be 3 but is 0-7."),
        ({"103": "0"}, "the CPU of QEMU's I/O thread was asked to be 1 but is 0."),
        ({"main": ""}, "the CPU of QEMU's main loop was asked to be 0 but is unknown."),
    ],
)
def test_a_thread_that_is_elsewhere_is_an_error_of_the_cell(lists: dict[str, str], sentence: str) -> None:
    """With both; what the host hides is not taken for pinned."""
    with pytest.raises(AttestationError) as caught:
        check_pinning(threads(**lists), Guest(), PINNED)
    assert caught.value.what == sentence


def test_a_thread_outside_of_the_hosts_list_is_an_error_too() -> None:
    """The kernel's list is held against ours."""
    with pytest.raises(AttestationError) as caught:
        check_pinning(threads(**{"main": "2-5,8", "101": "0-7"}), Guest(), TOGETHER)
    assert caught.value.what == "the CPU of QEMU's vCPU 0 was asked to be 2-5,8 but is 0-7."
    assert "Take cpus out of the host's entry" in caught.value.hint

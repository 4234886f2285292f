"""Guests that are made and prepared while another is at work: which ones, when they pause again, what ends them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import GuestDiedError, VmStorageError, WorkloadError
from pytest_vmstorage.guest.restore.restoring import Restoring
from pytest_vmstorage.lab.prefetch import Prefetch, make_in_parallel
from pytest_vmstorage.measure.system import Regions, SystemUnderTest
from pytest_vmstorage.plugin.interleave import cells_alike
from pytest_vmstorage.testing.shell import FakeShell
from pytest_vmstorage.testing.system import FakeSystem

A, B, C = (StorageConfig(format=kind, size="64M") for kind in ("raw", "qcow2", "vdi"))


class Stoppable:
    """What begins guests from saved ones: it says what it was told, and those ahead wait until it is stopped."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.stopped = threading.Event()

    def go_on(self) -> None:
        """The run goes on."""
        self.told.append("go on")

    def stop(self) -> None:
        """It does not."""
        self.told.append("stop")
        self.stopped.set()

    def wait(self) -> str:
        """Make a guest, which takes until somebody stops it."""
        return "stopped" if self.stopped.wait(60) else "made"

    def make(self, here: Callable[[], object], take: Callable[[StorageConfig, Callable[[], object]], None]) -> object:
        """Make that one, with another beside it."""
        return make_in_parallel(here, {B: self.wait}, take=take, restoring=cast("Restoring", self))


def interrupted(*_given: object) -> None:
    """Be where Ctrl-C comes."""
    raise KeyboardInterrupt


def test_those_ahead_are_taken_when_all_are_made() -> None:
    """Each as what it came to, also where the one that is wanted failed."""
    taken: list[object] = []
    met = threading.Barrier(2)

    def take(config: StorageConfig, made: Callable[[], object]) -> None:
        taken.append((config, made()))

    def fail() -> None:
        met.wait(60)
        raise LookupError("no disk")

    made = make_in_parallel(lambda: met.wait(60) >= 0, {B: lambda: met.wait(60) >= 0}, take=take, restoring=None)
    assert (made, taken) == (True, [(B, True)])
    with pytest.raises(LookupError, match="no disk"):
        make_in_parallel(fail, {A: lambda: met.wait(60) >= 0}, take=take, restoring=None)
    assert taken == [(B, True), (A, True)]


@pytest.mark.parametrize("is_made", [False, True])
def test_ctrl_c_stops_those_ahead(*, is_made: bool) -> None:
    """Whether the one that is wanted was being made, or was there and the others were waited for."""
    stoppable, taken = Stoppable(), list[object]()

    def take(_config: StorageConfig, made: Callable[[], object]) -> None:
        if is_made:
            raise KeyboardInterrupt
        taken.append(made())

    with pytest.raises(KeyboardInterrupt):
        stoppable.make((lambda: None) if is_made else interrupted, take)
    assert stoppable.told == ["go on", "stop"]
    assert "made" not in taken


@dataclass
class Waiting(FakeSystem):
    """A guest of that cell, with what happens to it."""

    is_emulated: bool = True
    events: list[str] = field(default_factory=list)
    is_dead: threading.Event = field(default_factory=threading.Event)

    def resume(self) -> None:
        """It goes on."""
        self.events.append("goes on")

    def pause(self) -> None:
        """It waits."""
        self.events.append("waits")

    def kill(self) -> None:
        """It ends."""
        self.events.append("destroyed")
        self.is_dead.set()


class Bench:
    """The guest of A at work, those of B and C waiting; all that happens to these, by cell."""

    def __init__(self, alike: Collection[StorageConfig] = (B, C), *, is_emulated: bool = True) -> None:
        made = {one: Waiting(FakeShell(), one, Regions(2**26), is_emulated=is_emulated) for one in (A, B, C)}
        self.events = {one.format: system.events for one, system in made.items()}
        self.is_dead = made[B].is_dead
        self.waiting = {one: made[one] for one in (B, C)}
        self.beside = Prefetch(cast("Any", SimpleNamespace(waiting=self.waiting, held=self.waiting.get)))
        self.beside.alike = alike

    def prepare(self, system: SystemUnderTest) -> None:
        """What is done to each."""
        self.events[system.config.format].append("prepared")
        system.regions.written_bytes = 2**20


def test_those_that_begin_alike_are_prepared_and_wait_again() -> None:
    """At the end of the caller's own preparation all of them stand still; what was written to them is remembered."""
    bench = Bench(alike=(B,))
    with bench.beside.alongside(bench.prepare):
        pass
    assert bench.events == {"raw": [], "qcow2": ["goes on", "prepared", "waits"], "vdi": []}
    assert [bench.waiting[one].regions.written_bytes for one in (B, C)] == [2**20, 0]


def test_what_a_test_needs_of_one_disk_those_alike_have_from_the_start() -> None:
    """Also the cell itself, should its guest be made anew; not one that begins otherwise, or is filled by its guest."""
    other = C.model_copy(update={"guest_fs": "ext4"})
    bench = Bench(alike=(B, other))
    assert bench.beside.fill_bytes(B) == 0
    bench.beside.note_need(A, 2**20)
    bench.beside.alike = ()
    assert [bench.beside.fill_bytes(one) for one in (A, B, C, other)] == [2**20, 2**20, 0, 0]


def test_cells_that_begin_alike_and_have_no_guest_are_still_to_be_made() -> None:
    """Not the one at work, and none that waits."""
    other = C.model_copy(update={"cache": "unsafe"})
    bench = Bench(alike=(A, B, other))
    assert bench.beside.still_to_be_made(A) == [other]


@pytest.mark.parametrize(("end", "known"), [(2**20, [True, True, True]), (2**26, [False, True, False])])
def test_what_goes_to_a_disks_end_says_nothing_of_another_size(end: int, known: list[bool]) -> None:
    """What ends before that needs the same of a larger one, and of a smaller one that it ends within."""
    sizes = [B.model_copy(update={"size": size}) for size in (2**25, 2**26, 2**27)]
    bench = Bench(alike=sizes)
    bench.beside.note_need(A, end)
    assert [bench.beside.fill_bytes(one) for one in sizes] == [end * is_known for is_known in known]


def test_a_guest_that_is_made_anew_has_what_its_first_test_needs() -> None:
    """And not what a later one needed: in all guests of a cell its tests meet disks that are written as far."""
    bench = Bench(alike=(B,))
    for end in (2**21, 2**25, 2**20):
        bench.beside.note_need(A, end)
    assert [bench.beside.fill_bytes(one) for one in (A, B)] == [2**21, 2**21]


def test_those_that_had_a_turn_wait_on() -> None:
    """What was written to their disks is there; nobody wakes them."""
    bench = Bench()
    bench.waiting[B].regions.written_bytes = 2**20
    with bench.beside.alongside(bench.prepare):
        pass
    assert bench.events == {"raw": [], "qcow2": [], "vdi": ["goes on", "prepared", "waits"]}


def test_they_are_prepared_while_the_caller_prepares_its_own() -> None:
    """And beside each other."""
    bench, all_three = Bench(), threading.Barrier(3)
    with bench.beside.alongside(lambda _one: all_three.wait(60) and None):
        all_three.wait(60)
    assert bench.events["qcow2"] == bench.events["vdi"] == ["goes on", "waits"]


def test_those_that_are_not_emulated_are_prepared_alone() -> None:
    """It is the disk that takes the time there, and it is what is measured."""
    bench = Bench(is_emulated=False)
    with bench.beside.alongside(bench.prepare):
        pass
    assert bench.events == {"raw": [], "qcow2": [], "vdi": []}


def test_what_fails_beside_is_left_to_its_own_turn() -> None:
    """It stands still all the same; an error that is no user's and no guest's is not hidden."""
    bench = Bench(alike=(B,))

    def fail(_one: SystemUnderTest) -> None:
        raise WorkloadError("No room.")

    with bench.beside.alongside(fail):
        pass
    assert bench.events["qcow2"] == ["goes on", "waits"]
    with pytest.raises(ZeroDivisionError), bench.beside.alongside(lambda _one: 1 // 0 and None):
        pass


@pytest.mark.parametrize("error", [WorkloadError, pytest.fail.Exception])
def test_where_the_caller_fails_the_others_are_done_first(error: type[BaseException]) -> None:
    """They wait for their turns, which come, also where a test's own time limit ends the caller."""
    bench = Bench()
    with pytest.raises(error), bench.beside.alongside(bench.prepare):
        raise error("No room.")
    assert bench.events["qcow2"] == bench.events["vdi"] == ["goes on", "prepared", "waits"]


def test_ctrl_c_waits_for_none_of_them() -> None:
    """Their guests end, and with them what goes on there."""
    bench, begun = Bench(alike=(B,)), threading.Event()

    def hang(_one: SystemUnderTest) -> None:
        begun.set()
        assert bench.is_dead.wait(60)
        error: VmStorageError = GuestDiedError("It ended.")
        raise error

    def press() -> None:
        begun.wait(60)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), bench.beside.alongside(hang):
        press()
    assert bench.events["qcow2"] == ["goes on", "destroyed", "waits"]
    assert bench.events["vdi"] == []


def test_a_test_of_the_same_function_is_to_need_the_same() -> None:
    """What a cell's first test to come is decides; whatever its arguments are."""

    def one() -> None: ...

    def other() -> None: ...

    def item(function: Callable[[], None] | None) -> Any:
        return SimpleNamespace(**({"function": function} if function else {}))

    at_hand = item(one)
    assert cells_alike(at_hand, [(at_hand, A), (item(other), B), (item(one), B), (item(one), C)]) == {A, C}
    assert cells_alike(item(None), [(item(None), B), (item(one), C)]) == frozenset()

"""Environments that wait for their turn: kept while there is room and use for them, the farthest turn goes first."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import GuestDiedError
from pytest_vmstorage.lab.pool import Environment, GuestPool

MIB = 2**20
A, B, C = (StorageConfig(format=kind, size="64M", memory="512M") for kind in ("raw", "qcow2", "vdi"))


class Host:
    """So much room, and what happened there."""

    def __init__(self, memory_mib: int | None = 8192, folder_mib: int = 8192) -> None:
        self.memory_mib = memory_mib
        self.folder_mib = folder_mib
        self.events: list[str] = []
        self.dead: set[StorageConfig] = set()
        self.asked = 0
        self.going_mib = 0
        self.rows = GuestPool(self, upcoming=(A, B, C))

    def spare_memory_bytes(self) -> int | None:
        """What the rows at hand leave."""
        self.asked += 1
        held = len(self.rows.waiting) + (self.rows.current is not None)
        return None if self.memory_mib is None else (self.memory_mib - 512 * held - self.going_mib) * MIB

    def folder_room_bytes(self) -> int:
        """What it was made with."""
        return self.folder_mib * MIB

    def settle(self) -> None:
        """All is gone at once, but for what was said to be going."""
        self.going_mib = 0

    def turn(self, config: StorageConfig) -> bool:
        """That cell's turn; whether its row had to be made."""
        if self.rows.turn_to(config) is not None:
            return False
        self.rows.make_room(config)
        self.rows.current = self.environment(config)
        return True

    def finish(self, config: StorageConfig, next_one: StorageConfig) -> None:
        """That cell's last turn, and the next one's, whose row was made ahead; what happens then is noted."""
        self.rows.upcoming = (config, next_one)
        self.turn(config)
        self.rows.wait(self.environment(next_one))
        self.rows.upcoming = (next_one,)
        self.events.clear()
        self.turn(next_one)

    def environment(self, config: StorageConfig) -> Environment:
        """One that tells when its wait begins and ends, and when it goes."""

        def note(what: str) -> Callable[[], None]:
            return lambda: self.events.append(f"{what} {config.format}")

        def pause() -> None:
            if config in self.dead:
                raise GuestDiedError("It ended.")
            note("waits")()

        made = SimpleNamespace(config=config, pause=pause, resume=note("back"), release=note("gone"))
        return cast("Environment", made)


def test_rows_wait_for_their_next_turn() -> None:
    """None is made twice, and what was written to a disk is remembered with its row."""
    host = Host()
    assert [host.turn(one) for one in (A, B, A, B, B)] == [True, True, False, False, False]
    assert host.events == ["waits raw", "waits qcow2", "back raw", "waits raw", "back qcow2"]


def test_a_row_without_a_further_turn_goes() -> None:
    """As soon as another one's turn comes."""
    host = Host()
    host.rows.upcoming = (B,)
    host.turn(A)
    host.turn(B)
    assert host.events == ["gone raw"]


@pytest.mark.parametrize("done", [A, StorageConfig(backing="partition", size="64M")])
def test_a_row_without_a_further_turn_goes_though_the_next_is_there(done: StorageConfig) -> None:
    """It is on its way before the next one is called back, and takes no memory while that one is measured."""
    host = Host()
    host.finish(done, B)
    assert host.events == ["gone raw", "back qcow2"]


def test_a_row_that_died_is_kept_to_be_found_dead() -> None:
    """Its cell's next test is told; pausing it is no error of another cell."""
    host = Host()
    host.turn(A)
    host.dead = {A}
    host.turn(B)
    assert A in host.rows.waiting


@pytest.mark.parametrize("room", [{"memory_mib": 1024}, {"folder_mib": 150}])
def test_without_room_the_farthest_turn_goes(room: dict[str, int]) -> None:
    """Memory for two guests, or a folder for two disks: of A and B, which wait, A is needed sooner."""
    host = Host(**room)
    for one in (A, B):
        host.turn(one)
    host.rows.upcoming = (C, A, B)
    assert host.turn(C)
    assert host.events[-1] == "gone qcow2"
    assert set(host.rows.waiting) == {A}


def test_nothing_waits_in_vain_for_room_that_a_guest_still_takes_that_was_let_go() -> None:
    """Where all fits without it, none is let go, and the next ones are made ahead; only a host that is full waits."""
    host = Host(memory_mib=2048)
    for one in (A, B):
        host.turn(one)
    host.rows.upcoming = (C, A, B)
    host.going_mib = 1024
    assert host.turn(C)
    assert set(host.rows.waiting) == {A, B}
    assert host.going_mib == 0
    host.rows.drop_all()
    host.rows.upcoming = (A, B, C)
    host.going_mib = 1024
    assert host.rows.ahead(A, 2) == [B, C]
    host.memory_mib, host.going_mib = 4096, 1024
    assert host.rows.ahead(A, 2) == [B, C]
    assert host.going_mib == 1024


def test_a_host_that_tells_no_memory_keeps_all() -> None:
    """As far as the disks fit."""
    host = Host(memory_mib=None)
    assert all(host.turn(one) for one in (A, B, C))
    assert set(host.rows.waiting) == {A, B}


def test_cells_on_one_machine_make_way_for_each_other() -> None:
    """Its disk is one cell's at a time; rows on other machines wait, and take no room of the host."""
    one, other = (StorageConfig(backing="machine:a", state=state, size="64M") for state in ("filled", "rewritten"))
    elsewhere = StorageConfig(backing="machine:b", size="64M")
    host = Host(memory_mib=0, folder_mib=0)
    host.rows.upcoming = (one, other, elsewhere)
    for config in (one, elsewhere, other):
        host.turn(config)
    assert host.events == ["waits raw", "waits raw", "gone raw"]
    assert set(host.rows.waiting) == {elsewhere}
    assert host.asked == 0


def test_a_row_on_a_listed_device_does_not_wait() -> None:
    """The next cell may want the same device."""
    host = Host()
    disk = StorageConfig(backing="partition", size="64M")
    host.rows.upcoming = (disk, A)
    host.turn(disk)
    host.turn(A)
    assert host.events == ["gone raw"]


def test_guests_of_the_next_turns_are_made_ahead() -> None:
    """Of those that are not there, may wait, and fit; the host is asked for its room once, and not for each cell."""
    host = Host()
    host.turn(A)
    native, disk = StorageConfig(backing="native", size="64M"), StorageConfig(backing="partition", size="64M")
    host.rows.upcoming = (A, native, disk, B, C, B)
    asked = host.asked
    assert host.rows.ahead(A, 2) == [B, C]
    assert host.asked == asked + 1
    assert host.rows.ahead(A, 1) == [B]
    assert host.rows.ahead(A, 0) == []
    # A is there, and one more fits
    host.memory_mib = 1536
    assert host.rows.ahead(A, 2) == [B]
    host.memory_mib = 512
    assert host.rows.ahead(A, 2) == []


def test_guests_made_ahead_are_as_quick_to_make_where_there_are_such() -> None:
    """Of the next few: what is restored beside what boots would wait for it, and the next boot has none beside it."""
    host = Host()
    booted = [StorageConfig(bus="nvme", size=f"{64 + n}M", memory="512M") for n in range(12)]
    host.rows.upcoming = (A, *booted[:2], B, *booted[2:], C)
    assert host.rows.ahead(A, 1, lambda one: one.bus != "nvme") == [B]
    assert host.rows.ahead(booted[0], 1, lambda one: one.bus == "nvme") == [booted[1]]
    # C is too far away: its guest would wait for long
    host.rows.upcoming = (A, *booted, C)
    assert host.rows.ahead(A, 1, lambda one: one.bus != "nvme") == [booted[0]]


def test_a_guest_that_dies_as_it_begins_to_wait_is_found_dead_in_its_turn() -> None:
    """Made ahead or put by: nothing is told of it in another cell's test."""
    host = Host()
    host.dead = {B}
    host.rows.wait(host.environment(B))
    assert B in host.rows.waiting


def test_rows_that_wait_for_nothing_go() -> None:
    """As soon as that is known."""
    host = Host()
    for one in (A, B, C):
        host.turn(one)
    host.rows.expect((B,))
    assert set(host.rows.waiting) == {B}
    assert host.events[-1] == "gone raw"


def test_all_go_in_the_end() -> None:
    """The one at work and those that wait."""
    host = Host()
    for one in (A, B, C):
        host.turn(one)
    host.events.clear()
    host.rows.drop_all()
    assert sorted(host.events) == ["gone qcow2", "gone raw", "gone vdi"]
    assert not host.rows.let_one_go()

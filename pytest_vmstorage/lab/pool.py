"""The rows of a lab that were made and not let go: one is at work, the others wait paused for their next round."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.guest.guest import Guest
from pytest_vmstorage.lab.native import Native
from pytest_vmstorage.measure.system import Regions
from pytest_vmstorage.storage.block import needs_block
from pytest_vmstorage.storage.disk import folder_bytes

Row = Guest | Native
"""Where a cell's workloads run: a guest, or the host itself."""


AHEAD = 8
"""How many of the next cells are considered for each guest that is made ahead; a later one waits paused for longer."""


class FreeRoom(Protocol):
    """What a host has left for guests that wait, in bytes; None where it does not say."""

    def spare_memory_bytes(self) -> int | None:
        """Memory that a further guest may take."""

    def folder_room_bytes(self) -> int:
        """What the run's folder has free, and what its disks take already, together."""

    def settle(self) -> None:
        """Wait until what was let go is gone."""


@dataclass
class Held:
    """A row, and what was written to its disk in its life."""

    row: Row
    regions: Regions


@dataclass
class GuestPool:
    """Holds the rows; `let_go` tears one down, `put_by` makes one wait.

    `upcoming` are the cells that rounds will be taken in, in that order: a row whose cell is not among them is let go
    as soon as another one's turn comes.
    """

    room: FreeRoom
    let_go: Callable[[Row], None]
    put_by: Callable[[Row], None]
    upcoming: Sequence[StorageConfig] = ()
    current: Held | None = None
    waiting: dict[StorageConfig, Held] = field(default_factory=dict)

    def expect(self, upcoming: Sequence[StorageConfig]) -> None:
        """Other turns are ahead: rows that wait for none of them are let go."""
        self.upcoming = upcoming
        for config in [one for one in self.waiting if one not in upcoming]:
            self.let_go(self.waiting.pop(config).row)

    def turn_to(self, config: StorageConfig) -> Held | None:
        """The row of that cell, at work; None where there is none, and nothing is at work then."""
        self.leave(config)
        if self.current is not None:
            return self.current
        found = self.waiting.pop(config, None)
        if found is not None:
            self.current = found
            _call_back(found.row)
        return found

    def leave(self, config: StorageConfig) -> None:
        """Nothing is at work but that cell's row, if it is."""
        if self.current is not None and self.current.row.config != config:
            self._put_by()

    def begin(self, row: Row) -> Held:
        """A row that was made is the one at work."""
        self.current = _held(row)
        return self.current

    def _put_by(self) -> None:
        held, self.current = self.current, None
        if held is None:
            return
        if held.row.config in self.upcoming and _may_wait(held.row.config):
            self._wait(held)
        else:
            self.let_go(held.row)

    def wait(self, row: Row) -> None:
        """A row that was made ahead waits for its first turn."""
        self._wait(_held(row))

    def _wait(self, held: Held) -> None:
        # one that died meanwhile is found dead when its turn comes
        with contextlib.suppress(VmStorageError):
            self.put_by(held.row)
        self.waiting[held.row.config] = held

    def make_room(self, config: StorageConfig) -> None:
        """Let waiting rows go until that cell's guest and its disk, written in full, fit beside those that wait.

        A machine's disk is for one cell at a time, whatever room there is.
        """
        for one in [one for one in self.waiting if one.is_machine and one.backing == config.backing]:
            self.let_go(self.waiting.pop(one).row)
        while self.waiting and not self._has_room((config,)):
            self.let_one_go()

    def ahead(
        self, config: StorageConfig, most: int, is_alike: Callable[[StorageConfig], bool] = lambda _one: True
    ) -> list[StorageConfig]:
        """Up to so many cells whose turns come next, and whose guests there is room for beside all and that cell's.

        Among the next few, cells for which `is_alike` holds come first: their guests take as long to make.
        """
        there = {config, *self.waiting}
        next_ones = (one for one in dict.fromkeys(self.upcoming) if one not in there and one.has_guest)
        next_few = list(itertools.islice(filter(_may_wait, next_ones), most * AHEAD))
        found = sorted(next_few, key=lambda one: not is_alike(one))[:most]
        while found and not self._has_room((config, *found)):
            found.pop()
        return found

    def let_one_go(self) -> bool:
        """Let the waiting row go whose turn is farthest; False where none waits."""
        if not self.waiting:
            return False
        places = {one: n for n, one in reversed(list(enumerate(self.upcoming)))}
        last = max(self.waiting, key=lambda one: places.get(one, len(self.upcoming)))
        self.let_go(self.waiting.pop(last).row)
        self.room.settle()
        return True

    def _has_room(self, configs: Sequence[StorageConfig]) -> bool:
        """Whether guests of these cells and their disks, written in full, fit beside those that wait.

        What was let go may take room until it is gone: nobody waits for that where there is enough without it.
        """
        if not any(map(_takes_room, configs)) or self._fits(configs):
            return True
        self.room.settle()
        return self._fits(configs)

    def _fits(self, configs: Sequence[StorageConfig]) -> bool:
        spare = self.room.spare_memory_bytes()
        memory = sum(one.memory for one in configs if one.has_guest)
        needed = sum(map(folder_bytes, (*configs, *self.waiting)))
        return (spare is None or spare >= memory) and self.room.folder_room_bytes() >= needed

    def drop(self) -> None:
        """Let the row at work go."""
        held, self.current = self.current, None
        if held is not None:
            self.let_go(held.row)

    def drop_all(self) -> None:
        """Let all go, the one at work first."""
        self.drop()
        while self.waiting:
            self.let_go(self.waiting.popitem()[1].row)


def _may_wait(config: StorageConfig) -> bool:
    """Whether the cell's disk can be there while other cells are measured: a listed device is for one at a time."""
    return not needs_block(config)


def _takes_room(config: StorageConfig) -> bool:
    """Whether the host has anything of the cell: a machine that the plugin did not make is elsewhere."""
    return not config.is_machine


def _call_back(row: Row) -> None:
    # one that died while it waited is found dead by who asks for it
    if not isinstance(row, Native):
        with contextlib.suppress(VmStorageError):
            row.machine.domain.resume()


def _held(row: Row) -> Held:
    """The row with what is written so far of what there is for workloads: the disk, or the test file in its guest.

    Nothing is, but what the host wrote before the guest began.
    """
    made = row.file_system if isinstance(row, Guest) else None
    filled = row.machine.host_disk.filled_bytes if isinstance(row, Guest) else 0
    size = made.size_bytes if made is not None else row.config.size
    return Held(row, Regions(size, written_bytes=filled, filled_on_host_bytes=filled))

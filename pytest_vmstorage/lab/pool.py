"""The environments of a lab, from making to release: one is at work, others wait paused for their next round."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.guest.guest import Guest
from pytest_vmstorage.measure.system import SystemUnderTest
from pytest_vmstorage.storage.block import needs_block
from pytest_vmstorage.storage.disk import folder_bytes

AHEAD = 8
"""Number of next cells considered for each guest that is made ahead; later ones would wait paused for longer."""


class Environment(SystemUnderTest, Protocol):
    """A system under test that a lab made, with all that the lab does to it until its release."""

    @property
    def is_emulated(self) -> bool:
        """Whether its processors are emulated: then filling its disk loads them rather than the disk."""

    def check_tool(self, tool: str) -> None:
        """Raise UnsupportedError where a workload's tool is missing."""

    def is_alive(self) -> bool:
        """Whether the environment can still be measured."""

    def pause(self) -> None:
        """Stop its processors and write back its data, so that it disturbs no other measurement.

        Caches are not dropped: that is a step before each round, which the user may leave out.
        """

    def resume(self) -> None:
        """Continue after `pause`."""

    def kill(self) -> None:
        """End at once whatever runs in the environment."""

    def release(self) -> None:
        """Begin to remove whatever was made for the environment."""

    def explain(self, error: VmStorageError) -> VmStorageError:
        """The error with its name and with the evidence that can still be gathered."""

    @property
    def guest(self) -> Guest | None:
        """The guest, None where there is none."""

    @property
    def commands_run(self) -> int:
        """The number of commands that tests ran in the environment; those of measurements are not counted."""

    @property
    def fixture_value(self) -> Any:
        """Value of the fixture `guest`: the guest, or the environment in its place."""


class FreeRoom(Protocol):
    """Room that a host has left for waiting guests, in bytes."""

    def spare_memory_bytes(self) -> int | None:
        """Memory that further guests may take; None where the host does not say."""

    def folder_room_bytes(self) -> int:
        """Bytes that are free in the run's folder plus those that its disks take already."""

    def settle(self) -> None:
        """Wait until released environments are gone."""


@dataclass
class GuestPool:
    """Holds the environments, and is the only one to pause, resume and release them.

    `upcoming` are the cells of the next rounds, in that order: an environment whose cell is not among them is
    released as soon as another cell's turn comes.
    """

    room: FreeRoom
    upcoming: Sequence[StorageConfig] = ()
    current: Environment | None = None
    waiting: dict[StorageConfig, Environment] = field(default_factory=dict)

    def expect(self, upcoming: Sequence[StorageConfig]) -> None:
        """Replace the upcoming turns; waiting environments of other cells are released."""
        self.upcoming, there = upcoming, set(upcoming)
        for config in [one for one in self.waiting if one not in there]:
            self.waiting.pop(config).release()

    def turn_to(self, config: StorageConfig) -> Environment | None:
        """The environment of that cell, at work; None where there is none, and nothing is at work then."""
        self.leave(config)
        if self.current is None and config in self.waiting:
            self.current = self.waiting.pop(config)
            # the caller finds an environment that died while it waited
            with contextlib.suppress(VmStorageError):
                self.current.resume()
        return self.current

    def held(self, config: StorageConfig) -> Environment | None:
        """The environment of that cell, at work or waiting; None where there is none."""
        if self.current is not None and self.current.config == config:
            return self.current
        return self.waiting.get(config)

    def leave(self, config: StorageConfig) -> None:
        """Pause the environment at work, or release it, unless it is that cell's."""
        if self.current is None or self.current.config == config:
            return
        left, self.current = self.current, None
        if left.config in self.upcoming and _may_wait(left.config):
            self.wait(left)
        else:
            left.release()

    def wait(self, environment: Environment) -> None:
        """Pause an environment until its turn, also its first one."""
        # an environment that died meanwhile is found dead at its turn
        with contextlib.suppress(VmStorageError):
            environment.pause()
        self.waiting[environment.config] = environment

    def make_room(self, config: StorageConfig) -> None:
        """Release waiting environments until that cell's guest and its full disk fit next to the rest.

        A machine's disk serves one cell at a time, whatever room there is.
        """
        for one in [one for one in self.waiting if one.is_machine and one.backing == config.backing]:
            self.waiting.pop(one).release()
        while self.waiting and not self._has_room((config,)):
            self.let_one_go()

    def ahead(
        self, config: StorageConfig, most: int, is_alike: Callable[[StorageConfig], bool] = lambda _one: True
    ) -> list[StorageConfig]:
        """Up to `most` cells whose turns come next and whose guests fit next to that cell's and all waiting ones.

        Among the next few, cells for which `is_alike` holds come first: their guests take about as long to make.
        """
        there = {config, *self.waiting}
        next_ones = (one for one in dict.fromkeys(self.upcoming) if one not in there and one.has_guest)
        next_few = list(itertools.islice(filter(_may_wait, next_ones), most * AHEAD))
        found = sorted(next_few, key=lambda one: not is_alike(one))[:most]
        while found and not self._has_room((config, *found)):
            found.pop()
        return found

    def let_one_go(self) -> bool:
        """Release the waiting environment whose turn is farthest; False where none waits."""
        if not self.waiting:
            return False
        places = {one: n for n, one in reversed(list(enumerate(self.upcoming)))}
        last = max(self.waiting, key=lambda one: places.get(one, len(self.upcoming)))
        self.waiting.pop(last).release()
        self.room.settle()
        return True

    def _has_room(self, configs: Sequence[StorageConfig]) -> bool:
        """Whether guests of these cells and their full disks fit next to those that wait.

        Released environments take room until they are gone; they are waited for only where the room is needed.
        """
        # a machine that the plugin did not make takes no room on the host
        if all(one.is_machine for one in configs) or self._fits(configs):
            return True
        self.room.settle()
        return self._fits(configs)

    def _fits(self, configs: Sequence[StorageConfig]) -> bool:
        spare = self.room.spare_memory_bytes()
        memory = sum(one.memory for one in configs if one.has_guest)
        needed = sum(map(folder_bytes, (*configs, *self.waiting)))
        return (spare is None or spare >= memory) and self.room.folder_room_bytes() >= needed

    def drop(self) -> None:
        """Release the environment at work."""
        dropped, self.current = self.current, None
        if dropped is not None:
            dropped.release()

    def drop_all(self) -> None:
        """Release all environments, first the one at work."""
        self.drop()
        while self.waiting:
            self.waiting.popitem()[1].release()


def _may_wait(config: StorageConfig) -> bool:
    """Whether the cell's disk can be there while other cells are measured: a listed device is for one at a time."""
    return not needs_block(config)

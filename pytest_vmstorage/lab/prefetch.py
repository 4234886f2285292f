"""Guests that wait for their first turn: made, and prepared like the guest at work, before their turn comes."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.guest.guest import Guest
from pytest_vmstorage.guest.restore.restoring import Restoring
from pytest_vmstorage.lab.observer import HostObserver
from pytest_vmstorage.lab.pool import GuestPool, Held, Row
from pytest_vmstorage.lab.systems import SystemsUnderTest
from pytest_vmstorage.measure.system import SystemUnderTest
from pytest_vmstorage.results.spans import span
from pytest_vmstorage.storage.fill import may_be_filled

Here = TypeVar("Here")
There = TypeVar("There")


def make_beside(
    here: Callable[[], Here],
    ahead: Mapping[StorageConfig, Callable[[], There]],
    *,
    take: Callable[[StorageConfig, Callable[[], There]], None],
    restoring: Restoring | None,
) -> Here:
    """What `here` makes or raises, once those `ahead` are made as well, each in a thread.

    `take` gets each of them in the end, as what returns or raises what it came to. After Ctrl-C nobody waits until
    they are saved or restored.
    """
    if restoring is not None:
        restoring.go_on()
    with ThreadPoolExecutor(max(1, len(ahead)), thread_name_prefix="vmstorage-boot") as workers:
        others = {config: workers.submit(make) for config, make in ahead.items()}
        try:
            with _stopping(restoring):
                return here()
        finally:
            with _stopping(restoring), span("beside"):
                for config, other in others.items():
                    take(config, other.result)


@contextmanager
def _stopping(restoring: Restoring | None) -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if restoring is not None:
            restoring.stop()
        raise


class Prefetch:
    """The guest at work and those that wait: in cells that are `alike`, the first test is to need what this one needs.

    So it is where guests are emulated: there filling a disk takes its guest's processor, and a host has several. Under
    KVM it takes the disk, and each is filled alone, right before its rounds.
    """

    def __init__(self, rows: GuestPool, looks: HostObserver, subjects: SystemsUnderTest, *, is_emulated: bool) -> None:
        self.alike: Collection[StorageConfig] = ()
        self._needs: dict[StorageConfig, int] = {}
        self._rows = rows
        self._looks = looks
        self._subjects = subjects
        self._is_emulated = is_emulated

    def subject(self, row: Row) -> SystemUnderTest:
        """The row at work as the runner sees it; what was written to its disk is remembered as long as it lives."""
        held = self._rows.current
        assert held is not None, f"{row.config} is not at work"
        assert held.row is row, f"{row.config} is not at work"
        made = self._subjects.of(row, held.regions)
        # the host itself is not emulated, nor are its figures
        is_emulated = self._is_emulated and isinstance(row, Guest)
        if not is_emulated:
            return made
        return dataclasses.replace(made, alongside=self._alongside, note_need=partial(self._note_need, row.config))

    def fill_bytes(self, config: StorageConfig) -> int:
        """Up to which byte that cell's disk is to be written when it is made, 0 where that is left to its guest.

        What its first test needs is known from the same test in a cell that came before, or from its own first guest.
        """
        return self._needs.get(config, 0) if may_be_filled(config) else 0

    def _note_need(self, config: StorageConfig, end: int) -> None:
        for one in (config, *self.alike):
            # a need that ends with this disk may be of all of a disk, whatever its size
            if one.size == config.size or end < min(one.size, config.size):
                # later tests may need more: their cell's next guest is to meet the first one with as much as this one
                self._needs.setdefault(one, end)

    @contextmanager
    def _alongside(self, do: Callable[[SystemUnderTest], None]) -> Iterator[None]:
        """While this is entered, do that to those that wait, each in a thread; they wait again at its end.

        What fails there is tried again when its turn comes, and told then.
        """
        waiting = [
            (held.row, held)
            for config, held in self._rows.waiting.items()
            if config in self.alike and not held.regions.written_bytes and isinstance(held.row, Guest)
        ]
        with ThreadPoolExecutor(max(1, len(waiting)), thread_name_prefix="vmstorage-beside") as workers:
            done = [workers.submit(self._do, row, held, do) for row, held in waiting]
            try:
                yield
            except (KeyboardInterrupt, SystemExit):
                # nobody waits for them any more
                for row, _ in waiting:
                    with contextlib.suppress(VmStorageError):
                        row.machine.domain.destroy()
                raise
        for one in done:
            one.result()

    def _do(self, row: Guest, held: Held, do: Callable[[SystemUnderTest], None]) -> None:
        with contextlib.suppress(VmStorageError):
            row.machine.domain.resume()
            try:
                do(self._subjects.of(row, held.regions))
            finally:
                self._looks.put_by(row)

"""Guests that wait for their first turn: made and prepared in advance, at the same time as the guest at work."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.guest.restore.restoring import Restoring
from pytest_vmstorage.lab.pool import Environment, GuestPool
from pytest_vmstorage.measure.system import SystemUnderTest
from pytest_vmstorage.results.spans import span
from pytest_vmstorage.storage.fill import may_be_filled

Here = TypeVar("Here")
There = TypeVar("There")


def make_in_parallel(
    here: Callable[[], Here],
    ahead: Mapping[StorageConfig, Callable[[], There]],
    *,
    take: Callable[[StorageConfig, Callable[[], There]], None],
    restoring: Restoring | None,
) -> Here:
    """Make guests `ahead`, each in a thread, while `here` runs; returns or raises the outcome of `here`.

    In the end `take` gets a function for each guest ahead that returns it or raises its error. After Ctrl-C guests
    are not waited for until they are saved or restored.
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
    """Prepares waiting guests like the guest at work: cells that are `alike` begin with the same test.

    For emulated guests only: there filling a disk loads the guest's processor, and the host has several. Under KVM it
    loads the disk, so each disk is filled alone, right before its rounds.
    """

    def __init__(self, pool: GuestPool) -> None:
        self.alike: Collection[StorageConfig] = ()
        self._needs: dict[StorageConfig, int] = {}
        self._pool = pool

    def fill_bytes(self, config: StorageConfig) -> int:
        """The byte up to which that cell's disk is written when it is made, 0 where its guest fills it.

        The need of its first test is known from the same test in a cell that came before, or from its own first guest.
        """
        return self._needs.get(config, 0) if may_be_filled(config) else 0

    def still_to_be_made(self, config: StorageConfig) -> list[StorageConfig]:
        """The cells alike that have no guest yet; `config` is that of the guest at work, or of one that waits."""
        return [one for one in self.alike if one != config and self._pool.held(one) is None]

    def note_need(self, config: StorageConfig, end: int) -> None:
        """Learn the byte up to which that cell's first test, and that of cells alike, has its disk filled."""
        for one in (config, *self.alike):
            # a need that ends with this disk may be of all of a disk, whatever its size
            if one.size == config.size or end < min(one.size, config.size):
                # later tests may need more: their cell's next guest is to meet the first one with as much as this one
                self._needs.setdefault(one, end)

    @contextmanager
    def alongside(self, prepare: Callable[[SystemUnderTest], None]) -> Iterator[None]:
        """Prepare, each in a thread, the waiting guests of cells alike; they are paused again when the context ends.

        A preparation that fails is tried again in its guest's own turn, which then reports the error.
        """
        waiting = [
            one
            for config, one in self._pool.waiting.items()
            if config in self.alike and one.is_emulated and not one.regions.written_bytes
        ]
        with ThreadPoolExecutor(max(1, len(waiting)), thread_name_prefix="vmstorage-beside") as workers:
            done = [workers.submit(_prepare, one, prepare) for one in waiting]
            try:
                yield
            except (KeyboardInterrupt, SystemExit):
                # the run ends: the threads are not waited for
                for one in waiting:
                    with contextlib.suppress(VmStorageError):
                        one.kill()
                raise
        for future in done:
            future.result()


def _prepare(environment: Environment, prepare: Callable[[SystemUnderTest], None]) -> None:
    with contextlib.suppress(VmStorageError):
        environment.resume()
        try:
            prepare(environment)
        finally:
            environment.pause()

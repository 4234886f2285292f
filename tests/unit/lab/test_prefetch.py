"""Guests that are made beside the one that is wanted now."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import cast

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.guest.restore.restoring import Restoring
from pytest_vmstorage.lab.prefetch import make_beside

A, B = (StorageConfig(format=kind) for kind in ("raw", "qcow2"))


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
        return make_beside(here, {B: self.wait}, take=take, restoring=cast("Restoring", self))


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

    made = make_beside(lambda: met.wait(60) >= 0, {B: lambda: met.wait(60) >= 0}, take=take, restoring=None)
    assert (made, taken) == (True, [(B, True)])
    with pytest.raises(LookupError, match="no disk"):
        make_beside(fail, {A: lambda: met.wait(60) >= 0}, take=take, restoring=None)
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

"""The time that the rounds ahead take: windows as workloads state them or as they were, and all that lies between."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.results.journal import GUEST_S

BETWEEN_S = 0.5
"""Assumed between two rounds until the first was seen: caches are dropped, the host is looked at."""


class Ahead(NamedTuple):
    """Rounds of a workload that a test is still to take in its cell.

    `expected_s` is the window that the workload states; `warmup` are rounds before the first one.
    """

    cell: StorageConfig
    workload: str
    rounds: int
    warmup: int
    expected_s: float


class TimeLeft:
    """What the rounds of this process took so far, and by that what others will take.

    A round costs the tool's window, and the time since the round before it. That is long before the first round in a
    cell, whose guest and disk are made then, and short before each other one.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._cell: StorageConfig | None = None
        self._windows: dict[str, list[float]] = {}
        self._between: dict[bool, list[float]] = {True: [], False: []}
        self._known: set[StorageConfig] = set()
        self.done = 0

    def begin(self, cell: StorageConfig) -> None:
        """A test begins to work in that cell."""
        if cell != self._cell:
            self._cell, self._since = cell, self._clock()

    def end(self) -> None:
        """The next work begins anew, also where it is in the same cell."""
        self._cell = None

    def took(self, ahead: Ahead, seconds: float) -> None:
        """A round took so long; `ahead` is how it was foreseen, with the warm-ups that came before it."""
        now = self._clock()
        self._windows.setdefault(ahead.workload, []).append(seconds)
        spent = now - self._since - seconds - ahead.warmup * self._window(ahead)
        self._between[ahead.cell not in self._known].append(max(0.0, spent))
        self._known.add(ahead.cell)
        self._since = now
        self.done += 1

    def seconds(self, ahead: Iterable[Ahead]) -> float:
        """The seconds that these rounds will take, from now on."""
        rounds = [one for one in ahead if one.rounds > 0]
        new = {one.cell for one in rounds} - self._known
        first_s, other_s = self._mean(is_first=True), self._mean(is_first=False)
        whole_s = sum(
            one.rounds * (self._window(one) + other_s) + one.warmup * self._window(one) for one in rounds
        ) + len(new) * (first_s - other_s)
        here = [one for one in rounds if one.cell == self._cell]
        if not here:
            return whole_s
        one = here[0]
        at_hand_s = (1 + one.warmup) * self._window(one) + (first_s if one.cell in new else other_s)
        # what takes longer than foreseen is about to end
        return whole_s - min(self._clock() - self._since, at_hand_s)

    def _window(self, ahead: Ahead) -> float:
        seen = self._windows.get(ahead.workload)
        return statistics.fmean(seen) if seen else ahead.expected_s

    def _mean(self, *, is_first: bool) -> float:
        seen = self._between[is_first]
        return statistics.fmean(seen) if seen else GUEST_S if is_first else BETWEEN_S

"""Worlds of noise for `gate_simulation.py`: what a cell's next run has, as log(seconds per operation).

    iid       every run for itself
    boot      and each guest has an effect of its own, of the same size; every run is in a fresh guest
    drift     and each day has one, and the host drifts within the day (AR(1), 0.95 from run to run)
    outliers  iid, and one run in twenty takes twice as long
    real NAME recorded runs of real guests, of data/noise-NAME.json: each cell is one of the recorded jobs, a pair is
              two of its runs in a row, in either order, drawn with replacement

In the first four `cv` is the standard deviation of each source, so that a run of boot has 1.4 times as much.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache

from recorded_noise import pair_spread, recordings

DRAWN = ("iid", "boot", "drift", "outliers")
STAYS = 0.95
"""How much of the host's drift is left from one run to the next."""

Pair = tuple[float, float]


class Noise(ABC):
    """One cell's noise: what its next runs have, in the order in which they are asked for."""

    @abstractmethod
    def new_day(self) -> None:
        """The host on another day."""

    @abstractmethod
    def rounds(self, count: int) -> list[float]:
        """So many rounds in a row, as a test that runs in one guest has them."""

    @abstractmethod
    def pairs(self, count: int, slower: float) -> list[Pair]:
        """So many runs before and after, each in a fresh guest, `after` slower by that shift."""


class Drawn(Noise):
    """One of the worlds that are drawn from distributions."""

    def __init__(self, world: str, cv: float, draw: random.Random) -> None:
        self.world, self.cv, self.draw = world, cv, draw
        self.new_day()

    def new_day(self) -> None:
        """Also another place in the host's drift."""
        self.day = self.draw.gauss(0, self.cv) if self.world == "drift" else 0.0
        self.drift = self.draw.gauss(0, self.cv) if self.world == "drift" else 0.0

    def rounds(self, count: int) -> list[float]:
        """In one fresh guest."""
        guest = self._new_guest()
        return [guest + self._round() for _ in range(count)]

    def run(self) -> float:
        """One run in a fresh guest."""
        return self._new_guest() + self._round()

    def pairs(self, count: int, slower: float) -> list[Pair]:
        """In the order ABBA."""
        found = []
        for place in range(count):
            first, second = self.run(), self.run()
            before, after = (second, first) if place % 2 else (first, second)
            found.append((before, after + slower))
        return found

    def _new_guest(self) -> float:
        return self.draw.gauss(0, self.cv) if self.world == "boot" else 0.0

    def _round(self) -> float:
        own = self.draw.gauss(0, self.cv)
        if self.world == "drift":
            self.drift = STAYS * self.drift + self.draw.gauss(0, self.cv * math.sqrt(1 - STAYS**2))
            return own + self.day + self.drift
        if self.world == "outliers" and self.draw.random() < 0.05:
            return own + math.log(2)
        return own


class Recorded(Noise):
    """A recorded job's runs; no two rounds of it were in one guest, and all were on one day."""

    def __init__(self, world: str, draw: random.Random) -> None:
        self.draw, self.runs = draw, draw.choice(recorded()[world])

    def new_day(self) -> None:
        """There is no other day."""

    def rounds(self, count: int) -> list[float]:
        """So many runs in a row, from anywhere in the recording."""
        begin = self.draw.randrange(len(self.runs) - count + 1)
        return list(self.runs[begin : begin + count])

    def pairs(self, count: int, slower: float) -> list[Pair]:
        """Two runs in a row each, in either order, drawn with replacement."""
        found = []
        for _ in range(count):
            place, turned = self.draw.randrange(len(self.runs) - 1), self.draw.random() < 0.5
            one, other = self.runs[place : place + 2]
            before, after = (other, one) if turned else (one, other)
            found.append((before, after + slower))
        return found


@lru_cache(maxsize=1)
def recorded() -> Mapping[str, Sequence[Sequence[float]]]:
    """By world: log(seconds per operation) of each recorded job's runs, in the order in which they were run."""
    return {f"real {name}": [job.logs for job in recording.jobs] for name, recording in recordings().items()}


def cvs(world: str, asked: Sequence[float]) -> Sequence[float]:
    """At which cv a world is simulated: a recorded one has its own, by what two runs in a row differ."""
    return asked if world in DRAWN else [round(pair_spread(recorded()[world]), 4)]


def noise(world: str, cv: float, draw: random.Random) -> Noise:
    """A cell of that world."""
    return Drawn(world, cv, draw) if world in DRAWN else Recorded(world, draw)

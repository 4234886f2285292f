"""How large the studies are run here: STUDY=quick (the default, minutes) or STUDY=published (their own sizes).

ROUNDS=8 measures that often, where a study measured once or twice: what it found is asserted between its cells, and
that is INCONCLUSIVE, a skip with the reason, with fewer rounds than an interval takes.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from pytest_vmstorage.errors import ConfigError


class Preset(NamedTuple):
    """Sizes of one way to run a study: disk, files for small and large blocks, and seconds (0: until all is moved)."""

    disk: str
    small: str
    large: str
    seconds: float = 0.0

    @property
    def runtime(self) -> dict[str, object]:
        """fio's options for the time, or none where its size decides."""
        return {"runtime": self.seconds, "time_based": True} if self.seconds else {}


def choose(**presets: Preset) -> Preset:
    """The preset that STUDY names."""
    name = os.environ.get("STUDY", "quick")
    if name not in presets:
        raise ConfigError(f"STUDY={name} is not known.", hint=f"It is one of: {', '.join(presets)}.")
    return presets[name]


ROUNDS = os.environ.get("ROUNDS", "")
if ROUNDS and not (ROUNDS.isdecimal() and int(ROUNDS)):
    raise ConfigError(f"ROUNDS={ROUNDS} is not a number of rounds.", hint="Write 1 or more.")


def rounds(of_the_study: int) -> int:
    """How many rounds: those that ROUNDS says, or as many as the study had."""
    return int(ROUNDS) if ROUNDS else of_the_study


def swept(marks: Sequence[pytest.MarkDecorator]) -> Callable[[Any], Any]:
    """A decorator for tests that are run in all cells of these marks; other tests of the file are not."""

    def sweep(test: Any) -> Any:
        for mark in marks:
            test = mark(test)
        return test

    return sweep

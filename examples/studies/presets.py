"""How large the studies are run here: STUDY=quick (the default, minutes) or STUDY=published (their own sizes).

ROUNDS=8 measures that often, where a study measured once or twice: what it found is asserted between its cells, and
that is INCONCLUSIVE, a skip with the reason, with fewer rounds than an interval takes. docs/studies has a table of
all findings, with what was printed, the test that judges each, or why none can.
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


NAME = os.environ.get("STUDY", "quick")


def choose(**presets: Preset) -> Preset:
    """The preset that STUDY names."""
    if NAME not in presets:
        raise ConfigError(f"STUDY={NAME} is not known.", hint=f"It is one of: {', '.join(presets)}.")
    return presets[NAME]


def differs(always: str, otherwise: str = "") -> pytest.MarkDecorator:
    """What of a row is not the study's, to stand with it in each report; `otherwise` with STUDY=published alone not."""
    said = [always, *([f"STUDY={NAME}: {otherwise}"] if otherwise and NAME != "published" else [])]
    return pytest.mark.storage_note(f"differs from the study: {'; '.join(part for part in said if part)}")


ALIKE = {"at_least": 0.9, "at_most": 1.1}
"""What "alike", "nearly" and "about" are taken for: no study says how much its figures scattered."""


def half_the_gain(more: float, less: float) -> float:
    """The bound for a finding of two printed figures: half of what one is faster by. Of 950 and 200 it is 2.875."""
    return round((1 + more / less) / 2, 3)


def one_of(variable: str, default: str, *others: str) -> str:
    """What that variable says, one of a few words."""
    word = os.environ.get(variable, default)
    if word not in (default, *others):
        raise ConfigError(f"{variable}={word} is not known.", hint=f"It is one of: {', '.join((default, *others))}.")
    return word


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

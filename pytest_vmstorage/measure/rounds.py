"""Rules for the number of rounds: a fixed number, or as many as the figure needs; pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.results.run import Ending
from pytest_vmstorage.stats import median_interval
from pytest_vmstorage.text import quoted

LEAST_AUTO_ROUNDS = 6
"""The least rounds whose median has a 95 % interval."""


class Rounds(BaseModel):
    """A rule for the number of rounds: `count`, or where that is None as many as the figure needs.

    As many means: until the 95 % interval of the primary figure's median lies within `precision` (a fraction) of the
    median on either side, which is looked at from the `first` rounds on, or until the rounds have taken `limit_s`
    seconds.
    """

    model_config = ConfigDict(frozen=True)

    count: int | None = 3
    precision: float = 0.05
    limit_s: float = 300.0
    first: int = LEAST_AUTO_ROUNDS

    @property
    def least(self) -> int:
        """The least number of rounds, unless the time limit comes before."""
        return self.first if self.count is None else self.count

    def beginning_with(self, rounds: int) -> Rounds:
        """The same rule, where as many rounds as are needed begin with so many, if these are more than the least."""
        return self.model_copy(update={"first": max(self.first, rounds)})

    def ended(self, values: Sequence[float], seconds: float, *, has_room: bool = True) -> Ending | None:
        """The reason to end, None while a further round is wanted; `seconds` is the time of the rounds so far.

        Without `has_room` a further round would find no untouched blocks.
        """
        if self.count is not None:
            return Ending(reason="count") if len(values) >= self.count else None
        half = half_width(values)
        if half is not None and half <= self.precision and len(values) >= self.first:
            return Ending(reason="narrow", half_width=half)
        if values and seconds >= self.limit_s:
            return Ending(reason="time limit", half_width=half)
        return None if has_room or not values else Ending(reason="no room", half_width=half)


def check_counts(by: str, rounds: object, warmup: object) -> None:
    """Raise ConfigError for numbers of rounds and warm-up rounds that cannot be; `by` names what they were given to."""
    for name, given, least in (("rounds", rounds, 1), ("warmup", warmup, 0)):
        if given is None and name == "rounds":
            continue
        if not isinstance(given, int) or isinstance(given, bool):
            raise ConfigError(
                f"{by}({name}={quoted(given)}) is not a number of rounds.", hint=f"Write {name}=3.", code="VM318"
            )
        if given < least:
            raise ConfigError(
                f"{by}({name}={given}): {name} must be {least} or more.",
                hint=f"Write {name}={max(least, 1)}.",
                code="VM318",
            )


def half_width(values: Sequence[float]) -> float | None:
    """The larger distance of the interval's bounds from the median, as a fraction of it; None without an interval."""
    found = median_interval(values)
    if found is None:
        return None
    median = statistics.median(values)
    if not median:
        return 0.0 if found.low == found.high else None
    return max(median - found.low, found.high - median) / abs(median)

"""Within which bounds a ratio of speeds is to lie, and what an interval says of it; pure."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.stats import Interval

ROUNDING = 1e-9
"""A ratio of just the bound keeps it, whatever binary fractions make of its logarithm."""


class Outcome(StrEnum):
    """What an assertion came to: all of the interval keeps the bounds, all of it breaks one, or neither."""

    HOLDS = "HOLDS"
    FAILS = "FAILS"
    INCONCLUSIVE = "INCONCLUSIVE"


class Bounds(BaseModel):
    """Within which a ratio of speeds is to lie; either may be None. Raises ConfigError where none or nothing can."""

    model_config = ConfigDict(frozen=True)

    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _can_be_kept(self) -> Self:
        given = [bound for bound in (self.at_least, self.at_most) if bound is not None]
        if not given:
            raise ConfigError("a ratio needs a bound.", hint="Write at_least=0.9, at_most=1.1, or both.")
        if not all(0 < bound < math.inf for bound in given):
            raise ConfigError(
                f"a ratio of speeds is above 0, and a bound is {min(given):g}.", hint="Write at_least=0.9."
            )
        if given != sorted(given):
            raise ConfigError(
                f"no ratio is at least {self.at_least:g} and at most {self.at_most:g}.", hint="Swap the bounds."
            )
        return self

    def outcome(self, interval: Interval) -> Outcome:
        """What an interval of logarithms says."""
        low, high = self._logs
        if low - ROUNDING <= interval.low and interval.high <= high + ROUNDING:
            return Outcome.HOLDS
        is_broken = interval.high < low - ROUNDING or high + ROUNDING < interval.low
        return Outcome.FAILS if is_broken else Outcome.INCONCLUSIVE

    def distance(self, shift: float) -> float:
        """How far a logarithm lies from the nearest bound, on either side of it."""
        return min(abs(shift - bound) for bound in self._logs if math.isfinite(bound))

    @property
    def _logs(self) -> tuple[float, float]:
        low = -math.inf if self.at_least is None else math.log(self.at_least)
        return low, math.inf if self.at_most is None else math.log(self.at_most)

    def __str__(self) -> str:
        said = [f"at least {self.at_least:g}"] if self.at_least is not None else []
        said += [f"at most {self.at_most:g}"] if self.at_most is not None else []
        return " and ".join(said)

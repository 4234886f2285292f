"""Whether the rounds of a measurement were in a steady state, by the rule of the SNIA; pure.

Source: the SNIA's Solid State Storage Performance Test Specification, "steady state": over a measurement window of five
rounds the figure's range is at most 20 % of its mean, and the least-squares line through it rises or falls by at most
10 % of its mean from the window's first round to its last. fio's examples/example_latency_steadystate.fio states the
same two limits. The window here is all the rounds there are.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

ROUNDS = 5
"""Fewer rounds are not judged."""

RANGE = 0.20
SLOPE = 0.10
# the limits themselves are within them, also where a float cannot hold them
_EXACT = 1e-9


class Steadiness(BaseModel):
    """How far rounds went apart, as fractions of their mean: largest less smallest, and end of the line less start.

    None where there are too few rounds to judge, where their mean is 0, or where nothing was to be judged, for `why`.
    """

    model_config = ConfigDict(frozen=True)

    rounds: int
    range: float | None = None
    slope: float | None = None
    why: str = ""

    @property
    def is_judged(self) -> bool:
        """Whether there were enough rounds."""
        return self.range is not None

    @property
    def is_steady(self) -> bool:
        """Whether both are within their limits; False where nothing was judged."""
        return self.is_judged and self._is_near and self._is_level

    @property
    def _is_near(self) -> bool:
        return self.range is not None and self.range <= RANGE + _EXACT

    @property
    def _is_level(self) -> bool:
        return self.slope is not None and abs(self.slope) <= SLOPE + _EXACT

    def __str__(self) -> str:
        if self.range is None or self.slope is None:
            return f"not judged ({self.why or f'{self.rounds} round' + 's' * (self.rounds != 1)})"
        if self.is_steady:
            said = (
                f"range {self.range:.1%} of the mean (limit {RANGE:.0%}), slope {self.slope:+.1%} (limit {SLOPE:.0%})"
            )
            return f"steady over {self.rounds} rounds: {said}"
        over = [f"a range of {self.range:.1%} of the mean is over the limit of {RANGE:.0%}"] * (not self._is_near)
        over += [f"a slope of {self.slope:+.1%} is over the limit of {SLOPE:.0%}"] * (not self._is_level)
        return f"not steady over {self.rounds} rounds: {' and '.join(over)}"


def steadiness(figures: Sequence[float]) -> Steadiness:
    """Judge a figure of each round, in the order measured."""
    rounds = len(figures)
    mean = statistics.fmean(figures) if figures else 0.0
    if rounds < ROUNDS or not mean:
        return Steadiness(rounds=rounds)
    line = statistics.linear_regression(range(rounds), figures)
    return Steadiness(
        rounds=rounds,
        range=(max(figures) - min(figures)) / abs(mean),
        slope=line.slope * (rounds - 1) / abs(mean),
    )

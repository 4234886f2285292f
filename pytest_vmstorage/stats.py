"""Estimators on plain floats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Interval(NamedTuple):
    """Bounds of an estimate, in the unit of what was estimated."""

    low: float
    high: float


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """The narrowest pair of values, as far from either end, that has the median between them with that confidence.

    None where there are too few values for it: 0.95 takes 6. It assumes independent values and nothing of their
    distribution (the sign test's interval; David and Nagaraja, Order Statistics, 7.1).
    """
    ordered, found = sorted(values), None
    for left_out in range((len(ordered) - 1) // 2 + 1):
        if not ordered or _coverage(len(ordered), left_out) < confidence:
            break
        found = Interval(ordered[left_out], ordered[-1 - left_out])
    return found


def _coverage(count: int, left_out: int) -> float:
    """How probably the median lies inside of what is left without so many values at either end."""
    return 1.0 - 2.0 * sum(math.comb(count, n) for n in range(left_out + 1)) / 2.0**count

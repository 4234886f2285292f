"""A rule: a combination of a cell's fields that cannot be, its reason and the source of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

# A cell is a StorageConfig; the rules lie below it, and read its fields by name.
Cell = Any


class Rule(NamedTuple):
    """What cannot be: `breaks` is true of a cell that breaks it; `reason` is a clause, `source` says who says so."""

    name: str
    breaks: Callable[[Cell], bool]
    reason: str
    source: str


def is_power_of_two(number: int) -> bool:
    """Whether it is 1, 2, 4, 8 and so on."""
    return number > 0 and number & (number - 1) == 0

"""A rule: an impossible combination of a cell's fields, with its reason and source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

# a StorageConfig, which imports the rules: they read its fields by name
Cell = Any


class Rule(NamedTuple):
    """An impossible combination: `breaks` is true of its cells; `reason` is a clause, `source` its authority.

    `code` is that of the refusal.
    """

    name: str
    breaks: Callable[[Cell], bool]
    reason: str
    source: str
    code: str


def is_power_of_two(number: int) -> bool:
    """Whether the number is 1, 2, 4, 8 and so on."""
    return number > 0 and number & (number - 1) == 0

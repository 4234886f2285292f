"""The verdicts there are: what each is called and how it is shown, in one table; a new one is a line and its rule."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple


class Kind(StrEnum):
    """What a comparison found; only REGRESSED turns a test red by itself.

    PASS says that the tolerated loss is excluded, IMPROVED that the cell is faster besides. SUSPECT looks slower and
    was not confirmed. SHOWN is a figure beside the primary one, which nothing is decided about.
    """

    REGRESSED = "REGRESSED"
    SUSPECT = "SUSPECT"
    INVALID = "INVALID"
    INCONCLUSIVE = "INCONCLUSIVE"
    IMPROVED = "IMPROVED"
    PASS = "PASS"  # noqa: S105 (no password: a verdict)
    SHOWN = "SHOWN"

    @property
    def is_decided(self) -> bool:
        """Whether the comparison came to an end: nothing is worse than tolerated, or something surely is."""
        return KINDS[self].is_decided

    @property
    def sign(self) -> str:
        """The mark of a row in Markdown."""
        return KINDS[self].sign


class KindRecord(NamedTuple):
    """How a verdict is shown: `title` of its section in a report, "" without one; `sign` in Markdown.

    A verdict that `is_listed` stands in the table of a pull request, others are folded away below it.
    """

    title: str
    sign: str
    is_decided: bool = False
    is_listed: bool = False


KINDS: Final[Mapping[Kind, KindRecord]] = MappingProxyType(
    {
        Kind.REGRESSED: KindRecord("regressed", "🔴", is_decided=True, is_listed=True),
        Kind.SUSPECT: KindRecord("suspected of a loss", "🟠", is_listed=True),
        Kind.INVALID: KindRecord("invalid figures", "🟠", is_listed=True),
        Kind.INCONCLUSIVE: KindRecord("inconclusive", "⚪"),
        Kind.IMPROVED: KindRecord("improved", "🟢", is_decided=True, is_listed=True),
        Kind.PASS: KindRecord("", "🟢", is_decided=True),
        Kind.SHOWN: KindRecord("", ""),
    }
)
"""From what needs a reader most to what needs him least: the order in which reports count and list them."""

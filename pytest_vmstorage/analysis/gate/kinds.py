"""The verdicts: how each is named, shown and counted, in one table. A new verdict is a line here and its rule."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple


class Kind(StrEnum):
    """The result of a comparison; only REGRESSED turns a test red by itself.

    PASS: the tolerated loss is excluded; IMPROVED: the cell is faster as well. SUSPECT: the cell looks slower, which
    nothing has confirmed. SHOWN: a figure beside the primary one, about which nothing is decided.
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
        """Whether the comparison came to an end: the tolerated loss is excluded, or a loss is sure."""
        return KINDS[self].is_decided

    @property
    def sign(self) -> str:
        """The mark of a row in Markdown."""
        return KINDS[self].sign


class KindRecord(NamedTuple):
    """How reports show a verdict: `title` of its section, "" for none; `sign` in Markdown.

    A pull request's comment has a verdict in its table, or where it is `folded` below the table, under that heading.
    """

    title: str
    sign: str
    is_decided: bool = False
    folded: str = ""


KINDS: Final[Mapping[Kind, KindRecord]] = MappingProxyType(
    {
        Kind.REGRESSED: KindRecord("regressed", "🔴", is_decided=True),
        Kind.SUSPECT: KindRecord("suspected of a loss", "🟠"),
        Kind.INVALID: KindRecord("invalid figures", "🟠"),
        Kind.INCONCLUSIVE: KindRecord("inconclusive", "⚪", folded="inconclusive, and why"),
        Kind.IMPROVED: KindRecord("improved", "🟢", is_decided=True),
        Kind.PASS: KindRecord("", "🟢", is_decided=True, folded="passed"),
        Kind.SHOWN: KindRecord("", ""),
    }
)
"""The most urgent verdict first: the order in which reports count and list them."""

"""Progress reports of long steps: a function that takes one sentence."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]


def silent(_sentence: str) -> None:
    """Report to nobody."""

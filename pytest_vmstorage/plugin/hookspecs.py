"""Hooks that a user's conftest.py or plugin may implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_vmstorage.gate import Comparison
    from pytest_vmstorage.results import Run


@pytest.hookspec
def pytest_vmstorage_report(
    config: pytest.Config, run: Run, comparison: Comparison | None, lines: list[str]
) -> None:
    """Change the report before it is printed: `lines` is the matrix as text, to be added to or replaced in place.

    Called once, on the controller, after the last test. `comparison` is None without a baseline.
    """

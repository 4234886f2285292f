"""The live line's text."""

from __future__ import annotations

import pytest

from pytest_vmstorage.plugin.progress_line import status_line


@pytest.mark.parametrize(
    ("seconds_left", "line"),
    [
        (None, "[1/16 raw-none-ide-off] making disk"),
        (200, "[1/16 raw-none-ide-off] making disk, about 3 min 20 s left"),
        (0.0, "[1/16 raw-none-ide-off] making disk, about 0.0 s left"),
    ],
)
def test_a_line_has_cell_step_count_and_time(seconds_left: float | None, line: str) -> None:
    """Which cell, which step, how many there are; the time only where it can be estimated."""
    assert status_line("raw-none-ide-off", "making disk", 1, 16, seconds_left) == line

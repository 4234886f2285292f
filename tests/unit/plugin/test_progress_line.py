"""The live line's text, of one process and of several."""

from __future__ import annotations

import pytest

from pytest_vmstorage.plugin.progress_line import Shown, status_line, time_words, together

AT = Shown(3, 48, 200, "raw-none-ide-off", "making disk")


def test_a_line_has_rounds_time_cell_and_step() -> None:
    """What matters most comes first: a narrow terminal cuts the end."""
    assert status_line(AT) == "[3/48 rounds, about 3 min 20 s left] raw-none-ide-off: making disk"
    assert status_line(AT._replace(step="")) == ""


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-3, "about 1 s left"), (0.2, "about 1 s left"), (9.6, "about 10 s left"), (62, "about 1 min 02 s left")],
)
def test_the_time_is_in_whole_seconds(seconds: float, words: str) -> None:
    """It is an estimate; something is left as long as the line is there."""
    assert time_words(seconds) == words


def test_several_hosts_work_at_a_time() -> None:
    """Their rounds are counted together, and the run ends with the last of them."""
    other = Shown(5, 10, 20, "raw-none-nvme-off", "booting")
    assert together({"lab01": AT}) == AT
    both = together({"lab01": AT, "lab02": other})
    assert both == Shown(8, 58, 200, "lab02: raw-none-nvme-off", "booting")
    resting = together({"lab01": AT, "lab02": other._replace(step="")})
    assert resting == Shown(8, 58, 200, "lab01: raw-none-ide-off", "making disk")
    assert together({"lab01": AT._replace(step="")}).step == ""

"""The value between the drawings and the page."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from pytest_vmstorage.report.html.chart import Chart


def test_a_chart_is_a_value() -> None:
    """What was drawn is not changed afterwards; equal drawings are equal."""
    chart = Chart(slug="rounds", title="Rounds", svg="<svg/>", csv="round\n", said="No round.")
    assert chart == Chart("rounds", "Rounds", "<svg/>", "round\n", "No round.")
    with pytest.raises(FrozenInstanceError):
        chart.said = "Nothing."  # type: ignore[misc]

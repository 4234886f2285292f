"""The series of rounds as strips at one scale."""

from __future__ import annotations

from pytest_vmstorage.report.html.charts import charts_of
from pytest_vmstorage.results.series import Series
from pytest_vmstorage.testing import make_measurement, make_run


def test_the_steps_of_each_round_are_drawn_and_told() -> None:
    """Rates per second of all steps, warm-up shaded; a measurement without a series has no such chart."""
    m = make_measurement(iops=(100.0, 110.0))
    assert not any("within" in chart.slug for chart in charts_of(make_run(m), [m]))
    series = Series(steps_ms=(500,) * 6, writes=(50, 60, 55, 55, 55, 55), reads=(0,) * 6, warm_up_s=1.0)
    m = m.model_copy(update={"samples": tuple(one.model_copy(update={"series": series}) for one in m.samples)})
    chart = next(chart for chart in charts_of(make_run(m), [m]) if "within" in chart.slug)
    lines = chart.csv.splitlines()
    assert lines[0] == "cell,round,begin [s],end [s],reads and writes [operations/s]"
    assert lines[2].endswith(",1,0.5,1,120")
    assert len(lines) == 1 + 2 * 6
    assert "100 operations/s to 120 operations/s" in chart.said
    assert chart.svg.count("<rect") == 1


def test_a_long_series_is_drawn_in_forty_steps() -> None:
    """Neighbours are taken together by their operations, so that none is lost."""
    series = Series(steps_ms=(500,) * 240, writes=(10, 30) * 120, reads=(0,) * 240)
    m = make_measurement(iops=(100.0,))
    m = m.model_copy(update={"samples": (m.samples[0].model_copy(update={"series": series}),)})
    chart = next(chart for chart in charts_of(make_run(m), [m]) if "within" in chart.slug)
    assert len(chart.csv.splitlines()) == 1 + 40
    assert {line.rpartition(",")[2] for line in chart.csv.splitlines()[1:]} == {"40"}

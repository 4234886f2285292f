"""A history as text and Markdown: charts, spans, and text of strangers."""

from __future__ import annotations

from datetime import date, timedelta

from pytest_vmstorage.analysis.history.history import (
    BaselineHistory,
    Census,
    HistoryDay,
    HistoryFinding,
    HistoryLine,
    HistoryMark,
)
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.history import history_lines, relative_levels, render_markdown_history, sentence
from pytest_vmstorage.testing import make_metric

FIRST = date(2026, 10, 1)


def line(*values: float, metric: str = "iops", host: str = "local", gap: int = -1) -> HistoryLine:
    """A cell with a figure a day, but for one day."""
    days = [
        HistoryDay(day=FIRST + timedelta(place), value=value, low=value, high=value, guests=1)
        for place, value in enumerate(values)
        if place != gap
    ]
    return HistoryLine(
        nodeid="test_disk.py::test_it", workload="fio", config=StorageConfig(), host=host, nth=0,
        metric=make_metric(metric),
        days=tuple(days),
    )  # fmt: skip


def finding(**values: object) -> HistoryFinding:
    """A step after the 5th day of October and on the 7th at the latest."""
    known: dict[str, object] = {
        "kind": "step", "way": "slower", "after": date(2026, 10, 5), "on": date(2026, 10, 7), "change": 0.25,
        "least": 0.2, "most": 0.3, "lines": (0,), "sure": (0,), "where": "all 1 cells", "p": 1e-9,
    }  # fmt: skip
    return HistoryFinding.model_validate(known | values)


def history(
    *findings: HistoryFinding, lines: tuple[HistoryLine, ...], marks: tuple[HistoryMark, ...] = ()
) -> BaselineHistory:
    """A history of these lines."""
    days = sorted({day.day for one in lines for day in one.days})
    return BaselineHistory(
        name="nightly", first=days[0], last=days[-1], days=len(days), lines=lines, findings=findings, marks=marks,
        census=Census(lines=len(lines), judged=len(lines)),
    )  # fmt: skip


def test_a_span_is_told_from_its_first_possible_day_to_its_last() -> None:
    """The 6th or the 7th: the 5th had the old level."""
    said = sentence(finding(), [line(1.0)])
    assert said == "since 2026-10-06 to 2026-10-07: slower, +25 % time per operation, all 1 cells"
    assert sentence(finding(kind="creep"), [line(1.0)]).startswith("creeping from 2026-10-05 to 2026-10-07: slower")
    some = finding(lines=(0, 1), sure=(0,))
    assert "(+20 % to +30 %)" in sentence(some, [line(1.0), line(1.0)])
    assert sentence(some, [line(1.0), line(1.0)]).endswith("(1 of them beyond doubt by themselves)")


def test_columns_are_days_and_gaps_are_gaps() -> None:
    """More IOPS are less time per operation: the column is lower."""
    lines = history_lines(history(finding(), lines=(line(*[1000.0] * 6, *[800.0] * 4, gap=3),)), 80)
    place = lines.index("   ▁▁▁·▁▁████")
    assert lines[place + 1] == "        ^^"
    assert lines[place + 3] == "   ▁ to █: +25 % time per operation"


def test_a_narrow_terminal_shows_the_days_around_the_change() -> None:
    """As many columns as fit, none wider."""
    values = [1000.0] * 150 + [800.0] * 150
    on = FIRST + timedelta(150)
    lines = history_lines(history(finding(after=on - timedelta(1), on=on), lines=(line(*values),)), 60)
    (chart,) = [one.strip() for one in lines if "▁█" in one]
    assert len(chart) == 57
    assert {len(one) <= 60 for one in lines} == {True}


def test_marks_stand_below_their_day() -> None:
    """One letter each, + for several; the letters used are explained."""
    said = ("QEMU was 9.1 and is 9.2 now", "kernel was 6.1 and is 6.2 now", "something else")
    days = [date(2026, 10, day) for day in (2, 2, 4)]
    marks = tuple(
        HistoryMark(host="local", what=what, after=day - timedelta(1), on=day)
        for what, day in zip(said, days, strict=True)
    )
    lines = history_lines(history(finding(), lines=(line(*[1.0] * 8),), marks=marks), 80)
    assert "    + *" in lines
    assert lines[-1] == "marks: k kernel, Q QEMU, * another change; · a day without a figure"


def test_a_step_without_a_change_around_it_is_unexplained() -> None:
    """And creep is not: it has no day."""
    cells = (line(*[1.0] * 10),)
    assert "unexplained" in "\n".join(history_lines(history(finding(), lines=cells), 200))
    assert "unexplained" not in "\n".join(history_lines(history(finding(kind="creep"), lines=cells), 200))


def test_text_of_strangers_stays_text() -> None:
    """A host's name neither moves the cursor nor makes markup."""
    hostile = "\x1b[31m<img src=x>| `lab`\n# no"
    told = history(finding(where=f"cells of {hostile}"), lines=(line(*[1.0] * 10, host=hostile),))
    text = "\n".join(history_lines(told, 100))
    assert "\x1b" not in text
    assert "\n# no" not in text
    markdown = render_markdown_history(told)
    assert "<img" not in markdown.replace("\\<img", "")
    assert "\n# no" not in markdown


def test_levels_are_times_per_operation() -> None:
    """Of latencies as of rates; of several cells the median."""
    levels = relative_levels([line(100.0, 100.0, 50.0), line(1.0, 1.0, 2.0, metric="clat_p99")])
    assert [round(level, 2) for level in levels.values()] == [0.0, 0.0, 0.69]

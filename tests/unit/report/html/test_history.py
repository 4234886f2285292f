"""The history as HTML: every finding, every cell, marks and spans, and text of strangers."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ET
from datetime import date, timedelta

import pytest

from pytest_vmstorage.analysis.history.history import (
    BaselineHistory,
    Census,
    HistoryDay,
    HistoryFinding,
    HistoryLine,
    HistoryMark,
)
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.html.history import history_part, history_section, line_picture, render_html_history
from pytest_vmstorage.report.html.page import render_html
from pytest_vmstorage.testing import in_turns, make_measurement, make_metric, make_run

FIRST = date(2026, 10, 1)
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '<script>alert(1)</script>"&\x1b[2J'


def cell(host: str = "local", gap: int = -1, days: int = 40, workload: str = "fio randread 4k") -> HistoryLine:
    """A cell that is slower from its 21st day on, with three guests a day."""
    made = [
        HistoryDay(day=FIRST + timedelta(place), value=value, low=value * 0.9, high=value * 1.1, guests=3)
        for place in range(days)
        if place != gap
        for value in [1000.0 if place < 20 else 800.0]
    ]
    return HistoryLine(
        nodeid="t.py::test", workload=workload, config=StorageConfig(), host=host, nth=0,
        metric=make_metric("iops"), days=tuple(made), why_not="",
    )  # fmt: skip


def history(*lines: HistoryLine, **more: object) -> BaselineHistory:
    """A history of these lines, in the first of which QEMU changed and a level with it."""
    on = FIRST + timedelta(20)
    mark = HistoryMark(host=lines[0].host, what="QEMU was 9.1 and is 9.2 now", after=on - timedelta(1), on=on)
    found = HistoryFinding(
        kind="step", way="slower", after=on - timedelta(2), on=on, change=0.25, least=0.25, most=0.25, lines=(0,),
        sure=(0,), where="one cell", p=1e-9, marks=(mark,),
    )  # fmt: skip
    known: dict[str, object] = {
        "name": "nightly", "first": FIRST, "last": FIRST + timedelta(39), "days": 40, "lines": lines,
        "findings": (found,), "marks": (mark,), "census": Census(lines=len(lines), judged=len(lines)),
    }  # fmt: skip
    return BaselineHistory.model_validate(known | more)


def test_every_finding_and_every_cell_is_there() -> None:
    """The sentence, what changed, a picture for each cell, and a row for each."""
    section = history_section(history(cell(), cell(workload="fio randwrite 4k")))
    assert "<h3>1. since 2026-10-20 to 2026-10-21: slower, +25 % time per operation, one cell</h3>" in section
    assert "<li>QEMU was 9.1 and is 9.2 now (local, 2026-10-21)</li>" in section
    assert section.count("<svg") == 2
    assert len(re.findall("<tr>", section)) == 3
    assert "judged 2 of 2" in section


def test_a_picture_has_line_spread_span_and_mark() -> None:
    """A shade of guests, a curve, the span of the change and QEMU's day; and says it in a sentence."""
    root = ET.fromstring(line_picture(cell(), 0, history(cell())))
    described = root.findtext(f"{SVG}desc") or ""
    assert "40 days, from 1000 IOPS on 2026-10-01 to 800 IOPS on 2026-11-09: since 2026-10-20" in described
    tips = [one.text for one in root.iter(f"{SVG}title")]
    assert "slower since 2026-10-20 to 2026-10-21" in tips
    assert "2026-10-21: QEMU was 9.1 and is 9.2 now" in tips
    classes = [one.get("class", "") for one in root.iter()]
    assert {"s0 band", "s0", "s1 band"} <= set(classes)


def test_a_gap_parts_the_line() -> None:
    """No line over a day without a figure."""

    def curves(one: HistoryLine) -> int:
        root = ET.fromstring(line_picture(one, 0, history(one)))
        return sum(part.get("class") == "s0" and "stroke-width" in part.attrib for part in root.iter(f"{SVG}path"))

    assert (curves(cell()), curves(cell(gap=7))) == (1, 2)


def test_years_of_days_stay_light() -> None:
    """The newest 400 days are drawn."""
    assert len(line_picture(cell(days=1000), 0, history(cell(days=1000)))) < 25_000


def test_text_of_strangers_is_text() -> None:
    """In the sentence, the table and the picture of a cell."""
    page = render_html_history(history(cell(host=HOSTILE, workload=HOSTILE), name=HOSTILE))
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert "default-src 'none'" in page
    assert page.endswith("</html>\n")


@pytest.mark.parametrize(("rows", "limit"), [(16, 120_000), (180, 600_000)])
def test_the_page_of_a_run_stays_within_its_weight(rows: int, limit: int) -> None:
    """With 400 noisy days of each cell; what changed comes first, and what is left out is said."""
    chance = random.Random(1)

    def noisy(place: int) -> HistoryLine:
        days = [
            HistoryDay(day=FIRST + timedelta(day), value=value, low=value * 0.9, high=value * 1.1, guests=3)
            for day in range(400)
            for value in [chance.gauss(1000, 20)]
        ]
        return cell(workload=f"job {place}").model_copy(update={"days": tuple(days)})

    configs = [StorageConfig(vcpus=place + 1) for place in range(rows)]
    run = make_run(*in_turns(*(make_measurement(one, iops=(1000, 1010, 1020)) for one in configs)))
    part = history_part(history(*(noisy(place) for place in range(rows))), rows)
    document = render_html(run, more=[part])
    assert len(document.encode()) < limit
    assert "job 0 on" in part.body
    drawn = part.body.count("<svg")
    assert 0 < drawn < rows
    assert f"Left out, so that the page stays small: {rows - drawn} cells and 0 findings." in part.body
    assert '<a href="#history">History</a>' in document


def test_a_small_history_is_whole_in_the_page_of_a_run() -> None:
    """Every cell has its line, with the span as a band and what changed as a mark."""
    part = history_part(history(cell(), cell(workload="fio randwrite 4k")), 2)
    assert "Left out" not in part.body
    assert part.body.count("<svg") == 2
    assert "slower since 2026-10-20 to 2026-10-21" in part.body
    assert "2026-10-21: QEMU was 9.1 and is 9.2 now" in part.body
    assert "history of baseline &#x27;nightly&#x27;: 40 days" in part.body

"""A report needs nothing but its file: no network, no script, no style, and no server that allows any of them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable

import pytest
from pages import Opened, made

from pytest_vmstorage.report.csv import render_csv
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.units import format_figure

NAMES = ("demo", "red", "broken", "two hosts", "curves", "hostile")


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_asked_and_nothing_complains(opened: Callable[..., Opened], name: str) -> None:
    """The file itself is all that is read, also while every control is used; the console stays empty."""
    sheet = opened(name)
    assert sheet.use_all() > 10
    assert [address for address in sheet.requests if not address.startswith("file:")] == []
    assert len(sheet.requests) == 1
    assert sheet.complaints == []


def figures_of(name: str) -> list[tuple[list[str], list[str]]]:
    """Of each row of the matrix the values of its axes, and its figures with spread, marks and verdict."""
    table = build_table(*made(name))
    return [
        ([row.axes[i] for i in table.shown_axes], [cell.text for cell in row.cells if cell.figure])
        for row in table.rows
    ]


def medians_of(name: str) -> list[str]:
    """Every median of the CSV report as a reader sees it."""
    rows = csv.DictReader(io.StringIO(render_csv(*made(name))))
    return [format_figure(float(row["median"]), row["unit"]) for row in rows if row["median"]]


def lines_of(sheet: Opened) -> list[str]:
    """The rows of all tables."""
    texts: list[str] = sheet.page.evaluate("[...document.querySelectorAll('tr')].map(row => row.innerText)")
    return [" ".join(text.split()) for text in texts]


def assert_whole(sheet: Opened, name: str) -> None:
    """Each figure is in a row with the values of its axes, and each median of the CSV report somewhere."""
    lines, words = lines_of(sheet), sheet.text()
    found = [(axes, figure) for axes, figures in figures_of(name) for figure in figures]
    assert len(found) > 10
    assert [one for one in found if not any(_has(line, [*one[0], one[1]]) for line in lines)] == []
    assert [median for median in medians_of(name) if median not in words] == []


def _has(line: str, texts: list[str]) -> bool:
    return all(" ".join(text.split()) in line for text in texts)


@pytest.mark.parametrize("name", ["demo", "red", "broken", "two hosts", "curves"])
def test_every_figure_is_there_without_scripts(opened: Callable[..., Opened], name: str) -> None:
    """As text that a reader sees, not only in the source; what needs a script is not shown."""
    sheet = opened(name, scripts=False)
    assert_whole(sheet, name)
    assert sheet.page.locator("button:visible, select:visible").count() == 0


@pytest.mark.parametrize("name", ["demo", "red", "broken", "two hosts", "curves"])
def test_every_figure_is_there_where_a_server_allows_nothing(
    opened: Callable[..., Opened], jenkins: Callable[[str], str], name: str
) -> None:
    """Neither its script runs nor its style, as where Jenkins shows it."""
    sheet = opened(name, address=jenkins(name))
    assert_whole(sheet, name)
    assert sheet.page.evaluate("getComputedStyle(document.querySelector('table')).borderCollapse") == "separate"
    assert {re.sub(r":\d+", "", address) for address in sheet.requests} <= {
        f"http://127.0.0.1/{name.replace(' ', '-')}.html",
        "http://127.0.0.1/favicon.ico",
    }

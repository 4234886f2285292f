"""A report as it is seen: for everybody, on a desk and on a phone, in light and dark, on screen and on paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pages import DESK, SIZES, Opened
from runs import demo, nightly

from pytest_vmstorage.report.html.history import history_part, render_html_history
from pytest_vmstorage.report.html.page import render_html

BEYOND = """() => {
    const width = document.documentElement.clientWidth, scrolls = element => {
        for (let around = element.parentElement; around && around !== document.body; around = around.parentElement)
            if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(around).overflowX)) return true;
        return false;
    };
    return [...document.querySelectorAll('body *')]
        .filter(one => one.getBoundingClientRect().right > width + 0.5 && !scrolls(one))
        .map(one => `${one.tagName} ${one.id || one.className}: ${one.textContent.slice(0, 60)}`);
}"""
"""The elements that stand out of the page and are in nothing that scrolls."""


# two opposite corners of each: axe-core takes seconds
CORNERS = [
    (name, colours, size)
    for name in ("demo", "red", "broken", "two hosts", "curves")
    for colours, size in (("light", "desk"), ("dark", "phone"))
]


@pytest.mark.parametrize(("name", "colours", "size"), CORNERS)
def test_axe_finds_nothing(opened: Callable[..., Opened], name: str, colours: str, size: str) -> None:
    """No rule of axe-core is broken, contrast and names of controls among them."""
    sheet = opened(name, dark=colours == "dark", size=SIZES[size])
    background = sheet.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") is (colours == "light")
    assert sheet.violations() == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["demo", "red", "broken", "two hosts", "curves", "hostile"])
def test_nothing_stands_out_of_the_page(opened: Callable[..., Opened], name: str, size: str) -> None:
    """Only tables and charts scroll sideways, each within itself."""
    sheet = opened(name, size=SIZES[size])
    assert sheet.page.evaluate(BEYOND) == []
    assert sheet.page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]


@pytest.mark.parametrize(("dark", "size"), [(False, "desk"), (True, "phone")])
def test_a_history_is_seen_by_everybody(opened: Callable[..., Opened], tmp_path: Path, dark: bool, size: str) -> None:
    """Alone in its file: axe-core finds nothing, nothing stands out, nothing is asked for."""
    path = tmp_path / "history.html"
    path.write_text(render_html_history(nightly()), encoding="utf-8")
    sheet = opened(address=path.as_uri(), dark=dark, size=SIZES[size])
    assert sheet.violations() == []
    assert sheet.page.evaluate(BEYOND) == []
    assert sheet.requests == [path.as_uri()]
    assert sheet.complaints == []
    picture = sheet.page.locator("figure svg").first.bounding_box()
    assert picture is not None
    assert picture["width"] > 3 * picture["height"]


@pytest.mark.parametrize(("dark", "size"), [(True, "desk"), (False, "phone")])
def test_a_run_with_a_history_is_seen_by_everybody(
    opened: Callable[..., Opened], tmp_path: Path, dark: bool, size: str
) -> None:
    """In the page of a run: the same, and the page's script finds all that it looks for."""
    run, path = demo().run, tmp_path / "run.html"
    part = history_part(nightly(), len(run.measurements))
    path.write_text(render_html(run, more=[part]), encoding="utf-8")
    sheet = opened(address=path.as_uri(), dark=dark, size=SIZES[size])
    assert sheet.page.locator("#history figure svg").count() == 2
    assert sheet.violations() == []
    assert sheet.page.evaluate(BEYOND) == []
    assert sheet.requests == [path.as_uri()]
    assert sheet.complaints == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["demo", "broken"])
def test_what_counts_is_on_the_first_screen(opened: Callable[..., Opened], name: str, dark: bool) -> None:
    """At 1280x800: the verdict, the whole matrix, and what moves what of the first workload."""
    sheet = opened(name, dark=dark)
    boxes = {one: sheet.page.locator(one).first.bounding_box() for one in ("h1", "#heat table", "#effects table")}
    for one, box in boxes.items():
        assert box is not None, one
        assert box["x"] >= 0, one
        assert box["y"] >= 0, one
        assert box["x"] + box["width"] <= DESK[0], one
        assert box["y"] + box["height"] <= DESK[1], one


@pytest.mark.parametrize("name", ["demo", "red", "hostile"])
def test_no_control_lies_over_a_text(opened: Callable[..., Opened], name: str) -> None:
    """Long verdicts too go round the switch of colours."""
    sheet = opened(name)
    hidden = sheet.page.evaluate("""() => {
        const control = document.querySelector('.theme').getBoundingClientRect(), range = document.createRange();
        range.selectNodeContents(document.querySelector('h1'));
        return [...range.getClientRects()].filter(one =>
            one.right > control.left && one.bottom > control.top && one.top < control.bottom).length;
    }""")
    assert hidden == 0


def test_colours_are_chosen_and_remembered(opened: Callable[..., Opened]) -> None:
    """Whatever the system says."""
    sheet = opened("demo", dark=True)
    background = "getComputedStyle(document.body).backgroundColor"
    assert sheet.page.evaluate(background) != "rgb(255, 255, 255)"
    sheet.page.get_by_label("colours").select_option("light")
    assert sheet.page.evaluate(background) == "rgb(255, 255, 255)"
    sheet.page.reload()
    assert sheet.page.evaluate(background) == "rgb(255, 255, 255)"


def test_paper_has_every_figure_and_no_control(opened: Callable[..., Opened]) -> None:
    """Printed in dark surroundings it is black on white, and nothing is cut by what scrolls on a screen."""
    sheet = opened("demo", dark=True)
    figures = sheet.page.locator("main td").all_inner_texts()
    sheet.page.emulate_media(media="print")
    assert sheet.page.locator("main td").all_inner_texts() == figures
    assert sheet.page.locator("button:visible, select:visible").count() == 0
    assert sheet.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    cut = sheet.page.evaluate(
        "[...document.querySelectorAll('main *')].filter(one => one.scrollHeight > one.clientHeight + 1"
        " && getComputedStyle(one).clipPath === 'none'"
        " && ['auto', 'scroll', 'hidden'].includes(getComputedStyle(one).overflowY)).map(one => one.className)"
    )
    assert cut == []

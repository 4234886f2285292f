"""Views of the matrix: chosen by keyboard, kept in the link, and never a mix of values that nobody chose."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pages import Opened
from playwright.sync_api import Page, expect

FOCUSED = """() => {
    const one = document.activeElement, name = one.labels?.[0] ?? one;
    return one.getAttribute('aria-label') || (name === one ? one.textContent : name.firstChild.textContent).trim();
}"""


def reach(page: Page, name: str) -> None:
    """Press Tab until the control of that name has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED).partition(" (")[0] == name:
            return
    raise AssertionError(f"no control {name!r} is reached by Tab")


def matrix(page: Page) -> str:
    """The text of the matrix."""
    return page.inner_text("#heat")


def fragment(page: Page) -> str:
    """The fragment of the link, without "#"."""
    return page.url.partition("#")[2]


def test_a_view_is_chosen_by_keyboard_and_is_a_link(opened: Callable[..., Opened]) -> None:
    """Metric, columns and rows: each choice changes link and matrix; reload keeps it, and back undoes it."""
    page = opened("demo").page
    seen = [(fragment(page), matrix(page))]
    for name, key in (("figure", "ArrowDown"), ("columns", "ArrowDown"), ("format", "Space"), ("writeback", "Space")):
        reach(page, name)
        page.keyboard.press(key)
        assert page.evaluate(FOCUSED).partition(" (")[0] == name
        seen.append((fragment(page), matrix(page)))
    links = [link for link, _ in seen]
    assert len(set(links)) == len(links)
    assert links[0] == ""
    assert "metric=clat_p99" in links[1]
    assert all(part in links[-1] for part in ("metric=", "cols=", "rows=", "only=cache:writeback"))
    assert max(map(len, links)) < 200
    page.reload()
    assert (fragment(page), matrix(page)) == seen[-1]
    for before in reversed(seen[:-1]):
        page.go_back()
        expect(page.locator("#heat")).to_have_text(before[1], use_inner_text=True)
        assert fragment(page) == before[0]


def test_a_link_opens_its_view_anywhere(opened: Callable[..., Opened]) -> None:
    """In another window, from the link alone."""
    first = opened("two hosts").page
    first.get_by_label("columns").select_option("cache")
    first.locator("#controls").get_by_role("button", name="host", exact=True).click()
    first.get_by_label("compare with").select_option("cache none")
    second = opened("two hosts", fragment=f"#{fragment(first)}").page
    assert matrix(second) == matrix(first)
    assert matrix(second) != matrix(opened("two hosts").page)


def test_no_figure_is_shown_where_several_fall_into_one_cell(opened: Callable[..., Opened]) -> None:
    """The cell says which axis has several values; with one of them chosen it has its figure."""
    page = opened("demo").page
    controls = page.locator("#controls")
    controls.get_by_role("button", name="cache", exact=True).click()
    cells = page.locator("#heat td").all_inner_texts()
    assert cells
    assert set(cells) == {"2 values of cache: choose one"}
    page.locator("#filters").get_by_role("button", name="none (").click()
    assert "choose" not in matrix(page)
    assert "IOPS" in matrix(page)


def test_a_filter_holds_for_all_tables(opened: Callable[..., Opened]) -> None:
    """Half of the rows of a workload are left, and all of them come back."""
    page = opened("demo").page
    rows = page.locator("#w1-figures tbody tr:visible")
    assert rows.count() == 16
    button = page.locator("#filters").get_by_role("button", name="writeback")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert rows.count() == 8
    assert all("writeback" in text for text in rows.all_inner_texts())
    button.click()
    assert rows.count() == 16


IGNORED = (
    "#rows=<img src=x onerror=window.executed=1>&cols=<script>window.executed=1</script>",
    "#metric=__proto__&cols=constructor&only=toString:valueOf,__proto__:__proto__&ref=__proto__:x",
    "#metric=%00&rows=%E0%A4%A&cols=%",
    "#only=cache:" + "x" * 100_000,
    "#only=" + "cache:,:" * 1000,
    "#ref=row:99999999999999999999&metric=" + "9" * 1000,
    "#view=",
    "#view=~~~~~",
    "#view=-1~-1.99~1e3~r-5~__proto__.zzz~0.",
    "#view=99~99~99~99.99~99.99",
    "#=&==&&&=;javascript:window.executed=1",
)


@pytest.mark.parametrize("link", IGNORED, ids=lambda link: link[:30])
def test_a_link_of_anybody_breaks_nothing(opened: Callable[..., Opened], link: str) -> None:
    """What it has of no meaning is left out; nothing of it is executed or shown, and the controls still work."""
    sheet = opened("demo", fragment=link)
    assert sheet.page.locator("#heat tbody tr").count() > 0
    assert sheet.page.evaluate("window.executed") is None
    assert sheet.complaints == []
    sheet.page.get_by_role("button", name="as at first").click()
    assert matrix(sheet.page) == matrix(opened("demo").page)

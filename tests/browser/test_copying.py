"""What the buttons of a report copy: charts as SVG and CSV, the matrix as Markdown."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pages import Opened, made
from playwright.sync_api import Page, expect
from runs import HOSTILE

from pytest_vmstorage.report.html.chart import Chart
from pytest_vmstorage.report.html.page import render_html

TEXT = " ".join(HOSTILE[:6])
CSV = "cell,IOPS\n" + '"raw, ""quoted""",1\n' + '"' + TEXT.replace('"', '""') + '",2\n'
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 50" role="img"><title>a &lt;b&gt; &amp; c</title>'
    '<text x="5" y="20" fill="currentColor">&lt;script&gt;</text></svg>'
)


@pytest.fixture
def charted(opened: Callable[..., Opened], tmp_path: Path) -> Page:
    """A report with a chart below each workload, whose texts are hostile."""
    chart = Chart(slug="rounds", title=f"rounds {TEXT}", svg=SVG, csv=CSV, said="all equal")
    path = tmp_path / "charted.html"
    path.write_text(render_html(made("demo").run, charts_of=lambda *_: [chart]), encoding="utf-8")
    sheet = opened(address=path.as_uri())
    sheet.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    return sheet.page


def copied(page: Page) -> str:
    """What a reader would paste."""
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def test_a_chart_is_copied_as_svg_that_stands_alone(charted: Page) -> None:
    """It is XML with a namespace, and has the texts that it shows."""
    figure = charted.locator("figure.chart").first
    figure.get_by_role("button", name=re.compile("as SVG")).click()
    root = ElementTree.fromstring(copied(charted))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    # the sentence that the page has behind the picture goes along
    assert [one.text for one in root] == ["a <b> & c", "all equal", "<script>"]
    assert root.get("viewBox") == "0 0 100 50"
    expect(charted.locator("#told")).to_contain_text("copied")


def test_a_chart_is_copied_as_its_csv(charted: Page) -> None:
    """To the last character, whatever its texts are."""
    figure = charted.locator("figure.chart").first
    figure.get_by_role("button", name=re.compile("as CSV")).click()
    assert copied(charted) == CSV
    assert list(csv.reader(io.StringIO(copied(charted))))[1:] == [['raw, "quoted"', "1"], [TEXT, "2"]]


def test_the_matrix_is_copied_as_markdown(charted: Page) -> None:
    """A table of the same rows and columns as the view that is shown."""
    charted.get_by_label("columns").select_option("cache")
    charted.get_by_role("button", name="copy as Markdown").click()
    caption, _, head, rule, *body = copied(charted).splitlines()
    assert caption.startswith("fio randwrite 4k qd32")
    assert head == "| format | bus | preallocation | cache none | cache writeback |"
    assert rule == "| --- | --- | --- | ---: | ---: |"
    shown = [" ".join(text.split()) for text in charted.locator("#heat tbody tr").all_inner_texts()]
    plain = [" ".join(line.replace("\\", "").strip("| ").replace(" | ", " ").split()) for line in body]
    assert len(plain) == 8
    assert plain == shown

"""Texts of guests and users are texts, whatever they look like."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import runs
from pages import Opened


def test_nothing_of_a_hostile_run_is_executed(opened: Callable[..., Opened]) -> None:
    """Neither when it is opened, nor by any control, and its texts are there to read."""
    sheet = opened("hostile")
    assert sheet.use_all() > 10
    assert sheet.page.evaluate("window.executed") is None
    assert sheet.complaints == []
    assert len(sheet.requests) == 1
    text = sheet.text()
    assert [one for one in runs.HOSTILE[:6] if " ".join(one.split()) not in text] == []


def test_a_hostile_run_adds_no_element(opened: Callable[..., Opened]) -> None:
    """Every script, image and link that is there is the report's own."""
    sheet = opened("hostile")
    count = "(name) => document.querySelectorAll(name).length"
    assert sheet.page.evaluate(count, "img, iframe, object, embed, base, form, [onload], [onerror]") == 0
    assert sheet.page.evaluate(count, "script") == sheet.page.evaluate(count, "body > script, script#data")
    assert sheet.page.evaluate(count, "style") == 1
    assert (
        sheet.page.evaluate("[...document.links].filter(one => !one.getAttribute('href').startsWith('#')).length") == 0
    )


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_no_text_turns_those_around_it(opened: Callable[..., Opened], script: bool) -> None:
    """Marks of writing direction and control characters are not in the page."""
    text = opened("hostile", scripts=script).page.content()
    assert [hex(ord(one)) for one in set(text) if one < " " and one != "\n"] == []
    assert [hex(ord(one)) for one in set(text) if "\u202a" <= one <= "\u202e" or "\u2066" <= one <= "\u2069"] == []

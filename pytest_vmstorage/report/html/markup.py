"""HTML as text: elements whose texts and attributes are escaped; pure."""

from __future__ import annotations

import html
import json
import re
from functools import lru_cache

from pytest_vmstorage.text import plain, plain_line

_NOT_ALLOWED = re.compile("[\ufdd0-\ufdef\ufffe\uffff]")
_VOID = frozenset({"meta", "br", "input", "hr"})

Markup = str
"""Text that is HTML already; any other text goes through `shown`."""


@lru_cache(maxsize=16384)
def harmless(text: str) -> str:
    """Text of a guest, a tool or a user in one line, without controls and without what HTML does not allow."""
    return _NOT_ALLOWED.sub("\N{REPLACEMENT CHARACTER}", plain_line(text))


@lru_cache(maxsize=16384)
def shown(text: str) -> Markup:
    """The same as the content of an element or attribute."""
    return html.escape(harmless(text))


def shown_lines(text: str) -> Markup:
    """The same with its line ends, for `<pre>`."""
    return html.escape(_NOT_ALLOWED.sub("\N{REPLACEMENT CHARACTER}", plain(text)))


def tag(name: str, /, *inside: Markup, **attributes: str | bool | None) -> Markup:
    """An element around markup; attributes are escaped here.

    One that is None or False is left out, True has no value. `class_` is class, and "_" in a name is "-".
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{shown(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return f"<{name}{written}>" + ("" if name in _VOID else f"{''.join(inside)}</{name}>")


def items(lines: list[Markup], **attributes: str) -> Markup:
    """A list with an item for each of these; "" for none."""
    return tag("ul", *(tag("li", line) for line in lines), **attributes) if lines else ""


def data_block(value: object, slug: str) -> Markup:
    """A JSON value in a `<script>` that no browser runs; its text cannot end the element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return f'<script type="application/json" id="{slug}">{text}</script>'

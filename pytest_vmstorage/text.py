"""Text of guests, tools, hosts and saved files: read, and made harmless for where it is shown; pure.

A terminal obeys escape sequences, a forge that shows Markdown makes links, images and mentions of it, and a spreadsheet
takes a cell that begins with "=" for a formula.
"""

from __future__ import annotations

import re

# CSI, OSC and other strings with their end, and the characters after a lone ESC (ECMA-48); the 8-bit forms as well
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# C0 except tab and line feed, DEL, C1, marks that reverse the direction of text (UAX #9), and halves of a surrogate
# pair, which JSON can name and no file can hold
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_MARKUP = re.compile(r"([\\|*_`<>\[\]~])")
_AT_THE_BEGINNING = re.compile(r"^(?:[-+](?=\s|$)|#|\d+(?=[.)](?:\s|$)))")
_URL = re.compile(r"(?<=\w):(?=//)|(?<=\bwww)\.", re.IGNORECASE)
_MENTION = re.compile(r"(?<![A-Za-z0-9])@(?=\w)")
_FORMULA = ("=", "+", "-", "@", "\t")


def plain(text: str) -> str:
    """The text without escape sequences, and with U+FFFD for other control characters, which would move the cursor.

    Tabs and line ends stay, a carriage return before a line feed goes.
    """
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", _ESCAPES.sub("", text.replace("\r\n", "\n")))


def plain_line(text: str) -> str:
    """The plain text in one line."""
    return " ".join(plain(text).split())


def plain_markdown(text: str) -> str:
    """GitHub-flavoured Markdown that shows the text literally, in one line: for a cell, an item or a heading.

    The text makes no markup, column end, link, image, bare URL, mention or list.
    """
    text = _MARKUP.sub(r"\\\1", plain_line(text))
    text = _URL.sub(lambda found: f"\\{found[0]}", text)
    text = _MENTION.sub("@\N{WORD JOINER}", text)
    # the backslash goes behind a number: before it, it would be shown
    return _AT_THE_BEGINNING.sub(lambda found: f"{found[0]}\\" if found[0].isdigit() else f"\\{found[0]}", text)


def plain_cell(text: str) -> str:
    """The plain text as a spreadsheet's cell: an apostrophe goes before text that would be taken for a formula."""
    text = plain(text)
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_pairs(text: str) -> dict[str, str]:
    """The values of lines such as "name=value", by their names; other lines are left out."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


_SHOWN = 80

MOST = 2**63
"""No number here is larger: neither an offset in a file nor a counter of a tool."""


def quoted(value: object) -> str:
    """The user's value as a sentence quotes it, cut after 80 characters."""
    text = repr(value) if not isinstance(value, int) else text_of(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def text_of(value: object) -> str:
    """The value as text, without surrounding blanks."""
    try:
        return str(value).strip()
    except ValueError:
        # Python refuses to write a number of thousands of digits
        return "a number of thousands of digits"

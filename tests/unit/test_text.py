"""What others wrote cannot command a terminal, a forge or a spreadsheet, wherever it is shown."""

from __future__ import annotations

import csv
import io

import pytest

from pytest_vmstorage.errors import GuestError, HypervisorError, VmStorageError, WorkloadError
from pytest_vmstorage.report.csv import render_csv
from pytest_vmstorage.report.markdown import render_markdown
from pytest_vmstorage.report.pull_request import render_summary
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.report.text import render_text
from pytest_vmstorage.testing.builders import make_measurement, make_run
from pytest_vmstorage.text import plain, plain_cell, plain_line, plain_markdown, read_pairs

EVIL = (
    "\x1b]0;PWNED-TITLE\x07\x1b[31mRED\x1b[2J <script>alert(1)</script> ![x](http://evil.example/x.png)"
    " [click](javascript:alert(1)) @everyone | a | b\r\nline2\r"
)
"""What a guest's fio said in an attack that was tried on real guests."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r0m\x1b\\after", "after"),
        ("\x9b31mred", "red"),
        ("\x1b(0lines", "lines"),
        ("\x1bc", ""),
        ("ends in \x1b", "ends in "),
        # a string without an end takes its line, and no more
        ("\x1b]0;title\nnext", "\nnext"),
        ("a\rb", "a\N{REPLACEMENT CHARACTER}b"),
        ("half a pair \ud800", "half a pair \N{REPLACEMENT CHARACTER}"),
        ("a\r\nb\tc", "a\nb\tc"),
        ("back\b\b\b\bnul\0", "back" + "\N{REPLACEMENT CHARACTER}" * 4 + "nul\N{REPLACEMENT CHARACTER}"),
        ("\u202egnp.exe", "\N{REPLACEMENT CHARACTER}gnp.exe"),
        ("4 \xb5s, \xe9, \u4e2d", "4 \xb5s, \xe9, \u4e2d"),
    ],
)
def test_no_terminal_obeys_it(text: str, shown: str) -> None:
    """Escape sequences go, other control characters are seen; words of any language stay."""
    assert plain(text) == shown


def test_pairs_are_read_line_by_line() -> None:
    """A value may hold further equals signs, and may be empty; a line without one is left out."""
    assert read_pairs("a=1\nnothing\nb=x=y \nc=") == {"a": "1", "b": "x=y ", "c": ""}


def test_one_line_stays_one() -> None:
    """Whatever it has between its words."""
    assert plain_line(" a\n\n b\t c\r\n") == "a b c"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("![x](http://e.x/y.png)", r"!\[x\](http\://e.x/y.png)"),
        ("![x]", r"!\[x\]"),
        ("[a](javascript:x)", r"\[a\](javascript:x)"),
        ("see https://e.x and www.e.x", r"see https\://e.x and www\.e.x"),
        ("<img src=x>", r"\<img src=x\>"),
        ("a | b", r"a \| b"),
        ("# big", r"\# big"),
        ("1. item", r"1\. item"),
        ("- item", r"\- item"),
        ("1.5 s", "1.5 s"),
        ("+3 %", "+3 %"),
        ("by jane@example.org, @all", "by jane@example.org, @\N{WORD JOINER}all"),
        ("a\n\n# b", "a # b"),
        ("~~gone~~ **loud** `code`", r"\~\~gone\~\~ \*\*loud\*\* \`code\`"),
    ],
)
def test_no_forge_makes_markup_of_it(text: str, shown: str) -> None:
    """No link, image, mention, heading, list, column or HTML; what is shown is what was there."""
    assert plain_markdown(text) == shown


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ('=HYPERLINK("http://e.x")', '\'=HYPERLINK("http://e.x")'),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("+1+1", "'+1+1"),
        ("-1-1", "'-1-1"),
        ("\t=1", "'\t=1"),
        ("-1.5", "-1.5"),
        ("+3e2", "+3e2"),
        ("fio --name=x", "fio --name=x"),
        ("", ""),
    ],
)
def test_no_spreadsheet_takes_it_for_a_formula(text: str, cell: str) -> None:
    """Numbers stay numbers."""
    assert plain_cell(text) == cell


@pytest.mark.parametrize(
    "error",
    [
        VmStorageError(EVIL, hint=EVIL),
        HypervisorError(EVIL),
        GuestError("It ended.", console=EVIL),
        WorkloadError("It failed.", output=EVIL),
        VmStorageError("It failed.").retold(EVIL),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_quotes_it_is_plain(error: VmStorageError) -> None:
    """It goes to the terminal, to JUnit files and to reports."""
    assert "\x1b" not in str(error)
    assert "\x07" not in f"{error}{error.args}"
    assert "RED" in str(error)


def test_reports_of_a_guest_that_names_itself_so_are_plain() -> None:
    """Its kernel, its tools, the command, the names of tests: all that a report repeats."""
    measured = make_measurement().model_copy(
        update={"guest": {"kernel": EVIL, "fio": '=HYPERLINK("http://evil.example")'}, "command": f"=1+1 {EVIL}"}
    )
    run = make_run(measured)
    table = build_table(run)
    rendered = [render_text(table, 100), render_markdown(table), render_summary(run), render_csv(run)]
    for text in rendered:
        assert "RED" in text
        assert not set("\x1b\x07\r\x9b") & set(text)
    for text in rendered[1:3]:
        assert "![x]" not in text
        assert "[click]" not in text
        assert "<script>" not in text
        assert "http://" not in text
    cells = [cell for row in csv.reader(io.StringIO(rendered[3])) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "@"))]
    assert '\'=HYPERLINK("http://evil.example")' in cells

"""The documents' code blocks: where each stands, its language and title, and what the comments right before it say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
OUTPUTS = ROOT / "docs" / "outputs"
"""Scripts, each of which prints what pages show."""

_FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,}|~{3,}) *(?P<language>[\w+-]*)(?P<rest>.*)")
_TITLE = re.compile(r' *(?:title="(?P<title>[^"]*)")? *')
_COMMENT = re.compile(r" *<!-- (?P<name>[\w-]+): (?P<value>.+?) -->")


class Mark(NamedTuple):
    """A comment `<!-- name: value -->` of a page, by its line from 1."""

    name: str
    value: str
    line: int


class Block(NamedTuple):
    """A fenced block: its page relative to the root, the line of its fence from 1, and its text without indentation.

    `rest` is what the fence's line has that is no language and no title.
    """

    page: str
    line: int
    language: str
    title: str
    rest: str
    marks: tuple[Mark, ...]
    indent: str
    text: str

    @property
    def place(self) -> str:
        """Where it is, as editors open it."""
        return f"{self.page}:{self.line}"

    def values(self, name: str) -> list[str]:
        """The values of its marks of that name."""
        return [mark.value for mark in self.marks if mark.name == name]

    @property
    def file(self) -> str:
        """The file that its first line names in a comment, "" for none."""
        found = re.match(r"# ([\w.-]+\.(?:py|toml|ini|cfg|yml|yaml|fio))\n", self.text)
        return found[1] if found else ""


class UnclosedFenceError(Exception):
    """A fence without an end."""


def pages(root: Path = ROOT) -> list[str]:
    """Every document, relative to the root."""
    return [str(path.relative_to(root)) for path in sorted((*root.glob("*.md"), *(root / "docs").rglob("*.md")))]


def blocks_of(page: str, text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order; raises UnclosedFenceError."""
    lines = enumerate(text.splitlines(), 1)
    marks: list[Mark] = []
    for number, line in lines:
        comment, fence = _COMMENT.fullmatch(line), _FENCE.fullmatch(line)
        if comment:
            marks.append(Mark(comment["name"], comment["value"], number))
        elif fence:
            content = _content(f"{page}:{number}", lines, fence["indent"], fence["fence"])
            title = _TITLE.match(fence["rest"])
            assert title
            rest = fence["rest"][title.end() :]
            yield Block(
                page, number, fence["language"], title["title"] or "", rest, tuple(marks), fence["indent"], content
            )
            marks = []
        else:
            marks = []


def _content(place: str, lines: Iterator[tuple[int, str]], indent: str, fence: str) -> str:
    end = re.compile(rf" *{fence[0]}{{{len(fence)},}} *")
    content = []
    for _, line in lines:
        if end.fullmatch(line):
            return "".join(f"{one}\n" for one in content)
        content.append(line.removeprefix(indent))
    raise UnclosedFenceError(place)


def marks_of(page: str, text: str) -> Iterator[Mark]:
    """The comments `<!-- test: ... -->` and `<!-- output: ... -->` of a page that stand outside of its blocks."""
    inside = {
        number
        for block in blocks_of(page, text)
        for number in range(block.line, block.line + block.text.count("\n") + 2)
    }
    for number, line in enumerate(text.splitlines(), 1):
        found = _COMMENT.fullmatch(line)
        if found and number not in inside and found["name"] in ("test", "output"):
            yield Mark(found["name"], found["value"], number)


def with_output(page: str, text: str, name: str, printed: str, title: str) -> str:
    """The page's text with what the script of that name printed in each block that names it."""
    lines = text.splitlines(keepends=True)
    for block in reversed(list(blocks_of(page, text))):
        if name in block.values("output"):
            content = [f"{block.indent}{line}".rstrip() + "\n" for line in printed.splitlines()]
            begin, end = block.line, block.line + block.text.count("\n")
            fence = re.sub(r'title="[^"]*"', "", lines[begin - 1]).rstrip()
            lines[begin - 1 : end] = [f'{fence} title="{title}"\n', *content]
    return "".join(lines)

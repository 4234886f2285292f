"""Links of the documents lead to files and headings that exist, as the repository shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]

_FENCED = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,}).*?^ *(?P=fence)`* *$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_INLINE = re.compile(r"\]\(\s*<?(?P<link>[^()\s<>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_DEFINED = re.compile(r"^\[[^\]]+\]:\s*(?P<link>\S+)", re.MULTILINE)
_HTML = re.compile(r"<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)=\"(?P<link>[^\"]+)\"")
_HEADING = re.compile(r"^#{1,6} +(?P<text>.+?) *#* *$", re.MULTILINE)


class Link(NamedTuple):
    """Where a page leads: the file's path and the heading's anchor, "" for none, and the line that says so."""

    path: str
    anchor: str
    line: int


def without(pattern: re.Pattern[str], text: str) -> str:
    """The text with spaces in place of what matches; lines stay where they are."""
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def links_of(text: str) -> Iterator[Link]:
    """Links within the repository that a page has outside of its code."""
    prose = without(_CODE, without(_FENCED, text))
    for pattern in (_INLINE, _DEFINED, _HTML):
        for found in pattern.finditer(prose):
            if not re.match(r"[a-z][a-z0-9+.-]*:", found["link"]):
                path, _, anchor = unquote(found["link"]).partition("#")
                yield Link(path, anchor, prose.count("\n", 0, found.start("link")) + 1)


def anchors_of(text: str) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them: a second heading of one name has a number behind it."""
    anchors: list[str] = []
    for found in _HEADING.finditer(without(_FENCED, text)):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", found["text"])
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        anchors.append(f"{anchor}-{anchors.count(anchor)}" if anchor in anchors else anchor)
    return {*anchors, *re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text)}


def pages(root: Path) -> list[Path]:
    """Every page of the repository."""
    return sorted(
        (*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("tests/*.md"), *root.glob("changelog.d/*"))
    )


@cache
def text_of(path: Path) -> str:
    """A page's text."""
    return path.read_text(encoding="utf-8")


def flaws(root: Path) -> list[str]:
    """Each link that leads nowhere: its place and why."""
    found = []
    for page in pages(root):
        for link in links_of(text_of(page)):
            target = (page.parent / link.path).resolve() if link.path else page
            place = f"{page.relative_to(root)}:{link.line}"
            if link.path.startswith("/") or not target.is_relative_to(root):
                found.append(f"{place} leads out of the repository: {link.path}")
            elif not target.exists():
                found.append(f"{place} leads to {link.path}, which does not exist")
            elif link.anchor and target.suffix == ".md" and link.anchor not in anchors_of(text_of(target)):
                found.append(f"{place}: {target.relative_to(root)} has no heading #{link.anchor}")
    return found


def test_links_lead_somewhere() -> None:
    """In every page: to a file or a folder of the repository, and to a heading that the page has."""
    if not (ROOT / "README.md").is_file():
        pytest.skip("documents are not here")
    found = flaws(ROOT)
    assert not found, "\n".join(["", *found])


def test_broken_links_are_seen(tmp_path: Path) -> None:
    """Each kind of them, with its line; code is no link."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "b.md").write_text("# How do I *see* `it`?\n\n## Again\n\n## Again\n\n```\n# none\n```\n")
    (tmp_path / "README.md").write_text(
        '[good](docs/b.md#how-do-i-see-it), [again](docs/b.md#again-1 "title"), [web](https://x.example/#y)\n'
        "[no page](docs/c.md) ![no picture](a.png)\n"
        "[no heading](docs/b.md#none)\n"
        "`[code](x.md)`\n```text\n[code](y.md)\n```\n"
        "[own](#nothing) [out](../../x)\n"
        '[a reference]: docs/d.md\n<img src="b.png">\n'
    )
    assert [flaw.partition(" ")[0] + " " + flaw.split()[-1] for flaw in flaws(tmp_path)] == [
        "README.md:2 exist",
        "README.md:2 exist",
        "README.md:3: #none",
        "README.md:8: #nothing",
        "README.md:8 ../../x",
        "README.md:9 exist",
        "README.md:10 exist",
    ]


def test_security_names_modules_that_exist() -> None:
    """Each place that writes, by its file below the package."""
    if not (ROOT / "SECURITY.md").is_file():
        pytest.skip("documents are not here")
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)`", text_of(ROOT / "SECURITY.md")))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / "pytest_vmstorage" / name).is_file()] == []

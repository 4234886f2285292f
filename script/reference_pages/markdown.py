"""Markdown of the pages: tables, code spans, docstrings, and templates with places for what is generated."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

TEMPLATES = Path(__file__).parent / "templates"

_PLACE = re.compile(r"\{\{(\w+)\}\}")
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_NOTE = """\
<!-- `script/reference` writes this page. To change it, change the code that it tells of, or
     script/reference_pages/templates/{name}, and run that program again. -->
"""


def code(value: object) -> str:
    """A value as a code span; one with a backtick has two around it."""
    text = str(value)
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def codes(values: Iterable[object]) -> str:
    """Values as code spans with commas between."""
    return ", ".join(map(code, values))


def sentence(text: str) -> str:
    """A clause as a sentence: with a capital letter, unless it begins with a name, and a full stop."""
    first = text.split(maxsplit=1)[0].rstrip(",.;:")
    is_name = any(sign in first for sign in "_=`/.-0123456789") or first in _NAMES
    return f"{text if is_name else text[0].upper() + text[1:]}{'' if text.endswith('.') else '.'}"


_NAMES = ("qemu-img", "libvirt", "mkfs", "raw", "vmdk", "dd", "fio")
"""First words that are written small wherever they stand."""


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; "|" and line ends in its cells are made harmless."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(value: object) -> str:
    return escaped(" ".join(str(value).split())).replace("|", r"\|")


def escaped(text: str) -> str:
    """A text in which "<" outside of code spans is no HTML."""
    return re.sub(r"`[^`]*`|<", lambda found: r"\<" if found[0] == "<" else found[0], text)


def contract(thing: object) -> str:
    """The docstring of a class or function, without its indent; its lists and code spans are Markdown already."""
    return escaped(inspect.getdoc(thing) or "")


def first_paragraph(thing: object) -> str:
    """The docstring's first paragraph on one line."""
    return " ".join(contract(thing).partition("\n\n")[0].split())


class Sections(dict[str, str]):
    """Texts about things by the names of these, from a template; one that is missing is told with its place."""

    def __init__(self, template: str, texts: Mapping[str, str]) -> None:
        super().__init__(texts)
        self._template = template

    def __missing__(self, name: str) -> str:
        raise LookupError(
            f"{TEMPLATES.name}/{self._template} has no section {name!r}: write what that is, below ## {name}"
        )


def read_sections(name: str, **filled: str) -> Sections:
    """The sections of a template that consists of texts about things, by the names of these."""
    text = _PLACE.sub(lambda found: filled[found[1]], (TEMPLATES / name).read_text(encoding="utf-8"))
    _, *parts = _SECTION.split(text)
    return Sections(name, dict(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True)))


def fill(name: str, **parts: str) -> str:
    """The page of a template, with the parts in their places `{{part}}`; KeyError for one that nobody has made.

    Raises ValueError where a part has no place.
    """
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    if unplaced := parts.keys() - set(_PLACE.findall(text)):
        raise ValueError(f"{name} has no place for {', '.join(sorted(unplaced))}")
    heading, _, rest = text.partition("\n")
    page = f"{heading}\n\n{_NOTE.format(name=name)}{rest}"
    return _PLACE.sub(lambda found: parts[found[1]].strip(), page).rstrip() + "\n"


def without_fences(text: str) -> str:
    """A page without its code blocks."""
    return _FENCE.sub("", text)

"""A page as a reader without script and style has it: its tables, headings, texts and elements."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import NamedTuple

_VOID = frozenset({"meta", "br", "hr", "input"})
_ENDED_BY = {"td": ("td", "th"), "th": ("td", "th"), "tr": ("td", "th", "tr")}


class Cell(NamedTuple):
    """A cell of a table."""

    name: str
    css: str
    text: str


class Table(NamedTuple):
    """A table: its caption, and the cells of each line."""

    caption: str
    lines: list[list[Cell]]


class Element(NamedTuple):
    """A start tag with its attributes, and the names of the elements around it."""

    name: str
    attributes: dict[str, str]
    around: tuple[str, ...]


class Page(HTMLParser):
    """An HTML document that was read."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.tables: list[Table] = []
        self.headings: list[tuple[str, str]] = []
        self.text = ""
        self.raw: dict[str, list[str]] = {"style": [], "script": []}
        self._open: list[str] = []
        self._caption: list[str] = []
        self._lines: list[list[Cell]] = []
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note it; a cell or line that is still open ends here, as HTML has it."""
        for ended in _ENDED_BY.get(tag, ()):
            if ended in self._open[self._inner_table() :]:
                self._close(ended)
        attributes = {name: value or "" for name, value in attrs}
        self.elements.append(Element(tag, attributes, tuple(self._open)))
        if tag not in _VOID:
            self._open.append(tag)
        self._begin(tag, attributes.get("class", ""))

    def _begin(self, tag: str, css: str) -> None:
        """Make room for the texts in it."""
        if tag == "table":
            self._caption, self._lines = [], []
        elif tag == "tr":
            self._lines.append([])
        elif tag in ("td", "th"):
            self._lines[-1].append(Cell(tag, css, ""))
        elif tag in ("h1", "h2", "h3", "h4"):
            self.headings.append((tag, ""))
        elif tag in self.raw:
            self.raw[tag].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element that ends where it begins, as in SVG."""
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self._close(tag)

    def _inner_table(self) -> int:
        return max((place for place, name in enumerate(self._open) if name == "table"), default=0)

    def _close(self, tag: str) -> None:
        while self._open:
            if self._open.pop() == tag:
                break

    def handle_endtag(self, tag: str) -> None:
        """Close it with all that is still open in it."""
        assert tag in self._open, f"</{tag}> closes nothing"
        self._close(tag)
        if tag == "table":
            lines = [[cell._replace(text=" ".join(cell.text.split())) for cell in line] for line in self._lines]
            self.tables.append(Table(" ".join("".join(self._caption).split()), lines))

    def handle_data(self, data: str) -> None:
        """Put the text where it belongs."""
        inner = self._open[-1] if self._open else ""
        if inner in self.raw:
            self.raw[inner][-1] += data
            return
        self.text += data
        if "caption" in self._open:
            self._caption.append(data)
        elif self._lines and self._lines[-1] and ("td" in self._open or "th" in self._open):
            self._lines[-1][-1] = self._lines[-1][-1]._replace(text=self._lines[-1][-1].text + f" {data}")
        if inner in ("h1", "h2", "h3", "h4"):
            self.headings[-1] = (inner, self.headings[-1][1] + data)

    def table(self, caption: str) -> Table:
        """The first table whose caption begins so."""
        return next(one for one in self.tables if one.caption.startswith(caption))

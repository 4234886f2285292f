"""The documentation site, built as readers get it: whole, from nowhere else, with links that lead somewhere."""

from __future__ import annotations

import html.parser
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site; a warning of the build is an error."""
    folder = tmp_path_factory.mktemp("site")
    # with --quiet MkDocs counts no warnings
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(argv, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout
    return folder


class Address(NamedTuple):
    """An address in a page: of something that a browser loads by itself, or of a link that a reader follows."""

    text: str
    is_loaded: bool


class Page(html.parser.HTMLParser):
    """The addresses and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[Address] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take what the tag has."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if "src" in values:
            self.addresses.append(Address(values["src"], is_loaded=True))
        if "href" in values:
            is_loaded = tag == "link" and values.get("rel") not in ("canonical", "prev", "next", "edit")
            self.addresses.append(Address(values["href"], is_loaded))


@pytest.fixture(scope="session")
def pages(site: Path) -> dict[Path, Page]:
    """Every page of the site."""
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def test_nothing_comes_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    """No page and no style sheet loads a font, a script or a picture of another host."""
    loaded = [
        f"{path.relative_to(site)} loads {address.text}"
        for path, page in pages.items()
        for address in page.addresses
        if address.is_loaded and urlsplit(address.text).netloc
    ]
    loaded += [
        f"{path.relative_to(site)} loads {found}"
        for path in site.rglob("*.css")
        for found in re.findall(r"url\([\"']?(https?://[^)\"']+)", path.read_text(encoding="utf-8"))
    ]
    assert not loaded, "\n".join(loaded)


def dead_ends(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Links within the site that lead to no file or no anchor."""
    for path, page in pages.items():
        # its addresses begin at the root of a server
        if path.name == "404.html":
            continue
        for text in {address.text for address in page.addresses if not urlsplit(address.text).scheme}:
            parts = urlsplit(text)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield f"{path.relative_to(site)} leads to {text}, which does not exist"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{path.relative_to(site)} leads to {text}, where the anchor does not exist"


def test_links_lead_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    """To a file and an anchor of the site, which is read from a folder, too."""
    assert len(pages) > 20
    found = list(dead_ends(site, pages))
    assert not found, "\n".join(found)


def test_each_page_can_be_found(site: Path, pages: dict[Path, Page]) -> None:
    """Search knows all of them, without a server: its index lies in a script."""
    text = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    known = {entry["location"].partition("#")[0] for entry in json.loads(text.removeprefix("var __index = "))["docs"]}
    # a sample is a file that the plugin wrote
    assert known == {str(path.relative_to(site)) for path in pages} - {"404.html", "samples/quickstart.html"}
    polyfill = [address.text for address in pages[site / "index.html"].addresses if "iframe-worker" in address.text]
    assert polyfill == ["assets/iframe-worker.js"]


def test_a_copied_block_has_no_prompt(site: Path) -> None:
    """Its commands can be pasted into a shell."""
    texts = [path.read_text(encoding="utf-8") for path in site.rglob("*.html")]
    assert any('data-prompt="$ "' in text for text in texts)
    assert not any('<span class="gp">' in text for text in texts)


def test_a_bar_in_a_table_has_no_backslash(site: Path) -> None:
    """As in `--vm-accel=auto|kvm|tcg`; the repository shows it so."""
    cells = [
        cell for path in site.rglob("*.html") for cell in re.findall(r"<td.*?</td>", path.read_text("utf-8"), re.DOTALL)
    ]
    assert any(re.search(r"<code>[^<]*\w\|", cell) for cell in cells)
    assert not any("\\|" in cell for cell in cells)


def test_there_is_no_address_of_a_placeholder(pages: dict[Path, Page]) -> None:
    """Until the repository has one, nothing links to it."""
    addresses = {address.text for page in pages.values() for address in page.addresses}
    assert [text for text in addresses if ".invalid" in (urlsplit(text).hostname or "")] == []


def test_each_fragment_of_the_changelog_is_a_sentence() -> None:
    """Its name is towncrier's to check."""
    fragments = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "changelog.d").glob("+*.md")}
    flaws = [name for name, text in fragments.items() if not re.fullmatch(r"\S[^\n]*(\n[^\n]+)*[.!`)]\n?", text)]
    assert flaws == []

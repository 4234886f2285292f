"""What MkDocs asks while it builds the site: links that leave docs/, bars in tables, prompts of console blocks.

Pages are written for a reader of the repository, whose links may lead anywhere in it (`../../SECURITY.md`). In the site
such a link leads to the page that is made of the file, else to the repository's address, which pyproject.toml has in
`[project.urls]`; while that is a placeholder (`.invalid`) its text stands without a link.
"""

from __future__ import annotations

import posixpath
import tomllib
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]

PAGES = {
    "CONTRIBUTING.md": "contributing/index.md",
    "SECURITY.md": "contributing/security.md",
    "CHANGELOG.md": "contributing/changes.md",
}
"""Files at the repository's top that are pages of the site, by their place in it."""


def repository(pyproject: str) -> str | None:
    """Address of the repository that the text of a pyproject.toml has, None while it is a placeholder."""
    address: str = tomllib.loads(pyproject)["project"]["urls"]["Repository"]
    return None if (urlsplit(address).hostname or "").endswith(".invalid") else address


def destination(link: str, source: str, page: str, address: str | None, pages: Mapping[str, str]) -> str | None:
    """Where a link of a page leads in the site, None where nothing there or at the address has it.

    `source` is the page's file in the repository, `page` its place in the site, `pages` the place of each file that is
    a page.
    """
    parts = urlsplit(link)
    if parts.scheme or not parts.path or parts.path.startswith("/"):
        return link
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), parts.path))
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    if place := pages.get(target):
        return posixpath.relpath(place, posixpath.dirname(page) or ".") + fragment
    if target.startswith("docs/"):
        return link
    return f"{address}/blob/main/{target}{fragment}" if address else None


class _Links(Treeprocessor):
    """Has each link of the page that is rendered lead where it does in the site, and tables show what GitHub does."""

    page: Page
    address: str | None
    pages: Mapping[str, str]

    def run(self, root: Element) -> None:
        """Before MkDocs asks whether each link leads to a page."""
        place = self.page.file.src_uri
        source = next((name for name, where in self.pages.items() if where == place), f"docs/{place}")
        for element in root.iter("a"):
            link = element.get("href", "")
            if (found := destination(link, source, place, self.address, self.pages)) is None:
                element.tag = "span"
                element.attrib.clear()
            elif found != link:
                element.set("href", found)
        # in a table a bar of code is written with a backslash, which Python-Markdown leaves there
        for code in (code for cell in root.iter("td") for code in cell.iter("code")):
            code.text = AtomicString((code.text or "").replace("\\|", "|"))


class _LinksExtension(Extension):
    """Registers the one above behind what makes links, and before MkDocs' own."""

    def __init__(self, links: _Links) -> None:
        super().__init__()
        self._links = links

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        md.treeprocessors.register(self._links, "site_links", 1)


LINKS = _Links()


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the repository's address from pyproject.toml."""
    LINKS.address = repository((ROOT / "pyproject.toml").read_text())
    if LINKS.address:
        config.repo_url = LINKS.address
        config.edit_uri = "edit/main/docs/"
    config.markdown_extensions.append(_LinksExtension(LINKS))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Make pages of the files at the repository's top."""
    for name, place in PAGES.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / name)))
    pages = [file.src_uri for file in files.documentation_pages() if file.src_uri not in PAGES.values()]
    LINKS.pages = PAGES | {f"docs/{place}": place for place in pages}
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Tell the links of which page is rendered, and give pages from elsewhere no edit link into docs/."""
    LINKS.page = page
    if page.file.src_uri in PAGES.values():
        page.edit_url = None
    return markdown


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Have style sheets show the prompt of a command, so that a block that is copied can be pasted into a shell."""
    return html.replace('<span class="gp">$ </span>', '<span class="gp" data-prompt="$ "></span>')

"""tests/README.md, which says for each promise of README and docs which test holds it, is whole and true.

So are README's length and the packages that README and tutorials name.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
PROMISES = TESTS / "README.md"
PROMISING = ("tutorials", "how-to", "reference", "explanation", "studies")
"""The folders of docs/ whose pages say what the plugin does."""


def sections(path: Path) -> dict[str, str]:
    """The text below each heading of the second level; code, whose comments look like headings, is left out."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    _, *parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def promising_pages() -> set[str]:
    """The pages that say what the plugin does; an index only leads to them."""
    pages = {page for folder in PROMISING for page in (ROOT / "docs" / folder).glob("*.md")}
    return {str(page.relative_to(ROOT)) for page in pages if page.name != "index.md"}


def functions(path: Path) -> set[str]:
    """The test functions of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_section_of_readme_has_its_tests() -> None:
    """The same headings in the same order, before those of pages."""
    promised = [f"README: {heading}" for heading in sections(ROOT / "README.md")]
    held = list(sections(PROMISES))
    assert held[: len(promised)] == promised
    assert [heading for heading in held[len(promised) :] if heading.startswith("README")] == []


def test_every_page_has_its_tests() -> None:
    """A heading for each page, or one for its folder; none for a page that is gone."""
    held = {heading for heading in sections(PROMISES) if not heading.startswith("README: ")}
    pages = promising_pages()
    folders = {f"{page.rpartition('/')[0]}/" for page in pages}
    assert pages
    assert held - pages - folders == set()
    assert {page for page in pages if page not in held and f"{page.rpartition('/')[0]}/" not in held} == set()


@pytest.mark.parametrize("heading", sections(PROMISES))
def test_every_test_that_is_named_exists(heading: str) -> None:
    """A file, or a test function in one."""
    rows = [row for row in sections(PROMISES)[heading].splitlines() if row.startswith("| ")][1:]
    assert rows
    for row in rows:
        named = re.findall(r"`((?:\w+/)*test_\w+\.py)(?:::(\w+))?`", row.rpartition(" | ")[2])
        assert named, row
        for file, function in named:
            known = functions(TESTS / file)
            assert known, file
            assert not function or function in known, (file, function)


def test_readme_is_read_in_minutes() -> None:
    """150 lines at most, the two commands of a clone among the first 15, a picture, and no table of options."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    assert {"script/demo", "script/test"} <= {word for line in lines[:15] for word in line.split()}
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", "\n".join(lines))
    assert (ROOT / picture).is_file()


def packages(text: str, names: str = "PACKAGES|PYTHON_PACKAGES") -> set[str]:
    """The Debian packages of script/setup."""
    lists = re.findall(rf"^(?:{names})=\((.*?)\)$", text, flags=re.DOTALL | re.MULTILINE)
    assert len(lists) == 2
    return {word for one in lists for line in one.splitlines() if "#" not in line for word in line.split()}


@pytest.mark.parametrize("page", ["README.md", "docs/tutorials/first-matrix.md", "docs/tutorials/first-gate.md"])
def test_packages_are_those_that_set_up_installs(page: str) -> None:
    """Each list of a page that installs the plugin beside a project is that of script/setup, or more."""
    wanted = packages((ROOT / "script" / "setup").read_text(encoding="utf-8"))
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    joined = re.sub(r"\n +(?=[a-z])", " ", text)
    lists = re.findall(r"apt-get install (.*mmdebstrap.*)$", joined, flags=re.MULTILINE)
    assert lists
    for one in lists:
        named = {word for word in one.split() if not word.startswith("-")}
        assert wanted <= named
        assert named - wanted <= {"libvirt-daemon-system"}

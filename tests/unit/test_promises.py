"""tests/README.md, which says for each promise of README which test holds it, is whole and true."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PROMISES = TESTS / "README.md"


def sections(path: Path) -> dict[str, str]:
    """The text below each heading of the second level; code, whose comments look like headings, is left out."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    _, *parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def functions(path: Path) -> set[str]:
    """The test functions of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_section_of_readme_has_its_tests() -> None:
    """The same headings in the same order, none without a test."""
    promised, held = sections(TESTS.parent / "README.md"), sections(PROMISES)
    assert list(held) == list(promised)
    assert [heading for heading, text in held.items() if "test_" not in text] == []


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

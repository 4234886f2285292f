"""fixtures.md and marks.md: what a test asks for and is marked with, and the values that fixtures give."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_vmstorage import names
from pytest_vmstorage.plugin import fixture_types, fixtures
from pytest_vmstorage.plugin.hooks import MARKERS
from reference_pages.markdown import code, contract, escaped, fill, first_paragraph, read_sections, table

VALUES: Mapping[str, Mapping[str, str]] = {
    "Measurement": dict.fromkeys(("figure", "metric", "values", "raw", "moved", "cost", "served_by", "steadiness"), ""),
    "Figure": {
        "spread": "",
        "metric": "The metric: its name, unit and better direction.",
        "values": "The figure of each round, in the order measured.",
        "where": "Workload, configuration and host, for a sentence.",
    },
    "Guest": {
        "run": "",
        "host": "",
        "disk": "",
        "facts": "What the guest said of itself: the disk's size, scheduler and write cache, kernel, CPUs, memory.",
        "config": "",
    },
    "HostEnvironment": {
        "run": "",
        "disk": "",
        "facts": "",
        "host": "The machine as a testinfra Host, with `machine:NAME`; a native row has none.",
    },
    "Cells": dict.fromkeys(("assert_ratio", "assert_fastest", "assert_monotonic"), ""),
}
"""Public classes that fixtures give: the members that are for tests, and what those without a docstring are."""

_EXAMPLE = re.compile(r"^Example: ((?:`[^`]+`\n?)+)", re.MULTILINE)


def fixtures_page() -> str:
    """The page of fixtures."""
    there = list(_declared())
    return fill(
        "fixtures.md",
        table=table(("fixture", "type", ""), (_overview(one) for one in there)),
        fixtures="\n\n".join(map(_section, there)),
        values="\n\n".join(map(_value, VALUES)),
        cell=contract(names.cell),
    )


def marks_page() -> str:
    """The page of marks."""
    told = read_sections("mark_texts.md")
    return fill("marks.md", marks="\n\n".join(_mark(line, told) for line in MARKERS))


def fixture_names() -> list[str]:
    """The names of all fixtures."""
    return [one.name for one in _declared()]


def mark_names() -> list[str]:
    """The names of all marks."""
    return [line.partition("(")[0] for line in MARKERS]


def _declared() -> Iterator[ast.FunctionDef]:
    """The functions of fixtures; pytest wraps them, in each version otherwise."""
    tree = ast.parse(Path(fixtures.__file__).read_text(encoding="utf-8"))
    return (one for one in tree.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_"))


def _overview(fixture: ast.FunctionDef) -> tuple[str, str, str]:
    first = _EXAMPLE.sub("", ast.get_docstring(fixture) or "").partition("\n\n")[0]
    return f"[{code(fixture.name)}](#{fixture.name})", code(_type(fixture)), first


def _type(fixture: ast.FunctionDef) -> str:
    assert fixture.returns is not None
    return ast.unparse(fixture.returns)


def _section(fixture: ast.FunctionDef) -> str:
    text = ast.get_docstring(fixture) or ""
    example = _EXAMPLE.search(text)
    lines = re.findall(r"`([^`]+)`", example[1]) if example else []
    shown = _example(lines) if lines else ""
    first, _, rest = _EXAMPLE.sub("", text).partition("\n\n")
    parts = [f"## {fixture.name}", *_call(fixture), first.strip(), shown, rest]
    return "\n\n".join(escaped(part) if part is not shown else part for part in parts if part)


def _example(lines: list[str]) -> str:
    code_lines = "\n".join(line.replace("): ", "):\n    ") if line.startswith("def ") else line for line in lines)
    return f"<!-- test: parse -->\n```python\n{code_lines}\n```"


def _call(fixture: ast.FunctionDef) -> Iterator[str]:
    """How a fixture that is a function is called."""
    kind = getattr(fixture_types, _type(fixture), None)
    if kind is not None and hasattr(kind, "__call__"):  # noqa: B004 (a protocol's own, not whether it is callable)
        yield code(f"{fixture.name}{_arguments(kind.__call__)}")


def _arguments(function: object) -> str:
    """A signature without types."""
    assert callable(function)
    signature = inspect.signature(function)
    plain = [one.replace(annotation=one.empty) for one in signature.parameters.values() if one.name != "self"]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))


def _value(name: str) -> str:
    kind = getattr(names, name)
    rows = (_member(kind, member, told) for member, told in VALUES[name].items())
    return "\n\n".join([f"### {name}", contract(kind), table(("", ""), rows)])


def _member(kind: type, name: str, told: str) -> tuple[str, str]:
    """A member and what it is, which an attribute of objects alone does not say itself."""
    if told:
        return code(name), told
    what = inspect.getattr_static(kind, name)
    return code(f"{name}{_arguments(what)}" if inspect.isfunction(what) else name), first_paragraph(what)


def _mark(line: str, told: Mapping[str, str]) -> str:
    call, _, text = line.partition(": ")
    name = call.partition("(")[0]
    what, _, example = text.partition(" Example: ")
    shown = f"<!-- test: parse -->\n```python\n{example}\ndef test_it(measure): ...\n```" if example else ""
    parts = [f"## {name}", code(f"@pytest.mark.{call}"), escaped(what[0].upper() + what[1:]), shown, told[name]]
    return "\n\n".join(part for part in parts if part)

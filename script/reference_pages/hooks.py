"""hooks.md: the hooks that a user's conftest.py or plugin may implement."""

from __future__ import annotations

import inspect

from pytest_vmstorage.plugin import hookspecs
from reference_pages.markdown import code, contract, fill, first_paragraph, read_sections, table


def hooks_page() -> str:
    """The page of hooks."""
    told = read_sections("hook_texts.md")
    rows = ((f"[{code(name)}](#{name})", first_paragraph(getattr(hookspecs, name))) for name in hook_names())
    return fill(
        "hooks.md",
        table=table(("hook", "what it is for"), rows),
        hooks="\n\n".join(_section(name, told[name]) for name in hook_names()),
    )


def hook_names() -> list[str]:
    """The hooks, in the order of their module."""
    return [name for name in vars(hookspecs) if name.startswith("pytest_vmstorage_")]


def _section(name: str, told: str) -> str:
    spec = getattr(hookspecs, name)
    arguments = ", ".join(inspect.signature(spec).parameters)
    return f"## {name}\n\n`{name}({arguments})`\n\n{contract(spec)}\n\n{told}"

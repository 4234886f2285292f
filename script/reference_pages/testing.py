"""testing.md: the shipped fakes, in which suites run without QEMU."""

from __future__ import annotations

import inspect

from pytest_vmstorage import testing
from pytest_vmstorage.testing import LabOptions
from reference_pages.markdown import code, contract, fill, first_paragraph, table


def testing_page() -> str:
    """The page of pytest_vmstorage.testing."""
    fields = LabOptions.model_fields
    return fill(
        "testing.md",
        options=table(("option", "default"), ((code(name), code(repr(one.default))) for name, one in fields.items())),
        lab_options=contract(LabOptions),
        names="\n\n".join(map(_section, testing.__all__)),
        table=table(
            ("name", "what it is"), ((f"[{code(name)}](#{name.lower()})", _first(name)) for name in testing.__all__)
        ),
    )


def _first(name: str) -> str:
    return first_paragraph(getattr(testing, name))


def _section(name: str) -> str:
    thing = getattr(testing, name)
    if thing is LabOptions:
        return f"### {name}\n\n[What the lab can be told](#what-the-lab-can-be-told)."
    call = f"`{name}{_arguments(thing)}`\n\n" if inspect.isfunction(thing) else ""
    methods = f"\n\n{_methods(thing)}" if thing is testing.FakeShell else ""
    return f"### {name}\n\n{call}{contract(thing)}{methods}"


def _methods(kind: type) -> str:
    there = ((name, what) for name, what in vars(kind).items() if inspect.isfunction(what) and not name.startswith("_"))
    return table(("", ""), ((code(f"{name}{_arguments(what)}"), first_paragraph(what)) for name, what in there))


def _arguments(function: object) -> str:
    assert callable(function)
    signature = inspect.signature(function)
    plain = [one.replace(annotation=one.empty) for one in signature.parameters.values() if one.name != "self"]
    shown = ", ".join(
        str(one) if one.default is one.empty or _is_short(one.default) else f"{one.name}=..." for one in plain
    )
    keyword = next((one.name for one in plain if one.kind is one.KEYWORD_ONLY), None)
    first = shown.find(keyword) if keyword else -1
    has_star = any(one.kind is one.VAR_POSITIONAL for one in plain)
    return f"({shown[:first]}*, {shown[first:]})" if first >= 0 and not has_star else f"({shown})"


def _is_short(value: object) -> bool:
    return len(repr(value)) < 20 and "<" not in repr(value)

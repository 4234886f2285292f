"""options.md: each option of pytest with its ini name, default, form and meaning, in the groups of `pytest --help`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_vmstorage.config.settings import STEPS
from pytest_vmstorage.plugin.options import NOT_AXES, OPTIONS, ini_name
from reference_pages.markdown import code, codes, escaped, fill, read_sections, table

if TYPE_CHECKING:
    from pytest_vmstorage.plugin.options import Option


_ELSEWHERE = {"image-reach": "vmstorage.toml's, or `agent`"}
"""Defaults that stand in other code than the table of options."""


def options_page() -> str:
    """The page of options, in five groups."""
    told = read_sections("option_texts.md", steps=table(("step", "what it does"), _steps()))
    return fill(
        "options.md",
        table="\n\n".join(_overview(title, options) for _, title, options in OPTIONS),
        groups="\n\n".join(_group(title, options, told) for _, title, options in OPTIONS),
        not_axes=told[NOT_AXES],
    )


def _steps() -> list[tuple[str, str]]:
    return [(code(name), text) for name, text in STEPS.items()]


def _overview(title: str, options: tuple[Option, ...]) -> str:
    rows = ((f"[{code(_written(one))}](#{_anchor(one)})", _default(one), one[4].partition(" [")[0]) for one in options)
    return f"**{title[0].upper()}{title[1:]}**\n\n" + table(("option", "default", ""), rows)


def _group(title: str, options: tuple[Option, ...], told: Mapping[str, str]) -> str:
    return "\n\n".join([f"## {title[0].upper()}{title[1:]}", *(_section(one, told[one[0]]) for one in options)])


def _section(option: Option, told: str) -> str:
    name, kind, metavar, _, _ = option
    value = {"string": metavar, "linelist": f"{metavar} on a line each", "bool": "true"}[kind]
    return (
        f'<a id="{_anchor(option)}"></a>\n\n'
        f"### {code(_written(option))}\n\n"
        f"Default: {_default(option)}. In the ini file: {code(f'{ini_name(name)} = {value}')}.\n\n"
        f"{escaped(told)}"
    )


def _anchor(option: Option) -> str:
    return f"vm-{option[0]}"


def _written(option: Option) -> str:
    name, kind, metavar, _, _ = option
    return f"--vm-{name}" if kind == "bool" else f"--vm-{name}={metavar}"


def _default(option: Option) -> str:
    """The default as a user would write it; what an empty one stands for is in brackets behind the help."""
    name, kind, _, default, text = option
    if kind == "bool" or name in _ELSEWHERE:
        return _ELSEWHERE.get(name, "off")
    stands_for = text.rpartition("[")[2].removesuffix("]") if text.endswith("]") else "none"
    return codes([default]) if default else stands_for

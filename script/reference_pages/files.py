"""files.md: the files that are read and written, with their keys, columns and schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_vmstorage.config.cell import AXES
from pytest_vmstorage.report.csv import HEADER
from pytest_vmstorage.results.host import FACTS
from reference_pages import schemas
from reference_pages.markdown import code, codes, fill, read_sections, table

_FACT = "host_"


def files_page() -> str:
    """The page of files."""
    return fill(
        "files.md",
        columns=table(("column", "what it has"), _columns()),
        report=table(("field", "what it has"), _report()),
        inventory=_keys(schemas.inventory_schema),
        matrix=_keys(schemas.matrix_schema),
        gate=_keys(schemas.gate_schema),
    )


def schemas_page() -> str:
    """The list of schemas."""
    made = {name: make() for name, make in schemas.SCHEMAS.items()}
    rows = ((f"[{name}.json]({name}.json)", one["title"], one["description"]) for name, one in made.items())
    return fill("schemas.md", table=table(("schema", "of", ""), rows))


def _columns() -> Iterator[tuple[str, str]]:
    told = read_sections("column_texts.md")
    for name in HEADER:
        if name == AXES[0]:
            yield codes(AXES), "[the axes](axes.md); empty where they had no part in the row"
        elif name.startswith(_FACT):
            fact = name.removeprefix(_FACT)
            words = FACTS[fact].words if fact in FACTS else fact.replace("_", " ")
            yield code(name), f"of the host: {words}"
        elif name not in AXES:
            yield code(name), told[name]
    yield "`round_1`, `round_2` ...", "the figure of each round"
    yield "`at_iodepth`, `at_numjobs`", "where the row lies on its curve, in runs that have one"


def _report() -> Iterator[tuple[str, str]]:
    told = read_sections("field_texts.md")
    return ((code(name), told[name]) for name in schemas.report_schema()["properties"])


def _keys(make: Callable[[], Mapping[str, Any]]) -> str:
    found = schemas.keys_of(make())
    return table(
        ("key", "form", "what it means"), ((code(path), _form(one), one["description"]) for path, one in found.items())
    )


def _form(one: Mapping[str, Any]) -> str:
    if "anyOf" in one:
        return ", ".join(map(_form, one["anyOf"]))
    if "const" in one:
        return f'`"{one["const"]}"`'
    if "enum" in one:
        return ", ".join(f'`"{value}"`' for value in one["enum"])
    if one.get("format") == "date":
        return "a date, without quotes"
    kinds = {"string": "a text", "boolean": "true or false", "integer": "a number", "array": "a list"}
    return kinds.get(str(one.get("type")), "a table")

"""The test file that a request stands for, as a user would write it and `ruff format` would lay it out; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_vmstorage.cli.run.request import Measured, Request
from pytest_vmstorage.config.matrix import cell_text

FILE = "test_vmstorage.py"
"""The name that the file has in node ids: a printed one of this name continues the saved runs of the command."""

_WIDTH = 88
"""Characters of a line, by ruff's default."""

_HEAD = f'"""Written by `vmstorage run`; as {FILE} it has the node ids of its runs."""'


class _Code(NamedTuple):
    """An expression in brackets: in one line where it fits, else its items in a line, else a line for each of them."""

    begin: str
    items: tuple[str | _Code, ...]
    end: str

    def __str__(self) -> str:
        return f"{self.begin}{', '.join(map(str, self.items))}{self.end}"

    def lines(self, indent: int = 0, behind: str = "") -> Iterator[str]:
        """Its lines, indented, with what stands behind it."""
        outer, inner = " " * indent, " " * (indent + 4)
        flat, together = f"{outer}{self}{behind}", f"{inner}{', '.join(map(str, self.items))}"
        if len(flat) <= _WIDTH or not self.items:
            yield flat
            return
        yield f"{outer}{self.begin}"
        if len(together) <= _WIDTH:
            yield together
        else:
            comma = "," if len(self.items) > 1 else ""
            for item in self.items:
                yield from [f"{inner}{item}{comma}"] if isinstance(item, str) else item.lines(indent + 4, comma)
        yield f"{outer}{self.end}{behind}"


def render_test_file(request: Request) -> str:
    """The text of the file: a test function for each workload, in each of the cells."""
    marks, is_one = tuple(_marks(request)), len(request.workloads) == 1
    parts = [list(_test(one, marks if is_one else ())) for one in request.workloads]
    if marks and not is_one:
        # a function has two blank lines before it, a statement one
        parts[0] = [*_Code("pytestmark = [", marks, "]").lines(), "", "", *parts[0]]
    else:
        parts[0] = ["", *parts[0]]
    needs_pytest = marks or not all(one.made.needs_image for one in request.workloads)
    imports = [*(["import pytest"] if needs_pytest else []), *_import(request)]
    return "\n".join([_HEAD, "", *imports, "", "\n\n\n".join(map("\n".join, parts)), ""])


def _import(request: Request) -> list[str]:
    classes = sorted({one.call.partition(".")[0] for one in request.workloads})
    line = f"from pytest_vmstorage import {', '.join(classes)}"
    # ruff has a line for each name where one does not hold them
    broken = ["from pytest_vmstorage import (", *(f"    {name}," for name in classes), ")"]
    return [line] if len(line) <= _WIDTH else broken


def _test(one: Measured, marks: Sequence[_Code]) -> Iterator[str]:
    """The lines of a test function, with its decorators."""
    options = [f"{name}={_literal(value)}" for name, value in one.options.items()]
    workload = _Code(f"{one.call}(", (*([_literal(one.job)] if one.job else []), *options), ")")
    declared = () if one.made.needs_image else (_Code("pytest.mark.workload(", (workload, *_bounds(one)), ")"),)
    for mark in (*marks, *declared):
        yield from mark._replace(begin=f"@{mark.begin}").lines()
    head = f"def {one.test}({one.fixture}):"
    yield from [head] if len(head) <= _WIDTH else [f"def {one.test}(", f"    {one.fixture},", "):"]
    if declared:
        yield "    pass"
        return
    yield from _Code(f"{'result = ' if one.thresholds else ''}{one.fixture}(", (workload,), ")").lines(4)
    for metric, sign, number in one.thresholds:
        yield f"    assert result.{metric} {sign} {number:.15g}"


def _bounds(one: Measured) -> Iterator[_Code]:
    """The mark's thresholds, by metric."""
    for name, wanted in (("at_least", ">="), ("at_most", "<=")):
        bounds = tuple(f'"{metric}": {number:.15g}' for metric, sign, number in one.thresholds if sign == wanted)
        if bounds:
            yield _Code(f"{name}={{", bounds, "}")


def _marks(request: Request) -> Iterator[_Code]:
    """A mark for each axis, or one for all where not every combination is a cell, and one for the fixed fields."""
    axes, rows = request.axes, request.rows
    if rows is not None and len(axes) > 1:
        yield _parametrize(
            _Code("(", tuple(map(_literal, axes)), ")"),
            [_Code("pytest.param(", (*map(_literal, row), f"id={_literal(_id(axes, row))}"), ")") for row in rows],
        )
    else:
        for name, values in axes.items():
            kept = values if rows is None else [value for (value,) in rows]
            yield _parametrize(_literal(name), [_literal(value) for value in kept])
    if request.storage:
        fields = tuple(f"{name}={_literal(value)}" for name, value in request.storage.items())
        yield _Code("pytest.mark.storage(", fields, ")")


def _parametrize(names: str | _Code, values: Sequence[str | _Code]) -> _Code:
    return _Code("pytest.mark.parametrize(", (names, _Code("[", tuple(values), "]")), ")")


def _id(names: Iterable[str], row: Iterable[object]) -> str:
    return cell_text(dict(zip(names, row, strict=True)))


def _literal(value: object) -> str:
    """The value as Python has it, texts in the quotes that ruff prefers."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_literal(name)}: {_literal(one)}' for name, one in value.items())}}}"
    if not isinstance(value, str) or not value.isprintable():
        return repr(value)
    quote = "'" if value.count('"') > value.count("'") else '"'
    escaped = value.replace("\\", "\\\\").replace(quote, f"\\{quote}")
    return f"{quote}{escaped}{quote}"

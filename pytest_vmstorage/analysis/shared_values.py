"""Values that cells which regressed have in common: the fewest values of axes that all of them share; pure."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

_LISTED = 3
"""Up to this number cells are named where they have nothing in common."""


class Compared(NamedTuple):
    """A cell that was compared: its value on each axis, as text, and whether it regressed."""

    values: Mapping[str, str]
    regressed: bool


Condition = tuple[tuple[str, str], ...]
"""Axes, each with the value that a cell must have."""

Values = Mapping[str, None]
"""Values of an axis, each once, in the order met."""


class Shared(NamedTuple):
    """A condition that all regressions meet, and other conditions of as many axes that separate them as well."""

    condition: Condition
    equally: tuple[Condition, ...]


def shared_by(cells: Sequence[Compared]) -> str:
    """The values that regressions among these cells share, as a sentence without full stop; empty without a regression.

    All cells name the same axes. The sentence has the condition of fewest axes that all regressions meet and that the
    fewest other cells meet; the counts of cells that meet it and regressed or not; the axes that do not matter, because
    there are regressions at each of their values that meet it; and the values without a regression.
    """
    bad = [cell for cell in cells if cell.regressed]
    axes = [axis for axis in (cells[0].values if cells else ()) if len(_values(cells, axis)) > 1]
    if not bad:
        return ""
    if len(cells) == 1:
        return "the only cell that was compared regressed"
    if len(bad) == 1:
        return f"1 of {len(cells)} cells regressed{_in(bad, axes)}: a single one shares nothing with another"
    if len(bad) == len(cells):
        return f"all {len(cells)} cells regressed: {_no_difference(axes)}"
    found = find_shared(cells)
    if found is None:
        return _nothing_shared(cells, bad, axes)
    condition, equally = found
    met = [cell for cell in cells if meets(cell, condition)]
    others = len(cells) - len(met)
    said = _text(condition)
    counts = f"{len(bad)} of {len(met)} cells with {said} regressed, 0 of {others} others"
    same = f"; {' or '.join(map(_text, equally))} tells them apart as well" if equally else ""
    return f"all {len(bad)} regressions have {said}{_rest(cells, condition)}{same} ({counts})"


def find_shared(cells: Sequence[Compared]) -> Shared | None:
    """The condition that `shared_by` tells; None where the regressions have no value of an axis in common.

    The axes are those that vary over all cells; of equal conditions the first in the order of the axes is the one.
    """
    bad = [cell for cell in cells if cell.regressed]
    common = [
        (axis, next(iter(there)))
        for axis in (cells[0].values if cells else ())
        if len(there := _values(bad, axis)) == 1 and len(_values(cells, axis)) > 1
    ]
    if not common:
        return None
    # all common values together exclude the most other cells: find the smallest condition that excludes as many
    fewest = _met(cells, tuple(common))
    for size in range(1, len(common) + 1):
        found = [condition for condition in itertools.combinations(common, size) if _met(cells, condition) == fewest]
        if found:
            return Shared(found[0], tuple(found[1:]))
    return None


def meets(cell: Compared, condition: Condition) -> bool:
    """Whether the cell has all these values."""
    return all(cell.values[axis] == value for axis, value in condition)


def _met(cells: Sequence[Compared], condition: Condition) -> int:
    return sum(meets(cell, condition) for cell in cells)


def _values(cells: Collection[Compared], axis: str) -> Values:
    return dict.fromkeys(cell.values[axis] for cell in cells)


def _text(condition: Condition) -> str:
    return " and ".join(f"{axis}={value}" for axis, value in condition)


def _rest(cells: Sequence[Compared], condition: Condition) -> str:
    """Clauses on the other axes, among the cells that meet the condition."""
    idle = idle_axes(cells, condition)
    do = "does" if len(idle) == 1 else "do"
    spared = [
        f"none at {axis}={' or '.join(value for value in there if value not in hit)}"
        for axis, there, hit in _open_axes(cells, condition)
        if len(hit) < len(there)
    ]
    return "".join(f"; {part}" for part in [*([f"{_listed(idle)} {do} not matter"] if idle else []), *spared])


def idle_axes(cells: Sequence[Compared], condition: Condition) -> tuple[str, ...]:
    """Axes that do not matter where the condition is met: there are several values there, and regressions at each."""
    return tuple(axis for axis, there, hit in _open_axes(cells, condition) if len(hit) == len(there))


def _open_axes(cells: Sequence[Compared], condition: Condition) -> Iterator[tuple[str, Values, Values]]:
    """Axes that the condition leaves open: their values where it is met, and those at which something regressed."""
    met = [cell for cell in cells if meets(cell, condition)]
    bad = [cell for cell in met if cell.regressed]
    for axis in met[0].values:
        there = _values(met, axis)
        if axis not in dict(condition) and len(there) > 1:
            yield axis, there, _values(bad, axis)


def _nothing_shared(cells: Sequence[Compared], bad: Sequence[Compared], axes: Sequence[str]) -> str:
    counts = f"{len(bad)} of {len(cells)} cells regressed"
    if len(bad) <= _LISTED or len(axes) == 1:
        return f"{counts}{_in(bad, axes)}: they have nothing in common"
    return f"{counts}, and they have nothing in common{_rest(cells, ())}"


def _no_difference(axes: Sequence[str]) -> str:
    if not axes:
        return "they differ in no axis"
    return f"{_listed(axes)} {'does' if len(axes) == 1 else 'do'} not matter"


def _in(bad: Sequence[Compared], axes: Sequence[str]) -> str:
    named = [" ".join(f"{axis}={cell.values[axis]}" for axis in axes) for cell in bad]
    return f" ({'; '.join(named)})" if axes else ""


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

"""Views of a matrix: one metric over a choice of axes, each cell one row of the table or a request to choose; pure.

`script.js` has the same rules for views that the reader chooses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from pytest_vmstorage.analysis.axis_effects import Moved
from pytest_vmstorage.report.html.figures import Figures, Range

MOST_ACROSS = 8
"""A table of more columns is wider than a screen."""


class Reference(NamedTuple):
    """The figure that others are divided by: the best shown, that of one row, or the same cell with another value."""

    axis: str = ""
    value: str = ""
    row: int | None = None


BEST = Reference()


@dataclass(frozen=True)
class View:
    """A metric by its column; axes down and across, and of other axes the values that are left.

    `only` has the values of axes of which not all are wanted.
    """

    column: int
    down: tuple[str, ...]
    across: str = ""
    only: Mapping[str, frozenset[str]] = field(default_factory=dict)
    reference: Reference = BEST


class CellRatio(NamedTuple):
    """How many times as fast as the reference, and the interval: the smallest and the largest ratio of both ranges.

    `is_known` is False where either has a single round, whose spread is unknown.
    """

    times: float
    low: float
    high: float
    is_known: bool

    @property
    def is_sure(self) -> bool:
        """Whether the interval does not hold 1."""
        return self.is_known and not self.low <= 1 <= self.high

    @property
    def level(self) -> int:
        """The step of its colour, 1 to 4, negative for slower; 0 where it is not sure."""
        size = max(self.times, 1 / self.times)
        step = 1 + sum(size >= limit for limit in LEVELS)
        return 0 if not self.is_sure else step if self.times > 1 else -step

    def __str__(self) -> str:
        around = f"{self._said(self.low)} to {self._said(self.high)}" if self.is_known else "one round: spread unknown"
        return f"{self._said(self.times)}x ({around})"

    def _said(self, ratio: float) -> str:
        """Two digits behind the point, and four where a ratio that is sure would read as 1."""
        return f"{ratio:.4f}" if self.is_sure and abs(ratio - 1) < 0.005 else f"{ratio:.2f}"


LEVELS = (1.1, 1.25, 2.0)
"""Ratios from which a colour is stronger; `script.js` has the same."""


class Spot(NamedTuple):
    """A cell of a view: the row of the table that it shows, None where none is there or several are.

    `choose` says of which axes a value must be chosen before it can show anything.
    """

    row: int | None = None
    choose: str = ""
    ratio: CellRatio | None = None
    is_reference: bool = False


class Grid(NamedTuple):
    """A view laid out: the values of each row and column, and a spot for each pair of them."""

    down: Sequence[tuple[str, ...]]
    across: Sequence[str]
    spots: Sequence[Sequence[Spot]]


def default_view(figures: Figures, moved: Sequence[Moved]) -> View:
    """The first metric; across the axis that moves it most, and down all others, so that no cell has two rows.

    The acceleration is left out where it says of rows only whether they are native, which `backing` says already.
    """
    shown = [name for name in figures.axes if name != "accel" or _says_more_than_backing(figures)]
    names = [name for name in figures.axes if name not in ("host", "accel")]
    workload = figures.columns[0].workload
    order = [effect.axis for one in moved if one.workload.startswith(workload) for effect in one.effects]
    fitting = [name for name in names if 2 <= len(figures.values[name]) <= MOST_ACROSS]
    widest = sorted(fitting, key=lambda name: -len(figures.values[name]))
    across = next((name for name in [*order, *widest] if name in fitting), "") if len(shown) > 1 else ""
    return View(column=0, down=tuple(name for name in shown if name != across), across=across)


def _says_more_than_backing(figures: Figures) -> bool:
    """Whether rows differ in their acceleration beyond that native rows have none."""
    if "backing" not in figures.axes:
        return True
    accel, backing = (figures.axes.index(name) for name in ("accel", "backing"))
    found = {(row[accel], row[backing] == "native") for row in figures.rows}
    return len(found) > len({is_native for _, is_native in found})


def lay_out(figures: Figures, view: View, most: int | None = None) -> Grid:
    """The grid of that view; its rows and columns stand in the order of the table.

    It has spots for the first `most` of its rows, None for all of them.
    """
    places = [figures.axes.index(name) for name in view.down]
    wide = figures.axes.index(view.across) if view.across else None
    members: dict[tuple[str, ...], dict[str, list[int]]] = {}
    for row, values in enumerate(figures.rows):
        if _is_wanted(figures, view, row):
            line = members.setdefault(tuple([values[i] for i in places]), {})
            line.setdefault("" if wide is None else values[wide], []).append(row)
    there = {value for line in members.values() for value in line}
    across = [value for value in (figures.values[view.across] if view.across else ("",)) if value in there]
    alone = [inside[0] for line in members.values() for inside in line.values() if len(inside) == 1]
    bases = _Bases(figures, view, sorted(alone))
    spots = [
        [bases.compared(_only_one(figures, line[value])) if value in line else Spot() for value in across]
        for line in islice(members.values(), most)
    ]
    return Grid(list(members), across, spots)


def _is_wanted(figures: Figures, view: View, row: int) -> bool:
    if not figures.is_measured(row, view.column):
        return False
    values = figures.rows[row]
    return all(values[figures.axes.index(name)] in kept for name, kept in view.only.items())


def _only_one(figures: Figures, rows: Sequence[int]) -> Spot:
    """The one row of these, or which axes have several values among them."""
    if len(rows) == 1:
        return Spot(row=rows[0])
    counts = {name: len({figures.rows[row][i] for row in rows}) for i, name in enumerate(figures.axes)}
    said = [f"{count} values of {name}" for name, count in counts.items() if count > 1]
    return Spot(choose=f"{', '.join(said) or f'{len(rows)} rows'}: choose one")


class _Bases:
    """The reference of each row in a view."""

    def __init__(self, figures: Figures, view: View, rows: Sequence[int]) -> None:
        self._figures, self._view = figures, view
        self._way = metric.better if (metric := figures.columns[view.column].metric) else "neither"
        self._best: dict[tuple[str, str], int] = {}
        for row in rows:
            mine = self._range(row)
            if mine:
                theirs = self._range(self._best.get(figures.apart[row]))
                if theirs is None or self._is_better(mine.middle, theirs.middle):
                    self._best[figures.apart[row]] = row
        has_axis = bool(view.reference.axis)
        self._places = {values: row for row, values in enumerate(figures.rows)} if has_axis else {}

    def _range(self, row: int | None) -> Range | None:
        return None if row is None else self._figures.ranges[row][self._view.column]

    def _is_better(self, one: float, other: float) -> bool:
        return one < other if self._way == "lower" else one > other

    def compared(self, spot: Spot) -> Spot:
        """The spot with its ratio to the reference, where it has both."""
        if spot.row is None or self._way == "neither":
            return spot
        base = self._base_of(spot.row)
        if base == spot.row:
            return spot._replace(is_reference=True)
        mine, theirs = self._range(spot.row), self._range(base)
        if base is None or mine is None or theirs is None or not self._may_compare(spot.row, base):
            return spot
        return spot._replace(ratio=ratio_of(mine, theirs, is_rate=self._way == "higher"))

    def _base_of(self, row: int) -> int | None:
        axis, value, chosen = self._view.reference
        if chosen is not None:
            return chosen
        if not axis:
            return self._best.get(self._figures.apart[row])
        place = self._figures.axes.index(axis)
        values = self._figures.rows[row]
        return self._places.get((*values[:place], value, *values[place + 1 :]))

    def _may_compare(self, row: int, base: int) -> bool:
        """Whether both are of one host, and of one acceleration; the host itself is compared with KVM, not with TCG."""
        (host, accel), (other_host, other_accel) = self._figures.apart[row], self._figures.apart[base]
        return host == other_host and (accel == other_accel or "tcg" not in (accel, other_accel))


def ratio_of(mine: Range, theirs: Range, *, is_rate: bool) -> CellRatio | None:
    """The ratio of two speeds: of rates as they are, of times inverted; None where a figure is not above 0."""
    if min(mine.low, theirs.low) <= 0:
        return None
    fast, slow = (mine, theirs) if is_rate else (theirs, mine)
    is_known = min(mine.rounds, theirs.rounds) > 1
    return CellRatio(fast.middle / slow.middle, fast.low / slow.high, fast.high / slow.low, is_known)

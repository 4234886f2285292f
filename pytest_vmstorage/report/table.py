"""The comparison matrix as a value: rows are configurations, columns are workloads and metrics; pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple, get_args

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.analysis.axis_effects import Moved, effects
from pytest_vmstorage.analysis.columns import Column, Placed, columns_of, function_of, place, spread_around
from pytest_vmstorage.analysis.gate.kinds import Kind
from pytest_vmstorage.analysis.gate.verdicts import Comparison, Verdict
from pytest_vmstorage.config.cell import AXES, FIELDS, StorageConfig, varying_fields
from pytest_vmstorage.config.selector import value_text
from pytest_vmstorage.report.curves import PointTable, build_curves
from pytest_vmstorage.report.maps import build_maps
from pytest_vmstorage.report.sections import LEGENDS, Section, build_sections, host_lines, host_names, mark_of, tally
from pytest_vmstorage.report.time_spent import time_line
from pytest_vmstorage.results.failures import OUTCOMES
from pytest_vmstorage.results.run import Failure, Measurement, Metric, Run
from pytest_vmstorage.results.saved import host_of
from pytest_vmstorage.units import format_figure

BEST, WORST = "▲", "▼"

BARE = ("host", "format", "cache", "bus", "preallocation", "accel")
"""Axes whose values need no name in each row."""

_IEC, _SI = "MiB/s", "MB/s"
_SI_FACTOR = 2**20 / 10**6


class TableCell(BaseModel):
    """The content of a row and column in parts, so that a format can align them; all empty: not measured.

    `values` are the figure's rounds in the column's unit, () where there is no number.
    """

    model_config = ConfigDict(frozen=True)

    figure: str = ""
    spread: str = ""
    mark: str = ""
    change: str = ""
    told: str = ""
    failure: str = ""
    outcome: str = "failed"
    values: tuple[float, ...] = ()

    @property
    def value(self) -> float | None:
        """The median of its rounds, None where there is no number."""
        return statistics.median(self.values) if self.values else None

    @property
    def parts(self) -> tuple[str, str, str, str, str]:
        """Figure, spread, mark, change, and the test's outcome, in reading order."""
        return (self.figure, self.spread, self.mark, self.change, self.told)

    @property
    def text(self) -> str:
        """The cell on one line: "14.2k IOPS ±3 % ▲", "failed: ...", or "-" where nothing was measured."""
        if self.failure:
            return f"{self.outcome}: {self.failure}"
        return " ".join(part for part in self.parts if part) or "-"

    @property
    def name(self) -> str:
        """A failure's outcome with its name, "" where it has none: "failed: disk did not appear"."""
        name = self.failure.partition(": ")[0]
        return f"{self.outcome}: {name}" if name in OUTCOMES else ""


class TableRow(BaseModel):
    """A configuration on a host: the values of the table's axes, and a cell for each column."""

    model_config = ConfigDict(frozen=True)

    axes: tuple[str, ...]
    cells: tuple[TableCell, ...]


class Table(BaseModel):
    """The matrix: the caption with the values that all rows share, the axes in which they differ, and the parts below.

    `functions` are the tests that measured each column, with commas between several. `tests` says how many passed and
    failed, `hosts` where, a line for each; `point_tables` are curves of the same rows, in the order of the swept
    values, and iozone's maps. `time` says where the run's time went, `moved` are the effects of the axes. All of these
    are "" or () where that is unknown.
    """

    model_config = ConfigDict(frozen=True)

    caption: str
    axes: tuple[str, ...]
    columns: tuple[Column, ...]
    functions: tuple[str, ...] = ()
    rows: tuple[TableRow, ...]
    legend: str
    tests: str = ""
    hosts: tuple[str, ...] = ()
    time: str = ""
    point_tables: tuple[PointTable, ...] = ()
    sections: tuple[Section, ...]
    moved: tuple[Moved, ...] = ()

    @property
    def shown_axes(self) -> tuple[int, ...]:
        """The places of its axes, without an acceleration that all rows share: the line on the host names it."""
        return tuple(
            i for i, name in enumerate(self.axes) if name != "accel" or len({row.axes[i] for row in self.rows}) > 1
        )

    @property
    def names(self) -> list[str]:
        """Each row in words: its values of the axes, behind the names of those that not everybody knows."""
        return self._names(self.rows)

    def name_of(self, row: TableRow) -> str:
        """One of them; it takes a look at all rows."""
        return self._names([row])[0]

    def _names(self, rows: Sequence[TableRow]) -> list[str]:
        shown = [(i, "" if self.axes[i] in BARE else f"{self.axes[i]}=") for i in self.shown_axes]
        return [" ".join([name + row.axes[i] for i, name in shown if row.axes[i] != NOTHING]) for row in rows]


class _Place(NamedTuple):
    """A row: one configuration on one host, under that host's acceleration.

    `stated` are the values by field that vmstorage.toml gives for a foreign machine; `lacking` are the fields that the
    row does not have.
    """

    host: str
    accel: str
    config: StorageConfig
    stated: tuple[tuple[str, str], ...] = ()
    lacking: frozenset[str] = frozenset()

    def lacks(self, name: str) -> bool:
        """Whether it does not have that axis."""
        return name in self.lacking

    @property
    def has_guest(self) -> bool:
        """Whether a guest was part of it: every guest is on some bus."""
        return "bus" not in self.lacking


class _Grid:
    """The cells by numbers of rows and columns: a matrix has thousands of rows, whose hashes take long to make.

    `rows` are numbered as they are met, `columns` in the order of the table.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self.rows: list[_Place] = []
        self.columns = {column: number for number, column in enumerate(columns)}
        self.cells: dict[tuple[int, int], TableCell] = {}
        self._rows: dict[_Place, int] = {}

    def row(self, place: _Place) -> int:
        """The number of that row, a new one for a new row."""
        number = self._rows.setdefault(place, len(self.rows))
        if number == len(self.rows):
            self.rows.append(place)
        return number

    def put(self, row: int, column: Column, cell: TableCell) -> None:
        """Put a cell where there is none yet, if the table has that column."""
        if column in self.columns:
            self.cells.setdefault((row, self.columns[column]), cell)


def build_table(run: Run, comparison: Comparison | None = None, *, si: bool = False) -> Table:
    """The matrix of this run, with the change against a baseline beside each figure when one is given.

    With `si` data rates are in MB/s.
    """
    if si:
        run = run.model_copy(update={"measurements": tuple(map(_to_si, run.measurements))})
    placed = place(run)
    columns = columns_of(placed, run.failures)
    grid = _Grid(columns)
    _fill(grid, run, placed, comparison)
    _mark(grid, columns)
    _add_failures(run, placed, grid)
    there = {row: grid.rows[row] for row, _ in grid.cells}
    varying = varying_fields(row.config for row in there.values())
    order = _in_order(there, host_names(run), varying)
    rows = [there[number] for number in order]
    texts = _axes(rows, varying)
    axes = tuple(texts)
    cells_of_points = _cells_of_points(run, axes)
    moved = effects(run, placed)
    return Table(
        caption=_caption(rows, axes),
        axes=axes,
        columns=columns,
        functions=_functions(placed, columns),
        rows=tuple(
            TableRow(
                axes=tuple([column[place] for column in texts.values()]),
                cells=tuple([grid.cells.get((number, column), _EMPTY) for column in range(len(columns))]),
            )
            for place, number in enumerate(order)
        ),
        legend=_legend(grid.cells.values(), rows),
        tests=tally(run),
        hosts=tuple(host_lines(run)),
        time=time_line(run.timelines),
        point_tables=(*build_curves(placed, *cells_of_points), *build_maps(placed, *cells_of_points)),
        sections=build_sections(run, comparison, moved),
        moved=moved,
    )


_EMPTY = TableCell()


def _functions(placed: Sequence[Placed], columns: Sequence[Column]) -> tuple[str, ...]:
    found: dict[Column, dict[str, None]] = {column: {} for column in columns}
    for each in placed:
        function = function_of(each.key.nodeid)
        for column in each.columns:
            found[column][function] = None
    return tuple(", ".join(functions) for functions in found.values())


def _to_si(m: Measurement) -> Measurement:
    """The measurement with each metric in MiB/s as one in MB/s, 10**6 bytes a second."""
    names = {metric.name for metric in m.metrics if metric.unit == _IEC}
    if not names:
        return m

    def converted(metric: Metric) -> Metric:
        return metric.model_copy(update={"unit": _SI}) if metric.unit == _IEC else metric

    figures = (
        {name: value * _SI_FACTOR if name in names else value for name, value in sample.figures.items()}
        for sample in m.samples
    )
    samples = (s.model_copy(update={"figures": each}) for s, each in zip(m.samples, figures, strict=True))
    left_out = (one.model_copy(update={"metric": converted(one.metric)}) for one in m.left_out)
    metrics = tuple(map(converted, m.metrics))
    return m.model_copy(update={"metrics": metrics, "samples": tuple(samples), "left_out": tuple(left_out)})


def _fill(grid: _Grid, run: Run, placed: Sequence[Placed], comparison: Comparison | None) -> None:
    """Put the measurements into the grid."""
    for each in placed:
        m = each.measurement
        row = grid.row(_place(m, run))
        for one in m.left_out:
            # it stands in the column in which other rows have the figure
            others = each.columns[0].model_copy(update={"metric": one.metric})
            grid.put(row, others, TableCell(failure=one.why, outcome="left out"))
        mark = mark_of(m, comparison.of(each.key, m.host, m.primary) if comparison else None)
        for name, shown in zip(m.shown, each.columns, strict=True):
            verdict = comparison.of(each.key, m.host, name) if comparison else None
            grid.cells[row, grid.columns[shown]] = _cell(m, name, shown, verdict, mark)


def _place(one: Measurement | Failure, run: Run) -> _Place:
    host, kind = host_of(run, one.host), one.config.backing_kind
    accel = host.accel_of(one.config, on_host=one.on_host)
    stated = tuple(host.stated.items()) if kind == "machine" else ()
    # a guest with storage has every field; a matrix has thousands of them
    is_whole = kind not in ("native", "machine", "null") and not one.on_host
    lacking = frozenset(() if is_whole else (name for name in FIELDS if one.lacks(name)))
    return _Place(one.host, accel, one.config, stated, lacking)


def _cells_of_points(run: Run, axes: Sequence[str]) -> tuple[Sequence[str], Callable[[Measurement], tuple[str, ...]]]:
    """The axes of point tables, and a measurement's values of them; its configuration where rows do not differ."""
    names = [name for name in axes if name != "accel"]
    if not names:
        return ("cell",), lambda m: (str(m.config),)
    return names, lambda m: tuple(_axis(_place(m, run), name) for name in names)


def _cell(m: Measurement, name: str, column: Column, verdict: Verdict | None, told: str) -> TableCell:
    values, metric = m.values(name), column.metric or m.metric(name)
    if not all(map(math.isfinite, values)):
        return TableCell(figure="no number", change=change_text(verdict), told=told)
    median = statistics.median(values)
    text, spread = format_figure(median, metric.unit), spread_around(median, values)
    return TableCell(figure=text, spread=spread, change=change_text(verdict), told=told, values=values)


def change_text(verdict: Verdict | None) -> str:
    """The change against the baseline: "-12.9 % REGRESSED", "+1.0 %", "no baseline", "not compared"."""
    if verdict is None or verdict.kind is Kind.INVALID:
        return "" if verdict is None else "INVALID"
    if verdict.change is None:
        return "no baseline" if verdict.reason.endswith("no such cell.") else "not compared"
    # the verdict PASS is not shown
    loud = verdict.gates and verdict.kind is not Kind.PASS
    said = f" {'waived' if verdict.waiver else verdict.kind}" if loud else ""
    return f"{verdict.change * 100:+.1f} %{said}"


def _mark(grid: _Grid, columns: Sequence[Column]) -> None:
    """Mark best and worst of each column, separately for each host and acceleration, which are never compared.

    A mark holds in every round: there is none for cells whose rounds overlap, or that had a single round.
    """
    groups: dict[tuple[int, str, str], list[tuple[int, int]]] = {}
    for (row, column), cell in grid.cells.items():
        if cell.values:
            place = grid.rows[row]
            groups.setdefault((column, place.host, place.accel), []).append((row, column))
    for (column, *_), spots in groups.items():
        metric = columns[column].metric
        if len(spots) < 2 or metric is None or metric.better == "neither":
            continue
        marks = (WORST, BEST) if metric.better == "lower" else (BEST, WORST)
        ends = _ends([grid.cells[spot].values for spot in spots])
        for end, mark in zip(ends, marks, strict=True):
            if end is not None:
                grid.cells[spots[end]] = grid.cells[spots[end]].model_copy(update={"mark": mark})


def _ends(rounds: Sequence[Sequence[float]]) -> tuple[int | None, int | None]:
    """The place whose rounds are all above those of every other, and the one whose are all below.

    None where there is none, and where any has a single round, whose spread is unknown.
    """
    if any(len(values) < 2 for values in rounds):
        return None, None
    lows, highs = [min(values) for values in rounds], [max(values) for values in rounds]
    top, bottom = lows.index(max(lows)), highs.index(min(highs))
    is_above = lows[top] > max(highs[:top] + highs[top + 1 :])
    is_below = highs[bottom] < min(lows[:bottom] + lows[bottom + 1 :])
    return top if is_above else None, bottom if is_below else None


def _add_failures(run: Run, placed: Sequence[Placed], grid: _Grid) -> None:
    """Put a failure into every empty cell of its row in which its test would have put figures."""
    if not run.failures:
        return
    columns: dict[str, dict[Column, None]] = {}
    for each in placed:
        columns.setdefault(function_of(each.key.nodeid), {}).update(dict.fromkeys(each.columns))
    for failure in run.failures:
        row = grid.row(_place(failure, run))
        function = function_of(failure.nodeid)
        for column in columns.get(function, {Column(workload=function): None}):
            cell = TableCell(failure=failure.reason.partition("\n")[0], outcome=failure.outcome)
            grid.put(row, column, cell)


def _in_order(rows: Mapping[int, _Place], hosts: Sequence[str], varying: Sequence[str]) -> list[int]:
    """The numbers of these rows by host as met, then size, then the axes: values as declared, numbers by size.

    What a row lacks comes after all that others have. `varying` are the fields in which any two of the rows differ.
    """
    lackings = {row.lacking for row in rows.values()}
    # axes in which no two rows differ put none before another
    names = [name for name in AXES if name in varying or len({name in lacking for lacking in lackings}) > 1]

    def order(number: int) -> tuple[object, ...]:
        row = rows[number]
        ranks = [_LAST if name in row.lacking else _rank(name, getattr(row.config, name)) for name in names]
        return (hosts.index(row.host), row.config.size, *ranks)

    return sorted(rows, key=order)


_LAST = (2**63, "")


@lru_cache(maxsize=4096)
def _rank(name: str, value: object) -> tuple[int, str]:
    declared = get_args(StorageConfig.model_fields[name].annotation)
    if value in declared:
        return declared.index(value), ""
    # an axis of numbers, sizes or yes and no; what is not set comes first
    return (int(value), "") if isinstance(value, int) else (-1, str(value or ""))


NOTHING = "-"
"""The value of an axis that a row does not have, as it has no guest or no storage."""

STATED = "(stated)"
"""The mark of a value that nothing proves: vmstorage.toml states it of a foreign machine."""


def _axis(row: _Place, name: str) -> str:
    if name in ("host", "accel"):
        return str(getattr(row, name))
    if name not in _NAMES or name in row.lacking:
        stated = dict(row.stated).get(name)
        return NOTHING if stated is None else f"{stated} {STATED}"
    return _value_text(name, getattr(row.config, name))


_NAMES = frozenset(FIELDS)


@lru_cache(maxsize=4096)
def _value_text(name: str, value: object) -> str:
    """A field's value in its column, which names the field; thousands of rows have few values."""
    return value_text(name, value)


def _axes(rows: Sequence[_Place], varying: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """The axes in which rows differ, with the text of each row; `varying` are the fields in which any differ.

    The acceleration is among them also when any row is emulated, so that each row says so.
    """
    stated = {name: None for row in rows for name, _ in row.stated}
    others = [name for name in stated if name not in _NAMES]
    # native and null rows lack fields; that alone does not make one a column
    fields = [name for name in AXES if name in varying or name in stated]
    sizes = ["size"] if "size" in varying or "size" in stated else []
    texts = {name: [_axis(row, name) for row in rows] for name in ("host", *fields, *others, *sizes, "accel")}
    emulated = any(row.accel == "tcg" for row in rows)
    return {
        name: column
        for name, column in texts.items()
        if name in stated or _differ(rows, name, column) or (name == "accel" and emulated)
    }


def _differ(rows: Sequence[_Place], name: str, texts: Sequence[str]) -> bool:
    """Whether those rows that have an axis differ in it; the first two that do decide it."""
    if len(set(texts)) == 1:
        return False
    having = (text for row, text in zip(rows, texts, strict=True) if not _has_none(row, name))
    first = next(having, "")
    return any(text != first for text in having)


def _has_none(row: _Place, name: str) -> bool:
    return row.accel == "native" if name == "accel" else name in row.lacking


def _caption(rows: Sequence[_Place], axes: Sequence[str]) -> str:
    """The values that all rows share, without uninteresting defaults."""
    if not rows:
        return "nothing was measured"
    # axes that rows without a guest do not have are those of the other rows
    shown = min(rows, key=lambda row: (not row.has_guest, row.config.is_null))
    common = [name for name in ("format", "cache", "bus", "preallocation", "size") if name not in axes]
    common += [name for name in AXES[4:] if name not in axes and shown.config.is_chosen(name)]
    said = ("format", "cache", "bus")
    there = [name for name in common if not shown.lacks(name)]
    texts = [_axis(shown, name) if name in said else f"{name} {_axis(shown, name)}" for name in there]
    which = "all rows" if len(rows) > 1 else "one row"
    if shown.has_guest and any(not row.has_guest for row in rows):
        which = "all rows with a guest"
    if not shown.config.is_null and any(row.config.is_null for row in rows):
        which = "all rows with an image"
    return f"{which}: {', '.join(texts)}" if texts else ""


def _legend(cells: Iterable[TableCell], rows: Sequence[_Place]) -> str:
    there = list(cells)
    # thousands of cells have few marks and changes
    spreads, marked, changes, outcomes = (
        set(map(attrgetter(part), there)) for part in ("spread", "mark", "change", "told")
    )
    spread = "± half of smallest to largest round, in % of the median" if any("±" in one for one in spreads) else ""
    single = "n=1 one round, spread unknown" if "n=1" in spreads else ""
    apart = ["its column", *(name for name in ("host", "accel") if len({getattr(row, name) for row in rows}) > 1)]
    scope = " and ".join(filter(None, (", ".join(apart[:-1]), apart[-1]))).replace("accel", "acceleration")
    marks = f"{BEST} best and {WORST} worst of {scope} in every round" if any(marked) else ""
    change = (
        "signed % change of the figure against what it is compared with" if any("%" in one for one in changes) else ""
    )
    told = [LEGENDS[mark] for mark in LEGENDS if mark in outcomes]
    return "; ".join(part for part in (marks, spread, single, change, *told) if part)

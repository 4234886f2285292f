"""The few lines of a run that a reader wants first: best and worst, effects, doubts, verdicts, failures; pure.

All else is in the sections of the whole report.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from pytest_vmstorage.analysis.axis_effects import Effect, Moved
from pytest_vmstorage.analysis.columns import function_of
from pytest_vmstorage.analysis.gate.kinds import KINDS, Kind
from pytest_vmstorage.analysis.gate.verdicts import Comparison
from pytest_vmstorage.analysis.yardsticks import Yardsticks
from pytest_vmstorage.report.details import amount, share_of, share_words
from pytest_vmstorage.report.sections import (
    cells_without_figure,
    failed_lines,
    left_out_lines,
    note_lines,
    summary_lines,
)
from pytest_vmstorage.report.table import Table, TableCell, TableRow
from pytest_vmstorage.results.cautions import CACHED, OTHERS, SETTING, Caution
from pytest_vmstorage.results.run import Measurement, Run

MOST_ROWS = 30
"""A table of more rows is no overview."""

ROWS_THAT_MATTER = 10

TO_SEE_ALL = "-v or --vm-report=FILE"

MOST_CAUTIONS = 3

_MOST_LINES = 10
"""Of failures and verdicts, each with its reason."""

_MOST_WORKLOADS = 6

_NAMED = 4
"""So many workloads without a difference have their names."""

_WIDE = 0.20
"""Half the range of the rounds, as a fraction of their median, from which a figure is no more than a hint."""


class Line(NamedTuple):
    """A line with clauses after it, the most important first: what does not fit is left out, and counted or not."""

    text: str
    clauses: Sequence[str] = ()
    is_counted: bool = True


class Block(NamedTuple):
    """Lines with one label in front of them."""

    label: str
    lines: Sequence[Line]


def overview_blocks(run: Run, comparison: Comparison | None, table: Table) -> list[Block]:
    """The blocks that have lines, in reading order."""
    short = _short_names(table, run)
    blocks = [
        Block("failed", _some(map(_whole, _failed(run, comparison)), "more")),
        Block("skipped", _some(map(_whole, _skipped(run)), "more reasons")),
        Block("left out", list(map(_whole, left_out_lines(run)))),
        Block("verdicts", list(map(_whole, _verdicts(comparison)) if comparison else ())),
        Block("best", list(_standouts(table, short))),
        Block("effects", list(_effect_lines(table.moved, short))),
        Block("native", list(_yardsticks(run, short))),
        Block("cautions", caution_lines(run)),
        Block("notes", list(map(_whole, note_lines(run.measurements)))),
        Block("time", list(_time(table.time))),
    ]
    return [block for block in blocks if block.lines]


def _short_names(table: Table, run: Run) -> Mapping[str, str]:
    """Each workload as the table heads it, by as few of its words as tell it apart, two or more: the table has all."""
    titles = [" ".join(column.title) for column in table.columns]
    names = list(
        dict.fromkeys([*titles, *(one.workload for one in table.moved), *(m.workload for m in run.measurements)])
    )
    beginnings = Counter(" ".join(name.split()[:count]) for name in names for count in range(1, len(name.split()) + 1))

    def short(name: str) -> str:
        words = name.split()
        tried = (" ".join(words[:count]) for count in range(2, len(words)))
        return next((begin for begin in tried if beginnings[begin] == 1), name)

    return {name: short(name) for name in names}


def _time(told: str) -> Iterator[Line]:
    """The time of the run with the steps that took most of it."""
    if told:
        most, *others = told.removeprefix("time: ").replace("; ", ", ").split(", ")
        yield Line(most, others, is_counted=False)


def _whole(text: str) -> Line:
    return Line(text.partition("\n")[0])


def _some(lines: Iterable[Line], rest: str) -> list[Line]:
    found = list(lines)
    left = len(found) - _MOST_LINES
    return [*found[:_MOST_LINES], Line(f"and {left} {rest}")] if left > 0 else found


def _failed(run: Run, comparison: Comparison | None) -> Iterator[str]:
    yield from cells_without_figure(run, "failed")
    yield from failed_lines(run, comparison)


def _skipped(run: Run) -> Iterator[str]:
    """A line for each reason, with the cell or how many they are."""
    reasons: dict[str, list[str]] = {}
    for failure in run.failures:
        if failure.outcome == "skipped":
            reasons.setdefault(failure.reason, []).append(failure.config.label)
    for reason, cells in reasons.items():
        yield f"{cells[0] if len(cells) == 1 else f'{len(cells)} cells'}: {reason}"


def _verdicts(comparison: Comparison) -> Iterator[str]:
    """The counts, what regressions share, and the reasons of what is red or doubtful; of what is open, one reason."""
    first, *others = [*summary_lines(comparison), ""]
    yield f"against {comparison.against}: {first or 'nothing was compared'}"
    yield from filter(None, others)
    of = {kind: [one for one in comparison.gated if one.kind is kind] for kind in KINDS}
    loud = [one for kind in (Kind.REGRESSED, Kind.SUSPECT, Kind.INVALID) for one in of[kind]]
    yield from (f"{one.reason} {one.waiver or ''}".rstrip() for one in loud[:_MOST_LINES])
    if len(loud) > _MOST_LINES:
        yield f"and {len(loud) - _MOST_LINES} more that regressed, are suspected or invalid"
    if inconclusive := of[Kind.INCONCLUSIVE]:
        more = f" (and {len(inconclusive) - 1} more)" if len(inconclusive) > 1 else ""
        yield f"{inconclusive[0].reason}{more}"
    for one in comparison.missing[:_MOST_LINES]:
        yield f"measured before and not in this run: {one.about} ({function_of(one.nodeid)})"


class _Ranked(NamedTuple):
    """The cells of one column on one host under one acceleration, each with its row's place, the best first."""

    title: str
    cells: Sequence[tuple[int, TableCell]]

    @property
    def is_apart(self) -> bool:
        """Whether every round of the best is better than every one of the worst."""
        return not _overlap(self.cells[0][1], self.cells[-1][1])


def _overlap(one: TableCell, other: TableCell) -> bool:
    return min(one.values) <= max(other.values) and min(other.values) <= max(one.values)


def _ranked(table: Table) -> Iterator[_Ranked]:
    """The first metric of each workload, if a way is better and two cells or more have several rounds."""
    apart = [index for index, name in enumerate(table.axes) if name in ("host", "accel")]
    firsts = [next(members)[0] for _, members in groupby(enumerate(table.columns), key=lambda one: one[1].title)]
    for index in firsts:
        metric = table.columns[index].metric
        if metric is None or metric.better == "neither":
            continue
        groups: dict[tuple[str, ...], list[tuple[int, TableCell]]] = {}
        for place, row in enumerate(table.rows):
            if len(row.cells[index].values) > 1:
                group = tuple([row.axes[i] for i in apart])
                groups.setdefault(group, []).append((place, row.cells[index]))
        for cells in groups.values():
            cells.sort(key=lambda one: one[1].value or 0.0, reverse=metric.better == "higher")
            if len(cells) > 1:
                yield _Ranked(" ".join(table.columns[index].title), cells)


def _standouts(table: Table, short: Mapping[str, str]) -> Iterator[Line]:
    """The best and the worst configuration for each workload whose rounds tell them apart, then the other workloads."""
    ranked = list(_ranked(table))
    for one in ranked:
        if one.is_apart:
            yield _standout(table, one, short[one.title])
    alike = dict.fromkeys(short[one.title] for one in ranked if not one.is_apart)
    if alike:
        few = len(alike) <= _NAMED
        said = ", ".join(alike) if few else f"{len(alike)} of {len({one.title for one in ranked})} workloads"
        yield Line(f"no difference beyond spread: {said}")


def _standout(table: Table, one: _Ranked, name: str) -> Line:
    (best, first), (worst, last) = one.cells[0], one.cells[-1]
    near = sum(_overlap(first, cell) for _, cell in one.cells[1:])
    values = sorted(abs(cell.value or 0.0) for cell in (first, last))
    ratio = [f"{values[1] / values[0]:.2f}x the worst"] if values[0] else []
    others = f" (+{near} alike)" if near else ""
    text = f"{name}: {first.figure} on {table.name_of(table.rows[best])}{others}"
    return Line(text, [*ratio, f"worst {last.figure} on {table.name_of(table.rows[worst])}"], is_counted=False)


def _effect_lines(found: Sequence[Moved], short: Mapping[str, str]) -> Iterator[Line]:
    """A line for each workload that an axis moves by more than its spread, the largest first, then the others' number.

    A ratio has its interval of 95 %.
    """
    moved = [one for one in found if one.effects]
    hosts = {one.host for one in moved}
    much = [one for one in moved if one.effects[0].matters]
    for one in much[:_MOST_WORKLOADS]:
        first, *others = [_effect(effect) for effect in one.effects if effect.matters]
        where = f" on {one.host}" if len(hosts) > 1 else ""
        yield Line(f"{short[one.workload]}{where}: {first}", others)
    rest = [effect for one in moved for effect in one.effects if not effect.matters]
    unknown = sum(effect.interval is None for effect in rest)
    said = [f"{len(much) - _MOST_WORKLOADS} more workloads, less"] if len(much) > _MOST_WORKLOADS else []
    said += [_count(len(rest) - unknown, "other" if much else "") + " within the spread"] if len(rest) > unknown else []
    said += [_count(unknown, "") + " of too few rounds to tell"] if unknown else []
    if said:
        yield Line(", ".join(said))


def _count(number: int, which: str) -> str:
    return " ".join(filter(None, [str(number), which, "effect" if number == 1 else "effects"]))


def _effect(effect: Effect) -> str:
    said = f"{effect.axis} {effect.fastest} {effect.ratio:.2f}x as fast as {effect.slowest}"
    if effect.interval is None:
        return said
    return f"{said} ({effect.interval.low:.2f}x to {effect.interval.high:.2f}x)"


def _yardsticks(run: Run, short: Mapping[str, str]) -> Iterator[Line]:
    """For each workload the range of its rows' speed, in percent of their native and of their null row.

    That of one row alone has the range of its rounds.
    """
    rows = Yardsticks(run.measurements)
    shares: dict[tuple[str, str], list[tuple[float, Measurement, Measurement]]] = {}
    for m in run.measurements:
        for name, other in (("the native row", rows.native_of(m)), ("the null row", rows.null_of(m))):
            if other is not None and (share := share_of(m, other, m.primary)) is not None:
                shares.setdefault((m.workload, name), []).append((share, m, other))
    for (workload, name), found in shares.items():
        if len(found) == 1:
            _, m, other = found[0]
            said, counted = share_words(m, other, m.primary), ""
        else:
            low, high = (f"{end(share for share, *_ in found):.0%}" for end in (min, max))
            said, counted = low if low == high else f"{low} to {high}", f" ({len(found)} rows)"
        yield Line(f"{short[workload]}: {said} of {name}{counted}")


class _Doubt(NamedTuple):
    weight: int
    rows: int
    said: str
    remedy: str


def caution_lines(run: Run, most: int = MOST_CAUTIONS) -> list[Line]:
    """The doubts about the figures that matter most, each with its remedy; the last line counts the others."""
    doubts = sorted(_doubts(run.measurements), key=lambda one: (-one.weight, -one.rows))
    lines = []
    for one in doubts[:most]:
        where = "" if one.rows == len(run.measurements) else f" ({one.rows} of {len(run.measurements)})"
        lines.append(f"{one.said}{where}{f' -> {one.remedy}' if one.remedy else ''}")
    if len(doubts) > most:
        lines[-1] += f"; and {len(doubts) - most} more"
    return list(map(Line, lines))


def _doubts(measured: Sequence[Measurement]) -> Iterator[_Doubt]:
    found: dict[tuple[str, str], list[Caution]] = {}
    for m in measured:
        for key, caution in {(one.brief or one.says, one.remedy): one for one in m.cautions}.items():
            found.setdefault(key, []).append(caution)
    for (brief, remedy), cautions in found.items():
        yield _Doubt(cautions[0].weight, len(cautions), f"{brief}{amount(cautions)}", remedy)
    cells = len({m.config for m in measured})
    for weight, said, remedy, is_so, least_cells in _OF_ROUNDS:
        if cells >= least_cells and (count := sum(map(is_so, measured))):
            yield _Doubt(weight, count, said, remedy)


def _is_wide(m: Measurement) -> bool:
    values = m.values(m.primary)
    return len(values) > 1 and (max(values) - min(values)) / 2 > _WIDE * abs(statistics.median(values))


_OF_ROUNDS = (
    (
        CACHED, "one round each, whose spread is unknown", "--vm-rounds=3",
        lambda m: len(m.samples) == 1 and m.ended.reason == "count", 1,
    ),
    (OTHERS, f"rounds differ by more than ±{_WIDE:.0%}", "a quiet host, --vm-rounds=auto", _is_wide, 1),
    (
        OTHERS, "rounds rise or fall (not steady)", "a longer runtime=, more rounds",
        lambda m: m.steadiness.is_judged and not m.steadiness.is_steady, 1,
    ),
    (
        OTHERS, "the time limit came before the figure was narrow", "--vm-rounds-limit, a quiet host",
        lambda m: m.ended.reason == "time limit", 1,
    ),
    (
        SETTING, "rounds in a row: effects include the host's drift", "let cells take turns",
        lambda m: m.hygiene.get("rounds", "").startswith("in a row") and len(m.samples) > 1, 2,
    ),
)  # fmt: skip
"""Doubts about the rounds of a measurement: weight, what is said, the remedy, for which rows, from how many cells."""


def most_important(table: Table, most: int = ROWS_THAT_MATTER) -> tuple[Table, str]:
    """The table with few of its rows, and a sentence on which; a table of few rows as it is, and "".

    First those that failed, that the gate speaks against, and that are best or worst of a workload; then the next.
    """
    if len(table.rows) <= MOST_ROWS:
        return table, ""
    names = table.names
    urgent = {
        what: [name for name, row in zip(names, table.rows, strict=True) if _says(row, words)]
        for what, words in _URGENT.items()
    }
    ranked = list(_ranked(table))
    ends = [names[one.cells[end][0]] for one in ranked for end in (0, -1)]
    next_best = [names[one.cells[place][0]] for place in range(1, most) for one in ranked if place < len(one.cells)]
    # some room is left for the best: not even a run of failures shows nothing but them
    wanted = [*(name for found in urgent.values() for name in found[: most // 2]), *ends, *next_best, *names]
    chosen = set(list(dict.fromkeys(wanted))[:most])
    kept = tuple(row for name, row in zip(names, table.rows, strict=True) if name in chosen)
    counts = [f"{len(found)} {what}" for what, found in urgent.items() if found]
    said = ", ".join([*counts, "best and worst of each workload"])
    which = f"{len(kept)} of {len(names)} rows: {said}; the others: {TO_SEE_ALL}"
    return table.model_copy(update={"rows": kept}), which


_URGENT: Mapping[str, frozenset[str]] = {
    "failed": frozenset({"FAIL", "ERROR", "failed"}),
    "regressed": frozenset({Kind.REGRESSED}),
    "suspect or invalid": frozenset({Kind.SUSPECT, Kind.INVALID}),
}
"""Kinds of rows by the words in their cells, the most urgent first."""


def _says(row: TableRow, words: frozenset[str]) -> bool:
    return any(words & {cell.told, cell.outcome if cell.failure else "", *cell.change.split()} for cell in row.cells)


def written_line(paths: Sequence[Path]) -> str:
    """The files that were written, those that differ in their suffix alone as one: "wrote report/x.md, .csv"."""
    stems: dict[Path, list[str]] = {}
    for path in paths:
        stems.setdefault(path.with_suffix(""), []).append(path.suffix)
    said = [f"{stem}{', '.join(suffixes)}" for stem, suffixes in stems.items()]
    return f"wrote {' and '.join(said)}" if said else ""

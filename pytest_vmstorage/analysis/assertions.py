"""The assertions between cells of one run: the couples of each, and their bounds; pure.

No assertion is silently true. It is INCONCLUSIVE where a cell failed, rounds did not alternate, or an interval lies on
both sides of a bound, and its text has the remedy. Cells that no test was to measure are an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pytest_vmstorage.analysis.cell_pairs import (
    Couple,
    MeasuredCell,
    PairScope,
    couples_between,
    couples_of_rivals,
    has_place,
    ordered_axes,
    steps_along,
)
from pytest_vmstorage.analysis.ratios import Bounds, Judgement, missing_cell, weigh
from pytest_vmstorage.config.selector import CellSelector
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.results.run import Failure

TOLERANCE = 0.02
"""The loss of speed that a step of a curve may have: rounds vary by as much."""


class OtherWorkload(NamedTuple):
    """Another workload for the second side of a ratio: a pattern, and the name of its metric (None: the same)."""

    workload: str
    metric: str | None = None


def ratio(
    scope: PairScope,
    one: CellSelector,
    other: CellSelector,
    bounds: Bounds,
    metric: str | None = None,
    beside: OtherWorkload | None = None,
) -> Judgement:
    """Cells of one kind are so many times as fast as those of the other that are equal in all axes neither names.

    With `beside` the second side is of another workload, and may be the same cell. Raises ConfigError where else a cell
    would be of both kinds, where no such two were to be measured, and for a metric that they have not, that is no
    speed, or that counts something else on the other side.
    """
    if beside is not None:
        return _across(scope, one, other, bounds, metric, beside)
    if not any(one.values[name] != other.values[name] for name in one.values if name in other.values):
        raise ConfigError(
            f"a cell can have both {one} and {other}.",
            hint='Give an axis another value in each of them, such as cell("qcow2") and cell("raw").',
            code="VM810",
        )
    claim, rows = f"{one} is {bounds} times as fast as {other}", scope.rows()
    couples = couples_between(rows, one, other)
    if not couples:
        why = f"no two cells with {one} and with {other} are of one workload, on one host, and equal in all other axes"
        return _without_couples(claim, scope, (one, other), why)
    failed = [f for f in scope.failures(rows) if one.matches(f.config) or other.matches(f.config)]
    return _with_missing(weigh(claim, bounds, couples, scope.run, metric), failed)


def _across(
    scope: PairScope, one: CellSelector, other: CellSelector, bounds: Bounds, metric: str | None, beside: OtherWorkload
) -> Judgement:
    """The ratio of two workloads."""
    second = scope._replace(workload=beside.workload)
    rows, others = scope.rows(), second.rows()
    claim = f"{scope.workload} with {one} is {bounds} times as fast as {second.workload} with {other}"
    couples = couples_between(rows, one, other, others)
    if not couples:
        why = f"no two cells with {one} and with {other} are on one host and equal in all other axes"
        lacking, kind = (scope, one) if _absent(scope, (one,)) else (second, other)
        return _without_couples(claim, lacking, (kind,), why)
    failed = [f for f in scope.failures(rows) if one.matches(f.config)]
    failed += [f for f in second.failures(others) if other.matches(f.config)]
    return _with_missing(weigh(claim, bounds, couples, scope.run, metric, beside.metric), failed)


def fastest(scope: PairScope, chosen: CellSelector, tolerance: float = 0.0, metric: str | None = None) -> Judgement:
    """No cell is faster than the chosen one, by more than that fraction of its speed.

    Each chosen cell is held against those that are equal in all axes which the selector does not name; one that is
    chosen alone against every other cell of its workload. Raises ConfigError as `ratio` does.
    """
    bounds, rows = _not_slower(tolerance), scope.rows()
    claim = f"{chosen} is not slower than any other cell{_by_more_than(tolerance)}"
    couples = couples_of_rivals(rows, chosen)
    if not couples:
        why = f"no other cell of one workload is equal to those with {chosen} in all other axes"
        return _without_couples(claim, scope, (chosen,), why)
    return _with_missing(weigh(claim, bounds, couples, scope.run, metric), scope.failures(rows))


def monotonic(
    scope: PairScope, axis: str, *, falling: bool = False, tolerance: float = TOLERANCE, metric: str | None = None
) -> Judgement:
    """No step to the next value of an axis is slower than the one before by more than that fraction.

    With `falling` none is faster. The axis is a field of the cell whose values are numbers, or yes and no, or an option
    that curves go over, such as iodepth. Raises ConfigError for another, and as `ratio` does.
    """
    bounds, rows = _not_slower(tolerance), scope.rows()
    claim = f"no step of {axis} to its next value is {'faster' if falling else 'slower'}{_by_more_than(tolerance)}"
    if rows and not has_place(rows, axis):
        raise ConfigError(f"{axis!r} puts nothing that was measured in an order.", hint=_axes_there(rows), code="VM811")
    couples = steps_along(rows, axis)
    if not couples:
        return _without_couples(claim, scope, (), f"no cell was measured at two values of {axis} with all else equal")
    if falling:
        couples = tuple(Couple(before, step) for step, before in couples)
    return _with_missing(weigh(claim, bounds, couples, scope.run, metric), scope.failures(rows))


def _axes_there(rows: Sequence[MeasuredCell]) -> str:
    there = ordered_axes(rows)
    return f"These do: {', '.join(there)}." if there else "Nothing that has an order varies there."


def _not_slower(tolerance: float) -> Bounds:
    if not 0 <= tolerance < 1:
        raise ConfigError(
            f"a tolerance of {tolerance:g} is no fraction below 1.", hint="Write 0.02 for 2 %.", code="VM812"
        )
    return Bounds(at_least=1.0 - tolerance)


def _by_more_than(tolerance: float) -> str:
    return f" by more than {tolerance * 100:g} %" if tolerance else ""


def _with_missing(judgement: Judgement, failed: Sequence[Failure]) -> Judgement:
    return judgement.model_copy(update={"missing": tuple(map(missing_cell, failed))})


def _without_couples(claim: str, scope: PairScope, kinds: Sequence[CellSelector], why: str) -> Judgement:
    """INCONCLUSIVE where a failed or deselected cell could have made a couple; raises ConfigError otherwise."""
    why = _absent(scope, kinds) or why
    lost = [
        failure
        for failure in scope.run.failures
        if scope.has(failure.config) and (not kinds or any(kind.matches(failure.config) for kind in kinds))
    ]
    missing = [*map(missing_cell, lost), *([scope.unmeasured] if scope.unmeasured else [])]
    if not missing:
        hint = "Measure what it is about in the same run, or name other cells."
        raise ConfigError(f"whether {claim} cannot be said: {why}.", hint=hint, code="VM813")
    return Judgement(claim=claim, missing=(f"{why}: {'; '.join(missing)}",))


def _absent(scope: PairScope, kinds: Sequence[CellSelector]) -> str:
    """A clause on workloads and kinds of cells without any measurement; empty where all have one."""
    measured, rows = scope.run.measurements, scope.rows()
    if not measured:
        return "this run has measured nothing"
    if not rows:
        there = ", ".join(dict.fromkeys(m.workload for m in measured))
        where = f" in cells with {scope.where}" if scope.where else ""
        return f"no workload measured{where} matches {scope.workload!r}, of: {there}"
    absent = [str(kind) for kind in kinds if not any(kind.matches(row.config) for row in rows)]
    return f"no cell with {' and none with '.join(absent)} was measured" if absent else ""

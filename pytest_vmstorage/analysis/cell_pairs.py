"""Couples of cells of one run: of one workload, on one host, equal in all fields that are not compared; pure."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from pytest_vmstorage.analysis.columns import Placed, axes_in_ids, function_of, place, unswept
from pytest_vmstorage.config.cell import FIELDS, StorageConfig
from pytest_vmstorage.config.selector import CellSelector
from pytest_vmstorage.results.run import Failure, Measurement, Run, Sample
from pytest_vmstorage.results.saved import host_of


class MeasuredCell(NamedTuple):
    """A measurement; `test` distinguishes it from others of that workload in that cell, and is empty without any."""

    measurement: Measurement
    test: str

    @property
    def config(self) -> StorageConfig:
        """Its cell."""
        return self.measurement.config

    @property
    def is_yardstick(self) -> bool:
        """Whether other rows are compared with it: the host itself, a guest without storage, a foreign machine."""
        return self.config.backing_kind in ("native", "machine", "null")


def measured_cells(placed: Iterable[Placed]) -> Iterator[MeasuredCell]:
    """The measurements that have a column, each with what tells it apart."""
    return (MeasuredCell(each.measurement, each.columns[0].test) for each in placed if each.columns)


class Couple(NamedTuple):
    """Two measurements; a ratio is the speed of the first divided by that of the second."""

    first: Measurement
    second: Measurement


class PairScope(NamedTuple):
    """The part of a run that is compared: workloads that match the pattern, in cells that `where` matches; else all.

    `unmeasured` is a clause about tests that could have measured more and were not run.
    """

    run: Run
    workload: str = "*"
    where: CellSelector | None = None
    unmeasured: str = ""

    def rows(self) -> tuple[MeasuredCell, ...]:
        """The measurements in this part, in the order measured."""
        return tuple(
            row
            for row in measured_cells(place(self.run))
            if fnmatchcase(row.measurement.workload, self.workload) and self.has(row.config)
        )

    def has(self, config: StorageConfig) -> bool:
        """Whether that cell is in this part."""
        return self.where is None or self.where.matches(config)

    def failures(self, rows: Sequence[MeasuredCell]) -> tuple[Failure, ...]:
        """Cells that would be among these rows if their tests had not failed; skipped cells do not count.

        A failed test does not show its workloads. So it counts where its function measured some of these rows, unless
        the same test measured other workloads in another cell.
        """
        axes = axes_in_ids(self.run)
        tests = {unswept(row.measurement.nodeid, row.config, axes) for row in rows}
        others = {unswept(m.nodeid, m.config, axes) for m in self.run.measurements} - tests
        functions = {function_of(row.measurement.nodeid) for row in rows}
        measured = {row.measurement.nodeid for row in rows}
        return tuple(
            failure
            for failure in self.run.failures
            if failure.outcome == "failed" and self.has(failure.config) and failure.nodeid not in measured
            if function_of(failure.nodeid) in functions and unswept(failure.nodeid, failure.config, axes) not in others
        )


def are_alike(one: MeasuredCell, other: MeasuredCell) -> bool:
    """Whether both are of the same workload, by the same test, on the same host."""
    a, b = one.measurement, other.measurement
    return (a.workload, one.test, a.host) == (b.workload, other.test, b.host)


def differ_only_in(one: StorageConfig, other: StorageConfig, names: Collection[str]) -> bool:
    """Whether two cells are equal in all other fields; a field that one of them lacks makes no difference."""
    return all(
        one.lacks(name) or other.lacks(name) or getattr(one, name) == getattr(other, name)
        for name in FIELDS
        if name not in names
    )


def couples_between(
    rows: Sequence[MeasuredCell], one: CellSelector, other: CellSelector, others: Sequence[MeasuredCell] | None = None
) -> tuple[Couple, ...]:
    """Each cell of one kind with each of the other kind that is equal in all axes which neither selector names.

    Both are of one workload and test, unless `others` are the rows of another workload.
    """
    named = {*one.values, *other.values}
    return tuple(
        Couple(first.measurement, second.measurement)
        for first in rows
        if one.matches(first.config)
        for second in (rows if others is None else others)
        if other.matches(second.config)
        if (
            are_alike(first, second)
            if others is None
            else first.measurement.host == second.measurement.host and first.measurement is not second.measurement
        )
        if differ_only_in(first.config, second.config, named)
    )


def couples_of_rivals(rows: Sequence[MeasuredCell], chosen: CellSelector) -> tuple[Couple, ...]:
    """Each chosen cell with all others that are equal in the axes which the selector does not name.

    A cell that is chosen alone has every other cell for a rival. Yardsticks, such as a native row, are rivals only
    where the selector names `backing`.
    """
    couples = []
    for one in rows:
        if not chosen.matches(one.config):
            continue
        alike = [row for row in rows if are_alike(one, row) and ("backing" in chosen.values or not row.is_yardstick)]
        is_alone = sum(chosen.matches(row.config) for row in alike) == 1
        couples += [
            Couple(one.measurement, row.measurement)
            for row in alike
            if not chosen.matches(row.config)
            if is_alone or differ_only_in(one.config, row.config, chosen.values)
        ]
    return tuple(couples)


def steps_along(rows: Sequence[MeasuredCell], axis: str) -> tuple[Couple, ...]:
    """Each measurement with the one before it on that axis, all else equal: a field of the cell, or of a curve's point.

    A cell without a number there, such as QEMU's default, has no place on the axis.
    """
    ladders: dict[object, dict[float, Measurement]] = {}
    for row in rows:
        if found := _place_on(row, axis):
            ladders.setdefault(found[0], {}).setdefault(found[1], row.measurement)
    return tuple(
        Couple(steps[value], steps[before])
        for steps in ladders.values()
        for before, value in itertools.pairwise(sorted(steps))
    )


def _place_on(row: MeasuredCell, axis: str) -> tuple[object, float] | None:
    """The ladder that the row is a rung of, and the rung's value; None for a row without a place on the axis."""
    m = row.measurement
    if axis in FIELDS:
        value = getattr(m.config, axis)
        if m.config.lacks(axis) or not isinstance(value, int):
            return None
        return (m.workload, row.test, m.host, m.config.model_dump_json(exclude={axis})), float(value)
    if axis not in m.point:
        return None
    others = tuple(sorted((name, at) for name, at in m.point.items() if name != axis))
    return (m.shape, others, row.test, m.host, m.config), m.point[axis]


def has_place(rows: Sequence[MeasuredCell], axis: str) -> bool:
    """Whether any of the rows has a number on that axis."""
    return any(_place_on(row, axis) for row in rows)


def ordered_axes(rows: Sequence[MeasuredCell]) -> tuple[str, ...]:
    """The axes that order these rows: options of curves and fields of the cell that have several values there."""
    values: dict[str, set[float]] = {}
    for row in rows:
        for axis in (*row.measurement.point, *FIELDS):
            if found := _place_on(row, axis):
                values.setdefault(axis, set()).add(found[1])
    return tuple(axis for axis, there in values.items() if len(there) > 1)


def paired_rounds(couple: Couple) -> tuple[tuple[Sample, Sample], ...]:
    """The n-th round of one with the n-th of the other, as long as they alternate: no pair begins before one ended.

    Empty for rounds in a row, which a host's drift would set apart, and where their order was not saved.
    """
    if any(m.hygiene.get("rounds", "").startswith("in a row") for m in couple):
        return ()
    pairs: list[tuple[Sample, Sample]] = []
    last = 0
    for one, other in zip(couple.first.samples, couple.second.samples, strict=False):
        if min(one.order, other.order) <= last:
            break
        last = max(one.order, other.order)
        pairs.append((one, other))
    return tuple(pairs)


def acceleration_obstacle(couple: Couple, run: Run) -> str:
    """A clause why the accelerations of two rows rule out a comparison; empty where they do not.

    A guest under KVM beside the host itself shows the cost of virtualization; one under emulation shows nothing.
    """
    first, second = (host_of(run, m.host).accel_of(m.config, on_host=m.on_host) for m in couple)
    if first == second or "tcg" not in (first, second):
        return ""
    return (
        f"one ran under {first} and the other under {second}, which says how slow emulation is and nothing of storage"
    )

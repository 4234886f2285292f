"""Views of a matrix: no cell has two values of an axis, and no order is told that rounds do not show.

Tests of `report.html.views`, `report.html.figures` and `report.html.heat`.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vmstorage.analysis.axis_effects import effects
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.html.figures import Figures, Range, figures_of, range_of
from pytest_vmstorage.report.html.heat import class_of, colour_of, data_of, grid_table
from pytest_vmstorage.report.html.views import Grid, Reference, Spot, View, default_view, lay_out, ratio_of
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.results.run import Measurement, Run
from pytest_vmstorage.testing.builders import make_failure, make_host, make_measurement, make_run
from unit.report.html.reading import Page

CELLS = [
    StorageConfig(format=form, cache=cache, bus=bus)
    for form, cache, bus in itertools.product(("raw", "qcow2"), ("none", "writeback", "unsafe"), ("virtio-blk", "nvme"))
]


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Some of twelve cells, measured by one or two workloads on one or two hosts, a few of them failed."""
    hosts = draw(st.sampled_from((("local",), ("local", "lab01"))))
    places = draw(
        st.lists(st.sampled_from(list(itertools.product(CELLS, hosts))), min_size=1, max_size=20, unique=True)
    )
    rates = st.floats(1, 1e6).map(lambda rate: float(f"{rate:.4g}"))
    measured, failed = [], []
    for cell, host in places:
        if draw(st.integers(0, 9)) == 0:
            failed.append(make_failure(cell, host=host))
            continue
        for workload in draw(st.sampled_from((["fio"], ["dd"], ["fio", "dd"]))):
            rounds = draw(st.lists(rates, min_size=1, max_size=9))
            lat = [1 / rate for rate in rounds]
            measured.append(make_measurement(cell, workload=workload, host=host, iops=rounds, clat_p99=lat))
    accels = draw(st.sampled_from(("kvm", "tcg")))
    return make_run(*measured, failures=failed, hosts=[make_host(name, accel=accels) for name in hosts])


def view_of(data: st.DataObject, figures: Figures) -> View:
    """Any view: axes down and across, some values left, some reference."""
    axes = list(figures.axes)
    across = data.draw(st.sampled_from(["", *axes]))
    others = [name for name in axes if name != across]
    down = data.draw(st.lists(st.sampled_from(others), unique=True)) if others else []
    only = {
        name: frozenset(data.draw(st.lists(st.sampled_from(figures.values[name]), min_size=1)))
        for name in (data.draw(st.lists(st.sampled_from(axes), unique=True)) if axes else [])
    }
    references = [Reference(), Reference(row=data.draw(st.integers(0, len(figures.rows) - 1)))]
    references += [Reference(name, data.draw(st.sampled_from(figures.values[name]))) for name in axes]
    column = data.draw(st.integers(0, len(figures.columns) - 1))
    return View(column, tuple(down), across, only, data.draw(st.sampled_from(references)))


def spots_of(grid: Grid) -> list[tuple[tuple[str, ...], str, Spot]]:
    """Each spot with the values of its row and column."""
    return [
        (left, top, spot)
        for left, line in zip(grid.down, grid.spots, strict=True)
        for top, spot in zip(grid.across, line, strict=True)
    ]


@settings(max_examples=60)
@given(st.data())
def test_no_cell_of_any_view_mixes_two_values_of_an_axis(data: st.DataObject) -> None:
    """A cell shows the one row that has its values, or says of which axes to choose a value, or nothing is there."""
    figures = figures_of(build_table(data.draw(runs())))
    view = view_of(data, figures)
    grid = lay_out(figures, view)
    for left, top, spot in spots_of(grid):
        wanted = dict(zip(view.down, left, strict=True)) | ({view.across: top} if view.across else {})
        members = [
            row
            for row, values in enumerate(figures.rows)
            if figures.is_measured(row, view.column)
            and all(values[figures.axes.index(name)] == value for name, value in wanted.items())
            and all(values[figures.axes.index(name)] in kept for name, kept in view.only.items())
        ]
        if len(members) > 1:
            several = [
                name for i, name in enumerate(figures.axes) if len({figures.rows[row][i] for row in members}) > 1
            ]
            assert spot.row is None
            assert all(f"values of {name}" in spot.choose for name in several)
            assert spot.choose.endswith(": choose one")
        else:
            assert ([] if spot.row is None else [spot.row]) == members
            assert not spot.choose


@settings(max_examples=60)
@given(st.data())
def test_a_colour_says_that_all_rounds_agree(data: st.DataObject) -> None:
    """Up to six rounds: one is coloured as faster where its slowest round beats the reference's fastest, and no other.

    Rows of two hosts are never compared, nor one under emulation with one that is not.
    """
    figures = figures_of(build_table(data.draw(runs())))
    view = view_of(data, figures)
    metric = figures.columns[view.column].metric
    sign = -1 if metric and metric.better == "lower" else 1
    for _, _, spot in spots_of(lay_out(figures, view)):
        if spot.ratio is None or spot.row is None:
            continue
        if view.reference.row is None:
            continue
        mine, theirs = (
            [sign * value for value in figures.cell(row, view.column).values] for row in (spot.row, view.reference.row)
        )
        assert figures.apart[spot.row][0] == figures.apart[view.reference.row][0]
        if max(len(mine), len(theirs)) > 6:
            continue
        is_sure = len(mine) > 1 and len(theirs) > 1 and (min(mine) > max(theirs) or max(mine) < min(theirs))
        assert (colour_of(spot) != "u") == is_sure
        assert not is_sure or colour_of(spot).startswith("f" if min(mine) > max(theirs) else "s")


@settings(max_examples=40)
@given(runs())
def test_the_first_view_shows_every_row(run: Run) -> None:
    """No choice is asked for before the reader has made one."""
    figures = figures_of(build_table(run))
    view = default_view(figures, effects(run))
    spots = [spot for _, _, spot in spots_of(lay_out(figures, view))]
    assert not any(spot.choose for spot in spots)
    there = [spot.row for spot in spots if spot.row is not None]
    assert sorted(there) == [row for row in range(len(figures.rows)) if figures.is_measured(row, view.column)]


@settings(max_examples=30)
@given(st.data())
def test_a_view_as_a_table_has_the_texts_of_the_matrix(data: st.DataObject) -> None:
    """Figure and spread of a cell are those of the text report; with a ratio stands its interval."""
    figures = figures_of(build_table(data.draw(runs())))
    view = view_of(data, figures)
    grid = lay_out(figures, view)
    lines = Page(grid_table(figures, view, grid)).tables[0].lines[1:]
    for line, spots in zip(lines, grid.spots, strict=True):
        for cell, spot in zip(line[len(view.down) :], spots, strict=True):
            if spot.row is not None and not figures.cell(spot.row, view.column).failure:
                parts = figures.cell(spot.row, view.column)
                assert cell.text.startswith(" ".join(filter(None, parts.parts)))
                assert (" to " in cell.text or "spread unknown" in cell.text) == (spot.ratio is not None)
                assert spot.ratio is not None or cell.css in ("", "ref")


@settings(max_examples=30)
@given(st.data())
def test_the_first_rows_of_a_view_are_those_of_the_whole(data: st.DataObject) -> None:
    """The others are counted, and the references are those of all rows."""
    figures = figures_of(build_table(data.draw(runs())))
    view = view_of(data, figures)
    whole, most = lay_out(figures, view), data.draw(st.integers(0, 5))
    assert lay_out(figures, view, most) == whole._replace(spots=whole.spots[:most])


def test_the_best_of_equal_cells_is_the_first() -> None:
    """Whatever stands beside or below which."""
    cells = [("raw", "none", 100.0), ("raw", "unsafe", 300.0), ("qcow2", "none", 300.0), ("qcow2", "unsafe", 300.0)]
    measured = (make_measurement(StorageConfig(format=form, cache=cache), iops=[rate]) for form, cache, rate in cells)
    figures = figures_of(build_table(make_run(*measured)))
    for down, across in (("cache", "format"), ("format", "cache")):
        grid = lay_out(figures, View(0, (down,), across))
        (first,) = [spot.row for _, _, spot in spots_of(grid) if spot.is_reference]
        assert first == 1


def test_the_axis_that_moves_most_is_across() -> None:
    """Its values stand side by side."""
    speeds = itertools.product((("raw", 100.0), ("qcow2", 98.0)), (("none", 1), ("unsafe", 3)))
    cells = [(StorageConfig(format=form, cache=cache), rate * factor) for (form, rate), (cache, factor) in speeds]
    run = make_run(*(make_measurement(cell, iops=[rate, rate * 1.001, rate * 0.999]) for cell, rate in cells))
    view = default_view(figures_of(build_table(run)), effects(run))
    assert (view.across, view.down) == ("cache", ("format",))


def test_the_first_view_has_the_acceleration_where_backing_does_not_tell_it() -> None:
    """A native row has none, as its backing says; of guests with two of them each row says which."""
    hosts = [make_host("lab1"), make_host("lab2", accel="tcg")]
    cells = [StorageConfig(format=form, cache=cache) for form in ("raw", "qcow2") for cache in ("none", "unsafe")]
    measured = [make_measurement(cell, host=host.name) for host in hosts for cell in cells]
    emulated = measured[len(cells) :]
    native = make_measurement(StorageConfig(backing="native"), host="lab2")

    def axes(*rows: Measurement) -> set[str]:
        run = make_run(*rows, hosts=hosts)
        view = default_view(figures_of(build_table(run)), effects(run))
        return {*view.down, view.across}

    assert axes(*emulated, native) == {"format", "cache", "backing"}
    assert axes(*measured, native) == {"host", "format", "cache", "backing", "accel"}
    assert axes(*measured) == {"host", "format", "cache", "accel"}
    on_host = emulated[0].model_copy(update={"on_host": True})
    assert "accel" in axes(*emulated[1:], on_host, native)
    only = default_view(figures_of(build_table(make_run(emulated[0], native, hosts=hosts[1:]))), [])
    assert (only.down, only.across) == (("backing",), "")


def test_a_single_round_has_no_colour() -> None:
    """Its spread is unknown, and the cell says so."""
    ratio = ratio_of(Range(200, 200, 200, 1), Range(100, 90, 110, 3), is_rate=True)
    assert ratio is not None
    assert colour_of(Spot(row=0, ratio=ratio)) == "u"
    assert str(ratio) == "2.00x (one round: spread unknown)"


@pytest.mark.parametrize(
    ("mine", "css", "said"),
    [
        (Range(105, 104, 106, 3), "f1", "1.05x (1.03 to 1.07)"),
        (Range(130, 129, 131, 3), "f3", "1.30x (1.28 to 1.32)"),
        (Range(45, 44, 46, 3), "s4", "0.45x (0.44 to 0.46)"),
        (Range(102, 98, 104, 3), "u", "1.02x (0.97 to 1.05)"),
        (Range(100.1, 98, 104, 3), "u", "1.00x (0.97 to 1.05)"),
        (Range(101.3, 101.2, 101.4, 3), "f1", "1.01x (1.0020 to 1.02)"),
    ],
)
def test_a_colour_is_the_size_of_a_ratio(mine: Range, css: str, said: str) -> None:
    """The text has both ends of the interval, and more digits where two would read as 1."""
    ratio = ratio_of(mine, Range(100, 99, 101, 3), is_rate=True)
    assert (colour_of(Spot(row=0, ratio=ratio)), str(ratio)) == (css, said)


def test_an_impossible_figure_is_compared_with_none() -> None:
    """It is marked as a failed one, and is no reference of others; a skipped cell has no red."""
    fast = make_measurement(iops=(900, 901, 902))
    slow = make_measurement(StorageConfig(format="qcow2"), iops=(100, 101, 102))
    table = build_table(make_run(fast, slow, failures=[make_failure(StorageConfig(format="qcow2", cache="unsafe"))]))
    first, *others = table.rows
    invalid = first.model_copy(update={"cells": (first.cells[0].model_copy(update={"change": "INVALID"}),)})
    figures = figures_of(table.model_copy(update={"rows": (invalid, *others)}))
    view = View(0, figures.axes)
    assert [figures.ranges[row][0] is None for row in range(3)] == [True, False, True]
    grid = lay_out(figures, view)
    cells = [line[-1] for line in Page(grid_table(figures, view, grid)).tables[0].lines[1:]]
    assert [cell.css for cell in cells] == ["bad", "ref", "bad"]
    assert class_of(table.rows[2].cells[0].model_copy(update={"outcome": "skipped"})) == "skip"


def test_a_time_is_compared_as_a_speed() -> None:
    """Half the time is twice as fast; what is 0 has no ratio."""
    fast, slow = Range(0.001, 0.0009, 0.0011, 3), Range(0.002, 0.0019, 0.0021, 3)
    ratio = ratio_of(fast, slow, is_rate=False)
    assert ratio is not None
    assert ratio.times == pytest.approx(2)
    assert ratio_of(Range(0, 0, 0, 3), slow, is_rate=False) is None


def test_the_interval_of_many_rounds_is_that_of_their_median() -> None:
    """Two of ten rounds lie outside of it, and a single wild one moves nothing."""
    assert range_of([9, 1, 2, 3, 4, 5, 6, 7, 8, 1000]) == Range(5.5, 2, 9, 10)
    assert range_of([3, 1, 2]) == Range(2, 1, 3, 3)
    assert range_of([]) is None
    assert range_of([1, float("inf")]) is None


def test_the_data_of_the_script_name_each_row_by_its_values() -> None:
    """Rows are numbers of values, figures are the median, both bounds and the number of rounds."""
    run = make_run(*(make_measurement(cell, iops=[1000, 1010, 990]) for cell in CELLS[:2]))
    figures = figures_of(build_table(run))
    data = data_of(figures, default_view(figures, effects(run)))
    assert data["axes"] == ("bus",)
    assert data["values"] == [("virtio-blk", "nvme")]
    assert data["rows"] == [[0], [1]]
    assert data["ranges"] == [[[1000, 990, 1010, 3]] * 2]

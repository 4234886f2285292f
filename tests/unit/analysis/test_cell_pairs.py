"""Which measurements of a run make couples, and which of their rounds make pairs."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_vmstorage import StorageConfig, cell
from pytest_vmstorage.analysis.cell_pairs import (
    Couple,
    PairScope,
    acceleration_obstacle,
    couples_between,
    couples_of_rivals,
    ordered_axes,
    paired_rounds,
    steps_along,
)
from pytest_vmstorage.results.run import Measurement
from pytest_vmstorage.testing.builders import in_turns, make_failure, make_host, make_measurement, make_run


def measured(
    workload: str = "fio randwrite 4k qd32", test: str = "test_it.py::test_write", **fields: Any
) -> Measurement:
    """A measurement of that cell, of three rounds."""
    return make_measurement(StorageConfig(**fields), workload=workload, test=test, iops=(1000.0, 1100.0, 1200.0))


def names(couples: tuple[Couple, ...]) -> list[tuple[str, str]]:
    """The cells of the couples."""
    return [(str(first.config), str(second.config)) for first, second in couples]


GRID = tuple(measured(format=f, cache=c) for f in ("raw", "qcow2") for c in ("none", "writeback"))


def test_couples_are_equal_in_what_neither_names() -> None:
    """Formats are compared within each cache mode."""
    rows = PairScope(make_run(*GRID)).rows()
    assert names(couples_between(rows, cell("qcow2"), cell("raw"))) == [
        ("qcow2-none-virtio-blk-off", "raw-none-virtio-blk-off"),
        ("qcow2-writeback-virtio-blk-off", "raw-writeback-virtio-blk-off"),
    ]
    assert names(couples_between(rows, cell("qcow2", "none"), cell("raw", "writeback"))) == [
        ("qcow2-none-virtio-blk-off", "raw-writeback-virtio-blk-off"),
    ]


def test_an_axis_that_one_side_names_may_differ() -> None:
    """A qcow2 of 64k clusters has a raw disk, which has none, to be compared with."""
    rows = PairScope(
        make_run(measured(), measured(format="qcow2", cluster_size="64k"), measured(format="qcow2"))
    ).rows()
    assert len(couples_between(rows, cell("qcow2", cluster_size="64k"), cell("raw"))) == 1
    assert len(couples_between(rows, cell("qcow2"), cell("raw"))) == 1


def test_workloads_tests_and_hosts_are_kept_apart() -> None:
    """No couple of two workloads, of two tests of one workload, or of two hosts."""
    elsewhere = make_measurement(StorageConfig(format="qcow2"), host="lab02", iops=(1.0,))
    rows = PairScope(make_run(measured(), measured("dd", format="qcow2"), elsewhere)).rows()
    assert couples_between(rows, cell("qcow2"), cell("raw")) == ()
    twice = [measured(test=f"test_it.py::test_{name}", format=f) for name in "ab" for f in ("raw", "qcow2")]
    couples = couples_between(PairScope(make_run(*twice)).rows(), cell("qcow2"), cell("raw"))
    assert len(couples) == 2
    assert all(first.nodeid[:19] == second.nodeid[:19] for first, second in couples)


def test_the_native_row_is_a_side_like_any_other() -> None:
    """What it lacks tells nothing apart, what it has does."""
    guest, larger = measured(format="qcow2", vcpus=2), measured(format="qcow2", size="2G")
    rows = PairScope(make_run(guest, larger, measured(bus="ide"), measured(backing="native"))).rows()
    assert names(couples_between(rows, cell("virtio-blk"), cell(backing="native"))) == [
        ("qcow2-none-virtio-blk-off-vcpus=2", "native-off"),
    ]


def test_a_scope_has_a_pattern_and_cells() -> None:
    """Both leave out rows."""
    run = make_run(*GRID, measured("dd write 1M"), measured("dd read 1M"))
    assert len(PairScope(run, "dd *").rows()) == 2
    assert len(PairScope(run, "dd write 1M").rows()) == 1
    assert len(PairScope(run, where=cell("none", "raw")).rows()) == 3
    assert PairScope(run, "fio").rows() == ()


def test_rivals_are_equal_in_what_the_selector_does_not_name() -> None:
    """raw against qcow2 within each cache mode; of one cell alone all others are rivals."""
    rows = PairScope(make_run(*GRID)).rows()
    assert len(couples_of_rivals(rows, cell("raw"))) == 2
    assert names(couples_of_rivals(rows, cell("raw", "none"))) == [
        ("raw-none-virtio-blk-off", "raw-writeback-virtio-blk-off"),
        ("raw-none-virtio-blk-off", "qcow2-none-virtio-blk-off"),
        ("raw-none-virtio-blk-off", "qcow2-writeback-virtio-blk-off"),
    ]
    uneven = PairScope(make_run(measured(), measured(format="qcow2", cache="writeback"))).rows()
    assert len(couples_of_rivals(uneven, cell("raw"))) == 1


def test_yardsticks_are_no_rivals_unless_the_backing_is_named() -> None:
    """The host itself is faster than its guests, and that is not what is asked."""
    rows = PairScope(make_run(*GRID, measured(backing="native"), measured(backing="null"))).rows()
    assert len(couples_of_rivals(rows, cell("raw"))) == 2
    rows = PairScope(make_run(measured(), measured(backing="native"))).rows()
    assert couples_of_rivals(rows, cell("raw")) == ()
    assert len(couples_of_rivals(rows, cell(backing="native"))) == 1


def curve(depth: int, jobs: int = 1, **fields: Any) -> Measurement:
    """A point of a curve."""
    m = measured(f"fio randread 4k qd{depth} x{jobs}", **fields)
    return m.model_copy(update={"shape": "fio randread 4k", "point": {"iodepth": depth, "numjobs": jobs}})


def test_steps_of_a_curve() -> None:
    """Each point with the one before it, in the order of the values and not of measuring; cells and jobs apart."""
    points = [curve(16), curve(1), curve(4), curve(4, jobs=2), curve(1, format="qcow2"), curve(4, format="qcow2")]
    steps = steps_along(PairScope(make_run(*points)).rows(), "iodepth")
    assert [(first.point["iodepth"], second.point["iodepth"], first.config.format) for first, second in steps] == [
        (4, 1, "raw"),
        (16, 4, "raw"),
        (4, 1, "qcow2"),
    ]


def test_steps_of_a_field() -> None:
    """Of numbers, sizes, yes and no; a default is no number, and a word has no order."""
    cells = [measured(queues=queues, cache=c) for queues in (4, 1, None, 2) for c in ("none", "unsafe")]
    rows = PairScope(make_run(*cells)).rows()
    steps = steps_along(rows, "queues")
    assert [(first.config.queues, second.config.queues) for first, second in steps] == [(2, 1), (4, 2)] * 2
    assert steps_along(rows, "cache") == ()
    assert ordered_axes(rows) == ("queues",)
    threads = PairScope(make_run(measured(iothread=True), measured(iothread=False))).rows()
    assert [first.config.iothread for first, _ in steps_along(threads, "iothread")] == [True]


def test_rounds_in_turns_are_paired() -> None:
    """The n-th with the n-th, as many as both have."""
    long = make_measurement(StorageConfig(format="qcow2"), iops=(1.0, 2.0, 3.0, 4.0))
    one, other, _ = in_turns(measured(), long, measured(cache="unsafe"))
    pairs = paired_rounds(Couple(one, other))
    assert [(a.figures["iops"], b.figures["iops"]) for a, b in pairs] == [(1000.0, 1.0), (1100.0, 2.0), (1200.0, 3.0)]


def ordered(m: Measurement, *places: int, rounds: str = "in turns with 1 other cell") -> Measurement:
    """The measurement with its rounds at these places of the run."""
    samples = [s.model_copy(update={"order": place}) for s, place in zip(m.samples, places, strict=True)]
    return m.model_copy(update={"samples": tuple(samples), "hygiene": {"rounds": rounds}})


@pytest.mark.parametrize(
    ("one", "other", "pairs"),
    [
        ((1, 3, 5), (2, 4, 6), 3),
        ((2, 3, 6), (1, 4, 5), 3),
        ((1, 3, 4), (2, 5, 6), 2),
        ((1, 2, 3), (4, 5, 6), 1),
        ((0, 0, 0), (0, 0, 0), 0),
    ],
)
def test_pairs_end_where_turns_do(one: tuple[int, ...], other: tuple[int, ...], pairs: int) -> None:
    """Once a round of one was taken out of turn, drift lies between those that follow; an order of 0 is none."""
    couple = Couple(ordered(measured(), *one), ordered(measured(format="qcow2"), *other))
    assert len(paired_rounds(couple)) == pairs


def test_rows_in_a_row_have_no_pairs() -> None:
    """Whatever their places look like."""
    couple = Couple(ordered(measured(), 1, 3, 5, rounds="in a row"), ordered(measured(format="qcow2"), 2, 4, 6))
    assert paired_rounds(couple) == ()


@pytest.mark.parametrize(("accel", "is_obstacle"), [("kvm", False), ("tcg", True)])
def test_emulation_is_not_held_against_the_host_itself(accel: str, is_obstacle: bool) -> None:
    """Under KVM the comparison with the native row is what virtualization costs."""
    guest, native = measured(), measured(backing="native")
    run = make_run(guest, native, hosts=[make_host(accel=accel)])
    assert bool(acceleration_obstacle(Couple(guest, native), run)) is is_obstacle
    assert acceleration_obstacle(Couple(guest, guest), run) == ""


def test_failures_that_would_stand_among_the_rows() -> None:
    """Those of the same test in another cell; not a skipped one, and not those of a test of another workload."""
    ide, sata = StorageConfig(bus="ide"), StorageConfig(bus="sata")
    rows = [measured(), measured("dd", "test_it.py::test_dd"), measured("dd", "test_it.py::test_dd", bus="ide")]
    failed = make_failure(ide, test="test_it.py::test_write")
    skipped = make_failure(sata, test="test_it.py::test_write").model_copy(update={"outcome": "skipped"})
    run = make_run(*rows, failures=[failed, skipped])
    fio, dd = PairScope(run, "fio *"), PairScope(run, "dd")
    assert fio.failures(fio.rows()) == (failed,)
    assert dd.failures(dd.rows()) == ()
    assert PairScope(run, "fio *", where=cell("virtio-blk")).failures(fio.rows()) == ()


def test_a_failure_of_another_parameter_is_another_tests() -> None:
    """test_write[randread-...] failed in a cell: that says nothing of test_write[randwrite-...]."""
    reads = [make_measurement(nodeid="test_it.py::test_write[raw-randread]", workload="fio randread", iops=(1.0,))]
    writes = [make_measurement(nodeid="test_it.py::test_write[raw-randwrite]", workload="fio randwrite", iops=(1.0,))]
    failed = make_failure(StorageConfig(format="qcow2"))
    failed = failed.model_copy(update={"nodeid": "test_it.py::test_write[qcow2-randread]"})
    run = make_run(*reads, *writes, failures=[failed])
    for pattern, found in (("fio randread", (failed,)), ("fio randwrite", ())):
        scope = PairScope(run, pattern)
        assert scope.failures(scope.rows()) == found

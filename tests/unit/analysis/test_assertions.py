"""The three assertions between cells, on runs as they are measured, and what none of them says silently."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from pytest_vmstorage import StorageConfig, cell
from pytest_vmstorage.analysis.assertions import OtherWorkload, fastest, monotonic, ratio
from pytest_vmstorage.analysis.cell_pairs import PairScope
from pytest_vmstorage.analysis.ratios import Bounds, Outcome
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.results.run import Failure, Measurement, Run
from pytest_vmstorage.testing.builders import in_turns, make_failure, make_measurement, make_run

DRAW = random.Random(4)
AT_LEAST = Bounds(at_least=0.9)


def row(speed: float, workload: str = "fio randread 4k qd1", *, rounds: int = 12, **fields: Any) -> Measurement:
    """A cell with figures around that speed, within 1 %."""
    figures = tuple(speed * math.exp(DRAW.gauss(0, 0.004)) for _ in range(rounds))
    return make_measurement(StorageConfig(**fields), workload=workload, iops=figures)


def run_of(*rows: Measurement, failures: tuple[Failure, ...] = ()) -> Run:
    """A run that measured these in turns."""
    return make_run(*in_turns(*rows), failures=failures)


FAST, SLOW = row(10000.0), row(8000.0, format="qcow2")


@pytest.mark.parametrize(
    ("bounds", "outcome"),
    [
        (Bounds(at_least=0.7), Outcome.HOLDS),
        (Bounds(at_least=0.9), Outcome.FAILS),
        (Bounds(at_least=0.8), Outcome.INCONCLUSIVE),
        (Bounds(at_most=0.9), Outcome.HOLDS),
        (Bounds(at_most=0.7), Outcome.FAILS),
    ],
)
def test_a_ratio(bounds: Bounds, outcome: Outcome) -> None:
    """qcow2 is 0.8 times as fast as raw, to within a percent."""
    found = ratio(PairScope(run_of(FAST, SLOW)), cell("qcow2"), cell("raw"), bounds)
    assert found.outcome is outcome
    assert found.claim == f"format=qcow2 is {bounds} times as fast as format=raw"


def test_sides_that_one_cell_could_be_on_are_refused() -> None:
    """raw and none are no two sides; nor is a cell another than itself."""
    for one, other in ((cell("raw"), cell("none")), (cell("raw"), cell("raw", "none"))):
        with pytest.raises(ConfigError, match="a cell can have both"):
            ratio(PairScope(run_of(FAST, SLOW)), one, other, AT_LEAST)


@pytest.mark.parametrize(
    ("rows", "pattern", "sentence"),
    [
        ((), "*", "this run has measured nothing"),
        ((FAST, SLOW), "dd*", "no workload measured matches 'dd*', of: fio randread 4k qd1"),
        ((FAST,), "*", "no cell with format=qcow2 was measured"),
        (
            (FAST, row(1.0, format="qcow2", cache="unsafe")),
            "*",
            "no two cells with format=qcow2 and with format=raw are of one workload, on one host, and equal in all "
            "other axes",
        ),
    ],
)
def test_no_couple_is_an_error(rows: tuple[Measurement, ...], pattern: str, sentence: str) -> None:
    """One sentence that says what is not there, unless options left it out: then nobody can say."""
    scope = PairScope(run_of(*rows), pattern)
    with pytest.raises(ConfigError) as caught:
        ratio(scope, cell("qcow2"), cell("raw"), AT_LEAST)
    assert f"cannot be said: {sentence}." in str(caught.value)
    found = ratio(scope._replace(unmeasured="2 storage tests were deselected"), cell("qcow2"), cell("raw"), AT_LEAST)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.sentence.endswith(f"not decided; {sentence}: 2 storage tests were deselected")


def test_a_cell_that_failed_is_named() -> None:
    """Where it is the only one of its side, and where it is one of several."""
    failed = make_failure(StorageConfig(format="qcow2", cache="unsafe"), reason="It did not boot.\nAnd more.")
    unsafe = row(10000.0, cache="unsafe")
    alone = ratio(PairScope(run_of(unsafe, failures=(failed,))), cell("qcow2"), cell("raw"), AT_LEAST)
    assert alone.outcome is Outcome.INCONCLUSIVE
    assert "qcow2-unsafe-virtio-blk-off 1G has no figure: It did not boot." in alone.sentence
    good = row(10000.0, format="qcow2")
    one_of_two = PairScope(run_of(FAST, good, unsafe, failures=(failed,)))
    found = ratio(one_of_two, cell("qcow2"), cell("raw"), AT_LEAST)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.missing == ("qcow2-unsafe-virtio-blk-off 1G has no figure: It did not boot.",)
    assert ratio(one_of_two._replace(where=cell("none")), cell("qcow2"), cell("raw"), AT_LEAST).outcome is Outcome.HOLDS
    slow = PairScope(run_of(FAST, SLOW, unsafe, failures=(failed,)))
    assert ratio(slow, cell("qcow2"), cell("raw"), AT_LEAST).outcome is Outcome.FAILS


def test_a_cell_that_this_host_cannot_have_is_not_waited_for() -> None:
    """Its test was skipped, which the report says."""
    skipped = make_failure(StorageConfig(format="qcow2", cache="unsafe")).model_copy(update={"outcome": "skipped"})
    scope = PairScope(run_of(FAST, row(10000.0, format="qcow2"), row(1.0, cache="unsafe"), failures=(skipped,)))
    assert ratio(scope, cell("qcow2"), cell("raw"), AT_LEAST).outcome is Outcome.HOLDS


READ, WRITE = "fio randread 4k qd1", "fio randwrite 4k qd1"


def test_a_ratio_of_two_workloads() -> None:
    """In the same cell: writes are half as fast as reads, in each of two cells."""
    rows = [
        row(speed, name, format=format_)
        for format_ in ("raw", "qcow2")
        for name, speed in ((READ, 10000.0), (WRITE, 5000.0))
    ]
    scope = PairScope(run_of(*rows), WRITE, cell("none"))
    none = cell("none")
    found = ratio(scope, none, none, Bounds(at_least=0.45, at_most=0.55), beside=OtherWorkload("fio randread*"))
    assert (found.outcome, len(found.ratios)) == (Outcome.HOLDS, 2)
    assert found.claim == (
        f"{WRITE} with cache=none is at least 0.45 and at most 0.55 times as fast as fio randread* with cache=none"
    )
    assert f"against {READ} on " in found.sentence
    assert ratio(scope, none, none, Bounds(at_least=0.6), beside=OtherWorkload(READ)).outcome is Outcome.FAILS
    one = ratio(scope, cell("raw"), cell("qcow2"), Bounds(at_most=0.6), beside=OtherWorkload(READ))
    assert (one.outcome, len(one.ratios)) == (Outcome.HOLDS, 1)


def test_a_workload_is_not_held_against_itself() -> None:
    """A pattern that fits both sides pairs no row with itself."""
    scope = PairScope(run_of(row(10000.0, READ), row(5000.0, WRITE)), WRITE)
    assert len(ratio(scope, cell("raw"), cell("raw"), AT_LEAST, beside=OtherWorkload("fio*")).ratios) == 1


def test_two_workloads_by_a_metric_each() -> None:
    """Which count the same."""
    tar = make_measurement(workload="tar", iops=(5.0,) * 8, bw=(30.0,) * 8)
    dd = make_measurement(workload="dd", buffered_read=(78.0,) * 8, iops=(1.0,) * 8)
    scope, raw = PairScope(run_of(dd, tar), "dd"), cell("raw")
    found = ratio(scope, raw, raw, Bounds(at_least=2.5), beside=OtherWorkload("tar", "bw"))
    assert found.outcome is Outcome.HOLDS
    assert (
        "buffered_read 78 MiB/s (78 MiB/s to 78 MiB/s in 8 rounds), against tar on raw-none-virtio-blk-off 1G, bw 30"
        in found.text
    )
    for metric, sentence in (
        ("iops", "buffered_read of dd is in MiB/s, and iops of tar in IOPS. Name metrics that count the same"),
        (None, "tar has no metric 'buffered_read'; it has: iops, bw. Name another metric"),
    ):
        with pytest.raises(ConfigError) as caught:
            ratio(scope, raw, raw, AT_LEAST, beside=OtherWorkload("tar", metric))
        assert str(caught.value).startswith(sentence)


def test_the_other_workload_may_be_missing() -> None:
    """Where nothing would have measured it, it is an error; where its test failed, nobody can say."""
    scope, raw = PairScope(run_of(FAST), READ), cell("raw")
    with pytest.raises(ConfigError, match=r"no workload measured matches 'tar\*', of: fio randread 4k qd1"):
        ratio(scope, raw, raw, AT_LEAST, beside=OtherWorkload("tar*"))
    failed = make_failure(StorageConfig(), reason="It did not boot.", test="tests/test_disk.py::test_tar")
    found = ratio(
        scope._replace(run=run_of(FAST, failures=(failed,))), raw, raw, AT_LEAST, beside=OtherWorkload("tar*")
    )
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "raw-none-virtio-blk-off 1G has no figure: It did not boot." in found.sentence
    # another cell of that test was measured
    tar = make_measurement(StorageConfig(format="qcow2"), workload="tar", test="t.py::test_tar", iops=(1.0,) * 12)
    other = make_measurement(StorageConfig(), workload="tar", test="t.py::test_tar", iops=(1.0,) * 12)
    lost = make_failure(StorageConfig(cache="unsafe"), reason="It did not boot.", test="t.py::test_tar")
    many = PairScope(run_of(FAST, tar, other, failures=(lost,)), READ)
    found = ratio(many, raw, raw, AT_LEAST, beside=OtherWorkload("tar"))
    assert found.missing == ("raw-unsafe-virtio-blk-off 1G has no figure: It did not boot.",)


def test_the_fastest() -> None:
    """It holds for the fastest cell, fails for another, and two alike are not decided without a tolerance."""
    run = run_of(FAST, SLOW, row(9990.0, format="vdi"), row(100.0, format="vpc"))
    assert fastest(PairScope(run), cell("qcow2")).outcome is Outcome.FAILS
    found = fastest(PairScope(run), cell("raw"))
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "vdi" in found.sentence
    assert fastest(PairScope(run), cell("raw"), 0.02).outcome is Outcome.HOLDS
    assert (
        fastest(PairScope(run), cell("raw"), 0.02).claim
        == "format=raw is not slower than any other cell by more than 2 %"
    )
    assert fastest(PairScope(run, where=cell("none")), cell("vpc")).outcome is Outcome.FAILS


def test_the_fastest_has_somebody_to_be_faster_than() -> None:
    """Alone it is an error."""
    with pytest.raises(ConfigError, match="no other cell of one workload is equal to those with format=raw"):
        fastest(PairScope(run_of(FAST)), cell("raw"))
    with pytest.raises(ConfigError, match="no cell with format=vdi was measured"):
        fastest(PairScope(run_of(FAST, SLOW)), cell("vdi"))


def point(depth: int, speed: float, **fields: Any) -> Measurement:
    """A point of a curve."""
    m = row(speed, f"fio randread 4k qd{depth}", **fields)
    return m.model_copy(update={"shape": "fio randread 4k", "point": {"iodepth": depth, "numjobs": 1}})


@pytest.mark.parametrize(
    ("speeds", "falling", "outcome"),
    [
        ((1000.0, 4000.0, 9000.0), False, Outcome.HOLDS),
        ((1000.0, 4000.0, 3990.0), False, Outcome.HOLDS),
        ((1000.0, 4000.0, 3920.0), False, Outcome.INCONCLUSIVE),
        ((1000.0, 4000.0, 3000.0), False, Outcome.FAILS),
        ((1000.0, 4000.0, 9000.0), True, Outcome.FAILS),
        ((9000.0, 4000.0, 4010.0), True, Outcome.HOLDS),
    ],
)
def test_a_curve_rises_or_falls(speeds: tuple[float, ...], falling: bool, outcome: Outcome) -> None:
    """Step by step; a step within the tolerance is none, one that may lie on either side of it is not decided."""
    points = [point(depth, speed) for depth, speed in zip((1, 8, 64), speeds, strict=True)]
    found = monotonic(PairScope(run_of(*points)), "iodepth", falling=falling)
    assert found.outcome is outcome
    assert len(found.ratios) == 2


def test_a_step_names_both_its_ends() -> None:
    """Of a curve the workload is another at each point."""
    found = monotonic(PairScope(run_of(point(1, 4000.0), point(8, 1000.0))), "iodepth")
    assert "fio randread 4k qd8 on raw-none-virtio-blk-off 1G, iops " in found.sentence
    assert "against fio randread 4k qd1 on raw-none-virtio-blk-off 1G " in found.sentence
    assert found.claim == "no step of iodepth to its next value is slower by more than 2 %"


def test_a_field_of_the_cell_is_an_axis_too() -> None:
    """Backing files make reading slower, one by one."""
    chain = [row(10000.0 / (n + 1), format="qcow2", backing_chain=n) for n in (2, 0, 1)]
    assert monotonic(PairScope(run_of(*chain)), "backing_chain").outcome is Outcome.FAILS
    assert monotonic(PairScope(run_of(*chain)), "backing_chain", falling=True).outcome is Outcome.HOLDS


@pytest.mark.parametrize(
    ("axis", "sentence"),
    [
        ("iodpeth", "'iodpeth' puts nothing that was measured in an order. These do: iodepth, queues."),
        ("format", "'format' puts nothing that was measured in an order."),
        ("numjobs", "no cell was measured at two values of numjobs with all else equal"),
    ],
)
def test_an_axis_without_an_order(axis: str, sentence: str) -> None:
    """One sentence, with those that have one."""
    rows = [point(1, 1.0, queues=1), point(8, 2.0, queues=1), row(1.0, queues=2), row(1.0, format="qcow2")]
    with pytest.raises(ConfigError) as caught:
        monotonic(PairScope(run_of(*rows)), axis)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("tolerance", [-0.1, 1.0, 2.0])
def test_a_tolerance_is_a_fraction(tolerance: float) -> None:
    """2 is not 2 %."""
    for judge in (
        lambda: fastest(PairScope(run_of(FAST, SLOW)), cell("raw"), tolerance),
        lambda: monotonic(PairScope(run_of(FAST, SLOW)), "iodepth", tolerance=tolerance),
    ):
        with pytest.raises(ConfigError, match=r"is no fraction below 1\. Write 0\.02 for 2 %\."):
            judge()


def test_another_metric_than_the_primary_one() -> None:
    """The latency may say what the rate does not."""
    figures = {"iops": (100.0,) * 9, "clat_p99": (0.001,) * 9}
    worse = {"iops": (100.0,) * 9, "clat_p99": (0.004,) * 9}
    rows = make_measurement(**figures), make_measurement(StorageConfig(format="qcow2"), **worse)
    scope = PairScope(run_of(*rows))
    assert ratio(scope, cell("qcow2"), cell("raw"), AT_LEAST).outcome is Outcome.HOLDS
    found = ratio(scope, cell("qcow2"), cell("raw"), AT_LEAST, "clat_p99")
    assert found.outcome is Outcome.FAILS
    assert found.ratios[0].ratio == pytest.approx(0.25)

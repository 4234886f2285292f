"""The failure message of a threshold."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest

from pytest_vmstorage.plugin.explain import explain
from pytest_vmstorage.testing.builders import make_measurement

MEASURED = make_measurement(iops=(9000, 8000, 12000), clat_p99=(0.008, 0.007, 0.009))
WHERE = "where: fio randwrite 4k qd32 on raw-none-virtio-blk-off 1G, local"


def test_a_figure_is_explained_with_unit_spread_and_place() -> None:
    """The bound is given the figure's unit."""
    assert explain(">", MEASURED.iops, 15000) == [
        "iops 9000 IOPS > 15k IOPS",
        "measured: 8000 IOPS to 12k IOPS in 3 rounds; higher is better",
        WHERE,
    ]


def test_a_latency_is_shown_in_its_own_scale() -> None:
    """Five thousandths are 5 ms."""
    lines = explain("<", MEASURED.clat_p99, 0.005)
    assert lines is not None
    assert lines[0] == "clat_p99 8 ms < 5 ms"
    assert lines[1].endswith("lower is better")


@pytest.mark.parametrize(
    ("op", "shown", "compare"),
    [
        ("<", ">", operator.lt),
        (">", "<", operator.gt),
        ("<=", ">=", operator.le),
        (">=", "<=", operator.ge),
        ("==", "==", operator.eq),
        ("!=", "!=", operator.ne),
    ],
)
def test_a_figure_on_the_right_is_turned_to_the_left(
    op: str, shown: str, compare: Callable[[float, float], bool]
) -> None:
    """The statement keeps its meaning."""
    lines = explain(op, 15000, MEASURED.iops)
    assert lines is not None
    assert lines[0] == f"iops 9000 IOPS {shown} 15k IOPS"
    mirrored = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}.get(shown, compare)
    assert compare(15000, MEASURED.iops) == mirrored(MEASURED.iops, 15000)


def test_two_figures_are_both_explained() -> None:
    """A test may compare two cells; the spread and place of both are shown."""
    other = make_measurement(iops=(20000,), host="lab01").iops
    lines = explain(">", MEASURED.iops, other)
    assert lines is not None
    assert lines[0].startswith("iops 9000 IOPS > 20k IOPS (1 round, spread unknown, fio randwrite")
    assert lines[0].endswith("lab01)")


def test_what_is_no_number_is_shown_as_it_is() -> None:
    """pytest.approx, None."""
    lines = explain("==", MEASURED.iops, None)
    assert lines is not None
    assert lines[0] == "iops 9000 IOPS == None"


def test_plain_numbers_are_pytests_to_explain() -> None:
    """None lets pytest go on."""
    assert explain("<", 1.0, 2.0) is None

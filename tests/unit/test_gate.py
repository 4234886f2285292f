"""The gate: which verdict a figure gets against a saved one, and the sentence that says so."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from pytest_vmstorage.baseline import Baseline
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.gate import Kind, Verdict, compare, judge
from pytest_vmstorage.results import HostFacts, Measurement, Run
from pytest_vmstorage.testing import make_failure, make_host, make_measurement, make_run

QCOW2 = StorageConfig(format="qcow2")


def saved(*measurements: Measurement, host: HostFacts | None = None) -> Baseline:
    """A baseline "main" of these measurements."""
    return Baseline(
        name="main", path=Path("0001_main.json"), run=make_run(*measurements, hosts=[host] if host else None)
    )


def verdict(now: Measurement, baseline: Baseline, limit: float | None = 0.1, host: HostFacts | None = None) -> Verdict:
    """The primary metric judged, on the usual host unless another is given."""
    return judge(now, baseline, limit, host=host or make_host(now.host))


def test_a_regressed_figure_is_told_in_one_sentence() -> None:
    """The sentence is the red test's message: cell, change, both figures with spread, tolerance."""
    found = verdict(make_measurement(iops=(11900, 12282, 12800)), saved(make_measurement(iops=(13800, 14100, 14400))))
    assert found.kind is Kind.REGRESSED
    assert found.fails
    assert found.change == pytest.approx(-0.1289, abs=1e-4)
    assert found.worse_by == pytest.approx(0.1289, abs=1e-4)
    assert found.reason == (
        "iops of fio randwrite 4k qd32 on raw-none-virtio-blk-off 1G is 12.9 % worse than baseline 'main': "
        "12.3k IOPS (11.9k IOPS to 12.8k IOPS in 3 rounds) against "
        "14.1k IOPS (13.8k IOPS to 14.4k IOPS in 3 rounds), tolerated 10 %."
    )


@pytest.mark.parametrize(
    ("now", "then", "kind"),
    [
        (90, 100, Kind.PASS),
        (89.9, 100, Kind.REGRESSED),
        (110, 100, Kind.PASS),
        (110.1, 100, Kind.IMPROVED),
        (63, 70, Kind.PASS),
    ],
)
def test_exactly_the_tolerated_change_is_tolerated(now: float, then: float, kind: Kind) -> None:
    """Worse by more than the limit regresses, by the limit itself does not, and no test is red for it."""
    assert verdict(make_measurement(iops=(now,)), saved(make_measurement(iops=(then,)))).kind is kind


def test_binary_fractions_do_not_turn_a_test_red() -> None:
    """1.1 ms over 1 ms is 10 %, although floats make it 10.00000000000001 %."""
    assert verdict(make_measurement(clat=(0.0011,)), saved(make_measurement(clat=(0.001,)))).kind is Kind.PASS


def test_for_a_latency_more_is_worse() -> None:
    """`worse_by` follows the metric's direction, `change` the figure."""
    slow = verdict(make_measurement(clat=(0.0013,)), saved(make_measurement(clat=(0.001,))))
    assert slow.kind is Kind.REGRESSED
    assert slow.change == slow.worse_by == pytest.approx(0.3)
    fast = verdict(make_measurement(clat=(0.0007,)), saved(make_measurement(clat=(0.001,))))
    assert fast.kind is Kind.IMPROVED
    assert fast.worse_by == pytest.approx(-0.3)


def test_without_a_limit_nothing_regresses() -> None:
    """A baseline alone shows changes and fails nobody."""
    found = verdict(make_measurement(iops=(1,)), saved(make_measurement(iops=(100,))), None)
    assert found.kind is Kind.PASS
    assert found.change == pytest.approx(-0.99)


@pytest.mark.parametrize(
    ("now", "then", "facts", "reason"),
    [
        ({"nodeid": "t.py::renamed"}, {}, {}, "the baseline has no such cell"),
        ({"config": QCOW2, "nodeid": "t.py::a"}, {"nodeid": "t.py::a"}, {}, "the baseline has no such cell"),
        ({"workload": "fio randread 4k"}, {}, {}, "the baseline has no such cell"),
        ({}, {}, {"accel": "tcg"}, "it was saved under kvm and measured under tcg now"),
        ({}, {}, {"cpu": "Other"}, "the CPU was Example CPU 3.0 GHz and is Other now"),
        ({}, {}, {"cores": 64}, "the number of cores was 2 and is 64 now"),
        ({"host": "lab2"}, {"host": "lab1"}, {}, "the host was lab1 and is lab2 now"),
        ({}, {"bw": (5.0,)}, {}, "the baseline has no iops in IOPS for this cell"),
        ({}, {"iops": (math.nan,)}, {}, "the saved figure is invalid: a round gave no number"),
        ({}, {"iops": (0.0,)}, {}, "the saved figure is invalid: a round gave 0 IOPS"),
    ],
)
def test_what_cannot_be_compared_is_inconclusive(
    now: dict[str, object], then: dict[str, object], facts: dict[str, object], reason: str
) -> None:
    """Each obstacle has its reason and none passes silently."""
    measured = make_measurement(**{"iops": (50.0,), **now})  # type: ignore[arg-type]
    before = make_measurement(**({"iops": (100.0,)} | then if "bw" not in then else then))  # type: ignore[arg-type]
    found = verdict(measured, saved(before), host=make_host(measured.host, **facts))
    assert found.kind is Kind.INCONCLUSIVE
    assert found.reason.endswith(f"was not compared with baseline 'main': {reason}.")
    assert (found.then, found.change) == (None, None)
    assert not found.fails


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_an_impossible_figure_is_invalid(bad: float) -> None:
    """One bad round makes the figure invalid, although the median is finite, with or without a saved cell."""
    now = make_measurement(iops=(100, bad, 101))
    assert verdict(now, saved(make_measurement(iops=(100,)))).kind is Kind.INVALID
    assert verdict(now, saved()).kind is Kind.INVALID


def test_only_the_primary_metric_fails_a_test() -> None:
    """Other shown metrics are judged and shown, and do not gate."""
    now, then = make_measurement(iops=(99,), clat=(0.009,)), make_measurement(iops=(100,), clat=(0.001,))
    verdicts = compare(make_run(now), saved(then), 0.1).verdicts
    assert [(v.metric, v.kind, v.fails) for v in verdicts] == [
        ("iops", Kind.PASS, False),
        ("clat", Kind.REGRESSED, False),
    ]


def test_a_workload_measured_twice_in_one_test_is_compared_in_order() -> None:
    """The second measurement of a test is compared with its saved second one."""
    run = make_run(make_measurement(iops=(10,)), make_measurement(iops=(20,)))
    baseline = saved(make_measurement(iops=(10,)), make_measurement(iops=(40,)))
    assert [v.then for v in compare(run, baseline, 0.1).verdicts] == [10, 40]


def test_of_two_saved_hosts_the_same_one_is_taken_and_the_other_is_missing() -> None:
    """A cell of a host that this run did not use is listed."""
    baseline = saved(make_measurement(host="lab1", iops=(10,)), make_measurement(host="lab2", iops=(20,)))
    found = compare(make_run(make_measurement(host="lab2", iops=(20,))), baseline, 0.1)
    assert [v.then for v in found.verdicts] == [20]
    assert [cell.host for cell in found.missing] == ["lab1"]


def test_saved_cells_that_were_not_measured_are_missing() -> None:
    """Except those that failed, which are loud already, and those the user left out."""
    gone = StorageConfig(cache="unsafe")
    baseline = saved(make_measurement(), make_measurement(QCOW2), make_measurement(gone))
    assert [m.config for m in compare(make_run(make_measurement()), baseline, None).missing] == [QCOW2, gone]
    run: Run = make_run(make_measurement(), failures=[make_failure(QCOW2)])
    assert [m.config for m in compare(run, baseline, None).missing] == [gone]
    left_out = [make_measurement(gone).nodeid]
    assert compare(run, baseline, None, left_out=left_out).missing == ()


def without(*names: str) -> Measurement:
    """A measurement that these steps were left out of."""
    return make_measurement().model_copy(update={"without": names})


@pytest.mark.parametrize(
    ("now", "then", "said"),
    [
        ((), ("warmup",), "it was saved without warmup and measured with all steps around its rounds now"),
        (("sync", "host-caches"), ("sync",), "saved without sync and measured without host-caches, sync now"),
    ],
)
def test_figures_of_other_hygiene_are_not_compared(now: tuple[str, ...], then: tuple[str, ...], said: str) -> None:
    """A cache that was not dropped is no improvement of the disk."""
    found = verdict(without(*now), saved(without(*then)))
    assert found.kind is Kind.INCONCLUSIVE
    assert said in found.reason


def test_what_only_judges_a_figure_keeps_none_from_being_compared() -> None:
    """Nor does the order in which the steps were named."""
    assert verdict(without("steady-state", "cache-size"), saved(without())).kind is Kind.PASS
    one, other = ("host-caches", "guest-caches"), ("guest-caches", "host-caches", "zero-check")
    assert verdict(without(*one), saved(without(*other))).kind is Kind.PASS

"""A test's figures as its properties: names, values, and what stands beside them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_vmstorage.analysis.gate.by_days import compare
from pytest_vmstorage.analysis.gate.policy import GatePolicy, Waiver
from pytest_vmstorage.analysis.gate.verdicts import Verdict
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.plugin.properties import properties_of
from pytest_vmstorage.results.host import EMULATED
from pytest_vmstorage.results.run import Measurement
from pytest_vmstorage.testing.builders import make_baseline, make_host, make_measurement, make_run

CELL = StorageConfig()
FIO = make_measurement(iops=(1000.0, 1003.0), clat_p99=(0.002, 0.0021))
NAME = "vmstorage.fio randwrite 4k qd32.iops"


def found(*measured: Measurement, verdicts: tuple[Verdict, ...] = (), **facts: Any) -> dict[str, str | float]:
    """The properties of a test that measured this on such a host; no two have one name."""
    properties = properties_of(CELL, measured, verdicts, make_host(**facts))
    assert len(dict(properties)) == len(properties)
    assert json.loads(json.dumps(properties, allow_nan=False))
    return dict(properties)


def test_a_primary_figure_is_a_number_with_unit_and_spread() -> None:
    """Unrounded; what is shown beside it is in the reports."""
    assert found(FIO) == {
        "vmstorage.cell": "raw-none-virtio-blk-off 1G",
        "vmstorage.host": "local",
        "vmstorage.accel": "kvm",
        NAME: 1001.5,
        f"{NAME}.unit": "IOPS",
        f"{NAME}.spread": "1000 IOPS to 1003 IOPS in 2 rounds",
    }


def test_several_workloads_of_a_test_have_names_of_their_own() -> None:
    """The same one again too."""
    again = make_measurement(iops=(500.0,))
    names = found(FIO, make_measurement(workload="dd write 1M", bw=(200.0,)), again)
    assert names["vmstorage.dd write 1M.bw"] == 200
    assert (names[NAME], names["vmstorage.fio randwrite 4k qd32 #2.iops"]) == (1001.5, 500)
    assert names["vmstorage.fio randwrite 4k qd32 #2.iops.spread"] == "1 round, spread unknown"


def test_emulated_figures_are_said_to_mean_nothing() -> None:
    """By the sentence of all reports; a native row of an emulated host is no such figure."""
    assert found(FIO, accel="tcg")["vmstorage.caution"] == EMULATED
    native = FIO.model_copy(update={"on_host": True})
    assert found(native, accel="tcg")["vmstorage.accel"] == "native"
    assert "vmstorage.caution" not in found(native, accel="tcg")


def test_the_test_has_its_most_urgent_verdict_and_each_figure_its_own() -> None:
    """Of primary figures; a waiver is told with it."""
    slow, fast = make_measurement(iops=(500.0, 501.0)), make_measurement(workload="dd write 1M", bw=(200.0, 201.0))
    baseline = make_baseline(make_run(make_measurement(iops=(1000.0, 1001.0)), fast))
    verdicts = compare(make_run(fast, slow), baseline, GatePolicy(day_spread=0.01)).verdicts
    told = found(fast, slow, verdicts=verdicts)
    assert told["vmstorage.verdict"] == told[f"{NAME}.verdict"] == "SUSPECT"
    assert told["vmstorage.dd write 1M.bw.verdict"] == verdicts[0].kind != "SUSPECT"
    waiver = Waiver(cell="*", reason="known", owner="jane", expires="2999-01-01")
    waived = tuple(one.model_copy(update={"waiver": waiver}) for one in verdicts)
    assert found(fast, slow, verdicts=waived)["vmstorage.verdict"] == "SUSPECT (waived)"


def test_a_test_without_a_figure_has_its_cell() -> None:
    """Its host may be unknown."""
    assert properties_of(CELL, (), (), None) == [("vmstorage.cell", "raw-none-virtio-blk-off 1G")]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_text(value: float) -> None:
    """JSON has none for it."""
    assert found(make_measurement(iops=(1000.0, value)))[NAME] == "no number"


def test_a_label_brings_no_escape_sequence() -> None:
    """Into no JUnit file."""
    assert "vmstorage.x y.iops" in found(make_measurement(workload="x\x1b[31m\ny", iops=(1.0,)))

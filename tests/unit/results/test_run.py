"""Metrics, figures, measurements: units, direction, and what a figure says of itself.

Tests of `results.run` and `results.host`.
"""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from pytest_vmstorage.results.run import Figure, Measurement, Metric, Run
from pytest_vmstorage.testing.builders import make_failure, make_host, make_measurement, make_metric, make_run


@pytest.mark.parametrize(
    ("unit", "value", "seconds"),
    [("IOPS", 500, 0.002), ("MiB/s", 0.5, 2.0), ("transactions/s", 4, 0.25), ("s", 0.25, 0.25), ("s", 0, 0)],
)
def test_a_figure_has_a_time_per_operation(unit: str, value: float, seconds: float) -> None:
    """A rate's time is its inverse, a time is itself: lower is better for both."""
    assert Metric(name="x", unit=unit, better="higher").seconds_per_operation(value) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("unit", "value"), [("%", 5.0), ("IOPS", 0.0), ("MiB/s", -1.0), ("requests/s", 0.0), ("rounds", 5.0)]
)
def test_what_has_no_time_per_operation_says_so(unit: str, value: float) -> None:
    """Shares, and rates of nothing, are refused with name, figure and unit."""
    with pytest.raises(ValueError, match=f"x = {value} {unit} has no time per operation"):
        Metric(name="x", unit=unit, better="higher").seconds_per_operation(value)


def test_a_figure_is_the_median_and_knows_its_spread() -> None:
    """It compares as a number; unit, direction, rounds and place travel with it."""
    figure = make_measurement(iops=(14000, 16000, 14100), host="lab01").iops
    assert figure == 14100
    assert figure > 500
    assert figure.spread == "14k IOPS to 16k IOPS in 3 rounds"
    assert figure.metric.better == "higher"
    assert figure.where == "fio randwrite 4k qd32 on raw-none-virtio-blk-off 1G, lab01"
    assert repr(figure) == f"<iops 14.1k IOPS ({figure.spread}) of {figure.where}>"


def test_one_round_has_no_spread() -> None:
    """A single sample is never shown as if its spread were nothing."""
    assert make_measurement(iops=(100,)).iops.spread == "1 round, spread unknown"


def test_a_place_is_worded_when_it_is_asked_for() -> None:
    """A report of thousands of figures shows none with its place."""
    places = ["here"]
    figure = Figure(make_metric("iops"), (1.0, 2.0, 3.0), places.pop)
    assert (figure, places) == (2.0, ["here"])
    assert (figure.where, places) == ("here", [])


@pytest.mark.parametrize("copied", [lambda f: pickle.loads(pickle.dumps(f)), copy.deepcopy, copy.copy])
def test_a_figure_survives_copying(copied: object) -> None:
    """xdist and pytest copy what they are given."""
    figure = make_measurement(iops=(1, 2, 6)).iops
    again = copied(figure)  # type: ignore[operator]
    assert isinstance(again, Figure)
    assert (again, again.values, again.metric, again.where) == (figure, figure.values, figure.metric, figure.where)


def test_a_figure_is_a_plain_number_in_json() -> None:
    """Users dump figures into files of their own."""
    assert json.dumps({"iops": make_measurement(iops=(1.5,)).iops}) == '{"iops": 1.5}'


def test_metrics_are_attributes_and_a_slip_lists_them() -> None:
    """hasattr works, too: a name that is no metric is an AttributeError."""
    measured = make_measurement(iops=(100, 300), clat_p99=(0.002, 0.004))
    assert measured.clat_p99 == pytest.approx(0.003)
    assert measured.values("iops") == (100, 300)
    assert measured.raw == ("", "")
    assert not hasattr(measured, "__no_such_protocol__")
    with pytest.raises(AttributeError, match=r"has no metric 'iop'; it has: iops, clat_p99. Did you mean 'iops'\?$"):
        _ = measured.iop


def test_a_run_reads_back_from_json() -> None:
    """Nothing is lost on the way to the saved file and back."""
    run = make_run(make_measurement(iops=(1, 2)), failures=[make_failure()])
    again = Run.model_validate_json(run.model_dump_json())
    assert again == run
    assert again.measurements[0].iops == run.measurements[0].iops


@pytest.mark.parametrize("rounds", [(14000.0, 16000.0, 14100.0), (14100.0,)])
def test_a_measurement_is_a_line(rounds: tuple[float, ...]) -> None:
    """Workload, cell, host and the primary figure with unit and spread, for print() and in a failed assertion."""
    measured = make_measurement(iops=rounds, clat_p99=rounds, host="lab01")
    line = f"fio randwrite 4k qd32 on raw-none-virtio-blk-off 1G, lab01: iops 14.1k IOPS ({measured.iops.spread})"
    assert (str(measured), repr(measured), f"{measured}") == (line, f"<{line}>", line)


def test_what_is_no_measurement_yet_is_a_line_too() -> None:
    """Nobody saves one without rounds; a debugger may see it."""
    measured = make_measurement(host="lab01").model_copy(update={"samples": ()})
    assert str(measured) == "fio randwrite 4k qd32 on raw-none-virtio-blk-off 1G, lab01: no rounds"


def test_the_repr_of_a_sample_leaves_out_raw_output() -> None:
    """Of which a round has some 40 kB."""
    sample = make_measurement().samples[0].model_copy(update={"raw": "x" * 40_000})
    assert len(repr(sample)) < 1000
    assert sample.raw not in repr(make_run(make_measurement().model_copy(update={"samples": (sample,)})))


def test_figures_of_software_emulation_are_known_as_such() -> None:
    """TCG rows are no statement about performance."""
    assert make_host(accel="tcg").is_emulated
    assert not make_host(accel="kvm").is_emulated


def test_the_builders_make_valid_values() -> None:
    """A measurement without figures has one all the same; other names are latencies."""
    assert isinstance(make_measurement(), Measurement)
    assert make_metric("clat_p99") == Metric(name="clat_p99", unit="s", better="lower")
    assert make_run(make_measurement(host="b"), failures=[make_failure(host="a")]).hosts == (
        make_host("b"),
        make_host("a"),
    )

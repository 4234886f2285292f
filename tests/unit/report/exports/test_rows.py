"""The rows that other programs get: what is valid, in base units, under labels that stay the same."""

from __future__ import annotations

import datetime

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.report.exports.rows import ExportRow, base_unit, gather
from pytest_vmstorage.results.run import Measurement, Metric, Run
from pytest_vmstorage.testing.builders import make_failure, make_host, make_measurement, make_run

QCOW2 = StorageConfig(format="qcow2", cluster_size="1M")


def rows(*runs: Run, **asked: object) -> tuple[ExportRow, ...]:
    """The rows of these runs."""
    return gather(runs, **asked).rows  # type: ignore[arg-type]


def in_unit(unit: str, *values: float) -> Measurement:
    """A measurement of one metric, `some`, in that unit."""
    made = make_measurement(some=values)
    return made.model_copy(update={"metrics": (Metric(name="some", unit=unit, better="lower"),)})


@pytest.mark.parametrize(
    ("unit", "words", "symbol", "number"),
    [
        ("s", "seconds", "s", 4.0),
        ("ms", "seconds", "s", 0.004),
        ("B", "bytes", "B", 4.0),
        ("KiB", "bytes", "B", 4096.0),
        ("MiB/s", "bytes_per_second", "B/s", 4.0 * 2**20),
        ("MB/s", "bytes_per_second", "B/s", 4e6),
        ("%", "ratio", "ratio", 0.04),
        ("IOPS", "operations_per_second", "ops/s", 4.0),
        ("transactions/s", "transactions_per_second", "transactions/s", 4.0),
        ("in flight", "in_flight", "in flight", 4.0),
    ],
)
def test_a_figure_is_in_the_base_unit_of_its_own(unit: str, words: str, symbol: str, number: float) -> None:
    """Prefixes and per cents are no units of a dashboard; what has no base unit stays as it is."""
    (row,) = rows(make_run(in_unit(unit, 2, 4, 8)))
    (value,) = row.values
    assert (base_unit(unit).words, value.unit.symbol) == (words, symbol)
    assert value.numbers == {
        f"some_{words}": pytest.approx(number, rel=1e-15),
        f"some_round_min_{words}": pytest.approx(number / 2, rel=1e-15),
        f"some_round_max_{words}": pytest.approx(number * 2, rel=1e-15),
    }


def test_a_name_says_its_unit_once() -> None:
    """A metric that is named after its unit, or ends with it."""
    made = make_measurement(seconds=(1,), all_seconds=(2,))
    names = [name for value in rows(make_run(made))[0].values for name in value.numbers]
    assert names == [
        *("seconds", "round_min_seconds", "round_max_seconds"),
        *("all_seconds", "all_round_min_seconds", "all_round_max_seconds"),
    ]


def test_labels_are_the_configuration_the_host_and_its_acceleration() -> None:
    """The four axes of every id, those that are not as by default, the size; and nothing that changes by itself."""
    (row,) = rows(make_run(make_measurement(QCOW2, workload="dd", bw=(7,), guest={"kernel": "6.1", "dd": "9.1"})))
    assert row.labels == {
        "workload": "dd",
        "cell": "qcow2-none-virtio-blk-off-cluster_size=1M",
        "host": "local",
        "accel": "kvm",
        "emulated": "no",
        "nodeid": f"tests/test_disk.py::test_random_write[{QCOW2}]",
        "format": "qcow2",
        "cache": "none",
        "bus": "virtio-blk",
        "preallocation": "off",
        "cluster_size": "1M",
        "size": "1G",
    }
    assert row.facts == {
        "run": "2026-01-02T03:04:05+00:00",
        "host_kernel": "6.1.0",
        "host_qemu": "7.2.9",
        "host_libvirt": "9.0.0",
        "guest_kernel": "6.1",
        "tool_version": "9.1",
    }


def test_what_had_no_part_in_a_row_is_no_label_of_it() -> None:
    """A native row has no bus; a row under TCG says so, and that it says nothing."""
    native, emulated = rows(
        make_run(
            make_measurement(StorageConfig(backing="native")),
            make_measurement(),
            hosts=[make_host(accel="tcg")],
        )
    )
    assert (native.labels["accel"], native.is_emulated, "bus" in native.labels) == ("native", False, False)
    assert (emulated.labels["accel"], emulated.labels["emulated"], emulated.is_emulated) == ("tcg", "yes", True)
    assert "(tcg, emulated)" in emulated.name


def test_points_of_a_curve_and_repeats_in_a_test_are_told_apart() -> None:
    """They would be one series otherwise."""
    point = make_measurement(iops=(1,)).model_copy(update={"point": {"iodepth": 8.0}})
    first, second, third = rows(make_run(make_measurement(iops=(1,)), make_measurement(iops=(2,)), point))
    assert [row.labels.get("repeat") for row in (first, second, third)] == [None, "2", "3"]
    assert third.labels["at_iodepth"] == "8"
    assert len({row.series for row in (first, second, third)}) == 3


def test_the_time_is_that_of_the_first_round() -> None:
    """In UTC; the oldest row comes first, and a run that is given twice has its rows once."""

    def run(day: str) -> Run:
        made = make_measurement(iops=(1, 2))
        samples = [made.samples[0].model_copy(update={"started": day}), made.samples[1]]
        return make_run(made.model_copy(update={"samples": tuple(samples)}), started=day)

    late, early = run("2026-03-02T01:00:00+02:00"), run("2026-03-01T01:00:00")
    found = rows(late, early, late)
    assert [row.when for row in found] == [
        datetime.datetime(2026, 3, 1, 1, tzinfo=datetime.UTC),
        datetime.datetime(2026, 3, 1, 23, tzinfo=datetime.UTC),
    ]
    with pytest.raises(ConfigError, match="'yesterday', which is no time"):
        gather([run("yesterday")])


def test_only_valid_figures_are_rows_and_the_others_are_named() -> None:
    """Cells that failed, figures that cannot be, tests that ended INVALID, the other sides of pairs."""
    zero = make_measurement(iops=(0, 1), clat=(0.1, 0.2), test="t.py::test_zero")
    lying = make_measurement(QCOW2, workload="dd").model_copy(
        update={"code": "VM703", "message": "The figure of dd is INVALID: it cannot be. [VM703]"}
    )
    slow = make_measurement(iops=(5,), test="t.py::test_slow").model_copy(update={"outcome": "failed", "code": "VM801"})
    run = make_run(zero, lying, slow, failures=[make_failure()], against=[slow], recipe="emulator=/opt/qemu")
    found = gather([run])
    assert [[value.metric for value in row.values] for row in found.rows] == [["clat"], ["iops"]]
    assert found.left_out == (
        f"{QCOW2.label.replace('qcow2', 'raw').replace('-cluster_size=1M', '')} on local, "
        "tests/test_disk.py::test_random_write[raw-none-virtio-blk-off]: failed: "
        "The guest did not answer within 60 s.",
        "1 rows with emulator=/opt/qemu, which were measured beside others as pairs",
        "iops of fio randwrite 4k qd32 on raw-none-virtio-blk-off 1G, local: INVALID: a round gave 0 IOPS",
        f"dd on {QCOW2.label}, local: INVALID: The figure of dd is INVALID: it cannot be. [VM703]",
    )


def test_metrics_are_those_of_the_matrix_or_those_that_are_asked_for() -> None:
    """By patterns, and by the direction that is better; a pattern that finds nothing is a mistake."""
    made = make_measurement(iops=(1,), clat_p50=(1,), clat_p99=(2,)).model_copy(update={"shown": ("iops",)})
    run = make_run(made)

    def metrics(**asked: object) -> list[str]:
        return [value.metric for row in rows(run, **asked) for value in row.values]

    assert metrics() == ["iops"]
    assert metrics(patterns=["clat_*"]) == ["clat_p50", "clat_p99"]
    assert metrics(patterns=["*"], better="higher") == ["iops"]
    with pytest.raises(ConfigError, match=r"no metric 'iosp'.*iops"):
        metrics(patterns=["iops", "iosp"])


def test_metrics_that_would_have_one_name_are_not_mixed() -> None:
    """The first has it, the second is named."""
    made = make_measurement(**{"a_b": (1,), "a-b": (2,)})
    found = gather([make_run(made)])
    assert [value.median for value in found.rows[0].values] == [1.0]
    assert found.left_out == (
        "a-b of fio randwrite 4k qd32 on raw-none-virtio-blk-off 1G, local: "
        "another metric is named a_b_seconds as well",
    )

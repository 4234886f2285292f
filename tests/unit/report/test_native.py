"""Rows compared with native and null rows: tests of `report.details` and `report.csv`."""

from __future__ import annotations

import csv
from collections.abc import Sequence

import pytest

from pytest_vmstorage.analysis.yardsticks import Yardsticks
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.csv import render_csv
from pytest_vmstorage.report.details import LEGEND, RANGE_LEGEND, native_lines, share_range, share_words
from pytest_vmstorage.report.markdown import render_markdown
from pytest_vmstorage.report.overview import overview_blocks
from pytest_vmstorage.report.sections import build_sections
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.results.run import Measurement
from pytest_vmstorage.testing.builders import make_measurement, make_run

NATIVE = StorageConfig(backing="native")
RAW = StorageConfig()
NULL = StorageConfig(backing="null")
JOB = "fio randread 4k qd1"


def test_a_rate_is_a_percentage_and_each_io_has_its_price() -> None:
    """Of the medians; the price is the difference of the mean latencies."""
    native = make_measurement(NATIVE, workload=JOB, iops=(10000.0,), lat_mean=(0.0001,))
    row = make_measurement(RAW, workload=JOB, iops=(4000.0,), lat_mean=(0.00025,))
    assert list(native_lines(make_run(native, row))) == [
        f"{RAW}, {JOB}: 40% (spread unknown) of native (iops 4000 IOPS against 10k IOPS), an I/O takes 250 us:"
        " 150 us (spread unknown) more than natively (100 us)"
    ]


def test_of_a_time_less_is_more() -> None:
    """Twice as long is half of native."""
    native = make_measurement(NATIVE, workload=JOB, clat_p99=(0.001,))
    row = make_measurement(RAW, workload=JOB, clat_p99=(0.002,))
    assert next(native_lines(make_run(row, native))).startswith(f"{RAW}, {JOB}: 50% (spread unknown) of native")


def test_a_share_has_the_range_of_its_rounds() -> None:
    """From the slowest beside the fastest to the other way round, of a rate and of a time, and what that is."""
    native = make_measurement(NATIVE, workload=JOB, iops=(8000.0, 10000.0, 12500.0))
    row = make_measurement(RAW, workload=JOB, iops=(3000.0, 4000.0, 5000.0))
    said, legend = native_lines(make_run(native, row))
    assert said.startswith(f"{RAW}, {JOB}: 40% (24% to 62%) of native (iops 4000 IOPS against 10k IOPS)")
    assert legend == RANGE_LEGEND
    native = make_measurement(NATIVE, workload=JOB, clat_p99=(0.001, 0.001, 0.002))
    row = make_measurement(RAW, workload=JOB, clat_p99=(0.002, 0.0025, 0.004))
    assert next(native_lines(make_run(row, native))).startswith(f"{RAW}, {JOB}: 40% (25% to 100%) of native")


def test_the_price_of_an_io_has_the_range_of_its_rounds() -> None:
    """In the direction that its word has: the rounds of one that is less on the whole may have been more."""
    with_zero = (0.0, 0.002, 0.004)  # of which a share has no range
    natively, on_null = ((0.0001, 0.00011, 0.00013), (0.0003, 0.0004, 0.0005))
    native = make_measurement(NATIVE, workload=JOB, clat_p99=(0.001,) * 3, lat_mean=natively)
    null = make_measurement(NULL, workload=JOB, clat_p99=(0.001,) * 3, lat_mean=on_null)
    row = make_measurement(RAW, workload=JOB, clat_p99=with_zero, lat_mean=(0.00025, 0.00026, 0.00032))
    said, *legends = native_lines(make_run(native, null, row))
    assert said.endswith(
        "an I/O takes 260 us: 150 us (120 us to 220 us) more than natively (110 us),"
        " 140 us (-20 us to 250 us) less than on null (400 us)"
    )
    assert legends == [RANGE_LEGEND, LEGEND]
    row = make_measurement(RAW, workload=JOB, clat_p99=with_zero, lat_mean=(0.00025, float("inf"), 0.00032))
    said, *legends = native_lines(make_run(native, null, row))
    assert "210 us (spread unknown) more than natively" in said
    assert legends == [LEGEND]


def test_the_overview_has_the_range_of_one_row_and_the_ends_of_several() -> None:
    """The one row's is that of its rounds."""
    native = make_measurement(NATIVE, workload=JOB, iops=(10000.0, 12500.0))
    raw = make_measurement(RAW, workload=JOB, iops=(4000.0, 5000.0))
    qcow2 = make_measurement(StorageConfig(format="qcow2"), workload=JOB, iops=(2000.0, 2500.0))

    def told(*rows: Measurement) -> list[str]:
        run = make_run(*rows)
        blocks = {block.label: block for block in overview_blocks(run, None, build_table(run))}
        return [line.text for line in blocks["native"].lines]

    assert told(native, raw) == ["fio randread: 40% (32% to 50%) of the native row"]
    assert told(native, raw, qcow2) == ["fio randread: 20% to 40% of the native row (2 rows)"]


@pytest.mark.parametrize(
    ("mine", "natively"), [((0.0, 0.002, 0.004), (0.001, 0.001)), ((0.002, 0.002), (0.001,)), ((0.002,), (0.001,))]
)
def test_an_unknown_spread_of_a_share_is_said(mine: Sequence[float], natively: Sequence[float]) -> None:
    """Of a row with one round, beside whatever else, and with a round of 0: no range, and none is explained."""
    run = make_run(
        make_measurement(RAW, workload=JOB, clat_p99=mine), make_measurement(NATIVE, workload=JOB, clat_p99=natively)
    )
    assert list(native_lines(run)) == [f"{RAW}, {JOB}: 50% (spread unknown) of native (clat_p99 2 ms against 1 ms)"]


def test_a_native_row_without_the_metric_has_no_share() -> None:
    """A tool of another version may print less."""
    native = make_measurement(NATIVE, workload=JOB, lat_mean=(0.0001, 0.0002))
    row = make_measurement(RAW, workload=JOB, iops=(4000.0, 4100.0))
    assert share_words(row, native, "iops") == ""
    assert share_range(row, native, "iops") is None


def test_what_was_not_measured_natively_is_not_compared() -> None:
    """Another workload, another ground, another host; a native row is not compared with itself."""
    native = make_measurement(NATIVE, workload=JOB, iops=(10000.0,))
    rows = [
        make_measurement(RAW, workload="dd", iops=(1.0,)),
        make_measurement(StorageConfig(host_fs="xfs"), workload=JOB, iops=(1.0,)),
        make_measurement(RAW, workload=JOB, host="lab02", iops=(1.0,)),
    ]
    assert list(native_lines(make_run(native, *rows))) == []


def row(config: StorageConfig, iops: float, lat_mean: float, **more: str) -> Measurement:
    """One round of the job."""
    return make_measurement(config, workload=JOB, iops=(iops,), lat_mean=(lat_mean,), **more)  # type: ignore[arg-type]


def test_a_null_row_is_the_ceiling_beside_the_native_one() -> None:
    """Percent of both, and the time of an I/O in all three: what virtualization costs, and what storage does."""
    run = make_run(row(NATIVE, 10000, 0.0001), row(RAW, 4000, 0.00025), row(NULL, 5000, 0.00019))
    assert list(native_lines(run)) == [
        f"{RAW}, {JOB}: 40% (spread unknown) of native and 80% (spread unknown) of null-none-virtio-blk"
        " (iops 4000 IOPS against 10k IOPS and 5000 IOPS), an I/O takes 250 us: 150 us (spread unknown) more than"
        " natively (100 us), 60 us (spread unknown) more than on null (190 us)",
        LEGEND,
    ]
    titles = {section.title for section in build_sections(run, None)}
    assert "against the native row of the same device and the null row of the same bus" in titles
    assert "80% (spread unknown) of null-none-virtio-blk" in render_markdown(build_table(run))


def test_a_null_row_alone_is_a_ceiling_too() -> None:
    """A host cache may make a row as fast, and a mixed job has two times."""
    mixed = {"read_lat_mean": (0.0001,), "write_lat_mean": (0.0002,)}
    null = make_measurement(NULL, workload=JOB, iops=(5000,), **mixed)
    raw = make_measurement(RAW, workload=JOB, iops=(5500,), read_lat_mean=(0.00009,), write_lat_mean=(0.0003,))
    assert next(native_lines(make_run(null, raw))) == (
        f"{RAW}, {JOB}: 110% (spread unknown) of null-none-virtio-blk (iops 5500 IOPS against 5000 IOPS),"
        " a read takes 90 us: 10 us (spread unknown) less than on null (100 us),"
        " a write takes 300 us: 100 us (spread unknown) more than on null (200 us)"
    )
    titles = {section.title for section in build_sections(make_run(null, raw), None)}
    assert "against the null row of the same bus" in titles


def test_a_null_row_is_that_of_the_guest_most_alike() -> None:
    """The bus must be the same; of the others as many as possible, and of as many the iothread before the cache."""
    cached = NULL.model_copy(update={"cache": "writeback"})
    threaded = NULL.model_copy(update={"iothread": True})
    run = make_run(*(row(config, 1000, 0.001) for config in (NULL, cached, threaded)))
    rows = Yardsticks(run.measurements)

    def ceiling(**cell: object) -> str:
        found = rows.null_of(row(StorageConfig(**cell), 1, 1))
        return str(found.config) if found else ""

    assert ceiling(format="qcow2") == "null-none-virtio-blk"
    assert ceiling(cache="writeback", vcpus=2) == "null-writeback-virtio-blk"
    assert ceiling(cache="writeback", iothread=True) == "null-none-virtio-blk-iothread=yes"
    assert ceiling(cache="unsafe", format="qcow2", guest_fs="ext4") == "null-none-virtio-blk"
    assert ceiling(bus="sata") == ""
    assert ceiling(backing="native") == ceiling(backing="null") == ""
    assert ceiling(total_iops_sec=200) == ceiling(total_bytes_sec="50M") == ""
    assert rows.null_of(row(RAW, 1, 1, host="lab02")) is None


def test_a_null_row_of_the_same_qemu_goes_before_all() -> None:
    """Guest and QEMU are all that it measures."""
    other = StorageConfig(backing="null", emulator="/opt/qemu")
    rows = Yardsticks([row(NULL, 1000, 0.001), row(other, 900, 0.001)])
    for cell in (StorageConfig(emulator="/opt/qemu"), StorageConfig(emulator="/opt/qemu", format="qcow2")):
        assert rows.null_of(row(cell, 1, 1)).config == other  # type: ignore[union-attr]
    assert rows.null_of(row(RAW, 1, 1)).config == NULL  # type: ignore[union-attr]


def test_a_limited_null_row_is_no_ceiling_of_rows_without() -> None:
    """It is that of rows with the same limits, whatever else they share with another one."""
    limited = StorageConfig(backing="null", total_iops_sec=200)
    rows = Yardsticks([row(limited, 200, 0.005), row(StorageConfig(backing="null", cache="unsafe"), 1, 1)])
    found = rows.null_of(row(StorageConfig(total_iops_sec=200, cache="unsafe"), 1, 1))
    assert found is not None
    assert found.config == limited
    assert rows.null_of(row(RAW, 1, 1)) is not None
    assert rows.null_of(row(RAW, 1, 1)).config.cache == "unsafe"  # type: ignore[union-attr]


def test_a_null_row_has_no_native_one() -> None:
    """Also not where a device of that name was measured."""
    run = make_run(row(StorageConfig(backing="native:null"), 1, 1), row(NULL, 1, 1))
    assert list(native_lines(run)) == []


def test_both_stand_in_the_csv_beside_the_figure() -> None:
    """Of each metric that they have; of a time the inverse."""
    run = make_run(row(NATIVE, 10000, 0.0001), row(RAW, 4000, 0.00025), row(NULL, 5000, 0.0002))
    found = {(one["backing"], one["metric"]): one for one in csv.DictReader(render_csv(run).splitlines())}
    names = ("native", "of_native", "null", "of_null")
    assert [float(found["file", "iops"][name]) for name in names] == [10000, 0.4, 5000, 0.8]
    assert [float(found["file", "lat_mean"][name]) for name in names] == [0.0001, 0.4, 0.0002, 0.8]
    assert {found[key, "iops"][name] for key in ("native", "null") for name in names} == {""}

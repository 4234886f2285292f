"""Rows beside the native row of their device."""

from __future__ import annotations

from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.report.native import against_native
from pytest_vmstorage.testing import make_measurement, make_run

NATIVE = StorageConfig(backing="native")
RAW = StorageConfig()
JOB = "fio randread 4k qd1"


def test_a_rate_is_a_percentage_and_each_io_has_its_price() -> None:
    """Of the medians; the price is the difference of the mean latencies."""
    native = make_measurement(NATIVE, workload=JOB, iops=(10000.0,), lat_mean=(0.0001,))
    row = make_measurement(RAW, workload=JOB, iops=(4000.0,), lat_mean=(0.00025,))
    assert list(against_native(make_run(native, row))) == [
        f"{RAW}, {JOB}: 40% of native (iops 4000 IOPS against 10k IOPS), an I/O takes 150 us more"
    ]


def test_of_a_time_less_is_more() -> None:
    """Twice as long is half of native."""
    native = make_measurement(NATIVE, workload=JOB, clat_p99=(0.001,))
    row = make_measurement(RAW, workload=JOB, clat_p99=(0.002,))
    assert next(against_native(make_run(row, native))).startswith(f"{RAW}, {JOB}: 50% of native")


def test_what_was_not_measured_natively_is_not_compared() -> None:
    """Another workload, another ground, another host; a native row is not compared with itself."""
    native = make_measurement(NATIVE, workload=JOB, iops=(10000.0,))
    rows = [
        make_measurement(RAW, workload="dd", iops=(1.0,)),
        make_measurement(StorageConfig(host_fs="xfs"), workload=JOB, iops=(1.0,)),
        make_measurement(RAW, workload=JOB, host="lab02", iops=(1.0,)),
    ]
    assert list(against_native(make_run(native, *rows))) == []

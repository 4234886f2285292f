"""Native rows: a row on the same device that is faster is invalid; `report/test_native.py` has the comparisons."""

from __future__ import annotations

import pytest

from pytest_vmstorage.analysis.yardsticks import Yardsticks
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import WorkloadError
from pytest_vmstorage.results.counters import IoCounters
from pytest_vmstorage.results.run import Measurement
from pytest_vmstorage.testing.builders import make_measurement

NATIVE = StorageConfig(backing="native")
UNCACHED = IoCounters(layer_read_bytes=2**30, layer_written_bytes=0, host_read_bytes=2**30, host_written_bytes=0)
CACHED = UNCACHED.model_copy(update={"host_read_bytes": 2**20})


def row(config: StorageConfig, *iops: float, moved: IoCounters = UNCACHED, **more: str) -> Measurement:
    """A row's rounds, with what each of them moved."""
    made = make_measurement(config, iops=iops, **more)
    return made.model_copy(update={"samples": tuple(s.model_copy(update={"moved": moved}) for s in made.samples)})


@pytest.fixture
def yardsticks() -> Yardsticks:
    """A run whose native row's best round had 1000 IOPS."""
    yardsticks = Yardsticks()
    yardsticks.check(row(NATIVE, 900, 1000, 950))
    return yardsticks


def test_a_row_that_outruns_its_device_is_invalid(yardsticks: Yardsticks) -> None:
    """The sentence has both rows' ratio, and how much a cache could explain."""
    with pytest.raises(WorkloadError, match=r"is INVALID: it is 4\.00 times the native row .* 100% of its bytes"):
        yardsticks.check(row(StorageConfig(), 4000))


@pytest.mark.parametrize(
    "other",
    [
        row(StorageConfig(), 1200),
        row(StorageConfig(), 4000, moved=CACHED),
        row(StorageConfig(), 4000, workload="fio randread 4k qd1"),
        row(StorageConfig(host_fs="xfs"), 4000),
        row(StorageConfig(backing="device:ssd"), 4000),
        row(StorageConfig(backing="lvm"), 4000),
    ],
    ids=["noise", "cache", "workload", "file system", "device", "volume"],
)
def test_what_is_not_comparable_or_explained_is_let_be(yardsticks: Yardsticks, other: Measurement) -> None:
    """Another workload, another ground, a cache that gave the rest, or the noise of rounds."""
    yardsticks.check(other)


def test_a_device_is_known_by_its_name() -> None:
    """native:ssd is what device:ssd is held against."""
    yardsticks = Yardsticks()
    yardsticks.check(row(StorageConfig(backing="native:ssd"), 900, 1000, 950))
    with pytest.raises(WorkloadError, match="INVALID"):
        yardsticks.check(row(StorageConfig(backing="device:ssd", format="qcow2"), 4000))


def test_one_round_is_no_measure_of_a_device() -> None:
    """Nobody knows whether the next would have been twice as fast."""
    yardsticks = Yardsticks()
    yardsticks.check(row(NATIVE, 1000))
    yardsticks.check(row(StorageConfig(), 4000))


def test_a_time_is_no_rate(yardsticks: Yardsticks) -> None:
    """A latency below the native one is for the gate to judge."""
    yardsticks.check(make_measurement(StorageConfig(), clat_p99=(0.000001,)))

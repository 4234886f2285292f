"""Real fio, dd and hdparm on a real disk of a real guest."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from pytest_vmstorage import Dd, Fio, Hdparm, StorageConfig
from pytest_vmstorage.errors import ForeignPathError, WorkloadError
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.measure.runner import measure
from pytest_vmstorage.measure.system import Paths, Plan, Regions
from pytest_vmstorage.results.run import Sample
from pytest_vmstorage.testing.system import FakeSystem, interpose
from pytest_vmstorage.workloads.base import Workload

pytestmark = pytest.mark.restored


@pytest.mark.quick
def test_fio_figures_are_those_of_its_json(lab: Lab) -> None:
    """IOPS and percentiles are read from the real tool's output, and the bytes reached the host's image."""
    guest = lab.guest(StorageConfig(size="256M"))
    job = Fio(rw="randwrite", bs="4k", iodepth=8, size="32M", runtime=1, time_based=True)
    kept: list[Sample] = []
    result = measure(lab.environment(guest.config), job, Plan(rounds=2, warmup=1), keep_sample=kept.append)
    assert result.samples == tuple(kept)
    raw = json.loads(result.raw[0][result.raw[0].index("{") :])
    write = raw["jobs"][0]["write"]
    assert result.values("iops")[0] == pytest.approx(write["total_ios"] / (write["runtime"] / 1000), rel=0.02)
    assert 0 < result.clat_p50 <= result.clat_p99 < 10
    stats = lab.shell.run(["stat", "-c", "%b", guest.machine.spec.disk])
    assert int(stats.stdout) * 512 >= 32 * 2**20
    series = kept[0].series
    assert series is not None
    assert (series.counted_by, series.lost) == ("QEMU", 0)
    # from before the tool began to after its end, within the looks around the round
    assert len(series) >= 2
    assert write["io_bytes"] <= (series.total("written_bytes") or 0) <= (kept[0].moved.layer_written_bytes or 0)
    assert series.edges_s[0] == 0 < series.edges_s[-1] < kept[0].seconds + 1
    assert (series.total("write_us") or 0) > 0
    assert [[one.lost for one in sample.warm_ups] for sample in kept] == [[0], []]


@pytest.mark.quick
def test_a_lab_writes_to_nothing_but_its_own(lab: Lab, tmp_path: Path) -> None:
    """Its shell is guarded, and so is every path that a file system or a disk is made on."""
    other = tmp_path / "other"
    other.write_text("precious")
    with pytest.raises(ForeignPathError, match=f"truncate would be given {other} on "):
        lab.shell.run(["truncate", "-s", "0", "--", str(other)])
    assert lab.shell.run(["truncate", "-s", "1", "--", f"{lab.lease.folder}/own"]).ok
    assert other.read_text() == "precious"


@pytest.mark.parametrize(
    ("workload", "metric"),
    [(Dd(bs="1M", count=32, oflag="direct"), "bw"), (Hdparm(t=True), "buffered_read")],
    ids=["dd", "hdparm"],
)
def test_other_tools_give_a_rate(lab: Lab, workload: Workload, metric: str) -> None:
    """dd and hdparm run on the disk and give a positive rate in MiB/s."""
    guest = lab.guest(StorageConfig(size="256M"))
    result = measure(lab.environment(guest.config), workload, Plan(rounds=1, warmup=0))
    assert result.metric(metric).unit == "MiB/s"
    assert result.figure(metric) > 1


def test_fresh_rounds_meet_untouched_blocks(lab: Lab) -> None:
    """Each round on a fresh sparse disk makes the image grow by what it writes: it is a first write each time."""
    guest = lab.guest(StorageConfig(size="256M", state="fresh"))
    grown = []

    def allocated() -> None:
        done = lab.shell.run(["stat", "-c", "%b", guest.machine.spec.disk])
        grown.append(int(done.stdout) * 512)

    measure(interpose(lab.environment(guest.config), allocated), Dd(bs="1M", count=32, conv="fsync"), Plan(rounds=3))
    allocated()
    # qemu-img allocates the first 4 KiB of a raw file itself
    steps = [after - before for before, after in itertools.pairwise(grown)]
    assert all(step >= 32 * 2**20 - 4096 for step in steps), steps


def test_failing_tool_is_an_error_with_its_words(lab: Lab) -> None:
    """A tool that fails gives its own message, not a figure."""
    guest = lab.guest(StorageConfig(size="256M"))
    place = FakeSystem(guest.shell, guest.config, Regions(guest.config.size), Paths(disk="/dev/nosuchdisk"))
    with pytest.raises(WorkloadError, match="nosuchdisk"):
        measure(place, Dd(bs="1M", count=1), Plan(rounds=1, warmup=0))

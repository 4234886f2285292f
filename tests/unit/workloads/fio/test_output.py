"""What real output of fio 3.28, 3.33 and 3.42 says: figures, depths, steady states, corruption.

fio 3.33 is Debian 12's; 3.28 and 3.42 were built from the tags of those names of the fio repository (axboe/fio) and run
here with the same command lines, `Fio(...).argv(...)`, with io_uring in place of libaio.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.errors import WorkloadError
from pytest_vmstorage.workloads.fio import output
from pytest_vmstorage.workloads.fio.fio import Fio
from pytest_vmstorage.workloads.fio.output import depth_reached

RECORDINGS = Path(__file__).parents[2] / "recordings"
VERSIONS = ("3.28", "3.33", "3.42")
UNSTEADY: dict[str, Any] = {"time_based": True, "runtime": 4, "steadystate": "iops:0.0001%", "ss_dur": 2}


def recorded(version: str, name: str, suffix: str = "json") -> str:
    """What that fio really wrote."""
    return (RECORDINGS / f"fio-{version}-{name}.{suffix}").read_text()


def job_of(text: str) -> dict[str, Any]:
    """The entry of its only job."""
    (job,) = json.loads(text)["jobs"]
    return dict(job)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("randwrite", {"rw": "randwrite", "iodepth": 8}),
        ("randwrite-fdatasync", {"rw": "randwrite", "fdatasync": 1}),
        ("randrw-x2", {"rw": "randrw", "numjobs": 2}),
        ("verify", {"rw": "randwrite", "verify": "crc32c"}),
        ("not-steady", {"rw": "randread"} | UNSTEADY),
    ],
)
def test_every_version_is_read_whole(version: str, name: str, options: dict[str, Any]) -> None:
    """All metrics are there, rates agree with counts and times, and percentiles lie between smallest and largest."""
    text = recorded(version, name)
    fio, job = Fio(**options), job_of(text)
    assert json.loads(text)["fio version"] == f"fio-{version}"
    figures = fio.parse(text)
    assert set(figures) == {metric.name for metric in fio.metrics}
    for direction in fio.directions:
        prefix = f"{direction}_" if len(fio.directions) == 2 else ""
        told = job[direction]
        assert figures[f"{prefix}iops"] == pytest.approx(told["total_ios"] / told["runtime"] * 1e3, rel=0.01)
        for kind in ("slat", "clat", "lat"):
            smallest, largest = (told[f"{kind}_ns"][edge] / 1e9 for edge in ("min", "max"))
            names = [f"{prefix}{kind}_{part}" for part in ("p50", "p95", "p99", "p999")]
            values = [figures[each] for each in names]
            assert values == sorted(values)
            # a percentile is the upper edge of its bin, which is a 64th wide
            assert smallest <= values[0]
            assert values[-1] <= largest * (1 + 1 / 64)
            assert smallest <= figures[f"{prefix}{kind}_mean"] <= largest
        parts = figures[f"{prefix}slat_mean"] + figures[f"{prefix}clat_mean"]
        assert figures[f"{prefix}lat_mean"] == pytest.approx(parts, rel=0.05)


@pytest.mark.parametrize("version", VERSIONS)
def test_fsync_has_a_latency_of_its_own(version: str) -> None:
    """Mean and percentiles, from where fio puts fsync and fdatasync alike."""
    text = recorded(version, "randwrite-fdatasync")
    told = job_of(text)["sync"]["lat_ns"]
    figures = Fio(rw="randwrite", fdatasync=1).parse(text)
    assert figures["fsync_mean"] == pytest.approx(told["mean"] / 1e9)
    assert figures["fsync_p999"] == pytest.approx(told["percentile"]["99.900000"] / 1e9)


def test_engines_that_submit_nothing_have_no_submission_latency() -> None:
    """psync has none in its output, and no metric for it."""
    fio = Fio(rw="randread", ioengine="psync")
    figures = fio.parse(recorded("3.33", "psync"))
    assert set(figures) == {metric.name for metric in fio.metrics}
    assert not [name for name in figures if name.startswith("slat")]
    assert figures["lat_p99"] > 0


@pytest.mark.parametrize(
    ("levels", "reached"),
    [
        ({"1": 100.0}, 1.0),
        ({"8": 50.0, "16": 50.0}, 12.0),
        ({"1": 0.1, "8": 99.9}, 7.993),
        ({">=64": 100.0}, 64.0),
        ({"1": 0.1, "2": 0.1, "4": 0.1, "32": 100.0}, (0.1 + 0.2 + 0.4 + 3200) / 100.3),
    ],
)
def test_depth_reached_is_the_mean_of_the_buckets_edges(levels: dict[str, float], reached: float) -> None:
    """Each share counts with the least depth it stands for."""
    every = dict.fromkeys(("1", "2", "4", "8", "16", "32", ">=64"), 0.0)
    assert depth_reached({"iodepth_level": every | levels}) == pytest.approx(reached)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_depth_that_was_reached_is_not_remarked_upon(version: str) -> None:
    """Eight in flight but for the last few I/Os."""
    fio, text = Fio(rw="randwrite", iodepth=8), recorded(version, "randwrite")
    assert 7.8 < fio.parse(text)["iodepth_reached"] <= 8
    assert fio.remarks(text) == ()


def test_a_depth_that_was_not_reached_is_said() -> None:
    """A job held to 100 IOPS has one in flight, whatever its depth; with a depth of one that is all it asked for."""
    text = recorded("3.33", "rate-depth")
    assert Fio(rw="randread", iodepth=16, rate_iops=100).parse(text)["iodepth_reached"] == 1
    assert Fio(rw="randread", iodepth=16).remarks(text) == ("iodepth=16 was not reached: 1.0 in flight on average",)
    assert Fio(rw="randread").remarks(text) == ()


def test_a_depth_that_no_io_had_is_an_error() -> None:
    """fio's distribution of a job without I/O is all zeros."""
    with pytest.raises(WorkloadError, match="at no queue depth"):
        depth_reached({"iodepth_level": dict.fromkeys(("1", "2", "4", "8", "16", "32", ">=64"), 0.0)})


def test_a_steady_state_has_its_own_rates() -> None:
    """Those of the window in which it was steady."""
    fio = Fio(rw="randread", time_based=True, runtime=8, steadystate="iops_slope:10%", ss_dur=2)
    text = recorded("3.33", "steadystate")
    steady = job_of(text)["steadystate"]
    figures = fio.parse(text)
    assert figures["steadystate_attained"] == 100
    assert figures["steadystate_iops"] == steady["data"]["iops_mean"]
    assert figures["steadystate_bw"] == pytest.approx(figures["steadystate_iops"] * 65536 / 2**20, rel=0.02)
    assert fio.remarks(text) == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_steady_state_that_was_not_attained_is_said(version: str) -> None:
    """As a figure of 0 %, and in a remark with what was asked and found."""
    fio, text = Fio(rw="randread", **UNSTEADY), recorded(version, "not-steady")
    assert fio.parse(text)["steadystate_attained"] == 0
    (remark,) = fio.remarks(text)
    found = job_of(text)["steadystate"]["criterion"]
    assert remark == f"steady state was not attained: iops:0.000100% asked, {found} found"


@pytest.mark.parametrize("version", VERSIONS)
def test_corrupt_data_is_named_with_its_offset(version: str) -> None:
    """A byte changed at 500000 lies in the block at 499712; fio ends with 1 and says so on stderr."""
    said = recorded(version, "corrupt", "stderr")
    failure = Fio(rw="randwrite", verify="crc32c").failure(said + recorded(version, "corrupt"))
    assert failure.startswith("found corrupt data: crc32c: verify failed at file /tmp/wl/f offset 499712, length 4096")
    with pytest.raises(WorkloadError, match="fio found data that it had not written: corruption"):
        Fio(rw="randread").parse(recorded(version, "corrupt"))


def test_another_failure_is_no_corruption() -> None:
    """An I/O error names file and offset too, but in other words."""
    said = "fio: io_u error on file /dev/vdb: Input/output error: write offset=0, buflen=4096\n"
    assert Fio(rw="randwrite").failure(said) == ""
    assert Fio(rw="randwrite").failure("verify: bad magic header 1598, wanted acca at file /dev/vdb offset 0, length 4")


def test_a_verify_that_never_came_is_an_error() -> None:
    """A runtime that ends before the writing leaves nothing read back, and fio's exit status is 0."""
    with pytest.raises(WorkloadError, match="fio verified nothing of what it wrote"):
        Fio(rw="randwrite", verify="crc32c").parse(recorded("3.33", "randwrite"))


def test_errors_that_a_job_passed_over_are_errors() -> None:
    """With continue_on_error a job has no error, but says which was the first."""
    document = json.loads(recorded("3.33", "randwrite"))
    document["jobs"][0] |= {"total_err": 3, "first_error": 84}
    with pytest.raises(WorkloadError, match="corruption"):
        Fio(rw="randwrite").parse(json.dumps(document))


def test_a_fio_of_other_units_is_refused() -> None:
    """Before 3.2 there is no bw_bytes, before 3.0 times are microseconds."""
    text = recorded("3.33", "randwrite").replace("fio-3.33", "fio-2.21")
    with pytest.raises(WorkloadError, match=r"fio-2\.21 is too old"):
        output.entries(text, 1)

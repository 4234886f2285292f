"""fio: its command line, the options that `workloads.fio.checks` refuses, and its real output."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.workloads.base import Target
from pytest_vmstorage.workloads.fio.fio import Fio
from pytest_vmstorage.workloads.fio.job import FioJob
from pytest_vmstorage.workloads.fio.output import percentile_name
from pytest_vmstorage.workloads.fio.presets import AioStress, Tiobench

RECORDINGS = Path(__file__).parents[2] / "recordings"
DISK = Target(path="/dev/vdb", size_bytes=2**30)
STEADY: dict[str, Any] = {"steadystate": "iops_slope:10%", "ss_dur": 10, "time_based": True, "runtime": 60}


def recorded(name: str) -> str:
    """What fio 3.33 really wrote."""
    return (RECORDINGS / f"fio-3.33-{name}.json").read_text()


def changed(name: str, **values: Any) -> str:
    """A recording with fields of its job replaced."""
    document = json.loads(recorded(name))
    document["jobs"][0] |= values
    return json.dumps(document)


def test_argv_of_a_typical_job_is_exact() -> None:
    """The whole line, in the order of the fields, with what keeps fio from making files."""
    fio = Fio(rw="randwrite", bs="4k", iodepth=32, runtime=10, time_based=True)
    assert fio.argv(Target(path="/dev/vdb", size_bytes=2**30, offset_bytes=2**20)) == (
        "fio",
        "--name=vmstorage",
        "--filename=/dev/vdb",
        "--offset=1M",
        "--rw=randwrite",
        "--bs=4k",
        "--iodepth=32",
        "--numjobs=1",
        "--size=256M",
        "--runtime=10",
        "--time_based=1",
        "--ioengine=libaio",
        "--direct=1",
        "--refill_buffers=1",
        "--percentile_list=50:95:99:99.9",
        "--slat_percentiles=1",
        "--clat_percentiles=1",
        "--lat_percentiles=1",
        "--group_reporting",
        "--fallocate=none",
        "--allow_file_create=0",
        "--output-format=json+",
        "--output=/tmp/vmstorage-fio.json",
    )


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"direct": False}, "--direct=0"),
        ({"runtime": 1.5}, "--runtime=1500ms"),
        ({"runtime": "2m"}, "--runtime=120"),
        ({"ramp_time": "500ms"}, "--ramp_time=500ms"),
        ({"size": "1.5M"}, "--size=1536k"),
        ({"fsync": 1}, "--fsync=1"),
        ({"fdatasync": 8}, "--fdatasync=8"),
        ({"randseed": 0}, "--randseed=0"),
        ({"randrepeat": False}, "--randrepeat=0"),
        ({"norandommap": True}, "--norandommap=1"),
        ({"offset_increment": "64M"}, "--offset_increment=64M"),
        ({"rw": "randrw", "rwmixread": 70}, "--rwmixread=70"),
        ({"bssplit": "4k/60:64k/40"}, "--bssplit=4k/60:64k/40"),
        ({"rate": "8M"}, "--rate=8M"),
        ({"rate_iops": 500}, "--rate_iops=500"),
        ({"thinktime": 1000, "thinktime_blocks": 4}, "--thinktime=1000"),
        ({"random_distribution": "zipf:1.2"}, "--random_distribution=zipf:1.2"),
        ({"end_fsync": True}, "--end_fsync=1"),
        ({"sync": True}, "--sync=1"),
        ({"sync": "dsync"}, "--sync=dsync"),
        ({"io_size": "4000k"}, "--io_size=4000k"),
        ({"rw": "randread", "direct": False, "pre_read": True}, "--pre_read=1"),
        ({"verify": "crc32c"}, "--verify=crc32c"),
        ({"verify": "crc32c"}, "--verify_state_save=0"),
        ({"verify": "md5", "verify_fatal": True}, "--verify_fatal=1"),
        ({"verify": "md5", "verify_backlog": 64}, "--verify_backlog=64"),
        (STEADY, "--steadystate=iops_slope:10%"),
        (STEADY, "--ss_dur=10"),
        (STEADY | {"ss_ramp": "5s"}, "--ss_ramp=5"),
    ],
)
def test_each_option_goes_to_fio_under_its_own_name(options: dict[str, Any], argument: str) -> None:
    """What is set reaches the command line, exactly."""
    assert argument in Fio(**{"rw": "randwrite"} | options).argv(DISK)


def test_options_that_are_not_set_are_not_given() -> None:
    """None and fio's own defaults stay off the command line."""
    line = " ".join(Fio(rw="read", refill_buffers=False, runtime=None, offset_increment=None).argv(DISK))
    for name in ("runtime", "fsync", "refill_buffers", "randrepeat", "time_based", "offset_increment", "None"):
        assert name not in line


def test_a_colon_in_the_path_is_no_separator() -> None:
    """fio splits filename at colons, which /dev/disk/by-path is full of."""
    path = "/dev/disk/by-path/pci-0000:00:05.0"
    assert r"--filename=/dev/disk/by-path/pci-0000\:00\:05.0" in Fio(rw="read").argv(
        Target(path=path, size_bytes=2**30)
    )


def test_a_region_that_does_not_fit_is_refused() -> None:
    """The sentence has both sizes."""
    with pytest.raises(ConfigError, match=r"needs 256M, but /dev/vdb has 64M for it"):
        Fio(rw="read").argv(Target(path="/dev/vdb", size_bytes=2**26))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rw": "randwrit"}, r"rw='randwrit'\) is not known here. Did you mean 'randwrite'\? It is one of: read,"),
        ({"rw": "trim"}, r"rw='trim'\) is not known here. (Did you mean .*)?It is one of"),
        ({"ioengine": "libaoi"}, "Did you mean 'libaio'"),
        ({"iodepth": 0}, r"iodepth=0\): Input should be greater than or equal to 1"),
        ({"numjobs": 0}, r"numjobs=0\): Input should be greater than or equal to 1"),
        ({"iodepth": 8, "ioengine": "psync"}, "'psync' has one I/O in flight whatever iodepth=8 says"),
        ({"iodepth": 8, "direct": False}, "libaio without direct has one I/O in flight whatever iodepth=8 says"),
        ({"bs": "1M", "size": "64k"}, "bs=1M does not fit into size=64k"),
        ({"bs": 0}, "bs=0 does not fit"),
        ({"bs": 1000}, "direct I/O goes in whole sectors"),
        ({"bs": "four"}, "'four' is not a size"),
        ({"time_based": True}, "time_based without runtime has no end"),
        ({"runtime": 0}, "runtime=0 is too short"),
        ({"runtime": -1}, "-1 is not a duration"),
        ({"rwmixread": 70}, "rwmixread needs a mixed job"),
        ({"rw": "randrw", "rwmixread": 100}, "less than or equal to 99"),
        ({"rw": "randread", "fsync": 1}, "a job that only reads has nothing to sync"),
        ({"fsync": 1, "fdatasync": 1}, "fsync and fdatasync would be timed as one"),
        ({"rw": "write", "numjobs": 4}, '4 sequential jobs .* offset_increment="256M"'),
        ({"percentile_list": "99:often"}, "'99:often' is not a list of percentiles"),
        ({"percentile_list": "99.9:9.99"}, "two percentiles of one name"),
        ({"bssplit": "4k/60:64k/50"}, "'4k/60:64k/50' does not add up to 100 %"),
        ({"bssplit": "4k/60:64k/40", "bs": "4k"}, "leaves no use for bs"),
        ({"bssplit": "4k/60:1000/40"}, "has a size that cannot be used"),
        ({"bssplit": "4k/50:1G/50"}, "has a size that cannot be used"),
        ({"bssplit": "4k"}, "'4k' does not add up to 100 %"),
        ({"bssplit": "4k/100,8k/100"}, "is for 2 directions"),
        ({"rate": "1M", "rate_iops": 5}, "rate and rate_iops are two limits"),
        ({"rate": 0}, "rate=0 is no limit"),
        ({"thinktime_blocks": 4}, "thinktime_blocks without thinktime does nothing"),
        ({"random_distribution": "zipf:1"}, "random_distribution='zipf:1' is not known here"),
        ({"random_distribution": "pareto:1.5"}, "random_distribution='pareto:1.5' is not known here"),
        ({"random_distribution": "gauss:3"}, "random_distribution='gauss:3' is not known here"),
        ({"random_distribution": "zipf:often"}, "random_distribution='zipf:often' is not known here"),
        ({"rw": "write", "random_distribution": "zipf:1.2"}, "random_distribution needs a random job"),
        ({"rw": "randread", "end_fsync": True}, "a job that only reads has nothing to sync"),
        ({"rw": "randread", "sync": True}, "a job that only reads has nothing to sync"),
        ({"rw": "randread", "pre_read": True}, "pre_read fills the page cache, which direct jobs bypass"),
        ({"direct": False, "pre_read": True}, "and writes do not need"),
        ({"io_size": "1M", "time_based": True, "runtime": 5}, "io_size=1M with time_based"),
        ({"io_size": 512}, "or below a block, does not end the job"),
        ({"verify": "crc33"}, "verify='crc33'\\) is not known here. Did you mean 'crc32'"),
        ({"rw": "randread", "verify": "crc32c"}, "verify checks what the job itself wrote"),
        ({"rw": "randrw", "verify": "crc32c"}, "verify checks what the job itself wrote"),
        ({"verify": "crc32c", "time_based": True, "runtime": 5}, "verify with time_based never checks its last"),
        ({"verify": "crc32c", "numjobs": 2}, "2 jobs on the same blocks would read each other's data"),
        ({"verify": "crc32c", "iodepth": 8, "norandommap": True}, "reports corruption where there is none"),
        ({"verify_fatal": True}, "verify_fatal and verify_backlog need verify"),
        ({"steadystate": "iops"}, "steadystate='iops' is not known here"),
        (STEADY | {"ss_dur": None}, "needs a window of whole seconds"),
        (STEADY | {"ss_dur": 2.5}, "needs a window of whole seconds"),
        (STEADY | {"time_based": False}, "steadystate ends with size"),
        (STEADY | {"ss_ramp": 50}, r"Give time_based=True and a runtime above 60 seconds"),
        ({"ss_dur": 10}, "ss_dur and ss_ramp need steadystate"),
        ({"sync": "fsync"}, r"Fio\(sync='fsync'\) is not known here\. It is True, False or \"dsync\""),
        ({"rw": "read", "sync": "dsync"}, "a job that only reads has nothing to sync"),
        ({"iodepth": True}, r"Fio\(iodepth\)=True is a yes or no. Write a number"),
        ({"iodepht": 4}, r"Fio has no option 'iodepht'\. Did you mean 'iodepth'\? It has: rw, bs,"),
        ({"block_size": "4k"}, r"Fio has no option 'block_size'\. Did you mean 'bs'\? It has: rw, bs,"),
        ({"show": ("iops",)}, r"Fio has no option 'show'\. Did you mean 'shown'\? It has: rw, bs,"),
        ({"hipri": 1}, r'An option of fio without a field goes into extra: Fio\(extra=\{"hipri": \.\.\.\}\)\. It has'),
        ({"iodepth": 1.0}, r"Fio\(iodepth\)=1\.0 is not an integer\. Write 1\."),
        ({"iodepth": 1.5}, r"Fio\(iodepth\)=1\.5 is not an integer\. Write a whole number\."),
        ({"size": 2**28 / 1}, r"Fio\(size\)=268435456\.0 is not an integer\. Write 268435456\."),
        ({"rwmixread": 70.0, "rw": "randrw"}, r"Fio\(rwmixread\)=70\.0 is not an integer"),
    ],
)
def test_a_job_that_means_nothing_is_refused_when_made(options: dict[str, Any], sentence: str) -> None:
    """Each slip has its sentence, before there is a guest."""
    with pytest.raises(ConfigError, match=sentence):
        Fio(**{"rw": "randwrite"} | options)


def test_rw_has_no_default() -> None:
    """A job says what it does."""
    with pytest.raises(ConfigError, match=r"Fio\(rw\): Field required"):
        Fio()


@pytest.mark.parametrize(
    ("options", "label"),
    [
        ({"rw": "randwrite", "iodepth": 32}, "fio randwrite 4k qd32"),
        ({"rw": "randwrite", "iodepth": 32, "runtime": 10, "time_based": True}, "fio randwrite 4k qd32"),
        ({"rw": "randwrite", "numjobs": 4, "fsync": 1}, "fio randwrite 4k qd1 x4 fsync=1"),
        ({"rw": "read", "bs": "1M", "direct": False}, "fio read 1M qd1 buffered"),
        ({"rw": "randrw", "rwmixread": 70, "size": "1G"}, "fio randrw 4k qd1 rwmixread=70 size=1G"),
        ({"rw": "write", "refill_buffers": False}, "fio write 4k qd1 refill_buffers=0"),
        ({"rw": "write", "ioengine": "io_uring"}, "fio write 4k qd1 ioengine=io_uring"),
    ],
)
def test_label(options: dict[str, Any], label: str) -> None:
    """Short for a usual job; what is unusual is named."""
    assert Fio(**options).label == label


def test_jobs_that_do_something_else_have_another_label() -> None:
    """Every field but time and percentiles changes the label."""
    usual: dict[str, Any] = {"rw": "randwrite", "bs": "8k"}
    changes: list[dict[str, Any]] = [
        {"rw": "randread"}, {"rw": "randrw"}, {"bs": "16k"}, {"iodepth": 2}, {"numjobs": 2}, {"size": "1M"},
        {"offset_increment": "1M"}, {"ioengine": "io_uring"}, {"direct": False}, {"fsync": 1},
        {"fdatasync": 1}, {"sync": True}, {"sync": "dsync"}, {"io_size": "2M"},
        {"rw": "randrw", "rwmixread": 7}, {"refill_buffers": False}, {"norandommap": True},
        {"randrepeat": False}, {"randseed": 0}, {"end_fsync": True}, {"rate": "1M"}, {"rate_iops": 5}, {"thinktime": 5},
        {"thinktime": 5, "thinktime_blocks": 2}, {"random_distribution": "zipf:1.2"}, {"verify": "md5"},
        {"verify": "md5", "verify_fatal": True}, {"verify": "md5", "verify_backlog": 9}, STEADY,
        STEADY | {"ss_dur": 20}, STEADY | {"ss_ramp": 1}, STEADY | {"steadystate": "bw:5%"}, {"gtod_reduce": True},
        {"extra": {"dedupe_percentage": 50}},
    ]  # fmt: skip
    warm = {"rw": "randread", "direct": False}
    changes += [warm, warm | {"pre_read": True}]
    labels = [Fio(**usual).label, *(Fio(**usual | change).label for change in changes)]
    assert len(set(labels)) == len(labels)
    assert Fio(rw="randwrite", bssplit="8k/50:4k/50").label == "fio randwrite 8k/50:4k/50 qd1"
    told = {name for change in changes for name in change} - set(STEADY) | {"steadystate", "ss_dur", "bssplit"}
    assert set(Fio.model_fields) - told == {"runtime", "ramp_time", "time_based", "percentile_list"}


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"rw": "randread", "bs": "1M"}, ("iops", "clat_p99")),
        ({"rw": "write", "bs": "64k"}, ("bw", "clat_p99")),
        ({"rw": "write", "bs": "32k"}, ("iops", "clat_p99")),
        ({"rw": "randrw"}, ("iops", "write_clat_p99")),
        ({"rw": "randread", "percentile_list": "50"}, ("iops",)),
        ({"rw": "randread"} | STEADY, ("iops", "clat_p99", "steadystate_attained")),
    ],
)
def test_shown_are_the_rate_and_the_tail(options: dict[str, Any], shown: tuple[str, ...]) -> None:
    """The primary metric first; each is one that parse returns."""
    fio = Fio(**options)
    assert fio.shown == shown
    assert fio.primary == shown[0]
    assert set(shown) <= {metric.name for metric in fio.metrics}


@pytest.mark.parametrize(
    ("options", "is_possible"),
    [
        ({"rw": "write"}, True),
        ({"rw": "randwrite", "runtime": 5}, True),
        ({"rw": "randwrite", "numjobs": 2, "offset_increment": "256M"}, True),
        ({"rw": "randwrite", "numjobs": 2}, False),
        ({"rw": "randwrite", "runtime": 5, "time_based": True}, False),
        ({"rw": "randwrite", "norandommap": True}, False),
        ({"rw": "randwrite", "io_size": "1M"}, True),
        ({"rw": "randwrite", "io_size": "1G"}, False),
        ({"rw": "randwrite", "random_distribution": "zipf:1.2"}, False),
        ({"rw": "randwrite", "verify": "crc32c"}, True),
        ({"rw": "randrw"}, False),
        ({"rw": "read"}, False),
    ],
)
def test_first_writes_only_where_no_block_is_written_twice(options: dict[str, Any], *, is_possible: bool) -> None:
    """Time, jobs on one region and chance all come back to a block."""
    assert Fio(**options).fresh_is_possible is is_possible


def test_region_is_all_that_the_jobs_touch() -> None:
    """Shared without an increment, side by side with one."""
    assert Fio(rw="randread", numjobs=4).region_bytes == 256 * 2**20
    assert Fio(rw="read", numjobs=4, offset_increment="256M").region_bytes == 2**30
    assert Fio(rw="randrw").reads
    assert not Fio(rw="randwrite").reads


def test_expected_seconds() -> None:
    """Ramp and runtime and a second; a guess where fio decides by size."""
    assert Fio(rw="read", runtime=10, ramp_time=2).expected_seconds == 13
    assert Fio(rw="read").expected_seconds == 6
    assert Fio(rw="write", verify="md5").expected_seconds == 11
    assert (Fio(rw="read", runtime=10, ramp_time=2).unmeasured_s, Fio(rw="read").unmeasured_s) == (2, 0)


def test_how_long_a_job_ran_is_its_result_where_its_size_ends_it() -> None:
    """A job that runs for a time was asked to, whether or not its size may end it before."""

    def better(**options: Any) -> str:
        return next(metric.better for metric in Fio(rw="read", **options).metrics if metric.name == "runtime")

    assert better() == better(io_size="512M") == "lower"
    assert better(runtime=5) == better(runtime=5, time_based=True) == "neither"
    # two jobs side by side take as long as one, not twice as long
    assert Fio(rw="randrw", numjobs=2).parse(recorded("randrw-x2"))["runtime"] == pytest.approx(0.015)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("write", {"rw": "write", "bs": "256k"}),
        ("randwrite", {"rw": "randwrite"}),
        ("randwrite-fdatasync", {"rw": "randwrite", "fdatasync": 1}),
        ("randrw-x2", {"rw": "randrw", "numjobs": 2}),
    ],
)
def test_figures_of_a_real_run(name: str, options: dict[str, Any]) -> None:
    """Every metric is there and agrees with the counts, bytes and milliseconds of the same recording."""
    fio = Fio(**options)
    figures = fio.parse(recorded(name))
    job = json.loads(recorded(name))["jobs"][0]
    assert set(figures) == {metric.name for metric in fio.metrics}
    rates = {"iops": 0.0, "bw": 0.0}
    for direction in fio.directions:
        told, seconds = job[direction], job[direction]["runtime"] / 1e3
        prefix = f"{direction}_" if len(fio.directions) == 2 else ""
        assert figures["runtime"] == seconds
        rates["iops"] += told["total_ios"] / seconds
        rates["bw"] += told["io_bytes"] / 2**20 / seconds
        assert figures[f"{prefix}lat_mean"] == pytest.approx(told["lat_ns"]["mean"] / 1e9)
        assert figures[f"{prefix}clat_p99"] == pytest.approx(told["clat_ns"]["percentile"]["99.000000"] / 1e9)
        assert figures[f"{prefix}slat_p95"] == pytest.approx(told["slat_ns"]["percentile"]["95.000000"] / 1e9)
        assert figures[f"{prefix}lat_p50"] == pytest.approx(told["lat_ns"]["percentile"]["50.000000"] / 1e9)
        assert figures[f"{prefix}clat_p999"] == pytest.approx(told["clat_ns"]["percentile"]["99.900000"] / 1e9)
        assert told["clat_ns"]["min"] / 1e9 <= figures[f"{prefix}clat_p50"] <= told["clat_ns"]["max"] / 1e9
    assert figures["ctx"] == job["ctx"]
    assert figures["iops"] == pytest.approx(rates["iops"], rel=0.01)
    assert figures["bw"] == pytest.approx(rates["bw"], rel=0.01)


def test_units_are_mib_and_seconds() -> None:
    """Read by eye from the recording: bw_bytes 262144000, lat_ns mean 121287.482422, p99 1368064."""
    figures = Fio(rw="randwrite").parse(recorded("randwrite"))
    assert figures["bw"] == pytest.approx(250.0000, rel=1e-5)
    assert figures["bw"] == pytest.approx(figures["iops"] * 4096 / 2**20, rel=1e-5)
    assert figures["lat_mean"] == pytest.approx(0.000121287482)
    assert figures["clat_p99"] == pytest.approx(0.001368064)


def test_sync_latency_is_read_where_asked_for() -> None:
    """fsync and fdatasync land in one place, which fio fills only then."""
    figures = Fio(rw="randwrite", fdatasync=1).parse(recorded("randwrite-fdatasync"))
    told = json.loads(recorded("randwrite-fdatasync"))["jobs"][0]["sync"]["lat_ns"]["percentile"]
    assert figures["fsync_p99"] == pytest.approx(told["99.000000"] / 1e9)
    assert "fsync_p99" not in Fio(rw="randwrite").parse(recorded("randwrite-fdatasync"))
    with pytest.raises(WorkloadError, match=r"no figure at sync/lat_ns/percentile/50\.000000"):
        Fio(rw="randwrite", fsync=1).parse(recorded("randwrite"))


def test_mixed_latencies_are_never_put_together() -> None:
    """Only rates have a total."""
    names = {metric.name for metric in Fio(rw="rw").metrics}
    assert {"iops", "read_iops", "write_iops", "bw", "read_bw", "write_bw", "read_clat_p99"} <= names
    assert not {"clat_p99", "lat_mean"} & names


def test_warnings_before_and_after_the_json_are_no_obstacle() -> None:
    """fio writes its notes into the same file, braces and all."""
    text = f"note: both {{iodepth >= 1}} and synchronous\nfio: a {{\n{recorded('randwrite')}\nbye {{\n"
    assert Fio(rw="randwrite").parse(text) == Fio(rw="randwrite").parse(recorded("randwrite"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "fio left no JSON"),
        ("fio: engine nope not loadable\n", "fio left no JSON"),
        (recorded("randwrite")[:2000], "fio's JSON cannot be read"),
        (recorded("randwrite").replace('"iops" :', '"iops" : -nan,', 1), "fio's JSON cannot be read"),
        ('{"fio version": "fio-3.33"}', "fio reported 0 jobs"),
        ('{"jobs": []}', "fio reported 0 jobs"),
        ('{"jobs": [{"error": 0}, {"error": 0}]}', "fio reported 2 jobs"),
        ('{"jobs": [{"error": 0}]}', "no figure at write/total_ios"),
        ('{"jobs": [1]}', "no figure at error"),
        (changed("randwrite", usr_cpu=math.nan), "fio's output has nan at usr_cpu"),
        (changed("randwrite", usr_cpu=None), "no figure at usr_cpu"),
        (changed("randwrite", error=5), r"error 5 \(Input/output error\)"),
    ],
)
def test_output_that_is_no_result_is_an_error(text: str, sentence: str) -> None:
    """Never a figure from half a result."""
    with pytest.raises(WorkloadError, match=sentence):
        Fio(rw="randwrite").parse(text)


def test_a_failed_job_says_what_fio_said() -> None:
    """The recording has errno 22; the line before the JSON names the call."""
    said = "fio: io_u error on file /dev/vdb: Invalid argument: write offset=1011000, buflen=1000"
    with pytest.raises(WorkloadError, match="error 22") as caught:
        Fio(rw="randwrite").parse(f"{said}\n{recorded('einval-error')}")
    assert caught.value.output == said


def test_a_disk_that_is_not_there_is_an_error() -> None:
    """fio then has error 0 in the job (3.33), but did nothing and said why."""
    with pytest.raises(WorkloadError, match="fio did no read") as caught:
        Fio(rw="randread").parse(recorded("nofile-error"))
    assert "file creation disallowed" in str(caught.value)


def test_a_direction_that_was_not_run_is_an_error() -> None:
    """A recording of writes has no reads."""
    with pytest.raises(WorkloadError, match="fio did no read"):
        Fio(rw="randread").parse(recorded("randwrite"))


@pytest.mark.parametrize(
    ("text", "name"), [("50", "p50"), ("99.9", "p999"), ("99.90", "p999"), ("99.99", "p9999"), ("5", "p5")]
)
def test_percentile_name(text: str, name: str) -> None:
    """As people say it: three nines are p999."""
    assert percentile_name(text) == name


def test_what_a_direct_job_moved_is_what_fio_counted() -> None:
    """Bytes of both directions; a job through the page cache says nothing of the disk."""
    text = (RECORDINGS / "fio-3.33-randwrite.json").read_text()
    job = json.loads(text[text.index("{") :])["jobs"][0]
    moved = Fio(rw="randwrite").moved_bytes(text)
    assert moved == job["read"]["io_bytes"] + job["write"]["io_bytes"]
    assert moved > 0
    assert Fio(rw="randwrite", direct=False, ioengine="psync").moved_bytes(text) is None


@pytest.mark.skipif(shutil.which("fio") is None, reason="install fio to have this tested")
def test_without_times_of_each_io_there_are_no_latencies(tmp_path: Path) -> None:
    """gtod_reduce, as published command lines have it: the rates of a real fio are read, and it stands in the label."""
    (tmp_path / "disk").write_bytes(bytes(2**20))
    target = Target(path=str(tmp_path / "disk"), size_bytes=2**20, is_file=True, scratch=str(tmp_path))
    job = Fio(rw="randrw", bs="4k", size="1M", direct=False, ioengine="psync", gtod_reduce=True, fsync=4)
    assert job.label.endswith(" gtod_reduce=1")
    assert "--gtod_reduce=1" in job.argv(target)
    assert not [word for word in job.argv(target) if word.startswith("--clat_percentiles")]
    subprocess.run(job.argv(target), check=True, cwd=tmp_path, capture_output=True)
    figures = job.parse(Path(job.output_file(target)).read_text())
    assert figures.keys() == {metric.name for metric in job.metrics}
    assert figures["iops"] > 0
    assert not [name for name in figures if "lat" in name or "fsync" in name]
    assert job.shown == ("iops",)


def test_each_option_is_described_in_fios_words() -> None:
    """As editors show them; also those that a preset has its own default for."""
    for kind in (Fio, Tiobench, AioStress):
        assert [name for name, field in kind.model_fields.items() if not (field.description or "").endswith(".")] == []


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("rw=randwrite bs=4k iodepth=32 size=256M runtime=5", Fio(rw="randwrite", iodepth=32, runtime=5)),
        ("rw = randread\n; a remark\nblocksize=8k # another\ntime_based\nruntime=1m\n",
         Fio(rw="randread", bs="8k", time_based=True, runtime=60)),
        ("--rw=read --bs=64k --direct=0 --ioengine=psync", Fio(rw="read", bs="64k", direct=False, ioengine="psync")),
        ("rw=write randrepeat=0 refill_buffers=0", Fio(rw="write", randrepeat=False, refill_buffers=False)),
        ("rw=write thread dedupe_percentage=50", Fio(rw="write", extra={"dedupe_percentage": 50, "thread": 1})),
        ("rw=read rw=write", Fio(rw="write")),
        ("rw=write sync=1", Fio(rw="write", sync=True)),
        ("rw=write sync=dsync", Fio(rw="write", sync="dsync")),
    ],
)  # fmt: skip
def test_a_text_of_options_is_the_same_job(text: str, same: Fio) -> None:
    """In one line or several, with fio's other names, switches and dashes; what has no field is extra."""
    assert Fio.from_text(text) == same


def test_a_text_has_variables_and_shown_as_a_file_has() -> None:
    """And a text with a section is a job file, with fio's own defaults."""
    assert Fio.from_text("rw=randrw rwmixread=${MIX}", MIX=70, shown=("iops",)).columns == ("iops",)
    assert Tiobench.from_text("rw=randread").label == Tiobench(rw="randread").label
    job = Fio.from_text("[reads]\nrw=randread\nsize=1M\n")
    assert isinstance(job, FioJob)
    assert job.text == "[reads]\nrw=randread\nsize=1M\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"Fio\.from_text has no option\. Write for example \"rw=randread bs=4k size=64M\""),
        ("rw=read filename=/dev/sdb", r"Fio refuses fio's option filename, which names another place than the disk"),
        ("rw=read exec_prerun=reboot", r"option exec_prerun, which runs a command\. Leave exec_prerun out"),
        ("--name=x --rw=read", r"Fio refuses fio's option name, which is for several jobs"),
        ("rw=read bs=${BS}", r"needs a variable"),
        ("include other.fio", r"'include other\.fio' needs another file"),
        ("rw=read runtime", r"Fio\.from_text: runtime has no value\. Write runtime=\.\.\."),
        ("=4k rw=read", r"Fio\.from_text: '=4k' is not an option"),
        ("rw=read iodepth=4k", r"Fio\(iodepth='4k'\): Input should be a valid integer"),
        ("rw=read ioengine=rbd", r"Fio\(ioengine='rbd'\) is not known here"),
        ("rw=randread iodept=4", r"Fio\(extra=\.\.\.\) has iodept, which fio's command would take for iodepth"),
    ],
)
def test_a_text_that_is_no_job_is_refused(text: str, sentence: str) -> None:
    """By the rules of job files and of extra."""
    with pytest.raises(ConfigError, match=sentence):
        Fio.from_text(text)
    with pytest.raises(ConfigError, match=r"The text of Fio\.from_text has no \$\{BS\}\. Leave BS out"):
        Fio.from_text("rw=read", BS=4)

"""fio's job files, as `workloads.fio.job_file` parses and refuses them, and the output of several jobs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.workloads.base import Target
from pytest_vmstorage.workloads.fio.fio import Fio
from pytest_vmstorage.workloads.fio.job import FioJob

RECORDINGS = Path(__file__).parents[2] / "recordings"
SEVERAL = RECORDINGS / "fio-several-jobs.fio"
DISK = Target(path="/dev/vdb", size_bytes=2**30)


def job(*lines: str, name: str = "test") -> FioJob:
    """A job file of one job with those options."""
    return FioJob(text="\n".join(("[job]", *lines)) + "\n", name=name)


def test_a_file_becomes_jobs_with_all_their_options() -> None:
    """Comments go, [global] is inherited, the job's own options hold."""
    several = Fio.from_job(SEVERAL)
    assert [one.name for one in several.jobs] == ["reader", "writer", "checks"]
    reader, writer, checks = several.jobs
    assert reader.options["ioengine"] == "libaio"
    assert reader.directions == ("read",)
    assert (reader.numjobs, reader.bs, writer.bs) == (2, 4096, 65536)
    assert writer.extent(0) == (2**20, 2**21)
    assert checks.has("stonewall")
    assert reader.has("time_based")
    assert not checks.has("time_based")
    assert several.region_bytes == 2 * 2**20 + 512 * 2**10
    assert several.reads
    assert several.writes
    assert not several.fresh_is_possible
    # readers and writer at once for a second, then the checks
    assert several.expected_seconds == 3
    assert several.unmeasured_s == 0
    ramped = "[a]\nrw=read\nruntime=9\nramp_time=3\n[b]\nrw=read\nruntime=9\nramp_time=2\n[c]\nstonewall\nrw=read\n"
    assert FioJob(text=ramped, name="x").unmeasured_s == 2, "of the jobs that begin"


def test_fio_gets_each_job_whole_and_on_the_target() -> None:
    """The file that is written, exactly: options as they were, place and report as they must be."""
    text = "[global]\nfilename=/dev/sdb\nrw=randwrite ; at random\n[a b]\nfileoffset=1m\nsize=50%\nthread\n"
    target = Target(path="/dev/disk/by-path/pci-0000:00:05.0", size_bytes=2**30, offset_bytes=2**21)
    assert FioJob(text=text, name="x").job_file(target).splitlines() == [
        "[a b]",
        "rw=randwrite",
        "thread",
        r"filename=/dev/disk/by-path/pci-0000\:00\:05.0",
        "offset=3145728",
        "size=536870912",
        "percentile_list=50:95:99:99.9",
        "new_group",
        "group_reporting",
        "fallocate=none",
        "allow_file_create=0",
        "verify_state_save=0",
        "slat_percentiles=1",
        "clat_percentiles=1",
        "lat_percentiles=1",
    ]


def test_the_file_is_written_run_and_removed() -> None:
    """Its text is one argument, which no shell reads."""
    one = job("rw=randread", "size=1M")
    target = DISK.model_copy(update={"scratch": "/scratch"})
    ((*shell, text, path),) = one.setup(target)
    assert shell == ["/bin/sh", "-c", 'printf %s "$1" >"$2"', "sh"]
    assert text == one.job_file(target)
    assert path == "/scratch/vmstorage.fio"
    assert one.argv(target) == ("fio", path, "--output-format=json+", "--output=/scratch/vmstorage-fio.json")
    assert one.cleanup(target) == (("rm", "-f", path),)


def test_a_file_that_is_not_there_is_a_slip(tmp_path: Path) -> None:
    """The sentence has its path."""
    with pytest.raises(ConfigError, match=r"The job file .*/none\.fio cannot be read: .*No such file"):
        Fio.from_job(tmp_path / "none.fio")


def test_variables_are_given_values(tmp_path: Path) -> None:
    """As they would be by fio's environment, which a guest does not share; one that the file has not is a slip."""
    path = tmp_path / "sized.fio"
    path.write_text("[job]\nrw=${RW}\nsize=${SIZE}\n")
    (one,) = Fio.from_job(path, RW="randread", SIZE="4M").jobs
    assert one.options == {"rw": "randread", "size": "4M"}
    with pytest.raises(ConfigError, match=r"line 3: 'size=\$\{SIZE\}' needs a variable"):
        Fio.from_job(path, RW="read")
    with pytest.raises(ConfigError, match=r"sized\.fio has no \$\{BS\}\. Leave BS out"):
        Fio.from_job(path, RW="read", SIZE="4M", BS="4k")


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["exec_prerun=rm -rf /"], r"test: job \[job\] has exec_prerun, which runs a command\. Leave exec_prerun out"),
        (["exec_postrun = date"], "has exec_postrun, which runs a command"),
        (["ioengine=exec"], "has ioengine=exec, which does no I/O to a disk here"),
        (["ioengine=net"], "has ioengine=net, which does no I/O"),
        (["ioengine=external:/tmp/evil.so"], "has ioengine=external:/tmp/evil.so, which does no I/O"),
        (["client=10.0.0.1"], "has client, which is for several machines"),
        (["directory=/mnt"], "has directory, which makes files of fio's own"),
        (["nr_files=8"], "has nrfiles, which makes files of fio's own"),
        (["filename=/dev/sda:/dev/sdb"], "is for several files"),
        (["fill_fs=1"], "has fill_device, which leaves the region"),
        (["unlink=1"], "has unlink, which removes what is measured"),
        (["write_bw_log=log"], "has write_bw_log, which leaves files in the guest"),
        (["read_iolog=trace"], "has read_iolog, which needs a file that guests do not have"),
        (["ioscheduler=none"], "has ioscheduler, which changes the guest"),
        (["gtod_reduce=1"], "has gtod_reduce, which removes the latencies"),
        (["startdelay=5"], "has startdelay, which puts jobs into an order"),
        (["iomem=mmap:/tmp/file"], "has mem=mmap:/tmp/file, which is a file"),
        (["rw=trim"], r"has rw=trim, which is not known here\. It is one of: read"),
        (["time_based"], "is time_based without runtime, and has no end"),
        (["numjobs=many"], "has numjobs=many, which is not a number"),
        (["iodepth=0"], "has iodepth=0, which is not a number of one or more"),
        (["size=much"], "has a value that cannot be read: 'much' is not a size"),
        (["bs=some"], "has a value that cannot be read: 'some' is not a size"),
        (["runtime=1:30"], "has a value that cannot be read: '1:30' is not a duration"),
        (["percentile_list=often"], "cannot be read: percentile_list='often'"),
        (["size=${SIZE}"], r"test, line 2: 'size=\$\{SIZE\}' needs a variable\. Give it a value: Fio.from_job"),
        (["include other.fio"], "test, line 2: 'include other.fio' needs another file"),
        (["[job]"], "test: has two jobs whose figures would have one name"),
        (["[job!]", "[job?]"], "test: has two jobs whose figures would have one name"),
        (["rw=randrw", "[job read]", "rw=read"], "has two jobs whose figures would have one name"),
        (["filename=/dev/sda", "[other]", "filename=/dev/sdb"], "for several files or disks, and there is one disk"),
    ],
)
def test_what_cannot_be_run_here_is_refused_when_read(lines: list[str], sentence: str) -> None:
    """Each slip has its sentence with file and job, before there is a guest; also where [global] brings it."""
    with pytest.raises(ConfigError, match=sentence):
        job(*lines)


@pytest.mark.parametrize("option", ["exec_prerun=date", "ioengine=exec", "directory=/mnt", "filename=a:b"])
def test_a_refusal_is_not_escaped_through_the_global_section(option: str) -> None:
    """What every job inherits every job has."""
    with pytest.raises(ConfigError, match=r"job \[job\]"):
        FioJob(text=f"[global]\n{option}\n[job]\nrw=read\n", name="test")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("", "has no job"), ("[global]\nrw=read\n", "has no job"), ("rw=read\n", "line 1: 'rw=read' stands before any")],
)
def test_a_file_without_a_job_is_refused(text: str, sentence: str) -> None:
    """Nothing to run."""
    with pytest.raises(ConfigError, match=sentence):
        FioJob(text=text, name="empty")


@pytest.mark.parametrize(
    ("lines", "region", "offset", "size"),
    [
        (["size=64M"], 2**26, 0, 2**26),
        (["size=64M", "offset=1G"], None, None, None),
        (["size=64M", "offset=64m", "numjobs=3", "offset_increment=64M"], 2**28, 2**26, 2**26),
        ([], None, 0, 2**30),
        (["size=25%"], None, 0, 2**28),
        (["offset=25%"], None, 2**28, 2**30 - 2**28),
        (["offset=256M"], None, 2**28, 2**30 - 2**28),
    ],
)
def test_region(lines: list[str], region: int | None, offset: int | None, size: int | None) -> None:
    """Sizes and offsets as fio counts them; what depends on the disk needs all of it."""
    one = job("rw=randread", *lines)
    if offset is None:
        with pytest.raises(ConfigError, match=r"\[job\] goes from 1G to 1088M, but /dev/vdb has 1G for it"):
            one.argv(DISK)
        return
    assert one.region_bytes == region
    assert one.argv(DISK)
    written = one.job_file(DISK).splitlines()
    assert f"offset={offset}" in written
    assert f"size={size}" in written


@pytest.mark.parametrize(
    ("text", "is_possible"),
    [
        ("[a]\nrw=write\nsize=1M\n", True),
        ("[a]\nrw=write\nsize=1M\n[b]\nrw=write\noffset=1M\nsize=1M\n", True),
        ("[a]\nrw=write\nsize=1M\n[b]\nrw=write\noffset=512k\nsize=1M\n", False),
        ("[a]\nrw=write\n", False),
        ("[a]\nrw=write\nsize=1M\nloops=2\n", False),
        ("[a]\nrw=write\nsize=1M\nnumjobs=2\n", False),
        ("[a]\nrw=write\nsize=1M\ntime_based\nruntime=1\n", False),
        ("[a]\nrw=randwrite\nsize=1M\nnorandommap=1\n", False),
        ("[a]\nrw=randwrite\nsize=1M\nrandom_distribution=zipf:1.2\n", False),
        ("[a]\nrw=read\nsize=1M\n", False),
    ],
)
def test_first_writes_only_where_no_block_is_written_twice(text: str, *, is_possible: bool) -> None:
    """Time, jobs on one region and chance all come back to a block."""
    assert FioJob(text=text, name="x").fresh_is_possible is is_possible


def test_another_content_is_another_column() -> None:
    """The label has the file's name, and changes with what the jobs say but not with comments."""
    label = job("rw=read", "size=1M", name="web").label
    assert label.startswith("fio job web ")
    assert label == job("; nothing", "rw = read", "size=1M", name="web").label
    assert label != job("rw=read", "size=2M", name="web").label


def test_figures_of_several_jobs_are_their_own_and_the_whole() -> None:
    """Each under its name; the whole is all I/Os over the time of the longest job of each stage (fio 3.33)."""
    several = Fio.from_job(SEVERAL)
    text = (RECORDINGS / "fio-3.33-several-jobs.json").read_text()
    entries = {entry["jobname"]: entry for entry in json.loads(text)["jobs"]}
    figures = several.parse(text)
    assert set(figures) == {metric.name for metric in several.metrics}
    told = {
        "reader": entries["reader"]["read"],
        "writer": entries["writer"]["write"],
        "checks": entries["checks"]["write"],
    }
    for name, way in told.items():
        assert figures[f"{name}_iops"] == way["iops"]
    seconds = max(told["reader"]["runtime"], told["writer"]["runtime"]) / 1e3 + told["checks"]["runtime"] / 1e3
    assert figures["iops"] == pytest.approx(sum(way["total_ios"] for way in told.values()) / seconds)
    assert figures["bw"] == pytest.approx(sum(way["io_bytes"] for way in told.values()) / 2**20 / seconds)
    assert figures["runtime"] == pytest.approx(seconds)
    assert figures["reader_runtime"] == pytest.approx(told["reader"]["runtime"] / 1e3)
    # runtime=1 is asked for
    assert {metric.better for metric in several.metrics if metric.name.endswith("runtime")} == {"neither"}
    by_size = FioJob(text="[a]\nrw=read\nsize=1M\n[b]\nrw=write\noffset=1M\nsize=1M\n", name="x")
    assert {metric.better for metric in by_size.metrics if metric.name.endswith("runtime")} == {"lower"}
    assert figures["checks_fsync_p99"] > 0
    assert several.primary == "iops"
    assert several.shown == ("iops", "reader_iops", "writer_bw", "checks_iops")
    verified = entries["checks"]["read"]["io_bytes"]
    assert several.moved_bytes(text) == sum(way["io_bytes"] for way in told.values()) + verified
    assert several.remarks(text) == ()


def test_a_single_job_has_figures_without_a_prefix() -> None:
    """Those that Fio would have; what was not reached is said with the job's name."""
    one = job("rw=randread", "ioengine=libaio", "direct=1", "iodepth=16", "size=1M")
    text = (RECORDINGS / "fio-3.33-rate-depth.json").read_text()
    fio = Fio(rw="randread", iodepth=16)
    assert one.parse(text) == fio.parse(text)
    assert one.metrics == fio.metrics
    assert one.shown == fio.shown
    assert one.remarks(text) == ("[job] iodepth=16 was not reached: 1.0 in flight on average",)


def test_a_depth_that_fio_cannot_see_is_said() -> None:
    """libaio through the page cache does one I/O after the other, and fio counts them as if they were in flight."""
    text = (RECORDINGS / "fio-3.33-randwrite.json").read_text()
    lines = ("rw=randwrite", "ioengine=libaio", "iodepth=8")
    said = ("[job] libaio without direct has one I/O in flight whatever iodepth=8 says",)
    assert job(*lines).remarks(text) == said
    assert job(*lines, "direct=1").remarks(text) == ()


def test_a_file_that_is_too_long_for_a_guest_is_refused() -> None:
    """Before it is sent: [global] counts once for each job."""
    text = "[global]\nrw=write\nsize=4k\ndescription=" + "x" * 500 + "\n"
    assert FioJob(text=text + "".join(f"[{n}]\n" for n in range(10)), name="ten").argv(DISK)
    with pytest.raises(ConfigError, match="bytes with all options of its jobs, and 32768 are the most"):
        FioJob(text=text + "".join(f"[{n}]\n" for n in range(100)), name="hundred").argv(DISK)


def test_another_number_of_jobs_in_the_output_is_an_error() -> None:
    """Two jobs cannot be read from one entry."""
    text = (RECORDINGS / "fio-3.33-randwrite.json").read_text()
    with pytest.raises(WorkloadError, match="fio reported 1 jobs instead of 3 groups"):
        Fio.from_job(SEVERAL).parse(text)


def test_a_buffered_job_says_nothing_of_what_the_disk_moved() -> None:
    """fio's default is the page cache."""
    text = (RECORDINGS / "fio-3.33-rate-depth.json").read_text()
    assert job("rw=randread").moved_bytes(text) is None
    assert job("rw=randread", "buffered=0").moved_bytes(text) == job("rw=randread", "direct").moved_bytes(text) > 0


@pytest.mark.parametrize(
    ("lines", "primary"),
    [(["rw=write", "bs=1M"], "bw"), (["rw=randwrite", "bs=1M"], "iops"), (["rw=write", "bssplit=4k/50:1M/50"], "iops")],
)
def test_primary_is_the_rate_that_fits(lines: list[str], primary: str) -> None:
    """A stream of large blocks has a bandwidth."""
    assert job(*lines).primary == primary


def test_a_sweep_is_a_job_for_each_combination() -> None:
    """In the order of a curve, each with a label of its own; what was said once holds for all."""
    jobs = Fio(rw="randread", bs="8k", runtime="2s").over(numjobs=(1, 2), iodepth=(1, 8, 32))
    assert [(one.numjobs, one.iodepth) for one in jobs] == [(1, 1), (1, 8), (1, 32), (2, 1), (2, 8), (2, 32)]
    assert {(one.bs, one.runtime) for one in jobs} == {(8192, 2.0)}
    assert len({one.label for one in jobs}) == 6


@pytest.mark.parametrize(
    ("sweep", "sentence"),
    [
        ({"iodepth": ()}, r"Fio.over\(iodepth=\(\)\) has no values"),
        ({"bs": "4k"}, r"Fio.over\(bs='4k'\) has no values"),
        ({"depth": (1, 2)}, "Fio has no option 'depth'"),
        ({"ioengine": ("libaio", "psync")}, "'psync' has one I/O in flight"),
    ],
)
def test_a_sweep_that_cannot_run_is_refused(sweep: dict[str, tuple[object, ...]], sentence: str) -> None:
    """Each combination is checked as it is made."""
    with pytest.raises(ConfigError, match=sentence):
        Fio(rw="randread", iodepth=4).over(**sweep)

"""Real fio in a real guest: every option that is accepted, job files, corrupt data, depths."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage import AioStress, Fio, StorageConfig, Tiobench
from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.measure.option_checks import OptionChecks
from pytest_vmstorage.measure.runner import measure
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.testing.system import interpose
from pytest_vmstorage.workloads.fio.job import FioJob

pytestmark = pytest.mark.restored

ONCE = Plan(rounds=1, warmup=0)
CONFIG = StorageConfig(size="64M")


@pytest.mark.parametrize(
    "options",
    [
        {"rw": "randrw", "rwmixread": 70, "bssplit": "4k/60:64k/40,8k/100"},
        {"rw": "write", "bs": "64k", "rate": "8M", "runtime": 1},
        {"rw": "randread", "rate_iops": 200, "runtime": 1},
        {"rw": "randread", "thinktime": 500, "thinktime_blocks": 4, "runtime": 1},
        {"rw": "randread", "random_distribution": "zipf:1.2"},
        {"rw": "randread", "random_distribution": "pareto:0.2"},
        {"rw": "randread", "random_distribution": "normal:30"},
        {"rw": "write", "bs": "64k", "end_fsync": True},
        {"rw": "randwrite", "fdatasync": 16, "randseed": 7},
        {"rw": "randwrite", "fsync": 16, "randrepeat": False, "norandommap": True},
        {"rw": "randwrite", "verify": "crc32c", "verify_fatal": True, "verify_backlog": 32, "iodepth": 8},
        {"rw": "write", "verify": "md5", "numjobs": 2, "offset_increment": "2M"},
        {
            "rw": "randwrite",
            "ioengine": "io_uring",
            "extra": {"dedupe_percentage": 50, "registerfiles": 1},
        },
        {"rw": "randread", "extra": {"bsrange": "4k-64k", "zonemode": "strided", "zonesize": "1M", "zoneskip": "1M"}},
        {"rw": "randread", "time_based": True, "runtime": 5, "steadystate": "iops:50%", "ss_dur": 2, "ss_ramp": 1},
    ],
    ids="-".join,
)
def test_every_option_runs(lab: Lab, options: dict[str, Any]) -> None:
    """fio takes each, and gives every figure that was promised for it."""
    job = Fio(**{"size": "2M"} | options)
    result = measure(lab.environment(CONFIG), job, ONCE)
    (sample,) = result.samples
    assert set(sample.figures) == {metric.name for metric in job.metrics}
    assert result.figure(job.primary) > 0


@pytest.mark.parametrize("verify", ["crc64", "crc32", "crc16", "crc7", "sha1", "sha256", "sha512", "xxhash"])
def test_every_checksum_verifies(lab: Lab, verify: str) -> None:
    """As many blocks are read back as were written."""
    result = measure(lab.environment(CONFIG), Fio(rw="write", size="1M", verify=verify), ONCE)
    job = Fio(rw="write", verify=verify)
    assert job.moved_bytes(result.raw[0]) == 2 * 2**20


def test_corrupt_data_is_an_error_with_its_offset(lab: Lab) -> None:
    """What fio wrote is changed on the host, behind the guest's back; the cell fails and says where."""
    guest = lab.guest(CONFIG)
    place = lab.environment(guest.config)
    measure(place, Fio(rw="write", size="4M", verify="crc32c"), ONCE)
    again = FioJob(text="[check]\nrw=read\nverify=crc32c\nsize=4M\ndirect=1\n", name="check")
    assert measure(place, again, ONCE).iops > 0

    def change() -> None:
        argv = ("dd", "if=/dev/urandom", f"of={guest.machine.spec.disk}", "bs=4k", "seek=300", "count=1")
        assert lab.shell.run([*argv, "conv=notrunc,fsync"]).ok

    with pytest.raises(WorkloadError) as caught:
        measure(interpose(place, change), again, ONCE)
    assert "found corrupt data" in caught.value.what
    assert f"at file {place.paths.disk} offset {300 * 4096}, length 4096" in caught.value.output
    assert again.failure(caught.value.output).startswith("found corrupt data: ")


def test_a_job_file_runs_as_it_is(lab: Lab, tmp_path: Path) -> None:
    """Several jobs of one file on the disk under test, each with its figures; nothing of it stays in the guest."""
    path = tmp_path / "mixed.fio"
    path.write_text(
        "[global]\nioengine=libaio\ndirect=1\nfilename=/dev/sdb\n"
        "[reader]\nrw=randread\niodepth=4\nnumjobs=2\nsize=4M\nruntime=1\ntime_based\n"
        "[writer]\nrw=write\nbs=64k\noffset=4M\nsize=4M\nruntime=1\ntime_based\n"
        # without a limit: however busy the machine is, all of it is written and read back
        "[checks]\nstonewall\nrw=randwrite\nverify=crc32c\noffset=8M\nsize=1M\nfsync=8\n"
    )
    guest = lab.guest(CONFIG)
    place, job = lab.environment(guest.config), Fio.from_job(path)
    result = measure(place, job, ONCE)
    assert set(result.samples[0].figures) == {metric.name for metric in job.metrics}
    # 1 MiB in blocks of 4 KiB, written and read back
    checks = json.loads(result.raw[0])["jobs"][2]
    assert (checks["write"]["total_ios"], checks["read"]["total_ios"]) == (256, 256)
    assert result.checks_fsync_p99 > 0
    assert not place.shell.run(["test", "-e", f"{place.paths.scratch}/mixed.fio"]).ok
    assert not place.shell.run(["test", "-e", f"{place.paths.scratch}/vmstorage.fio"]).ok


@pytest.mark.parametrize("config", [{"state": "fresh"}, {"guest_fs": "ext4"}], ids=["fresh", "ext4"])
def test_jobs_stay_in_the_region_of_their_round(lab: Lab, config: dict[str, Any]) -> None:
    """On a fresh disk rounds move on, on a file system the disk under test is a file; what is written verifies."""
    text = "[a]\nrw=write\nsize=1M\n[b]\nstonewall\nrw=randwrite\noffset=1M\nsize=512k\n"
    job = FioJob(text=f"[global]\ndirect=1\nverify=crc32c\n{text}", name="two")
    place = lab.environment(StorageConfig(size="128M", **config))
    seen = []
    file = f"{place.paths.scratch}/vmstorage.fio"
    result = measure(interpose(place, lambda: seen.append(place.shell.read(file))), job, Plan(rounds=2, warmup=0))
    assert min(result.values("a_iops")) > 0
    offsets = [[int(line[7:]) for line in text.splitlines() if line.startswith("offset=")] for text in seen]
    first, second = ([offset - round_[0] for offset in round_] for round_ in offsets)
    assert first == second == [0, 2**20]
    moved_on = offsets[1][0] - offsets[0][0]
    assert moved_on == (2**20 + 2**19 if "state" in config else 0)


def test_a_long_job_file_arrives_whole(lab: Lab) -> None:
    """27 KB of the 32 there may be: the last of its jobs runs too, and each comes back with its own figures."""
    common = f"[global]\nrw=write\nsize=16k\ndirect=1\ndescription={'x' * 180}\n"
    job = FioJob(text=common + "".join(f"[j{n}]\noffset={16384 * n}\n" for n in range(64)), name="long")
    place = lab.environment(CONFIG)
    result = measure(place, job, ONCE)
    assert len(json.loads(result.raw[0])["jobs"]) == 64
    assert result.j63_iops > 0
    assert result.raw[0].count('"io_bytes" : 16384') == 64


def test_an_option_that_fio_does_not_know_fails_in_its_words(lab: Lab) -> None:
    """A slip in a job file that only fio can see."""
    job = FioJob(text="[a]\nrw=read\nsize=1M\nqueue_depth=3\n", name="slip")
    with pytest.raises(WorkloadError, match="queue_depth"):
        measure(lab.environment(CONFIG), job, ONCE)


def test_a_guests_fio_checks_extra_where_the_host_has_none(lab: Lab) -> None:
    """In whole names and values in range, and it makes no file and no job of its own."""
    guest, checks = lab.environment(CONFIG).shell, OptionChecks()
    checks.where_it_runs(guest, Fio(rw="randwrite", extra={"dedupe_percentage": 50}))
    for extra, said in (({"dedupe_percent": 50}, "Bad option <dedupe_percent=50>"), ({"lockmem": "x"}, "lockmem")):
        with pytest.raises(ConfigError, match=said):
            checks.where_it_runs(guest, Fio(rw="randwrite", extra=extra))


def test_a_sweep_over_depths_reaches_them(lab: Lab) -> None:
    """The depth that fio says it had is the one asked for, at each point of the curve."""
    place = lab.environment(CONFIG)
    for job in Fio(rw="randread", size="4M").over(iodepth=(1, 4, 16)):
        result = measure(place, job, ONCE)
        assert 0.9 * job.iodepth < result.iodepth_reached <= job.iodepth
        assert job.remarks(result.raw[0]) == ()


def test_tiobench_writes_each_block_to_the_disk(lab: Lab) -> None:
    """O_SYNC: in each of its regions what it wrote has reached the guest's disk when it ends."""
    job = Tiobench(rw="randwrite", size="1M", numjobs=4, io_size="256k")
    result = measure(lab.environment(CONFIG), job, ONCE)
    written = result.samples[0].moved.guest_written_bytes
    assert written is not None
    assert written >= 4 * 2**18
    assert json.loads(result.raw[0])["jobs"][0]["write"]["total_ios"] == 4 * 64


def test_tiobench_reads_pages_that_are_there(lab: Lab) -> None:
    """They are read once beforehand, all of them, and none from the disk when it is measured."""
    place, job = lab.environment(CONFIG), Tiobench(rw="randread", size="1M", numjobs=4)
    warm, cold = (
        measure(place, job, ONCE),
        measure(place, Tiobench(rw="randread", size="1M", numjobs=4, pre_read=0), ONCE),
    )
    assert warm.samples[0].moved.guest_read_bytes == pytest.approx(4 * 2**20, rel=0.1)
    assert warm.clat_p50 < cold.clat_mean
    assert warm.bw > cold.bw


@pytest.mark.parametrize(("options", "depth"), [({}, 1), ({"direct": True}, 64)], ids=["pts", "direct"])
def test_aio_stress_runs_at_its_depth(lab: Lab, options: dict[str, Any], depth: int) -> None:
    """As many in flight as its label says, records of 64k, as many as fit its size."""
    job = AioStress(size="48M", **options)
    result = measure(lab.environment(CONFIG), job, ONCE)
    assert job.iodepth == depth
    assert result.iodepth_reached <= depth
    assert job.remarks(result.raw[0]) == ()
    assert result.bw == pytest.approx(result.iops / 16, rel=0.01)

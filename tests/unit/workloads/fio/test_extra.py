"""Options of fio without a field: how they are read, what is refused, and what they change of a job."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.workloads.base import Target
from pytest_vmstorage.workloads.fio.extra import refusal
from pytest_vmstorage.workloads.fio.fio import Fio

DISK = Target(path="/dev/vdb", size_bytes=2**30)
needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="install fio to have this tested")


def test_they_stand_in_the_command_behind_the_engine_and_in_the_label() -> None:
    """An engine's own options are known to fio's command only behind it."""
    fio = Fio(rw="randwrite", iodepth=8, extra={"hipri": "1", "dedupe_percentage": 50})
    argv = fio.argv(DISK)
    assert argv.index("--ioengine=libaio") < argv.index("--dedupe_percentage=50") < argv.index("--hipri=1")
    assert fio.label == "fio randwrite 4k qd8 dedupe_percentage=50 hipri=1"
    assert fio.shape == "fio randwrite 4k dedupe_percentage=50 hipri=1"
    assert Fio(rw="read", extra={"blocksize_range": "4k-64k"}).label == "fio read 4k-64k qd1"
    assert not [word for word in Fio(rw="read", extra={"bsrange": "4k-64k"}).argv(DISK) if word.startswith("--bs=")]


def test_their_order_makes_no_other_job() -> None:
    """And a job with them can be swept, hashed and changed."""
    one = Fio(rw="write", extra={"thread": 1, "nice": "5"})
    assert one == Fio(rw="write", extra={"nice": 5, "thread": "1"})
    assert hash(one) == hash(Fio(rw="write", extra=one.extra))
    assert [each.extra for each in one.over(numjobs=(1,))] == [(("nice", "5"), ("thread", "1"))]


def test_the_check_asks_fio_for_a_job_without_a_disk() -> None:
    """On its standard input, where it takes whole names of a job's options alone; a job without extra needs none."""
    check = Fio(rw="randread", extra={"hipri": 1}).option_check
    assert check is not None
    assert check.argv == ("fio", "--parse-only", "-")
    assert check.stdin.splitlines()[0] == "[vmstorage]"
    assert {"rw=randread", "hipri=1"} <= set(check.stdin.splitlines())
    assert "filename" not in check.stdin
    assert Fio(rw="randread").option_check is None


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        ({"filename": "/dev/sda"}, r"refuses fio's option filename, which names another place than the disk under"),
        ({"directory": "/tmp"}, r"option directory, which makes files of fio's own\. Leave directory out"),
        ({"output": "x"}, r"option output, which is for the fio command and not for a job"),
        ({"client": "x"}, r"option client, which is for the fio command"),
        ({"exec_prerun": "x"}, r"option exec_prerun, which runs a command"),
        ({"exec_postrun": "x"}, r"option exec_postrun, which runs a command"),
        ({"write_lat_log": "x"}, r"option write_lat_log, which leaves files in the guest"),
        ({"log_avg_msec": 10}, r"option log_avg_msec, which is for logs"),
        ({"replay_redirect": "x"}, r"option replay_redirect, which needs a file"),
        ({"name": "other"}, r"option name, which is for several jobs"),
        ({"group_reporting": 1}, r"option group_reporting, which is always set here"),
        ({"buffered": 1}, r"option buffered, which is the opposite of direct: give direct=False"),
        ({"bs": "4k"}, r"Fio\(extra=\.\.\.\) has bs, which has a field of its own\. Write Fio\(bs=\.\.\.\)"),
        ({"blocksize": "4k"}, r"has blocksize, which has a field of its own\. Write Fio\(bs=\.\.\.\)"),
        ({"filena": "x"}, r"has filena, which fio's command would take for filename\. Write the whole name"),
        ({"exec": "x"}, r"has exec, which fio's command would take for exec_postrun"),
        ({"--filename": "x"}, r"has '--filename', which is not the name of an option of fio"),
        ({"thread=1\n[other]": 1}, r"which is not the name of an option of fio"),
        ({3: 1}, r"has 3, which is not the name of an option of fio"),
        ({"mem": "mmap:x"}, r"\{'mem': 'mmap:x'\}\) names a file\. A job has the disk under test and no other"),
        ({"iomem": "mmap:x"}, r"\{'iomem': 'mmap:x'\}\) names a file"),
        ({"loops": 10**5000}, r"Fio\(extra=\{'loops': \.\.\.\}\) is a number beyond 2\^63"),
        ({"future": "/etc/passwd"}, r"names a file"),
        ({"future": "a:/etc/passwd"}, r"names a file"),
        ({"thread": "1\n[other]"}, r"has a character that values have not here"),
        ({"loops": "$ncpus"}, r"has a character that values have not here"),
        ({"buffer_pattern": '"x"'}, r"a pattern its hexadecimal digits"),
        ({"thread": ""}, r"or is empty"),
        ({"thread": True}, r"\{'thread': True\}\) is neither a text nor an integer\. Write 1\."),
        ({"dedupe_percentage": 5.0}, r"is neither a text nor an integer\. Write it as fio's job files have it"),
        ("thread=1", r"Fio\(extra='thread=1'\) is no mapping of names to values"),
        (iter([("thread", 1)]), r"is no mapping of names to values"),
        (5, r"Fio\(extra=5\) is no mapping of names to values\. Write for example extra="),
    ],
)
def test_what_leaves_the_disk_or_spoils_the_figures_is_refused(extra: Any, sentence: str) -> None:
    """When the workload is made, and with a remedy."""
    with pytest.raises(ConfigError, match=sentence):
        Fio(rw="randwrite", extra=extra)


def test_blocks_that_may_come_twice_are_no_first_writes() -> None:
    """An option that is not known to leave the order of blocks alone is taken for one that changes it."""
    assert Fio(rw="write", extra={"dedupe_percentage": 50, "thread": 1}).fresh_is_possible
    assert not Fio(rw="write", extra={"loops": 2}).fresh_is_possible
    assert not Fio(rw="write", extra={"of_a_later_fio": 1}).fresh_is_possible


def test_zeros_and_zones_are_seen() -> None:
    """Layers may not store zeros; zones go on behind `size`, so that all of the disk must have been written."""
    assert Fio(rw="write", extra={"zero_buffers": 1}).writes_zeros
    assert Fio(rw="write", extra={"buffer_pattern": "0x00"}).writes_zeros
    assert not Fio(rw="write", extra={"zero_buffers": 0}).writes_zeros
    assert not Fio(rw="read", extra={"zero_buffers": 1}).writes_zeros
    assert not Fio(rw="write").writes_zeros
    assert Fio(rw="read", extra={"zonemode": "strided", "zoneskip": "1M"}).region_bytes is None
    assert "fsync_p99" in {metric.name for metric in Fio(rw="write", extra={"sync_file_range": "write:8"}).metrics}


@needs_fio
def test_every_option_of_this_fio_has_a_field_may_be_given_or_is_refused() -> None:
    """None that may be given is taken for the beginning of another one."""
    told = subprocess.run(["fio", "--cmdhelp"], check=True, capture_output=True, text=True).stdout.splitlines()
    names = {line.partition(":")[0].strip() for line in told if line.partition(":")[0].strip().islower()}
    assert len(names) > 200
    for name in names - Fio.model_fields.keys() - {"steadystate_duration", "steadystate_ramp_time"}:
        if not refusal(name):
            assert Fio(rw="randwrite", extra={name: 1}).extra == ((name, "1"),)


@needs_fio
@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"dedupe_percentage": 50, "thread": 1}, ""),
        ({"dedupe_percentages": 50}, "Bad option <dedupe_percentages=50>"),
        ({"dedupe_percent": 50}, "Bad option <dedupe_percent=50>"),
        ({"dedupe_percentage": 500}, "max value out of range: 500"),
    ],
)
def test_a_real_fio_checks_them_and_makes_nothing(extra: Any, said: str, tmp_path: Path) -> None:
    """Whole names and values in range pass."""
    check = Fio(rw="randwrite", extra=extra).option_check
    assert check is not None
    done = subprocess.run(check.argv, input=check.stdin, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode == 0) is not bool(said), done.stderr
    assert said in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


@needs_fio
def test_a_real_fio_runs_with_them(tmp_path: Path) -> None:
    """And its figures are those of any job."""
    (tmp_path / "disk").write_bytes(bytes(2**20))
    target = Target(path=str(tmp_path / "disk"), size_bytes=2**20, is_file=True, scratch=str(tmp_path))
    extra = {"dedupe_percentage": 50, "buffer_compress_percentage": 30, "thread": 1, "sync_file_range": "write:8"}
    job = Fio(rw="write", bs="4k", size="1M", direct=False, ioengine="psync", extra=extra)
    subprocess.run(job.argv(target), check=True, cwd=tmp_path, capture_output=True)
    assert job.parse(Path(job.output_file(target)).read_text()).keys() == {metric.name for metric in job.metrics}

"""tiobench and AIO-Stress as fio jobs: the study's sizes by default, and what follows from what is given."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.workloads.base import Target
from pytest_vmstorage.workloads.fio.fio import Fio
from pytest_vmstorage.workloads.fio.presets import AioStress, Tiobench

ROOMY = Target(path="/dev/vdb", size_bytes=2**33)


def options_of(job: Fio) -> dict[str, str]:
    """What its command line says about the work, by fio's names."""
    words = [word[2:].partition("=") for word in job.argv(ROOMY) if word.startswith("--")]
    return {name: value for name, _, value in words}


def test_tiobench_writes_as_tiotest_does() -> None:
    """32 files of 64 MB, 1000 blocks of 4k in each, O_SYNC, through the page cache, one at a time."""
    said = options_of(Tiobench(rw="randwrite"))
    expected = {"numjobs": "32", "size": "64M", "offset_increment": "64M", "bs": "4k", "io_size": "4000k"}
    expected |= {"sync": "1", "direct": "0", "ioengine": "psync", "iodepth": "1", "norandommap": "1"}
    assert {name: said.get(name) for name in expected} == expected
    assert "pre_read" not in said


def test_tiobench_reads_what_was_just_written() -> None:
    """From the page cache, as the original; from the disk where that is asked for."""
    assert options_of(Tiobench(rw="randread"))["pre_read"] == "1"
    assert "sync" not in options_of(Tiobench(rw="randread"))
    assert "pre_read" not in options_of(Tiobench(rw="randread", pre_read=False))
    assert "pre_read" not in options_of(Tiobench(rw="randread", direct=True))


def test_tiobench_goes_through_a_whole_file_in_order() -> None:
    """Its sequential tests have no number of operations."""
    assert not {"io_size", "norandommap"} & set(options_of(Tiobench(rw="write")))


def test_aio_stress_writes_as_phoronix_has_it() -> None:
    """2 GB in records of 64k through the page cache, where its 64 requests are one."""
    said = options_of(AioStress())
    expected = {"rw": "randwrite", "bs": "64k", "size": "2G", "numjobs": "1", "ioengine": "libaio"}
    expected |= {"direct": "0", "iodepth": "1", "norandommap": "1"}
    assert {name: said.get(name) for name in expected} == expected
    assert not {"sync", "end_fsync"} & set(said)


def test_aio_stress_past_the_cache_has_its_64_in_flight() -> None:
    """As with its -O."""
    said = options_of(AioStress(direct=True))
    assert (said["direct"], said["iodepth"]) == ("1", "64")


@pytest.mark.parametrize(
    ("job", "label"),
    [
        (Tiobench(rw="randwrite"), "fio as tiobench randwrite 4k qd1 x32 buffered"),
        (Tiobench(rw="randread", pre_read=False), "fio as tiobench randread 4k qd1 x32 buffered pre_read=0"),
        (Tiobench(rw="randwrite", size="8M", numjobs=4), "fio as tiobench randwrite 4k qd1 x4 buffered size=8M"),
        (Tiobench(rw="randwrite", io_size="1M"), "fio as tiobench randwrite 4k qd1 x32 buffered io_size=1M"),
        (AioStress(), "fio as aio-stress randwrite 64k qd1 buffered"),
        (AioStress(direct=True, end_fsync=True), "fio as aio-stress randwrite 64k qd64 end_fsync=1"),
    ],
)
def test_a_label_says_what_differs_from_the_original(job: Fio, label: str) -> None:
    """What follows by itself is not repeated."""
    assert job.label == label


def test_what_follows_follows_anew_in_a_sweep() -> None:
    """A region for each job, whatever size they are given."""
    jobs = Tiobench(rw="randwrite").over(size=("1M", "2M"), numjobs=(1, 4))
    assert [job.offset_increment for job in jobs] == [2**20, 2**20, 2**21, 2**21]
    assert [job.region_bytes for job in jobs] == [2**20, 2**22, 2**21, 2**23]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Tiobench(rw="randrw"), r"Tiobench\(rw='randrw'\): the original reads or writes"),
        (Tiobench, r"Tiobench\(rw\): Field required"),
        (lambda: Tiobench(rw="randwrite", size="many"), "'many' is not a size"),
        (lambda: Tiobench(rw="randwrite", depth=3), "Tiobench has no option 'depth'"),
        (lambda: AioStress(iodepth=64), "libaio without direct has one I/O in flight whatever iodepth=64 says"),
    ],
)
def test_a_slip_is_one_sentence(make: Any, sentence: str) -> None:
    """As for any fio job."""
    with pytest.raises(ConfigError, match=sentence):
        make()


def test_megabytes_come_first() -> None:
    """As the originals report them."""
    assert Tiobench(rw="randread").shown == ("bw", "clat_p99")
    assert AioStress().primary == "bw"

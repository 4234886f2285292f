"""ioping: its command line, what it refuses, and its real output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.workloads.base import Target
from pytest_vmstorage.workloads.ioping import Ioping

RECORDINGS = Path(__file__).parents[1] / "recordings"
DISK = Target(path="/dev/vdb", size_bytes=2**30, folder="/mnt/vmstorage")


def recorded(name: str, version: str = "1.3") -> str:
    """What ioping really printed: 1.3 in a guest, 1.2 for a file."""
    return (RECORDINGS / f"ioping-{version}-{name}.txt").read_text()


@pytest.mark.parametrize(
    ("options", "argv", "label"),
    [
        ({}, "-c 10 -S 1G -o 0 /dev/vdb", "ioping read 4k"),
        ({"directory": True}, "-c 10 -S 1M /mnt/vmstorage", "ioping read 4k directory"),
        ({"directory": True, "write": True, "rapid": True, "count": None}, "-R -W -S 64M /mnt/vmstorage",
         "ioping write 4k directory count=None rapid"),
        ({"write": True, "work_size": "64M", "dsync": True, "interval": "100ms"},
         "-y -c 10 -i 0.1 -WWW -S 64M -o 0 /dev/vdb", "ioping write 4k S=64M interval=0.1 dsync"),
        ({"read_write": True, "direct": True, "size": "16k", "entropy": 7, "warmup": 0, "count": 1},
         "-D -a 0 -c 1 -e 7 -s 16k -G -WWW -S 1G -o 0 /dev/vdb",
         "ioping readwrite 16k count=1 warmup=0 entropy=7 direct"),
        ({"linear": True, "cached": True, "work_time": 2, "count": None}, "-C -L -w 2 -S 1G -o 0 /dev/vdb",
         "ioping read 256k count=None work_time=2 cached linear"),
    ],
)  # fmt: skip
def test_argv_and_label(options: dict[str, Any], argv: str, label: str) -> None:
    """ioping's letters; three -W outside of a folder, where it writes over what is there."""
    ioping = Ioping(**options)
    assert ioping.argv(DISK) == ("ioping", "-B", *argv.split())
    assert ioping.label == label


def test_it_keeps_to_its_region() -> None:
    """The region's beginning is ioping's offset."""
    region = Target(path="/dev/vdb", size_bytes=2**26, offset_bytes=2**20)
    assert Ioping(write=True, work_size="64M").argv(region)[-5:] == ("-S", "64M", "-o", "1M", "/dev/vdb")
    with pytest.raises(ConfigError, match="needs 128M, but /dev/vdb has 64M for it"):
        Ioping(work_size="128M").argv(region)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"count": None}, r"Ioping\(count=None\) never ends"),
        ({"count": 1}, "counts nothing: the first 1 are for warming up"),
        ({"count": 3, "warmup": 3}, "counts nothing: the first 3"),
        ({"direct": True, "cached": True}, "direct I/O goes past the cache"),
        ({"work_size": "4k", "size": "8k"}, r"work_size=4k\) holds no request of 8k"),
        ({"work_size": "64k", "linear": True}, r"work_size=64k\) holds no request of 256k"),
        ({"entropy": 0}, r"Ioping\(entropy=0\)"),
        ({"quiet": True}, "Ioping has no option 'quiet'"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], sentence: str) -> None:
    """Each slip has its sentence, before there is a guest."""
    with pytest.raises(ConfigError, match=sentence):
        Ioping(**options)


def test_figures_of_a_real_run() -> None:
    """Nanoseconds become seconds; the rate has no pauses in it."""
    figures = Ioping(count=5, interval=0).parse(recorded("batch"))
    assert figures == {
        "min": pytest.approx(134642e-9),
        "avg": pytest.approx(180183e-9),
        "max": pytest.approx(221021e-9),
        "mdev": pytest.approx(34569e-9),
        "iops": pytest.approx(5550, abs=1),
        # ioping's own speed is in bytes a second
        "bw": pytest.approx(22732476 / 2**20, rel=1e-4),
    }
    ioping = Ioping()
    assert [metric.name for metric in ioping.metrics] == list(figures)
    assert ioping.shown == ("avg", "max", "iops", "bw")
    assert ioping.primary in ioping.shown
    assert set(ioping.shown) < set(figures)


@pytest.mark.parametrize(("version", "mean", "iops"), [("1.3", 3.432859e-3, 291.3), ("1.2", 127.921e-6, 7817.3)])
def test_figures_of_real_writes(version: str, mean: float, iops: float) -> None:
    """Two versions, one form."""
    figures = Ioping(write=True, count=4).parse(recorded("batch-write", version))
    assert (figures["avg"], figures["iops"]) == (pytest.approx(mean), pytest.approx(iops, abs=0.1))
    assert figures["bw"] == pytest.approx(figures["iops"] * 4096 / 2**20)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (recorded("no-such-file"), "printed no raw statistics"),
        ("", "printed no raw statistics"),
        ("0 0 0 0 0 0 0 0 1 5000\n", "counted no request"),
        ("4 721 5550 22732476 135 180 221 35 5 1912\n", "contradict each other"),
    ],
    ids=["failed", "empty", "none", "microseconds"],
)
def test_output_without_figures_is_an_error(text: str, sentence: str) -> None:
    """The last is how an ioping that counts microseconds would look."""
    with pytest.raises(WorkloadError, match=sentence) as caught:
        Ioping().parse(text)
    assert caught.value.output == text


def test_only_direct_requests_are_known_to_reach_the_disk() -> None:
    """Those for warming up moved bytes too."""
    assert Ioping(direct=True).moved_bytes(recorded("batch")) == 5 * 4096
    assert Ioping().moved_bytes(recorded("batch")) is None


@pytest.mark.parametrize(
    ("options", "seconds", "region", "reads", "writes", "folder"),
    [
        ({}, 12, None, True, False, False),
        ({"work_size": "64M", "interval": 0}, 2, 2**26, True, False, False),
        ({"write": True, "rapid": True}, 5, 2**26, False, True, False),
        ({"read_write": True, "work_time": 7}, 9, None, True, True, False),
        ({"directory": True, "count": 5}, 7, 0, False, True, True),
    ],
)
def test_what_it_does_to_the_disk(
    options: dict[str, Any], seconds: float, region: int | None, reads: bool, writes: bool, folder: bool
) -> None:
    """In a folder it reads only what it wrote itself."""
    ioping = Ioping(**options)
    assert (ioping.expected_seconds, ioping.region_bytes) == (seconds, region)
    assert (ioping.reads, ioping.writes, ioping.needs_folder) == (reads, writes, folder)
    assert ioping.fresh_is_possible is folder

"""dd: its command line, what it refuses, and its real output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.workloads.base import Target
from pytest_vmstorage.workloads.dd import Dd

RECORDINGS = Path(__file__).parents[1] / "recordings"


def recorded(name: str) -> str:
    """What dd of coreutils 9.1 really wrote to stderr."""
    return (RECORDINGS / f"dd-9.1-{name}.txt").read_text()


def disk(offset_bytes: int = 0, size_bytes: int = 2**30) -> Target:
    """A disk, or a region of it."""
    return Target(path="/dev/vdb", size_bytes=size_bytes, offset_bytes=offset_bytes)


def test_argv_of_a_write_is_exact() -> None:
    """In the C locale, at the region's block, and never making or truncating a file."""
    assert Dd(count=64, conv="fdatasync", oflag="direct").argv(disk(8 * 2**20)) == (
        "env", "LC_ALL=C", "dd", "if=/dev/zero", "of=/dev/vdb", "seek=8", "oflag=direct",
        "conv=notrunc,nocreat,fdatasync", "bs=1M", "count=64",
    )  # fmt: skip


def test_argv_of_a_read_is_exact() -> None:
    """The disk is the input, and nothing is written."""
    assert Dd(rw="read", bs="4k", count=8, iflag="direct").argv(disk(8192)) == (
        "env", "LC_ALL=C", "dd", "if=/dev/vdb", "of=/dev/null", "skip=2", "iflag=direct", "bs=4k", "count=8",
    )  # fmt: skip


def test_another_input_is_given_to_dd() -> None:
    """`if` is a word of Python's, so it has an underscore."""
    assert "if=/dev/urandom" in Dd(if_="/dev/urandom").argv(disk())


def test_zeros_are_written_by_default() -> None:
    """And by nothing that reads, or takes another input."""
    assert Dd().writes_zeros
    assert Dd(if_="/dev/zero").writes_zeros
    assert not Dd(if_="/dev/urandom").writes_zeros
    assert not Dd(rw="read").writes_zeros


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        (disk(offset_bytes=512), "cannot begin at byte 512, which is not a multiple of its bs"),
        (disk(size_bytes=2**20), "needs 128M, but /dev/vdb has 1M for it"),
    ],
)
def test_a_region_dd_cannot_keep_to_is_refused(target: Target, sentence: str) -> None:
    """dd counts its offset in blocks."""
    with pytest.raises(ConfigError, match=sentence):
        Dd().argv(target)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"oflag": "driect"}, r"oflag='driect'\) is not known here. It is one or more of.*direct, dsync"),
        ({"conv": "sparse"}, "conv='sparse'"),
        ({"rw": "read", "oflag": "direct"}, r"Dd\(rw='read'\) has no use for oflag"),
        ({"rw": "read", "conv": "fsync"}, r"Dd\(rw='read'\) has no use for conv"),
        ({"rw": "read", "if_": "/dev/zero"}, r"Dd\(rw='read'\) has no use for if_"),
        ({"iflag": "direct"}, r"Dd\(rw='write'\) has no use for iflag"),
        ({"rw": "copy"}, r"Dd\(rw='copy'\)"),
        ({"bs": 0}, r"Dd\(bs=0\) cannot be copied in whole sectors"),
        ({"bs": 1000, "oflag": "direct"}, r"Dd\(bs=1000\) cannot be copied in whole sectors"),
        ({"count": 0}, r"Dd\(count=0\)"),
        ({"of": "/dev/vdb"}, "Dd has no option 'of'"),
        ({"if_": ""}, r"Dd\(if_=''\) names no file"),
        ({"count": True}, r"Dd\(count\)=True is a yes or no. Write a number"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, Any], sentence: str) -> None:
    """Each slip has its sentence, before there is a guest."""
    with pytest.raises(ConfigError, match=sentence):
        Dd(**options)


@pytest.mark.parametrize(
    ("options", "label"),
    [
        ({}, "dd write 1M buffered"),
        ({"oflag": "direct"}, "dd write 1M direct"),
        ({"conv": "fdatasync"}, "dd write 1M fdatasync"),
        ({"oflag": "nocache"}, "dd write 1M nocache buffered"),
        ({"oflag": "dsync,direct", "bs": "4k", "count": 64}, "dd write 4k direct dsync count=64"),
        ({"if_": "/dev/urandom", "conv": "fsync"}, "dd write 1M fsync if=/dev/urandom"),
        ({"rw": "read"}, "dd read 1M buffered"),
        ({"rw": "read", "iflag": "direct"}, "dd read 1M direct"),
    ],
)
def test_label(options: dict[str, Any], label: str) -> None:
    """One that measures the page cache says so."""
    assert Dd(**options).label == label


@pytest.mark.parametrize(
    ("name", "dd", "bw", "seconds"),
    [
        ("write-fdatasync", Dd(count=64, conv="fdatasync"), 64 / 0.0225218, 0.0225218),
        ("read-direct", Dd(rw="read", count=64, iflag="direct"), 64 / 0.0563622, 0.0563622),
        ("write-512-bytes", Dd(bs=512, count=1, oflag="direct"), 512 / 2**20 / 0.000124986, 0.000124986),
    ],
)
def test_figures_of_a_real_run(name: str, dd: Dd, bw: float, seconds: float) -> None:
    """Bytes by seconds, never dd's rounded decimal rate."""
    figures = dd.parse(recorded(name))
    assert figures == {"bw": pytest.approx(bw), "seconds": pytest.approx(seconds)}
    assert set(figures) == {metric.name for metric in dd.metrics}
    assert dd.primary == "bw"


def test_short_times_in_exponent_form_are_read() -> None:
    """dd 9.1 really prints 1.9739e-05 for a block of 512 bytes."""
    text = "1+0 records in\n1+0 records out\n512 bytes copied, 1.9739e-05 s, 25.9 MB/s\n"
    assert Dd(rw="read", bs=512, count=1).parse(text)["seconds"] == pytest.approx(1.9739e-05)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (recorded("read-short"), "dd copied 67108864 of 104857600 bytes"),
        (recorded("write-failed"), "dd copied 1048576 of 104857600 bytes"),
        ("dd: failed to open '/dev/vdb': No such file or directory\n", "dd did not say how much it copied"),
        ("104857600 bytes (105 MB, 100 MiB) copied, 0 s, Infinity B/s", "no time that it could measure"),
        ("104857600 octets copi\u00e9s, 0,05 s", "dd did not say how much it copied"),
    ],
)
def test_output_that_is_no_result_is_an_error(text: str, sentence: str) -> None:
    """Less than asked is no result, and the tool's own words are kept."""
    with pytest.raises(WorkloadError, match=sentence) as caught:
        Dd(rw="read", count=100).parse(text)
    assert caught.value.output == text


def test_region_and_time() -> None:
    """All that is copied; a second and what a middling disk takes."""
    assert Dd().region_bytes == 128 * 2**20
    assert Dd(count=800).expected_seconds == pytest.approx(3.0)
    assert Dd(rw="read").reads
    assert Dd().fresh_is_possible


def test_what_a_direct_copy_moved_is_what_dd_said() -> None:
    """Bytes, if the disk's side was direct; a buffered copy says nothing of the disk."""
    text = (RECORDINGS / "dd-9.1-read-direct.txt").read_text()
    assert Dd(rw="read", iflag="direct").moved_bytes(text) == int(text.splitlines()[-1].split()[0])
    assert Dd().moved_bytes(text) is None

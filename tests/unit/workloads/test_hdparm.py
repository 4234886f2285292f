"""hdparm: its command line, what it refuses, and its real output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.workloads.base import Target
from pytest_vmstorage.workloads.hdparm import Hdparm

RECORDINGS = Path(__file__).parents[1] / "recordings"


def recorded(name: str) -> str:
    """What hdparm 9.65 really printed for a loop device of 256 MiB."""
    return (RECORDINGS / f"hdparm-9.65-{name}.txt").read_text()


@pytest.mark.parametrize(
    ("options", "argv", "label"),
    [
        ({"t": True}, ("hdparm", "-t", "/dev/vdb"), "hdparm -t"),
        ({"T": True}, ("hdparm", "-T", "/dev/vdb"), "hdparm -T"),
        (
            {"t": True, "T": True, "direct": True},
            ("hdparm", "-t", "-T", "--direct", "/dev/vdb"),
            "hdparm -t -T --direct",
        ),
    ],
)
def test_argv_and_label(options: dict[str, Any], argv: tuple[str, ...], label: str) -> None:
    """The label is the command without its device."""
    hdparm = Hdparm(**options)
    assert hdparm.argv(Target(path="/dev/vdb", size_bytes=2**30)) == argv
    assert hdparm.label == label


@pytest.mark.parametrize("options", [{}, {"direct": True}])
def test_one_timing_must_be_asked_for(options: dict[str, Any]) -> None:
    """Without -t and -T hdparm would print the disk's geometry."""
    with pytest.raises(ConfigError, match=r"times nothing. Write Hdparm\(t=True\)"):
        Hdparm(**options)


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        (Target(path="/dev/vdb", size_bytes=2**30, offset_bytes=2**20), "cannot begin at byte 1048576"),
        (Target(path="/dev/vdb", size_bytes=2**20), "reads blocks of 2 MiB, more than /dev/vdb has"),
    ],
)
def test_a_region_hdparm_cannot_keep_to_is_refused(target: Target, sentence: str) -> None:
    """It reads whole blocks from the beginning."""
    with pytest.raises(ConfigError, match=sentence):
        Hdparm(t=True).argv(target)


@pytest.mark.parametrize(
    ("name", "options", "figures"),
    [
        ("t", {"t": True}, {"buffered_read": 470.18}),
        ("t-T", {"t": True, "T": True}, {"buffered_read": 320.29, "cached_read": 29147.82}),
        ("t-direct", {"t": True, "direct": True}, {"buffered_read": 8481.60}),
    ],
)
def test_figures_of_a_real_run(name: str, options: dict[str, Any], figures: dict[str, float]) -> None:
    """hdparm's MB is 2**20 bytes, so its rate is MiB/s as it stands."""
    hdparm = Hdparm(**options)
    assert hdparm.parse(recorded(name)) == figures
    assert [metric.name for metric in hdparm.metrics] == list(figures)
    assert hdparm.primary == "buffered_read"
    assert hdparm.shown == tuple(figures)


def test_the_rate_is_finer_than_its_seconds() -> None:
    """Really printed: 256 MB in 0.03 s, 8533 by division, and 8481.60 as hdparm timed it."""
    rate = Hdparm(t=True, direct=True).parse(recorded("t-direct"))["buffered_read"]
    assert 256 / 0.035 < rate < 256 / 0.025
    assert rate != pytest.approx(256 / 0.03, rel=0.005)


def test_cached_reads_alone() -> None:
    """-T is primary where it is all there is; with --direct hdparm 9.65 really prints the line below."""
    hdparm = Hdparm(T=True, direct=True)
    text = "\n/dev/loop0:\n Timing O_DIRECT cached reads:   20666 MB in  2.01 seconds = 10267.98 MB/sec\n"
    assert hdparm.parse(text) == {"cached_read": 10267.98}
    assert hdparm.primary == "cached_read"


def test_slow_disks_are_in_kilobytes() -> None:
    """hdparm's source changes to kB/sec at 1 MB/sec and below, still by 1024."""
    text = " Timing buffered disk reads:   2 MB in  4.00 seconds = 512.00 kB/sec\n"
    assert Hdparm(t=True).parse(text) == {"buffered_read": 0.5}


def test_lines_about_ioctls_are_no_obstacle() -> None:
    """Virtual disks refuse some of hdparm's questions on stderr."""
    noise = " HDIO_DRIVE_CMD(identify) failed: Inappropriate ioctl for device\n"
    assert Hdparm(t=True).parse(noise + recorded("t") + noise) == {"buffered_read": 470.18}


@pytest.mark.parametrize("text", [recorded("t-file-error"), "", "/dev/vdb: No such file or directory\n"])
def test_output_without_a_rate_is_an_error(text: str) -> None:
    """A file instead of a disk really gives the first."""
    with pytest.raises(WorkloadError, match="hdparm -t printed no rate") as caught:
        Hdparm(t=True).parse(text)
    assert caught.value.output == text


def test_a_rate_that_is_missing_beside_another_is_an_error() -> None:
    """The message names the option."""
    with pytest.raises(WorkloadError, match="hdparm -T printed no rate"):
        Hdparm(t=True, T=True).parse(recorded("t"))


@pytest.mark.parametrize("rate", ["inf", "0.00"])
def test_a_rate_that_is_none_is_an_error(rate: str) -> None:
    """Nothing can be compared with it."""
    with pytest.raises(WorkloadError, match="printed no rate"):
        Hdparm(t=True).parse(f" Timing buffered disk reads:  64 MB in  0.00 seconds = {rate} MB/sec\n")


def test_what_it_does_to_the_disk() -> None:
    """It only reads, as much as it likes, after sleeping."""
    hdparm = Hdparm(t=True, T=True)
    assert hdparm.reads
    assert not hdparm.fresh_is_possible
    assert hdparm.region_bytes is None
    assert hdparm.expected_seconds == 13

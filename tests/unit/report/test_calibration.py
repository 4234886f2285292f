"""A calibration as text and as Markdown, and the lines for a diagnosis of its host."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pytest_vmstorage.analysis.calibration import Calibration, Equality, Noise, RestoredBus, Warmth, Yardstick
from pytest_vmstorage.report.calibration import calibration_lines, calibration_markdown, doctor_lines
from pytest_vmstorage.results.host import EMULATED
from pytest_vmstorage.results.run import steadiness
from pytest_vmstorage.testing.builders import make_host

READS = "fio randread 4k qd32 size=64M"


def calibration(**known: Any) -> Calibration:
    """A calibration in which everything was measured."""
    equal = Equality(workload=READS, pairs=12, ratio=1.003, low=0.994, high=1.011, p=0.001, verdict="equal", needed=9)
    apart = Equality(workload=READS, pairs=6, ratio=1.08, low=1.05, high=1.1, p=0.99, verdict="differs", needed=None)
    plain: dict[str, Any] = {
        "id": "c0ffee0001",
        "started": "2026-11-28T02:00:00+00:00",
        "seconds": 1100.0,
        "limit_s": 1200.0,
        "host": make_host("lab01", accel="kvm"),
        "noise": (Noise(workload=READS, unit="IOPS", figure=48000, round=0.031, boot=0.12, boots=6, rounds=20),),
        "warmth": (Warmth(workload=READS, first=0.82, after=steadiness([100, 101, 99, 100, 102])),),
        "restored": (
            RestoredBus(bus="virtio-blk", compared=(equal,)),
            RestoredBus(bus="usb", compared=(apart,)),
        ),
        "bare": (equal,),
        "yardsticks": (
            Yardstick(place="native", workload=READS, unit="IOPS", figure=9e4, low=8e4, high=9.1e4, guest_over=0.53),
        ),
        "booted_s": 2.04,
        "restored_s": 0.51,
        "around_s": 0.3,
        "pressed": {"cpu": 0.012, "io": 0.3},
        "others_cpu": 0.25,
        "left_out": ("restored guests on ide: no time", "restored guests on sata: no time"),
    }
    return Calibration.model_validate({**plain, **known})


def test_all_that_was_measured_is_told_with_its_unit_and_spread() -> None:
    """Facts of the host first, then a table for each thing."""
    text = "\n".join(calibration_lines(calibration(), 200))
    assert text.startswith(
        "calibration c0ffee0001 of 2026-11-28 02:00:00+00:00, in 18 min 20 s of 20 min 00 s\nhost lab01:"
    )
    for words in (
        "acceleration kvm",
        "times: 2.0 s to boot a guest, 0.5 s to restore one, 0.3 s around the window of a round (medians)",
        "some task of the host waited (median): cpu 1.2 %, io 30 %",
        "other QEMU processes took up to 25 % of one CPU",
        "left out: restored guests on ide, restored guests on sata: no time",
    ):
        assert words in text
    rows = [tuple(re.split("  +", line)) for line in text.splitlines()]
    noise = calibration().noise[0]
    counts = [
        "/".join(str(find(part)) for part in (0.05, 0.1, 0.2)) for find in (noise.rounds_to_see, noise.pairs_to_see)
    ]
    assert ("randread", "48k IOPS", "3.1 %", "12 %", *counts) in rows
    equal = ("randread", "1.003", "0.994 to 1.011", "12", "9", "equal within 2 %")
    assert ("restored/booted virtio-blk", *equal) in rows
    assert ("plugin/bare virtio-blk", *equal) in rows
    apart = ("randread", "1.080", "1.050 to 1.100", "6", ">1000", "differ by over 2 %")
    assert ("restored/booted usb", *apart) in rows
    assert ("randread", "0.82", "steady over 5 rounds: range 3 %, slope +1 %") in rows
    assert ("native", "randread", "90k IOPS", "80k IOPS to 91k IOPS", "53 %") in rows
    assert EMULATED not in text
    assert f"workloads: {READS}" in text
    assert max(map(len, calibration_lines(calibration(), 60))) <= 105
    assert "restored guests on ide, restored guests on sata:" in " ".join(calibration_lines(calibration(), 60))


def test_an_emulated_host_says_so_and_markdown_has_the_same_tables() -> None:
    """As a list and tables that GitHub shows."""
    emulated = calibration(host=make_host("lab01", accel="tcg"))
    lines = calibration_markdown(emulated)
    assert f"- {EMULATED}" in lines
    tables = [line for line in lines if line.startswith("|")]
    assert len([line for line in tables if line.startswith("|-")]) == 4
    figures = [line for line in calibration_lines(emulated, 200) if "0.994 to 1.011" in line]
    assert len(figures) == len([line for line in tables if "0.994 to 1.011" in line]) == 2


def test_what_is_not_known_has_no_table_and_no_line() -> None:
    """A calibration that was cut short has the noise alone, perhaps."""
    names = ("noise", "warmth", "restored", "bare", "yardsticks", "pressed", "left_out")
    bare = calibration(
        **dict.fromkeys(names, ()) | {"pressed": {}}, booted_s=None, restored_s=None, around_s=None, others_cpu=None
    )
    assert len(calibration_lines(bare, 200)) == 5


@pytest.mark.parametrize(
    ("restored", "more"),
    [
        (
            True,
            [
                "guests are restored by default on virtio-blk",
                "guests are booted on usb, where restored ones differ",
            ],
        ),
        (False, []),
    ],
)
def test_a_diagnosis_has_noise_and_how_guests_begin(restored: bool, more: list[str]) -> None:
    """In lines that fit beside its other facts."""
    one = calibration() if restored else calibration(restored=())
    assert doctor_lines(one) == ["c0ffee0001 of 2026-11-28: rounds differ by 3.1 % (randread)", *more]

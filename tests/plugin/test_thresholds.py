"""Thresholds: plain asserts, whose message shows configuration, figure, unit and spread."""

from __future__ import annotations

import json

import pytest
from projects import RANDOM_WRITE, flat, text_of

SPREAD = "measured: 9900 IOPS to 10.1k IOPS in 3 rounds; higher is better"
WHERE = "where: fio randwrite 4k qd32 on qcow2-none-virtio-blk-off 1G, fakehost"


@pytest.mark.parametrize(
    ("condition", "first"),
    [
        ("result.iops > 20000", "iops 10k IOPS > 20k IOPS"),
        ("result.iops >= 20000", "iops 10k IOPS >= 20k IOPS"),
        ("result.iops < 5000", "iops 10k IOPS < 5000 IOPS"),
        ("20000 <= result.iops", "iops 10k IOPS >= 20k IOPS"),
        ("5000.0 > result.iops", "iops 10k IOPS < 5000 IOPS"),
        ("result.iops == 3", "iops 10k IOPS == 3 IOPS"),
    ],
)
def test_a_failed_threshold(project, condition, first):
    """The message has figure, unit, bound, spread and configuration, whichever side the figure stands on."""
    project.write(
        test_it=RANDOM_WRITE + '@pytest.mark.parametrize("format", ["qcow2"])\ndef test_x(measure):\n'
        f"    result = measure(FIO)\n    assert {condition}\n"
    )
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E*assert {first}", f"E*{SPREAD}", f"E*{WHERE}"])


def test_other_failures_stay_pytests_own(project):
    """Latencies say which way is better, two figures show both, and other asserts are explained by pytest."""
    project.write(
        test_it=RANDOM_WRITE
        + """
def test_latency(measure):
    assert measure(FIO, rounds=1).clat_p99 < 0.0001

def test_two(measure):
    assert measure(FIO).iops > 2 * measure(FIO).iops

def test_figures(measure):
    small, big = measure(FIO), measure(Fio(rw="randwrite", bs="64k"))
    assert big.iops > big.iops

def test_plain():
    assert [1, 2] == [1, 3]
"""
    )
    result = project.run()
    result.assert_outcomes(failed=4)
    text = text_of(result)
    assert "clat_p99 1.38 ms < 100 us" in text
    assert "measured: 1 round, spread unknown; lower is better" in text
    assert "iops 10k IOPS > 20k IOPS" in text
    assert "iops 10k IOPS > 10k IOPS (9900 IOPS to 10.1k IOPS in 3 rounds, fio randwrite 64k qd1 on raw-" in text
    assert "At index 1 diff: 2 != 3" in text


def test_a_failed_threshold_loses_no_figure(two_cells):
    """What a failing test measured is in the matrix like the rest, and counts as no failed cell."""
    two_cells.wish(speed={"qcow2-*": 0.01})
    result = two_cells.run("--vm-report=r.json")
    result.assert_outcomes(passed=1, failed=1)
    assert "qcow2     100 ±1 ▼ FAIL" in text_of(result)
    assert "on qcow2-none-virtio-blk-off 1G, fakehost: " in flat(result)
    assert json.loads((two_cells.path / "r.json").read_text())["failures"] == []


def test_a_fixture_may_measure(project):
    """Figures that a fixture took in its set-up are kept, also where it failed afterwards."""
    project.write(
        test_it=RANDOM_WRITE
        + """
@pytest.fixture
def result(measure, storage):
    result = measure(FIO)
    assert storage.format == "raw"
    return result

@pytest.mark.parametrize("format", ["raw", "qcow2"])
def test_x(result): assert result.iops > 1
"""
    )
    result = project.run("--vm-report=out.csv")
    result.assert_outcomes(passed=1, errors=1)
    rows = (project.path / "out.csv").read_text().splitlines()
    assert len([row for row in rows if ",iops," in row]) == 2

"""Runs on a host that was calibrated: what the plan says, how many rounds there are, what the gate takes days for."""

from __future__ import annotations

import json
import socket

import pytest
from projects import flat

from pytest_vmstorage.analysis.calibration import Calibration, Noise
from pytest_vmstorage.host.calibrations import keep_calibration
from pytest_vmstorage.testing.builders import make_host

READS, WRITES = "fio randread 4k", "fio randwrite 4k"


def calibration(name, *, day=1, figure=1000.0, spread=0.02, **host):
    """A calibration of the host of that name, on which rounds differ by `spread`."""
    kinds = {"unit": "IOPS", "round": spread, "boot": 0.01, "boots": 6, "rounds": 20}
    return Calibration(
        id=f"c0ffee000{day}",
        started=f"2026-11-0{day}T02:00:00+00:00",
        seconds=1100.0,
        limit_s=1200.0,
        host=make_host(name, accel="kvm", **host),
        noise=tuple(Noise(workload=name, figure=figure, **kinds) for name in (READS, WRITES)),
        booted_s=2.0,
        around_s=1.0,
    )


@pytest.fixture
def keep(two_cells):
    """A function that keeps calibrations where the project's runs look for them."""
    return lambda *found: [keep_calibration(one) for one in found]


def test_the_plan_says_what_its_rounds_can_show(two_cells, keep):
    """With the calibration by which it says so, and with its times."""
    plain = flat(two_cells.run("--vm-plan"))
    assert "5 s a guest assumed" in plain
    found = calibration(socket.gethostname())
    keep(found)
    told = flat(two_cells.run("--vm-plan"))
    assert "guests as calibrated, filling its disk not counted" in told
    visible, needed = found.noise[0].visible(3), found.noise[0].rounds_to_see(0.05)
    power = f"3 rounds: {visible * 100:.0f} % in 4 of 5 cases; 5 % would take {needed}"
    assert f"{power} (calibration c0ffee0001 of 2026-11-01)" in told
    # two guests, each with four rounds of which none was measured before
    assert "estimated time 50 s" in plain
    assert "estimated time 44 s" in told


@pytest.mark.parametrize(("changed", "rounds"), [({}, 13), ({"kernel": "5.10.0"}, 6)])
def test_rounds_auto_begins_with_what_the_noise_asks_for(two_cells, keep, changed, rounds):
    """Six are enough without it, for the fake's figures are near each other; and where it lapsed."""
    found = calibration("fakehost", spread=0.07, **changed)
    keep(found)
    assert found.rounds_within(WRITES, 0.05) == 13
    result = two_cells.run("--vm-rounds=auto", "--vm-report=r.json", "--vm-without=turns")
    assert result.ret == 0
    run = json.loads((two_cells.path / "r.json").read_text())
    assert [len(one["samples"]) for one in run["measurements"]] == [rounds, rounds]


def test_the_gate_takes_the_spread_of_days_from_calibrations(two_cells, keep):
    """Three days of them give a first value for one saved day; a stated one comes before."""
    name = socket.gethostname()
    two_cells.wish(name=name)
    assert two_cells.run("--vm-save=main").ret == 0
    before = flat(two_cells.run("--vm-baseline=main", "-v"))
    assert "one day does not say how much days differ" in before
    keep(*(calibration(name, day=day, figure=1000.0 + day) for day in (1, 2, 3)))
    told = flat(two_cells.run("--vm-baseline=main", "-v"))
    assert "one day does not say how much days differ" not in told
    assert "2 passed" in told
    stated = flat(two_cells.run("--vm-baseline=main", "-v", "--vm-day-spread=30%"))
    assert "days that differ by 30 %, as stated," in stated
    keep(*(calibration(name, day=day, figure=1000.0 + 200 * day) for day in (4, 5, 6)))
    wide = flat(two_cells.run("--vm-baseline=main", "-v"))
    assert "at most, as 6 days of calibrations say," in wide

"""Calibrations taken in a lab of fakes: what is found, what the time does not reach, what Ctrl-C leaves."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.analysis.calibration import CUT_SHORT, FEWEST_PAIRS, MOST_PAIRS, Calibration
from pytest_vmstorage.cli.calibrate import taking
from pytest_vmstorage.cli.calibrate.taking import BOOTS, WORKLOADS, Taking, check_time, last_calibration
from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.lab.pool import Environment
from pytest_vmstorage.testing.lab import make_lab
from pytest_vmstorage.testing.options import LabOptions
from pytest_vmstorage.workloads.fio.fio import Fio

READS, WRITES = (workload.label for workload in WORKLOADS)


LATER = time.monotonic() + 1e5


def make_remote(folder: Path, **more: Any) -> Lab:
    """A lab of fakes on another host: there no bare QEMU is started, which would be a real one."""
    lab = make_lab(folder, **more)
    lab.host = lab.host.model_copy(update={"ssh": lab.host.name})
    return lab


@pytest.fixture(autouse=True)
def _two_buses(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as tell one from another."""
    monkeypatch.setattr(taking, "_BUSES", ("virtio-blk", "sata"))


class Bent(Taking):
    """Guests that are not booted count as restored, and have figures that are faster by a part."""

    def __init__(self, lab: Lab, bent: float, deadline: float = LATER, **more: Any) -> None:
        super().__init__(lab, deadline, **more)
        self._bent = bent
        self.guests: list[bool] = []

    def _new_guest(self, config: Any, *, fresh: bool) -> Environment:
        made = super()._new_guest(config, fresh=fresh)
        self.guests.append(fresh)
        # a cached property, whose value this is from now on
        made.__dict__["identity"] = made.identity.model_copy(update={"is_restored": not fresh})
        return made

    def _rounds(self, environment: Environment, workload: Fio, count: int) -> list[float]:
        factor = 1 + self._bent * environment.identity.is_restored
        return [figure * factor for figure in super()._rounds(environment, workload, count)]


def calibrated(tmp_path: Path, bent: float = 0.0, noise: float = 0.0, **options: Any) -> Calibration:
    """The calibration of a fake host whose restored guests are that much faster; its figures differ by 1 % or more."""
    lab = make_remote(tmp_path, options=LabOptions(noise=noise, **options))
    try:
        taken = Bent(lab, bent)
        taken.take()
        return taken.calibration(60.0, 1200.0)
    finally:
        lab.close()


def test_a_host_tells_noise_yardsticks_and_which_guests_are_equal(tmp_path: Path) -> None:
    """Reads and writes; the null disk, the host alone and the page cache; each bus that can be had."""
    found = calibrated(tmp_path, speed={"native*": 4.0, "*": 1.0})
    assert [one.workload for one in found.noise] == [READS, WRITES]
    for noise in found.noise:
        assert (noise.boots, noise.unit) == (BOOTS, "IOPS")
        assert 0 < noise.round < 0.02
        assert noise.boot < 0.01
    assert {one.place for one in found.yardsticks} == {"null", "native", "page cache"}
    for one in found.yardsticks:
        assert one.low <= one.figure <= one.high
        assert one.guest_over == pytest.approx(0.25 if one.place == "native" else 1.0, rel=0.05)
    assert found.restorable["virtio-blk"] is True
    assert all(each.pairs >= FEWEST_PAIRS for bus in found.restored for each in bus.compared)
    assert [one.workload for one in found.warmth] == [READS, WRITES]
    assert all(one.after.is_steady for one in found.warmth)
    assert (found.bare, found.is_cut_short) == ((), False)


def test_restored_guests_that_are_faster_differ(tmp_path: Path) -> None:
    """By 6 %, where 2 % is the most that counts as equal."""
    found = calibrated(tmp_path, bent=0.06)
    assert found.restorable["virtio-blk"] is False
    for bus in found.restored:
        for one in bus.compared:
            assert one.ratio == pytest.approx(1.06, rel=0.01)


def test_pairs_begin_with_either_guest_in_turn(tmp_path: Path) -> None:
    """So that a drift of the host meets both alike; the first guest of a bus only makes the state."""
    lab = make_remote(tmp_path)
    taken = Bent(lab, 0.0)
    taken.take()
    lab.close()
    pairs = taken.guests[BOOTS + 2 :]
    assert pairs[:9] == [False, True, False, False, True, True, False, False, True]


def test_noise_asks_for_more_pairs(tmp_path: Path) -> None:
    """Up to a limit."""
    quiet, busy = calibrated(tmp_path / "quiet"), calibrated(tmp_path / "busy", noise=0.015)
    counts = [[one.pairs for bus in found.restored for one in bus.compared] for found in (quiet, busy)]
    assert max(counts[0]) < min(counts[1]) < MOST_PAIRS


def test_what_the_time_does_not_reach_is_left_out_and_told(tmp_path: Path) -> None:
    """The noise is taken in any case, since all else rests on it."""
    lab = make_remote(tmp_path)
    clock: Callable[[], float] = itertools.count(0.0, 10.0).__next__
    taken = Taking(lab, 365.0, clock=clock)
    taken.take()
    lab.close()
    found = taken.calibration(400.0, 400.0)
    assert len(found.noise) == 2
    assert (found.yardsticks, found.restored) == ((), ())
    assert found.left_out[0].startswith("the yardstick null: it takes ")
    assert found.left_out[-1].startswith("restored guests on ")
    assert found.left_out[-1].endswith(", and 0.0 s are left")
    assert found.booted_s is not None


def test_two_buses_share_the_time_that_is_left(tmp_path: Path) -> None:
    """Where noise asks for more pairs than there is time for, neither of the first two takes it all."""
    spent: list[float] = []

    def boot(event: str) -> None:
        if event.startswith("guest "):
            spent.append(5.0)

    lab = make_remote(tmp_path, options=LabOptions(noise=0.05), note=boot, before_round=lambda *_: spent.append(1.0))
    taken = Bent(lab, 0.0, 700.0, clock=lambda: sum(spent))
    taken.take()
    lab.close()
    found = taken.calibration(1.0, 1.0)
    first, second = (bus.compared[0].pairs for bus in found.restored)
    assert FEWEST_PAIRS < first < MOST_PAIRS
    assert abs(first - second) <= 4
    assert found.left_out == ()


def test_where_no_guest_can_be_restored_that_is_told(tmp_path: Path) -> None:
    """Nothing is decided of any bus."""
    lab = make_remote(tmp_path)
    taken = Taking(lab, LATER)
    taken.take()
    lab.close()
    found = taken.calibration(1.0, 1.0)
    assert found.restorable == {}
    assert "restored guests on virtio-blk: guests cannot be restored there" in found.left_out


def test_what_the_host_cannot_have_is_left_out_in_its_words(tmp_path: Path) -> None:
    """The other yardsticks are there."""
    found = calibrated(tmp_path, unsupported={"null*": "QEMU has no null disk here."})
    assert "the yardstick null: QEMU has no null disk here" in found.left_out
    assert {one.place for one in found.yardsticks} == {"native", "page cache"}


def test_ctrl_c_keeps_what_was_found(tmp_path: Path) -> None:
    """After the noise; during it there is nothing to keep."""

    def interrupt(config: Any, number: int) -> None:
        if config.cache == "writeback":
            raise KeyboardInterrupt

    lab = make_remote(tmp_path, before_round=interrupt)
    taken = Bent(lab, 0.0)
    taken.take()
    lab.close()
    found = taken.calibration(1.0, 1.0)
    assert (len(found.noise), found.is_cut_short, found.left_out[-1]) == (2, True, CUT_SHORT)
    assert {one.place for one in found.yardsticks} == {"null", "native"}
    first = make_remote(tmp_path / "first", before_round=lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        Bent(first, 0.0).take()
    first.close()


def test_a_whole_calibration_is_kept_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the host's name; the lab is closed, and the host was its own meanwhile."""
    monkeypatch.setenv("VMSTORAGE_CACHE", str(tmp_path / "cache"))
    noted: list[str] = []
    lab = make_remote(tmp_path, options=LabOptions(name="lab01"), note=lambda event: noted.append(str(event)))
    monkeypatch.setattr(taking, "open_lab", lambda _settings, _say: lab)
    monkeypatch.setattr(taking, "find_host", lambda *_: lab.host)
    with pytest.raises(ConfigError, match=r"lab01 was not calibrated yet\. `vmstorage calibrate --host="):
        last_calibration(LabSettings(host="lab01"))
    said: list[str] = []
    made = taking.take_calibration(LabSettings(host="lab01"), 1200.0, said.append)
    assert said[-1].startswith("kept in ")
    assert "close" in noted
    assert last_calibration(LabSettings(host="lab01")) == made
    assert made.listed_as == lab.host.listed_as


@pytest.mark.parametrize(("text", "sentence"), [("30s", "leaves no time"), ("soon", "is not a duration")])
def test_a_time_that_cannot_be_is_refused(text: str, sentence: str) -> None:
    """Before anything is made."""
    with pytest.raises(ConfigError, match=sentence):
        check_time(text)
    assert check_time("20m") == 1200.0

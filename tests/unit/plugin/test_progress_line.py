"""The live line's words, and how seldom the rounds ahead are counted for it."""

from __future__ import annotations

import threading

import pytest

from pytest_vmstorage.plugin.progress_line import LiveLine, Shown, status_line, together

LOOK_S = 0.02


class Run:
    """A run with a clock of its own, in which counting the rounds ahead takes `LOOK_S`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looks = 0
        self.shown: list[Shown] = []
        self.live = LiveLine(self.so_far, self.shown.append, lambda: self.now)

    def so_far(self) -> tuple[int, int, float]:
        """Each look finds one round more that is done, and 100 s left."""
        self.looks += 1
        self.now += LOOK_S
        return self.looks, 9, 100.0


def test_rounds_are_counted_in_a_hundredth_of_the_time() -> None:
    """However many steps there are; the seconds go down in between."""
    run = Run()
    run.live.begin_cell("raw")
    for _ in range(10_000):
        run.live.say("fio")
        run.now += 0.001
    assert run.looks * LOOK_S == pytest.approx(run.now / 100, rel=0.2)
    lefts = [one.left_s for one in run.shown if one.done == 1]
    assert lefts == sorted(lefts, reverse=True)
    assert lefts[0] == 100.0
    assert lefts[-1] == pytest.approx(100.0 - 99 * LOOK_S, abs=0.01)


def test_no_round_is_counted_while_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that counts down shows what is known, less the time since."""
    monkeypatch.setattr("pytest_vmstorage.plugin.progress_line._TICK_S", 0.001)
    run, is_shown = Run(), threading.Event()
    run.live.say("fio")
    run.now += 50.0
    before = len(run.shown)
    run.live._tell = lambda one: (run.shown.append(one), is_shown.set())[0]
    with run.live.counting_down():
        assert is_shown.wait(10)
    assert run.looks == 1
    assert {one.left_s for one in run.shown[before:]} == {50.0}


def test_a_line_without_a_step_is_empty() -> None:
    """And one with it has what matters most first."""
    assert status_line(Shown(3, 24, 40.0, "raw", "")) == ""
    assert status_line(Shown(3, 24, 40.0, "raw", "fio")) == "[3/24 rounds, about 40 s left] raw: fio"


def test_several_processes_are_one_line() -> None:
    """All rounds, the longest time, and the step told last with its host; that of one process has no host."""
    here, there = Shown(3, 24, 40.0, "raw", "fio"), Shown(5, 12, 60.0, "qcow2", "boot")
    assert together({"lab01": here}) == here
    assert together({"lab01": here, "lab02": there}) == Shown(8, 36, 60.0, "lab02: qcow2", "boot")
    assert together({"lab01": here, "lab02": there._replace(step="")}).cell == "lab01: raw"
    assert together({"lab01": here._replace(step="")}).step == ""

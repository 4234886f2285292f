"""Which starts of guests go on side by side.

Tests of the class `Starts` of `guest.libvirt.start`; its adoption of orphans is tested in test_adoption.py.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_vmstorage.guest.libvirt import start as starts_module
from pytest_vmstorage.guest.libvirt.start import Starts

WAIT_S = 60.0


class Scene:
    """Starts with a QEMU of their own, which notes what is asked of it and what goes on meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.emulator = folder / "qemu"
        self.emulator.write_text("one")
        self.probed: list[int] = []
        self.under_way = 0
        self.starts = Starts(folder, self._probe)

    def _probe(self, emulator: str) -> None:
        assert emulator == str(self.emulator)
        time.sleep(0.05)
        self.probed.append(self.under_way)

    def start(self, name: str, *, met: threading.Barrier | None = None, alone: bool = False) -> int:
        """Start a guest, which takes until others are met; how many starts there were then."""
        with self.starts.one(name, str(self.emulator), alone=alone):
            self.under_way += 1
            if met is not None:
                met.wait(WAIT_S)
            else:
                time.sleep(0.05)
            seen = self.under_way
            if met is not None:
                met.wait(WAIT_S)
            self.under_way -= 1
        return seen


def test_guests_begin_side_by_side(tmp_path: Path) -> None:
    """All at once; libvirt asks their QEMU what it can once, before any of them begins."""
    scene, met = Scene(tmp_path), threading.Barrier(3)
    with ThreadPoolExecutor(3) as workers:
        assert list(workers.map(lambda name: scene.start(name, met=met), "abc")) == [3, 3, 3]
    assert scene.probed == [0]


def test_one_that_has_to_be_alone_is(tmp_path: Path) -> None:
    """It waits for those that were begun, and those that come later wait for it."""
    scene = Scene(tmp_path)
    with ThreadPoolExecutor(4) as workers:
        found = [workers.submit(scene.start, name, alone=name in "bd") for name in "abcd"]
        assert [found[number].result(WAIT_S) for number in (1, 3)] == [1, 1]


def test_a_qemu_that_was_replaced_is_asked_again(tmp_path: Path) -> None:
    """While nothing is started: what libvirt starts to ask must not be adopted."""
    scene, met = Scene(tmp_path), threading.Barrier(2)
    with ThreadPoolExecutor(2) as workers:
        first = workers.submit(scene.start, "a", met=met)
        while not scene.under_way:
            time.sleep(0.001)
        scene.emulator.replace(tmp_path / "old")
        scene.emulator.write_text("two")
        second = workers.submit(scene.start, "b")
        time.sleep(0.05)
        assert scene.probed == [0]
        for _ in range(2):
            met.wait(WAIT_S)
        assert first.result(WAIT_S) == second.result(WAIT_S) == 1
    assert scene.probed == [0, 0]


def test_one_that_fails_stops_nobody(tmp_path: Path) -> None:
    """Neither those beside it nor those that have to be alone."""
    scene = Scene(tmp_path)
    for alone in (False, True):
        with pytest.raises(ValueError, match="not today"), scene.starts.one("a", str(scene.emulator), alone=alone):
            raise ValueError("not today")
    assert scene.start("b", alone=True) == 1


def test_a_daemon_starts_them_and_needs_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks, and is the parent, of its own."""
    monkeypatch.setattr(starts_module, "adoption", lambda _pid_file: pytest.fail("adopted"))
    scene = Scene(tmp_path)
    scene.starts = Starts(None, lambda _emulator: pytest.fail("asked"))
    assert [scene.start("a"), scene.start("b", alone=True)] == [1, 1]


def test_where_there_is_no_qemu_libvirt_says_so(tmp_path: Path) -> None:
    """Nobody else does."""
    scene = Scene(tmp_path)
    scene.emulator.unlink()
    assert scene.start("a") == 1
    assert scene.probed == []

"""The time that is left: near before the first round, nearer with each, and less with each second."""

from __future__ import annotations

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.plugin.time_left import BETWEEN_S, Ahead, TimeLeft
from pytest_vmstorage.results.journal import GUEST_S

CELLS = [StorageConfig(format=name) for name in ("raw", "qcow2", "vdi", "qed")]


class World:
    """A run of 3 rounds in turns whose guests take 8 s, windows 6.5 s where 6 are stated, and 1.5 s in between."""

    def __init__(self) -> None:
        self.now = 100.0
        self.time = TimeLeft(lambda: self.now)
        self.left = dict.fromkeys(CELLS, 3)

    @property
    def ahead(self) -> list[Ahead]:
        """The rounds to come."""
        return [Ahead(cell, "fio", left, 1 if left == 3 else 0, 6.0) for cell, left in self.left.items()]

    @property
    def true_s(self) -> float:
        """The time that is really left."""
        return sum(left * (6.5 + 1.5) + (8.0 - 1.5 + 6.5 if left == 3 else 0) for left in self.left.values())

    def visit(self, cell: StorageConfig) -> None:
        """Take a round there."""
        is_first = self.left[cell] == 3
        self.time.begin(cell)
        self.now += 8.0 + 6.5 if is_first else 1.5
        self.now += 6.5
        self.time.took(Ahead(cell, "fio", 1, int(is_first), 6.0), 6.5)
        self.left[cell] -= 1
        self.time.end()


def test_before_the_first_round_windows_are_as_stated() -> None:
    """And a guest takes as long as plans assume."""
    world = World()
    assert world.time.seconds(world.ahead) == pytest.approx(4 * (GUEST_S - BETWEEN_S + 6.0 + 3 * (6.0 + BETWEEN_S)))
    assert world.time.seconds(world.ahead) == pytest.approx(world.true_s, rel=0.25)
    assert world.time.seconds([]) == 0


def test_each_round_makes_it_nearer() -> None:
    """Within a seventh from the first visit on, within a twentieth from the second pass on."""
    world = World()
    for number in range(3):
        for cell in CELLS:
            world.visit(cell)
            if number < 2:
                near = 0.15 if number == 0 else 0.05
                assert world.time.seconds(world.ahead) == pytest.approx(world.true_s, rel=near)
    assert world.time.seconds(world.ahead) == 0
    assert world.time.done == 12


def test_it_counts_down_within_a_round_and_waits_for_one_that_takes_longer() -> None:
    """A round that hangs does not use up the time of the others."""
    world = World()
    world.visit(CELLS[0])
    world.time.begin(CELLS[1])
    before = world.time.seconds(world.ahead)
    world.now += 5
    assert world.time.seconds(world.ahead) == pytest.approx(before - 5)
    world.now += 500
    at_hand = 8.0 + 2 * 6.5
    assert world.time.seconds(world.ahead) == pytest.approx(before - at_hand)


def test_rounds_in_a_row_have_no_guest_between_them() -> None:
    """One visit takes all of them."""
    world = World()
    world.time.begin(CELLS[0])
    for between, warmup in ((8.0 + 6.5, 1), (1.5, 0), (1.5, 0)):
        world.now += between + 6.5
        world.time.took(Ahead(CELLS[0], "fio", 1, warmup, 6.0), 6.5)
        world.left[CELLS[0]] -= 1
    assert world.time.seconds(world.ahead) == pytest.approx(world.true_s)

"""Passes and turns without pytest's runs: rounds of a pass, the order in which cells are visited, and the end of it.

The rows of `tests/plugin/test_turns.py` and `test_pairs.py` hold the same with tests that pytest runs.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.variant import Variant, parse_recipe
from pytest_vmstorage.errors import WorkloadError
from pytest_vmstorage.measure.rounds import Rounds
from pytest_vmstorage.plugin.interleave import Interleaver, measures_once
from pytest_vmstorage.plugin.stash import CONFIG, SETTINGS
from pytest_vmstorage.plugin.turns import Pass, Turn, Turns
from pytest_vmstorage.testing.builders import make_measurement

RAW, QCOW2 = StorageConfig(format="raw"), StorageConfig(format="qcow2")


class Rounding:
    """A Measuring that gives a figure whenever it is told to."""

    def __init__(self) -> None:
        self.workload = "fio"
        self.samples: list[float] = []
        self.seconds = 0.0

    @property
    def values(self) -> tuple[float, ...]:
        """All figures."""
        return tuple(self.samples)

    def has_room(self) -> bool:
        """Always."""
        return True

    def measurement(self, order: str, _ended: object) -> Any:
        """One whose hygiene says how rounds lie."""
        return make_measurement(iops=self.samples).model_copy(update={"hygiene": {"rounds": order}})


def turn_of(count: int | None) -> Turn:
    """A turn that wants so many rounds."""
    return Turn("t.py::t", Rounds(count=count), cast("Any", Rounding()), "", (), RAW)


def take(turn: Turn, at: Pass) -> list[int]:
    """Take the rounds that are due in a pass; how many at once."""
    counts = []
    for count in turn.due(at):
        counts.append(count)
        turn.measuring.samples += cast("Any", [1.0] * count)
    return counts


def test_a_pass_takes_one_round_and_the_reported_run_all_that_remain() -> None:
    """The row says which rounds were taken in turns, and which in a row behind them."""
    turn, in_turns = turn_of(4), Pass(kind="round", order="in turns", cell=RAW)
    assert [take(turn, in_turns), take(turn, in_turns)] == [[1], [1]]
    assert turn.measurement(interrupted=True).hygiene["rounds"] == "in turns, interrupted"
    assert take(turn, Pass(cell=RAW)) == [2]
    assert turn.measurement().hygiene["rounds"] == "in turns, the last 2 in a row"
    assert take(turn, in_turns) == []


def test_rounds_without_a_number_are_taken_one_by_one() -> None:
    """After each of them it is asked anew whether the figure is narrow enough."""
    counts = take(turn_of(None), Pass(cell=RAW))
    assert len(counts) >= 6
    assert set(counts) == {1}


class Lab:
    """A session and its gate that take notes; `call` gives each visited test a round, but for those that are broken."""

    def __init__(self, variant: Variant | None = None, broken: tuple[str, ...] = ()) -> None:
        self.turns, self.own, self.visits = Turns(), [], cast("list[tuple[str, Pass]]", [])
        self.gate = SimpleNamespace(
            variant=variant,
            lost={},
            suspects=0,
            wants_fresh_guests=variant is not None,
            first_rounds=lambda asked: asked,
            cell_on=lambda side, cell: variant.of(cell) if variant and side == "other" else cell,
            give_up=lambda nodeid, reason: self.gate.lost.update({nodeid: reason}),
            spent=lambda nodeid, seconds: None,
            further=lambda turns, facts: False,
        )
        self.time_left = "about 1 s left"
        self._broken = broken

    def __getattr__(self, name: str) -> Any:
        if name in ("announce", "expect", "drop_environment", "set_on_host", "hosts"):
            return lambda *_: None
        if name == "lab":
            return lambda: SimpleNamespace(all_facts=())
        if name == "needs_environment":
            return lambda item: True
        if name == "surely_fails":
            return lambda item: self.turns.failed(item.nodeid)
        raise AttributeError(name)

    def call(self, item: Any, at: Pass, _after: object) -> str:
        """What a pass does with a test that declared its workload."""
        self.visits.append((item.nodeid, at))
        self.turns.begin((item.nodeid, at.side))
        turn = self.turns.call((item.nodeid, at.side), cast("Any", "fio"), lambda: turn_of(3))
        if item.nodeid in self._broken:
            turn.error = WorkloadError("fio failed")
            return "fio failed"
        take(turn, at)
        return ""


class Item:
    """A test with its cell."""

    def __init__(self, nodeid: str, cell: StorageConfig) -> None:
        self.nodeid, self.stash = nodeid, pytest.Stash()
        self.stash[CONFIG] = cell


def interleaved(lab: Lab, seed: int = 1) -> list[tuple[str, Pass]]:
    """The visits to two tests in each of two cells."""
    items = [Item(f"{name}[{cell.format}]", cell) for cell in (RAW, QCOW2) for name in "ab"]
    config = SimpleNamespace(stash=pytest.Stash(), getoption=lambda _name: None)
    config.stash[SETTINGS] = cast("Any", SimpleNamespace(seed=seed, rounds=Rounds()))
    session = SimpleNamespace(config=config, shouldstop="", shouldfail="")
    for item in items:
        lab.turns.begin((item.nodeid, "own"))
        lab.turns.call((item.nodeid, "own"), cast("Any", "fio"), lambda: turn_of(3))
    Interleaver(cast("Any", session), cast("Any", lab), cast("Any", items), lab.call).run()
    return lab.visits


def test_each_pass_visits_each_cell_once() -> None:
    """Tests of a cell come together; the order of cells is of chance, and the seed's."""
    visits = interleaved(Lab(), seed=3)
    assert len(visits) == 3 * 4
    for first in range(0, 12, 4):
        names = [name for name, _ in visits[first : first + 4]]
        assert sorted(names) == ["a[qcow2]", "a[raw]", "b[qcow2]", "b[raw]"]
        assert [name[2:] for name in names[::2]] == [name[2:] for name in names[1::2]]
    assert visits == interleaved(Lab(), seed=3)
    assert {at.order for _, at in visits} == {"in turns with 1 other cell, --vm-seed=3"}
    orders = {tuple(name for name, _ in interleaved(Lab(), seed=seed)) for seed in range(8)}
    assert len(orders) > 1


def test_both_sides_of_a_pair_follow_each_other() -> None:
    """In an order of chance, each with its own cell."""
    visits = interleaved(Lab(parse_recipe("cache=writeback")))
    assert len(visits) == 2 * 12
    for first in range(0, 24, 4):
        sides = [at.side for _, at in visits[first : first + 4]]
        assert sides in (["own", "own", "other", "other"], ["other", "other", "own", "own"])
    assert {at.cell.cache for _, at in visits if at.side == "other"} == {"writeback"}
    assert len({visits[first][1].side for first in range(0, 24, 4)}) == 2


def test_a_test_that_got_no_round_is_not_visited_again() -> None:
    """It would get none in the next pass either; the others go on."""
    lab = Lab(broken=("a[raw]",))
    names = [name for name, _ in interleaved(lab)]
    assert names.count("a[raw]") == 1
    assert names.count("b[raw]") == 3
    assert lab.gate.lost == {"a[raw]": "fio failed"}


def once(measure: Any) -> None:
    """Measure once."""
    assert measure("fio").iops > 1


def looped(measure: Any) -> None:
    """Measure in a loop."""
    for depth in range(3):
        measure(depth)


def gathered(measure: Any) -> None:
    """Measure in a comprehension."""
    assert [measure(depth) for depth in range(3)]


def twice(measure: Any) -> None:
    """Measure twice."""
    measure(1)
    measure(2)


def handed_on(measure: Any) -> None:
    """Hand it on to somebody who may measure often, besides measuring."""
    measure(1)
    twice(measure)


class Case:
    """A class whose fixture keeps `measure`."""

    measure: Any

    def kept(self) -> None:
        """Measure once."""
        self.measure("fio")


def test_a_function_that_measures_once_is_known_by_its_source() -> None:
    """One use of the name outside of loops; whatever else may measure again."""
    assert measures_once(once)
    assert measures_once(Case.kept)
    assert not any(map(measures_once, (looped, gathered, twice, handed_on, print, None)))

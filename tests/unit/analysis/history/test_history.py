"""A baseline's history: findings in words, marks, accepted levels, and the census."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta

import pytest

from pytest_vmstorage.analysis.gate.policy import AcceptedLevel, GatePolicy, HistoryRules
from pytest_vmstorage.analysis.history.history import BaselineHistory, HistoryScope, tell_history
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.testing import make_host, make_measurement, make_run

FIRST = date(2026, 10, 1)
CELLS = [StorageConfig(format=form, bus=bus) for form in ("raw", "qcow2") for bus in ("virtio-blk", "virtio-scsi")]
FACTOR = Callable[[StorageConfig, int], float]


def saved_days(
    factor: FACTOR, facts: Callable[[int], Mapping[str, str]] = lambda _: {}, days: int = 40
) -> Iterator[Run]:
    """A run a day of four cells, whose time per operation has that factor on each day."""
    draw = random.Random(1)
    for day in range(days):
        measured = [
            make_measurement(cell, iops=[10_000 / factor(cell, day) * math.exp(draw.gauss(0, 0.02))]) for cell in CELLS
        ]
        started = f"{FIRST + timedelta(day)}T03:00:00+00:00"
        yield make_run(*measured, hosts=[make_host(**facts(day))], started=started)


def slow_scsi(cell: StorageConfig, day: int) -> float:
    """A quarter more time with virtio-scsi from 31 October on."""
    return 1.25 if cell.bus == "virtio-scsi" and day >= 30 else 1.0


def back_again(cell: StorageConfig, day: int) -> float:
    """The same for ten days."""
    return 1.25 if cell.bus == "virtio-scsi" and 20 <= day < 30 else 1.0


def told(factor: FACTOR, policy: GatePolicy | None = None, **more: object) -> BaselineHistory:
    """The history of these days, on the day after them."""
    facts: Callable[[int], Mapping[str, str]] = more.pop("facts", lambda _: {})  # type: ignore[assignment]
    policy = policy or GatePolicy(today=date(2026, 11, 10))
    return tell_history(saved_days(factor, facts), HistoryScope("nightly", **more), policy)  # type: ignore[arg-type]


def test_a_finding_names_its_cells_and_what_changed() -> None:
    """With QEMU's versions, and the command that measures with the old one beside it."""
    history = told(slow_scsi, facts=lambda day: {"qemu": "9.2" if day >= 30 else "9.1"})
    (finding,) = history.findings
    assert (finding.kind, finding.way, finding.after, finding.on) == (
        "step",
        "slower",
        date(2026, 10, 30),
        date(2026, 10, 31),
    )
    assert finding.where == "both cells with bus=virtio-scsi, neither of the 2 others"
    assert finding.change == pytest.approx(0.25, abs=0.03)
    assert [mark.what for mark in finding.marks] == ["QEMU was 9.1 and is 9.2 now"]
    assert not finding.is_unexplained
    assert "--vm-against=emulator=" in finding.narrowing[0]


def of(**values: str) -> FACTOR:
    """A quarter more time in the cells that have these values, from 31 October on."""
    return lambda cell, day: (
        1.25 if day >= 30 and all(getattr(cell, axis) == value for axis, value in values.items()) else 1.0
    )


ONE = "fio randwrite 4k qd32 on raw-none-virtio-scsi-off 1G, local"
WHERE = [
    (of(bus="virtio-scsi"), "", "both cells with bus=virtio-scsi, neither of the 2 others"),
    (of(bus="virtio-scsi", format="raw"), "", f"{ONE}, none of the 3 others"),
    (of(bus="virtio-scsi"), "raw", f"{ONE}, not the other one"),
    (of(bus="virtio-scsi"), "raw-none-virtio-scsi", "the only cell with days around it"),
    (of(), "raw", "both cells"),
    (of(), "", "all 4 cells"),
    (
        lambda cell, day: 1.25 if day >= 30 and (cell.bus == "virtio-scsi") == (cell.format == "raw") else 1.0,
        "",
        "2 of 4 cells, which have nothing in common that the others lack",
    ),
]


@pytest.mark.parametrize(("factor", "cell", "where"), WHERE, ids=[where for *_, where in WHERE])
def test_the_cells_are_counted_in_words(factor: FACTOR, cell: str, where: str) -> None:
    """With none, one, two and more cells that have the change, and that do not."""
    (finding,) = told(factor, cell=cell).findings
    assert finding.where == where


def test_a_change_on_another_day_explains_nothing() -> None:
    """The mark stays, and the finding is unexplained."""
    history = told(slow_scsi, facts=lambda day: {"kernel": "6.2" if day >= 10 else "6.1"})
    (finding,) = history.findings
    assert finding.is_unexplained
    assert [mark.on for mark in history.marks] == [date(2026, 10, 11)]


def test_a_part_of_the_cells_can_be_asked_for() -> None:
    """By a part of an id, since a day."""
    history = told(slow_scsi, cell="qcow2-*-virtio-scsi", since=date(2026, 10, 15))
    assert [line.config for line in history.lines] == [CELLS[3]]
    assert (history.first, history.days) == (date(2026, 10, 15), 26)
    assert [finding.where for finding in history.findings] == ["the only cell with days around it"]


@pytest.mark.parametrize(
    ("asked", "cells"),
    [
        ("bus=virtio-scsi", [1, 3]),
        ("bus=virtio-* and format=qcow2", [2, 3]),
        ("host=local and bus=virtio-scsi and format=raw", [1]),
        ("bus=virtio-scsi and colour=red", []),
        ("bus=scsi", []),
    ],
)
def test_the_values_that_a_finding_names_can_be_asked_for(asked: str, cells: list[int]) -> None:
    """All of them, each as a whole or by a pattern; a value that is no cell's finds none."""
    found = told(slow_scsi, cell=asked).lines
    assert [line.config for line in found] == [CELLS[number] for number in cells]


def level(expires: date = date(2027, 1, 1), cell: str = "*", since: date = date(2026, 10, 31)) -> AcceptedLevel:
    """The level since 31 October, which jo accepted."""
    return AcceptedLevel(cell=cell, since=since, reason="known", owner="jo", expires=expires, where="gate, 1")


def test_an_accepted_level_is_no_open_finding() -> None:
    """Until its last day, and for just the cells that it covers."""
    today = date(2026, 11, 10)
    accepted = told(slow_scsi, GatePolicy(today=today, levels=(level(expires=today),)))
    assert [one.is_open for one in accepted.findings] == [False]
    assert accepted.lapsed == ()
    some = told(slow_scsi, GatePolicy(today=today, levels=(level(cell="*[[]raw-*"), level(cell="*[raw-*"))))
    assert [one.is_open for one in some.findings] == [True]
    elsewhen = told(slow_scsi, GatePolicy(today=today, levels=(level(since=date(2026, 10, 20)),)))
    assert [one.is_open for one in elsewhen.findings] == [True]


def test_an_acceptance_lapses_by_date() -> None:
    """The day after its last one."""
    history = told(slow_scsi, GatePolicy(today=date(2026, 11, 10), levels=(level(expires=date(2026, 11, 9)),)))
    assert [one.is_open for one in history.findings] == [True]
    (lapse,) = history.lapsed
    assert lapse.reason == "gate, 1: the level of * that jo accepted (known) was accepted until 2026-11-09."


def test_an_acceptance_lapses_when_the_level_comes_back() -> None:
    """What was accepted is not there any more."""
    policy = GatePolicy(today=date(2026, 11, 10), levels=(level(since=date(2026, 10, 21)),))
    history = told(back_again, policy)
    assert [one.way for one in history.findings] == ["slower", "faster"]
    (lapse,) = history.lapsed
    assert "came back after 2026-10-30, on 2026-10-31 at the latest" in lapse.reason


def test_small_changes_are_counted_and_not_told() -> None:
    """By percentage, and by the floor in the metric's own unit."""
    for rules in (HistoryRules(least=0.3), HistoryRules(floors={"iops": 5000.0})):
        history = told(slow_scsi, GatePolicy(today=date(2026, 11, 10), history=rules))
        assert history.findings == ()
        assert history.census.too_small == 1
    assert len(told(slow_scsi, GatePolicy(history=HistoryRules(least=0.2, floors={"iops": 1000.0}))).findings) == 1


def test_the_census_counts_every_cell_once() -> None:
    """Judged, or with the reason why not."""
    runs = [*saved_days(slow_scsi, days=40)]
    rare = make_measurement(StorageConfig(bus="ide"), iops=(1.0,))
    gone = make_measurement(StorageConfig(bus="nvme"), iops=(1.0,))
    runs[-1] = runs[-1].model_copy(update={"measurements": (*runs[-1].measurements, rare)})
    runs[0] = runs[0].model_copy(update={"measurements": (*runs[0].measurements, gone)})
    census = tell_history(runs, HistoryScope("nightly"), GatePolicy()).census
    assert str(census) == "judged 4 of 6; 1 gone, 1 too few days (10 are needed)"
    assert census.judged + sum(census.others.values()) == census.lines


def test_no_days_are_an_empty_history() -> None:
    """Nothing judged, nothing found."""
    history = tell_history([], HistoryScope("nightly"), GatePolicy())
    assert (history.first, history.lines, history.findings, str(history.census)) == (None, (), (), "judged 0 of 0")


def test_a_history_is_read_back_as_it_was() -> None:
    """JSON has all of it."""
    history = told(slow_scsi)
    assert BaselineHistory.model_validate_json(history.model_dump_json()) == history

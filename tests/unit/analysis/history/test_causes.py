"""One finding for each cause: which cells share it, and since when."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping

import pytest

from pytest_vmstorage.analysis.history.causes import Cause, Judged, find_causes

AXES = {
    "format": ("raw", "qcow2"),
    "cache": ("none", "writeback", "unsafe"),
    "bus": ("virtio-blk", "virtio-scsi", "ide"),
    "workload": ("read", "write"),
}
CELLS = [dict(zip(AXES, values, strict=True)) for values in itertools.product(*AXES.values())]
TENTH = math.log(1.1)
Hit = Callable[[Mapping[str, str]], bool]


def history(*changes: tuple[Hit, Callable[[int], float]], seed: int = 1, spread: float = 0.02) -> list[Cause]:
    """The causes in 40 days of all cells, to which the changes of each day were added."""
    draw = random.Random(seed)
    many = []
    for cell in CELLS:
        values = [draw.gauss(0, spread) for _ in range(40)]
        for hit, shift in changes:
            if hit(cell):
                values = [value + shift(day) for day, value in enumerate(values)]
        many.append(Judged(range(100, 140), values, cell))
    return find_causes(many)


def step(day: int, size: float = TENTH) -> Callable[[int], float]:
    """Another level from that day on."""
    return lambda now: size * (now >= day)


def with_values(**values: str) -> Hit:
    """Cells that have these values."""
    return lambda cell: values.items() <= cell.items()


VALUES = [
    dict(zip(names, values, strict=True))
    for size in range(4)
    for names in itertools.combinations(AXES, size)
    for values in [[AXES[name][-1] for name in names]]
]


@pytest.mark.parametrize("values", VALUES, ids=lambda values: "-".join(values.values()) or "all")
def test_cells_that_share_a_value_are_one_finding(values: dict[str, str]) -> None:
    """On each axis and on several together, it is the values that are told, with just the cells that have them."""
    (cause,) = history((with_values(**values), step(25)), seed=11)
    assert cause.kind == "step"
    assert [CELLS[number] for number in cause.members] == [cell for cell in CELLS if with_values(**values)(cell)]
    assert dict(cause.shared) == values
    assert cause.after < 125 <= cause.on
    assert cause.shift == pytest.approx(TENTH, abs=0.03)


def test_two_causes_on_two_days_are_two_findings() -> None:
    """Cells that have both are in both."""
    first, second = history((with_values(bus="ide"), step(12)), (with_values(format="raw"), step(28)))
    assert dict(first.shared) == {"bus": "ide"}
    assert dict(second.shared) == {"format": "raw"}
    assert first.after < 112 <= first.on < second.after + 1 <= 128 <= second.on


@pytest.mark.parametrize("seed", [4, 6])
def test_two_steps_one_way_are_no_creep(seed: int) -> None:
    """A stair is as near to a line as to levels in a cell or two, whose days the other cells know."""
    raw = with_values(format="raw")
    causes = history((raw, step(13)), (raw, step(27)), seed=seed, spread=0.025)
    assert [(one.kind, one.at, dict(one.shared)) for one in causes] == [
        ("step", 113, {"format": "raw"}),
        ("step", 127, {"format": "raw"}),
    ]


def test_cells_with_a_clear_step_are_not_told_to_creep() -> None:
    """From the first day to the last they rose as much as the one cell that creeps."""
    ide, first = with_values(bus="ide"), with_values(**CELLS[0])
    creep, step_of_ide = history((ide, step(20, 0.15)), (first, lambda day: 0.15 * day / 39))
    assert (step_of_ide.kind, dict(step_of_ide.shared)) == ("step", {"bus": "ide"})
    assert (creep.kind, creep.members) == ("creep", (0,))


def test_the_surest_step_may_be_off_by_days() -> None:
    """Of a hundred cells noise moves one by two days here, and it is the surest: the others' day is that of all."""
    draw = random.Random("1 all cells 8")
    many = [
        Judged(range(60), [draw.gauss(0, 0.03) + TENTH * (day >= 40) for day in range(60)], {"cell": str(number)})
        for number in range(100)
    ]
    (cause,) = find_causes(many)
    assert (cause.at, len(cause.members), len(cause.sure)) == (40, 100, 100)


def test_a_cell_with_a_clear_step_on_another_day_is_no_member() -> None:
    """One cell changed twice as much as the others and two days before them: it is a finding for itself."""
    draw = random.Random(1)
    many = []
    for number, cell in enumerate(CELLS):
        day, size = (23, 0.4) if number == 7 else (25, TENTH)
        many.append(Judged(range(40), [draw.gauss(0, 0.01) + size * (now >= day) for now in range(40)], cell))
    first, second = find_causes(many)
    assert (first.at, first.members) == (23, (7,))
    assert (second.at, len(second.members)) == (25, 35)
    assert 7 not in second.members


def test_faster_and_slower_are_two_findings() -> None:
    """Although they came on the same day."""
    causes = history((with_values(bus="ide"), step(20)), (with_values(bus="virtio-scsi"), step(20, -TENTH)))
    assert sorted((dict(one.shared)["bus"], one.shift > 0) for one in causes) == [("ide", True), ("virtio-scsi", False)]


def test_cells_that_share_nothing_are_listed() -> None:
    """Five cells without a pattern: those, and no value."""
    hit = [CELLS[number] for number in (1, 8, 18, 27, 30)]
    (cause,) = history((hit.__contains__, step(20)))
    assert [CELLS[number] for number in cause.members] == hit


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("days", [12, 40])
def test_a_cell_that_stayed_is_not_told_to_have_changed(days: int, seed: int) -> None:
    """Three of four cells are slower by a quarter: a change of any size in the fourth is not much less likely."""
    draw, cells = random.Random(seed), [{"cache": a, "bus": b} for a in ("none", "unsafe") for b in ("ide", "sata")]
    many = [
        Judged(range(days), [draw.gauss(0.22 * (place < 3 and day >= days // 2), 0.03) for day in range(days)], cell)
        for place, cell in enumerate(cells)
    ]
    (cause,) = find_causes(many)
    assert (cause.members, cause.shared) == ((0, 1, 2), ())


def test_creep_of_cells_with_one_value() -> None:
    """It is a creep, from the first day to the last."""
    (cause,) = history((with_values(cache="unsafe"), lambda day: 0.15 * day / 39))
    assert (cause.kind, dict(cause.shared)) == ("creep", {"cache": "unsafe"})
    assert (cause.after, cause.on) == (100, 139)


def test_a_cell_too_noisy_to_be_sure_goes_with_its_value() -> None:
    """Its own days would not show it; the others of its value say where to look."""
    draw = random.Random(5)
    many = []
    for number, cell in enumerate(CELLS):
        spread = 0.12 if number == 17 else 0.02
        hit = with_values(bus="ide")(cell)
        values = [draw.gauss(0, spread) + TENTH * (hit and day >= 20) for day in range(40)]
        many.append(Judged(range(40), values, cell))
    (cause,) = find_causes(many)
    assert CELLS[17]["bus"] == "ide"
    assert 17 in cause.members
    assert 17 not in cause.sure
    assert dict(cause.shared) == {"bus": "ide"}


def test_days_that_all_cells_share_do_not_make_the_span_too_narrow() -> None:
    """Where all cells have the same days, they know the day of a step no better than one of them."""
    spans = []
    for own in (0.05, 0.0):
        draw = random.Random(4)
        days = [draw.gauss(0, 0.05) for _ in range(40)]
        values = [
            [(0 if own else day) + draw.gauss(0, own) + TENTH * (place >= 20) for place, day in enumerate(days)]
            for _ in CELLS
        ]
        (cause,) = find_causes([Judged(range(40), one, cell) for one, cell in zip(values, CELLS, strict=True)])
        spans.append(cause.on - cause.after)
    assert spans[0] < spans[1]


def test_gaps_widen_the_span() -> None:
    """Without days between 12 and 20 the step may have come on any of them."""
    draw = random.Random(3)
    times = [day for day in range(40) if not 12 < day < 20]
    many = [Judged(times, [draw.gauss(0, 0.02) + TENTH * (day >= 16) for day in times], cell) for cell in CELLS]
    (cause,) = find_causes(many)
    assert (cause.after, cause.on) == (12, 20)


def test_no_change_is_no_finding() -> None:
    """Days that differ by chance alone."""
    assert history(seed=21) == []

"""Which axis moves what, on synthetic matrices whose effects are known, and how the report tells it."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_vmstorage.analysis.axis_effects import effects
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.details import effect_lines
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.results.run import Measurement, Run
from pytest_vmstorage.testing.builders import in_turns, make_measurement, make_run

AXES: Mapping[str, tuple[str, ...]] = {
    "format": ("raw", "qcow2"),
    "cache": ("none", "writeback", "unsafe"),
    "bus": ("virtio-blk", "ide"),
}


def matrix(
    factors: Mapping[str, float],
    *,
    rounds: int = 6,
    sd: float = 0.03,
    workload: str = "fio randread 4k qd1",
    metric: str = "iops",
    seed: int = 1,
    host: str = "local",
    axes: Mapping[str, tuple[str, ...]] = AXES,
) -> list[Measurement]:
    """Every cell of the axes, its speed the product of its values' factors, each round off by a factor."""
    draw = random.Random(seed)
    rows = []
    for values in itertools.product(*axes.values()):
        speed = 1000.0 * math.prod(factors.get(value, 1.0) for value in values)
        figures: Any = tuple(speed * math.exp(draw.gauss(0, sd)) for _ in range(rounds))
        named: Any = {metric: tuple(1 / f for f in figures) if metric == "clat" else figures}
        config: Any = dict(zip(axes, values, strict=True))
        rows.append(make_measurement(StorageConfig(**config), workload=workload, host=host, **named))
    return list(in_turns(*rows, seed=seed))


def lines(*rows: Measurement) -> list[str]:
    """What the report says of them."""
    return list(effect_lines(effects(make_run(*rows))))


def test_known_effects_are_found() -> None:
    """Twice by the bus, 1.2 times by the cache, nothing by the format, each with its couples."""
    (moved,) = effects(make_run(*matrix({"ide": 0.5, "unsafe": 1.2})))
    found = {effect.axis: effect for effect in moved.effects}
    assert [effect.axis for effect in moved.effects] == ["bus", "cache", "format"]
    bus, cache, format_ = found["bus"], found["cache"], found["format"]
    assert (bus.fastest, bus.slowest, bus.couples) == ("virtio-blk", "ide", 6)
    assert bus.ratio == pytest.approx(2.0, rel=0.05)
    assert bus.low < bus.ratio < bus.high
    assert bus.interval is not None
    assert 1.8 < bus.interval.low < bus.ratio < bus.interval.high < 2.2
    assert (cache.fastest, cache.couples, cache.matters) == ("unsafe", 4, True)
    assert cache.ratio == pytest.approx(1.2, rel=0.05)
    assert not format_.is_sure


def test_a_latency_is_a_speed_too() -> None:
    """The slower cell has the larger figure."""
    (moved,) = effects(make_run(*matrix({"ide": 0.5}, metric="clat")))
    assert (moved.effects[0].axis, moved.effects[0].fastest) == ("bus", "virtio-blk")
    assert moved.effects[0].ratio == pytest.approx(2.0, rel=0.05)


def test_the_sentence() -> None:
    """The largest first, what is within its spread behind it."""
    (line,) = lines(*matrix({"ide": 0.5, "unsafe": 1.2}))
    bus, cache, format_ = line.split("; ")[0], line.partition("; cache")[2], line.rpartition("; ")[2]
    assert bus.startswith(("bus moves fio randread 4k qd1 by 1.9", "bus moves fio randread 4k qd1 by 2.0"))
    assert "x (virtio-blk fastest, ide slowest" in bus
    assert "; 6 couples, 95 % interval 1." in line
    assert cache.startswith(" by 1.2")
    assert "(unsafe fastest, " in cache
    assert format_.startswith("format by 1.0")
    assert format_.endswith("x, within its spread")


def test_rounds_stand_in_where_couples_are_few() -> None:
    """One couple of six rounds has an interval; of five it has none, however clear it looks."""
    axes = {"format": ("raw", "qcow2")}
    (line,) = lines(*matrix({"qcow2": 0.5}, axes=axes))
    assert line.startswith("format moves fio randread 4k qd1 by ")
    assert "; 1 couple, 95 % interval 1.90x to 2.18x)" in line
    (line,) = lines(*matrix({"qcow2": 0.5}, rounds=5, axes=axes))
    assert line.startswith("fio randread 4k qd1: format by ")
    assert line.endswith("), too few to tell")
    (line,) = lines(*matrix({"qcow2": 0.5}, rounds=1, sd=0, axes=axes))
    assert line == "fio randread 4k qd1: format by 2.00x (1 couple of 1 round), too few to tell"


def test_couples_that_disagree_count_one_by_one() -> None:
    """Seven couples like a bus and three do not: rounds that agree in each cell make no bus surely faster."""
    caches = ("none", "directsync", "writethrough", "writeback", "unsafe")
    formats = ("raw", "qcow2")
    rows = []
    for place, (format_, cache) in enumerate(itertools.product(formats, caches)):
        for bus, factor in (
            ("virtio-blk", 1.0),
            ("ide", {1: 1.03, 5: 1.03, 8: 1.03, 0: 0.99, 9: 0.99}.get(place, 0.94)),
        ):
            config: Any = {"format": format_, "cache": cache, "bus": bus}
            figures = tuple(1000.0 * factor * (1 + n / 10000) for n in range(6))
            rows.append(make_measurement(StorageConfig(**config), iops=figures))
    (moved,) = effects(make_run(*in_turns(*rows)))
    bus_effect = next(effect for effect in moved.effects if effect.axis == "bus")
    assert (bus_effect.fastest, bus_effect.couples, bus_effect.is_sure) == ("virtio-blk", 10, False)
    assert bus_effect.low < 1 < bus_effect.ratio


def test_more_values_take_more_evidence() -> None:
    """Of three values the two farthest apart were chosen among three couples: six rounds do not suffice."""
    axes = {"cache": AXES["cache"]}
    assert "too few to tell" in lines(*matrix({"unsafe": 2.0}, axes=axes))[0]
    assert "cache moves" in lines(*matrix({"unsafe": 2.0}, rounds=7, axes=axes))[0]


def test_equal_cells_move_nothing() -> None:
    """In 100 matrices without any effect an axis is said to move something in few: 95 % intervals, three axes each."""
    told = sum(
        effect.matters
        for seed in range(100)
        for moved in effects(make_run(*matrix({}, seed=seed, rounds=4)))
        for effect in moved.effects
    )
    assert told <= 25


def test_a_small_effect_is_none_to_a_reader() -> None:
    """Sure, and below a percent."""
    (line,) = lines(*matrix({"ide": 0.996}, sd=0.0001))
    assert "bus by less than 1 %" in line
    assert "moves" not in line


def test_axes_that_only_vary_together() -> None:
    """Nothing can be said of either, and that is said."""
    rows = [make_measurement(StorageConfig(format=f, bus=b), iops=(n,)) for n, (f, b) in enumerate(TIED, 1)]
    assert lines(*rows) == ["no effect can be told for format, bus: no two cells differ in it alone"]


TIED: Any = (("raw", "virtio-blk"), ("qcow2", "ide"))


def test_rows_that_are_left_out() -> None:
    """Native and null rows, figures that are no speed, and a workload in one cell alone."""
    native, null = StorageConfig(backing="native"), StorageConfig(backing="null")
    rows = [make_measurement(cell, iops=(1.0,)) for cell in (StorageConfig(), native, null)]
    assert lines(*rows) == []
    assert lines(make_measurement(iops=(1.0,)), make_measurement(StorageConfig(bus="ide"), iops=(0.0,))) == []
    assert lines() == []


def test_hosts_are_kept_apart() -> None:
    """And named where there are several."""
    rows = [*matrix({"ide": 0.5}, host="lab01"), *matrix({"ide": 0.2}, host="lab02")]
    found = effects(make_run(*rows))
    assert [moved.host for moved in found] == ["lab02", "lab01"]
    assert lines(*rows)[0].startswith("bus moves fio randread 4k qd1 on lab02 by ")


def test_many_workloads_are_few_lines() -> None:
    """Those that something moves, most moved first; the others are named."""
    moved = [row for n in range(5) for row in matrix({"ide": 0.9 - n / 10}, workload=f"fio job{n}", seed=n)]
    idle = [row for n in range(9) for row in matrix({}, workload=f"dd job{n}", seed=40 + n, sd=0.001)]
    text = lines(*idle, *moved)
    assert [line.partition(" by ")[0] for line in text[:5]] == [f"bus moves fio job{n}" for n in (4, 3, 2, 1, 0)]
    assert "within its spread" not in "".join(text[:5])
    assert text[5] == f"less, or within its spread: {', '.join(name_of(text[5]))}"
    assert sorted(name_of(text[5])) == [f"dd job{n}" for n in range(9)]
    assert len(text) == 6


def name_of(line: str) -> list[str]:
    """The workloads that a line names at its end."""
    return line.partition(": ")[2].split(", ")


def test_rounds_in_a_row_are_said() -> None:
    """Drift is then part of each ratio."""
    rows = [m.model_copy(update={"hygiene": {"rounds": "in a row"}}) for m in matrix({"ide": 0.5})]
    assert lines(*rows)[-1] == "rounds were taken in a row: these ratios include the host's drift between them"


def test_it_stands_in_the_report() -> None:
    """Below the matrix, in each form; not with a single cell."""
    run: Run = make_run(*matrix({"ide": 0.5}))
    titles = [section.title for section in build_table(run).sections]
    assert titles.index("what moves what") < titles.index("host local")
    assert "what moves what" not in [one.title for one in build_table(make_run(make_measurement())).sections]

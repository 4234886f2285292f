"""What regressions share, on small matrices: sentences, and every matrix of regressions gone through."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import pytest

from pytest_vmstorage.analysis.shared_values import Compared, Shared, find_shared, idle_axes, meets, shared_by

AXES = {
    "format": ("raw", "qcow2"),
    "cache": ("none", "writeback", "unsafe"),
    "bus": ("virtio-blk", "virtio-scsi", "ide"),
}


def matrix(regressed: Callable[..., bool], axes: dict[str, tuple[str, ...]] | None = None) -> list[Compared]:
    """All cells of these axes, of which those regressed."""
    axes = axes or AXES
    cells = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    return [Compared(cell, regressed(**cell)) for cell in cells]


def test_one_value_of_one_axis() -> None:
    """The issue's own example: all of one bus, none of another."""
    cells = matrix(lambda bus, **_: bus == "virtio-scsi")
    assert shared_by(cells) == (
        "all 6 regressions have bus=virtio-scsi; format and cache do not matter "
        "(6 of 6 cells with bus=virtio-scsi regressed, 0 of 12 others)"
    )


def test_not_every_cell_with_the_value_regressed() -> None:
    """It is said, and an axis of which one value was spared matters."""
    cells = matrix(lambda bus, cache, **_: bus == "virtio-scsi" and cache != "unsafe")
    assert shared_by(cells) == (
        "all 4 regressions have bus=virtio-scsi; format does not matter; none at cache=unsafe "
        "(4 of 6 cells with bus=virtio-scsi regressed, 0 of 12 others)"
    )


def test_two_axes_together() -> None:
    """Where one alone would take in cells that did not regress."""
    cells = matrix(lambda bus, cache, **_: bus == "virtio-scsi" and cache == "none")
    assert shared_by(cells) == (
        "all 2 regressions have cache=none and bus=virtio-scsi; format does not matter "
        "(2 of 2 cells with cache=none and bus=virtio-scsi regressed, 0 of 16 others)"
    )


def test_axes_that_go_together_cannot_be_told_apart() -> None:
    """vdi was only measured on ide: either may be it, and both are said."""
    values = [("raw", "sata"), ("raw", "nvme"), ("vdi", "ide")]
    cells = [Compared({"format": f, "bus": b, "cache": c}, f == "vdi") for f, b in values for c in ("none", "unsafe")]
    assert shared_by(cells) == (
        "all 2 regressions have format=vdi; cache does not matter; bus=ide tells them apart as well "
        "(2 of 2 cells with format=vdi regressed, 0 of 4 others)"
    )


def test_nothing_in_common() -> None:
    """Few are named; of many it is said which axes do not matter and what was spared."""
    two = matrix(lambda **cell: tuple(cell.values()) in {("raw", "none", "ide"), ("qcow2", "unsafe", "virtio-blk")})
    assert shared_by(two) == (
        "2 of 18 cells regressed (format=raw cache=none bus=ide; format=qcow2 cache=unsafe bus=virtio-blk): "
        "they have nothing in common"
    )
    many = matrix(lambda cache, bus, **_: cache != "unsafe" and bus != "ide")
    assert shared_by(many) == (
        "8 of 18 cells regressed, and they have nothing in common; format does not matter; "
        "none at cache=unsafe; none at bus=ide"
    )


@pytest.mark.parametrize(
    ("regressed", "sentence"),
    [
        (lambda **_: False, ""),
        (lambda **_: True, "all 18 cells regressed: format, cache and bus do not matter"),
        (
            lambda **cell: tuple(cell.values()) == ("raw", "none", "ide"),
            "1 of 18 cells regressed (format=raw cache=none bus=ide): a single one shares nothing with another",
        ),
    ],
)
def test_none_one_and_all(regressed: Callable[..., bool], sentence: str) -> None:
    """There is nothing to share, and no more is said."""
    assert shared_by(matrix(regressed)) == sentence


def test_a_single_axis() -> None:
    """Each value is one cell, so that two of them have nothing in common; what does not vary is not told."""
    axes = {"bus": AXES["bus"], "format": ("raw",)}
    assert shared_by(matrix(lambda bus, **_: bus != "ide", axes)) == (
        "2 of 3 cells regressed (bus=virtio-blk; bus=virtio-scsi): they have nothing in common"
    )
    assert shared_by(matrix(lambda **_: True, axes)) == "all 3 cells regressed: bus does not matter"
    assert shared_by(matrix(lambda **_: True, {"bus": ("ide",)})) == "the only cell that was compared regressed"
    assert shared_by([]) == ""


def test_workload_and_host_are_axes_like_others() -> None:
    """What is in the values, and varies, is told."""
    axes = {"bus": AXES["bus"], "workload": ("fio randread 4k", "dd write 1M"), "host": ("lab01", "lab02")}
    assert shared_by(matrix(lambda workload, host, **_: workload[0] == "d" and host == "lab02", axes)).startswith(
        "all 3 regressions have workload=dd write 1M and host=lab02; bus does not matter"
    )


SMALL = {"a": ("0", "1"), "b": ("0", "1"), "c": ("0", "1", "2")}


def every_condition(cells: Sequence[Compared]) -> list[tuple[tuple[str, str], ...]]:
    """All conditions on these cells' axes, small ones first."""
    axes = list(cells[0].values)
    values = {axis: sorted({cell.values[axis] for cell in cells}) for axis in axes}
    return [
        tuple(zip(chosen, picked, strict=True))
        for size in range(1, len(axes) + 1)
        for chosen in itertools.combinations(axes, size)
        for picked in itertools.product(*(values[axis] for axis in chosen))
    ]


def brute_force(cells: Sequence[Compared]) -> Shared | None:
    """The definition: of all conditions that every regression meets those that fewest cells meet, the smallest."""
    varying = [axis for axis in cells[0].values if len({cell.values[axis] for cell in cells}) > 1]
    kept = [
        condition
        for condition in every_condition(cells)
        if all(axis in varying for axis, _ in condition)
        and all(meets(cell, condition) for cell in cells if cell.regressed)
    ]
    if not kept:
        return None

    def rank(condition: tuple[tuple[str, str], ...]) -> tuple[int, int]:
        return sum(meets(cell, condition) for cell in cells), len(condition)

    best = [condition for condition in kept if rank(condition) == min(map(rank, kept))]
    return Shared(best[0], tuple(best[1:]))


def test_every_pattern_of_a_small_matrix() -> None:
    """All 4095 ways in which cells of a 2 x 2 x 3 matrix regress, against the definition."""
    cells = matrix(lambda **_: False, SMALL)
    for pattern in range(1, 2 ** len(cells)):
        tried = [Compared(cell.values, bool(pattern >> n & 1)) for n, cell in enumerate(cells)]
        assert find_shared(tried) == brute_force(tried)


def test_matrices_with_holes() -> None:
    """Seeded choices of cells, as a reduced matrix has them; what the sentence says of axes and counts is so."""
    draw = random.Random(2)
    full = matrix(lambda **_: False, SMALL)
    for _ in range(500):
        there = draw.sample(full, draw.randint(3, len(full)))
        tried = [Compared(cell.values, draw.random() < 0.4) for cell in there]
        if sum(cell.regressed for cell in tried) < 2 or all(cell.regressed for cell in tried):
            continue
        found = find_shared(tried)
        assert found == brute_force(tried)
        text = shared_by(tried)
        met = [cell for cell in tried if meets(cell, found.condition if found else ())]
        bad = [cell for cell in met if cell.regressed]
        assert len(bad) == sum(cell.regressed for cell in tried)
        if found:
            assert f"{len(bad)} of {len(met)} cells with" in text
            assert f"0 of {len(tried) - len(met)} others" in text
        for axis in SMALL:
            values, hit = ({cell.values[axis] for cell in group} for group in (met, bad))
            is_open = found is None or axis not in dict(found.condition)
            assert (axis in idle_axes(tried, found.condition if found else ())) is (
                is_open and len(values) > 1 and values == hit
            )

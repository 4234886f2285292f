"""Choosing cells for a time, and what journals say of how long tests take."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.selection import Candidate, choose, coverage
from pytest_vmstorage.results.journal import ROUND_S, History, Past, read_history, stem_of

FORMATS, CACHES, BUSES = ("raw", "qcow2"), ("none", "writeback", "unsafe"), ("virtio-blk", "ide", "sata")
CONFIGS = [
    StorageConfig(format=form, cache=cache, bus=bus) for form, cache, bus in itertools.product(FORMATS, CACHES, BUSES)
]


def candidates(seconds: float = 10.0, **of: dict[int, Any]) -> list[Candidate]:
    """A test's 18 cells; `failed={3: True}` is about the cell in that place."""
    return [
        Candidate(
            config=config,
            tests=("t.py::test",),
            seconds=of.get("seconds_of", {}).get(n, seconds),
            failed=of.get("failed", {}).get(n, False),
            last=of.get("last", {}).get(n, "2026-01-01T00:00:00+00:00"),
        )
        for n, config in enumerate(CONFIGS)
    ]


def test_all_fit_where_there_is_time() -> None:
    """Nothing is left out then, not by a rounding error either."""
    choice = choose(candidates(0.1), 1.8000001)
    assert choice.chosen == tuple(range(18))
    assert choice.uncovered == ()
    assert choice.pairs == 2 * 3 + 2 * 3 + 3 * 3


def test_pairs_come_first() -> None:
    """Nine cells can meet every pair of 2 x 3 x 3; what fits never takes more than the time."""
    choice = choose(candidates(failed=dict.fromkeys(range(9), True)), 105)
    assert choice.uncovered == ()
    assert choice.seconds == 100
    met = [CONFIGS[n] for n in choice.chosen]
    assert len({(one.cache, one.bus) for one in met}) == 9
    assert len({(one.format, one.bus) for one in met}) == 6


def test_what_is_not_covered_is_told() -> None:
    """Exactly the pairs that no chosen cell has, with their test."""
    choice = choose(candidates(), 25)
    assert len(choice.chosen) == 2
    met = [CONFIGS[n].model_dump() for n in choice.chosen]
    wanted = {
        ("t.py::test", tuple((name, value) for name, value in zip(names, values, strict=True)))
        for names, lists in (
            (("format", "cache"), (FORMATS, CACHES)),
            (("format", "bus"), (FORMATS, BUSES)),
            (("cache", "bus"), (CACHES, BUSES)),
        )
        for values in itertools.product(*lists)
        if not any(tuple(one[name] for name in names) == values for one in met)
    }
    assert set(choice.uncovered) == wanted
    assert len(wanted) == choice.pairs - 6


def plain_cells(*of: dict[str, Any]) -> list[Candidate]:
    """Cells with no pairs to cover: each the only one of its test."""
    return [
        Candidate(config=config, tests=(f"t.py::test_{n}",), seconds=1.0, **fields)
        for n, (config, fields) in enumerate(zip(CONFIGS, of, strict=False))
    ]


def test_then_failed_then_never_measured_then_stale() -> None:
    """Failed before never measured before long ago before lately; equals in their order."""
    cells = plain_cells(
        {"last": "2026-03-01"},
        {"last": "2026-01-01"},
        {"last": ""},
        {"last": "2026-02-01", "failed": True},
        {"last": "2026-01-01"},
    )
    order = []
    for budget in range(1, 6):
        chosen = set(choose(cells, budget).chosen)
        assert chosen > set(order)
        order += list(chosen - set(order))
    assert order == [3, 2, 1, 4, 0]


def test_urgency_decides_between_cells_that_bring_the_same() -> None:
    """Of equal cells the failed one stands for its pairs, else the stalest."""
    assert choose(candidates(failed={11: True}), 10).chosen == (11,)
    assert choose(candidates(last={7: "2025-01-01"}), 10).chosen == (7,)


def test_a_long_cell_does_not_keep_short_ones_out() -> None:
    """What does not fit is passed over, and pairs are bought where they are cheap."""
    choice = choose(candidates(seconds_of={0: 1000.0, 1: 60.0}), 65)
    assert 0 not in choice.chosen
    assert 1 not in choice.chosen
    assert len(choice.chosen) == 6


@pytest.mark.parametrize("cells", [[], candidates()], ids=["none", "too long"])
def test_nothing_may_fit(cells: list[Candidate]) -> None:
    """Then nothing is chosen, and no error is made of it here."""
    choice = choose(cells, 5)
    assert choice.chosen == ()
    assert choice.seconds == 0
    assert choice.pairs == len(choice.uncovered)


def test_pairs_count_for_each_test() -> None:
    """A pair that one test met is still to be met by another; what never varies for a test is no pair."""
    cells = [
        Candidate(config=StorageConfig(), tests=("a", "b"), seconds=1),
        Candidate(config=StorageConfig(cache="unsafe"), tests=("a",), seconds=1),
        Candidate(config=StorageConfig(bus="ide"), tests=("b",), seconds=1),
    ]
    assert coverage(cells) == [
        {("a", (("cache", "none"),)), ("b", (("bus", "virtio-blk"),))},
        {("a", (("cache", "unsafe"),))},
        {("b", (("bus", "ide"),))},
    ]


def sample(nodeid: str, seconds: float, started: str, workload: str = "fio") -> str:
    """A journal's line."""
    kept = {"seconds": seconds, "started": started, "figures": {}, "raw": ""}
    return json.dumps({"nodeid": nodeid, "workload": workload, "sample": kept})


def test_journals_tell_when_and_how_long() -> None:
    """Workloads add up, rounds are averaged, the journal that measured a test last speaks for it."""
    old = [sample("t.py::test[raw]", 50, "2026-01-01"), sample("t.py::gone", 1, "2026-01-01")]
    new = [
        sample("t.py::test[raw]", 4, "2026-02-01T00"),
        sample("t.py::test[raw]", 6, "2026-02-01T01"),
        sample("t.py::test[raw]", 2, "2026-02-01T02", "dd"),
    ]
    for journals in ([old, new], [new, old]):
        history = read_history(journals)
        assert history.tests["t.py::test[raw]"] == Past(round_s=7, rounds=2, last="2026-02-01T02")
        assert history.tests["t.py::gone"].last == "2026-01-01"


@pytest.mark.parametrize("line", ["", "{", "3", "null", '{"nodeid": "x"}', '{"nodeid": 1, "workload": 2, "sample": 3}'])
def test_a_line_that_is_no_sample_is_passed_over(line: str) -> None:
    """Such as one that a crash cut short."""
    assert list(read_history([[line, sample("n", 1, "2026")]]).tests) == ["n"]


def test_an_estimate_says_what_it_rests_on() -> None:
    """The test's own last time, else the median of its other cells, else an assumption."""
    history = History(
        tests={
            "t.py::test[raw]": Past(round_s=2, rounds=3, last="2026-01-01"),
            "t.py::test[qcow2]": Past(round_s=4, rounds=5, last="2026-01-02"),
            "t.py::test_other[x]": Past(round_s=400, rounds=5, last="2026-01-02"),
        }
    )
    assert history.estimate("t.py::test[raw]", 3) == (8, "measured")
    assert history.estimate("t.py::test[raw]", 9) == (20, "measured")
    assert history.estimate("t.py::test[qcow2]", 3) == (24, "measured")
    assert history.estimate("t.py::test[vdi]", 3) == (16, "other cells")
    assert history.estimate("t.py::test_new[raw]", 3) == (4 * ROUND_S, "assumed")
    assert history.last("t.py::test[raw]") == "2026-01-01"
    assert history.last("t.py::test[vdi]") == ""


def test_a_folder_may_have_brackets_in_its_name() -> None:
    """Parameters begin behind the file."""
    assert stem_of("a[b]/t.py::TestX::test[raw-none]") == "a[b]/t.py::TestX::test"
    assert stem_of("a[b]/t.py::test") == "a[b]/t.py::test"

"""Axes as parametrize names, and the order in which cells are run; what of it needs no pytest run."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_vmstorage.config.cell import AXES, StorageConfig
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.plugin.parametrize import (
    Call,
    DeferredParametrize,
    attach_configs,
    group_by_config,
    in_order,
    item_config,
    refusals,
)
from pytest_vmstorage.plugin.stash import CONFIG, REFUSAL


class Item:
    """As much of a pytest item as the axes look at."""

    def __init__(self, name: str, params: dict[str, Any] | None = None, marks: Sequence[pytest.Mark] = ()) -> None:
        self.nodeid = name
        self.fixturenames = ["storage"]
        ours = SimpleNamespace(func=SimpleNamespace(__module__="pytest_vmstorage.plugin.fixtures"))
        self._fixtureinfo = SimpleNamespace(name2fixturedefs={"storage": [ours]})
        self.stash = pytest.Stash()
        self._marks = marks
        if params is not None:
            self.callspec = SimpleNamespace(params=params)

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        """Its marks, the closest first."""
        return [mark for mark in self._marks if mark.name == name]


def item(name: str = "t", config: StorageConfig | None = None, **params: Any) -> Any:
    """An item of that cell, or with these parameters."""
    made = Item(name, params)
    if config is not None:
        made.stash[CONFIG] = config
    return made


def storage(*args: Any, **fields: Any) -> pytest.Mark:
    """@pytest.mark.storage(...)."""
    return pytest.mark.storage(*args, **fields).mark


class Metafunc:
    """Records what is parametrized, as pytest's Metafunc would."""

    def __init__(self) -> None:
        self.fixturenames = ["storage", "format"]
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def parametrize(self, argnames: Any, *args: Any, **kwargs: Any) -> None:
        """Take a call."""
        self.calls.append((argnames, args, kwargs))


@pytest.mark.parametrize(
    ("argnames", "expected"),
    [
        ("cache", ["cache"]),
        ("format, cache", ["format", "cache"]),
        ("format,cache,", ["format", "cache"]),
        (["bus"], ["bus"]),
        (("bus", "x"), ["bus", "x"]),
    ],
)
def test_argument_names_are_read_however_they_are_written(argnames: Any, expected: list[str]) -> None:
    """As pytest itself reads them."""
    assert Call(argnames, [], {}).names == expected


def test_calls_are_replayed_in_the_axes_order() -> None:
    """A moved decorator changes no id; what is no axis comes last and keeps its order."""
    metafunc: Any = Metafunc()
    deferred = DeferredParametrize(metafunc)
    for argnames in ("x", "preallocation", "y", "cache", "format"):
        metafunc.parametrize(argnames, iter([1]), ids=str)
    assert metafunc.calls == []
    deferred.replay()
    assert [argnames for argnames, _, _ in metafunc.calls] == ["format", "cache", "preallocation", "x", "y"]
    assert metafunc.calls[0] == ("format", ([1],), {"ids": str})


def cells(calls: Sequence[Call]) -> list[dict[str, Any]]:
    """What pytest makes of calls: the product of their rows, the last decorator's changing slowest."""
    made = []
    for rows in itertools.product(*(call.rows for call in calls)):
        pairs = [zip(call.names, row.values, strict=True) for call, row in zip(calls, rows, strict=True)]
        made.append({name: value for pair in pairs for name, value in pair})
    return made


def test_axes_that_are_named_together_are_taken_apart() -> None:
    """bus stands between format and preallocation in an id, also where those two are one decorator."""
    calls = [Call("x", [0, 1], {}), Call("format,preallocation", [("raw", "off"), ("qcow2", "full")], {})]
    calls.append(Call("bus", ["ide", pytest.param("sata", marks=pytest.mark.skipif)], {}))
    first, second = in_order(calls)
    assert (first.names, second.names) == (["format", "bus", "preallocation"], ["x"])
    assert len(first.rows) == 4
    assert all([mark.name for mark in row.marks] == ["skipif"] * (row.values[1] == "sata") for row in first.rows)
    key = operator.itemgetter("x", "format", "bus")
    assert sorted(cells([first, second]), key=key) == sorted(cells(calls), key=key)


@pytest.mark.parametrize(
    "call",
    [
        Call("format,preallocation", [("raw", "off")], {"ids": ["mine"]}),
        Call("format,preallocation", [pytest.param("raw", "off", id="mine")], {}),
        Call("format,preallocation", [("raw",)], {}),
        Call("format,preallocation", ["raw"], {}),
        Call("format,bus", [("raw", "ide")], {}),
    ],
    ids=["ids", "id", "too few", "no row", "twice"],
)
def test_what_cannot_be_taken_apart_is_left_to_pytest(call: Call) -> None:
    """Ids that the user chose stay, and what is wrong is told by pytest itself."""
    bus = Call("bus", ["ide"], {})
    assert in_order([bus, call]) == [call, bus]


def test_an_axis_need_not_be_an_argument_of_the_test() -> None:
    """It becomes one, once; another name that the test does not take stays pytest's error."""
    metafunc: Any = Metafunc()
    deferred = DeferredParametrize(metafunc)
    for argnames in ("format", "cache", "colour"):
        metafunc.parametrize(argnames, [1])
    deferred.replay()
    assert metafunc.fixturenames == ["storage", "format", "cache"]


def test_pytests_own_method_is_back_after_the_replay() -> None:
    """Plugins that parametrize later meet pytest, and not us."""
    metafunc: Any = Metafunc()
    DeferredParametrize(metafunc).replay()
    metafunc.parametrize("z", [1])
    assert [call[0] for call in metafunc.calls] == ["z"]


def test_parameters_win_over_marks_and_the_closest_mark_wins() -> None:
    """Function over class over module over default."""
    made: Any = Item(
        "t", {"cache": "unsafe", "other": 3}, [storage(size="2G", cache="none"), storage(size="3G", format="qcow2")]
    )
    assert item_config(made) == StorageConfig(format="qcow2", cache="unsafe", size="2G")


def test_a_test_without_parameters_has_the_default_cell() -> None:
    """An axis that is left out gets its default."""
    plain: Any = Item("t")
    assert item_config(plain) == StorageConfig()


def test_a_mark_takes_keywords_only() -> None:
    """storage("raw") could mean anything."""
    made: Any = Item("t", {}, [storage("raw")])
    with pytest.raises(ConfigError, match=r'keywords only\. Write storage\(size="2G"\)'):
        item_config(made)


def test_each_item_gets_its_cell_or_the_reason_why_not() -> None:
    """One test's slip costs no other its cell; a test without storage gets neither."""
    good, bad, foreign = item("good", format="qcow2"), item("bad", cache="writethru"), item("foreign")
    foreign.fixturenames = ["tmp_path"]
    attach_configs([good, bad, foreign])
    assert good.stash[CONFIG].format == "qcow2"
    assert "writethru" in str(bad.stash[REFUSAL])
    assert CONFIG not in bad.stash
    assert CONFIG not in foreign.stash
    assert REFUSAL not in foreign.stash


def test_one_slip_is_told_once() -> None:
    """However many tests it concerns, with the first of them."""
    items = [item(f"t[{n}]", cache="writethru") for n in range(3)] + [item("u", bus="scsi"), item("good")]
    attach_configs(items)
    first, second = refusals(items)
    assert first.startswith("t[0] and 2 more: cache='writethru' is not known.")
    assert second.startswith("u: bus='scsi' is not known.")


def test_tests_of_one_cell_come_together() -> None:
    """Cells in the order in which they first appear, tests of one cell in theirs."""
    raw, qcow2 = StorageConfig(), StorageConfig(format="qcow2")
    items = [item("a", raw), item("b", qcow2), item("c", raw), item("d", qcow2), item("e", raw)]
    group_by_config(items)
    assert [one.nodeid for one in items] == ["a", "c", "e", "b", "d"]


def test_other_tests_keep_their_place_among_themselves() -> None:
    """A plain test is neither first nor last for our sake."""
    raw = StorageConfig()
    items = [item("p"), item("a", raw), item("q"), item("b", raw), item("r")]
    group_by_config(items)
    assert [one.nodeid for one in items] == ["p", "a", "b", "q", "r"]


def test_every_axis_has_a_rank() -> None:
    """Each axis alone is replayed before what is no axis."""
    for axis in AXES:
        metafunc: Any = Metafunc()
        deferred = DeferredParametrize(metafunc)
        metafunc.parametrize("x", [1])
        metafunc.parametrize(axis, [1])
        deferred.replay()
        assert [call[0] for call in metafunc.calls] == [axis, "x"]

"""Keys of the plugin's things on pytest's objects, and questions about tests; light, as every pytest run loads it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_vmstorage.config.cell import StorageConfig
    from pytest_vmstorage.errors import ConfigError
    from pytest_vmstorage.plugin.cell_assertions import Asserted
    from pytest_vmstorage.plugin.ending import OrderlyEnd
    from pytest_vmstorage.plugin.entry import ItemEntry
    from pytest_vmstorage.plugin.session import StorageSession
    from pytest_vmstorage.plugin.settings import Settings
    from pytest_vmstorage.plugin.turns import Pass
    from pytest_vmstorage.results.run import Measurement
    from pytest_vmstorage.results.spans import SpanRecorder


BEGAN: pytest.StashKey[float] = pytest.StashKey()
"""On the config: when the run began, as time.monotonic()."""

SPANS: pytest.StashKey[SpanRecorder] = pytest.StashKey()
"""On the config: where this process's time goes."""

ENDING: pytest.StashKey[OrderlyEnd] = pytest.StashKey()
"""On the config: what sees to signals."""

SESSION: pytest.StashKey[StorageSession] = pytest.StashKey()
"""On the config: what this process measures with."""

SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()
"""On the config: the run's options; `settings.settings_of` reads them when they are first wanted."""

CONFIG: pytest.StashKey[StorageConfig] = pytest.StashKey()
"""On an item: its cell."""

PASS: pytest.StashKey[Pass] = pytest.StashKey()
"""On an item: which pass it is entered in; none where its rounds are taken in a row."""

ENTRY: pytest.StashKey[ItemEntry] = pytest.StashKey()
"""On an item: the entry that is under way."""

PLACE: pytest.StashKey[int] = pytest.StashKey()
"""On an item: its place among all, before the tests of a cell were brought together."""

BEGUN: pytest.StashKey[int] = pytest.StashKey()
"""On an item: how often pytest set it up in the protocol that is under way; more than once where it is repeated."""

ROUNDS_S: pytest.StashKey[float] = pytest.StashKey()
"""On an item: the seconds that its rounds took outside of its function."""

REFUSAL: pytest.StashKey[ConfigError] = pytest.StashKey()
"""On an item: why it has no cell."""

MEASURED: pytest.StashKey[list[Measurement]] = pytest.StashKey()
"""On an item: what it measured."""

TOLERATED = "tolerated_loss"
"""The mark that says what a test's figures may lose."""

NOTE = "storage_note"
"""The mark whose text stands with a test's rows."""

ASSERTED: pytest.StashKey[list[Asserted]] = pytest.StashKey()
"""On the config: all assertions between cells so far."""

BENCHMARKING: pytest.StashKey[bool] = pytest.StashKey()
"""On the config: whether the user gave an option of pytest-benchmark."""

BENCHMARK_HEADER: pytest.StashKey[list[str]] = pytest.StashKey()
"""On the config: pytest-benchmark's line of the header, kept until a test is known to use it."""

DESELECTED: pytest.StashKey[list[pytest.Item]] = pytest.StashKey()
"""On the config: what options such as `-k` left out."""

HOST = "_vm_host"
"""The parameter of a test that is run on every host: which one it is for."""

FAILED: pytest.StashKey[str] = pytest.StashKey()
"""On an item: why its cell has no figure."""


MAKING: pytest.StashKey[bool] = pytest.StashKey()
"""On an item: whether its guest is being made, or could not be."""

_HOME = "pytest_vmstorage.plugin.fixtures"


THAT_MEASURE = ("measure", "measure_image", "result", "results")
"""The fixtures by which a test measures."""


def is_storage_item(item: pytest.Item) -> bool:
    """Whether the test uses a fixture of ours, or declares a workload.

    Other people's fixtures and parameters bear these names too.
    """
    return _uses_ours(item, "storage", "guest", *THAT_MEASURE) or _declares(item)


def _declares(item: pytest.Item) -> bool:
    """Whether a mark of the test has a workload of ours, perhaps without a fixture that asks for its figures."""
    if "pytest_vmstorage.workloads.base" not in sys.modules:
        # nobody made one: this is asked of each test of everybody who installed the package
        return False
    marks = item.iter_markers("workload") if hasattr(item, "iter_markers") else ()
    given = (one for mark in marks for arg in mark.args for one in (arg.values() if isinstance(arg, dict) else [arg]))
    return any(hasattr(one, "expected_seconds") for one in given)


def is_benchmark(item: pytest.Item) -> bool:
    """Whether the test measures, or asserts something of what others measured: a benchmark to pytest-benchmark."""
    return _uses_ours(item, *THAT_MEASURE) or asserts_between(item)


def asserts_between(item: pytest.Item) -> bool:
    """Whether the test uses our `cells`: it asserts something of other tests' figures, and is run after them."""
    return _uses_ours(item, "cells")


def _uses_ours(item: pytest.Item, *names: str) -> bool:
    info = getattr(item, "_fixtureinfo", None)
    return info is not None and any(
        uses(item, name) and _leads_to_ours(name, info.name2fixturedefs.get(name, ())) for name in names
    )


def _leads_to_ours(name: str, definitions: Sequence[Any]) -> bool:
    # the last definition is the one used; it may ask for the one that it overrides
    for definition in reversed(definitions):
        if definition.func.__module__ == _HOME:
            return True
        if name not in definition.argnames:
            return False
    return False


def uses(item: pytest.Item, fixture: str) -> bool:
    """Whether the test, or a fixture that it asks for, asks for that fixture."""
    return fixture in getattr(item, "fixturenames", ())


def is_declared(item: pytest.Item) -> bool:
    """Whether the test declares by marks what it measures, and asks for the results."""
    return _uses_ours(item, "results")


def measures(item: pytest.Item) -> bool:
    """Whether the test measures in a disk of its cell, by calls of `measure` or as it declares."""
    return uses(item, "measure") or is_declared(item)


def has_turns(item: pytest.Item) -> bool:
    """Whether the test has a cell and will measure in it: its rounds can be taken in turns with other cells."""
    return CONFIG in item.stash and is_storage_item(item) and measures(item) and not is_skipped(item)


def asks_for(item: pytest.Item, fixture: str) -> bool:
    """Whether the test itself or a fixture of the user's asks for that fixture, and not only ours for each other."""
    info = getattr(item, "_fixtureinfo", None)
    if info is None:
        return False
    theirs = (
        one
        for found in info.name2fixturedefs.values()
        for one in found
        # pytest's own make arguments of parametrize and know nothing of ours
        if one.func.__module__ != _HOME and not one.func.__module__.startswith("_pytest.")
    )
    return fixture in info.initialnames or any(fixture in one.argnames for one in theirs)


def is_skipped(item: pytest.Item) -> bool:
    """Whether its mark `skip` keeps the test from running: then it needs no guest, and writes to no device."""
    return item.get_closest_marker("skip") is not None


def cell_of(item: pytest.Item) -> StorageConfig | None:
    """The cell that the test is run in now, its own or that of the other side of a pair; None for a refused one."""
    at = item.stash.get(PASS, None)
    return item.stash.get(CONFIG, None) if at is None else at.cell


def host_of(item: pytest.Item) -> str:
    """The host that the test is for, "" for any."""
    callspec = getattr(item, "callspec", None)
    return callspec.params.get(HOST, "") if callspec is not None else ""


def tolerated_by(item: pytest.Item) -> str:
    """The text of the test's mark `tolerated_loss`, "" without one."""
    mark = item.get_closest_marker(TOLERATED)
    return "" if mark is None else str((*mark.args, mark.kwargs.get("percent", ""))[0])


def notes_on(item: pytest.Item) -> tuple[str, ...]:
    """The texts of the test's marks `storage_note`, those of its module and class first; each once."""
    marks = (mark for node in item.listchain() for mark in node.own_markers if mark.name == NOTE)
    return tuple(dict.fromkeys(str((*mark.args, "")[0]) for mark in marks))

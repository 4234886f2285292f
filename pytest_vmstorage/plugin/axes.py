"""Axis names as plain parametrize names: stable ids, a StorageConfig for each item, one guest after the other."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pytest

from pytest_vmstorage.config import AXES, StorageConfig, make_config
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.plugin.keys import CONFIG, REFUSAL, is_storage_item

_Row = type(pytest.param())


class Call(NamedTuple):
    """A call of `metafunc.parametrize`."""

    argnames: str | Sequence[str]
    argvalues: Sequence[Any]
    options: dict[str, Any]

    @property
    def names(self) -> list[str]:
        """The parameter names, however they were written."""
        if isinstance(self.argnames, str):
            return [name.strip() for name in self.argnames.split(",") if name.strip()]
        return list(self.argnames)

    @property
    def rank(self) -> int:
        """The place of its first axis among the axes; those without an axis come last."""
        return min(map(_rank, self.names))

    @property
    def rows(self) -> list[Any]:
        """Its values as `pytest.param`s."""
        is_bare = isinstance(self.argnames, str) and len(self.names) == 1
        return [
            row if isinstance(row, _Row) else pytest.param(row) if is_bare else pytest.param(*row)
            for row in self.argvalues
        ]


class DeferredParametrize:
    """Stands in for `metafunc.parametrize` while marks are read, then replays the calls in the axes' order.

    pytest builds an id in the order of the calls, which is that of the decorators; a baseline needs an id that
    does not change when decorators are moved.
    """

    def __init__(self, metafunc: pytest.Metafunc) -> None:
        self._metafunc = metafunc
        self._calls: list[Call] = []
        metafunc.parametrize = self  # type: ignore[method-assign]

    def __call__(
        self,
        argnames: str | Sequence[str],
        argvalues: Iterable[Any],
        indirect: bool | Sequence[str] = False,
        ids: Any = None,
        scope: Any = None,
        **private: Any,
    ) -> None:
        """Note a call."""
        given = {"indirect": indirect, "ids": ids, "scope": scope}
        options = {name: value for name, value in given.items() if value not in (False, None)}
        self._calls.append(Call(argnames, list(argvalues), {**options, **private}))

    def replay(self) -> None:
        """Make the calls that were asked for, axes first."""
        metafunc = self._metafunc
        del metafunc.parametrize
        for call in in_order(self._calls):
            for name in call.names:
                # an axis need not be an argument of the test function
                if name in AXES and name not in metafunc.fixturenames:
                    metafunc.fixturenames.append(name)
            metafunc.parametrize(call.argnames, call.argvalues, **call.options)


def in_order(calls: Sequence[Call]) -> list[Call]:
    """The calls so that ids follow the axes' order; what is no axis keeps its order, behind them."""
    ranked = sorted(calls, key=lambda call: call.rank)
    sweeps = [call for call in ranked if call.rank < len(AXES)]
    names = [name for call in sweeps for name in call.names]
    if names == sorted(names, key=_rank) or not _can_merge(sweeps):
        return ranked
    return [_merged(sweeps), *ranked[len(sweeps) :]]


def _can_merge(calls: Sequence[Call]) -> bool:
    """Whether one call can say the same: nobody chose ids or a scope, and nothing is wrong that pytest tells better."""
    names = [name for call in calls for name in call.names]
    return len(set(names)) == len(names) and all(
        call.options.keys() <= {"_param_mark"}
        and all(isinstance(row, _Row | list | tuple) or len(call.names) == 1 for row in call.argvalues)
        and all(row.id is None and len(row.values) == len(call.names) for row in call.rows)
        for call in calls
    )


def _merged(calls: Sequence[Call]) -> Call:
    """One call for several: `"cache,format"` names two axes at once, between which another may belong."""
    order = sorted((name for call in calls for name in call.names), key=_rank)
    rows = []
    for combination in itertools.product(*(call.rows for call in calls)):
        pairs = zip(calls, combination, strict=True)
        values = {name: value for call, row in pairs for name, value in zip(call.names, row.values, strict=True)}
        marks = [mark for row in combination for mark in row.marks]
        rows.append(pytest.param(*(values[name] for name in order), marks=marks))
    return Call(order, rows, {})


def _rank(name: str) -> int:
    return AXES.index(name) if name in AXES else len(AXES)


def attach_configs(items: Sequence[pytest.Item]) -> None:
    """Give every item that uses `storage` its cell, or the reason why there is none."""
    for item in items:
        if is_storage_item(item):
            try:
                item.stash[CONFIG] = item_config(item)
            except ConfigError as error:
                item.stash[REFUSAL] = error


def item_config(item: pytest.Item) -> StorageConfig:
    """The cell of a test: its parameters, then its marks (the closest wins), then defaults. Raises ConfigError."""
    values: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers("storage"))):
        if mark.args:
            raise ConfigError("@pytest.mark.storage takes keywords only.", hint='Write storage(size="2G").')
        values.update(mark.kwargs)
    callspec = getattr(item, "callspec", None)
    if callspec is not None:
        values.update({name: callspec.params[name] for name in AXES if name in callspec.params})
    return make_config(values)


def refusals(items: Sequence[pytest.Item]) -> list[str]:
    """A sentence for each distinct refusal among the selected items, with how many tests it concerns."""
    found: dict[str, list[str]] = {}
    for item in items:
        error = item.stash.get(REFUSAL, None)
        if error is not None:
            found.setdefault(str(error), []).append(item.nodeid)
    return [
        f"{nodeids[0]}{f' and {len(nodeids) - 1} more' if len(nodeids) > 1 else ''}: {text}"
        for text, nodeids in found.items()
    ]


def group_by_config(items: list[pytest.Item]) -> None:
    """Bring the tests of one cell together, in the order in which cells first appear; others stay where they are."""
    first: dict[StorageConfig, int] = {}
    keys = {}
    for index, item in enumerate(items):
        config = item.stash.get(CONFIG, None)
        keys[item] = index if config is None else first.setdefault(config, index)
    items.sort(key=keys.__getitem__)

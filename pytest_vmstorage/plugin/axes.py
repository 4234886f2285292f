"""Axis names as plain parametrize names: stable ids, a StorageConfig for each item, one guest after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pytest_vmstorage.config import AXES, StorageConfig, make_config
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.plugin.keys import CONFIG, REFUSAL, is_storage_item


class DeferredParametrize:
    """Stands in for `metafunc.parametrize` while marks are read, then replays the calls in the axes' order.

    pytest builds an id in the order of the calls, which is that of the decorators; a baseline needs an id that
    does not change when decorators are moved.
    """

    def __init__(self, metafunc: pytest.Metafunc) -> None:
        self._metafunc = metafunc
        self._calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        metafunc.parametrize = self  # type: ignore[method-assign]

    def __call__(self, argnames: str | Sequence[str], *args: Any, **kwargs: Any) -> None:
        self._calls.append((argnames, args, kwargs))

    def replay(self) -> None:
        """Make the calls that were asked for, axes first."""
        metafunc = self._metafunc
        del metafunc.parametrize
        # sorted() is stable: what is no axis keeps its order
        for argnames, args, kwargs in sorted(self._calls, key=lambda call: _rank(call[0])):
            for name in names(argnames):
                # an axis need not be an argument of the test function
                if name in AXES and name not in metafunc.fixturenames:
                    metafunc.fixturenames.append(name)
            metafunc.parametrize(argnames, *args, **kwargs)


def names(argnames: str | Sequence[str]) -> list[str]:
    """The parameter names of a parametrize call, however they were written."""
    if isinstance(argnames, str):
        return [name.strip() for name in argnames.split(",") if name.strip()]
    return list(argnames)


def _rank(argnames: str | Sequence[str]) -> int:
    return min((AXES.index(name) for name in names(argnames) if name in AXES), default=len(AXES))


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

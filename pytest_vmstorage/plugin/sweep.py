"""The matrix file at work: each storage test that sweeps no axis itself is run in every cell of the file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from pytest_vmstorage.config import AXES, FIELDS
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.matrix import Expansion, Matrix, value_of
from pytest_vmstorage.plugin import options
from pytest_vmstorage.plugin.axes import HIDDEN, Call, marked


class MatrixSweep:
    """A matrix file, and the tests that are run in its cells.

    What a test's `@pytest.mark.storage` fixes is not swept for it: the file is expanded anew with that value, so
    that rules and pairs are those of what is left.
    """

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix
        self._expansions: dict[str, Expansion] = {}
        self._tests: dict[str, Expansion] = {}
        self._refused: dict[str, ConfigError] = {}

    def call(self, metafunc: pytest.Metafunc, names: Collection[str]) -> Call | None:
        """How that test is parametrized, whose own parameters are `names`; None where it is left as it is."""
        definition = metafunc.definition
        fixtures = definition._fixtureinfo.name2fixturedefs  # noqa: SLF001 (no public way to a test's fixtures)
        # a fixture with parameters is among the names too: pytest parametrizes it by a call
        if any(name in names for name in AXES):
            return None
        try:
            fixed = _fixed(definition)
            expansion = self._expand(fixed)
        except ConfigError as error:
            self._refused[_stem(definition)] = error
            return None
        self._tests[_stem(definition)] = expansion
        swept = [name for name in self.matrix.axes if name not in fixed]
        if not swept or not expansion.cells:
            return None
        arguments = [HIDDEN + name if name in fixtures else name for name in swept]
        return Call(arguments, [pytest.param(*cell.values.values(), id=str(cell)) for cell in expansion.cells], {})

    def _expand(self, fixed: Mapping[str, Any]) -> Expansion:
        key = repr(sorted(fixed.items()))
        if key not in self._expansions:
            try:
                self._expansions[key] = self.matrix.expand(fixed)
            except ConfigError as error:
                given = ", ".join(f"{name}={value!r}" for name, value in fixed.items())
                raise ConfigError(f"with storage({given}), {error.what}", hint=error.hint) from None
        return self._expansions[key]

    def storage(self, item: pytest.Item) -> Mapping[str, Any]:
        """The file's fixed values for a test of the file's cells, nothing for others; raises ConfigError."""
        if _stem(item) in self._refused:
            raise self._refused[_stem(item)]
        return self.matrix.storage if _stem(item) in self._tests else {}

    def takes(self, item: pytest.Item) -> bool:
        """Whether the test is run in the file's cells."""
        return _stem(item) in self._tests

    def expansions(self, items: Collection[pytest.Item]) -> list[Expansion]:
        """What the file comes to for these tests, each once."""
        found = [self._tests[_stem(item)] for item in items if self.takes(item)]
        return list({id(one): one for one in found}.values())

    def deselect_cellless(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out the tests for which nothing of the file is left."""
        gone = [item for item in items if self.takes(item) and not self._tests[_stem(item)].cells]
        if gone:
            items[:] = [item for item in items if item not in gone]
            config.hook.pytest_deselected(items=gone)
            config.stash.setdefault(CELLLESS, []).extend(gone)


CELLLESS: pytest.StashKey[list[pytest.Item]] = pytest.StashKey()
"""On the config: tests for which the matrix file has no cell."""

_SWEEP: pytest.StashKey[MatrixSweep | None] = pytest.StashKey()


def matrix_sweep(config: pytest.Config) -> MatrixSweep | None:
    """The matrix file of this run, read once, or None; raises ConfigError."""
    if _SWEEP not in config.stash:
        matrix = options.matrix(config)
        config.stash[_SWEEP] = None if matrix is None else MatrixSweep(matrix)
    return config.stash[_SWEEP]


def _fixed(definition: pytest.Item) -> dict[str, Any]:
    """What a test's marks fix, checked value by value: a slip must not pass for an impossible cell."""
    fixed = marked(definition)
    for name, value in fixed.items():
        if name not in FIELDS:
            raise ConfigError(f"a storage configuration has no field {name!r}.", hint=f"It has: {', '.join(FIELDS)}.")
        value_of(name, value)
    return fixed


def _stem(item: pytest.Item) -> str:
    """A test without its parameters."""
    parent = item.parent.nodeid if item.parent is not None else ""
    return f"{parent}::{getattr(item, 'originalname', None) or item.name}"

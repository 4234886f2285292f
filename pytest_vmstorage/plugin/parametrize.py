"""Axis names as plain parametrize names, and the matrix file: stable ids, a StorageConfig for each item."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from pytest_vmstorage.config.cell import AXES, StorageConfig, axis_text, check_field, make_config
from pytest_vmstorage.config.matrix import Expansion, Matrix, value_of
from pytest_vmstorage.config.near_miss import SIZE, near_miss, refusal
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.plugin.settings import settings_of
from pytest_vmstorage.plugin.stash import CONFIG, HOST, REFUSAL, is_storage_item, uses
from pytest_vmstorage.workloads.base import Workload
from pytest_vmstorage.workloads.image_operations import check_cell

_Row = type(pytest.param())

HIDDEN = "_vm_"
"""Stands before an axis's name where a test uses a fixture of that name, such as pytest's own `cache`."""


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
        return min(map(_rank, self.names), default=len(AXES))

    @property
    def rows(self) -> list[Any]:
        """Its values as `pytest.param`s."""
        is_bare = isinstance(self.argnames, str) and len(self.names) == 1
        return [
            row if isinstance(row, _Row) else pytest.param(row) if is_bare else pytest.param(*row)
            for row in self.argvalues
        ]

    def values(self, name: str) -> list[Any]:
        """The values of one of its parameters; those of a row with too few or too many are left out."""
        place = self.names.index(name)
        # a row may be no sequence at all, which pytest tells better
        rows = [getattr(row, "values", row if len(self.names) > 1 else (row,)) for row in self.argvalues]
        return [row[place] for row in rows if isinstance(row, tuple | list) and len(row) == len(self.names)]

    def is_of_fixture(self, name: str) -> bool:
        """Whether a fixture reads that parameter's values."""
        indirect = self.options.get("indirect", False)
        return indirect is True or (indirect is not False and name in indirect)


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

    @property
    def names(self) -> set[str]:
        """All that is parametrized."""
        return {name for call in self._calls for name in call.names}

    def near_misses(self, own: Collection[str]) -> dict[str, ConfigError]:
        """By its name the refusal of each parameter that is nearly an axis; those in `own` are the test's own.

        So are those named as an option of a workload, such as `convert_to`: the test hands them on.
        """
        found = {}
        for call in self._calls:
            for name in call.names:
                axis = near_miss(
                    name,
                    call.values(name),
                    swept=self.names,
                    is_argument=name in self._metafunc.fixturenames,
                    of_fixture=call.is_of_fixture(name),
                )
                if axis and name not in own and name not in _options(Workload):  # type: ignore[type-abstract]
                    found[name] = refusal(name, call.values(name), axis)
        return found

    def refuse(self, own: Collection[str]) -> None:
        """Note the first near-miss for `attach_configs`; one that the test does not take is left out of the replay."""
        found = self.near_misses(own)
        for error in list(found.values())[:1]:
            self._metafunc.config.stash.setdefault(NEAR_MISSES, {})[_stem(self._metafunc.definition)] = error
        unknown = found.keys() - {*self._metafunc.fixturenames}
        self._calls = [call for call in self._calls if unknown.isdisjoint(call.names)]

    def replay(self, sweep: Call | None = None, hosts: Sequence[str] = ()) -> None:
        """Make the calls that were asked for: hosts before all, then that of the matrix file, then axes."""
        metafunc = self._metafunc
        del metafunc.parametrize
        ours = [Call([HOST], [pytest.param(host, id=host) for host in hosts], {})] if hosts else []
        ours += [sweep] if sweep else []
        for call in [*ours, *in_order([self._of_disk(call) for call in self._calls])]:
            for name in call.names:
                # an axis need not be an argument of the test function
                if (name in (*AXES, HIDDEN + SIZE) or call in ours) and name not in metafunc.fixturenames:
                    metafunc.fixturenames.append(name)
            metafunc.parametrize(call.argnames, call.argvalues, **{**_speaking_ids(call), **call.options})

    def _of_disk(self, call: Call) -> Call:
        """The call with the disk's size by its hidden name, where `size` is no argument of the test's own."""
        if SIZE not in call.names or SIZE in self._metafunc.fixturenames:
            return call
        names = [HIDDEN + SIZE if name == SIZE else name for name in call.names]
        return call._replace(argnames=names[0] if isinstance(call.argnames, str) and len(names) == 1 else names)


def _speaking_ids(call: Call) -> dict[str, Any]:
    """Ids for an axis of numbers or of yes and no: "queues=4" where pytest would write "4"."""
    name = call.names[0].removeprefix(HIDDEN) if len(call.names) == 1 else ""
    if name not in AXES and call.names != [HIDDEN + SIZE]:
        return {}

    def text(value: object) -> str:
        # a value that cannot be is told later, with its reason
        with contextlib.suppress(ConfigError):
            return axis_text(name, value)
        return str(value)

    return {"ids": text}


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


def _options(kind: type[Workload]) -> set[str]:
    """The options of that workload and of all below it, a user's own too, in modules that were imported by now."""
    return {*kind.model_fields, *(name for one in kind.__subclasses__() for name in _options(one))}


NEAR_MISSES: pytest.StashKey[dict[str, ConfigError]] = pytest.StashKey()
"""On the config: by the test without its parameters the refusal of one that is nearly an axis."""


def attach_configs(
    items: Sequence[pytest.Item],
    sweep: MatrixSweep | None = None,
    near_misses: Mapping[str, ConfigError] = MappingProxyType({}),
) -> None:
    """Give every item that uses `storage` its cell, or the reason why there is none."""
    for item in items:
        if is_storage_item(item):
            try:
                if near_misses and _stem(item) in near_misses:
                    raise near_misses[_stem(item)]
                config = item_config(item, sweep.storage(item) if sweep else {})
                if uses(item, "measure_image"):
                    check_cell(config)
                item.stash[CONFIG] = config
            except ConfigError as error:
                item.stash[REFUSAL] = error


def item_config(item: pytest.Item, base: Mapping[str, Any] | None = None) -> StorageConfig:
    """The cell of a test: its parameters, then its marks (the closest wins), then `base`, then defaults.

    Raises ConfigError.
    """
    values = {**(base or {}), **marked(item)}
    callspec = getattr(item, "callspec", None)
    if callspec is not None:
        swept = {name.removeprefix(HIDDEN): value for name, value in callspec.params.items()}
        values.update({name: swept[name] for name in AXES if name in swept})
        if HIDDEN + SIZE in callspec.params:
            values[SIZE] = callspec.params[HIDDEN + SIZE]
    return make_config(values)


def marked(node: pytest.Item) -> dict[str, Any]:
    """The values that the marks of a test fix, the closest wins; raises ConfigError."""
    values: dict[str, Any] = {}
    for mark in reversed(list(node.iter_markers("storage"))):
        if mark.args:
            raise ConfigError(
                "@pytest.mark.storage takes keywords only.", hint='Write storage(size="2G").', code="VM110"
            )
        values.update(mark.kwargs)
    return values


def refusals(items: Sequence[pytest.Item]) -> list[str]:
    """A sentence for each distinct refusal among the selected items, with how many tests it concerns."""
    found: dict[str, list[str]] = {}
    for item in items:
        if REFUSAL in item.stash:
            found.setdefault(str(item.stash[REFUSAL]), []).append(item.nodeid)
    more = {text: f" and {len(nodeids) - 1} more" if len(nodeids) > 1 else "" for text, nodeids in found.items()}
    return [f"{nodeids[0]}{more[text]}: {text}" for text, nodeids in found.items()]


def group_by_config(items: list[pytest.Item]) -> None:
    """Bring the tests of one cell together, in the order in which cells first appear; others stay where they are.

    Native rows come first: the other rows on their device are held against them.
    """
    first: dict[StorageConfig, int] = {}
    keys = {}
    for index, item in enumerate(items):
        config = item.stash.get(CONFIG, None)
        place = index if config is None else first.setdefault(config, index)
        keys[item] = (config is None or not config.is_native, place)
    items.sort(key=keys.__getitem__)


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
        """The call that parametrizes that test, whose own parameters are `names`; None where it stays as it is."""
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
                raise ConfigError(f"with storage({given}), {error.what}", hint=error.hint, code=error.code) from None
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
        """The file's expansions for these tests, each once."""
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
        matrix = settings_of(config).matrix
        config.stash[_SWEEP] = None if matrix is None else MatrixSweep(matrix)
    return config.stash[_SWEEP]


def _fixed(definition: pytest.Item) -> dict[str, Any]:
    """The values that a test's marks fix, checked one by one: a slip must not pass for an impossible cell."""
    fixed = marked(definition)
    for name, value in fixed.items():
        check_field(name)
        value_of(name, value)
    return fixed


def _stem(item: pytest.Item) -> str:
    """A test without its parameters."""
    parent = item.parent.nodeid if item.parent is not None else ""
    return f"{parent}::{getattr(item, 'originalname', None) or item.name}"

"""The matrix file: axes, fixed values and rules in TOML, expanded into ordered cells and left-out ones with reasons."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from pytest_vmstorage.config.cell import AXES, FIELDS, StorageConfig, axis_text, make_config
from pytest_vmstorage.config.selection import reduce_pairwise
from pytest_vmstorage.config.toml import SlipError, TomlTable, check_known, load_toml
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.text import quoted

MOST_CELLS = 200_000
"""A larger product is a slip: all its cells are gone through, even where few are kept."""

_SHOWN = 3
"""Cells that a sentence names before it counts the rest."""


class MatrixRule(BaseModel):
    """An exclude or only rule: a cell matches it when each field named has one of the values."""

    model_config = ConfigDict(frozen=True)

    values: Mapping[str, tuple[Any, ...]]
    reason: str = ""

    def matches(self, fields: Mapping[str, Any]) -> bool:
        """Whether a cell with these fields matches."""
        return all(fields[name] in values for name, values in self.values.items())


class MatrixCell(BaseModel):
    """A cell of the file: the swept values as written, in the axes' order, and the configuration that they make."""

    model_config = ConfigDict(frozen=True)

    values: Mapping[str, Any]
    config: StorageConfig

    def __str__(self) -> str:
        return cell_text(self.values)


class ExcludedCell(NamedTuple):
    """The id of a combination that is not a cell, and the reason."""

    cell: str
    reason: str


class Expansion(BaseModel):
    """An expanded matrix: cells in order, combinations that are left out, and rules that match nothing (`idle`)."""

    model_config = ConfigDict(frozen=True)

    cells: tuple[MatrixCell, ...]
    left_out: tuple[ExcludedCell, ...] = ()
    idle: tuple[str, ...] = ()


class Matrix(BaseModel):
    """A matrix file; `source` names it in messages.

    `axes` have the order of AXES, their values that of the file; `storage` holds for every cell. With
    `leaves_out_impossible` a cell that cannot exist is left out, otherwise it is an error.
    """

    model_config = ConfigDict(frozen=True)

    source: str
    axes: Mapping[str, tuple[Any, ...]]
    storage: Mapping[str, Any] = {}
    exclude: tuple[MatrixRule, ...] = ()
    only: tuple[MatrixRule, ...] = ()
    pairwise: bool = False
    seed: int = 0
    leaves_out_impossible: bool = False

    def expand(self, fixed: Mapping[str, Any] | None = None) -> Expansion:
        """The cells, with the values of `fixed` in place of the file's; an axis among them is not swept.

        Raises ConfigError for an impossible cell that no rule leaves out, for too many cells, and for none at all
        unless `fixed` is given.
        """
        is_whole = not fixed
        fixed = {**self.storage, **(fixed or {})}
        axes = {name: values for name, values in self.axes.items() if name not in fixed}
        self._check_size(axes)
        cells: list[MatrixCell] = []
        left_out: list[ExcludedCell] = []
        impossible: list[ExcludedCell] = []
        met: set[str] = set()
        for combination in itertools.product(*axes.values()):
            values = dict(zip(axes, combination, strict=True))
            config, refusal = _attempt({**fixed, **values})
            reason = self._reason(_fields({**fixed, **values}, config), met)
            if reason:
                left_out.append(ExcludedCell(cell_text(values), reason))
            elif config is None:
                impossible.append(ExcludedCell(cell_text(values), refusal))
            else:
                cells.append(MatrixCell(values=values, config=config))
        self._check_possible(impossible)
        left_out += impossible
        kept = reduce_pairwise([cell.values for cell in cells], self.seed) if self.pairwise else range(len(cells))
        left_out += [ExcludedCell(str(cell), _REDUCED) for n, cell in enumerate(cells) if n not in kept]
        if not kept and is_whole:
            raise ConfigError(
                f"{self.source} leaves out every cell; the first, {left_out[0].cell}, because of {left_out[0].reason}.",
                hint="Take a rule away or add a value.",
                code="VM233",
            )
        names = [f"{kind} rule {n + 1}" for kind in ("exclude", "only") for n in range(len(getattr(self, kind)))]
        idle = tuple(name for name in names if name not in met)
        return Expansion(cells=tuple(cells[n] for n in kept), left_out=tuple(left_out), idle=idle)

    def _reason(self, fields: Mapping[str, Any], met: set[str]) -> str:
        """Why the rules leave a cell out, or ""; notes the rules that match in `met`."""
        hits = [number for number, rule in enumerate(self.exclude, 1) if rule.matches(fields)]
        wanted = [number for number, rule in enumerate(self.only, 1) if rule.matches(fields)]
        met.update(f"exclude rule {number}" for number in hits)
        met.update(f"only rule {number}" for number in wanted)
        if hits:
            reason = self.exclude[hits[0] - 1].reason
            return f"exclude rule {hits[0]}{f' ({reason})' if reason else ''}"
        if self.only and not wanted:
            reasons = "; ".join(rule.reason for rule in self.only if rule.reason)
            return f"no only rule matches{f' ({reasons})' if reasons else ''}"
        return ""

    def _check_size(self, axes: Mapping[str, tuple[Any, ...]]) -> None:
        count = math.prod(len(values) for values in axes.values())
        if count > MOST_CELLS:
            raise ConfigError(
                f"{self.source} has {count} combinations; {MOST_CELLS} are the most.",
                hint="Split it into files with fewer axes or values.",
                code="VM231",
            )

    def _check_possible(self, impossible: list[ExcludedCell]) -> None:
        if impossible and not self.leaves_out_impossible:
            groups = [f"{listed(cells, _SHOWN)} {reason}" for reason, cells in by_reason(impossible).items()]
            cells = "an impossible cell" if len(impossible) == 1 else f"{len(impossible)} impossible cells"
            raise ConfigError(
                f"{self.source} has {cells}: {'; '.join(groups)}.",
                hint='Add an [[exclude]] for it, or impossible = "leave-out" at the top of the file.',
                code="VM232",
            )


_CANNOT = " cannot exist: "
_REDUCED = "pairwise: its pairs of values occur in cells that are kept"


def by_reason(left_out: Iterable[ExcludedCell]) -> dict[str, list[str]]:
    """The cells by the reason that leaves them out, in order."""
    found: dict[str, list[str]] = {}
    for one in left_out:
        found.setdefault(one.reason, []).append(one.cell)
    return found


def listed(names: Sequence[str], most: int) -> str:
    """The first of these names, and the number of the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def cell_text(values: Mapping[str, Any]) -> str:
    """The id of a combination: its values as a StorageConfig writes them, joined by "-"."""
    return "-".join(axis_text(name, value) for name, value in values.items())


def _attempt(values: Mapping[str, Any]) -> tuple[StorageConfig | None, str]:
    try:
        return make_config(values), ""
    except ConfigError as error:
        # without the cell's own name many cells share a sentence
        return None, f"cannot exist: {(error.what.partition(_CANNOT)[2] or error.what).rstrip('.')}"


def _fields(values: Mapping[str, Any], config: StorageConfig | None) -> Mapping[str, Any]:
    """All fields of a cell, also of one that cannot exist."""
    if config is not None:
        return dict(config)
    defaults = {name: field.default for name, field in StorageConfig.model_fields.items()}
    return {**defaults, **{name: value_of(name, value) for name, value in values.items() if name in FIELDS}}


_ADAPTERS: dict[str, TypeAdapter[Any]] = {}


def value_of(name: str, value: Any) -> Any:
    """A field's value as a StorageConfig holds it ("2G" -> 2147483648), whether or not any cell can have it.

    Raises ConfigError for a value that the field cannot have.
    """
    if name not in _ADAPTERS:
        field = StorageConfig.model_fields[name]
        # an adapter checks the one field, without the rules between fields
        kind: Any = Annotated[(field.annotation, *field.metadata, None)]
        _ADAPTERS[name] = TypeAdapter(kind)
    try:
        return _ADAPTERS[name].validate_python(value)
    except ValidationError as error:
        wanted = error.errors()[0]["msg"].removeprefix("Input ")
        raise ConfigError(f"{name}={value!r} is not known.", hint=f"It {wanted}.", code="VM102") from None


def _plain(name: str, value: Any) -> Any:
    try:
        return value_of(name, value)
    except ConfigError as error:
        raise SlipError(error.what.rstrip("."), error.hint, of_table=True, code=error.code) from None


def _axes(table: Mapping[str, Any]) -> dict[str, Any]:
    if not table:
        raise SlipError("there is no axis", 'Write for example format = ["raw", "qcow2"].', of_table=True)
    for name, values in table.items():
        if name in FIELDS and name not in AXES:
            hint = f"Give it one value in [storage]: {name} = ..."
            raise SlipError(f"{name} is not an axis", hint, of_table=True)
        check_known([name], AXES)
        if not isinstance(values, list) or not values:
            hint = f"Write {name} = [...], or use [storage]."
            raise SlipError(f"{name} = {quoted(values)} is not a list of values", hint, of_table=True)
        plain = [_plain(name, value) for value in values]
        for n, value in enumerate(values):
            if plain[n] in plain[:n]:
                raise SlipError(f"{name} has {value!r} twice", "Take one of them away.", of_table=True)
    return {name: tuple(table[name]) for name in AXES if name in table}


def _storage(table: Mapping[str, Any]) -> Mapping[str, Any]:
    check_known(table, FIELDS)
    for name, value in table.items():
        _plain(name, value)
    return table


def _rule(table: object) -> object:
    if not isinstance(table, dict):
        return table
    check_known(table, (*FIELDS, "reason"))
    values = {
        name: tuple(_plain(name, one) for one in (value if isinstance(value, list) else [value]))
        for name, value in table.items()
        if name != "reason"
    }
    if not values or not all(values.values()):
        raise SlipError(
            "no value is named, so that the rule says nothing", 'Write for example format = "raw".', of_table=True
        )
    return {"values": values, "reason": table.get("reason", "")}


_Rules = tuple[Annotated[MatrixRule, BeforeValidator(_rule)], ...]


class _Reduce(TomlTable):
    pairwise: StrictBool = False
    seed: StrictInt = 0


class _MatrixFile(TomlTable):
    axes: Annotated[Mapping[str, Any], AfterValidator(_axes)] = Field({}, validate_default=True)
    storage: Annotated[Mapping[str, Any], AfterValidator(_storage)] = {}
    exclude: _Rules = ()
    only: _Rules = ()
    reduce: _Reduce = _Reduce()
    impossible: Literal["refuse", "leave-out"] = "refuse"

    @model_validator(mode="after")
    def _names_each_field_once(self) -> Self:
        for name in self.storage:
            if name in self.axes:
                raise SlipError(f"{name} is in [axes] and in [storage]", "Leave it in one of them.", of_table=True)
        return self


def load_matrix(text: str, source: str) -> Matrix:
    """The matrix of a file, expanded once as a check; raises ConfigError, one sentence with file and key."""
    file = load_toml(_MatrixFile, text, source, code="VM230")
    matrix = Matrix(
        source=source,
        axes=file.axes,
        storage=file.storage,
        exclude=file.exclude,
        only=file.only,
        leaves_out_impossible=file.impossible == "leave-out",
        **dict(file.reduce),
    )
    matrix.expand()
    return matrix

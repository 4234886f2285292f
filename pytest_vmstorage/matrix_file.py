"""Reading a matrix file: TOML text -> Matrix, and a sentence with file, key and remedy for each slip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_vmstorage.config import AXES, FIELDS
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.matrix import Matrix, Rule, value_of
from pytest_vmstorage.user_input import parse_toml

_TABLES = ("axes", "storage", "exclude", "only", "reduce", "impossible")


def load_matrix(text: str, source: str) -> Matrix:
    """The matrix that a file says, checked key by key and expanded once, so that what it asks for can be.

    Raises ConfigError, one sentence that names the file and the key.
    """
    document = parse_toml(text, source)
    _known(document, _TABLES, source)
    axes = _axes(_table(document, "axes", source), f"{source}, [axes]")
    matrix = Matrix(
        source=source,
        axes=axes,
        storage=_storage(_table(document, "storage", source), axes, f"{source}, [storage]"),
        exclude=_rules(document, "exclude", source),
        only=_rules(document, "only", source),
        leaves_out_impossible=_leaves_out(document, source),
        **_reduce(_table(document, "reduce", source), f"{source}, [reduce]"),
    )
    matrix.expand()
    return matrix


def _axes(table: Mapping[str, Any], where: str) -> dict[str, tuple[Any, ...]]:
    if not table:
        raise ConfigError(f"{where}: there is no axis.", hint='Write for example format = ["raw", "qcow2"].')
    for name, values in table.items():
        if name in FIELDS and name not in AXES:
            raise ConfigError(f"{where}: {name} is no axis.", hint=f"Give it one value in [storage]: {name} = ...")
        _known([name], AXES, where)
        if not isinstance(values, list) or not values:
            raise ConfigError(
                f"{where}: {name} = {values!r} is not a list of values.",
                hint=f"Write {name} = [...], or use [storage].",
            )
        seen: list[Any] = []
        for value in values:
            if (one := _plain(name, value, where)) in seen:
                raise ConfigError(f"{where}: {name} has {value!r} twice.", hint="Take one of them away.")
            seen.append(one)
    return {name: tuple(table[name]) for name in AXES if name in table}


def _storage(table: Mapping[str, Any], axes: Mapping[str, Any], where: str) -> dict[str, Any]:
    _known(table, FIELDS, where)
    for name, value in table.items():
        if name in axes:
            raise ConfigError(f"{where}: {name} is an axis too.", hint="Leave it in one of [axes] and [storage].")
        _plain(name, value, where)
    return dict(table)


def _rules(document: Mapping[str, Any], kind: str, source: str) -> tuple[Rule, ...]:
    tables = document.get(kind, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{source}: {kind} is not a list of tables.", hint=f"Write [[{kind}]] above each rule.")
    return tuple(_rule(table, f"{source}, [[{kind}]] rule {number}") for number, table in enumerate(tables, 1))


def _rule(table: Mapping[str, Any], where: str) -> Rule:
    _known(table, (*FIELDS, "reason"), where)
    reason = table.get("reason", "")
    if not isinstance(reason, str):
        raise ConfigError(f"{where}: reason = {reason!r} is not a text.", hint="Put it in quotes.")
    values = {
        name: tuple(_plain(name, one, where) for one in (value if isinstance(value, list) else [value]))
        for name, value in table.items()
        if name != "reason"
    }
    if not values or not all(values.values()):
        raise ConfigError(f"{where} names no value, so it says nothing.", hint='Write for example format = "raw".')
    return Rule(values=values, reason=reason)


def _reduce(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    _known(table, ("pairwise", "seed"), where)
    pairwise, seed = table.get("pairwise", False), table.get("seed", 0)
    if not isinstance(pairwise, bool):
        raise ConfigError(f"{where}: pairwise = {pairwise!r} is neither true nor false.", hint="Write pairwise = true.")
    if type(seed) is not int:
        raise ConfigError(f"{where}: seed = {seed!r} is not a whole number.", hint="Write for example seed = 1.")
    return {"pairwise": pairwise, "seed": seed}


def _leaves_out(document: Mapping[str, Any], source: str) -> bool:
    word = document.get("impossible", "refuse")
    if word not in ("refuse", "leave-out"):
        raise ConfigError(f"{source}: impossible = {word!r} is not known.", hint='It is "refuse" or "leave-out".')
    return bool(word == "leave-out")


def _table(document: Mapping[str, Any], name: str, source: str) -> Mapping[str, Any]:
    table = document.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: {name} = {table!r} is not a table.", hint=f"Write [{name}] on a line of its own.")
    return table


def _known(names: Iterable[str], known: Iterable[str], where: str) -> None:
    for name in names:
        if name not in known:
            raise ConfigError(f"{where}: {name!r} is not known.", hint=f"Known here: {', '.join(known)}.")


def _plain(name: str, value: Any, where: str) -> Any:
    try:
        return value_of(name, value)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.what}", hint=error.hint) from None

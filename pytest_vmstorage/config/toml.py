"""Keys of a TOML table, checked one by one: a sentence with file, key and remedy for each slip; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_vmstorage.errors import ConfigError


def tables_of(document: Mapping[str, Any], name: str, where: str, head: str = "") -> Mapping[str, Mapping[str, Any]]:
    """The tables below that key by their names, none where it is missing; raises ConfigError for what is no table."""
    tables = document.get(name, {})
    if not isinstance(tables, dict):
        raise ConfigError(f"{where}: {name} = {tables!r} is not a table.", hint=f"Write [{head}{name}.NAME] above it.")
    for one, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(
                f"{where}: {name}.{one} = {table!r} is not a table.", hint=f"Write [{head}{name}.{one}] above its keys."
            )
    return tables


def text_of(table: Mapping[str, Any], key: str, where: str) -> str | None:
    """The text of that key, None where it is missing; raises ConfigError for anything else, and for an empty one."""
    value = table.get(key)
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ConfigError(f"{where}: {key} = {value!r} is not a text.", hint=f'Write {key} = "...".')
    return value


def known_keys(names: Iterable[str], known: Iterable[str], where: str) -> None:
    """Raise ConfigError for the first of the names that is not known."""
    for name in names:
        if name not in known:
            raise ConfigError(f"{where}: {name!r} is not known.", hint=f"Known here: {', '.join(known)}.")


def flag_of(table: Mapping[str, Any], key: str, where: str, hint: str) -> bool:
    """Whether that key is true, false where it is missing; raises ConfigError for anything else."""
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise ConfigError(f"{where}: {key} = {value!r} is neither true nor false.", hint=hint)
    return value

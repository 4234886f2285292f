"""Which cells are meant: `cell("qcow2", "none", bus="virtio-blk")` names values of axes; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import FIELDS, StorageConfig, axis_text
from pytest_vmstorage.config.matrix import value_of
from pytest_vmstorage.config.rules.backing import BACKINGS
from pytest_vmstorage.config.user_input import close_to
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.units import format_size, parse_size

BARE = ("format", "cache", "bus", "preallocation", "state", "io", "backing")
"""Axes whose values stand in a test id without their name, so that "none" alone is a cache mode to everybody."""

NOTHING = "-"
"""What a cell has of a field that it lacks: a native one of what is a guest's, a null one of what is an image's."""


class CellSelector(BaseModel):
    """The cells that have all these values of fields; `str()` is how a sentence names them."""

    model_config = ConfigDict(frozen=True)

    values: Mapping[str, Any]

    def matches(self, config: StorageConfig) -> bool:
        """Whether that cell is meant; one that lacks a field has no value of it."""
        return all(not config.lacks(name) and value in _values_of(config, name) for name, value in self.values.items())

    def __str__(self) -> str:
        return " ".join(f"{name}={value_text(name, value)}" for name, value in self.values.items())


def cell(*values: str, **fields: Any) -> CellSelector:
    """The cells with these values: `cell("qcow2")`, `cell("qcow2", "none", bus="virtio-blk")`, `cell(queues=4)`.

    A value alone must be one of exactly one axis; of several, the one whose values stand bare in a test id is meant:
    "none" is a cache mode, and "off" a preallocation. Sizes are written as everywhere ("64k"), and `backing="lvm"` is
    every volume group of vmstorage.toml. Raises ConfigError, one sentence, for no value of any axis, or of several.
    """
    chosen: dict[str, Any] = {}
    for value in values:
        name = _axis_of(value)
        if name in chosen:
            raise ConfigError(
                f"cell({chosen[name]!r}, {value!r}) names {name} twice.", hint="A cell has one value of each axis."
            )
        chosen[name] = value
    for name, value in fields.items():
        if name in chosen:
            raise ConfigError(
                f"cell({chosen[name]!r}, {name}={value!r}) names {name} twice.",
                hint="A cell has one value of each axis.",
            )
        chosen[name] = _checked(name, value)
    if not chosen:
        raise ConfigError("cell() names no value, and so every cell.", hint='Write for example cell("raw").')
    return CellSelector(values={name: chosen[name] for name in FIELDS if name in chosen})


def value_text(name: str, value: object) -> str:
    """A field's value in a sentence: "qcow2", "yes", "64k"."""
    return format_size(parse_size(value)) if name == "size" else axis_text(name, value).removeprefix(f"{name}=")


def field_texts(config: StorageConfig) -> Mapping[str, str]:
    """All fields of a cell with their values as texts, "-" for what it lacks."""
    return {name: NOTHING if config.lacks(name) else value_text(name, getattr(config, name)) for name in FIELDS}


def _values_of(config: StorageConfig, name: str) -> tuple[object, ...]:
    # which volume group it is need not be named
    value = getattr(config, name)
    return (value, config.backing_kind) if name == "backing" else (value,)


def _axis_of(value: str) -> str:
    """The axis that a value alone is meant of."""
    there = [name for name in FIELDS if value in _declared(name) or (name == "backing" and _is_backing(value))]
    meant = [name for name in there if name in BARE] or there
    if len(meant) > 1:
        choice = " or ".join(f"cell({name}={value!r})" for name in meant)
        raise ConfigError(f"cell({value!r}) is a value of {', '.join(meant)}.", hint=f"Write {choice}.")
    if not meant:
        raise ConfigError(f"cell({value!r}): no axis has such a value by name.", hint=_hint(value))
    return meant[0]


def _hint(value: object) -> str:
    known = [text for name in FIELDS for text in _declared(name)] + list(BACKINGS)
    return close_to(str(value), known).rstrip() or 'Write which axis it is of, such as cell(cluster_size="64k").'


def _declared(name: str) -> tuple[str, ...]:
    """The values of a field that are words."""
    field = StorageConfig.model_fields[name]
    words = tuple(value for value in get_args(field.annotation) if isinstance(value, str))
    return (*words, "default") if field.default is None else words


def _is_backing(value: object) -> bool:
    return str(value).partition(":")[0] in BACKINGS


def _checked(name: str, value: Any) -> Any:
    if name not in FIELDS:
        raise ConfigError(
            f"cell({name}={value!r}): a cell has no field {name!r}.", hint=f"It has: {', '.join(FIELDS)}."
        )
    if name == "backing" and not _is_backing(value):
        raise ConfigError(f"backing={value!r} is not known.", hint=f"backing is one of: {', '.join(BACKINGS)}.")
    return value_of(name, value)

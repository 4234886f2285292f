"""Selectors of cells by values of axes: `cell("qcow2", "none", bus="virtio-blk")`; pure."""

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
"""The text of a field that a cell lacks: a guest's field of a native cell, an image's field of a null cell."""


class CellSelector(BaseModel):
    """The cells that have all these values; `str()` names them in a sentence."""

    model_config = ConfigDict(frozen=True)

    values: Mapping[str, Any]

    def matches(self, config: StorageConfig) -> bool:
        """Whether that cell is meant; a cell has no value of a field that it lacks."""
        return all(
            not config.lacks(name)
            # "lvm" means every volume group
            and (value == getattr(config, name) or (name == "backing" and value == config.backing_kind))
            for name, value in self.values.items()
        )

    def __str__(self) -> str:
        return " ".join(f"{name}={value_text(name, value)}" for name, value in self.values.items())


def cell(*values: str, **fields: Any) -> CellSelector:
    """The cells with these values: `cell("qcow2")`, `cell("qcow2", "none", bus="virtio-blk")`, `cell(queues=4)`.

    A value alone must belong to exactly one axis; of several, the axis whose values stand bare in a test id is meant:
    "none" is a cache mode, and "off" a preallocation. Sizes are written as everywhere ("64k"), and `backing="lvm"` is
    every volume group of vmstorage.toml. Raises ConfigError, one sentence, for a value of no axis or of several.
    """
    chosen: dict[str, Any] = {}
    texts = [(_axis_of(value), value, repr(value)) for value in values]
    texts += [(name, value, f"{name}={value!r}") for name, value in fields.items()]
    for name, value, text in texts:
        if name in chosen:
            hint = "A cell has one value of each axis."
            raise ConfigError(f"cell({chosen[name]!r}, {text}) names {name} twice.", hint=hint, code="VM114")
        chosen[name] = _checked(name, value) if name in fields else value
    if not chosen:
        raise ConfigError(
            "cell() names no value, and so every cell.", hint='Write for example cell("raw").', code="VM114"
        )
    return CellSelector(values={name: chosen[name] for name in FIELDS if name in chosen})


def value_text(name: str, value: object) -> str:
    """A field's value in a sentence: "qcow2", "yes", "64k"."""
    return format_size(parse_size(value)) if name == "size" else axis_text(name, value).removeprefix(f"{name}=")


def _axis_of(value: str) -> str:
    """The axis that a value without a name belongs to."""
    there = [name for name in FIELDS if value in _declared(name) or (name == "backing" and _is_backing(value))]
    meant = [name for name in there if name in BARE] or there
    if len(meant) > 1:
        choice = " or ".join(f"cell({name}={value!r})" for name in meant)
        raise ConfigError(f"cell({value!r}) is a value of {', '.join(meant)}.", hint=f"Write {choice}.", code="VM114")
    if not meant:
        known = [text for name in FIELDS for text in _declared(name)] + list(BACKINGS)
        hint = close_to(str(value), known).rstrip() or 'Write which axis it is of, such as cell(cluster_size="64k").'
        raise ConfigError(f"cell({value!r}): no axis has such a value by name.", hint=hint, code="VM114")
    return meant[0]


def _declared(name: str) -> tuple[str, ...]:
    """The words among the values of a field."""
    field = StorageConfig.model_fields[name]
    words = tuple(value for value in get_args(field.annotation) if isinstance(value, str))
    return (*words, "default") if field.default is None else words


def _is_backing(value: object) -> bool:
    return str(value).partition(":")[0] in BACKINGS


def _checked(name: str, value: Any) -> Any:
    if name not in FIELDS:
        hint = f"It has: {', '.join(FIELDS)}."
        raise ConfigError(f"cell({name}={value!r}): a cell has no field {name!r}.", hint=hint, code="VM101")
    if name == "backing" and not _is_backing(value):
        raise ConfigError(
            f"backing={value!r} is not known.", hint=f"backing is one of: {', '.join(BACKINGS)}.", code="VM105"
        )
    return value_of(name, value)

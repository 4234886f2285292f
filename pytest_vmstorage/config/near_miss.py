"""Parameters of a test that are nearly an axis, by a misspelt name or by values of an axis under another name; pure."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Collection, Sequence
from typing import Final

from pytest_vmstorage.config.cell import ALLOWED, AXES, BYTE_FIELDS, StorageConfig
from pytest_vmstorage.config.matrix import value_of
from pytest_vmstorage.config.rules.backing import BACKINGS
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.text import quoted

ALIKE: Final = 0.75
"""The least likeness of a misspelt name to its axis, as difflib counts it: "prealloc" has 0.76, "status" 0.73."""

ALIKE_IN_TEXT: Final = 0.9
"""The same for an axis that takes any text, whose values say nothing: "hostmkfs" has 0.94, "guest_mode" 0.76."""

COMMON_WORDS: Final = frozenset({
    *("none", "off", "on", "auto", "default", "full", "metadata", "fresh", "ignore", "machine"),
    *("raw", "file", "partition", "device", "native", "null", "threads", "io_uring", "pc", "zlib", "zstd"),
})  # fmt: skip
"""Values of axes that much else has too, such as a fio engine or a mode of a user's own: alone they show no axis."""

SIZE: Final = "size"
"""Swept like an axis where the test function does not list it: where it does, it is a parameter of the test's own."""

_SHOWN = 3


def near_miss(
    name: str,
    values: Sequence[object],
    *,
    swept: Collection[str] = (),
    is_argument: bool = True,
    of_fixture: bool = False,
) -> str:
    """The axis that a parameter of that name with these values was meant to be, "" for a parameter of the test's own.

    A name is a misspelt axis where it is spelt nearly like one and one of its values can be a value of it. A parameter
    with another name is meant to be an axis where all its values are words of that axis, and not all of them common
    words; several that have all these words are joined by "or". An axis in `swept` is swept already: nobody meant it.
    `is_argument`: the test function takes the parameter, as it takes a `size` of its own, which is no disk's. What is
    `of_fixture` is for a fixture to read: only a misspelt name shows it, and that not with a number.
    """
    if name in (*AXES, SIZE) or name.startswith("_"):
        return ""
    free = [axis for axis in (*AXES, SIZE) if axis not in swept and not (is_argument and axis == SIZE)]
    for axis in alike(name):
        if axis in free and (_words(axis) or not of_fixture) and any(_can_be(axis, value) for value in values):
            return axis
    return "" if of_fixture else " or ".join(axis for axis in free if _shows(axis, values))


@functools.cache
def alike(name: str) -> tuple[str, ...]:
    """The axes, and `size`, that are spelt nearly like that name, the nearest first."""
    found = []
    for axis in (*AXES, SIZE):
        likeness = difflib.SequenceMatcher(None, name.lower(), axis).ratio()
        if likeness >= (ALIKE_IN_TEXT if _takes_any_text(axis) else ALIKE):
            found.append((-likeness, axis))
    return tuple(axis for _, axis in sorted(found))


def refusal(name: str, values: Sequence[object], axis: str) -> ConfigError:
    """The sentence for a near-miss of that axis, or of one of several that `near_miss` joined."""
    given = ", ".join(map(quoted, values[:_SHOWN])) + (", ..." if len(values) > _SHOWN else "")
    return ConfigError(
        f"the parameter {name} ({given}) is no axis, so it changes nothing of the disk.",
        hint=f"Did you mean {axis}? Rename it, or, where it is a parameter of the test's own, name it in the ini file:"
        f" vm_not_axes = {name}.",
        code="VM109",
    )


def _takes_any_text(axis: str) -> bool:
    return axis in ("subformat", "host_mkfs", "host_mount", "guest_mkfs", "guest_mount", "emulator")


def _words(axis: str) -> tuple[str, ...]:
    return BACKINGS if axis == "backing" else ALLOWED.get(axis, ())


def _can_be(axis: str, value: object) -> bool:
    """Whether the axis has such a value; a plain number is no size, since a test may well count in other units."""
    if words := _words(axis):
        return isinstance(value, str) and value.partition(":")[0] in words
    is_truth = StorageConfig.model_fields[axis].annotation is bool
    if not isinstance(value, str | int) or isinstance(value, bool) != is_truth or value == "default":
        return False
    if isinstance(value, int) and axis in BYTE_FIELDS:
        return False
    try:
        value_of(axis, value)
    except ConfigError:
        return False
    return True


def _shows(axis: str, values: Sequence[object]) -> bool:
    """Whether all the values are words of the axis, and one of them hardly of anything else."""
    words = _words(axis)
    return (
        bool(values)
        and all(isinstance(value, str) and value in words for value in values)
        and not COMMON_WORDS.issuperset(values)
    )

"""axes.md: each axis with its values, what it is in QEMU and libvirt, what refuses it, and how it is proven."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from typing import Any

from pytest_vmstorage.config.buses import BUSES, CACHES
from pytest_vmstorage.config.cell import ALLOWED, BYTE_FIELDS, FIELDS, StorageConfig
from pytest_vmstorage.config.rules import RULES
from pytest_vmstorage.config.rules.backing import BACKINGS
from pytest_vmstorage.config.rules.image import SUBFORMATS
from pytest_vmstorage.config.rules.rule import Rule
from pytest_vmstorage.units import format_size
from reference_pages.markdown import code, codes, escaped, fill, read_sections, sentence, table

FORMS = {
    "bool": "`True` or `False`",
    "Count": "a number, 1 or more",
    "MaybeCount": 'a number, 1 or more, or "default"',
    "MaybeSize": 'bytes, or a size such as "64k", or "default"',
    "Bytes": 'bytes, or a size such as "2G"',
    "Depth": "a number from 0 to 64",
}
"""The values of fields by the names of their types in config/cell.py."""

TEXTS = {
    "subformat": "; ".join(f"of {name}: {codes(values)}" for name, values in SUBFORMATS.items()),
    "backing": codes(BACKINGS),
    "host_mkfs": "the options of mkfs that shape a file system, and reach no other file or device",
    "guest_mkfs": "the options of mkfs that shape a file system, and reach no other file or device",
    "host_mount": "the options of mount, with commas, that reach no other file or device",
    "guest_mount": "the options of mount, with commas, that reach no other file or device",
    "emulator": 'a path such as "/opt/qemu-9.2/bin/qemu-system-x86_64"',
}
"""The values of fields that are texts without a list of words."""

DEFAULTS = {
    "subformat": "the format's first",
    "total_iops_sec": "no limit",
    "total_bytes_sec": "no limit",
    "emulator": "the host's own",
}
"""What None means, where it is not QEMU's own choice."""

PROBES: Mapping[str, tuple[Any, ...]] = {
    "subformat": ("fixed", "streamOptimized", "monolithicFlat"),
    "queues": (2, 1023, 1025),
    "queue_size": (256, 3),
    "total_iops_sec": (200, 1, 10**16),
    "total_bytes_sec": (50 * 2**20, 1024, 10**16),
    "cluster_size": (2**16, 1000, 512, 2**12, 2**21),
    "l2_cache_size": (2**20, 1024),
    "metadata_cache_size": (2**20, 1024),
    "backing_chain": (2, 64),
    "snapshots": (2, 64),
    "backing": (*BACKINGS, "machine:esx", "file:fast", "null:fast"),
    "host_mkfs": ("-m 0",),
    "host_mount": ("noatime",),
    "guest_mkfs": ("-m 0",),
    "guest_mount": ("noatime",),
    "vcpus": (2, 256, 300),
    "memory": (2**30,),
    "emulator": ("/opt/qemu",),
    "size": (2**20, 2**28, 2**42),
}
"""Values of fields without a list of words, by which it is seen which rules look at a field."""

_WITHOUT = ("native", "machine", "null")
_OF_ALL = ("native-has-no-guest", "machine-is-as-it-is", "null-has-no-storage")
"""Rules that are about most axes, for the kinds of backing above: the page tells them once."""

_FEW = 20


def axes_page() -> str:
    """The page of axes, with the rules behind them."""
    told = read_sections("axis_texts.md", buses=_buses(), caches=_caches())
    return fill(
        "axes.md",
        table=table(
            ("axis", "values", "default"),
            ((f"[`{name}`](#{name})", values_of(name), default_of(name)) for name in FIELDS),
        ),
        axes="\n\n".join(_section(name, told[name]) for name in FIELDS),
        rules="\n\n".join(map(_rule, RULES)),
    )


def _buses() -> str:
    rows = (f"    | `{name}` | {bus.qemu} | {bus.driver} |" for name, bus in BUSES.items())
    return "\n".join(rows)


def _caches() -> str:
    said = {True: "on", False: "off"}
    rows = ((name, said[mode.direct], said[mode.no_flush], said[mode.write_cache]) for name, mode in CACHES.items())
    return "\n".join(f"    | `{name}` | {' | '.join(flags)} |" for name, *flags in rows)


def _section(name: str, told: str) -> str:
    rules = [rule.name for rule in rules_of(name) if name == "backing" or rule.name not in _OF_ALL]
    lacking = [kind for kind in _WITHOUT if StorageConfig.model_construct(backing=kind).lacks(name)]
    lines = [
        f"- **Values:** {values_of(name)}; default: {default_of(name)}",
        told,
        *([f"- **Lacking with:** {codes(lacking)}"] if lacking else []),
        *([f"- **Refused by:** {', '.join(f'[{one}](#rule-{one})' for one in rules)}"] if rules else []),
    ]
    description = escaped(StorageConfig.model_fields[name].description or "")
    return f"### {name}\n\n{description}\n\n" + "\n".join(lines)


def _rule(rule: Rule) -> str:
    return (
        f"### Rule {rule.name}\n\n{escaped(sentence(rule.reason))}\n\n"
        f"- **Source:** {escaped(rule.source)}\n- **Axes:** {codes(fields_of(rule))}\n"
        f"- **Code:** [{rule.code}](errors.md#{rule.code.lower()})"
    )


def values_of(name: str) -> str:
    """The values of a field, in words."""
    if name in ALLOWED:
        return codes(ALLOWED[name])
    return TEXTS.get(name) or FORMS[StorageConfig.__annotations__[name]]


def default_of(name: str) -> str:
    """The default of a field, as a user would write it."""
    value = StorageConfig.model_fields[name].default
    if value is None:
        return DEFAULTS.get(name, "QEMU's own")
    if value == "":
        return "none"
    return code(format_size(value) if name in BYTE_FIELDS else value)


def rules_of(name: str) -> list[Rule]:
    """The rules in which a field has a part."""
    return [rule for rule in RULES if name in fields_of(rule)]


@functools.cache
def fields_of(rule: Rule) -> tuple[str, ...]:
    """The fields that have a part in a rule: a cell breaks it, and the same with another value there does not.

    Raises LookupError where no combination of two values breaks it, so that PROBES lack one.
    """
    broken = [cell for cell in _cells() if rule.breaks(cell)]
    if not broken:
        raise LookupError(f"no cell breaks the rule {rule.name}: PROBES lacks a value")
    found = {name for cell in broken for name in _chosen(cell) if _mends(rule, cell, name, _values(name)[:1])}
    # fields that matter by their defaults, such as a raw image's format, matter in most cells
    few = broken[:: max(1, len(broken) // _FEW)]
    found |= {name for name in FIELDS if any(_mends(rule, cell, name, _values(name)) for cell in few)}
    return tuple(name for name in FIELDS if name in found)


def _chosen(cell: StorageConfig) -> list[str]:
    return [name for name, value in cell.__dict__.items() if value != _values(name)[0]]


def _mends(rule: Rule, cell: StorageConfig, name: str, values: tuple[Any, ...]) -> bool:
    return any(not rule.breaks(_cell({**cell.__dict__, name: value})) for value in values)


@functools.cache
def _values(name: str) -> tuple[Any, ...]:
    """Values of a field, the default first."""
    default = StorageConfig.model_fields[name].default
    if StorageConfig.__annotations__[name] == "bool":
        return (default, not default)
    return (default, *(one for one in ALLOWED.get(name, PROBES.get(name, ())) if one != default))


@functools.cache
def _cells() -> tuple[StorageConfig, ...]:
    """Cells with one value that is not the default and with two, raw and vmdk."""
    changes = [{name: value} for name in FIELDS for value in _values(name)[1:]]
    pairs = (one | other for one, other in itertools.combinations(changes, 2) if one.keys() != other.keys())
    both = [*changes, *pairs]
    # vmdk has rules for its subformats, which no two values of a raw image break
    vmdks = ({"format": "vmdk", **change} for change in both)
    return tuple(map(_cell, (*both, *vmdks)))


def _cell(values: Mapping[str, Any]) -> StorageConfig:
    """A cell whether it can exist or not."""
    # model_construct, ten times as slow, would be called a hundred thousand times
    cell = StorageConfig.__new__(StorageConfig)
    cell.__dict__.update({**_DEFAULTS, **values})
    return cell


_DEFAULTS = {name: field.default for name, field in StorageConfig.model_fields.items()}

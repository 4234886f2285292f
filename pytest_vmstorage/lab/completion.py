"""Completion in a shell: the values that an option can have on this machine and in this folder.

Nothing is raised: where a file cannot be read it names nothing. `cli.completion` adds what is the command's alone.
"""

from __future__ import annotations

import argparse
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pytest_vmstorage.config.cell import AXES, StorageConfig
from pytest_vmstorage.config.inventory import ALL, LOCAL, Inventory, find_inventory
from pytest_vmstorage.config.inventory_file import read_inventory
from pytest_vmstorage.config.settings import STEPS, AccelRequest, Boot
from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.results.saved import load_baseline, name_of, saved_files
from pytest_vmstorage.workloads.metrics import known_names

Complete = Callable[[str], list[str]]
"""A function from the beginning of a word to the words that it may become."""

SAVED = ".benchmarks"
_GOVERNORS = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors")


def completes() -> Mapping[str, Complete]:
    """A function for each option whose values can be listed, by its name without `--vm-`; those of files are absent."""
    return {
        "host": listing(hosts),
        "accel": one_of(get_args(AccelRequest)),
        "image": listing(images),
        "image-reach": one_of(("agent", "ssh")),
        "spread": one_of(("shard", "each")),
        "rounds": one_of(("auto",)),
        "boot": one_of(get_args(Boot)),
        "without": listing(lambda: STEPS),
        "governor": one_of(_governors()),
        "turbo": one_of(("on", "off")),
        "host-scheduler": one_of(("none", "mq-deadline", "bfq", "kyber")),
        "save": one_of(saved_names()),
        "baseline": one_of(saved_names()),
        "max-regression": one_of(("history",)),
        "against": axis_value,
        "inconclusive": one_of(("suspect", "fail", "warn")),
        "missing": one_of(("fail", "warn")),
        "columns": listing(lambda: [sign + name for name in sorted(known_names()) for sign in ("", "+")]),
        "units": one_of(("iec", "si")),
    }


def completing() -> Callable[[str, str], str | type[argparse.Action]]:
    """A function that gives for an option, by its name and its usual action, an action that argcomplete can ask."""
    known = completes()
    return lambda name, usual: _asked(known[name], usual) if name in known else usual


def _asked(complete: Complete, usual: str) -> type[argparse.Action]:
    class Asked(argparse.Action):
        """Stores or appends a value, as the usual action does."""

        @staticmethod
        def completer(prefix: str, **_: object) -> list[str]:
            """The words that argcomplete shows."""
            return complete(prefix)

        def __call__(
            self, _: object, namespace: argparse.Namespace, values: str | Sequence[Any] | None, *__: object
        ) -> None:
            before = getattr(namespace, self.dest) or []
            setattr(namespace, self.dest, [*before, values] if usual == "append" else values)

    return Asked


def one_of(words: Iterable[str]) -> Complete:
    """Completes a single value."""
    there = list(words)
    return lambda begun: [word for word in there if word.startswith(begun)]


def listing(words: Callable[[], Iterable[str]]) -> Complete:
    """Completes the last one of values with commas between them; each is named once."""

    def complete(begun: str) -> list[str]:
        before, comma, last = begun.rpartition(",")
        taken = before.split(",")
        return [f"{before}{comma}{word}" for word in words() if word.startswith(last) and word not in taken]

    return complete


def axis_value(begun: str) -> list[str]:
    """Completes AXIS=VALUE,...: the axis, then its values where they can be listed."""
    axis, is_named, values = begun.partition("=")
    if not is_named:
        return [f"{name}=" for name in AXES if name.startswith(axis)]
    if axis not in AXES:
        return []
    there = _values(StorageConfig.model_fields[axis].annotation)
    return [f"{axis}={value}" for value in listing(lambda: there)(values)]


def _values(kind: Any) -> list[str]:
    """The literals of a type, in order."""
    if get_origin(kind) is Literal:
        return [str(one) for one in get_args(kind)]
    if get_origin(kind) in (Union, types.UnionType):
        return [value for part in get_args(kind) for value in _values(part)]
    return ["on", "off"] if kind is bool else []


def hosts() -> list[str]:
    """The names of hosts in vmstorage.toml, their tags, all of them, and this machine."""
    inventory = _inventory()
    if inventory is None:
        return [LOCAL]
    tags = dict.fromkeys(tag for host in inventory.hosts.values() for tag in host.tags)
    return list(dict.fromkeys([LOCAL, *inventory.hosts, *(f"tag:{tag}" for tag in tags), ALL]))


def images() -> list[str]:
    """The names of images in vmstorage.toml."""
    inventory = _inventory()
    return [] if inventory is None else list(inventory.images)


def cells() -> list[str]:
    """The ids of the cells in the run of this folder that was saved last."""
    newest = max(saved_files(Path(SAVED)), key=lambda path: path.stat().st_mtime, default=None)
    if newest is None:
        return []
    try:
        run = load_baseline(str(newest), Path(SAVED)).run
    except VmStorageError:
        return []
    return list(dict.fromkeys([*(str(m.config) for m in run.measurements), *(str(f.config) for f in run.failures)]))


def saved_names() -> list[str]:
    """The names under which runs of this folder were saved."""
    return sorted({name_of(path) for path in saved_files(Path(SAVED))})


def _inventory() -> Inventory | None:
    path = find_inventory(Path.cwd()).path
    if path is None:
        return None
    try:
        return read_inventory(path, str(path))
    except VmStorageError:
        return None


def _governors() -> list[str]:
    try:
        return _GOVERNORS.read_text().split()
    except OSError:
        return []

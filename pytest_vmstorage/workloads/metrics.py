"""The metrics that workloads have, to refuse a name that none of them has before anything is made."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_vmstorage import names
from pytest_vmstorage.config.user_input import close_to
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.workloads.base import Columns, Workload, find_metrics
from pytest_vmstorage.workloads.fio.fio import Fio
from pytest_vmstorage.workloads.fio.output import Reading
from pytest_vmstorage.workloads.iozone import TESTS, Iozone

_OURS = "pytest_vmstorage."
_PERCENTILE = re.compile(r"_p\d+$")
_SIZES = re.compile(rf"(?:{'|'.join(name for columns in TESTS.values() for name in columns)})_\d+[kMGT]?_\d+[kMGT]?")
_PERCENTILES = ("50", "95", "99", "99.9")
_FIO = Reading(directions=("write",), percentiles=_PERCENTILES, syncs=True, steadystate=True)
_MIXED = Reading(directions=("read", "write"), percentiles=_PERCENTILES)
_NEEDED = {"hdparm": {"t": True, "T": True}}
"""Options, by tool, without which a workload does not have all its metrics."""


def known_names() -> set[str]:
    """The names of all metrics of shipped workloads, as far as they do not depend on options."""
    return {name for found in _shipped().values() for name in found} | {*_names_of(_FIO), *_names_of(_MIXED)}


def check_known(columns: Columns) -> None:
    """Raise ConfigError, with the known names, for a name that no workload can have.

    Every name is accepted where the metrics of a user's own workload depend on its options.
    """
    # for mypy the metrics of a class are a property
    own: dict[str, Any] = {kind.__name__: kind.metrics for kind in _own(Workload)}  # type: ignore[type-abstract]
    if any(not isinstance(metrics, tuple) for metrics in own.values()):
        return
    listed = {kind: [metric.name for metric in metrics] for kind, metrics in own.items()}
    listed |= {"fio": _names_of(_FIO)} | _shipped()
    known = {name for found in listed.values() for name in found} | set(_names_of(_MIXED))
    for name in columns.all_names:
        if not (_SIZES.fullmatch(name) or find_metrics(name, known) or _ends_like(name, known)):
            tools = "; ".join(f"{tool}: {', '.join(_shortened(found))}" for tool, found in listed.items())
            raise ConfigError(
                f"--vm-columns names {name!r}, which no workload has.",
                hint=f"{close_to(name, sorted(known))}Metrics by workload: {tools}; for a mixed fio job read_iops,"
                " write_iops and so on.",
                code="VM235",
            )


def _ends_like(name: str, known: set[str]) -> bool:
    """Whether it may be a percentile that a job asks for, or belong to a job in a file, whose name it begins with."""
    usual = _PERCENTILE.sub("_p99", name)
    return bool(find_metrics(usual, known)) or any(usual.endswith(f"_{one}") for one in known)


def _shortened(metrics: Sequence[str]) -> Iterator[str]:
    """The names without those that each operation on images has in addition to its time."""
    parts = ("_taken", "_before", "_after")
    short = [name for name in metrics if not name.endswith(parts)]
    yield from short
    if len(short) < len(metrics):
        yield f"each with {', '.join(parts)}"


@functools.cache
def _shipped() -> dict[str, list[str]]:
    """By tool the metrics of our workloads, without fio's (`_FIO`) and iozone's, which depend on sizes (`_SIZES`)."""
    kinds = [getattr(names, name) for name, home in names.HOMES.items() if home.startswith("workloads.")]
    shown = [kind for kind in kinds if issubclass(kind, Workload) and not issubclass(kind, Fio | Iozone)]
    return {kind.tool: _names_of(kind(**_NEEDED.get(kind.tool, {}))) for kind in shown if kind is not Workload}


def _names_of(kind: Workload | Reading) -> list[str]:
    return [metric.name for metric in kind.metrics]


def _own(kind: type[Workload]) -> Iterator[type[Workload]]:
    """Classes of workloads that the user wrote, in modules that were imported by now."""
    for one in kind.__subclasses__():
        if not one.__module__.startswith(_OURS):
            yield one
        yield from _own(one)

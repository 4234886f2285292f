"""The metrics that workloads have, to refuse a name that none of them has before anything is made."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

from pytest_vmstorage.config.user_input import close_to
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.workloads.base import Columns, Workload, matching
from pytest_vmstorage.workloads.dd import Dd
from pytest_vmstorage.workloads.fio.output import Reading
from pytest_vmstorage.workloads.hdparm import Hdparm
from pytest_vmstorage.workloads.image_operations import ImageOperations
from pytest_vmstorage.workloads.ioping import Ioping
from pytest_vmstorage.workloads.iozone import TESTS
from pytest_vmstorage.workloads.postmark import Postmark
from pytest_vmstorage.workloads.sqlite import Sqlite
from pytest_vmstorage.workloads.tar import Tar
from pytest_vmstorage.workloads.web import Web

_OURS = "pytest_vmstorage."
_PERCENTILE = re.compile(r"_p\d+$")
_SIZES = re.compile(rf"(?:{'|'.join(name for names in TESTS.values() for name in names)})_\d+[kMGT]?_\d+[kMGT]?")


def check_known(columns: Columns) -> None:
    """Raise ConfigError for a name that no workload can have, with those there are.

    A workload of the user's own whose metrics depend on its options may have any.
    """
    own = list(_own(Workload))  # type: ignore[type-abstract]  # none is made of it
    names = {name for kind in (*own, *_shipped()) for name in _names_of(kind)}
    if any(not isinstance(kind.metrics, tuple) for kind in own):
        return
    for name in columns.all_names:
        if not (_SIZES.fullmatch(name) or matching(name, names) or _ends_like(name, names)):
            hint = f"{close_to(name, sorted(names))}{_listed(own)}"
            raise ConfigError(f"--vm-columns names {name!r}, which no workload has.", hint=hint)


def _ends_like(name: str, names: set[str]) -> bool:
    """Whether it may be one of a percentile that a job asks for, or of a job in a file, which begins with its name."""
    usual = _PERCENTILE.sub("_p99", name)
    return bool(matching(usual, names)) or any(usual.endswith(f"_{one}") for one in names)


def _listed(own: Sequence[type[Workload]]) -> str:
    told = {kind.__name__: _names_of(kind) for kind in own}
    told |= {"fio": [metric.name for metric in _FIO.metrics]}
    told |= {kind.tool: _names_of(kind) for kind in _shipped() if not isinstance(kind, Reading)}
    said = "; ".join(f"{tool}: {', '.join(_shortened(names))}" for tool, names in told.items())
    return f"There are, of {said}; of a mixed fio job read_iops, write_iops and so on."


def _shortened(names: Sequence[str]) -> Iterator[str]:
    """Without what each operation on images has beside its time."""
    parts = ("_taken", "_before", "_after")
    short = [name for name in names if not name.endswith(parts)]
    yield from short
    if len(short) < len(names):
        yield f"each with {', '.join(parts)}"


_FIO = Reading(directions=("write",), percentiles=("50", "95", "99", "99.9"), syncs=True, steadystate=True)
_MIXED = Reading(directions=("read", "write"), percentiles=("50", "95", "99", "99.9"))


@functools.cache
def _shipped() -> tuple[Workload | Reading, ...]:
    return (
        *(_FIO, _MIXED, Dd(), Hdparm(t=True, T=True), Ioping(), Tar(), Postmark(), Sqlite(), Web()),
        ImageOperations(),
    )


def _names_of(kind: type[Workload] | Workload | Reading) -> list[str]:
    metrics = kind.metrics
    return [metric.name for metric in metrics] if isinstance(metrics, tuple) else []


def _own(kind: type[Workload]) -> Iterator[type[Workload]]:
    """Classes of workloads that the user wrote, in modules that were imported by now."""
    for one in kind.__subclasses__():
        if not one.__module__.startswith(_OURS):
            yield one
        yield from _own(one)

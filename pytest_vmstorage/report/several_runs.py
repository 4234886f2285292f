"""Several saved runs as one, so that one report shows them: each host has the name of its run before its own; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from pytest_vmstorage.results.run import Failure, Measurement, Run


class NamedRun(NamedTuple):
    """A run and what a reader calls it."""

    name: str
    run: Run


_Row = TypeVar("_Row", Measurement, Failure)


def join_runs(named: Sequence[NamedRun]) -> Run:
    """One run of them all; a single one as it is.

    Hosts of two runs are two hosts, "main: lab01", and so no figure of one is compared with one of the other: between
    two days there is more than the rounds of either show. Runs of one name are told apart by when they began.
    """
    if len(named) == 1:
        return named[0].run
    runs = list(_told_apart(named))
    return Run(
        started=", ".join(f"{one.run.started} ({one.name})" for one in runs),
        hosts=tuple(host.model_copy(update={"name": _of(one, host.name)}) for one in runs for host in one.run.hosts),
        measurements=tuple(row for one in runs for row in _moved(one, one.run.measurements)),
        failures=tuple(row for one in runs for row in _moved(one, one.run.failures)),
        against=tuple(row for one in runs for row in _moved(one, one.run.against)),
        recipe="; ".join(dict.fromkeys(one.run.recipe for one in runs if one.run.recipe)),
        timelines=tuple(
            line.model_copy(update={"process": _of(one, line.process)}) for one in runs for line in one.run.timelines
        ),
        rowless=tuple(
            test.model_copy(update={"nodeid": _of(one, test.nodeid)}) for one in runs for test in one.run.rowless
        ),
    )


def _told_apart(named: Sequence[NamedRun]) -> Iterator[NamedRun]:
    counts, seen = Counter(one.name for one in named), Counter[str]()
    for name, run in named:
        dated = name if counts[name] == 1 else f"{name} of {run.started}"
        seen[dated] += 1
        yield NamedRun(dated if seen[dated] == 1 else f"{dated} #{seen[dated]}", run)


def _of(one: NamedRun, name: str) -> str:
    return f"{one.name}: {name}"


def _moved(one: NamedRun, rows: Sequence[_Row]) -> Iterator[_Row]:
    return (row.model_copy(update={"host": _of(one, row.host)}) for row in rows)

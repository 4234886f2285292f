"""The saved runs of a baseline, gathered by cell, host and day, with what changed around them; pure.

All runs of one date on one host are one day: they share what differs between days. A day's figure is that of its fresh
guests: within a guest the median of its rounds, over several guests the Hodges-Lehmann estimate, which one bad guest
hardly moves. Days that may not be compared with the newest one (another acceleration, CPU, tool, ...; see
`comparability`) have no part in a series. What comparisons allow to differ, as the versions of kernel, QEMU and
libvirt, does not part a series: it is a mark.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple, TypeVar

from pytest_vmstorage.analysis.comparability import differing_parts, flaw, no_ratio, obstacle, stack_changes
from pytest_vmstorage.analysis.gate.policy import log_seconds
from pytest_vmstorage.results.host import HostFacts
from pytest_vmstorage.results.run import Figure, Measurement, Metric, Run, Sample
from pytest_vmstorage.results.saved import CellKey, host_of, keyed
from pytest_vmstorage.stats import hodges_lehmann

_T = TypeVar("_T")

GONE_AFTER_DAYS = 14
"""A cell that no run of its last so many days has is gone: a run may leave cells out."""


class DayFigure(NamedTuple):
    """A day of a series: `log` is its figure in log(seconds per operation), `guests` those of its guests in order."""

    day: date
    log: float
    guests: tuple[float, ...]


@dataclass(frozen=True)
class CellDays:
    """The days of a cell's metric on a host; `why_not` is a clause why it is not judged, empty where it may be."""

    key: CellKey
    host: str
    metric: Metric
    days: Sequence[DayFigure]
    why_not: str = ""
    tolerated: str = ""


@dataclass(frozen=True)
class Shift:
    """A change around the cells: `what` changed on a host after the day `after` and on the day `on` at the latest.

    `places` are the numbers of the series that it is about, None for all of that host.
    """

    host: str
    what: str
    after: date
    on: date
    places: frozenset[int] | None = None


@dataclass
class _Seen:
    """What runs had of one cell on one host: guests' values by day, for each set of conditions."""

    newest: str = ""
    condition: int = -1
    guests: dict[int, dict[date, list[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    made: dict[str, int] = field(default_factory=dict)
    invalid: int = 0


class _Condition(NamedTuple):
    """A measurement without its rounds but the first, and its host: what comparability looks at."""

    measured: Measurement
    host: HostFacts


class Gathered(NamedTuple):
    """All series in the order met, and the changes around them in the order of their days.

    `emulated` is true where guests of a newest day ran under TCG.
    """

    series: Sequence[CellDays]
    shifts: Sequence[Shift]
    emulated: bool = False


def gather(runs: Iterable[Run], metric: str = "") -> Gathered:
    """The series of the runs, of each measurement's primary metric or that of the given name.

    The runs may come in any order, and each is let go before the next is asked for.
    """
    return _Gathering(metric).of(runs)


class _Gathering:
    """The state while runs are read one by one."""

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self._seen: dict[tuple[CellKey, str, Metric], _Seen] = {}
        self._conditions: dict[object, int] = {}
        self._examples: list[_Condition] = []
        self._hosts: dict[str, dict[str, HostFacts]] = defaultdict(dict)
        self._made: dict[object, int] = {}
        self._made_examples: list[Measurement] = []

    def of(self, runs: Iterable[Run]) -> Gathered:
        """The result."""
        for run in runs:
            self._add(run)
        last = {host: max(map(_day_of, begun)) for host, begun in self._hosts.items()}
        series = [self._series(*named, seen, last[named[1]]) for named, seen in self._seen.items()]
        emulated = any(begun[max(begun)].is_emulated for begun in self._hosts.values())
        return Gathered(series, sorted(self._shifts(), key=lambda one: (one.on, one.host, one.what)), emulated)

    def _add(self, run: Run) -> None:
        facts = {one.host: host_of(run, one.host) for one in run.measurements}
        for name, host in facts.items():
            self._hosts[name][run.started] = host
        texts = {name: host.model_dump_json() for name, host in facts.items()}
        day = _day_of(run.started)
        for key, m in keyed(run.measurements):
            name = self._metric or m.primary
            metric = next((one for one in m.metrics if one.name == name), None)
            if metric is None:
                continue
            seen = self._seen.setdefault((key, m.host, metric), _Seen())
            values = m.values(name)
            figure = Figure(metric, values, "")
            if flaw(figure) or no_ratio(figure):
                seen.invalid += 1
                continue
            condition = self._condition(m, facts[m.host], texts[m.host])
            if run.started >= seen.newest:
                seen.newest, seen.condition = run.started, condition
            seen.guests[condition][day] += guests_of(metric, m.samples)
            seen.made[run.started] = self._made_number(m)

    def _condition(self, m: Measurement, host: HostFacts, text: str) -> int:
        same = (text, m.config, m.on_host, m.command, tuple(m.guest.items()), m.without, m.metrics)
        if same not in self._conditions:
            self._conditions[same] = len(self._examples)
            slim = {"samples": tuple(one.model_copy(update={"raw": ""}) for one in m.samples[:1]), "proof": ()}
            self._examples.append(_Condition(m.model_copy(update=slim), host))
        return self._conditions[same]

    def _made_number(self, m: Measurement) -> int:
        same = (tuple(m.made_from.items()), m.hygiene.get("boot"))
        if same not in self._made:
            self._made[same] = len(self._made_examples)
            self._made_examples.append(m.model_copy(update={"samples": (), "proof": ()}))
        return self._made[same]

    def _series(self, key: CellKey, host: str, metric: Metric, seen: _Seen, last: date) -> CellDays:
        newest = self._examples[seen.condition] if seen.condition >= 0 else None
        left_out: Counter[str] = Counter()
        days: dict[date, list[float]] = defaultdict(list)
        for number, guests in seen.guests.items():
            then = self._examples[number]
            # the same rules as a comparison of saved days
            reason = newest and obstacle(then.measured, newest.measured, then.host, newest.host, metric)
            for day, values in guests.items():
                if reason:
                    left_out[reason] += 1
                else:
                    days[day] += values
        figures = tuple(DayFigure(day, day_figure(days[day]), tuple(sorted(days[day]))) for day in sorted(days))
        why_not = ""
        if not figures:
            why_not = "no figure that has a logarithm"
        elif (last - figures[-1].day).days >= GONE_AFTER_DAYS:
            why_not = "gone"
        elif left_out and len(figures) < _FEW:
            why_not = left_out.most_common(1)[0][0]
        tolerated = newest.measured.tolerated if newest else ""
        return CellDays(key, host, metric, figures, why_not, tolerated)

    def _shifts(self) -> Iterator[Shift]:
        told: set[tuple[str, date]] = set()
        for name, begun in self._hosts.items():
            for (before, old), (after, new) in _neighbours(begun):
                for clause in stack_changes(old, new):
                    if clause.startswith("QEMU was"):
                        told.add((name, _day_of(after)))
                    yield Shift(name, clause, _day_of(before), _day_of(after))
        yield from self._shifts_of_parts(told)

    def _shifts_of_parts(self, told: set[tuple[str, date]]) -> Iterator[Shift]:
        """Parts of guests with other bytes than before, with their series; not where QEMU's version tells."""
        places: dict[tuple[str, str, date, date], set[int]] = defaultdict(set)
        known: dict[tuple[int, int], tuple[str, ...]] = {}
        for place, ((_, host, _), seen) in enumerate(self._seen.items()):
            for (before, old), (after, new) in _neighbours(seen.made):
                if old == new:
                    continue
                if (old, new) not in known:
                    known[old, new] = differing_parts(self._made_examples[old], self._made_examples[new])
                for part in known[old, new]:
                    if not (part.startswith("QEMU") and (host, _day_of(after)) in told):
                        places[host, part, _day_of(before), _day_of(after)].add(place)
        for (host, part, last, first), there in places.items():
            what = part if part.endswith(")") else f"{part} is another one"
            yield Shift(host, what, last, first, frozenset(there))


_FEW = 10
"""With fewer days what left out the others is the reason why a series is not judged."""


def _neighbours(found: Mapping[str, _T]) -> Iterator[tuple[tuple[str, _T], tuple[str, _T]]]:
    ordered = sorted(found.items(), key=_begun)
    yield from itertools.pairwise(ordered)


def _begun(one: tuple[str, object]) -> str:
    return one[0]


def _day_of(started: str) -> date:
    return date.fromisoformat(started[:10])


def guests_of(metric: Metric, samples: Sequence[Sample]) -> list[float]:
    """A value for each guest of these rounds: the median of log(seconds per operation) of its rounds."""
    logs = log_seconds(metric, [sample.figures[metric.name] for sample in samples])
    by_boot: dict[str, list[float]] = {}
    for sample, log in zip(samples, logs, strict=True):
        by_boot.setdefault(sample.boot, []).append(log)
    return [statistics.median(values) for values in by_boot.values()]


def day_figure(guests: Sequence[float]) -> float:
    """The figure of a day with these guests: their Hodges-Lehmann estimate."""
    return guests[0] if len(guests) == 1 else hodges_lehmann(guests)

"""The history of a baseline as one value: lines of days, findings, marks, accepted levels and a census; pure."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.analysis.columns import function_of
from pytest_vmstorage.analysis.gate.policy import AcceptedLevel, GatePolicy, matches
from pytest_vmstorage.analysis.history.causes import Cause, Judged, find_causes
from pytest_vmstorage.analysis.history.changes import LEAST_DAYS
from pytest_vmstorage.analysis.history.days import CellDays, Gathered, Shift, gather
from pytest_vmstorage.config.cell import AXES, StorageConfig, axis_text
from pytest_vmstorage.results.run import Metric, Run


class HistoryDay(BaseModel):
    """A day of a line: its figure, and the smallest and largest of its guests, in the metric's unit."""

    model_config = ConfigDict(frozen=True)

    day: date
    value: float
    low: float
    high: float
    guests: int


class HistoryLine(BaseModel):
    """A cell's metric on a host, day by day; `why_not` is a clause why it was not judged, empty where it was."""

    model_config = ConfigDict(frozen=True)

    nodeid: str
    workload: str
    config: StorageConfig
    host: str
    nth: int
    metric: Metric
    days: tuple[HistoryDay, ...]
    why_not: str = ""

    @property
    def about(self) -> str:
        """The workload, its cell and the host."""
        return f"{self.workload} on {self.config.label}, {self.host}"


class HistoryMark(BaseModel):
    """A change around the cells of a host, after the day `after` and on the day `on` at the latest.

    `lines` are the numbers of the lines that it is about, empty for all of the host.
    """

    model_config = ConfigDict(frozen=True)

    host: str
    what: str
    after: date
    on: date
    lines: tuple[int, ...] = ()


Way = Literal["slower", "faster", "less", "more"]
"""The direction of a change; of a metric that has no better direction: less or more of it."""


class HistoryFinding(BaseModel):
    """A change that the cells `lines` share, by their numbers; those in `sure` show it by themselves.

    A step came after the day `after` and on the day `on` at the latest (95 %); creep went on from `after` to `on`.
    `change` is the median of the cells' changes, a fraction of the time per operation, `least` and `most` the smallest
    and the largest. `where` says in words which cells have it. `marks` are what changed around them in these days.
    `narrowing` are commands that say more. `accepted` is the acceptance that holds, None for an open finding.
    """

    model_config = ConfigDict(frozen=True)

    kind: Literal["step", "creep"]
    way: Way
    after: date
    on: date
    change: float
    least: float
    most: float
    lines: tuple[int, ...]
    sure: tuple[int, ...]
    where: str
    p: float
    marks: tuple[HistoryMark, ...] = ()
    narrowing: tuple[str, ...] = ()
    accepted: AcceptedLevel | None = None

    @property
    def is_open(self) -> bool:
        """Whether nobody answers for it."""
        return self.accepted is None

    @property
    def is_unexplained(self) -> bool:
        """Whether nothing that the plugin knows of changed in these days."""
        return not self.marks


class Lapse(BaseModel):
    """An accepted level that holds no more, and why, in a sentence."""

    model_config = ConfigDict(frozen=True)

    level: AcceptedLevel
    reason: str


class Census(BaseModel):
    """The number of lines, of those judged, and of the others by reason; and of changes too small to tell."""

    model_config = ConfigDict(frozen=True)

    lines: int
    judged: int
    others: Mapping[str, int] = {}
    too_small: int = 0

    def __str__(self) -> str:
        told = f"judged {self.judged} of {self.lines}"
        others = ", ".join(f"{count} {reason}" for reason, count in self.others.items())
        return f"{told}; {others}" if others else told


class BaselineHistory(BaseModel):
    """A baseline's history: a line for each cell, and what changed in it; findings by day."""

    model_config = ConfigDict(frozen=True)

    name: str
    first: date | None
    last: date | None
    days: int
    lines: tuple[HistoryLine, ...]
    findings: tuple[HistoryFinding, ...]
    marks: tuple[HistoryMark, ...]
    census: Census
    lapsed: tuple[Lapse, ...] = ()
    emulated: bool = False


class HistoryScope(NamedTuple):
    """The part of a baseline that is asked for: cells that a pattern matches, days since one, a metric by name.

    The pattern is one of node ids or of cells' ids, with `*` and `?`, or the values that a finding names, as
    `bus=virtio-scsi` or `bus=virtio-scsi and format=raw`; an empty metric is each cell's primary one.
    """

    name: str
    cell: str = ""
    since: date | None = None
    metric: str = ""

    def has(self, series: CellDays) -> bool:
        """Whether the pattern matches the cell: its node id, its id, a part of either, or all the values it names."""
        texts = (series.key.nodeid, series.key.config.label)
        if any(matches(text, f"*{self.cell}*") for text in texts):
            return True
        named, axes = [part.partition("=") for part in self.cell.split(" and ")], _axes(series)
        return all(name in axes and matches(axes[name], value) for name, _, value in named)


def tell_history(runs: Iterable[Run], asked: HistoryScope, policy: GatePolicy) -> BaselineHistory:
    """The history of these runs, in any order, each of which is let go before the next is asked for."""
    since = asked.since.isoformat() if asked.since else ""
    gathered = gather((run for run in runs if run.started[:10] >= since), asked.metric)
    return history_of(gathered, asked, policy)


TOO_FEW = f"too few days ({LEAST_DAYS} are needed)"


def history_of(gathered: Gathered, asked: HistoryScope, policy: GatePolicy) -> BaselineHistory:
    """The history of what was gathered."""
    chosen = [number for number, series in enumerate(gathered.series) if asked.has(series)]
    lines = [_line(gathered.series[number]) for number in chosen]
    judged = [place for place, line in enumerate(lines) if not line.why_not]
    axes = [_axes(gathered.series[chosen[place]]) for place in judged]
    many = [
        Judged([day.day.toordinal() for day in days], [day.log for day in days], own)
        for place, own in zip(judged, axes, strict=True)
        for days in [gathered.series[chosen[place]].days]
    ]
    marks = _marks(gathered.shifts, {number: place for place, number in enumerate(chosen)}, lines)
    told = [_finding(cause, judged, lines, marks) for cause in find_causes(many)]
    large = [one for one in told if _is_large(one, [gathered.series[number] for number in chosen], lines, policy)]
    findings, lapsed = _accepted(large, lines, policy)
    days = sorted({day.day for line in lines for day in line.days})
    others = Counter(line.why_not for line in lines if line.why_not)
    return BaselineHistory(
        name=asked.name,
        first=days[0] if days else None,
        last=days[-1] if days else None,
        days=len(days),
        lines=tuple(lines),
        findings=tuple(findings),
        marks=marks,
        census=Census(
            lines=len(lines), judged=len(judged), others=dict(others.most_common()), too_small=len(told) - len(large)
        ),
        lapsed=tuple(lapsed),
        emulated=gathered.emulated,
    )


def _line(series: CellDays) -> HistoryLine:
    why_not = series.why_not or ("" if len(series.days) >= LEAST_DAYS else TOO_FEW)
    days = []
    for day in series.days:
        edges = sorted(_value(series.metric, log) for log in (day.guests[0], day.guests[-1]))
        value = _value(series.metric, day.log)
        days.append(
            HistoryDay.model_construct(day=day.day, value=value, low=edges[0], high=edges[1], guests=len(day.guests))
        )
    key = series.key
    return HistoryLine.model_construct(
        nodeid=key.nodeid,
        workload=key.workload,
        config=key.config,
        host=series.host,
        nth=key.nth,
        metric=series.metric,
        days=tuple(days),
        why_not=why_not,
    )


def _value(metric: Metric, log: float) -> float:
    return math.exp(log if metric.better == "lower" else -log)


def _axes(series: CellDays) -> dict[str, str]:
    """The values that cells can share: of the axes, the workload, the test and the host."""
    config = series.key.config
    return {
        "workload": series.key.workload,
        "host": series.host,
        **{name: axis_text(name, getattr(config, name)).removeprefix(f"{name}=") for name in AXES},
        "size": str(config.size),
        "test": function_of(series.key.nodeid),
    }


def _marks(shifts: Sequence[Shift], places: Mapping[int, int], lines: Sequence[HistoryLine]) -> tuple[HistoryMark, ...]:
    """The changes around the chosen lines."""
    hosts = {line.host for line in lines}
    found = []
    for one in shifts:
        own = None if one.places is None else sorted(places[place] for place in one.places if place in places)
        if one.host in hosts and own != []:
            found.append(HistoryMark(host=one.host, what=one.what, after=one.after, on=one.on, lines=tuple(own or ())))
    return tuple(found)


def _finding(
    cause: Cause, judged: Sequence[int], lines: Sequence[HistoryLine], marks: Sequence[HistoryMark]
) -> HistoryFinding:
    """The cause in words, with what changed in its days."""
    members = tuple(judged[number] for number in cause.members)
    after, on = date.fromordinal(cause.after), date.fromordinal(cause.on)
    hosts, own = {lines[place].host for place in members}, set(members)
    inside = tuple(
        mark
        for mark in marks
        if mark.host in hosts and (not mark.lines or own & set(mark.lines)) and mark.on > after and mark.after < on
    )
    inside = inside if cause.kind == "step" else ()
    fractions = [math.expm1(shift) for shift in cause.shifts]
    return HistoryFinding(
        kind=cause.kind,
        way=_way(cause.shift, lines[members[0]].metric),
        after=after,
        on=on,
        change=statistics.median(fractions),
        least=min(fractions),
        most=max(fractions),
        lines=members,
        sure=tuple(judged[number] for number in cause.sure),
        where=_where(cause, members, lines),
        p=cause.p,
        marks=inside,
        narrowing=_narrowing(members, inside, lines) if cause.kind == "step" else (),
    )


def _way(shift: float, metric: Metric) -> Way:
    if metric.better == "neither":
        return "less" if shift > 0 else "more"
    return "slower" if shift > 0 else "faster"


def _where(cause: Cause, members: Sequence[int], lines: Sequence[HistoryLine]) -> str:
    """The cells that have the change: "all 12 cells with bus=virtio-scsi, none of the 84 others"."""
    count, total = len(cause.members), len({*cause.compared, *cause.members})
    if total == 1:
        return "the only cell with days around it"
    if count == total:
        return _all_of(total)
    if count == 1:
        return f"{lines[members[0]].about}, {_others(0, total - 1)}"
    if not cause.shared:
        lacking = "the other one lacks" if total - count == 1 else "the others lack"
        return f"{count} of {total} cells, which have nothing in common that {lacking}"
    values = " and ".join(f"{axis}={value}" for axis, value in cause.shared)
    met = set(cause.met)
    inside, beyond = len(met & set(cause.members)), len(set(cause.members) - met)
    some = _all_of(inside) if inside == len(met) else f"{inside} of {len(met)} cells"
    return f"{some} with {values}, {_others(beyond, total - len(met))}"


def _all_of(count: int) -> str:
    return {1: "the only cell", 2: "both cells"}.get(count, f"all {count} cells")


def _others(hit: int, count: int) -> str:
    """How many of so many other cells have the change, in words that stay right for 0, 1 and 2 cells."""
    if not count:
        return "there are no others"
    if count == 1:
        return "and the other one" if hit else "not the other one"
    if not hit:
        return "neither of the 2 others" if count == 2 else f"none of the {count} others"
    return f"{'all' if hit == count else hit} of the {count} others"


def _narrowing(members: Sequence[int], marks: Sequence[HistoryMark], lines: Sequence[HistoryLine]) -> tuple[str, ...]:
    """Commands that measure a test of these cells with the old QEMU beside it, where QEMU changed."""
    test = lines[members[0]].nodeid
    quoted = f"'{test}'" if "[" in test else test
    if any(mark.what.startswith("QEMU") for mark in marks):
        return (f"pytest {quoted} --vm-against=emulator=PATH_OF_THE_OLD_QEMU",)
    return ()


def _is_large(
    finding: HistoryFinding, series: Sequence[CellDays], lines: Sequence[HistoryLine], policy: GatePolicy
) -> bool:
    """Whether the change is worth telling: in at least one of the cells above the percentage and above the floor."""
    return any(_reaches(finding, series[place], lines[place], policy) for place in finding.lines)


_LEAST = 0.05


def _reaches(finding: HistoryFinding, series: CellDays, line: HistoryLine, policy: GatePolicy) -> bool:
    least = policy.history.least
    if least is None:
        tolerated = policy.tolerated_by(line.nodeid, line.workload, series.tolerated).fraction
        least = _LEAST if tolerated is None else tolerated / 2
    floor = policy.history.floors.get(line.metric.name, _FLOORS.get(line.metric.unit, 0.0))
    usual = statistics.median(day.value for day in line.days)
    size = abs(finding.change)
    return size >= least and size * usual >= floor


_FLOORS = {"s": 1e-6}
"""The smallest changes that are told, by unit: a microsecond is less than what a guest's clock adds to a time."""


def _accepted(
    findings: Sequence[HistoryFinding], lines: Sequence[HistoryLine], policy: GatePolicy
) -> tuple[list[HistoryFinding], list[Lapse]]:
    """The findings with the acceptances that hold, and the acceptances that lapsed."""
    told, lapsed = [], {}
    for finding in findings:
        held: set[int] = set()
        first: AcceptedLevel | None = None
        for level in policy.levels:
            own = {place for place in finding.lines if _is_of(level, finding, lines[place])}
            if not own:
                continue
            if reason := _lapsed(level, finding, findings, own, policy.today):
                lapsed[level] = reason
            else:
                held |= own
                first = first or level
        told.append(finding.model_copy(update={"accepted": first if held >= set(finding.lines) else None}))
    return told, [Lapse(level=level, reason=reason) for level, reason in lapsed.items()]


def _is_of(level: AcceptedLevel, finding: HistoryFinding, line: HistoryLine) -> bool:
    return finding.after <= level.since <= finding.on and level.covers(line.nodeid, line.workload)


def _lapsed(
    level: AcceptedLevel,
    finding: HistoryFinding,
    findings: Sequence[HistoryFinding],
    own: set[int],
    today: date,
) -> str:
    """Why the acceptance of a finding holds no more: its day is past, or the level came back; empty where it holds."""
    said = f"{level.where}: the level of {level.cell} that {level.owner} accepted ({level.reason})"
    if level.has_expired(today):
        return f"{said} was accepted until {level.expires}."
    for later in findings:
        opposite = (later.change > 0) != (finding.change > 0) and later.on > finding.on
        is_back = abs(math.log1p(later.change)) >= abs(math.log1p(finding.change)) / 2
        if opposite and is_back and own & set(later.lines):
            return f"{said} came back after {later.after}, on {later.on} at the latest: take the entry out."
    return ""

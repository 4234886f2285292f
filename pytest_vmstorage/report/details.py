"""Details of figures in words: cost, steadiness, the host, effects of axes, native and null rows; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from pytest_vmstorage.analysis.axis_effects import Effect, Moved
from pytest_vmstorage.analysis.yardsticks import Yardsticks
from pytest_vmstorage.results.cautions import Caution
from pytest_vmstorage.results.cost import (
    cpu_per_io,
    flushes_per_write,
    host_bytes_per_guest_byte,
    host_flushes_per_write,
    switches_per_io,
)
from pytest_vmstorage.results.host import UNKNOWN, HostState
from pytest_vmstorage.results.run import Measurement, Run
from pytest_vmstorage.stats import Interval
from pytest_vmstorage.units import format_figure

_LEAST_SHARE = 0.005


def cost_lines(measured: Sequence[Measurement]) -> Iterator[str]:
    """A line for each workload on each host: its cheapest and its dearest row, or all where they print the same."""
    groups: dict[tuple[str, str], list[tuple[float, Measurement]]] = {}
    for m in measured:
        cost = m.cost
        if cost.cpu_s and (each := cpu_per_io(cost, m.moved)):
            groups.setdefault((m.workload, m.host), []).append((sum(each.values()), m))
    hosts = {host for _workload, host in groups}
    for (workload, host), found in groups.items():
        rows = sorted(found, key=itemgetter(0))
        (_, first), (_, last) = rows[0], rows[-1]
        where = f", {host}" if len(hosts) > 1 else ""
        if len({format_figure(cpu_s, "s") for cpu_s, _ in rows}) == 1:
            cells = str(first.config) if len(rows) == 1 else f"{len(rows)} rows"
            yield f"{workload}{where}: {_cost_clause(first)} ({cells})"
        else:
            ends = f"{_cost_clause(first)} ({first.config}) to {_cost_clause(last)} ({last.config})"
            yield f"{workload}{where}: {ends}, {len(rows)} rows"


def ending_lines(measured: Sequence[Measurement]) -> Iterator[str]:
    """Lines on rounds that should go on until a figure was narrow enough: how many did, and which did not."""
    narrow = [m for m in measured if m.ended.reason == "narrow"]
    if narrow:
        counts = sorted({len(m.samples) for m in narrow})
        rounds = " to ".join(str(one) for one in dict.fromkeys((counts[0], counts[-1])))
        widest = max(m.ended.half_width or 0.0 for m in narrow)
        interval = f"95 % interval within {widest:.1%} of the median"
        yield f"{len(narrow)} figures narrow enough after {rounds} rounds: {interval}"
    for m in measured:
        if m.ended.reason in ("time limit", "no room"):
            half = m.ended.half_width
            width = "no 95 % interval" if half is None else f"95 % interval within {half:.1%} of the median only"
            why = "time limit" if m.ended.reason == "time limit" else "no unwritten block is left"
            yield f"{m.workload} on {m.config}: {why} after {len(m.samples)} rounds, {width}"


def _cpu(m: Measurement) -> float:
    return sum(cpu_per_io(m.cost, m.moved).values())


def _cost_clause(m: Measurement) -> str:
    by_class, cpu = cpu_per_io(m.cost, m.moved), _cpu(m)
    shares = [f"{kind} {one / cpu:.0%}" for kind, one in by_class.items() if cpu and one / cpu >= _LEAST_SHARE]
    return ", ".join([f"{format_figure(cpu, 's')} CPU [{', '.join(shares)}]", *_ratios(m)])


def _ratios(m: Measurement) -> Iterator[str]:
    switches, flushes = switches_per_io(m.cost, m.moved), flushes_per_write(m.moved)
    if switches is not None:
        yield f"{switches:.2f} context switches"
    if flushes is not None:
        yield f"{flushes:.3f} flushes per write asked for by the guest"
    if (done := host_flushes_per_write(m.moved)) is not None:
        yield f"{done:.3f} done by the host's device"


def unsteady_lines(measured: Iterable[Measurement]) -> Iterator[str]:
    """A line for each measurement whose rounds were judged and not steady."""
    for m in measured:
        steadiness = m.steadiness
        if steadiness.is_judged and not steadiness.is_steady:
            yield f"{m.workload} on {m.config.label}, {m.host}: {m.primary} {steadiness}"


def caution_lines(measured: Sequence[Measurement]) -> Iterator[str]:
    """A line for each caution, with its amount and the number of measurements that have it."""
    found: dict[str, list[Caution]] = {}
    for m in measured:
        for caution in m.cautions:
            found.setdefault(caution.says, []).append(caution)
    for says, cautions in found.items():
        where = "" if len(cautions) == len(measured) else f" [{len(cautions)} of {len(measured)} measurements]"
        remedy = cautions[0].remedy
        yield f"{says}{amount(cautions)}{where}{f'; remedy: {remedy}' if remedy else ''}"


def amount(cautions: Sequence[Caution]) -> str:
    """The shares that were found, as text: ": 12% to 15%", or "" where these have none."""
    shares = sorted(one.share for one in cautions if one.share is not None)
    if not shares:
        return ""
    low, high = f"{shares[0]:.0%}", f"{shares[-1]:.0%}"
    return f": {low}" if low == high else f": {low} to {high}"


def host_words(state: HostState) -> Mapping[str, str]:
    """The facts of the host that rarely change from row to row, by name, also those that the host hides."""
    return {
        "governor": state.governor,
        "turbo": state.turbo,
        "device": state.device,
        "its scheduler": state.scheduler,
        "its write cache": state.write_cache,
        "NUMA": state.numa,
        "QEMU may run on CPUs": state.may_run,
    }


def detail_lines(m: Measurement) -> Iterator[str]:
    """All details of one measurement, a fact or sentence a line; few where an earlier version saved it."""
    if m.outcome not in ("", "passed"):
        yield f"test {m.outcome}: {m.message}"
    for note in m.notes:
        yield f"note: {note}"
    if m.around is None:
        return
    by_class = cpu_per_io(m.cost, m.moved)
    if by_class:
        parts = ", ".join(f"{kind} {format_figure(one, 's')}" for kind, one in by_class.items())
        yield f"CPU of QEMU per guest I/O: {format_figure(_cpu(m), 's')} ({parts})"
    bytes_each = host_bytes_per_guest_byte(m.moved)
    ratios = [*_ratios(m), *([] if bytes_each is None else [f"{bytes_each:.2f} host bytes per guest byte"])]
    if ratios:
        yield f"for each I/O of the guest: {', '.join(ratios)}"
    if m.cost.waited_s is not None:
        yield f"QEMU's threads were kept waiting for a CPU: {m.cost.waited_s:.2f} s in {len(m.samples)} round(s)"
    yield f"steady state of {m.primary}: {m.steadiness}"
    yield from _host_details(m, m.around)
    for caution in m.cautions:
        yield f"caution: {caution.says}{amount([caution])}"


def _host_details(m: Measurement, state: HostState) -> Iterator[str]:
    yield "host: " + ", ".join(f"{name} {value}" for name, value in host_words(state).items())
    others = UNKNOWN if state.others is None else str(state.others)
    used = "" if not state.others or state.others_cpu is None else f" with {state.others_cpu:.0%} of one CPU"
    yield f"host: temperature {state.temperature}, other QEMU processes {others}{used}"
    yield f"waited for on the host: {_pressure(m)}; in the 10 s before: {_shares(state.recent)}"


def _pressure(m: Measurement) -> str:
    rounds = [sample.pressed for sample in m.samples]
    names = [name for name in rounds[0] if all(name in one for one in rounds)] if rounds else []
    means = {name: sum(one[name] for one in rounds) / len(rounds) for name in names}
    return f"{_shares(means)} of the rounds" if means else UNKNOWN


def _shares(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in shares.items()) or UNKNOWN


MOST_LINES = 12

_IN_A_ROW = "rounds were taken in a row: these ratios include the host's drift between them"


def effect_lines(moved: Sequence[Moved]) -> Iterator[str]:
    """A line for each workload; where these are many, one line at the end names those within their spread."""
    told = [one for one in moved if one.effects]
    is_long = len(told) > MOST_LINES
    much = [one for one in told if one.effects[0].matters][:MOST_LINES]
    hosts = {one.host for one in moved}
    for one in much if is_long else told:
        where = f" on {one.host}" if len(hosts) > 1 else ""
        yield _line(one, where, [effect for effect in one.effects if effect.matters or not is_long])
    rest = [one for one in told if one not in much] if is_long else []
    if rest:
        yield f"less, or within its spread: {', '.join(one.workload for one in rest)}"
    if tied := _tied(moved):
        yield f"no effect can be told for {', '.join(tied)}: no two cells differ in it alone"
    if told and any(one.in_a_row for one in told):
        yield _IN_A_ROW


def _line(moved: Moved, where: str, shown: Sequence[Effect]) -> str:
    first, *others = shown
    if first.matters:
        texts = [f"{first.axis} moves {moved.workload}{where} by {_size(first)}", *map(_clause, others)]
        return "; ".join(texts)
    return f"{moved.workload}{where}: {'; '.join(map(_clause, shown))}"


def _clause(effect: Effect) -> str:
    return f"{effect.axis} by {_size(effect)}"


def _size(effect: Effect) -> str:
    if effect.matters:
        return f"{effect.ratio:.2f}x ({effect.fastest} fastest, {effect.slowest} slowest; {_basis(effect)})"
    if effect.interval is None:
        return f"{effect.ratio:.2f}x ({_basis(effect)}), too few to tell"
    return "less than 1 %" if effect.is_sure else f"{effect.ratio:.2f}x, within its spread"


def _basis(effect: Effect) -> str:
    """The basis of the ratio: its interval, or without one the smallest and the largest ratio."""
    counted = f"{effect.couples} couple{'' if effect.couples == 1 else 's'}"
    if effect.interval is not None:
        return f"{counted}, 95 % interval {effect.interval.low:.2f}x to {effect.interval.high:.2f}x"
    if effect.rounds == 1:
        return f"{counted} of 1 round"
    return f"{counted}, {'rounds ' if effect.couples == 1 else ''}{effect.low:.2f}x to {effect.high:.2f}x"


def _tied(moved: Sequence[Moved]) -> list[str]:
    """Axes that vary, but whose effect no workload can tell."""
    told = {effect.axis for one in moved for effect in one.effects}
    return list(dict.fromkeys(axis for one in moved for axis in one.tied if axis not in told))


LATENCIES = ("lat_mean", "read_lat_mean", "write_lat_mean")
"""Metrics in seconds that are the mean time of one I/O; their difference is what one I/O costs more."""

LEGEND = (
    "the time that an I/O takes beyond its native time is the cost of virtualization; a null row is guest and QEMU"
    " without storage, the upper limit of rows with the same path"
)

RANGE_LEGEND = "a range goes from the smallest to the largest ratio, or difference, of any two rounds, one of each row"


def share_of(m: Measurement, other: Measurement, name: str) -> float | None:
    """This row's figure as a fraction of the other row's; for a time the inverse: twice as long is a half.

    None where the other has no such metric, where neither way is better, or either is 0.
    """
    if not _has(other, name):
        return None
    now, then = m.figure(name), other.figure(name)
    if not now or not then or now.metric.better == "neither":
        return None
    return float(now / then if now.metric.better == "higher" else then / now)


def share_range(m: Measurement, other: Measurement, name: str) -> Interval | None:
    """The smallest and the largest such fraction of any two rounds, one of each row.

    None where there is no fraction, where a row has one round, whose spread is unknown, or a round is 0 or infinite.
    """
    rounds = _rounds_of_both(m, other, name)
    if share_of(m, other, name) is None or rounds is None or not min(map(min, rounds)) > 0:
        return None
    mine, others = rounds
    low, high = min(mine) / max(others), max(mine) / min(others)
    return Interval(low, high) if m.metric(name).better == "higher" else Interval(1 / high, 1 / low)


def share_words(m: Measurement, other: Measurement, name: str) -> str:
    """The fraction with its range, as "40% (38% to 43%)" or "40% (spread unknown)"; "" where there is no fraction."""
    share, reach = share_of(m, other, name), share_range(m, other, name)
    spread = f"{reach.low:.0%} to {reach.high:.0%}" if reach else "spread unknown"
    return "" if share is None else f"{share:.0%} ({spread})"


def difference_range(m: Measurement, other: Measurement, name: str) -> Interval | None:
    """The smallest and the largest difference to the other row of any two rounds, one of each; in the metric's unit.

    None where a row lacks the metric, has one round, whose spread is unknown, or a round that is infinite.
    """
    rounds = _rounds_of_both(m, other, name)
    if rounds is None:
        return None
    mine, others = rounds
    return Interval(min(mine) - max(others), max(mine) - min(others))


def _rounds_of_both(m: Measurement, other: Measurement, name: str) -> tuple[Sequence[float], Sequence[float]] | None:
    """The rounds of both rows, where both have the metric, several rounds, and no infinite one."""
    if not (_has(m, name) and _has(other, name)):
        return None
    mine, others = m.values(name), other.values(name)
    return None if 1 in (len(mine), len(others)) or not all(map(math.isfinite, (*mine, *others))) else (mine, others)


def native_lines(run: Run) -> Iterator[str]:
    """A sentence for each row with guest and storage that has a native or a null row; the last lines explain these."""
    rows, has_null, has_range = Yardsticks(run.measurements), False, False
    for m in run.measurements:
        native, null = rows.native_of(m), rows.null_of(m)
        has_null = has_null or null is not None
        others = [("native", native)] if native is not None else []
        others += [(str(null.config), null)] if null is not None else []
        has_range = has_range or any(_has_range(m, one) for _, one in others)
        if others:
            yield f"{m.config}, {m.workload}: {_percent(m, others)}{_times(m, native, null)}"
    if has_range:
        yield RANGE_LEGEND
    if has_null:
        yield LEGEND


def _has_range(m: Measurement, other: Measurement) -> bool:
    """Whether the share of the primary metric or the difference of any latency has a range."""
    return bool(share_range(m, other, m.primary) or any(difference_range(m, other, name) for name in LATENCIES))


def _percent(m: Measurement, others: Sequence[tuple[str, Measurement]]) -> str:
    shares = [(name, share_words(m, other, m.primary)) for name, other in others]
    if not all(share for _, share in shares):
        return "no percentage of 0"
    said = " and ".join(f"{share} of {name}" for name, share in shares)
    against = " and ".join(str(other.figure(m.primary)) for _, other in others)
    return f"{said} ({m.primary} {m.figure(m.primary)} against {against})"


def _times(m: Measurement, native: Measurement | None, null: Measurement | None) -> str:
    """The time of one I/O, and its difference to the native and the null row, with their times."""
    sentences = []
    for name in LATENCIES:
        if not _has(m, name):
            continue
        beside = [("natively", native), ("on null", null)]
        parts = [
            f"{_difference(m, other, name)} than {where} ({_time(other, name)})"
            for where, other in beside
            if other is not None and _has(other, name)
        ]
        sentences += [f", {_io(name)} takes {_time(m, name)}: {', '.join(parts)}"] if parts else []
    return "".join(sentences)


def _io(name: str) -> str:
    """The I/O that a latency is of: "an I/O", "a read"."""
    way = name.removesuffix("lat_mean").rstrip("_")
    return f"a {way}" if way else "an I/O"


def _time(m: Measurement, name: str) -> str:
    return format_figure(m.figure(name), "s")


def _difference(m: Measurement, other: Measurement, name: str) -> str:
    """The difference to the other row with its range, as "20 us (18 us to 24 us) more"."""
    difference, reach = m.figure(name) - other.figure(name), difference_range(m, other, name)
    spread = "spread unknown"
    if reach:
        ends = (reach.low, reach.high) if difference >= 0 else (-reach.high, -reach.low)
        spread = " to ".join(format_figure(end, "s") for end in ends)
    return f"{format_figure(abs(difference), 's')} ({spread}) {'more' if difference >= 0 else 'less'}"


def _has(m: Measurement, name: str) -> bool:
    return any(metric.name == name for metric in m.metrics)

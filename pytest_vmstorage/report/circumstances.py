"""What belongs beside a figure, in words: what it cost, whether its rounds were steady, what its host was like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_vmstorage.caution import Caution
from pytest_vmstorage.cost import (
    cpu_per_io,
    flushes_per_write,
    host_bytes_per_guest_byte,
    host_flushes_per_write,
    switches_per_io,
)
from pytest_vmstorage.host_state import UNKNOWN, HostState
from pytest_vmstorage.results import Measurement
from pytest_vmstorage.units import format_figure

_LEAST_SHARE = 0.005


def cost_lines(measured: Sequence[Measurement]) -> Iterator[str]:
    """A line for each workload on each host: its cheapest and its dearest row, or all where they print the same."""
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for m in measured:
        if cpu_per_io(m.cost, m.moved):
            groups.setdefault((m.workload, m.host), []).append(m)
    hosts = {host for _workload, host in groups}
    for (workload, host), rows in groups.items():
        rows.sort(key=_cpu)
        first, last = _cost_clause(rows[0]), _cost_clause(rows[-1])
        where = f", {host}" if len(hosts) > 1 else ""
        if len({format_figure(_cpu(m), "s") for m in rows}) == 1:
            cells = str(rows[0].config) if len(rows) == 1 else f"{len(rows)} rows"
            yield f"{workload}{where}: {first} ({cells})"
        else:
            yield f"{workload}{where}: {first} ({rows[0].config}) to {last} ({rows[-1].config}), {len(rows)} rows"


def ending_lines(measured: Sequence[Measurement]) -> Iterator[str]:
    """What became of rounds that were to go on until a figure was narrow enough: how many did, and which did not."""
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
            why = "time limit" if m.ended.reason == "time limit" else "no block is left that nothing has written"
            yield f"{m.workload} on {m.config}: {why} after {len(m.samples)} rounds, {width}"


def _cpu(m: Measurement) -> float:
    return sum(cpu_per_io(m.cost, m.moved).values())


def _cost_clause(m: Measurement) -> str:
    by_class, cpu = cpu_per_io(m.cost, m.moved), _cpu(m)
    shares = [f"{kind} {one / cpu:.0%}" for kind, one in by_class.items() if cpu and one / cpu >= _LEAST_SHARE]
    said = [f"{format_figure(cpu, 's')} CPU [{', '.join(shares)}]", *_ratios(m)]
    return ", ".join(said)


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
    """A line for each thing that speaks against figures, with how much was found and in how many measurements."""
    found: dict[str, list[Caution]] = {}
    for m in measured:
        for caution in m.cautions:
            found.setdefault(caution.says, []).append(caution)
    for says, cautions in found.items():
        where = "" if len(cautions) == len(measured) else f" [{len(cautions)} of {len(measured)} measurements]"
        yield f"{says}{_amount(cautions)}{where}"


def _amount(cautions: Sequence[Caution]) -> str:
    shares = sorted(one.share for one in cautions if one.share is not None)
    if not shares:
        return ""
    low, high = f"{shares[0]:.0%}", f"{shares[-1]:.0%}"
    return f": {low}" if low == high else f": {low} to {high}"


def host_words(state: HostState) -> Mapping[str, str]:
    """What does not change from row to row, by what it is; nothing is left out because the host hides it."""
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
    """All of it for one measurement, a fact or sentence a line; little where an earlier version saved it."""
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
        yield f"caution: {caution.says}{_amount([caution])}"


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

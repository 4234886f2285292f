"""The sections under the matrix: outcomes of tests, the comparison in brief, notes, reasons in full; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.analysis.columns import function_of
from pytest_vmstorage.analysis.gate.kinds import KINDS, Kind
from pytest_vmstorage.analysis.gate.verdicts import Comparison, Verdict
from pytest_vmstorage.analysis.shared_values import Compared, shared_by
from pytest_vmstorage.analysis.yardsticks import Yardsticks
from pytest_vmstorage.config.cell import AXES, axis_text
from pytest_vmstorage.report.details import (
    against_native,
    caution_lines,
    cost_lines,
    effect_lines,
    ending_lines,
    host_words,
    unsteady_lines,
)
from pytest_vmstorage.results.host import HostFacts
from pytest_vmstorage.results.run import IDLE, Measurement, Run, proven_fields
from pytest_vmstorage.results.saved import host_of
from pytest_vmstorage.text import plain_line
from pytest_vmstorage.units import format_about


def summary_lines(comparison: Comparison) -> Iterator[str]:
    """How many primary figures got which verdict, and what of the host's software differs from then."""
    counts = Counter("waived" if verdict.waiver else verdict.kind.value for verdict in comparison.gated)
    first, *others = KINDS
    said = [f"{counts[name]} {name}" for name in map(str, (first, "waived", *others)) if counts[name]]
    if comparison.missing:
        said.append(f"{len(comparison.missing)} missing")
    if said:
        yield ", ".join(said)
    compared = _compared(comparison)
    if sum(one.regressed for one in compared) > 1:
        yield shared_by(compared)
    if comparison.stack:
        yield f"what differs of the host since then: {', '.join(comparison.stack)}"
    yield from comparison.idle


def _compared(comparison: Comparison) -> list[Compared]:
    """Each decided cell with its values of the axes, its workload, its host, and whether it regressed."""
    return [
        Compared(
            {
                "workload": verdict.workload,
                "host": verdict.host,
                **{name: axis_text(name, getattr(verdict.config, name)).removeprefix(f"{name}=") for name in AXES},
            },
            regressed=verdict.kind is Kind.REGRESSED,
        )
        for verdict in comparison.gated
        if verdict.kind.is_decided
    ]


def loss_text(verdict: Verdict) -> str:
    """What a primary figure lost with its interval: "+12.4 % (+9 % to +16 %)", "" where nothing was found."""
    found = verdict.finding
    if found is None or found.loss is None:
        return ""
    told = f"{found.loss * 100:+.3g} %"
    if found.interval is None:
        return told
    return f"{told} ({found.interval.low * 100:+.3g} % to {found.interval.high * 100:+.3g} %)"


def note_lines(measured: Sequence[Measurement]) -> Iterator[str]:
    """A line for each text: the tests, how many of their rows where it is not of all, and the text."""
    rows: dict[str, dict[str, int]] = {}
    of_test: dict[str, int] = {}
    for m in measured:
        test = function_of(m.nodeid)
        of_test[test] = of_test.get(test, 0) + 1
        for note in m.notes:
            tests = rows.setdefault(note, {})
            tests[test] = tests.get(test, 0) + 1
    for note, tests in rows.items():
        named = (
            test if count == of_test[test] else f"{test} ({count} of {of_test[test]} rows)"
            for test, count in tests.items()
        )
        yield f"{', '.join(named)}: {note}"


_ORDER = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")

_MARKS = {"failed": "FAIL", "error": "ERROR", "skipped": "SKIP", "xfailed": "XFAIL", "xpassed": "XPASS"}

LEGENDS = {
    "FAIL": "FAIL its test failed",
    "ERROR": "ERROR its test failed in set-up or teardown",
    "SKIP": "SKIP its test was skipped after it had measured",
    "XFAIL": "XFAIL its test failed, as its mark expects",
    "XPASS": "XPASS its test passed, and its mark expects otherwise",
}
"""What the marks mean, for below the matrix."""


def mark_of(m: Measurement, verdict: Verdict | None) -> str:
    """What stands beside figures whose test did not simply pass: "FAIL"; else "".

    A test that was skipped or expected to fail by the gate bears the word of its primary metric's verdict already.
    """
    by_gate = verdict is not None and (verdict.is_open or verdict.waiver is not None)
    return "" if by_gate and m.outcome in ("skipped", "xfailed") else _MARKS.get(m.outcome, "")


def tally(run: Run) -> str:
    """How many tests of the run passed, failed and so on: "46 passed, 2 failed"; "" where nobody knows.

    Tests that measured, or were to; a cell without a figure is what its reason makes it.
    """
    found: dict[str, str] = {failure.nodeid: failure.outcome for failure in run.failures}
    found |= {m.nodeid: m.outcome for m in run.measurements if m.outcome or m.nodeid not in found}
    counts = Counter(found.values())
    if run.measurements and not any(m.outcome for m in run.measurements):
        return ""
    said = [_counted(counts[name], name) for name in _ORDER if counts[name]]
    return ", ".join([*said, *([f"{counts['']} not reported"] if counts[""] else [])])


def _counted(number: int, name: str) -> str:
    return f"{number} errors" if name == "error" and number > 1 else f"{number} {name}"


def failed_lines(run: Run, comparison: Comparison | None) -> Iterator[str]:
    """A line for each test that failed although it measured, with the reason; not where the comparison gives it."""
    told = {plain_line(verdict.reason) for verdict in comparison.gated} if comparison else set()
    shown = dict.fromkeys(
        (function_of(m.nodeid), m.config.label, m.host, m.message)
        for m in run.measurements
        if m.outcome in ("failed", "error") and m.message not in told
    )
    for function, label, host, message in shown:
        yield f"{function} on {label}, {host}: {message}"


class Section(BaseModel):
    """A title and its lines; a line is one fact or sentence and may be wrapped."""

    model_config = ConfigDict(frozen=True)

    title: str
    lines: tuple[str, ...]


def build_sections(run: Run, comparison: Comparison | None) -> tuple[Section, ...]:
    """All sections that have something to say, in reading order."""
    sections = [_failures(run, "failed"), _failures(run, "skipped")]
    sections += [Section(title="failed tests", lines=tuple(failed_lines(run, comparison)))]
    sections += _comparison(comparison) if comparison else ()
    sections += [_left_out(run), Section(title="notes", lines=tuple(note_lines(run.measurements)))]
    sections += [Section(title="what moves what", lines=tuple(effect_lines(run)))]
    hosts = [host_of(run, name) for name in host_names(run)]
    sections += [
        *(_host(host, has_guests=_has_guests(run, host)) for host in hosts),
        Section(title="what speaks against figures", lines=tuple(caution_lines(run.measurements))),
        Section(title="rounds of --vm-rounds=auto", lines=tuple(ending_lines(run.measurements))),
        Section(title="not steady", lines=tuple(unsteady_lines(run.measurements))),
        Section(title=_beside(run), lines=tuple(against_native(run))),
        _served(run),
        Section(
            title="cost beside speed: what QEMU took for each I/O of the guest",
            lines=tuple(cost_lines(run.measurements)),
        ),
        _proof(run),
        _guests(run, on_host=False),
        _guests(run, on_host=True),
        _machines(run),
        _around(run),
        _hygiene(run),
    ]
    return tuple(section for section in sections if section.lines)


def _beside(run: Run) -> str:
    """What other rows are measured by: the native row, the null row, or both."""
    native, null = "the native row of the same device", "the null row of the same bus"
    rows = Yardsticks(run.measurements)
    there = [native] if any(rows.native_of(m) for m in run.measurements) else []
    there += [null] if any(rows.null_of(m) for m in run.measurements) else []
    return f"against {' and '.join(there)}"


def host_names(run: Run) -> tuple[str, ...]:
    """Every host that a row was measured on, in the order met."""
    return tuple(dict.fromkeys([m.host for m in run.measurements] + [f.host for f in run.failures]))


def _failures(run: Run, outcome: str) -> Section:
    """The cells without a figure and why; `outcome` is "failed" or "skipped"."""
    lines = [
        f"{function_of(f.nodeid)} on {f.config.label}, {f.host}: {f.reason}"
        for f in run.failures
        if f.outcome == outcome
    ]
    return Section(title=f"{outcome} cells", lines=tuple(lines))


def _comparison(comparison: Comparison) -> Iterable[Section]:
    of = {kind: [verdict for verdict in comparison.gated if verdict.kind is kind] for kind in Kind}
    waived = [f"{verdict.reason} {verdict.waiver}" for verdict in of[Kind.REGRESSED] if verdict.waiver]
    missing = tuple(f"{m.about} ({function_of(m.nodeid)})" for m in comparison.missing)
    yield Section(title=f"against {comparison.against}", lines=tuple(summary_lines(comparison)))
    for kind, record in KINDS.items():
        if record.title:
            yield Section(title=record.title, lines=tuple(one.reason for one in of[kind] if not one.waiver))
        if kind is Kind.REGRESSED:
            yield Section(title=f"{record.title}, and waived", lines=tuple(waived))
    yield Section(title="measured before and not in this run", lines=missing)


def _left_out(run: Run) -> Section:
    """What workloads have elsewhere and not in these rows: operations that nothing there can do, and why."""
    rows: dict[tuple[str, str], dict[str, None]] = {}
    for m in run.measurements:
        for one in m.left_out:
            if one.metric.unit == "s":
                rows.setdefault((str(m.config), one.why), {})[one.metric.name] = None
    lines: dict[tuple[str, str], list[str]] = {}
    for (cell, why), names in rows.items():
        lines.setdefault((", ".join(names), why), []).append(cell)
    return Section(
        title="left out", lines=tuple(f"{names} of {', '.join(cells)}: {why}" for (names, why), cells in lines.items())
    )


def _has_guests(run: Run, host: HostFacts) -> bool:
    """Whether any row of that host, measured or failed, had to do with a guest; one without rows is not asked."""
    rows = [m.on_host for m in run.measurements if m.host == host.name]
    rows += [f.on_host for f in run.failures if f.host == host.name]
    return not (rows and all(rows))


def _host(host: HostFacts, *, has_guests: bool = True) -> Section:
    memory = format_about(host.memory_bytes) if host.memory_bytes else "unknown"
    hardware = f"{host.cpu}, {host.cores or 'unknown'} cores, {memory} memory, governor {host.governor}"
    if host.is_machine:
        stated = ", ".join(f"{name} {value}" for name, value in host.stated.items())
        said = (
            hardware,
            f"kernel {host.kernel}; it says that it runs on: {host.accel.removesuffix(' (said)')}",
            f"measured in {host.folder or 'unknown'} on {host.file_system}, device {host.device}",
            *([f"stated by vmstorage.toml, and nothing here can prove it: {stated}"] if stated else []),
        )
        return Section(title=f"machine {host.name}, which the plugin did not make", lines=said)
    lines = [
        hardware,
        f"kernel {host.kernel}, QEMU {host.qemu}, libvirt {host.libvirt}",
        f"acceleration {host.accel} (asked: {host.accel_requested}{_because(host.accel_reason)})",
        f"disks in {host.folder or 'unknown'} on {host.file_system}, device {host.device}",
    ]
    if host.is_emulated and has_guests:
        lines.append(EMULATED)
    return Section(title=f"host {host.name}", lines=tuple(lines))


EMULATED = "Guests ran under software emulation (TCG): these figures are no statement about performance."


def _because(reason: str) -> str:
    return f"; {reason.rstrip('.')}" if reason else ""


def _served(run: Run) -> Section:
    """Which layer answered: without it a figure of the host's page cache passes for one of the disk."""
    rows: dict[str, list[str]] = {}
    for measured in run.measurements:
        if measured.served_by:
            rows.setdefault(f"{measured.workload}: {measured.served_by}", []).append(str(measured.config))
    lines = [
        f"{sentence} ({cells[0] if len(cells) == 1 else f'{len(cells)} rows'})" for sentence, cells in rows.items()
    ]
    return Section(title="which layer served the rounds", lines=tuple(lines))


def _guests(run: Run, *, on_host: bool) -> Section:
    facts = [m.guest for m in run.measurements if m.on_host is on_host and not m.config.is_machine]
    return Section(title="tools of rows without a guest" if on_host else "guest", lines=_summary(facts, ", ", " "))


def _machines(run: Run) -> Section:
    """What each machine that the plugin did not make says of itself, in a line."""
    told: dict[str, list[Mapping[str, str]]] = {}
    for m in run.measurements:
        if m.config.is_machine:
            told.setdefault(m.host, []).append(m.guest)
    lines = [f"{host}: {line}" for host, facts in told.items() for line in _summary(facts, ", ", " ")]
    return Section(title="machines that the plugin did not make", lines=tuple(lines))


def _around(run: Run) -> Section:
    """What each host was like, in a line; the host is named where there are several."""
    states: dict[str, list[Mapping[str, str]]] = {}
    for m in run.measurements:
        if m.around is not None:
            states.setdefault(m.host, []).append(host_words(m.around))
    lines = [
        f"{f'{host}: ' if len(states) > 1 else ''}{line}"
        for host, rows in states.items()
        for line in _summary(rows, ", ", " ")
    ]
    return Section(title="host around the rounds", lines=tuple(lines))


def _hygiene(run: Run) -> Section:
    return Section(title="before each round", lines=_summary([m.hygiene for m in run.measurements], "; ", ": "))


def _proof(run: Run) -> Section:
    """What every row with a proof has proven of itself, what not and why, and what makes no difference there."""
    rows = [m for m in run.measurements if m.proof]
    fields = list(dict.fromkeys(proof.field for m in rows for proof in m.proof))
    everywhere = [name for name in fields if all(name in proven_fields(m.proof) for m in rows if _has(m, name))]
    lines = [f"proven: {', '.join(everywhere)}"] if everywhere else []
    lines += [f"{said}{_in_rows(count, len(rows))}" for said, count in _reservations(rows)]
    return Section(title="proof, before the first I/O", lines=tuple(lines))


def _has(m: Measurement, field: str) -> bool:
    """Whether the row has that field at all: without a guest, or without storage, it has few."""
    return not m.lacks(field) or any(proof.field == field for proof in m.proof)


def _reservations(rows: Sequence[Measurement]) -> Iterable[tuple[str, int]]:
    """What makes no difference, and what could not be proven: fields with one reason together, and in how many rows."""
    idle: dict[str, int] = {}
    unproven: dict[str, dict[str, int]] = {}
    for m in rows:
        proven = proven_fields(m.proof)
        for field, why in dict.fromkeys((p.field, p.why) for p in m.proof if p.status == "unprovable"):
            if why.startswith(IDLE):
                idle[f"{field}: {why}"] = idle.get(f"{field}: {why}", 0) + 1
            elif field not in proven:
                fields = unproven.setdefault(why, {})
                fields[field] = fields.get(field, 0) + 1
    for why, fields in unproven.items():
        for count in dict.fromkeys(fields.values()):
            names = [name for name, times in fields.items() if times == count]
            yield f"not provable here: {', '.join(names)} ({why})", count
    yield from idle.items()


def _in_rows(count: int, rows: int) -> str:
    return "" if count == rows else f" [{count} of {rows} measurements]"


def _summary(facts: Sequence[Mapping[str, str]], between: str, after_name: str) -> tuple[str, ...]:
    """One line that names every fact once, with all its values where rows differ; none without facts."""
    values: dict[str, dict[str, None]] = {}
    for each in facts:
        for name, value in each.items():
            values.setdefault(name, {})[value] = None
    line = between.join(f"{name}{after_name}{' / '.join(there)}" for name, there in values.items())
    return (line,) if line else ()

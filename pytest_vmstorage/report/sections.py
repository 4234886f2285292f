"""The sections under the matrix: outcomes of tests, the comparison in brief, notes, reasons in full; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.analysis.axis_effects import Moved
from pytest_vmstorage.analysis.columns import function_of
from pytest_vmstorage.analysis.gate.kinds import KINDS, Kind
from pytest_vmstorage.analysis.gate.verdicts import Comparison, Verdict
from pytest_vmstorage.analysis.shared_values import Compared, shared_by
from pytest_vmstorage.analysis.yardsticks import Yardsticks
from pytest_vmstorage.config.cell import AXES, axis_text
from pytest_vmstorage.report.details import (
    caution_lines,
    cost_lines,
    effect_lines,
    ending_lines,
    host_words,
    native_lines,
    unsteady_lines,
)
from pytest_vmstorage.results.host import EMULATED, FACTS, HostFacts
from pytest_vmstorage.results.run import IDLE, Failure, Measurement, Run, proven_fields
from pytest_vmstorage.results.saved import host_of
from pytest_vmstorage.text import plain_line
from pytest_vmstorage.units import format_about


def summary_lines(comparison: Comparison) -> Iterator[str]:
    """The number of primary figures by verdict, and the changes in the host's software since the baseline."""
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
        yield f"changes of the host since then: {', '.join(comparison.stack)}"
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
    """A primary figure's loss with its interval: "+12.4 % (+9 % to +16 %)", "" where none was found."""
    found = verdict.finding
    if found is None or found.loss is None:
        return ""
    told = f"{found.loss * 100:+.3g} %"
    if found.interval is None:
        return told
    return f"{told} ({found.interval.low * 100:+.3g} % to {found.interval.high * 100:+.3g} %)"


def note_lines(measured: Sequence[Measurement]) -> Iterator[str]:
    """A line for each note with its tests, and the number of their rows where not all have it."""
    of_test = Counter(function_of(m.nodeid) for m in measured)
    rows: dict[str, Counter[str]] = {}
    for m in measured:
        for note in m.notes:
            rows.setdefault(note, Counter())[function_of(m.nodeid)] += 1
    for note, tests in rows.items():
        named = (t if n == of_test[t] else f"{t} ({n} of {of_test[t]} rows)" for t, n in tests.items())
        yield f"{', '.join(named)}: {note}"


_RED = ("failed", "error")
_ORDER = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")

_MARKS = {
    "failed": ("FAIL", "its test failed"),
    "error": ("ERROR", "its test failed in set-up or teardown"),
    "skipped": ("SKIP", "its test was skipped after it had measured"),
    "xfailed": ("XFAIL", "its test failed, as its mark expects"),
    "xpassed": ("XPASS", "its test passed, and its mark expects otherwise"),
}
LEGENDS = {mark: f"{mark} {meaning}" for mark, meaning in _MARKS.values()}
"""The meaning of each mark, for the legend."""


def mark_of(m: Measurement, verdict: Verdict | None) -> str:
    """The mark, such as "FAIL", of figures whose test did not simply pass; otherwise "".

    A test that the gate skipped or expects to fail shows the verdict on its primary metric instead.
    """
    by_gate = verdict is not None and (verdict.is_open or verdict.waiver is not None)
    return "" if by_gate and m.outcome in ("skipped", "xfailed") else _MARKS.get(m.outcome, ("", ""))[0]


def tally(run: Run) -> str:
    """How many tests of the run passed, failed and so on: "46 passed, 2 FAILED"; "" where that is unknown.

    These are storage tests and those between cells, and any other that failed.
    """
    found: dict[str, str] = {one.nodeid: one.outcome for one in run.rowless}
    found |= {failure.nodeid: failure.test_outcome or failure.outcome for failure in run.failures}
    found |= {m.nodeid: m.outcome for m in run.measurements if m.outcome or m.nodeid not in found}
    counts = Counter(found.values())
    if run.measurements and not any(m.outcome for m in run.measurements):
        return ""
    words = {"failed": "FAILED", "error": "ERROR" if counts["error"] == 1 else "ERRORS"}
    said = [f"{counts[name]} {words.get(name, name)}" for name in _ORDER if counts[name]]
    return ", ".join([*said, *([f"{counts['']} not reported"] if counts[""] else [])])


def failed_lines(run: Run, comparison: Comparison | None) -> Iterator[str]:
    """A line with the reason for each test that failed, unless the comparison or a cell without a figure has it."""
    shown = dict.fromkeys(
        (function_of(m.nodeid), m.config.label, m.host, m.message) for m in _failed_rows(run, comparison)
    )
    for function, label, host, message in shown:
        yield f"{function} on {label}, {host}: {message}"
    for one in run.rowless:
        if one.outcome in _RED:
            yield f"{one.nodeid}: {one.message}"


def count_failed(run: Run, comparison: Comparison | None) -> int:
    """The number of tests that failed, without those that the comparison failed."""
    rows = {m.nodeid for m in _failed_rows(run, comparison)}
    cells = {f.nodeid for f in run.failures if (f.test_outcome or f.outcome) in _RED}
    return len(rows | cells | {one.nodeid for one in run.rowless if one.outcome in _RED})


def _failed_rows(run: Run, comparison: Comparison | None) -> Iterator[Measurement]:
    told = {plain_line(verdict.reason) for verdict in comparison.gated} if comparison else set()
    return (m for m in run.measurements if m.outcome in _RED and m.message not in told)


class Section(BaseModel):
    """A title and its lines; a line is one fact or sentence and may be wrapped."""

    model_config = ConfigDict(frozen=True)

    title: str
    lines: tuple[str, ...]


def build_sections(run: Run, comparison: Comparison | None, moved: Sequence[Moved] = ()) -> tuple[Section, ...]:
    """All sections that have lines, in reading order; `moved` are the effects of the run's axes."""
    measured = run.measurements
    ours = [m for m in measured if not m.config.is_machine]
    parts: list[tuple[str, Iterable[str]]] = [
        ("failed cells", cells_without_figure(run, "failed")),
        ("skipped cells", cells_without_figure(run, "skipped")),
        ("failed tests", failed_lines(run, comparison)),
        *(_comparison(comparison) if comparison else ()),
        ("left out", left_out_lines(run)),
        ("notes", note_lines(measured)),
        ("what moves what", effect_lines(moved)),
        *(_host(run, host_of(run, name)) for name in host_names(run)),
        ("what speaks against figures", caution_lines(measured)),
        ("rounds of --vm-rounds=auto", ending_lines(measured)),
        ("not steady", unsteady_lines(measured)),
        (_yardsticks_title(run), native_lines(run)),
        ("which layer served the rounds", _served(run)),
        ("cost beside speed: what QEMU took for each I/O of the guest", cost_lines(measured)),
        ("proof, before the first I/O", _proof(run)),
        ("guest", _facts_line(m.guest for m in ours if not m.on_host)),
        ("tools of rows without a guest", _facts_line(m.guest for m in ours if m.on_host)),
        ("machines that the plugin did not make", _machines(run)),
        ("host around the rounds", _around(run)),
        ("before each round", _facts_line((m.hygiene for m in measured), "; ", ": ")),
    ]
    sections = (Section(title=title, lines=tuple(lines)) for title, lines in parts)
    return tuple(section for section in sections if section.lines)


def _yardsticks_title(run: Run) -> str:
    """The title of the section that compares rows with the native row, the null row, or both."""
    rows = Yardsticks(run.measurements)
    there = ["the native row of the same device"] if any(rows.native_of(m) for m in run.measurements) else []
    there += ["the null row of the same bus"] if any(rows.null_of(m) for m in run.measurements) else []
    return f"against {' and '.join(there)}"


def host_names(run: Run) -> tuple[str, ...]:
    """Every host that a row was measured on, in the order met."""
    return tuple(dict.fromkeys([*(m.host for m in run.measurements), *(f.host for f in run.failures)]))


def cells_without_figure(run: Run, outcome: str) -> Iterator[str]:
    """A line with the reason for each cell of that outcome, "failed" or "skipped"."""
    for f in run.failures:
        if f.outcome == outcome:
            yield f"{function_of(f.nodeid)} on {f.config.label}, {f.host}: {f.reason}"


def _comparison(comparison: Comparison) -> Iterator[tuple[str, Iterable[str]]]:
    of = {kind: [verdict for verdict in comparison.gated if verdict.kind is kind] for kind in Kind}
    yield f"against {comparison.against}", summary_lines(comparison)
    for kind, record in KINDS.items():
        if record.title:
            yield record.title, [verdict.reason for verdict in of[kind] if not verdict.waiver]
        if kind is Kind.REGRESSED:
            yield f"{record.title}, and waived", [f"{one.reason} {one.waiver}" for one in of[kind] if one.waiver]
    yield "measured before and not in this run", [f"{m.about} ({function_of(m.nodeid)})" for m in comparison.missing]


def left_out_lines(run: Run) -> Iterator[str]:
    """A line for operations that rows do not have because nothing there can do them, with the reason."""
    rows: dict[tuple[str, str], dict[str, None]] = {}
    for m in run.measurements:
        for one in m.left_out:
            if one.metric.unit == "s":
                rows.setdefault((str(m.config), one.why), {})[one.metric.name] = None
    lines: dict[tuple[str, str], list[str]] = {}
    for (cell, why), names in rows.items():
        lines.setdefault((", ".join(names), why), []).append(cell)
    return (f"{names} of {', '.join(cells)}: {why}" for (names, why), cells in lines.items())


def _host(run: Run, host: HostFacts) -> tuple[str, Sequence[str]]:
    memory = format_about(host.memory_bytes) if host.memory_bytes else "unknown"
    hardware = f"{host.cpu}, {host.cores or 'unknown'} cores, {memory} memory"
    hardware += "".join(f", {fact.shown} {getattr(host, name)}" for name, fact in FACTS.items() if fact.shown)
    if host.is_machine:
        stated = ", ".join(f"{name} {value}" for name, value in host.stated.items())
        return f"machine {host.name}, which the plugin did not make", [
            hardware,
            f"kernel {host.kernel}; it says that it runs on: {host.accel.removesuffix(' (said)')}",
            f"measured in {host.folder or 'unknown'} on {host.file_system}, device {host.device}",
            *([f"stated by vmstorage.toml, which nothing here can prove: {stated}"] if stated else []),
        ]
    # a host without rows may have had guests
    rows: tuple[Measurement | Failure, ...] = (*run.measurements, *run.failures)
    on_host = [row.on_host for row in rows if row.host == host.name]
    has_guests = not (on_host and all(on_host))
    because = f"; {host.accel_reason.rstrip('.')}" if host.accel_reason else ""
    return f"host {host.name}", [
        hardware,
        f"kernel {host.kernel}, QEMU {host.qemu}, libvirt {host.libvirt}",
        f"acceleration {host.accel} (asked: {host.accel_requested}{because})",
        f"disks in {host.folder or 'unknown'} on {host.file_system}, device {host.device}",
        *([host.calibrated] if host.calibrated else []),
        *([EMULATED] if host.is_emulated and has_guests else []),
    ]


def host_lines(run: Run) -> Iterator[str]:
    """A line for each host that rows are of: its acceleration first, its CPU, which has the longest name, last."""
    rows: tuple[Measurement | Failure, ...] = (*run.measurements, *run.failures)
    for name in host_names(run):
        host = host_of(run, name)
        cores = f"{host.cores or 'unknown number of'} cores"
        if host.is_machine:
            yield f"machine {host.name}, {host.accel}, {cores}, {host.cpu}"
        elif all(row.on_host or row.config.is_native for row in rows if row.host == name):
            yield f"host {host.name}, without guests, {cores}, {host.cpu}"
        else:
            emulated = " (emulated: figures say nothing about speed)" if host.is_emulated else ""
            yield f"host {host.name}, {host.accel}{emulated}, QEMU {host.qemu}, {cores}, {host.cpu}"


def _served(run: Run) -> Iterator[str]:
    """A line for each layer that answered: without it a figure of the host's page cache passes for one of the disk."""
    rows: dict[str, list[str]] = {}
    for m in run.measurements:
        if m.served_by:
            rows.setdefault(f"{m.workload}: {m.served_by}", []).append(str(m.config))
    for sentence, cells in rows.items():
        yield f"{sentence} ({cells[0] if len(cells) == 1 else f'{len(cells)} rows'})"


def _machines(run: Run) -> Iterator[str]:
    """A line for each foreign machine, with its facts."""
    told: dict[str, list[Mapping[str, str]]] = {}
    for m in run.measurements:
        if m.config.is_machine:
            told.setdefault(m.host, []).append(m.guest)
    return (f"{host}: {line}" for host, facts in told.items() for line in _facts_line(facts))


def _around(run: Run) -> Iterator[str]:
    """A line for the state of each host, which is named where there are several."""
    states: dict[str, list[Mapping[str, str]]] = {}
    for m in run.measurements:
        if m.around is not None:
            states.setdefault(m.host, []).append(host_words(m.around))
    prefixes = {host: f"{host}: " if len(states) > 1 else "" for host in states}
    return (f"{prefixes[host]}{line}" for host, rows in states.items() for line in _facts_line(rows))


def _proof(run: Run) -> Iterator[str]:
    """The fields that every row with a proof has proven, those that it could not and why, and those without effect."""
    rows = [m for m in run.measurements if m.proof]
    fields = list(dict.fromkeys(proof.field for m in rows for proof in m.proof))
    everywhere = [name for name in fields if all(name in proven_fields(m.proof) for m in rows if _has(m, name))]
    if everywhere:
        yield f"proven: {', '.join(everywhere)}"
    for said, count in _reservations(rows):
        yield said if count == len(rows) else f"{said} [{count} of {len(rows)} measurements]"


def _has(m: Measurement, field: str) -> bool:
    """Whether the row has that field: without a guest, or without storage, it has few."""
    return not m.lacks(field) or any(proof.field == field for proof in m.proof)


def _reservations(rows: Sequence[Measurement]) -> Iterable[tuple[str, int]]:
    """The fields that could not be proven, by reason, then those without effect, each with its number of rows."""
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


def _facts_line(facts: Iterable[Mapping[str, str]], between: str = ", ", after_name: str = " ") -> Iterator[str]:
    """One line that names every fact once, with all its values where rows differ; none without facts."""
    values: dict[str, dict[str, None]] = {}
    for each in facts:
        for name, value in each.items():
            values.setdefault(name, {})[value] = None
    if values:
        yield between.join(f"{name}{after_name}{' / '.join(there)}" for name, there in values.items())

"""A baseline's history for readers: text with one column a day, Markdown, and JSON; pure."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta

from pytest_vmstorage.analysis.history.history import BaselineHistory, HistoryFinding, HistoryLine, HistoryMark
from pytest_vmstorage.results.host import EMULATED
from pytest_vmstorage.text import plain_line, plain_markdown
from pytest_vmstorage.units import format_figure

_LEVELS = "▁▂▃▄▅▆▇█"
_GAP = "·"
_SIGNS: Mapping[str, str] = {
    "kernel": "k",
    "QEMU": "Q",
    "libvirt": "L",
    "the firmware": "f",
    "the guest image": "i",
    "the domain XML": "x",
    "pytest-vmstorage": "p",
}
"""The letter of a mark in a chart by how its sentence begins; `+` for several on one day, `*` for any other."""

_SHOWN_LINES = 12
_NARROW = 20


def history_lines(history: BaselineHistory, width: int, *, every_line: bool = False) -> list[str]:
    """The text: what was looked at, each finding with its days, and with `every_line` each cell's days.

    A chart has one column a day, the newest last, and as many days as fit the width.
    """
    lines = [*_wrapped(headline(history), width, ""), *_wrapped(str(history.census), width, "")]
    for number, finding in enumerate(history.findings, 1):
        lines += ["", *_finding_lines(number, finding, history, width)]
    for remark in remarks(history):
        lines += ["", *_wrapped(remark, width, "  ")]
    for line in history.lines[:_SHOWN_LINES] if every_line else ():
        lines += ["", *_line_lines(line, history, width)]
    if every_line and len(history.lines) > _SHOWN_LINES:
        lines += ["", f"and {len(history.lines) - _SHOWN_LINES} more cells: --cell names fewer"]
    if signs := [f"{letter} {name}" for letter, name in letters_used(history)]:
        lines += ["", *_wrapped(f"marks: {', '.join(signs)}; {_GAP} a day without a figure", width, "  ")]
    return lines


def remarks(history: BaselineHistory) -> Iterator[str]:
    """Sentences beside the findings: that there is none, what was too small, what lapsed, what emulation means."""
    if not history.findings and history.census.judged:
        yield "no change was found"
    if count := history.census.too_small:
        yield f"{count} change{'s' * (count != 1)} below the smallest that is told"
    yield from (f"lapsed: {lapse.reason}" for lapse in history.lapsed)
    if history.emulated:
        yield EMULATED


def headline(history: BaselineHistory) -> str:
    """The baseline with its days."""
    if history.first is None or history.last is None:
        return f"history of baseline {history.name!r}: no saved day"
    hosts = dict.fromkeys(line.host for line in history.lines)
    days = f"{history.days} day{'s' * (history.days != 1)} from {history.first} to {history.last}"
    return f"history of baseline {history.name!r}: {days}, host{'s' * (len(hosts) != 1)} {', '.join(hosts)}"


def sentence(finding: HistoryFinding, lines: Sequence[HistoryLine]) -> str:
    """The finding: since when, how large, in which cells."""
    first = lines[finding.lines[0]]
    if finding.kind == "step":
        when = f"since {finding.on}" if finding.on - finding.after == timedelta(1) else _since(finding)
    else:
        when = f"creeping from {finding.after} to {finding.on}"
    size = f"{_percent(finding.change)} {'time per operation' if first.metric.better != 'neither' else finding.way}"
    if len(finding.lines) > 1:
        size += f" ({_percent(finding.least)} to {_percent(finding.most)})"
    sure = len(finding.sure)
    some = "" if sure >= len(finding.lines) else f" ({sure} of them beyond doubt by themselves)"
    return f"{when}: {finding.way}, {size}, {finding.where}{some}"


def _since(finding: HistoryFinding) -> str:
    return f"since {finding.after + timedelta(1)} to {finding.on}"


def _percent(fraction: float) -> str:
    value = round(fraction * 100, 1) + 0.0
    return f"{value:+.3g} %"


def explanations(finding: HistoryFinding) -> list[str]:
    """What changed in these days, or that nothing is known to have; who accepted it; what says more."""
    told = [f"{mark.what} ({mark.host}, {mark.on})" for mark in finding.marks]
    if finding.kind == "step" and not told:
        told = [
            "unexplained: no change is known of kernel, QEMU, libvirt, firmware, guest image, domain XML and plugin"
        ]
    if finding.accepted is not None:
        told.append(str(finding.accepted))
    return [*told, *(f"to narrow it: {command}" for command in finding.narrowing)]


def _finding_lines(number: int, finding: HistoryFinding, history: BaselineHistory, width: int) -> Iterator[str]:
    yield from _wrapped(f"{number}. {sentence(finding, history.lines)}", width, "   ")
    for told in explanations(finding):
        yield from (f"   {line}" for line in _wrapped(told, width - 3, "  "))
    cells = [history.lines[place] for place in finding.lines]
    levels = relative_levels(cells)
    marks = [mark for mark in history.marks if mark.host in {cell.host for cell in cells}]
    until = finding.on
    yield from _chart(levels, marks, width - 3, until, (finding.after, finding.on))
    cell = cells[0]
    values = {day.day: day.value for day in cell.days}
    before = [value for day, value in values.items() if day <= finding.after]
    after = [value for day, value in values.items() if day >= finding.on]
    if finding.kind == "step" and before and after:
        old, new = (format_figure(statistics.median(side), cell.metric.unit) for side in (before, after))
        yield from (
            f"   {line}" for line in _wrapped(f"{cell.about}: {cell.metric.name} {old}, then {new}", width - 3, "  ")
        )


def relative_levels(cells: Sequence[HistoryLine]) -> dict[date, float]:
    """By day the median of the cells' times per operation, each as a shift of logarithms from that cell's median."""
    found: dict[date, list[float]] = {}
    for cell in cells:
        logs = [math.log(day.value) * (1 if cell.metric.better == "lower" else -1) for day in cell.days]
        middle = statistics.median(logs) if logs else 0.0
        for day, log in zip(cell.days, logs, strict=True):
            found.setdefault(day.day, []).append(log - middle)
    return {day: statistics.median(values) for day, values in sorted(found.items())}


def _chart(
    levels: Mapping[date, float],
    marks: Sequence[HistoryMark],
    width: int,
    shown: date | None = None,
    span: tuple[date, date] | None = None,
) -> Iterator[str]:
    """Rows of one column a day: the levels, marks of what changed, and the span; with the days at its ends."""
    if not levels:
        return
    first, last = _window(min(levels), max(levels), max(width, _NARROW), shown)
    days = [first + timedelta(number) for number in range((last - first).days + 1)]
    inside = [levels[day] for day in days if day in levels]
    low, high = (min(inside), max(inside)) if inside else (0.0, 0.0)
    yield f"   {''.join(_level(levels[day], low, high) if day in levels else _GAP for day in days)}"
    signs = "".join(_sign([mark for mark in marks if mark.on == day]) for day in days)
    if signs.strip():
        yield f"   {signs.rstrip()}"
    if span is not None:
        yield f"   {''.join(_bracket(day, *span) for day in days).rstrip()}"
    rest = len(days) - len(str(first)) - len(str(last))
    yield f"   {first}{' ' * rest}{last}" if rest > 0 else f"   {first} to {last}"
    if inside:
        yield f"   {_LEVELS[0]} to {_LEVELS[-1]}: {_percent(math.expm1(high - low))} time per operation"


def _window(first: date, last: date, width: int, shown: date | None) -> tuple[date, date]:
    """As many days as fit, the newest or those around the one that is to be shown."""
    if (last - first).days < width:
        return first, last
    end = last if shown is None else min(last, max(shown + timedelta(width // 3), first + timedelta(width - 1)))
    return end - timedelta(width - 1), end


def _level(value: float, low: float, high: float) -> str:
    share = (value - low) / (high - low) if high > low else 0.0
    return _LEVELS[min(len(_LEVELS) - 1, int(share * len(_LEVELS)))]


def _sign(marks: Sequence[HistoryMark]) -> str:
    letters = {letter_of(mark) for mark in marks}
    if len(letters) > 1:
        return "+"
    return letters.pop() if letters else " "


def letter_of(mark: HistoryMark) -> str:
    """The letter of a mark: `*` where it has none of its own."""
    return next((letter for name, letter in _SIGNS.items() if mark.what.startswith(name)), "*")


def letters_used(history: BaselineHistory) -> Iterator[tuple[str, str]]:
    """The letters of the history's marks, with what they stand for."""
    used = {letter_of(mark) for mark in history.marks}
    for name, letter in _SIGNS.items():
        if letter in used:
            yield letter, name
    if "*" in used:
        yield "*", "another change"


def _bracket(day: date, after: date, on: date) -> str:
    if after < day <= on:
        return "^"
    return " "


def _line_lines(line: HistoryLine, history: BaselineHistory, width: int) -> Iterator[str]:
    """A cell with its figure of the last day and its days."""
    why = f", not judged: {line.why_not}" if line.why_not else ""
    if not line.days:
        yield from _wrapped(f"{line.about}{why}", width, "  ")
        return
    last = line.days[-1]
    figure = f"{line.metric.name} {format_figure(last.value, line.metric.unit)} on {last.day}"
    yield from _wrapped(f"{line.about}: {figure}{why}", width, "  ")
    own = [mark for mark in history.marks if mark.host == line.host]
    yield from _chart(relative_levels([line]), own, width - 3)


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(
        plain_line(text), max(width, _NARROW), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def render_markdown_history(history: BaselineHistory) -> str:
    """The findings as a list, the days of each as a chart in code, and the census; GitHub-flavoured."""
    parts = [f"## {plain_markdown(headline(history))}", plain_markdown(str(history.census))]
    for number, finding in enumerate(history.findings, 1):
        items = [f"- {plain_markdown(told)}" for told in explanations(finding)]
        cells = [history.lines[place] for place in finding.lines]
        chart = _chart(relative_levels(cells), history.marks, 100, finding.on, (finding.after, finding.on))
        code = "\n".join(line.removeprefix("   ") for line in chart)
        parts += [f"### {number}. {plain_markdown(sentence(finding, history.lines))}", "\n".join(items)]
        parts.append(f"```text\n{code}\n```")
    if told := [f"- {plain_markdown(remark)}" for remark in remarks(history)]:
        parts.append("\n".join(told))
    return "\n\n".join(part for part in parts if part) + "\n"


def render_json_history(history: BaselineHistory) -> str:
    """The whole value, readable by `BaselineHistory.model_validate_json`; findings name lines by their numbers."""
    return history.model_dump_json(indent=1) + "\n"


HISTORY_RENDERERS: Mapping[str, Callable[[BaselineHistory], str]] = {
    "text": lambda history: "\n".join(history_lines(history, 100)) + "\n",
    "markdown": render_markdown_history,
    "json": render_json_history,
}
"""The forms of a history by the words of --format, but for the page."""

HISTORY_SUFFIXES: Mapping[str, str] = {".txt": "text", ".md": "markdown", ".json": "json", ".html": "html"}

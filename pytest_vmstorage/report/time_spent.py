"""The time of a run for readers: a line below the matrix, and tables by step and by cell."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

from tabulate import tabulate

from pytest_vmstorage.results.timeline import MEANINGS, STEPS, Timeline, by_cell, by_group, by_step, wall_s
from pytest_vmstorage.units import format_duration

_SHOWN_SHARE = 0.01


def time_line(timelines: Sequence[Timeline]) -> str:
    """The line below the matrix, "" for a run that was saved without its times; the end of pytest is not part of it."""
    whole_s = wall_s(timelines)
    if not whole_s:
        return ""
    groups = by_group(by_step(timelines))
    shown = {group: seconds for group, seconds in groups.items() if seconds >= _SHOWN_SHARE * whole_s}
    rest_s = sum(groups.values()) - sum(shown.values())
    parts = [
        f"{share_text(seconds, whole_s)} {'in ' * (group == 'windows')}{group}" for group, seconds in shown.items()
    ]
    parts += [f"{share_text(rest_s, whole_s)} other steps"] if rest_s else []
    unaccounted_s = sum(one.unaccounted_s for one in timelines)
    return f"time: {format_duration(whole_s)}: {', '.join(parts)}; {share_text(unaccounted_s, whole_s)} unaccounted"


def time_lines(timelines: Sequence[Timeline]) -> list[str]:
    """The tables of `vmstorage time`: by step, and by cell."""
    whole_s = wall_s(timelines)
    return [time_line(timelines), "", *_steps(timelines, whole_s), "", *_cells(timelines)]


def _steps(timelines: Sequence[Timeline], whole_s: float) -> list[str]:
    took: defaultdict[str, list[float]] = defaultdict(list)
    beside: defaultdict[str, float] = defaultdict(float)
    for timeline in timelines:
        for own in timeline.own:
            took[own.step].append(own.own_s)
        for span in timeline.spans:
            if span.thread:
                beside[span.step] += span.own_s
    rows = []
    for step in [*STEPS, *sorted({*took, *beside} - set(STEPS))]:
        if step in took or step in beside:
            times = took.get(step, [])
            longest = [f"{statistics.median(times):.3f}", f"{max(times):.3f}"] if times else ["", ""]
            threads = f"{beside[step]:.2f}" if step in beside else ""
            shares = [f"{sum(times):.2f}", share_text(sum(times), whole_s), str(len(times))]
            rows.append([step, *shares, *longest, threads, MEANINGS.get(step, "")])
    unaccounted_s = sum(one.unaccounted_s for one in timelines)
    rows.append(["unaccounted", f"{unaccounted_s:.2f}", share_text(unaccounted_s, whole_s), "", "", "", "", ""])
    header = ["step", "s", "share", "times", "median s", "longest s", "s beside", "what is done"]
    return _draw(header, rows, align=("left", *["right"] * 6, "left"))


def _cells(timelines: Sequence[Timeline]) -> list[str]:
    cells = {cell: by_group(steps) for cell, steps in by_cell(timelines).items() if cell}
    groups = list(dict.fromkeys(step.group for step in STEPS.values()))
    shown = [group for group in groups if any(cell.get(group) for cell in cells.values())]
    rows = [
        [cell, f"{sum(took.values()):.2f}", *(f"{took[group]:.2f}" if group in took else "" for group in shown)]
        for cell, took in cells.items()
    ]
    header = ["cell", "s", *shown]
    return _draw(header, rows, align=("left", *["right"] * (len(shown) + 1))) if rows else []


def _draw(header: Sequence[str], rows: Sequence[Sequence[str]], *, align: Sequence[str]) -> list[str]:
    text = tabulate(rows, header, tablefmt="simple", disable_numparse=True, colalign=align)
    return [line.rstrip() for line in text.splitlines()]


def share_text(part: float, whole: float) -> str:
    """A part of the run's time in per cent: "34 %", "0.4 %"."""
    percent = 100 * part / whole if whole else 0.0
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.1f} %"

"""A host's calibration as text for a terminal and as Markdown: one table for each thing that was measured; pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tabulate import tabulate

from pytest_vmstorage.analysis.calibration import DIFFERENCES, MARGIN, Calibration, Equality, Noise, Sameness, Yardstick
from pytest_vmstorage.results.host import EMULATED
from pytest_vmstorage.results.run import Steadiness
from pytest_vmstorage.units import format_duration, format_figure

_VERDICTS: dict[Sameness, str] = {
    "equal": f"equal within {MARGIN * 100:.0f} %",
    "differs": f"differ by over {MARGIN * 100:.0f} %",
    "open": "not decided",
}
_NONE = "-"


class _Table(NamedTuple):
    """A table; the columns of `figures` have numbers, the others words."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    figures: range


def calibration_lines(calibration: Calibration, width: int) -> list[str]:
    """The lines to print, sentences at most `width` characters wide; a table takes up to 105."""
    head = (line for sentence in _head(calibration) for line in textwrap.wrap(sentence, width, subsequent_indent="  "))
    return [*head, *(line for table in _tables(calibration) for line in ("", *_as(table, "simple")))]


def calibration_markdown(calibration: Calibration) -> list[str]:
    """The lines of a page: a list of the facts, and the tables."""
    head = [f"- {line}" for line in _head(calibration)]
    return [*head, *(line for table in _tables(calibration) for line in ("", *_as(table, "github")))]


def doctor_lines(calibration: Calibration) -> list[str]:
    """What a diagnosis of the host says of it: noise, and on which buses guests are restored by default."""
    rounds = [f"{_percent(one.round)} ({_short(one.workload)})" for one in calibration.noise]
    return [f"{calibration.id} of {calibration.day}: rounds differ by {' and '.join(rounds)}", *calibration.beginnings]


def _head(calibration: Calibration) -> Iterator[str]:
    host = calibration.host
    taken = f"in {format_duration(calibration.seconds)} of {format_duration(calibration.limit_s)}"
    yield f"calibration {calibration.id} of {calibration.started.replace('T', ' ')}, {taken}"
    yield f"host {host.name}: {host.cpu}, {host.cores} cores, governor {host.governor}"
    yield f"kernel {host.kernel}, QEMU {host.qemu}, libvirt {host.libvirt}, acceleration {host.accel}"
    yield f"disks in {host.folder} on {host.file_system}, device {host.device}"
    if host.is_emulated:
        yield EMULATED
    times = ((calibration.booted_s, "to boot a guest"), (calibration.restored_s, "to restore one"))
    told = [f"{format_duration(seconds)} {what}" for seconds, what in times if seconds is not None]
    if calibration.around_s is not None:
        told.append(f"{format_duration(calibration.around_s)} around the window of a round")
    if told:
        yield f"times: {', '.join(told)} (medians)"
    waited = [f"{name} {_percent(part)}" for name, part in calibration.pressed.items()]
    if waited:
        yield f"part of a round in which some task of the host waited (median): {', '.join(waited)}"
    if calibration.others_cpu is not None:
        yield f"other QEMU processes took up to {_percent(calibration.others_cpu)} of one CPU"
    yield f"workloads: {'; '.join(one.workload for one in calibration.noise) or 'none'}"
    yield from _left_out(calibration)


def _left_out(calibration: Calibration) -> Iterator[str]:
    """A line for each reason, with all steps that it is of."""
    reasons: dict[str, list[str]] = {}
    for clause in calibration.left_out:
        what, _, why = clause.partition(": ")
        reasons.setdefault(why, []).append(what)
    for why, steps in reasons.items():
        yield f"left out: {', '.join(steps)}{why and f': {why}'}"


def _tables(calibration: Calibration) -> Iterator[_Table]:
    if calibration.noise:
        sizes = "/".join(f"{one * 100:.0f}" for one in DIFFERENCES) + " %"
        header = ["noise", "median", "rounds differ", "guests differ", f"rounds {sizes}", f"pairs {sizes}"]
        yield _Table(header, [_noise(one) for one in calibration.noise], figures=range(1, 6))
    if calibration.warmth:
        rows = [(_short(one.workload), f"{one.first:.2f}", _steadiness(one.after)) for one in calibration.warmth]
        yield _Table(("warm-up", "first round over later ones", "after it"), rows, figures=range(1, 2))
    compared = [(f"restored/booted {one.bus}", each) for one in calibration.restored for each in one.compared]
    compared += [("plugin/bare virtio-blk", each) for each in calibration.bare]
    if compared:
        header = ["ratio of speeds", "", "median", "95 % interval", "pairs", "needed", "found"]
        yield _Table(header, [_equality(what, one) for what, one in compared], figures=range(2, 6))
    if calibration.yardsticks:
        header = ["yardstick", "", "median", "rounds", "guest over it"]
        yield _Table(header, [_yardstick(one) for one in calibration.yardsticks], figures=range(2, 5))


def _noise(one: Noise) -> tuple[str, ...]:
    counts = (
        "/".join(str(count) if count is not None else ">1000" for count in map(find, DIFFERENCES))
        for find in (one.rounds_to_see, one.pairs_to_see)
    )
    return (_short(one.workload), format_figure(one.figure, one.unit), _percent(one.round), _percent(one.boot), *counts)


def _steadiness(found: Steadiness) -> str:
    if found.range is None or found.slope is None:
        return str(found)
    judged = "steady" if found.is_steady else "not steady"
    return f"{judged} over {found.rounds} rounds: range {found.range * 100:.0f} %, slope {found.slope * 100:+.0f} %"


def _equality(what: str, one: Equality) -> tuple[str, ...]:
    interval = f"{one.low:.3f} to {one.high:.3f}" if one.low is not None and one.high is not None else _NONE
    needed = str(one.needed) if one.needed is not None else ">1000"
    return (what, _short(one.workload), f"{one.ratio:.3f}", interval, str(one.pairs), needed, _VERDICTS[one.verdict])


def _yardstick(one: Yardstick) -> tuple[str, ...]:
    low, high = (format_figure(value, one.unit) for value in (one.low, one.high))
    over = _percent(one.guest_over)
    return (one.place, _short(one.workload), format_figure(one.figure, one.unit), f"{low} to {high}", over)


def _short(workload: str) -> str:
    """What tells the workloads of a calibration apart: reads from writes."""
    return workload.split()[1]


def _percent(fraction: float) -> str:
    """A fraction with two digits: "0.45 %", "3.1 %", "12 %"."""
    value = fraction * 100
    return f"{value:.0f} %" if value >= 9.95 else f"{value:.1f} %"


def _as(table: _Table, form: str) -> Sequence[str]:
    align = ["right" if column in table.figures else "left" for column in range(len(table.header))]
    text = tabulate(table.rows, table.header, tablefmt=form, disable_numparse=True, colalign=align)
    return [line.rstrip() for line in text.splitlines()]

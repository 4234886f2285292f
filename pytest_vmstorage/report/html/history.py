"""A baseline's history as a section of the page: what changed since when, and a line of days for each cell; pure.

A cell's line is its figure day by day, with the smallest and largest guest of the day as a shade around it. Days
without a figure part the line. The span in which a change came is shaded, and what changed around the cell (kernel,
QEMU, libvirt, guest image, domain XML) stands as an upright line on its day, with its letter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from itertools import pairwise

from pytest_vmstorage.analysis.history.history import (
    BaselineHistory,
    HistoryDay,
    HistoryFinding,
    HistoryLine,
    HistoryMark,
)
from pytest_vmstorage.report.history import explanations, headline, letter_of, letters_used, remarks, sentence
from pytest_vmstorage.report.html.markup import Markup, items, shown, tag
from pytest_vmstorage.report.html.page import Part, document
from pytest_vmstorage.report.html.svg import (
    Axis,
    Frame,
    Point,
    Tick,
    band,
    box,
    curve,
    line,
    linear_axis,
    linear_ticks,
    mark,
    picture,
    stroke,
    told,
    words,
)
from pytest_vmstorage.units import format_figure

_WIDTH, _HEIGHT = 720.0, 150.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 78.0, 12.0, 26.0, 22.0
_MOST_DAYS = 400
"""The newest so many days are drawn: more would be less than two pixels each."""

_ROOM, _ROOM_OF_ROW, _MOST_ROOM = 26_000, 1_200, 200_000
"""Characters of pictures in the page of a run of 16 rows, for each more, and at most."""

_MOST_FINDINGS = 20
"""The findings that the page of a run tells; a cause over many cells is one."""

_WHOLE = "`vmstorage history NAME -o history.html` has all of them."

_LOOK, _SPAN = stroke(0), stroke(1)
_AFTER_GAP_DAYS = 2


def render_html_history(history: BaselineHistory) -> str:
    """The history alone as an HTML document that ends with a newline."""
    section = tag("section", tag("h2", "Findings and cells"), history_section(history))
    body = tag("header", tag("h1", shown(headline(history)))) + tag("main", section)
    return document(headline(history), body)


def history_part(history: BaselineHistory, rows: int) -> Part:
    """The history as a part of the page of a run of so many rows, with as many pictures as the page has room for."""
    room = min(_ROOM + _ROOM_OF_ROW * max(0, rows - 16), _MOST_ROOM)
    return Part("history", "History", tag("p", shown(headline(history))) + "\n" + history_section(history, room))


def history_section(history: BaselineHistory, room: int | None = None) -> Markup:
    """The census, each finding with its cells, and a picture and a row for every cell.

    With `room` it has pictures of so many characters at most, those of findings first, and says what is left out.
    """
    pictures = dict(_drawn(history, room))
    parts = [tag("p", shown(str(history.census)))]
    findings = history.findings if room is None else history.findings[:_MOST_FINDINGS]
    for number, finding in enumerate(findings, 1):
        parts.append(tag("h3", shown(f"{number}. {sentence(finding, history.lines)}")))
        parts.append(items([shown(one) for one in explanations(finding)]))
        first, *others = finding.lines
        parts.append(pictures.get(first, ""))
        if there := [pictures[place] for place in others if place in pictures]:
            parts.append(_folded(_others_of(len(there), len(others)), there))
    parts.append(items([shown(one) for one in remarks(history)]))
    if letters := [f"{letter} {name}" for letter, name in letters_used(history)]:
        parts.append(tag("p", shown(f"Upright lines: {', '.join(letters)}.")))
    parts.append(_table(history) if room is None else "")
    known = {place for finding in history.findings for place in finding.lines}
    unchanged = [picture for place, picture in pictures.items() if place not in known]
    if unchanged:
        parts.append(_folded(f"{_counted(len(unchanged))} without a finding", unchanged))
    if len(pictures) < len(history.lines) or len(findings) < len(history.findings):
        left = f"{_counted(len(history.lines) - len(pictures))} and {len(history.findings) - len(findings)} findings"
        parts.append(tag("p", shown(f"Left out, so that the page stays small: {left}. {_WHOLE}"), class_="about"))
    return "\n".join(part for part in parts if part)


def _drawn(history: BaselineHistory, room: int | None) -> Iterator[tuple[int, Markup]]:
    """Cells by their number with their pictures, as far as there is room: one of each finding first."""
    first = [finding.lines[0] for finding in history.findings]
    more = [place for finding in history.findings for place in finding.lines]
    for place in dict.fromkeys((*first, *more, *range(len(history.lines)))):
        picture = _figure(history.lines[place], place, history)
        if room is not None:
            room -= len(picture)
            if room < 0:
                return
        yield place, picture


def _others_of(there: int, count: int) -> str:
    """The heading of the pictures of a finding's other cells."""
    which = "the other cell that has it" if count == 1 else f"the {count} other cells that have it"
    return which if there == count else f"{there} of {which}"


def _counted(count: int) -> str:
    return f"{count} cell{'s' * (count != 1)}"


def _folded(title: str, inside: Sequence[Markup]) -> Markup:
    return tag("details", tag("summary", shown(title)), *inside)


def _figure(cell: HistoryLine, place: int, history: BaselineHistory) -> Markup:
    """The picture of a cell below its name."""
    if not cell.days:
        return tag("p", shown(f"{cell.about}: {cell.why_not}"))
    return tag("figure", tag("figcaption", shown(cell.about)), line_picture(cell, place, history))


def _table(history: BaselineHistory) -> Markup:
    """A row for each cell: its days, its first and last figure, and whether it was judged."""
    heads = ("cell", "host", "metric", "days", "first day", "last day", "judged")
    head = tag("tr", *(tag("th", shown(one), scope="col") for one in heads))
    rows = [tag("tr", *(tag("td", shown(one)) for one in _row(cell))) for cell in history.lines]
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    return tag("div", table, class_="scroll", role="region", tabindex="0", aria_label="cells and their days")


def _row(cell: HistoryLine) -> Iterator[str]:
    yield f"{cell.workload} on {cell.config.label}"
    yield cell.host
    yield cell.metric.name
    yield str(len(cell.days))
    for end in (cell.days[:1], cell.days[-1:]):
        yield ", ".join(f"{format_figure(day.value, cell.metric.unit)} ({day.day})" for day in end)
    yield cell.why_not or "yes"


def line_picture(cell: HistoryLine, place: int, history: BaselineHistory) -> str:
    """The days of a cell as a whole `<svg>`, with the findings and marks that are about it."""
    days = cell.days[-_MOST_DAYS:]
    first, last = days[0].day.toordinal(), days[-1].day.toordinal()
    x = Axis(first - 0.5, last + 0.5, _LEFT, _WIDTH - _RIGHT)
    values = [value for day in days for value in (day.low, day.high)]
    y = linear_axis(values, _HEIGHT - _BOTTOM, _TOP, from_zero=False)
    frame = Frame(x, y)
    findings = [one for one in history.findings if place in one.lines]
    marks = [one for one in history.marks if one.host == cell.host and (not one.lines or place in one.lines)]
    parts = [
        frame.drawn(
            _day_ticks(first, last), linear_ticks(y, cell.metric.unit, 4), y_title=_title(cell), has_upright_lines=False
        ),
        *(_change(one, frame, first, last) for one in findings),
        *(part for run in _unbroken(days) for part in _run(run, frame, cell)),
        *(_mark(one, frame) for one in marks if first <= one.on.toordinal() <= last),
    ]
    return picture(_WIDTH, _HEIGHT, f"{cell.metric.name} of {cell.about}", _said(cell, findings, history), *parts)


def _title(cell: HistoryLine) -> str:
    better = {"lower": "lower is better", "higher": "higher is better"}.get(cell.metric.better, "")
    return f"{cell.metric.name} [{cell.metric.unit}]{f', {better}' if better else ''}"


def _said(cell: HistoryLine, findings: Sequence[HistoryFinding], history: BaselineHistory) -> str:
    """The picture in a sentence."""
    edges = [cell.days[0], cell.days[-1]]
    ends = " to ".join(f"{format_figure(day.value, cell.metric.unit)} on {day.day}" for day in edges)
    changes = "; ".join(sentence(one, history.lines) for one in findings) or "no change was found"
    return f"{cell.about}, {len(cell.days)} days, from {ends}: {changes}."


def _day_ticks(first: int, last: int) -> list[Tick]:
    """Five ticks or so, with their dates."""
    step = max(1, (last - first) // 5)
    return [Tick(day, date.fromordinal(day).isoformat()) for day in range(first, last + 1, step)]


def _unbroken(days: Sequence[HistoryDay]) -> Iterator[Sequence[HistoryDay]]:
    """The days in parts without a gap."""
    begin = 0
    for place, (one, after) in enumerate(pairwise(days), 1):
        if after.day - one.day >= timedelta(_AFTER_GAP_DAYS):
            yield days[begin:place]
            begin = place
    yield days[begin:]


def _run(days: Sequence[HistoryDay], frame: Frame, cell: HistoryLine) -> Iterator[str]:
    """A part of the line: a shade from the smallest guest to the largest, and the figures; a single day is a mark."""

    def points(values: Sequence[float]) -> list[Point]:
        return [frame.at(day.day.toordinal(), value) for day, value in zip(days, values, strict=True)]

    if len(days) == 1:
        tip = f"{days[0].day}: {format_figure(days[0].value, cell.metric.unit)}"
        yield told(tip, mark(points([days[0].value])[0], _LOOK, radius=2))
        return
    if any(day.guests > 1 for day in days):
        yield band(points([day.high for day in days]), points([day.low for day in days]), _LOOK)
    yield curve(points([day.value for day in days]), _LOOK, width=1.5)


def _change(finding: HistoryFinding, frame: Frame, first: int, last: int) -> str:
    """The span of a finding as a shade: its day lies in it."""
    begin = max(first - 0.5, finding.after.toordinal() + 0.5)
    end = min(last + 0.5, finding.on.toordinal() + 0.5)
    if end <= begin:
        return ""
    left, right = frame.x.at(begin), frame.x.at(end)
    tip = f"{finding.way} since {finding.after + timedelta(1)} to {finding.on}"
    shade = box(
        left, _TOP, max(right - left, 2), _HEIGHT - _TOP - _BOTTOM, css=f"{_SPAN.css} band", colour=_SPAN.colour
    )
    return told(tip, shade)


def _mark(one: HistoryMark, frame: Frame) -> str:
    """What changed on a day: an upright line with its letter."""
    at = frame.x.at(one.on.toordinal() - 0.5)
    upright = line((at, _TOP), (at, _HEIGHT - _BOTTOM), css="mark", dashes="2 2")
    return told(f"{one.on}: {one.what}", upright, words(letter_of(one), at, _TOP - 2, anchor="middle", css="mark"))

"""What stands behind the figures of a page: failures, proof, the time line, all other sections of the report; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pytest_vmstorage.analysis.columns import function_of
from pytest_vmstorage.errors import signed
from pytest_vmstorage.report.html.markup import Markup, items, shown, shown_lines, tag
from pytest_vmstorage.report.sections import Section
from pytest_vmstorage.report.time_spent import share_text, time_line
from pytest_vmstorage.results.run import Failure, Proof, Run
from pytest_vmstorage.results.timeline import MEANINGS, STEPS, Span, Timeline, by_step, wall_s
from pytest_vmstorage.units import format_duration

_ELSEWHERE = frozenset({"failed cells", "skipped cells"})
"""Sections that a page shows with their evidence."""


def failures_markup(failures: Sequence[Failure], outcome: str) -> Markup:
    """Cells of that outcome, each with its reason, and what a console or a tool said last."""
    return "\n".join(_failure(one) for one in failures if one.outcome == outcome)


def _failure(one: Failure) -> Markup:
    first, _, rest = one.reason.partition("\n")
    title = f"{function_of(one.nodeid)} on {one.config.label}, {one.host}"
    evidence = tag("pre", shown_lines(rest), tabindex="0") if rest else ""
    where = tag("p", f"{shown(one.outcome)}: {shown(signed(first, '' if one.code in first else one.code))}")
    return tag("article", tag("h3", shown(title)), where, evidence, class_="failure")


def sections_markup(sections: Sequence[Section]) -> Markup:
    """The sections below the matrix, as the text report has them."""
    return "\n".join(
        tag("section", tag("h3", shown(one.title)), items([shown(line) for line in one.lines]), class_="said")
        for one in sections
        if one.title not in _ELSEWHERE
    )


def proof_markup(run: Run) -> Markup:
    """Each thing that was asked and found, with all places where it was read, and of how many measurements it is so."""
    rows = [m for m in run.measurements if m.proof]
    if not rows:
        return ""
    counts = Counter(told for m in rows for told in {_told(proof): None for proof in m.proof})
    found: dict[tuple[str, ...], list[str]] = {}
    for (*told, where), count in counts.items():
        found.setdefault((*told, f"{count} of {len(rows)}"), []).append(where)
    names = ("field", "asked", "found", "status", "why", "measurements", "where read")
    heads = tag("tr", *(tag("th", name, scope="col") for name in names))
    order = {field: place for place, field in enumerate(dict.fromkeys(told[0] for told in found))}
    body = [
        tag(
            "tr",
            tag("th", shown(told[0]), scope="row"),
            *(tag("td", shown(text)) for text in told[1:]),
            tag("td", "<br>".join(shown(where) for where in places if where)),
        )
        for told, places in sorted(found.items(), key=lambda one: order[one[0][0]])
    ]
    caption = tag("caption", "asked and found, before the first I/O")
    return _scrolled(tag("table", caption, tag("thead", heads), tag("tbody", *body)), "proof of each field")


def _told(proof: Proof) -> tuple[str, ...]:
    return (proof.field, proof.asked, proof.found, proof.status, proof.why, proof.where)


def _scrolled(table: Markup, label: str) -> Markup:
    return tag("div", table, class_="scroll", role="region", tabindex="0", aria_label=label)


_WIDE, _LANE = 1000, 16
_HUES = 8


def time_markup(timelines: Sequence[Timeline]) -> Markup:
    """Where the time of the run went: a strip for each thread, and the time of each step."""
    if not wall_s(timelines):
        return ""
    groups = list(dict.fromkeys(STEPS[step].group if step in STEPS else step for step in by_step(timelines)))
    hues = {group: place % _HUES for place, group in enumerate(groups)}
    steps = by_step(timelines)
    heads = tag("tr", *(tag("th", name, scope="col") for name in ("step", "time", "share", "part of", "what is done")))
    body = [
        tag(
            "tr",
            tag("th", shown(step), scope="row"),
            tag("td", format_duration(seconds)),
            tag("td", share_text(seconds, wall_s(timelines))),
            tag("td", _hue(hues[group]), " ", shown(group)),
            tag("td", shown(MEANINGS.get(step, ""))),
        )
        for step, seconds in steps.items()
        for group in [STEPS[step].group if step in STEPS else step]
    ]
    table = tag("table", tag("caption", "time of each step"), tag("thead", heads), tag("tbody", *body))
    strips = [_strip(timeline, hues) for timeline in timelines]
    return "\n".join([tag("p", shown(time_line(timelines))), *strips, _scrolled(table, "time of each step")])


def _hue(place: int) -> Markup:
    return tag("span", "&nbsp;", class_=f"swatch t{place}", aria_hidden="true")


def _strip(timeline: Timeline, hues: Mapping[str, int]) -> Markup:
    """The steps of one process over its time: a lane for each thread, the innermost step on top."""
    lanes: dict[str, list[Span]] = {}
    for span in timeline.spans:
        lanes.setdefault(span.thread, []).append(span)
    whole = timeline.wall_s or 1.0
    height = _LANE * len(lanes) + 2
    drawn = [path for place, spans in enumerate(lanes.values()) for path in _lane(spans, whole, place * _LANE, hues)]
    ends = tag("p", f"{shown(timeline.process)}: 0 s to {format_duration(timeline.wall_s)}", class_="about")
    return (
        f'<figure>{ends}<svg class="strip" viewBox="0 0 {_WIDE} {height}" width="{_WIDE}" height="{height}" role="img"'
        f' aria-label="steps of the run over its time, as the table below sums them up"'
        f' preserveAspectRatio="none">{"".join(drawn)}</svg></figure>'
    )


def _lane(spans: Sequence[Span], whole: float, top: int, hues: Mapping[str, int]) -> Iterator[Markup]:
    """One path for each stretch of steps of one group; what is narrower than a dot joins the one before it."""
    paths: dict[int, list[str]] = {}
    for left, right, hue in _stretches(spans, whole, hues):
        paths.setdefault(hue, []).append(f"M{left} {top + 1}h{right - left}v{_LANE - 2}h-{right - left}z")
    for hue, parts in paths.items():
        yield f'<path class="t{hue}" fill="currentColor" d="{"".join(parts)}"/>'


def _stretches(spans: Sequence[Span], whole: float, hues: Mapping[str, int]) -> Iterator[tuple[int, int, int]]:
    """Left, right and hue of what is seen in each dot of the lane, from the innermost step there."""
    dots: list[int | None] = [None] * _WIDE
    for span in sorted(spans, key=lambda one: (one.begin_s, -one.seconds)):
        left = min(_WIDE - 1, int(span.begin_s / whole * _WIDE))
        right = min(_WIDE, max(left + 1, int((span.begin_s + span.seconds) / whole * _WIDE)))
        group = STEPS[span.step].group if span.step in STEPS else span.step
        dots[left:right] = [hues.get(group, 0)] * (right - left)
    begin = 0
    for place in range(1, _WIDE + 1):
        if place == _WIDE or dots[place] != dots[begin]:
            if (hue := dots[begin]) is not None:
                yield begin, place, hue
            begin = place

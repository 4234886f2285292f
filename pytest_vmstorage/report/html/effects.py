"""What moves what as dots with intervals, a line for each axis of each workload; pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

from pytest_vmstorage.analysis.axis_effects import Effect, Moved
from pytest_vmstorage.report.details import MOST_LINES
from pytest_vmstorage.report.html.markup import Markup, shown, tag

_WIDTH, _HEIGHT, _EDGE = 150, 18, 6
_LEAST_REACH = 1.25
"""A scale reaches at least from 1 to this ratio."""


def effects_section(moved: Sequence[Moved]) -> Markup:
    """A table for each workload; of many workloads those that are moved most."""
    told = [one for one in moved if one.effects]
    hosts = {one.host for one in moved}
    tables = [_table(one, where=f" on {one.host}" if len(hosts) > 1 else "") for one in islice(told, MOST_LINES)]
    if not tables:
        return tag(
            "p", "No effect can be told: apart from native and null rows, no two cells differ in one axis alone."
        )
    left = len(told) - len(tables)
    about = (
        "The ratio of an axis's fastest value to its slowest, over cells that differ in it alone, with its interval of"
        " 95 %, on the scale of the heading; the upright line is 1, where there is no difference. A hollow dot is not"
        " sure: its interval holds 1, or its dashed line is only the range of what was seen."
    )
    return "\n".join(
        [*tables, *([tag("p", f"and {left} workloads more")] if left else []), tag("p", about, class_="about")]
    )


def _table(moved: Moved, where: str) -> Markup:
    bounds = [bound for effect in moved.effects for bound in (*_around(effect), effect.ratio)]
    low, high = min([1.0, *bounds]), max([_LEAST_REACH, *bounds])
    heads = tag("tr", tag("th", "axis", scope="col"), tag("th", f"from {low:.2f}x to {high:.2f}x", scope="col"))
    rows = [
        tag(
            "tr",
            tag("th", shown(effect.axis), scope="row"),
            tag("td", _dot(effect, low, high), " ", shown(_size(effect)), _direction(effect)),
        )
        for effect in moved.effects
    ]
    rows += [tag("tr", tag("td", tag("small", shown(line)), colspan="2")) for line in _unsure(moved.effects)]
    caption = tag("caption", shown(f"{moved.workload}{where}"))
    return tag("table", caption, tag("thead", heads), tag("tbody", *rows), class_="effects")


def _size(effect: Effect) -> str:
    """The ratio with its interval, or with what was seen where there is none."""
    low, high = _around(effect)
    return f"{effect.ratio:.2f}x ({'' if effect.interval else 'seen: '}{low:.2f} to {high:.2f})"


def _direction(effect: Effect) -> Markup:
    """Which value is faster, and on what that rests; "" where it is not sure that any is."""
    if not effect.is_sure:
        return ""
    return tag("small", shown(f"{effect.fastest} faster than {effect.slowest}, {_couples(effect)}"))


def _unsure(effects: Sequence[Effect]) -> list[str]:
    """The axes of which no value is faster for sure, by the reason: one line below the others saves each its own."""
    few = [one for one in effects if one.interval is None]
    within = [one for one in effects if one.interval is not None and not one.is_sure]
    said = (("too few to tell", few), ("within its spread", within))
    return [f"{why}: {_named(those)}" for why, those in said if those]


def _named(effects: Sequence[Effect]) -> str:
    if len(effects) > 1 and len({one.couples for one in effects}) == 1:
        return f"{', '.join(one.axis for one in effects)} ({_couples(effects[0])} each)"
    return ", ".join(f"{one.axis} ({_couples(one)})" for one in effects)


def _couples(effect: Effect) -> str:
    return f"{effect.couples} couple{'' if effect.couples == 1 else 's'}"


def _around(effect: Effect) -> tuple[float, float]:
    return (effect.low, effect.high) if effect.interval is None else effect.interval


def _dot(effect: Effect, low: float, high: float) -> Markup:
    """The picture of one effect on a logarithmic scale that all of its table share."""
    reach = math.log(high / low)

    def at(ratio: float) -> str:
        return f"{_EDGE + math.log(ratio / low) / reach * (_WIDTH - 2 * _EDGE):.1f}"

    first, last = map(at, _around(effect))
    middle = _HEIGHT // 2
    dashes = "" if effect.interval else ' stroke-dasharray="2 3"'
    fill = "currentColor" if effect.is_sure else "none"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" aria-hidden="true"'
        f' focusable="false"><path d="M{at(1.0)} 1V{_HEIGHT - 1}" stroke="#808080"/>'
        f'<path d="M{first} {middle}H{last}" stroke="currentColor" stroke-width="2"{dashes}/>'
        f'<circle cx="{at(effect.ratio)}" cy="{middle}" r="4" stroke="currentColor" stroke-width="1.5"'
        f' fill="{fill}"/></svg>'
    )

"""SVG as text: escaped elements, axes with their ticks, marks and lines that differ without colour; pure.

A page may style the classes `s0` to `s7` (a series), `axis`, `grid`, `muted`, `band` and `mark`. Each of them has
presentation attributes as well, for a page whose styles are forbidden: colours of a contrast of 3:1 or more on white
and on black, and `currentColor` for text. Nothing has an id, so that any number of pictures can stand in one page.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from pytest_vmstorage.text import plain_line
from pytest_vmstorage.units import format_figure

_NOT_XML = re.compile("[\ufffe\uffff]")
_DESCRIPTION = re.compile("<desc>[^<]*</desc>")
_FONT = "system-ui, sans-serif"
_GREY = "#808080"

Point = tuple[float, float]
"""A place in a picture: x to the right and y down, in its units (CSS pixels where it is not scaled)."""

Anchor = Literal["start", "middle", "end"]


class Stroke(NamedTuple):
    """The look of one series: CSS class, colour where no style is, dashes, and the shape of its marks."""

    css: str
    colour: str
    dashes: str
    shape: str


STROKES = (
    Stroke("s0", "#2f7fd0", "", "circle"),
    Stroke("s1", "#cc6a00", "7 3", "square"),
    Stroke("s2", "#189068", "2 3", "triangle"),
    Stroke("s3", "#c4519c", "9 3 2 3", "diamond"),
    Stroke("s4", "#8c6fd6", "4 2", "down"),
    Stroke("s5", "#9a7d0a", "12 4", "plus"),
    Stroke("s6", "#d9534f", "1 2", "cross"),
    Stroke("s7", "#5f8a94", "6 2 1 2 1 2", "bar"),
)
"""The series of a picture; no two have one dash pattern or one shape."""


def stroke(place: int) -> Stroke:
    """The look of the series at that place, from 0; the ninth looks as the first."""
    return STROKES[place % len(STROKES)]


def escaped(text: str) -> str:
    """Text of a guest or user for an element or attribute: one line, harmless, without what XML does not allow."""
    return html.escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", plain_line(text)))


def number(value: float, decimals: int = 1) -> str:
    """A coordinate in as few characters as can be: 3.0 -> "3", 0.25 -> ".2"; "0" for one that is not finite."""
    text = f"{value if math.isfinite(value) else 0:.{decimals}f}".rstrip("0").rstrip(".")
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    return "0" if digits in ("", "0") else sign + (digits[1:] if digits.startswith("0.") else digits)


def element(name: str, /, *inside: str, **attributes: str | float | None) -> str:
    """An element around markup that is escaped already; attributes are escaped here, those that are None left out.

    `class_` is the attribute class, and "_" in a name is "-": `stroke_width=2`.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value) if isinstance(value, str) else number(value, 2)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{''.join(inside)}</{name}>" if inside else f"<{name}{written}/>"


def words(
    text: str, x: float, y: float, *, anchor: Anchor = "start", css: str | None = None, size: float | None = None,
    is_turned: bool = False, is_bold: bool = False,
) -> str:  # fmt: skip
    """Text whose baseline begins, is centred or ends at a point; turned, it reads upwards."""
    return element(
        "text", escaped(text) or " ", x=x, y=y, text_anchor=anchor if anchor != "start" else None, class_=css,
        font_size=size, font_weight="bold" if is_bold else None, fill="currentColor",
        transform=f"rotate(-90 {number(x)} {number(y)})" if is_turned else None,
    )  # fmt: skip


def width_of(text: str, size: float = 11) -> float:
    """An upper estimate of a text's width at that font size: wide characters count double."""
    return size * 0.58 * sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)


def fitted(text: str, width: float, size: float = 11) -> str:
    """The text in one line, cut with "…" in its middle where it would be wider: labels differ at both their ends."""
    text = plain_line(text)
    if width_of(text, size) <= width:
        return text
    most = max(3, int(width / (size * 0.58)))
    head = (most - 1) // 2
    while most > 3 and width_of(cut := f"{text[:head]}…{text[head + 1 - most :]}", size) > width:
        most, head = most - 1, (most - 2) // 2
    return cut if most > 3 else f"{text[:1]}…{text[-1:]}"


def picture(width: float, height: float, title: str, description: str, *parts: str) -> str:
    """A whole `<svg>` that scales with its place, with what it is called and a sentence that says what it shows."""
    return element(
        "svg", element("title", escaped(title) or " "), element("desc", escaped(description) or " "), *parts,
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {number(width)} {number(height)}", width=width,
        height=height, role="img", class_="chart", font_family=_FONT, font_size=11, fill="none",
    )  # fmt: skip


def undescribed(svg: str) -> str:
    """The same picture without its sentence, for a page that has it behind the picture."""
    return _DESCRIPTION.sub("", svg, count=1)


def told(tip: str, *parts: str) -> str:
    """Marks with a text of their own, which a browser shows beside the pointer."""
    return element("g", element("title", escaped(tip) or " "), *parts)


def line(
    start: Point, end: Point, *, css: str = "axis", colour: str = "currentColor", width: float = 1,
    dashes: str = "", opacity: float | None = None,
) -> str:  # fmt: skip
    """A straight line."""
    return element(
        "path", d=f"M{_pair(*start)}L{_pair(*end)}", class_=css, stroke=colour, stroke_width=width,
        stroke_dasharray=dashes or None, stroke_opacity=opacity,
    )  # fmt: skip


def curve(points: Sequence[Point], look: Stroke, *, width: float = 2, opacity: float | None = None) -> str:
    """A line through points in that series' look; "" for fewer than two."""
    return curves([points], look, width=width, opacity=opacity)


def curves(
    lines: Iterable[Sequence[Point]], look: Stroke, *, width: float = 2, opacity: float | None = None, decimals: int = 1
) -> str:
    """Several lines in one look as one element; those of fewer than two points are left out."""
    d = "".join(_path(points, decimals) for points in lines if len(points) > 1)
    if not d:
        return ""
    return element(
        "path", d=d, class_=look.css, stroke=look.colour, stroke_width=width,
        stroke_dasharray=look.dashes or None, stroke_opacity=opacity, stroke_linejoin="round",
    )  # fmt: skip


def steps(points: Sequence[Point], look: Stroke, *, width: float = 1.5) -> str:
    """The same with level pieces: each value holds until the next point."""
    stepped = [point for one, after in pairwise(points) for point in (one, (after[0], one[1]))]
    return curve([*stepped, *points[-1:]], look._replace(dashes=""), width=width)


def band(upper: Sequence[Point], lower: Sequence[Point], look: Stroke) -> str:
    """The area between two lines that run in the same direction, as a shade of that series."""
    around = [*upper, *reversed(lower)]
    return element("path", d=f"{_path(around)}z", class_=f"{look.css} band", fill=look.colour, fill_opacity=0.2)


def box(
    x: float, y: float, width: float, height: float, *, css: str = "muted", colour: str = _GREY, opacity: float = 0.2,
    is_outlined: bool = False,
) -> str:  # fmt: skip
    """A shaded rectangle."""
    return element(
        "rect", x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), class_=css, fill=colour, fill_opacity=opacity,
        stroke=colour if is_outlined else None,
    )  # fmt: skip


def bars(pieces: Iterable[tuple[float, float]], y: float, look: Stroke, *, height: float = 10) -> str:
    """Level bars from place to place in one row, as one element; each is wide enough to be seen."""
    d = "".join(f"M{_pair(start, y)}h{number(max(end - start, 1))}" for start, end in pieces)
    return element("path", d=d, class_=look.css, stroke=look.colour, stroke_width=height) if d else ""


def hatched(x: float, y: float, width: float, height: float, *, css: str = "muted", colour: str = _GREY) -> str:
    """A rectangle filled with slanting lines, which is told from a shade without colour."""
    d, gap = "", 6.0
    for step in range(1, int((width + height) / gap) + 1):
        reach = step * gap
        left, right = max(0.0, reach - height), min(width, reach)
        d += f"M{_pair(x + left, y + reach - left)}L{_pair(x + right, y + reach - right)}"
    return element("path", d=d, class_=css, stroke=colour, stroke_opacity=0.6) if d else ""


_SHAPES = {
    "circle": "M{l},{y}a{r},{r} 0 1 0 {d},0a{r},{r} 0 1 0 -{d},0z",
    "square": "M{l},{t}h{d}v{d}h-{d}z",
    "triangle": "M{x},{t}L{e},{b}H{l}z",
    "down": "M{x},{b}L{e},{t}H{l}z",
    "diamond": "M{x},{t}L{e},{y}L{x},{b}L{l},{y}z",
    "plus": "M{l},{y}H{e}M{x},{t}V{b}",
    "cross": "M{l},{t}L{e},{b}M{l},{b}L{e},{t}",
    "bar": "M{x},{t}V{b}",
}


def mark(at: Point, look: Stroke, *, radius: float = 3.5, is_hollow: bool = False, opacity: float | None = None) -> str:
    """The shape of that series around a point; hollow for a second kind of the same series."""
    return marks([at], look, radius=radius, is_hollow=is_hollow, opacity=opacity)


def marks(
    places: Iterable[Point], look: Stroke, *, radius: float = 3.5, is_hollow: bool = False,
    opacity: float | None = None,
) -> str:  # fmt: skip
    """The shape of that series around each point, as one element; "" for none."""
    d = "".join(_shape(at, look.shape, radius) for at in places)
    if not d:
        return ""
    return element(
        "path", d=d, class_=f"{look.css} mark{' hollow' * is_hollow}", stroke=look.colour, stroke_width=1.5,
        fill="none" if is_hollow else look.colour, opacity=opacity,
    )  # fmt: skip


def dots(places: Iterable[Point], look: Stroke, *, size: float = 5) -> str:
    """Round dots of one series as one element, in few characters: lines of no length with round ends; "" for none."""
    d = "".join(f"M{_pair(*at)}h0" for at in places)
    if not d:
        return ""
    return element(
        "path", d=d, class_=look.css, stroke=look.colour, stroke_width=size, stroke_linecap="round", stroke_opacity=0.65
    )


def _shape(at: Point, shape: str, radius: float) -> str:
    x, y = at
    places = {"x": x, "y": y, "l": x - radius, "e": x + radius, "t": y - radius, "b": y + radius}
    named = {key: number(value) for key, value in {**places, "r": radius, "d": 2 * radius}.items()}
    return _SHAPES[shape].format(**named)


def whisker(x: float, low: float, high: float, look: Stroke, *, half: float = 4) -> str:
    """An upright interval at `x` between two heights, with bars at its ends."""
    bars = "".join(f"M{_pair(x - half, y)}H{number(x + half)}" for y in (low, high))
    d = f"M{_pair(x, low)}V{number(high)}{bars}"
    return element("path", d=d, class_=look.css, stroke=look.colour, stroke_width=1.5)


def level_whisker(y: float, low: float, high: float, look: Stroke, *, half: float = 4) -> str:
    """A level interval at the height `y` between two places, with bars at its ends."""
    bars = "".join(f"M{_pair(x, y - half)}V{number(y + half)}" for x in (low, high))
    d = f"M{_pair(low, y)}H{number(high)}{bars}"
    return element("path", d=d, class_=look.css, stroke=look.colour, stroke_width=1.5)


class Tick(NamedTuple):
    """A value of an axis and how it is written."""

    value: float
    label: str


class Axis(NamedTuple):
    """A scale from values to places in a picture: `low` is at `start` and `high` at `end`, linear or logarithmic.

    A logarithmic axis has values above 0 only; others are put at its beginning.
    """

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def at(self, value: float) -> float:
        """The place of a value; one outside of the axis is at its nearer end."""
        low, high, value = (self._bent(one) for one in (self.low, self.high, value))
        part = (value - low) / (high - low) if high > low else 0.5
        return self.start + min(1.0, max(0.0, part)) * (self.end - self.start)

    def both(self, ends: tuple[float, float]) -> tuple[float, float]:
        """The places of an interval's ends."""
        return self.at(ends[0]), self.at(ends[1])

    def _bent(self, value: float) -> float:
        return math.log(max(value, 1e-12)) if self.is_log else value


def linear_axis(values: Iterable[float], start: float, end: float, *, from_zero: bool = True) -> Axis:
    """An axis with round ends that holds all the values, and 0 unless told otherwise."""
    found = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(found), max(found)
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        low, high = low - (abs(low) or 1) * 0.1 * (low != 0), high + (abs(high) or 1) * 0.1
    step = _round_step(high - low, 5)
    return Axis(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, start, end)


def log_axis(values: Iterable[float], start: float, end: float) -> Axis:
    """A logarithmic axis that holds all values above 0; its ends are 1, 2 or 5 times a power of ten."""
    found = [value for value in values if math.isfinite(value) and value > 0] or [1.0, 10.0]
    low, high = _below(min(found)), _above(max(found))
    return Axis(low, high if high > low else low * 2, start, end, is_log=True)


def linear_ticks(axis: Axis, unit: str, most: int = 6) -> list[Tick]:
    """Round values within the axis, with their unit."""
    step = _round_step(axis.high - axis.low, most)
    first, last = math.ceil(axis.low / step - 1e-9), math.floor(axis.high / step + 1e-9)
    return [Tick(count * step, _written(count * step, unit)) for count in range(first, last + 1)]


def log_ticks(axis: Axis, unit: str, most: int = 8) -> list[Tick]:
    """Values of 1, 2 and 5 times powers of ten within the axis, or fewer of them, with their unit."""
    decades = range(math.floor(math.log10(axis.low) - 1e-9), math.ceil(math.log10(axis.high) + 1e-9) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        values = [factor * 10.0**power for power in decades for factor in factors]
        fitting = [value for value in values if axis.low * (1 - 1e-9) <= value <= axis.high * (1 + 1e-9)]
        if len(fitting) <= most or factors == (1,):
            break
    thinned = fitting[:: -(-len(fitting) // most)] if fitting else []
    return [Tick(value, _written(value, unit)) for value in thinned]


def value_ticks(values: Iterable[float], label: str = "{:g}") -> list[Tick]:
    """A tick at each of these values, such as the depths of a sweep."""
    return [Tick(value, label.format(value)) for value in sorted(set(values))]


class Frame(NamedTuple):
    """A plot's area and its two axes."""

    x: Axis
    y: Axis

    def at(self, x: float, y: float) -> Point:
        """The place of a point."""
        return self.x.at(x), self.y.at(y)

    def drawn(
        self, x_ticks: Sequence[Tick], y_ticks: Sequence[Tick], *, x_title: str = "", y_title: str = "",
        has_upright_lines: bool = True,
    ) -> str:  # fmt: skip
        """The grid, the axes with their ticks, and their titles: y's above it to read level, x's below."""
        left, right, bottom, top = self.x.start, self.x.end, self.y.start, self.y.end
        grid = "".join(f"M{_pair(left, self.y.at(tick.value))}H{number(right)}" for tick in y_ticks)
        if has_upright_lines:
            grid += "".join(f"M{_pair(self.x.at(tick.value), top)}V{number(bottom)}" for tick in x_ticks)
        parts = [
            element("path", d=grid, class_="grid", stroke=_GREY, stroke_opacity=0.3, stroke_width=0.5) if grid else "",
            line((left, bottom), (right, bottom)), line((left, top), (left, bottom)),
            *(words(tick.label, left - 5, self.y.at(tick.value) + 4, anchor="end", css="muted") for tick in y_ticks),
            *self._below(x_ticks),
            words(y_title, left, top - 8, css="axis") if y_title else "",
            words(x_title, (left + right) / 2, bottom + 30, anchor="middle", css="axis") if x_title else "",
        ]  # fmt: skip
        return "".join(parts)

    def _below(self, ticks: Sequence[Tick]) -> list[str]:
        """Labels below the plot; one that would touch the one before it is left out, its grid line stays."""
        parts, free = [], -math.inf
        for tick in ticks:
            x, half = self.x.at(tick.value), width_of(tick.label) / 2
            if x - half >= free:
                parts.append(words(tick.label, x, self.y.start + 15, anchor="middle", css="muted"))
                free = x + half + 4
        return parts


class LegendLine(NamedTuple):
    """A line of a legend: whose look, what it is, and the whole text where the label is cut."""

    look: Stroke
    label: str
    has_line: bool = True


LEGEND_LINE = 16
"""The height of a legend's line."""


def legend(entries: Sequence[LegendLine], x: float, y: float, width: float) -> str:
    """A line for each entry with its mark and dashes; a label without room is cut, and whole beside the pointer."""
    parts = []
    for place, entry in enumerate(entries):
        height = y + place * LEGEND_LINE
        drawn = [curve([(x, height), (x + 26, height)], entry.look)] if entry.has_line else []
        drawn += [mark((x + 13, height), entry.look), words(fitted(entry.label, width - 32), x + 32, height + 4)]
        parts.append(told(entry.label, *drawn))
    return "".join(parts)


NOTE_LINE = 14
"""The height of a note's line."""


def note_lines(notes: Sequence[str], x: float, y: float, width: float = 640) -> str:
    """Small lines below a picture, each cut where it is too wide."""
    texts = [fitted(note, width, 10) for note in notes]
    return "".join(words(text, x, y + NOTE_LINE * place, css="muted", size=10) for place, text in enumerate(texts))


def _pair(x: float, y: float) -> str:
    return f"{number(x)},{number(y)}"


def _path(points: Sequence[Point], decimals: int = 1) -> str:
    """Steps from point to point, shorter than places; between rounded places, so that no error adds up."""
    scale = 10**decimals
    rounded = [tuple(round(one * scale) if math.isfinite(one) else 0 for one in point) for point in points]
    text, (x, y) = f"M{_pair(rounded[0][0] / scale, rounded[0][1] / scale)}", rounded[0]
    for after_x, after_y in rounded[1:]:
        across, down = number((after_x - x) / scale), number((after_y - y) / scale)
        text += f"l{across}{'' if down.startswith('-') else ' '}{down}"
        x, y = after_x, after_y
    return text


def _round_step(width: float, most: int) -> float:
    """The least of 1, 2, 2.5 and 5 times a power of ten of which at most so many fit into the width."""
    power = 10.0 ** math.floor(math.log10(width / most)) if width > 0 else 1.0
    return next((step * power for step in (1, 2, 2.5, 5) if width / (step * power) <= most + 1e-9), 10 * power)


def _below(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (5, 2, 1, 0.5) if step * power <= value * (1 + 1e-9))


def _above(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * (1 - 1e-9))


def _written(value: float, unit: str) -> str:
    """The value as the project writes figures; a value without a unit has no blank behind it."""
    if not value:
        return "0"
    return format_figure(value, unit).rstrip()

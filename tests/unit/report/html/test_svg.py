"""Pictures as text: well formed whatever a label says, told apart without colour, with round ticks."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vmstorage.report.html import svg

HOSTILE = '</svg><script>alert(1)</script>" onload="x" \x1b[31m\x00\ufffe &amp; <b>'
SVG = "{http://www.w3.org/2000/svg}"


def test_hostile_text_stays_text() -> None:
    """No element, attribute or control character comes out of a label, a tip, a title or a legend."""
    look = svg.stroke(0)
    whole = svg.picture(
        200, 100, HOSTILE, HOSTILE, svg.words(HOSTILE, 1, 2, css=HOSTILE), svg.told(HOSTILE, svg.mark((1, 1), look)),
        svg.legend([svg.LegendLine(look, HOSTILE)], 0, 10, 150),
    )  # fmt: skip
    tree = ElementTree.fromstring(whole)
    assert {one.tag.removeprefix(SVG) for one in tree.iter()} == {"svg", "title", "desc", "text", "g", "path"}
    assert not [key for one in tree.iter() for key in one.attrib if key.startswith("on")]
    assert "\x1b" not in whole
    assert tree.findtext(f"{SVG}title") == tree.findtext(f"{SVG}desc")
    assert "<script>alert(1)</script>" in (tree.findtext(f"{SVG}title") or "")


@given(st.text())
def test_any_text_is_well_formed(text: str) -> None:
    """XML readers take a standalone picture whatever its labels are."""
    ElementTree.fromstring(svg.picture(9, 9, text, text, svg.words(text, 0, 0), svg.element("g", class_=text)))


def test_a_picture_says_what_it_shows() -> None:
    """A role, a title as its first child, a description: what screen readers use; no id, which would have to differ."""
    tree = ElementTree.fromstring(svg.picture(640, 320, "Rounds", "Two rounds."))
    assert (tree.get("role"), tree.get("viewBox")) == ("img", "0 0 640 320")
    assert [child.tag for child in tree] == [f"{SVG}title", f"{SVG}desc"]
    assert tree.get("id") is None


def test_series_differ_without_colour() -> None:
    """Each has dashes and a shape of its own, and a class that a page can style."""
    for field in ("css", "colour", "dashes", "shape"):
        assert len({getattr(one, field) for one in svg.STROKES}) == len(svg.STROKES) == 8
    drawn = {re.sub("s[0-7]|#......", "", svg.mark((10, 10), look)) for look in svg.STROKES}
    assert len(drawn) == 8


def luminance(colour: str) -> float:
    """The relative luminance of #rrggbb, by WCAG 2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("background", ["#ffffff", "#16181d", "#000000"])
def test_colours_are_seen_on_light_and_dark(background: str) -> None:
    """A contrast of 3:1, which WCAG 2 asks of graphics, also where no style is."""
    for look in svg.STROKES:
        dark, light = sorted((luminance(background), luminance(look.colour)))
        assert (light + 0.05) / (dark + 0.05) >= 3, look


@pytest.mark.parametrize(
    ("value", "text"),
    [(3.0, "3"), (0.25, ".2"), (-0.5, "-.5"), (-0.04, "0"), (10.04, "10"), (100, "100"), (math.nan, "0"),
     (math.inf, "0"), (-12.34, "-12.3")],
)  # fmt: skip
def test_a_coordinate_is_short(value: float, text: str) -> None:
    """One decimal, no zeros; what is no number does not break the picture."""
    assert svg.number(value) == text


@given(st.lists(st.tuples(st.floats(-2000, 2000), st.floats(-2000, 2000)), min_size=2, max_size=60))
def test_a_line_does_not_drift(points: list[svg.Point]) -> None:
    """Steps are of rounded places: the end of a line of many steps is where it should be."""
    d = re.search(' d="([^"]*)"', svg.curve(points, svg.stroke(0)))
    assert d is not None
    numbers = [float(one) for one in re.findall(r"-?\d*\.?\d+", d[1])]
    assert len(numbers) == 2 * len(points)
    assert sum(numbers[::2]) == pytest.approx(points[-1][0], abs=0.06)
    assert sum(numbers[1::2]) == pytest.approx(points[-1][1], abs=0.06)


def test_a_curve_of_sixty_points_is_small() -> None:
    """Half a kilobyte: ten of them make no page heavy."""
    points = [(10.0 * place, 300 - 4.3 * place) for place in range(60)]
    assert len(svg.curve(points, svg.stroke(1))) < 750


def test_one_point_is_no_line() -> None:
    """Nothing is drawn, rather than a path that some readers refuse."""
    assert svg.curve([(1, 1)], svg.stroke(0)) == svg.steps([], svg.stroke(0)) == ""


def test_steps_hold_their_value() -> None:
    """From 0 to 10 the value is the first one."""
    assert ' d="M0,5l10 0l0 4"' in svg.steps([(0, 5), (10, 9)], svg.stroke(0))


@given(st.lists(st.floats(1e-9, 1e12), min_size=1, max_size=9), st.booleans())
def test_an_axis_holds_its_values_and_ticks(values: list[float], is_log: bool) -> None:
    """All values within its ends, two to a dozen ticks, none twice."""
    axis = svg.log_axis(values, 0, 300) if is_log else svg.linear_axis(values, 0, 300)
    assert axis.low <= min(values) * (1 + 1e-6)
    assert max(values) <= axis.high * (1 + 1e-6)
    ticks = svg.log_ticks(axis, "s") if is_log else svg.linear_ticks(axis, "IOPS")
    assert 1 <= len(ticks) <= 12
    assert all(-0.5 <= axis.at(tick.value) <= 300.5 for tick in ticks)
    assert len({tick.value for tick in ticks}) == len(ticks)


def test_ticks_are_written_as_figures_are() -> None:
    """Units and prefixes of the project; zero has none."""
    axis = svg.log_axis([3e-5, 2e-2], 0, 300)
    labels = [tick.label for tick in svg.log_ticks(axis, "s")]
    assert labels == ["30 us", "100 us", "300 us", "1 ms", "3 ms", "10 ms"]
    labels = [tick.label for tick in svg.linear_ticks(svg.linear_axis([14_234], 0, 300), "IOPS", 3)]
    assert labels == ["0", "5000 IOPS", "10k IOPS", "15k IOPS"]


def test_a_logarithmic_axis_puts_a_decade_in_its_place() -> None:
    """Equal factors are equal lengths; 0, which has no place, is at the beginning."""
    axis = svg.Axis(1, 100, 0, 200, is_log=True)
    assert [axis.at(value) for value in (1, 10, 100, 0, 1000)] == pytest.approx([0, 100, 200, 0, 200])


def test_axes_without_values_are_axes() -> None:
    """A chart of nothing finite does not end the report."""
    assert svg.linear_axis([math.nan], 0, 10).high > 0
    nothing = svg.linear_axis([math.nan], 0, 10, from_zero=False)
    assert (nothing.low, nothing.high) == (0, 1)
    assert svg.log_axis([0.0], 0, 10).low > 0
    assert svg.linear_axis([7, 7], 0, 10, from_zero=False).at(7) == pytest.approx(5, abs=5)


@given(st.text(min_size=1), st.floats(20, 300))
def test_a_label_fits(text: str, width: float) -> None:
    """By the estimate of its width; its beginning and its end stay."""
    cut = svg.fitted(text, width)
    assert len(cut) <= 3 or svg.width_of(cut) <= width


def test_a_cut_label_keeps_both_ends() -> None:
    """Cells differ at the front or at the end."""
    cut = svg.fitted("format=raw, cache=writethrough, bus=virtio-blk", 120)
    assert cut.startswith("format=")
    assert cut.endswith("-blk")
    assert "…" in cut


def test_labels_below_a_plot_do_not_touch() -> None:
    """Those without room are left out; each tick keeps its line."""
    frame = svg.Frame(svg.Axis(0, 100, 0, 100), svg.Axis(0, 1, 100, 0))
    drawn = frame.drawn([svg.Tick(value, f"{value} ms") for value in range(100)], [], x_title="time")
    labels = re.findall(r">(\d+) ms<", drawn)
    assert 2 <= len(labels) <= 5
    assert drawn.count("V100") >= 100


def test_hatching_stays_inside() -> None:
    """Slanting lines from edge to edge of the rectangle."""
    d = re.search(' d="([^"]*)"', svg.hatched(10, 20, 40, 12))
    assert d is not None
    pairs = [(float(x), float(y)) for x, y in re.findall(r"([\d.]+),([\d.]+)", d[1])]
    assert len(pairs) >= 8
    assert all(10 <= x <= 50 and 20 <= y <= 32 for x, y in pairs)

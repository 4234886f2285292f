"""The matrix as a picture: what it shows and says, that nothing foreign gets into it, and the Markdown beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.formats import write_report
from pytest_vmstorage.report.matrix_picture import MOST_COLUMNS, MOST_ROWS, render_matrix_picture
from pytest_vmstorage.results.run import Measurement, Run
from pytest_vmstorage.testing.builders import make_failure, make_host, make_measurement, make_run

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</text><script>alert(1)</script><image href='http://example.org/x'/>\x1b[31m&\ufffe"


def texts(run: Run) -> list[str]:
    """All texts of the picture in reading order."""
    tree = ElementTree.fromstring(render_matrix_picture(run))
    return ["".join(one.itertext()) for one in tree.iter(f"{SVG}text")]


def bars(run: Run) -> list[tuple[float, float]]:
    """Where each bar begins, and how long it is."""
    tree = ElementTree.fromstring(render_matrix_picture(run))
    found = [one.attrib for one in tree.iter(f"{SVG}rect") if one.attrib["class"] == "s0"]
    return [(float(one["x"]), float(one["width"])) for one in found]


def cell(number: int, *iops: float) -> Measurement:
    """A measurement in a cell of that number."""
    return make_measurement(StorageConfig(size=(number + 1) * 2**20), iops=iops or (number + 1.0, number + 1.0))


def test_it_says_what_the_matrix_says() -> None:
    """Figures with unit and spread, configuration, host, acceleration, and how it is read."""
    raw, qcow2 = make_measurement(iops=(90, 100, 110)), make_measurement(StorageConfig(format="qcow2"), iops=(1, 2, 3))
    said = texts(make_run(raw, qcow2, hosts=[make_host(accel="tcg")]))
    assert " ".join(said) == (
        "Storage matrix host local, tcg (emulated: figures say nothing about speed), QEMU 7.2.9, 2 cores, "
        "Example CPU 3.0 GHz all rows: none, virtio-blk, preallocation off, size 1G "
        "fio randwrite 4k qd32 iops ↑ raw 100 IOPS ±10 % ▲ qcow2 2 IOPS ±50 % ▼ "
        "↑ higher, ↓ lower is better; bar: median of the rounds, from 0; "
        "line across its end: smallest to largest round "
        "▲ best and ▼ worst of its column in every round; ± half of smallest to largest round, in % of the median"
    )


def test_a_bar_is_as_long_as_its_figure_and_has_its_spread() -> None:
    """From zero; a single round has no spread, and so no bar."""
    (first, whole), (second, half) = bars(make_run(cell(0, 100, 100), cell(1, 50, 50), cell(2, 75)))
    assert first == second
    assert half == pytest.approx(whole / 2, abs=0.02)
    (below, length), (zero, _) = bars(make_run(cell(0, -50, -50), cell(1, 50, 50)))
    assert below + length == pytest.approx(zero, abs=0.02)


def test_what_is_left_out_is_said() -> None:
    """Beyond forty rows those that matter most, and the first metric of each workload."""
    failed = make_failure(StorageConfig(size="1G"))
    many = make_run(*(cell(number) for number in range(60)), failures=[failed])
    said = texts(many)
    assert f"{MOST_ROWS} of 61 rows: 1 failed, best and worst of each workload" in said
    assert any(text.startswith("failed: The guest did") for text in said)
    assert len(bars(many)) == MOST_ROWS - 1
    wide = make_measurement(**{f"m{number}": (1, 1) for number in range(8)})
    other = make_measurement(workload="dd", test="t.py::test_dd", bw=(1, 1))
    said = texts(make_run(wide, other))
    assert len(bars(make_run(wide, other))) == MOST_COLUMNS
    assert "4 more metrics are in the table" in said
    assert "bw ↑" in said


def test_a_run_without_figures_has_a_picture_too() -> None:
    """The Markdown beside it shows it."""
    assert texts(make_run())[:2] == ["Storage matrix", "nothing was measured"]


def test_nothing_foreign_gets_into_it() -> None:
    """No element, address or escape sequence of a guest or a user; it loads nothing and runs nothing."""
    made = make_measurement(StorageConfig(emulator="/" + HOSTILE.partition("\x1b")[0]), workload=HOSTILE, iops=(1, 2))
    text = render_matrix_picture(make_run(made, cell(1), failures=[make_failure(cell(2).config, reason=HOSTILE)]))
    tree = ElementTree.fromstring(text)
    assert {one.tag.removeprefix(SVG) for one in tree.iter()} <= {
        *("svg", "title", "desc", "style", "rect", "text", "path", "g")
    }
    attributes = {name: value for one in tree.iter() for name, value in one.attrib.items()}
    assert not [name for name in attributes if name.startswith("on") or name.endswith("href") or name == "style"]
    assert not [value for value in attributes.values() if "url(" in value]
    (style,) = tree.iter(f"{SVG}style")
    assert not re.search(r"url|@import", style.text or "")
    assert "\x1b" not in text


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_its_text_is_read_on_a_light_and_on_a_dark_screen() -> None:
    """It brings both grounds along, as it cannot know that of the page around it: WCAG's 4.5:1 in each."""
    style = re.search(r"<style>(.*)</style>", render_matrix_picture(make_run(cell(0))))
    assert style is not None
    light, dark = style[1].split("@media(prefers-color-scheme:dark)")
    for part in (light, dark):
        ink, paper = re.findall(r"#[0-9a-f]{6}", part)
        brighter, darker = sorted((luminance(ink), luminance(paper)), reverse=True)
        assert (brighter + 0.05) / (darker + 0.05) >= 4.5


@pytest.mark.parametrize(
    ("names", "link"),
    [
        (["r.md", "r.svg"], "r.svg"),
        (["out/r.md", "pictures/the matrix.svg"], "../pictures/the%20matrix.svg"),
        (["r.md", "r.csv"], None),
    ],
)
def test_markdown_shows_the_picture_that_was_asked_for_with_it(
    tmp_path: Path, names: Sequence[str], link: str | None
) -> None:
    """By its place, with a text in its stead; the table below is whole in any case."""
    run, paths = make_run(cell(0), cell(1)), [tmp_path / name for name in names]
    for path in paths:
        write_report(path, run, beside=paths)
    text = paths[0].read_text()
    shown = f"![The matrix as bars with their spread; the table below has the same figures]({link})\n\n"
    assert ("![" in text) == (link is not None)
    alone = tmp_path / "alone.md"
    write_report(alone, run)
    assert text.replace(shown, "") == alone.read_text()

"""The report as one HTML file: complete without script and style, harmless, readable, and light.

Tests of `report.html.page`, `report.html.markup`, `report.html.evidence`, `report.html.effects` and
`report.html.chart`.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pytest_vmstorage.report.html
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.formats import render_json, write_report
from pytest_vmstorage.report.html.chart import Chart
from pytest_vmstorage.report.html.markup import data_block, shown, tag
from pytest_vmstorage.report.html.page import Part, hash_of, render_html
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.results.cautions import Caution
from pytest_vmstorage.results.run import Proof, Run
from pytest_vmstorage.results.timeline import Span, Timeline
from pytest_vmstorage.testing.builders import in_turns, make_failure, make_host, make_measurement, make_run
from pytest_vmstorage.units import format_figure
from unit.report.html.charts.measured import a_run, a_sweep, measured
from unit.report.html.reading import Page
from unit.report.html.test_views import runs

HOME = Path(pytest_vmstorage.report.html.__file__).parent
STYLE, SCRIPT = ((HOME / name).read_text(encoding="utf-8") for name in ("style.css", "script.js"))

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;\x00\x1b[31m\u202egnp.exe\u2066\ufffe"


def matrix(rounds: int = 3) -> Run:
    """A run of 16 cells and two workloads."""
    cells = itertools.product(
        ("raw", "qcow2"), ("none", "writethrough", "writeback", "directsync"), ("virtio-blk", "nvme")
    )
    measured = [
        make_measurement(
            StorageConfig(format=form, cache=cache, bus=bus),
            workload=workload,
            iops=[1000 + 10 * len(cache) + one for one in range(rounds)],
            clat_p99=[0.001 * len(bus) + 0.0001 * one for one in range(rounds)],
        )
        for form, cache, bus in cells
        for workload in ("fio randwrite 4k qd32", "fio randread 4k qd1")
    ]
    return make_run(*in_turns(*measured))


def no_chart(*_: object) -> tuple[Chart, ...]:
    """No charts."""
    return ()


def hostile_run() -> Run:
    """A run in which each text of a guest, a tool or a user is markup."""
    proof = Proof(field="bus", asked=HOSTILE, found=HOSTILE, status="proven", where=HOSTILE, why=HOSTILE)
    measured = make_measurement(
        workload=HOSTILE, test=f"tests/test_{HOSTILE}.py::test_x", host=HOSTILE, guest={"kernel": HOSTILE},
        hygiene={HOSTILE: HOSTILE}, iops=(100, 110, 120),
    ).model_copy(
        update={
            "notes": (HOSTILE,), "proof": (proof,), "outcome": "failed", "message": HOSTILE,
            "cautions": (Caution(says=HOSTILE, brief=HOSTILE, remedy=HOSTILE),),
        }
    )  # fmt: skip
    failure = make_failure(StorageConfig(format="qcow2"), reason=f"{HOSTILE}\n    | {HOSTILE}", host=HOSTILE)
    span = Span(step=HOSTILE, begin_s=1, seconds=2, own_s=2, cell=HOSTILE, thread=HOSTILE)
    host = make_host(HOSTILE, cpu=HOSTILE, kernel=HOSTILE, folder=HOSTILE)
    run = make_run(measured, failures=[failure], hosts=[host])
    return run.model_copy(
        update={"timelines": (Timeline(process=HOSTILE, began="2026-01-02", wall_s=4, spans=(span,)),)}
    )


def test_text_of_guests_and_users_is_no_markup() -> None:
    """The page has the elements that it would have of harmless text, and no character that reorders or ends a line."""
    chart = Chart(slug="x", title=HOSTILE, svg="<svg></svg>", csv=HOSTILE, said=HOSTILE)
    document = render_html(hostile_run(), charts_of=lambda _run, _rows: [chart])
    page = Page(document)
    assert page.raw == {"style": [STYLE], "script": [page.raw["script"][0], SCRIPT]}
    assert not {"img", "iframe", "object", "form", "a href"} & {element.name for element in page.elements}
    assert not [key for one in page.elements for key in one.attributes if key.startswith("on") or key == "style"]
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069\ufffe]", document)
    assert "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;" in page.text
    assert json.loads(page.raw["script"][0])["columns"][0]["of"].startswith("</script>")


@given(st.text())
def test_any_text_is_shown_literally(text: str) -> None:
    """As the content of an element, in an attribute, and in the data of the script."""
    page = Page(tag("p", shown(text), title=text) + data_block([text], "data"))
    assert [element.name for element in page.elements] == ["p", "script"]
    assert page.text == page.elements[0].attributes["title"]
    assert json.loads(page.raw["script"][0]) == [text]


def test_the_page_asks_nothing_of_the_network() -> None:
    """No element has a source, no link leads outside, and the policy in the head allows the page's own two alone."""
    page = Page(render_html(matrix()))
    assert not [one for one in page.elements if {"src", "srcset", "data", "action"} & set(one.attributes)]
    assert all(one.attributes["href"].startswith("#") for one in page.elements if "href" in one.attributes)
    policy = next(one.attributes["content"] for one in page.elements if "http-equiv" in one.attributes)
    assert policy == (
        f"default-src 'none'; style-src '{hash_of(STYLE)}'; script-src '{hash_of(SCRIPT)}'; base-uri 'none';"
        " form-action 'none'"
    )
    assert page.raw["style"] == [STYLE]
    assert page.raw["script"][-1] == SCRIPT
    assert "http" not in STYLE + SCRIPT
    assert "url(" not in STYLE


@settings(max_examples=25)
@given(runs())
def test_every_figure_of_the_saved_run_is_in_the_page_and_no_other(run: Run) -> None:
    """The median of each shown metric of the JSON report stands in the table of its workload, in its row."""
    page = Page(render_html(run))
    saved = Run.model_validate(json.loads(render_json(run)))
    table = build_table(saved)
    found = [cell.text for one in page.tables if "all figures" in one.caption for line in one.lines for cell in line]
    figures = sorted(
        text.split(" ±")[0].split(" n=")[0] for text in found if re.match(r"[\d.]+[kM]? ?(?:IOPS|[mun]?s)", text)
    )
    expected = [format_figure(m.figure(name), m.metric(name).unit) for m in saved.measurements for name in m.shown]
    assert figures == sorted(expected)
    for row in table.rows:
        for cell in row.cells:
            assert cell.figure in " ".join(found)


@settings(max_examples=10)
@given(runs() | st.sampled_from([a_run, a_sweep]).map(lambda make: make()))
def test_the_page_has_no_number_that_the_saved_run_has_not(run: Run) -> None:
    """Made from the JSON report alone it is the same, to the letter: matrix, ratios, charts, proof and times."""
    assert render_html(Run.model_validate(json.loads(render_json(run)))) == render_html(run)


def test_the_page_says_what_the_text_report_says() -> None:
    """Hosts, caption, verdict and every section are in it as text."""
    run = hostile_run().model_copy(update={"failures": ()})
    run = matrix().model_copy(update={"hosts": (make_host(accel="tcg"),), "timelines": run.timelines})
    page, table = Page(render_html(run)), build_table(run)
    text = " ".join(page.text.split())
    said = [line for one in table.sections for line in (one.title, *one.lines)]
    for line in (*table.hosts, table.caption, table.time, table.legend, *said):
        assert " ".join(line.split()) in text or "\x1b" in line or "\u202e" in line
    assert "emulated: figures say nothing about speed" in text


def test_the_first_things_are_the_verdict_the_matrix_and_what_moves_what() -> None:
    """In document order, which is the order without style."""
    page = Page(render_html(matrix()))
    assert page.headings[:3] == [("h1", "VM storage: 32 measurements"), ("h2", "Matrix"), ("h2", "What moves what")]
    first, *_ = page.tables
    assert first.caption == "fio randwrite 4k qd32, iops [IOPS], higher is better"
    assert [cell.text for cell in first.lines[0]] == [
        "format", "bus", "cache none", "cache directsync", "cache writethrough", "cache writeback",
    ]  # fmt: skip
    assert page.table("fio randwrite 4k qd32").lines


def test_where_no_effect_can_be_told_the_page_says_why() -> None:
    """A null row is what other rows are compared with; that it differs from one of them in one axis is no effect."""
    rows = [make_measurement(StorageConfig(backing=backing)) for backing in ("file", "null")]
    said = "No effect can be told: apart from native and null rows, no two cells differ in one axis alone."
    assert said in Page(render_html(make_run(*rows))).text
    other = make_measurement(StorageConfig(format="qcow2"))
    assert said not in Page(render_html(make_run(*rows, other))).text


def test_failures_have_their_evidence() -> None:
    """The first line as a sentence, and what the console said last, line by line."""
    reason = "guest ended: QEMU is gone (its agent died).\n  the guest's console ended with:\n    | Oops: 0000 [#1]"
    failures = [make_failure(StorageConfig(format="qcow2"), reason=reason)]
    page = Page(render_html(make_run(make_measurement(), failures=failures)))
    assert ("h3", "test_random_write on qcow2-none-virtio-blk-off 1G, local") in page.headings or any(
        text.startswith("test_random_write on qcow2") for _, text in page.headings
    )
    assert "failed: guest ended: QEMU is gone (its agent died)." in page.text
    assert "    | Oops: 0000 [#1]" in page.text


def test_a_proof_is_shown_once_with_its_measurements() -> None:
    """Asked and found, of how many measurements it is so, and all places where it was read."""
    proof = Proof(field="cache", asked="none", found="cache.direct=on", status="proven", where="query-blockstats")
    both = (proof, proof.model_copy(update={"where": "qom-get"}))
    rows = [make_measurement(StorageConfig(format=form)) for form in ("raw", "qcow2")]
    run = make_run(*(m.model_copy(update={"proof": both}) for m in rows), make_measurement(workload="dd"))
    lines = Page(render_html(run)).table("asked and found").lines
    told = ["cache", "none", "cache.direct=on", "proven", "", "2 of 2", "query-blockstats qom-get"]
    assert [[cell.text for cell in line] for line in lines[1:]] == [told]


def test_charts_stand_with_their_workload() -> None:
    """Each with a heading, a sentence and its figures; parts of others follow."""
    chart = Chart(
        slug="tail", title="How long is the tail?", svg="<svg><title>x</title></svg>", csv="a,b\n1,2\n", said="So."
    )
    document = render_html(matrix(), charts_of=lambda _run, rows: [chart] * (rows[0].workload == "fio randread 4k qd1"),
                           more=[Part("history", "History", "<p>days</p>")])  # fmt: skip
    page = Page(document)
    assert [one.attributes["id"] for one in page.elements if one.name == "figure"] == ["w2-tail"]
    assert ("h3", "How long is the tail?") in page.headings
    assert "a,b\n1,2\n" in page.text
    assert ("h2", "History") in page.headings


def test_every_part_can_be_reached_and_named() -> None:
    """One h1, no level left out, ids once, each link's target there, headers with a scope, regions with a name."""
    page = Page(render_html(hostile_run()))
    levels = [int(name[1]) for name, _ in page.headings]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    ids = [one.attributes["id"] for one in page.elements if "id" in one.attributes]
    assert len(set(ids)) == len(ids)
    named = {one.attributes["href"][1:] for one in page.elements if "href" in one.attributes}
    named |= {one.attributes["aria-labelledby"] for one in page.elements if "aria-labelledby" in one.attributes}
    assert named <= set(ids)
    assert all(one.attributes.get("scope") in ("row", "col") for one in page.elements if one.name == "th")
    assert all(one.attributes.get("aria-label") or one.attributes.get("aria-labelledby")
               for one in page.elements if one.attributes.get("role") == "region")  # fmt: skip
    assert {"header", "main", "nav"} <= {one.name for one in page.elements}
    assert page.elements[0].attributes == {"lang": "en"}


def palettes() -> Mapping[str, Mapping[str, str]]:
    """The colours of both palettes by their names, from the style."""
    found = re.findall(r"(:root[^{]*)\{((?:--[^}]*))\}", STYLE)
    read = {where: dict(re.findall(r"--(\w+):(#[0-9a-f]{3,6})", inside)) for where, inside in found}
    light = read[":root"]
    dark = {where: {**light, **colours} for where, colours in read.items() if where != ":root"}
    assert list(dark) == [":root:not([data-theme=light])", ":root[data-theme=dark]"]
    assert len({json.dumps(one) for one in dark.values()}) == 1
    return {"light": light, "dark": next(iter(dark.values()))}


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2.2."""
    digits = colour[1:] if len(colour) == 7 else "".join(one * 2 for one in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2.2."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


GROUNDS = ("bg", "panel", "u", "hatch", "ref", *(f"{kind}{step}" for kind in "fs" for step in range(1, 5)))
PAIRS = [
    *(("text", ground, 4.5) for ground in GROUNDS),
    *((name, ground, 4.5) for name in ("muted", "link") for ground in ("bg", "panel")),
    ("badtext", "bad", 4.5),
    ("bg", "text", 4.5),
    *((f"t{place}", ground, 3.0) for place in range(8) for ground in ("bg", "panel")),
]
"""Text on its ground, and what is no text (WCAG 1.4.11) with 3:1."""


@pytest.mark.parametrize("name", ["light", "dark"])
def test_text_can_be_read_on_its_ground(name: str) -> None:
    """4.5:1 for all text that the style puts on a colour."""
    colours = palettes()[name]
    found = {(one, other): contrast(colours[one], colours[other]) for one, other, _ in PAIRS}
    assert not {
        pair: round(found[pair], 2) for *pair_, least in PAIRS for pair in [tuple(pair_)] if found[pair] < least
    }
    # what is not in `PAIRS` is no colour of text or ground
    assert set(colours) == {name for one, other, _ in PAIRS for name in (one, other)} | {"line"}


def test_the_page_is_light() -> None:
    """Without charts: 16 rows of two workloads, the script, the style."""
    assert len(SCRIPT.encode()) < 30_000
    assert len(render_html(matrix(), charts_of=no_chart).encode()) < 80_000


def test_a_report_of_that_suffix_is_written(tmp_path: Path) -> None:
    """The suffix chooses the format."""
    write_report(tmp_path / "x.html", matrix())
    assert (tmp_path / "x.html").read_text(encoding="utf-8").startswith('<!doctype html>\n<html lang="en">\n')


def test_a_run_without_a_row_is_a_page() -> None:
    """It says so, and has no matrix."""
    page = Page(render_html(make_run()))
    assert "nothing was measured" in page.text
    assert not page.tables


@pytest.mark.parametrize(("cells", "rounds", "limit"), [(16, 6, 120_000), (180, 3, 600_000)])
def test_charts_stay_within_the_weight_of_a_page(cells: int, rounds: int, limit: int) -> None:
    """With a histogram and a cost in each round, and the charts where the workload's figures are."""
    configs = [
        StorageConfig.model_validate({"format": form, "vcpus": cpus, "queue_size": size})
        for size in (16, 32, 64, 128, 256)
        for cpus in range(1, 19)
        for form in ("raw", "qcow2")
    ]
    rows = [
        measured(config, [1000 + 7 * place + one for one in range(rounds)], cpu_us=9, seed=1)
        for place, config in enumerate(configs[:cells])
    ]
    document = render_html(make_run(*in_turns(*rows)))
    charts = [one for one in Page(document).elements if one.attributes.get("class") == "chart" and one.name == "figure"]
    assert len(charts) == 4
    assert all(one.attributes["id"].startswith("w1-") for one in charts)
    assert len(document.encode()) < limit

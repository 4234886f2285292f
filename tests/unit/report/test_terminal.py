"""What a run prints at its end: how much by verbosity, within any width, and with words that bear a colour.

Tests of `report.overview` and `report.terminal`.
"""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from pytest_vmstorage.analysis.gate.by_pairs import compare_pairs
from pytest_vmstorage.analysis.gate.policy import GatePolicy
from pytest_vmstorage.analysis.gate.verdicts import Comparison
from pytest_vmstorage.config.cell import Cache, StorageConfig
from pytest_vmstorage.report.markdown import render_markdown
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.report.terminal import Detail, detail_of, painted, render_end, title_of
from pytest_vmstorage.results.cautions import Caution
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.results.timeline import Span, Timeline
from pytest_vmstorage.testing.builders import make_failure, make_host, make_measurement, make_run

ROOT = Path(__file__).parents[3]

WIDTHS = (80, 100, 160)

CELLS = [
    StorageConfig(format=f, cache=c, bus=b, preallocation=p)  # type: ignore[arg-type]
    for f, c, b, p in product(("raw", "qcow2"), ("none", "writeback"), ("virtio-blk", "virtio-scsi"), ("off", "full"))
]
"""The demo's."""

CAUTIONS = (
    Caution(
        says="page cache of dd", brief="the host's page cache can hold all data", remedy="size= above 8 GiB", weight=3
    ),
    Caution(says="memory of hdparm", brief="the guest's memory can hold all data", remedy="direct I/O", weight=3),
    Caution(says="tasks waited", share=0.15, brief="host tasks waited for a CPU", remedy="a quiet host", weight=2),
    Caution(says="powersave", brief="the CPU governor was powersave", remedy="--vm-governor=performance", weight=1),
)


def demo_run() -> Run:
    """16 cells and three tests, emulated: a cache mode moves two of them, rounds of the third are noise."""
    chance = random.Random(3)
    measured = []
    for number, cell in enumerate(CELLS):
        fast = 1.5 if cell.cache == "none" else 1.0
        noise = [chance.uniform(0.7, 1.3) for _ in range(3)]
        measured += [
            make_measurement(
                cell,
                iops=[4000 * fast * (1 + number / 100 + n / 1000) for n in range(3)],
                clat_p99=[0.012 * one for one in noise],
            ),
            make_measurement(cell, workload="dd write 1M direct", test="t.py::test_dd", bw=[700 * n for n in noise]),
            make_measurement(
                cell, workload="hdparm -t", test="t.py::test_hdparm", buffered_read=[300 * fast + n for n in range(3)]
            ),
        ]
    measured = [m.model_copy(update={"outcome": "passed", "cautions": CAUTIONS}) for m in measured]
    host = make_host("vm", accel="tcg", cpu="AMD EPYC-Milan Processor with a long name", qemu="7.2.22")
    run = make_run(*(m.model_copy(update={"host": "vm"}) for m in measured), hosts=[host])
    spans = tuple(
        Span(step=step, begin_s=n * 10.0, seconds=10.0, own_s=10.0)
        for n, step in enumerate(("start", "opening", "boot", "filling", "set-up", "warm-up", "window", "test"))
    )
    timeline = Timeline(process="main", began="2026-01-02T03:04:05+00:00", wall_s=85.0, spans=spans)
    return run.model_copy(update={"timelines": (timeline,)})


def red_run() -> tuple[Run, Comparison]:
    """Two cells that failed, a test that failed, and a regression."""
    cells = CELLS[:6]
    speeds = [500 if cell == CELLS[1] else 1000 for cell in cells]
    now = [
        make_measurement(cell, iops=[speed * (1 + 0.01 * (n % 3)) for n in range(18)])
        for cell, speed in zip(cells, speeds, strict=True)
    ]
    now = [m.model_copy(update={"outcome": "passed", "fresh": 12 if m.config == CELLS[1] else 0}) for m in now]
    now[2] = now[2].model_copy(update={"outcome": "failed", "message": "AssertionError: too slow"})
    then = [make_measurement(cell, iops=[1000 * (1 + 0.01 * (n % 3)) for n in range(18)]) for cell in cells]
    failures = [
        make_failure(CELLS[6]),
        make_failure(CELLS[7], reason="disk did not appear: no /dev/vda.\nthe console"),
    ]
    run = make_run(*now, against=then, recipe="cache=writeback", failures=failures)
    return run, compare_pairs(run, GatePolicy())


def large_run() -> Run:
    """200 cells, of which two failed."""
    chance = random.Random(5)
    cells = [
        StorageConfig(cache=cache, memory=f"{memory}M", queue_size=size)
        for cache, memory, size in product(get_args(Cache), range(256, 266), (16, 32, 64, 128))
    ]
    measured = [make_measurement(cell, iops=[chance.uniform(900, 1000) for _ in range(3)]) for cell in cells[2:]]
    measured[50] = make_measurement(cells[52], iops=(5000, 5001, 5002))
    measured[60] = make_measurement(cells[62], iops=(50, 51, 52))
    return make_run(*measured, failures=[make_failure(cell) for cell in cells[:2]])


def wide_run(rows: int) -> Run:
    """Five tests of two workloads with two metrics each, in so many cells."""
    return make_run(
        *(
            make_measurement(
                cell, workload=f"fio {way} {2**n}k", test=f"t.py::test_{n}", iops=[5000.0 + n] * 3, clat_p99=[0.001] * 3
            )
            for n in range(5)
            for cell in CELLS[:rows]
            for way in ("read", "write")
        )
    )


def printed(run: Run, detail: Detail = Detail.OVERVIEW, width: int = 100, comparison: Comparison | None = None) -> str:
    """The report as one text."""
    return "\n".join(render_end(run, comparison, detail, width))


@pytest.mark.parametrize("verbosity", range(-4, 4))
def test_detail_follows_pytests_verbosity(verbosity: int) -> None:
    """Nothing below -q, all from -v on."""
    expected = {-1: Detail.MATRIX, 0: Detail.OVERVIEW}
    assert detail_of(verbosity) == expected.get(verbosity, Detail.ALL if verbosity > 0 else Detail.FILES)


@pytest.mark.parametrize("detail", [Detail.MATRIX, Detail.OVERVIEW, Detail.ALL])
def test_no_line_is_wider_than_the_terminal(detail: Detail) -> None:
    """At every width that a reader may have, whatever a run holds."""
    red, comparison = red_run()
    runs = [(demo_run(), None), (red, comparison), (large_run(), None)]
    for width in (60, *WIDTHS):
        for run, judged in runs:
            assert max(map(len, render_end(run, judged, detail, width))) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_the_demo_has_one_table(width: int) -> None:
    """Its cells hold numbers, whose units stand in the headings."""
    text = printed(demo_run(), width=width)
    rules = [line for line in text.splitlines() if line.startswith("---")]
    assert len(rules) == 1
    rows = text.partition(rules[0])[2].strip().splitlines()[:16]
    assert not any(unit in row for row in rows for unit in ("IOPS", "MiB/s", " ms", " %", "tcg"))
    assert "IOPS ↑" in text
    assert "MiB/s ↑" in text


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_demo_has_at_most_40_lines(width: int) -> None:
    """As it is measured in real guests, and as it is made up here."""
    saved = json.loads((ROOT / "docs/samples/quickstart.json").read_text(encoding="utf-8"))
    for run in (demo_run(), Run.model_validate(saved)):
        lines = render_end(run, None, Detail.OVERVIEW, width)
        assert 25 < len(lines) <= 40
        assert max(map(len, lines)) <= width


def test_the_overview_says_what_matters() -> None:
    """The host and its emulation, best and worst, effects beyond spread, three doubts with remedies, time, the rest."""
    lines = render_end(demo_run(), None, Detail.OVERVIEW, 120)
    text = "\n".join(lines)
    assert title_of(demo_run()) == ("VM storage: 48 passed", {})
    assert lines[0].startswith(
        "host vm, tcg (emulated: figures say nothing about speed), QEMU 7.2.22, 2 cores, AMD EPYC-"
    )
    assert "no difference beyond spread: dd write\n" in text
    told = text.partition("best:")[2].split("\n")
    assert told[0].strip() == "fio randwrite: 6666 IOPS on qcow2 none virtio-scsi full; 1.60x the worst"
    assert told[1].strip().startswith("hdparm -t: 451 MiB/s on raw none virtio-blk off (+7 alike); 1.50x the worst")
    assert "effects:   hdparm -t: cache none 1.50x as fast as writeback (1.50x to 1.50x)\n" in text
    assert " 8 other effects within the spread\n" in text
    doubts = text.partition("cautions:")[2].partition("time:")[0].strip().splitlines()
    assert [line.strip() for line in doubts] == [
        "the host's page cache can hold all data -> size= above 8 GiB",
        "the guest's memory can hold all data -> direct I/O",
        "host tasks waited for a CPU: 15% -> a quiet host; and 2 more",
    ]
    assert "time:      1 min 25 s: 12 % starting pytest and collecting tests; 12 % " in text
    assert lines[-1].endswith("-v or --vm-report=FILE")


@pytest.mark.parametrize(
    ("width", "cpu", "ends"),
    [
        (47, "AMD EPYC", "QEMU 7.2.22, 2 cores, AMD EPYC"),
        (46, "AMD EPYC", "QEMU 7.2.22, 2 cores"),
        (47, "AMD EPYC-Milan Processor", "QEMU 7.2.22, 2 cores"),
        (52, "AMD EPYC-Milan Processor", "QEMU 7.2.22, 2 cores, AMD EPYC-Mil…"),
    ],
)
def test_a_fact_of_the_host_is_not_cut_to_a_stump(width: int, cpu: str, ends: str) -> None:
    """What does not fit is left out whole, unless enough of it is left to be read."""
    run = make_run(make_measurement(), hosts=[make_host(accel="kvm", cpu=cpu, qemu="7.2.22", cores=2)])
    line = render_end(run, None, Detail.OVERVIEW, width)[0]
    assert line.endswith(ends)
    assert len(line) <= width


@pytest.mark.parametrize(("cells", "said"), [(1, False), (2, True)])
def test_rounds_in_a_row_are_a_doubt_between_cells(cells: int, said: bool) -> None:
    """One cell has no effects that a host's drift could bend, and none that it could take turns with."""
    rows = [make_measurement(cell, iops=[100, 101, 99], hygiene={"rounds": "in a row"}) for cell in CELLS[:cells]]
    assert ("rounds in a row: effects include the host's drift" in printed(make_run(*rows))) is said


def test_the_matrix_alone_has_its_cautions() -> None:
    """And the outcome, the host, how it is read: all of it stands in the overview as well."""
    matrix, overview = (render_end(demo_run(), None, detail, 120) for detail in (Detail.MATRIX, Detail.OVERVIEW))
    assert "cautions:" in "\n".join(matrix)
    assert {" ".join(line.split()) for line in matrix} <= {" ".join(line.split()) for line in overview}
    assert not any(word in "\n".join(matrix) for word in ("effects:", "best:", "time:", "more:"))
    assert render_end(demo_run(), None, Detail.FILES, 120) == []


def test_what_the_overview_leaves_out_stands_in_all() -> None:
    """And in Markdown: each line of each section, with the remedies."""
    run = demo_run()
    everything, markdown = " ".join(printed(run, Detail.ALL).split()), render_markdown(build_table(run))
    titles = [section.title for section in build_table(run).sections]
    assert titles == ["what moves what", "host vm", "what speaks against figures"]
    for section in build_table(run).sections:
        assert f"{section.title}: {section.lines[0]}" in everything
        assert f"### {section.title}" in markdown
    assert "page cache of dd; remedy: size= above 8 GiB" in everything
    assert "powersave; remedy: --vm-governor=performance" in everything


def test_a_red_run_says_why() -> None:
    """FAIL behind the figure; cells and tests that failed with the first line of their reasons; what regressed."""
    run, comparison = red_run()
    text = printed(run, comparison=comparison)
    flat = " ".join(text.split())
    assert title_of(run) == ("VM storage: 5 passed, 3 FAILED", {"red": True, "bold": True})
    assert "writeback  virtio-scsi  full      failed: disk did not appear" in text
    assert "1010 ±1   +0.0 %            FAIL\n" in text
    assert "505 ±1 ▼ -50.0 % REGRESSED\n" in text
    assert "failed: test_random_write on raw-writeback-virtio-scsi-off 1G, local: The guest did not answer" in flat
    assert " test_random_write on raw-writeback-virtio-scsi-full 1G, local: disk did not appear: no" in flat
    assert "the console" not in text
    assert "test_random_write on raw-none-virtio-scsi-off 1G, local: AssertionError: too slow" in flat
    assert "verdicts: against the same with cache=writeback: 1 REGRESSED, 5 PASS" in flat
    assert "confirmed on fresh pairs with p = 0.00024" in flat


def test_a_large_run_shows_ten_rows() -> None:
    """Those that failed, the best and the worst; the sentence below says which, and how the others are seen."""
    run = large_run()
    lines = render_end(run, None, Detail.OVERVIEW, 100)
    assert len(lines) < 40
    table = [
        line for line in lines if line.startswith(("none ", "directsync ", "writethrough ", "writeback ", "unsafe "))
    ]
    assert len(table) == 10
    assert sum("failed" in line for line in table) == 2
    assert sum("▲" in line for line in table) == sum("▼" in line for line in table) == 1
    said = "10 of 200 rows: 2 failed, best and worst of each workload; the others: -v or --vm-report=FILE"
    assert said in " ".join(" ".join(lines).split())
    assert len(render_end(run, None, Detail.ALL, 100)) > 200


def test_a_wide_table_keeps_a_test_in_one_block() -> None:
    """Its columns stand side by side, in as few blocks as the width needs."""
    for width, blocks in ((80, 5), (100, 5), (160, 2)):
        lines = printed(wide_run(12), width=width).splitlines()
        rules = [number for number, line in enumerate(lines) if line.startswith("---")]
        assert len(rules) == blocks
        heads = [" ".join(lines[number - 3] for number in range(rule, rule + 3)) for rule in rules]
        assert all(head.count("fio read") == head.count("fio write") > 0 for head in heads)


def test_few_cells_with_many_metrics_are_columns() -> None:
    """A row for each metric then, with its unit, where that takes fewer lines; the axes stand above."""
    lines = printed(wide_run(3), width=80).splitlines()
    (rule,) = [number for number, line in enumerate(lines) if line.startswith("---")]
    assert lines[rule - 2].split() == ["bus,", "preallocation", "virtio-blk", "virtio-blk", "virtio-scsi"]
    assert " ".join(lines[rule + 1].split()) == "fio read 1k IOPS ↑ 5000 ±0 5000 ±0 5000 ±0"
    assert " ".join(lines[rule + 2].split()) == "clat_p99 ms ↓ 1 ±0 1 ±0 1 ±0"
    assert "no difference beyond spread: 10 of 10 workloads" in "\n".join(lines)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("width", WIDTHS)
def test_colours_add_nothing(width: int) -> None:
    """The pieces of a line are the line: without markup the text is the same."""
    red, comparison = red_run()
    for line in [
        *render_end(demo_run(), None, Detail.ALL, width),
        *render_end(red, comparison, Detail.OVERVIEW, width),
    ]:
        assert "".join(text for text, _ in painted(line)) == line


@pytest.mark.parametrize(
    ("line", "text", "colour"),
    [
        ("46 passed, 2 FAILED", "2 FAILED", "red"),
        ("46 passed, 2 FAILED", "46 passed", "green"),
        ("raw  505 ±1 ▼ -50.0 % REGRESSED", "REGRESSED", "red"),
        ("raw  505 ±1 ▼ -50.0 % SUSPECT", "SUSPECT", "yellow"),
        ("raw  6666  ±0.1 ▲  14.2 ±12", "6666  ±0.1 ▲", "green"),
        ("raw  4164 ±0.1 ▼", "4164 ±0.1 ▼", "purple"),
        ("qcow2   failed: disk did not appear", "failed", "red"),
        ("host a, tcg (emulated: no speed), QEMU 7", "emulated: no speed", "yellow"),
        ("cautions:  a quiet host", "cautions:", "yellow"),
        ("time:      1 min", "time:", "bold"),
    ],
)  # fmt: skip
def test_words_have_their_colour(line: str, text: str, colour: str) -> None:
    """Each word that has one says the same without it."""
    assert {markup.get(colour) for piece, markup in painted(line) if piece == text} == {True}

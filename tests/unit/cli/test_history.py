"""`vmstorage history` on saved files: its forms, its refusals and its exit status."""

from __future__ import annotations

import json
import math
import random
from datetime import date, timedelta
from pathlib import Path

import pytest

from pytest_vmstorage.analysis.history.history import BaselineHistory
from pytest_vmstorage.cli.command import main
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.formats import render_json
from pytest_vmstorage.results.packed import pack_run
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.testing import make_host, make_measurement, make_run

FIRST = date(2026, 10, 1)


def days() -> list[Run]:
    """40 days of two cells, of which ide takes a quarter more time since 31 October, when QEMU changed."""
    draw, found = random.Random(1), []
    for day in range(40):
        measured = [
            make_measurement(
                StorageConfig(bus=bus),
                iops=[(0.8 if bus == "ide" and day >= 30 else 1) * 10_000 * math.exp(draw.gauss(0, 0.02))],
            )
            for bus in ("virtio-blk", "ide")
        ]
        host = make_host(qemu="9.2" if day >= 30 else "9.1")
        found.append(make_run(*measured, hosts=[host], started=f"{FIRST + timedelta(day)}T03:00:00+00:00"))
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with these days saved as `nightly`, the last as a report is saved, and one of them promoted."""
    saved = tmp_path / ".benchmarks" / "Linux"
    saved.mkdir(parents=True)
    runs = days()
    for number, run in enumerate(runs, 1):
        form = json.loads(render_json(run)) if number == len(runs) else pack_run(run.model_dump(mode="json"))
        content: dict[str, object] = {"datetime": run.started, "benchmarks": [], "vmstorage": form}
        (saved / f"{number:04}_nightly.json").write_text(json.dumps(content))
    again = {
        "datetime": "2026-11-20T00:00:00",
        "benchmarks": [],
        "vmstorage": pack_run(runs[20].model_dump(mode="json")),
    }
    (saved / "0041_nightly.json").write_text(json.dumps({**again, "vmstorage_promoted": {"at": "", "from": ""}}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def test_the_text_has_a_column_for_each_day(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the mark of QEMU and the span below the day; a promoted copy is no day of its own."""
    assert main(["history", "nightly"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "history of baseline 'nightly': 40 days from 2026-10-01 to 2026-11-09, host local"
    assert lines[1] == "judged 2 of 2"
    assert lines[3].startswith("1. since 2026-10-31: slower, +2")
    assert "QEMU was 9.1 and is 9.2 now (local, 2026-10-31)" in lines[5].strip()
    (chart,) = [place for place, line in enumerate(lines) if "█" in line and " to " not in line]
    assert len(lines[chart].strip()) == 40
    assert lines[chart + 1].index("Q") == lines[chart + 2].index("^") == 3 + 30


def test_the_forms_agree(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON is the whole value; Markdown has its finding; the form is that of --format, or of the file's name."""
    assert main(["history", "nightly", "--format", "json"]) == 0
    history = BaselineHistory.model_validate_json(capsys.readouterr().out)
    (finding,) = history.findings
    assert (finding.on, finding.way, [mark.what for mark in finding.marks]) == (
        date(2026, 10, 31),
        "slower",
        ["QEMU was 9.1 and is 9.2 now"],
    )
    assert main(["history", "nightly", "-o", "h.md"]) == main(["history", "nightly", "-o", "h.json"]) == 0
    assert capsys.readouterr().out == ""
    assert BaselineHistory.model_validate_json((folder / "h.json").read_text()) == history
    assert "### 1. since 2026-10-31: slower" in (folder / "h.md").read_text()


def test_named_cells_are_shown_without_a_finding_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its days, since the one that is asked for."""
    assert main(["history", "nightly", "--cell", "virtio-blk", "--since", "2026-10-21"]) == 0
    said = capsys.readouterr().out
    assert "20 days from 2026-10-21" in said
    assert "no change was found" in said
    assert "fio randwrite 4k qd32 on raw-none-virtio-blk-off 1G, local: iops " in said


GATE = """
[[levels]]
cell = "*"
since = 2026-10-31
reason = "QEMU 9.2 flushes more"
owner = "jo"
expires = 2999-01-01
"""


def test_check_fails_until_somebody_answers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A slower level that nobody accepted, and an acceptance that lapsed."""
    assert main(["history", "nightly", "--check"]) == 1
    (folder / "vmstorage-gate.toml").write_text(GATE)
    capsys.readouterr()
    assert main(["history", "nightly", "--check"]) == 0
    assert "accepted by jo until 2999-01-01: QEMU 9.2 flushes more" in capsys.readouterr().out
    (folder / "other.toml").write_text(GATE.replace("2999", "2001"))
    assert main(["history", "nightly", "--check", "--gate", "other.toml"]) == 1
    assert "lapsed: other.toml, [[levels]] 1: the level of * that jo accepted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nightli"], "there is no baseline 'nightli' in .benchmarks"),
        (["nightly", "--format", "jsn"], "--format='jsn' is not known. Did you mean 'json'?"),
        (["nightly", "-o", "x.pdf"], "a history in the form of '.pdf' is not known. The file's name ends with one of:"),
        (["nightly", "--since", "May"], "--since='May' is no date. Write for example --since=2026-11-01. [VM333]"),
        (
            ["nightly", "--cell", "sata"],
            "no saved day of 'nightly' has a figure for --cell=sata. It has the cells raw-",
        ),
        (["nightly", "--metric", "bw"], "and the primary metrics iops. [VM334]"),
        (["nightly", "-o", "no/such/folder.md/x.md", "--gate", "none.toml"], "the gate file none.toml"),
    ],
)
def test_a_mistake_is_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    """What, where, and what to do."""
    assert main(["history", *words]) == 1
    assert sentence in capsys.readouterr().err

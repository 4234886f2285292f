"""`vmstorage report`: saved files become a page, Markdown, a picture, CSV or JSON, without pytest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_vmstorage.cli.command import main
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.formats import RENDERERS, render_json
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.testing.builders import make_measurement, make_run

RUN = make_run(
    make_measurement(iops=(5919, 5920, 5921), bw=(23.1, 23.1, 23.1)),
    make_measurement(StorageConfig(format="qcow2"), iops=(4640, 4641, 4642), bw=(18, 18, 18)),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run saved as "main", a newer one as "branch", and a JSON report."""
    monkeypatch.chdir(tmp_path)
    for number, (name, started) in enumerate(
        (("main", "2026-01-02"), ("branch", "2026-01-03T11:50:04.8+00:00")), start=1
    ):
        path = tmp_path / ".benchmarks" / "Linux-CPython" / f"000{number}_{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        run = RUN.model_copy(update={"started": started})
        path.write_text(json.dumps({"benchmarks": [], "datetime": started, "vmstorage": run.model_dump(mode="json")}))
    (tmp_path / "report.json").write_text(render_json(RUN))
    return tmp_path


def test_the_newest_run_becomes_a_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a name; the line says what was written, and of which file."""
    assert main(["report", "-o", "out/run.html"]) == 0
    page = (folder / "out" / "run.html").read_text()
    assert "Run of 2026-01-03 11:50 UTC; all rows: " in page
    assert "5920 IOPS" in page
    assert capsys.readouterr().out == ("wrote out/run.html: 2 rows of .benchmarks/Linux-CPython/0002_branch.json\n")


@pytest.mark.parametrize("suffix", RENDERERS)
def test_each_form_is_what_the_option_writes(folder: Path, suffix: str) -> None:
    """Of a JSON report, with every renderer."""
    assert main(["report", "report.json", "-o", f"run{suffix}", "--vm-units=si"]) == 0
    written = (folder / f"run{suffix}").read_text(encoding="utf-8")
    saved = Run.model_validate_json((folder / "report.json").read_text())
    assert written == RENDERERS[suffix](saved, None, True)


def test_markdown_shows_the_picture_that_is_made_with_it(folder: Path) -> None:
    """As in pytest's run; alone it shows none."""
    assert main(["report", "main", "-o", "run.md", "-o", "pictures/run.svg"]) == 0
    assert "](pictures/run.svg)" in (folder / "run.md").read_text()
    assert main(["report", "main", "-o", "alone.md"]) == 0
    assert "![" not in (folder / "alone.md").read_text()


def test_several_runs_stand_in_one_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each under its name, in several files at once."""
    assert main(["report", "main", "2", "report.json", "-o", "all.html", "-o", "all.md"]) == 0
    for text in ((folder / "all.html").read_text(), (folder / "all.md").read_text()):
        assert all(name in text for name in ("main: local", "2: local", "report: local"))
    assert capsys.readouterr().out.count("wrote ") == 2


def test_what_cannot_be_is_refused_before_anything_is_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that is not there, a form that is not known, and one run made of two; a report is not left out."""
    for words, code in [
        (["gone", "-o", "x.md"], "VM250"),
        (["main", "-o", "x.md", "-o", "x.docx"], "VM213"),
        (["main", "branch", "-o", "x.md", "-o", "x.json"], "VM254"),
    ]:
        assert main(["report", *words]) == 1
        assert f"[{code}]" in capsys.readouterr().err
    assert not list(folder.glob("x.*"))
    with pytest.raises(SystemExit):
        main(["report", "main"])


def test_the_page_of_a_saved_run_has_the_history_of_its_name(folder: Path) -> None:
    """From the second saved day on; a run alone, several runs and a JSON report have none."""
    for words in (["main"], ["main", "branch"], ["report.json"]):
        assert main(["report", *words, "-o", "run.html"]) == 0
        assert 'id="history"' not in (folder / "run.html").read_text()
    path = folder / ".benchmarks" / "Linux-CPython" / "0003_main.json"
    content = json.loads(path.with_name("0001_main.json").read_text())
    content["vmstorage"]["started"] = content["datetime"] = "2026-01-04"
    path.write_text(json.dumps(content))
    for name in ("main", "3"):
        assert main(["report", name, "-o", "run.html"]) == 0
        page = (folder / "run.html").read_text()
        assert "history of baseline &#x27;main&#x27;: 2 days from 2026-01-02 to 2026-01-04" in page
        assert page.count("2 too few days") == 1

"""`vmstorage time`: where the time of a saved run, or of a journal, went."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pytest_vmstorage.cli.command import main
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.results.timeline import Span, Timeline
from pytest_vmstorage.testing.builders import make_run

TIMELINE = Timeline(
    process="pytest",
    began="2026-01-02T03:04:05+00:00",
    wall_s=4.0,
    spans=(Span(step="window", begin_s=0.0, seconds=3.0, own_s=3.0, cell="qcow2", workload="fio", round=1),),
)


def save(path: Path, *timelines: Timeline) -> Path:
    """A saved run with these timelines."""
    run: Run = make_run().model_copy(update={"timelines": timelines})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"vmstorage": run.model_dump(mode="json")}))
    return path


def journal(path: Path, seconds: float) -> Path:
    """A journal with one span of so many seconds."""
    span = {"step": "boot", "begin_s": 0.0, "seconds": seconds, "own_s": seconds}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"process": "pytest", "began": TIMELINE.began, "span": span}) + "\n")
    return path


def test_a_saved_run_is_named_by_its_file_or_its_name(tmp_path: Path, capsys, monkeypatch) -> None:
    """As every other command names it."""
    monkeypatch.chdir(tmp_path)
    save(tmp_path / ".benchmarks" / "machine" / "0001_main.json", TIMELINE)
    for name in ("main", ".benchmarks/machine/0001_main.json"):
        assert main(["time", name]) == 0
        assert "75 % in windows" in capsys.readouterr().out


def test_without_a_name_it_is_the_newest_of_saved_runs_and_journals(tmp_path: Path, capsys, monkeypatch) -> None:
    """A run that was not saved, or was killed, has its journal alone."""
    monkeypatch.chdir(tmp_path)
    saved = save(tmp_path / ".benchmarks" / "machine" / "0001_main.json", TIMELINE)
    written = journal(tmp_path / ".vmstorage" / "20260102T030405Z-1.jsonl", 2.0)
    os.utime(saved, (1000, 1000))
    os.utime(written, (2000, 2000))
    assert main(["time"]) == 0
    assert "100 % guests" in capsys.readouterr().out
    os.utime(saved, (3000, 3000))
    assert main(["time"]) == 0
    assert "75 % in windows" in capsys.readouterr().out


def test_a_journal_alone_will_do(tmp_path: Path, capsys, monkeypatch) -> None:
    """Named, or the only thing there."""
    monkeypatch.chdir(tmp_path)
    path = journal(tmp_path / ".vmstorage" / "20260102T030405Z-1.jsonl", 2.0)
    for words in (["time"], ["time", str(path)]):
        assert main(words) == 0
        assert "100 % guests" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["time"], ["time", "missing.jsonl"], ["time", "main"], ["time", "old.json"]])
def test_what_cannot_be_told_is_one_sentence(words: list[str], tmp_path: Path, capsys, monkeypatch) -> None:
    """No run at all, a file that is not there, and one that a version saved which timed nothing."""
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "old.json")
    assert main(words) == 1
    said = capsys.readouterr()
    assert not said.out
    assert said.err.startswith("vmstorage: ")
    assert "Traceback" not in said.err

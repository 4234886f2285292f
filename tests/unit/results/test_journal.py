"""The journal: each sample a line of its own, on disk when write returns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import HostError
from pytest_vmstorage.results.journal import Journal, Past, read_history, read_timelines
from pytest_vmstorage.results.packed import unpack, unpack_output
from pytest_vmstorage.results.run import Sample
from pytest_vmstorage.results.timeline import Span, by_step

SAMPLE = Sample(
    figures={"iops": 14100.5}, started="2026-01-02T03:04:05+00:00", seconds=5.25, raw="line\nline \N{SNOWMAN}"
)
CONFIG = StorageConfig(format="qcow2")
RECORDING = Path(__file__).parents[1] / "recordings" / "journal-0.1.0.jsonl"
"""A journal that version 0.1.0 wrote; saved-0.1.0.md says how."""


def test_a_sample_is_on_disk_when_write_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushed and synced, and all of it can be read back."""
    synced: list[str] = []
    path = tmp_path / ".vmstorage" / "run.jsonl"
    monkeypatch.setattr(os, "fsync", lambda _handle: synced.append(path.read_text()))
    journal = Journal(path)
    journal.write("t.py::test[x]", "fio randwrite", CONFIG, "local", SAMPLE)
    journal.write("t.py::test[y]", "fio randwrite", CONFIG, "local", SAMPLE)
    assert [text.count("\n") for text in synced] == [1, 2]
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert Sample.model_validate({**first["sample"], "raw": unpack_output(first["packed"])}) == SAMPLE
    assert StorageConfig.model_validate(first["config"]) == CONFIG
    assert (first["nodeid"], first["workload"], first["host"]) == ("t.py::test[x]", "fio randwrite", "local")
    assert second["nodeid"] == "t.py::test[y]"
    journal.close()


def test_processes_share_a_file(tmp_path: Path) -> None:
    """As workers of one run do: no line comes into the middle of another, however long it is."""
    path = tmp_path / ".vmstorage" / "run.jsonl"
    code = (
        "import sys; from pathlib import Path; from pytest_vmstorage.config.cell import StorageConfig;"
        "from pytest_vmstorage.results.journal import Journal; from pytest_vmstorage.results.run import Sample;"
        "s = Sample(figures={str(n): n + 0.5 for n in range(5000)}, started='', seconds=1, raw=sys.argv[2]);"
        "j = Journal(Path(sys.argv[1]));"
        "[j.write(sys.argv[2], 'w', StorageConfig(), 'h', s) for _ in range(20)]"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(line["nodeid"] for line in lines) == ["a"] * 20 + ["b"] * 20
    assert all(set(unpack_output(line["packed"])) == set(line["nodeid"]) for line in lines)


def test_a_run_that_measured_nothing_leaves_no_file(tmp_path: Path) -> None:
    """Closing twice, or without a sample, is no error."""
    journal = Journal(tmp_path / ".vmstorage" / "run.jsonl")
    journal.close()
    journal.close()
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_nobodys_to_commit(tmp_path: Path) -> None:
    """As pytest's cache: git ignores it; a user's own .gitignore there is left alone."""
    journal = Journal(tmp_path / ".vmstorage" / "run.jsonl")
    journal.write("n", "w", CONFIG, "h", SAMPLE)
    journal.close()
    ignore = tmp_path / ".vmstorage" / ".gitignore"
    assert ignore.read_text() == "*\n"
    ignore.write_text("mine")
    again = Journal(tmp_path / ".vmstorage" / "other.jsonl")
    again.write("n", "w", CONFIG, "h", SAMPLE)
    again.close()
    assert ignore.read_text() == "mine"


def test_a_journal_is_only_ever_added_to(tmp_path: Path) -> None:
    """A second one of the same name, as after a crash in the same second, loses nothing."""
    for _ in range(2):
        journal = Journal(tmp_path / "run.jsonl")
        journal.write("n", "w", CONFIG, "h", SAMPLE)
        journal.close()
    assert len((tmp_path / "run.jsonl").read_text().splitlines()) == 2


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    """What cannot be kept, where, and what to do; no traceback of an OSError."""
    (tmp_path / "file").write_text("in the way")
    journal = Journal(tmp_path / "file" / "run.jsonl")
    with pytest.raises(HostError, match=r"A finished sample cannot be written to .*run\.jsonl: .* --rootdir"):
        journal.write("t.py::test[x]", "fio randwrite", CONFIG, "local", SAMPLE)


SPAN = Span(step="window", begin_s=2.0, seconds=5.0, own_s=5.0, cell="qcow2", workload="fio randwrite", round=1)
TIMED: dict[str, Any] = {"process": "gw0", "began": "2026-01-02T03:04:05+00:00", "span": SPAN.model_dump(mode="json")}


def test_where_the_time_went_is_written_with_each_sample(tmp_path: Path) -> None:
    """What was timed since the last sample goes with it, what comes after the last one when the file is closed."""
    path, new = tmp_path / ".vmstorage" / "run.jsonl", [[TIMED], [TIMED, TIMED]]
    journal = Journal(path, lambda: new.pop(0))
    journal.write("t.py::test[x]", "fio randwrite", CONFIG, "local", SAMPLE)
    assert [list(json.loads(line)) for line in path.read_text().splitlines()] == [
        ["nodeid", "workload", "config", "host", "sample", "packed"],
        ["process", "began", "packed"],
    ]
    journal.close()
    *_, last = path.read_text().splitlines()
    assert unpack(json.loads(last)["packed"]) == [TIMED["span"], TIMED["span"]]
    (timeline,) = read_timelines(path.read_text().splitlines())
    assert (timeline.process, timeline.spans) == ("gw0", (SPAN, SPAN, SPAN))


def test_the_timelines_of_a_journal_are_those_of_its_processes(tmp_path: Path) -> None:
    """A run that was killed has its spans up to then; lines of samples, and a line cut short, are passed over."""
    other = {**TIMED, "process": "gw1", "span": {**TIMED["span"], "begin_s": 1.5}}
    lines = [json.dumps({"nodeid": "t.py::test"}), json.dumps(TIMED), json.dumps(other), json.dumps(TIMED)[:40]]
    first, second = read_timelines(lines)
    assert (first.process, first.wall_s, first.spans) == ("gw0", 7.0, (SPAN,))
    assert (second.process, second.wall_s) == ("gw1", 6.5)


def test_a_journal_that_0_1_0_wrote_is_read_as_before() -> None:
    """Its tests' times for the next plan, and where the time of the run went."""
    lines = RECORDING.read_text().splitlines()
    history = read_history([lines])
    assert history.tests == {
        f"test_disk.py::{name}": Past(round_s=0.01, rounds=2, last=f"2026-11-26T13:31:11.{microseconds}+00:00")
        for name, microseconds in (
            ("test_native", 511349),
            ("test_random_write[raw]", 515147),
            ("test_random_write[qcow2]", 506221),
        )
    }
    assert history.estimate("test_disk.py::test_random_write[raw]", 2).seconds == pytest.approx(0.03)
    (timeline,) = read_timelines(lines)
    assert (timeline.process, timeline.wall_s, len(timeline.spans)) == ("pytest", 0.723383, 109)
    assert by_step([timeline])["window"] == pytest.approx(0.001852)


def test_an_earlier_version_can_go_on_reading(tmp_path: Path) -> None:
    """Lines have what 0.1.0 wrote, but for the raw output and spans, which are packed: it plans by tests' times."""
    records = [json.loads(line) for line in RECORDING.read_text().splitlines()]
    samples, spans = ([one for one in records if kind in one] for kind in ("sample", "span"))
    assert [Span.model_validate(one["span"]).model_dump(mode="json") for one in spans] == [one["span"] for one in spans]
    journal = Journal(tmp_path / "run.jsonl")
    for one in samples:
        config, sample = StorageConfig.model_validate(one["config"]), Sample.model_validate(one["sample"])
        journal.write(one["nodeid"], one["workload"], config, one["host"], sample)
    journal.close()
    again = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    for one in again:
        one["sample"]["raw"] = unpack_output(one.pop("packed"))
        # which came later
        assert (one["sample"].pop("series"), one["sample"].pop("warm_ups")) == (None, [])
    assert again == samples

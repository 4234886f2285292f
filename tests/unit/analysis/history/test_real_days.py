"""A history of real saved days: recorded on one machine by benchmarks/history_days.py, with one injected cause.

Days are real runs of real guests, whose clock and QEMU version were set. From the eighth day on the disks of both cells
on virtio-scsi gave 300 operations a second in place of 400, behind the plugin's back.
"""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest

from pytest_vmstorage.analysis.gate.policy import GatePolicy
from pytest_vmstorage.analysis.history.history import BaselineHistory, HistoryScope, tell_history
from pytest_vmstorage.cli.command import main
from pytest_vmstorage.results.saved import saved_runs

DAYS = Path(__file__).parents[2] / "recordings" / "history-days"
CHANGED = date(2026, 10, 8)


@pytest.fixture(scope="module")
def history() -> BaselineHistory:
    """The history of the recorded days, as the command makes it."""
    return tell_history(saved_runs("nightly", DAYS), HistoryScope("nightly"), GatePolicy(today=date(2026, 10, 15)))


def test_the_cause_is_one_finding_with_the_value_that_its_cells_share(history: BaselineHistory) -> None:
    """Both cells on virtio-scsi and no others, slower by about the third that was taken from their disks."""
    (finding,) = history.findings
    assert (finding.kind, finding.way) == ("step", "slower")
    assert finding.where == "both cells with bus=virtio-scsi, neither of the 2 others"
    assert finding.change == pytest.approx(400 / 300 - 1, abs=0.05)
    assert str(history.census) == "judged 4 of 4"


def test_the_span_holds_the_day_and_what_changed_in_it(history: BaselineHistory) -> None:
    """The day before is the last of the old level; QEMU's version changed on that day, nothing else ever."""
    (finding,) = history.findings
    assert finding.after < CHANGED <= finding.on
    assert (finding.on - finding.after).days <= 3
    (mark,) = finding.marks
    assert mark.what.startswith("QEMU was ")
    assert (mark.after, mark.on) == (date(2026, 10, 7), CHANGED)
    assert history.marks == (mark,)


def test_the_command_and_the_page_tell_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the same words, with a line for each of the four cells; --check is red."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(DAYS, tmp_path / ".benchmarks" / "Linux")
    assert main(["history", "nightly", "--check"]) == 1
    assert "both cells with bus=virtio-scsi" in " ".join(capsys.readouterr().out.split())
    assert main(["report", "nightly", "-o", "run.html"]) == 0
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    part = page[page.index('<section id="history"') :]
    assert "both cells with bus=virtio-scsi, neither of the 2 others" in part
    assert part.count("<svg") == 4
    assert "2026-10-08: QEMU was " in part

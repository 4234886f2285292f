"""Where the time of a run went: below the matrix, in the saved run and the journal, in a file for Perfetto.

Tests of `plugin.timing`.
"""

from __future__ import annotations

import datetime
import json

import pytest
from projects import RANDOM_WRITE, assert_refused, flat, text_of

from pytest_vmstorage.plugin import preflight
from pytest_vmstorage.results.journal import read_timelines
from pytest_vmstorage.results.packed import unpacked

ROUNDED_S = 1e-5
"""More than the wall clock and the times of spans are rounded by."""


def spans_of(timeline, step):
    """The spans of that step."""
    return [one for one in timeline["spans"] if one["step"] == step]


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
def test_every_round_has_its_spans(two_cells, workers):
    """Three rounds and a warm-up of each cell, in the run that is saved and by the process that took them."""
    result = two_cells.run("--vm-report=r.json", "--vm-timeline=out/t.json", "--vm-details", *workers)
    result.assert_outcomes(passed=2)
    timelines = unpacked(json.loads((two_cells.path / "r.json").read_text()))["timelines"]
    assert {one["process"] for one in timelines} == ({"gw0", "gw1"} if workers else {"pytest"})
    (busy,) = [one for one in timelines if spans_of(one, "window")]
    cells = ("qcow2-none-virtio-blk-off", "raw-none-virtio-blk-off")
    windows = [(one["cell"], one["round"]) for one in spans_of(busy, "window")]
    assert sorted(windows) == [(cell, number) for cell in cells for number in (1, 2, 3)]
    assert sorted((one["cell"], one["round"]) for one in spans_of(busy, "warm-up")) == [(cell, 0) for cell in cells]
    assert {"start", "opening", "test", "looks", "forgetting", "journal", "teardown"} <= {
        one["step"] for one in busy["spans"]
    }
    for timeline in timelines:
        ends = [one["begin_s"] + one["seconds"] for one in timeline["spans"]]
        assert max(ends) <= timeline["wall_s"] + 0.001
    assert "time: " in flat(result)
    assert "unaccounted what moves what" in flat(result)
    trace = json.loads((two_cells.path / "out" / "t.json").read_text())
    named = [one for one in trace["traceEvents"] if one["name"] == "window"]
    assert sorted((one["args"]["cell"], one["args"]["round"]) for one in named) == sorted(windows)
    assert "wrote " in text_of(result)


def test_the_start_lasts_until_the_host_is_asked(two_cells, monkeypatch):
    """All checks of the selected tests belong to it; what is asked for their cells belongs to opening the lab."""
    called_at = {}

    def note(name):
        called = getattr(preflight, name)

        def noted(*args):
            result = called(*args)
            called_at[name] = datetime.datetime.now(datetime.UTC)
            return result

        monkeypatch.setattr(preflight, name, noted)

    note("check_gate")
    note("_host_lines")
    two_cells.run("--vm-report=r.json").assert_outcomes(passed=2)
    (timeline,) = unpacked(json.loads((two_cells.path / "r.json").read_text()))["timelines"]
    (start,), openings = spans_of(timeline, "start"), spans_of(timeline, "opening")
    assert start["begin_s"] == 0
    began = datetime.datetime.fromisoformat(timeline["began"])
    checked_s, asked_s = ((called_at[name] - began).total_seconds() for name in ("check_gate", "_host_lines"))
    assert checked_s < start["seconds"] + ROUNDED_S
    assert start["seconds"] <= min(one["begin_s"] for one in openings)
    assert any(one["begin_s"] - ROUNDED_S < asked_s < one["begin_s"] + one["seconds"] + ROUNDED_S for one in openings)


def test_the_journal_has_the_spans_of_a_run(two_cells):
    """As it has the samples: they are there when the run is killed."""
    two_cells.run().assert_outcomes(passed=2)
    (journal,) = two_cells.path.glob(".vmstorage/*.jsonl")
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    assert sum("sample" in one for one in records) == 6
    (timeline,) = read_timelines(journal.read_text().splitlines())
    steps = [span.step for span in timeline.spans]
    assert steps.count("window") == 6
    assert steps[-1] == "teardown"


@pytest.mark.parametrize(("path", "why"), [(".", "is a folder"), ("test_two.py/t.json", "cannot be written")])
def test_a_timeline_that_cannot_be_written_is_refused_at_once(two_cells, path, why):
    """Before anything is made."""
    result = two_cells.run(f"--vm-timeline={path}")
    assert_refused(result, why)
    assert not two_cells.events


def test_a_slow_step_is_said_while_it_goes_on(project):
    """By its name, with the cell and what it waits for; here every step that takes a fifth of a second is slow."""
    project.write(
        conftest="""
import time
from pytest_vmstorage.results import spans

spans.SLOW_S, spans.SLOW_FACTOR, spans._LOOK_S = 0.2, 0, 0.02
""",
        test_it=RANDOM_WRITE
        + """
import time
from pytest_vmstorage.results.spans import span, waiting_for

def test_x(measure):
    with span("restore", cell="raw"), waiting_for("libvirt: restoring the guest"):
        time.sleep(1)
    measure(FIO)
""",
    )
    result = project.run(own_process=True)
    result.assert_outcomes(passed=1)
    said = [line for line in result.outlines if "slow: a guest is restored" in line]
    assert len(said) == 1
    assert "usually 0.7 s; it waits for libvirt: restoring the guest" in said[0]

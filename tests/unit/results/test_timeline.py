"""Where the time went: sums by step, group and cell, as `report.time_spent` and `report.trace_events` have them."""

from __future__ import annotations

import pytest

from pytest_vmstorage.report.time_spent import time_line, time_lines
from pytest_vmstorage.report.trace_events import trace_events
from pytest_vmstorage.results.timeline import MEANINGS, STEPS, Span, Timeline, by_cell, by_group, by_step

CELL = "raw-none-virtio-blk-off"

RUN = Timeline(
    process="pytest",
    began="2026-11-24T10:00:00+00:00",
    wall_s=20.0,
    spans=(
        Span(step="start", begin_s=0.0, seconds=1.0, own_s=1.0),
        Span(step="warm-up", begin_s=3.0, seconds=4.0, own_s=4.0, cell=CELL, workload="fio", round=0),
        Span(step="window", begin_s=7.0, seconds=10.0, own_s=10.0, cell=CELL, workload="fio", round=1),
        Span(step="restore", begin_s=1.0, seconds=2.0, own_s=2.0, cell=CELL),
        Span(step="test", begin_s=1.0, seconds=17.0, own_s=1.0, cell=CELL),
        Span(step="restore", begin_s=1.0, seconds=1.5, own_s=1.5, cell="other", thread="vmstorage-boot_0"),
    ),
)


def test_every_step_has_its_meaning() -> None:
    """A step that is timed is explained in the table of `vmstorage time`."""
    assert list(MEANINGS) == list(STEPS)


def test_what_goes_on_in_another_thread_takes_no_time_of_the_run() -> None:
    """Sums are of pytest's own thread, and what they leave of the wall time is unaccounted for."""
    assert by_step([RUN]) == {"start": 1.0, "restore": 2.0, "warm-up": 4.0, "window": 10.0, "test": 1.0}
    assert RUN.accounted_s == pytest.approx(18.0)
    assert RUN.unaccounted_s == pytest.approx(2.0)


def test_groups_come_longest_first() -> None:
    """Steps of one group are added up, and one that nobody knows is a group of its own."""
    groups = by_group({"disk": 1.0, "boot": 2.5, "window": 3.0, "levitation": 9.0})
    assert list(groups.items()) == [("levitation", 9.0), ("guests", 3.5), ("windows", 3.0)]


def test_cells_have_their_own_sums() -> None:
    """What belongs to no cell stands under none."""
    cells = by_cell([RUN])
    assert cells[""] == {"start": 1.0}
    assert cells[CELL] == {"restore": 2.0, "test": 1.0, "warm-up": 4.0, "window": 10.0}


def test_the_line_below_the_matrix_names_shares_and_what_is_left() -> None:
    """Shares of the wall time, the largest first; a run that was saved without its times has no line."""
    assert time_line([RUN]) == (
        "time: 20 s: 50 % in windows, 20 % warm-up, 10 % guests, 5.0 % starting pytest and collecting tests,"
        " 5.0 % test functions and fixtures; 10 % unaccounted"
    )
    assert time_line([]) == ""


def test_two_processes_are_added_up() -> None:
    """Workers of pytest-xdist: shares are of the time of all of them together."""
    idle = Timeline(process="gw1", began="2026-11-24T10:00:01+00:00", wall_s=20.0)
    assert time_line([RUN, idle]).endswith("; 55 % unaccounted")
    assert "25 % in windows" in time_line([RUN, idle])


def test_the_tables_show_steps_and_cells() -> None:
    """A step has its seconds, share and what is done; time beside pytest's thread stands in a column of its own."""
    lines = time_lines([RUN])
    window = next(line for line in lines if line.startswith("window "))
    assert window.split()[1:7] == ["10.00", "50", "%", "1", "10.000", "10.000"]
    restore = next(line for line in lines if line.startswith("restore "))
    assert "1.50" in restore
    assert next(line for line in lines if line.startswith("unaccounted")).split()[1:4] == ["2.00", "10", "%"]
    assert next(line for line in lines if line.startswith(CELL)).split()[1] == "17.00"


def test_a_span_is_saved_without_what_says_nothing() -> None:
    """A run has thousands of them; what is left out is read again as its default."""
    plain = RUN.spans[0].model_dump(mode="json")
    assert plain == {"step": "start", "begin_s": 0.0, "seconds": 1.0, "own_s": 1.0}
    assert Timeline.model_validate(RUN.model_dump(mode="json")) == RUN


def test_trace_events_are_complete_ones_in_microseconds() -> None:
    """Each process and each thread has its name, later processes begin later, and cells are among the arguments."""
    later = Timeline(process="gw1", began="2026-11-24T10:00:02+00:00", wall_s=1.0, spans=(RUN.spans[0],))
    events = trace_events([RUN, later])["traceEvents"]
    names = [(one["name"], one["pid"], one["tid"], one["args"]["name"]) for one in events if one["ph"] == "M"]
    assert names == [
        ("process_name", 1, 1, "pytest"),
        ("thread_name", 1, 1, "pytest"),
        ("thread_name", 1, 2, "vmstorage-boot_0"),
        ("process_name", 3, 3, "gw1"),
        ("thread_name", 3, 3, "pytest"),
    ]
    complete = [one for one in events if one["ph"] == "X"]
    window = next(one for one in complete if one["name"] == "window")
    assert (window["ts"], window["dur"], window["cat"]) == (7_000_000, 10_000_000, "windows")
    assert window["args"] == {"cell": CELL, "workload": "fio", "round": 1}
    assert [one["ts"] for one in complete if one["pid"] == 3] == [2_000_000]
    assert {one["tid"]: one["dur"] for one in complete if one["name"] == "restore"} == {1: 2_000_000, 2: 1_500_000}


def test_trace_events_of_a_thread_stand_within_each_other_or_apart() -> None:
    """A span comes before those that begin with it and end sooner, and none reaches into the next, however short."""
    spans = (
        Span(step="forgetting", begin_s=1.0, seconds=0.5, own_s=0.5),
        Span(step="journal", begin_s=1.5000006, seconds=0.0000016, own_s=0.0),
        Span(step="looks", begin_s=1.5000022, seconds=0.1, own_s=0.1),
        Span(step="set-up", begin_s=1.0, seconds=3.0, own_s=2.0),
    )
    run = RUN.model_copy(update={"spans": spans})
    complete = [one for one in trace_events([run])["traceEvents"] if one["ph"] == "X"]
    assert [one["name"] for one in complete] == ["set-up", "forgetting", "journal", "looks"]
    _, forgetting, journal, looks = complete
    assert forgetting["ts"] + forgetting["dur"] <= journal["ts"]
    assert journal["ts"] + journal["dur"] <= looks["ts"]

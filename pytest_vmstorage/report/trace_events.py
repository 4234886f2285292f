"""The time of a run as a file in the Trace Event format, which Perfetto and Chrome's DevTools open.

The format is Google's "Trace Event Format": complete events ("X") with times in microseconds, and metadata ("M").
"""

from __future__ import annotations

import datetime
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_vmstorage.leftovers import write_whole
from pytest_vmstorage.results.timeline import STEPS, Span, Timeline

_US = 1_000_000


def write_timeline(path: Path, timelines: Sequence[Timeline]) -> None:
    """Write the spans of these timelines, making the file's folder; raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(trace_events(timelines)) + "\n")


def trace_events(timelines: Sequence[Timeline]) -> dict[str, Any]:
    """All spans as one JSON object: a process for each timeline, a track for each of its threads.

    Of two events that begin together, Catapult's viewer takes the first for the outer one, so each span stands before
    those within it.
    """
    events: list[dict[str, Any]] = []
    first = min((_seconds(one.began) for one in timelines), default=0.0)
    ids = itertools.count(1)
    for timeline in timelines:
        pid = next(ids)
        events.append(_name("process_name", pid, pid, timeline.process))
        # Perfetto takes the thread with the process's number for the main thread
        threads = dict.fromkeys(span.thread for span in timeline.spans if span.thread)
        tracks = {"": pid, **{name: next(ids) for name in threads}}
        events += [_name("thread_name", pid, tid, name or "pytest") for name, tid in tracks.items()]
        shift_s = _seconds(timeline.began) - first
        spans = [_event(span, pid, tracks[span.thread], shift_s) for span in timeline.spans]
        events += sorted(spans, key=lambda one: (one["ts"], -one["dur"]))
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _seconds(began: str) -> float:
    return datetime.datetime.fromisoformat(began).timestamp()


def _name(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _event(span: Span, pid: int, tid: int, shift_s: float) -> dict[str, Any]:
    # both ends are rounded, not the duration: the next span would begin before the end
    begin_us = round((span.begin_s + shift_s) * _US)
    end_us = round((span.begin_s + span.seconds + shift_s) * _US)
    about = {"cell": span.cell, "workload": span.workload, "round": span.round}
    return {
        "ph": "X",
        "name": span.step,
        "cat": STEPS[span.step].group if span.step in STEPS else span.step,
        "ts": begin_us,
        "dur": end_us - begin_us,
        "pid": pid,
        "tid": tid,
        "args": {name: value for name, value in about.items() if value not in ("", None)},
    }

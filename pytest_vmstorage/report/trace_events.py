"""Where the time went in the Trace Event format, which Perfetto and chrome://tracing open.

The format is Google's "Trace Event Format": complete events ("X") with times in microseconds, and metadata ("M").
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from pytest_vmstorage.timeline import STEPS, Span, Timeline

_US = 1_000_000


def trace_events(timelines: Sequence[Timeline]) -> dict[str, Any]:
    """All spans as one JSON object: a process for each timeline, a track for each of its threads."""
    events: list[dict[str, Any]] = []
    first = min((_seconds(one.began) for one in timelines), default=0.0)
    for pid, timeline in enumerate(timelines, start=1):
        events.append(_name("process_name", pid, 0, timeline.process))
        tracks = {name: tid for tid, name in enumerate(dict.fromkeys(["", *(s.thread for s in timeline.spans)]))}
        events += [_name("thread_name", pid, tid, name or "pytest") for name, tid in tracks.items()]
        shift_s = _seconds(timeline.began) - first
        events += [_event(span, pid, tracks[span.thread], shift_s) for span in timeline.spans]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _seconds(began: str) -> float:
    return datetime.datetime.fromisoformat(began).timestamp()


def _name(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _event(span: Span, pid: int, tid: int, shift_s: float) -> dict[str, Any]:
    about = {"cell": span.cell, "workload": span.workload, "round": span.round}
    return {
        "ph": "X",
        "name": span.step,
        "cat": STEPS[span.step].group if span.step in STEPS else span.step,
        "ts": round((span.begin_s + shift_s) * _US),
        "dur": round(span.seconds * _US),
        "pid": pid,
        "tid": tid,
        "args": {name: value for name, value in about.items() if value not in ("", None)},
    }

"""The recorder that times the steps of a run as they happen, and reports one that takes far longer than usual.

Steps are timed in many modules, so the recorder belongs to the process, as a logger does: `span` costs a few
microseconds, and does nothing where no run records.
"""

from __future__ import annotations

import contextlib
import datetime
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pytest_vmstorage.progress import Progress
from pytest_vmstorage.results.timeline import MEANINGS, STEPS, Span, Timeline

SLOW_FACTOR = 10
SLOW_S = 5.0
"""A slow step takes more than so many times its usual time, and more than so many seconds."""

_LOOK_S = 0.5
_DIGITS = 6


@dataclass
class _Open:
    """A step that has begun."""

    step: str
    cell: str
    workload: str
    round: int | None
    begin: float
    inner_s: float = 0.0
    is_told: bool = False


@dataclass
class _Thread:
    """The state of one thread: its open steps, the innermost last, and the names of things that it waits for."""

    name: str
    open: list[_Open] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)


class SpanRecorder:
    """The spans of one process, which began at `begin`, a time.monotonic(); any thread may add to them."""

    def __init__(self, process: str = "pytest", begin: float | None = None) -> None:
        self._process = process
        self._begin = time.monotonic() if begin is None else begin
        since = datetime.timedelta(seconds=time.monotonic() - self._begin)
        self._began = (datetime.datetime.now(datetime.UTC) - since).isoformat()
        self._spans: list[Span] = []
        self._unwritten = 0
        self._threads: dict[int, _Thread] = {}
        self._main = threading.get_ident()
        self._took: dict[tuple[str, str], list[float]] = {}

    @contextlib.contextmanager
    def span(self, step: str, cell: str, workload: str, number: int | None) -> Iterator[None]:
        """Time the block; empty arguments are taken from the step around it."""
        stack = self._thread().open
        around = stack[-1] if stack else None
        opened = _Open(
            step=step,
            cell=cell or (around.cell if around else ""),
            workload=workload or (around.workload if around else ""),
            round=number if number is not None else (around.round if around else None),
            begin=time.monotonic(),
        )
        stack.append(opened)
        try:
            yield
        finally:
            end = time.monotonic()
            stack.pop()
            if around is not None:
                around.inner_s += end - opened.begin
            made = self._made(opened, end, self._thread().name)
            self._spans.append(made)
            self._took.setdefault((step, opened.workload), []).append(made.own_s)

    def add(self, step: str, begin: float, end: float) -> None:
        """Add a step that is over, from one time.monotonic() to another."""
        self._spans.append(self._made(_Open(step, "", "", None, begin), end, ""))

    @contextlib.contextmanager
    def waiting_for(self, what: str) -> Iterator[None]:
        """Name what the thread waits for in the block."""
        waits = self._thread().waits
        waits.append(what)
        try:
            yield
        finally:
            waits.pop()

    def timeline(self) -> Timeline:
        """All until now; steps that go on end now."""
        now = time.monotonic()
        going_on = [
            self._made(one, now, thread.name, within_s=after.begin and now - after.begin if after else 0.0)
            for thread in list(self._threads.values())
            for one, after in zip(list(thread.open), [*list(thread.open)[1:], None], strict=False)
        ]
        wall_s = round(now - self._begin, _DIGITS)
        spans = (*self._spans, *going_on)
        return Timeline(process=self._process, began=self._began, wall_s=wall_s, spans=spans)

    def unwritten(self) -> list[dict[str, Any]]:
        """The spans that ended since the last call, as plain JSON values with the begin of their times."""
        new = self._spans[self._unwritten :]
        self._unwritten += len(new)
        return [{"process": self._process, "began": self._began, "span": one.model_dump(mode="json")} for one in new]

    def slow(self) -> list[str]:
        """A sentence for each open step that takes far longer than usual, once for each."""
        now = time.monotonic()
        found = []
        for thread in list(self._threads.values()):
            opened = thread.open[-1] if thread.open else None
            if opened is None or opened.is_told:
                continue
            usual_s, took_s = self._usual_s(opened), now - opened.begin - opened.inner_s
            if usual_s is not None and took_s > max(SLOW_S, SLOW_FACTOR * usual_s):
                opened.is_told = True
                where = f" ({opened.cell})" if opened.cell else ""
                waits = f"; it waits for {thread.waits[0]}" if thread.waits else ""
                found.append(
                    f"slow: {MEANINGS[opened.step]}{where}: {took_s:.0f} s so far, usually {usual_s:.1f} s{waits}"
                )
        return found

    def _usual_s(self, opened: _Open) -> float | None:
        """The step's usual time: the longer of the table's and the median of this run; None where both are unknown."""
        step, seen = STEPS[opened.step], self._took.get((opened.step, opened.workload), [])
        if step.usual_s is None and not (step.repeats and seen):
            return None
        return max([*([statistics.median(seen)] if seen else []), step.usual_s or 0.0])

    def _made(self, opened: _Open, end: float, thread: str, *, within_s: float = 0.0) -> Span:
        # both ends are rounded, and not the duration: the next span would begin before this one ends
        begin_s, end_s = (round(moment - self._begin, _DIGITS) for moment in (opened.begin, end))
        return Span(
            step=opened.step,
            begin_s=begin_s,
            seconds=round(end_s - begin_s, _DIGITS),
            own_s=round(max(0.0, end - opened.begin - opened.inner_s - within_s), _DIGITS),
            cell=opened.cell,
            workload=opened.workload,
            round=opened.round,
            thread=thread,
        )

    def _thread(self) -> _Thread:
        ident = threading.get_ident()
        found = self._threads.get(ident)
        name = "" if ident == self._main else threading.current_thread().name
        # a thread that ended may have left its number to another one
        if found is None or found.name != name:
            found = self._threads[ident] = _Thread(name)
        return found


_RECORDERS: list[SpanRecorder] = []


@contextlib.contextmanager
def recording(recorder: SpanRecorder, say: Progress) -> Iterator[None]:
    """Record steps in the block; `say` gets a sentence for each slow step while it goes on."""
    _RECORDERS.append(recorder)
    is_over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(recorder, say, is_over), name="vmstorage-watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()
        _RECORDERS.remove(recorder)


def _watch(recorder: SpanRecorder, say: Progress, is_over: threading.Event) -> None:
    while not is_over.wait(_LOOK_S):
        for sentence in recorder.slow():
            say(sentence)


def span(
    step: str, *, cell: object = "", workload: str = "", number: int | None = None
) -> contextlib.AbstractContextManager[None]:
    """Time the block as a step of STEPS, with its cell, workload and round where it has them.

    Empty arguments are taken from the step around it. Nothing is timed where no run records.
    """
    if not _RECORDERS:
        return contextlib.nullcontext()
    return _RECORDERS[-1].span(step, str(cell), workload, number)


def waiting_for(what: str) -> contextlib.AbstractContextManager[None]:
    """Name what this thread waits for in the block; a sentence on a slow step has that name."""
    return _RECORDERS[-1].waiting_for(what) if _RECORDERS else contextlib.nullcontext()

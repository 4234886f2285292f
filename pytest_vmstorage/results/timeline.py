"""The time of a run as values: steps, spans of them, and their sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer


class Step(NamedTuple):
    """A step of a run: the group of its sum, and its usual time, from which a slow one is known.

    `usual_s` is the time on most hosts, None where it depends on the test. A step that `repeats` takes equally long
    each time for one workload: the run's own times are its usual. A step with neither is never slow.
    """

    group: str
    usual_s: float | None = None
    repeats: bool = False


STEPS: Mapping[str, Step] = {
    "start": Step("starting pytest and collecting tests"),
    "opening": Step("opening the lab", 3.0),
    "appliance": Step("opening the lab"),
    "canary": Step("opening the lab", 3.0),
    # whoever waits for the lease names its holder
    "lease": Step("waiting for the host's lease"),
    "disk": Step("guests"),
    "boot": Step("guests", 4.0),
    "restore": Step("guests", 0.7),
    "save": Step("guests", 8.0),
    # never slow itself: the guest that it waits for is
    "queue": Step("guests"),
    "beside": Step("guests"),
    "file system": Step("guests"),
    "proof": Step("guests", 0.5),
    "turn": Step("guests", 0.3),
    "teardown": Step("guests", 0.6),
    "filling": Step("filling"),
    "set-up": Step("around rounds"),
    "forgetting": Step("around rounds", 0.3),
    "looks": Step("around rounds", 0.1),
    "journal": Step("around rounds", 0.1),
    "warm-up": Step("warm-up", repeats=True),
    "window": Step("windows", repeats=True),
    "test": Step("test functions and fixtures"),
    "report": Step("the report", 1.0),
}
"""Every step, in the order of a run."""

MEANINGS: Mapping[str, str] = {
    "start": "pytest starts and collects the tests",
    "opening": "connecting to the host and asking what it has",
    "appliance": "building the guest appliance",
    "canary": "a test guest under KVM",
    "lease": "waiting until no other job measures on the host",
    "disk": "making the disk under test",
    "boot": "a guest boots",
    "restore": "a guest is restored from a saved one",
    "save": "a guest is booted and saved, from which others are restored",
    "queue": "waiting for another guest of the same kind, which is saved or restored first",
    "beside": "waiting for guests that are made beside the first one",
    "file system": "making the cell's file system in the guest",
    "proof": "proving that the guest is what its cell says",
    "turn": "pausing one guest and resuming another",
    "teardown": "removing guests and disks",
    "filling": "writing the disk before it is measured",
    "set-up": "what a workload needs before and after each round",
    "forgetting": "dropping caches of guest and host",
    "looks": "reading the counters of guest, QEMU and host",
    "journal": "syncing a finished sample to the journal",
    "warm-up": "rounds that are thrown away",
    "window": "rounds that are measured",
    "test": "the test functions, their fixtures and pytest around them",
    "report": "writing the report and saving the run",
}
"""The meaning of each step, in words."""


class Span(BaseModel):
    """One step from its beginning to its end, both in seconds since the timeline's.

    `own_s` is its time without that of the spans within it. `round` counts from 1, and warm-ups up to 0; None outside
    of rounds. `thread` is "" for the thread that pytest runs in.
    """

    model_config = ConfigDict(frozen=True)

    step: str
    begin_s: float
    seconds: float
    own_s: float
    cell: str = ""
    workload: str = ""
    round: int | None = None
    thread: str = ""

    @model_serializer(mode="wrap")
    def _short(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without empty values, of which a run has thousands."""
        return {name: value for name, value in handler(self).items() if value not in ("", None)}


class Timeline(BaseModel):
    """The spans of one process: of pytest, or of one worker of pytest-xdist; `began` is UTC, ISO 8601."""

    model_config = ConfigDict(frozen=True)

    process: str
    began: str
    wall_s: float
    spans: tuple[Span, ...] = ()

    @property
    def own(self) -> tuple[Span, ...]:
        """The spans of pytest's own thread: other threads work in parallel and take no time of the run."""
        return tuple(span for span in self.spans if not span.thread)

    @property
    def accounted_s(self) -> float:
        """Seconds of the run that some step took."""
        return sum(span.own_s for span in self.own)

    @property
    def unaccounted_s(self) -> float:
        """Seconds of the run that no step took."""
        return max(0.0, self.wall_s - self.accounted_s)


def wall_s(timelines: Iterable[Timeline]) -> float:
    """Seconds of all processes together."""
    return sum(one.wall_s for one in timelines)


def by_step(timelines: Iterable[Timeline]) -> dict[str, float]:
    """Seconds of each step that took any, without those of steps within it, in the order of a run."""
    found = dict.fromkeys(STEPS, 0.0)
    for timeline in timelines:
        for span in timeline.own:
            found[span.step] = found.get(span.step, 0.0) + span.own_s
    return {step: seconds for step, seconds in found.items() if seconds}


def by_group(steps: Mapping[str, float]) -> dict[str, float]:
    """Seconds of each group of steps, the longest first."""
    found: dict[str, float] = {}
    for step, seconds in steps.items():
        # a step of a later version is a group of its own
        group = STEPS[step].group if step in STEPS else step
        found[group] = found.get(group, 0.0) + seconds
    return dict(sorted(found.items(), key=lambda one: -one[1]))


def by_cell(timelines: Iterable[Timeline]) -> dict[str, dict[str, float]]:
    """Seconds of each step by cell, "" for what belongs to none; cells in the order in which they first came."""
    found: dict[str, dict[str, float]] = {}
    for timeline in timelines:
        for span in sorted(timeline.own, key=lambda one: one.begin_s):
            steps = found.setdefault(span.cell, {})
            steps[span.step] = steps.get(span.step, 0.0) + span.own_s
    return found

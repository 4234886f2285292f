"""The time of this process: recorded from its beginning on, and handed on to the report."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from pytest_vmstorage.plugin.stash import BEGAN, SESSION, SPANS
from pytest_vmstorage.results.spans import SpanRecorder, recording
from pytest_vmstorage.results.timeline import Timeline

OUTPUT = "vmstorage_timeline"
"""Key of a worker's `workeroutput`."""

_OWN_PROCESS_S = 60.0
"""A process that is older than this when pytest begins in it was not started for this run."""


def begin_timing(config: pytest.Config) -> None:
    """Record from now on; steps that take far longer than usual are said."""
    if SPANS in config.stash:
        return
    worker = getattr(config, "workerinput", {}).get("workerid", "pytest")
    began = config.stash.get(BEGAN, time.monotonic())
    if began - _process_start() < _OWN_PROCESS_S:
        began = _process_start()
    config.stash[BEGAN] = began
    config.stash[SPANS] = recorder = SpanRecorder(worker, began)

    def say(sentence: str) -> None:
        if SESSION in config.stash:
            config.stash[SESSION].announce(sentence)

    stack = ExitStack()
    stack.enter_context(recording(recorder, say))
    config.add_cleanup(stack.close)


def end_start(config: pytest.Config) -> None:
    """Record all until now as one step: collecting tests, checking them, and loading what opens the lab."""
    config.stash[SPANS].add("start", config.stash[BEGAN], time.monotonic())


def _process_start() -> float:
    """When this process was started, as time.monotonic(); Linux counts it from the boot (proc(5), field 22)."""
    stat = Path("/proc/self/stat").read_text()
    ticks = int(stat.rpartition(")")[2].split()[19])
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - age_s


def recorder_of(config: pytest.Config) -> SpanRecorder:
    """The recorder of this process."""
    begin_timing(config)
    return config.stash[SPANS]


def hand_on(config: pytest.Config) -> None:
    """Let a worker of xdist send its timeline to the controller, with all that workers send at their end."""
    if hasattr(config, "workeroutput"):
        config.workeroutput[OUTPUT] = config.stash[SPANS].timeline().model_dump(mode="json")


def timelines(config: pytest.Config) -> Sequence[Timeline]:
    """The timelines of the run so far: of this process, or of the workers that ended."""
    if SPANS in config.stash:
        return [config.stash[SPANS].timeline()]
    controller = config.pluginmanager.get_plugin("vmstorage-controller")
    return controller.timelines if controller is not None else []

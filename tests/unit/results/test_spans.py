"""Steps are timed as they happen: nested, in threads, and said while one takes far longer than usual."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from pytest_vmstorage.results import spans
from pytest_vmstorage.results.spans import SLOW_S, SpanRecorder, recording, span, waiting_for
from unit.clock import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The recorder's time, in the test's hands."""
    made = Clock()
    monkeypatch.setattr(spans.time, "monotonic", made.monotonic)
    return made


@pytest.fixture
def recorder(clock: Clock) -> Iterator[SpanRecorder]:
    """What the spans of the test go to; nothing watches it."""
    made = SpanRecorder()
    spans._RECORDERS.append(made)
    yield made
    spans._RECORDERS.remove(made)


def test_a_step_has_its_time_without_that_of_the_steps_within_it(recorder: SpanRecorder, clock: Clock) -> None:
    """What is not said of an inner step is as in the one around it."""
    with span("test", cell="raw", workload="fio"):
        clock.now += 1
        with span("window", number=2):
            clock.now += 5
        clock.now += 2
    window, test = recorder.timeline().spans
    assert (window.step, window.begin_s, window.seconds, window.own_s) == ("window", 1.0, 5.0, 5.0)
    assert (window.cell, window.workload, window.round) == ("raw", "fio", 2)
    assert (test.step, test.begin_s, test.seconds, test.own_s, test.round) == ("test", 0.0, 8.0, 3.0, None)
    assert recorder.timeline().unaccounted_s == 0.0


def test_no_step_reaches_into_the_next(recorder: SpanRecorder, clock: Clock) -> None:
    """However their times are rounded: viewers of the timeline drop what overlaps."""
    for _ in range(200):
        with span("looks"):
            clock.now += 1.00000037
    ends = [round(one.begin_s + one.seconds, 9) for one in recorder.timeline().spans]
    begins = [one.begin_s for one in recorder.timeline().spans]
    assert ends[:-1] == begins[1:]


def test_a_step_that_fails_is_timed_too(recorder: SpanRecorder, clock: Clock) -> None:
    """Its error goes on, and the next step is not taken to lie within it."""

    def boot() -> None:
        with span("boot"):
            clock.now += 3
            raise ValueError("no guest")

    with pytest.raises(ValueError, match="no guest"):
        boot()
    with span("teardown"):
        clock.now += 1
    assert [(one.step, one.own_s) for one in recorder.timeline().spans] == [("boot", 3.0), ("teardown", 1.0)]


def test_steps_that_go_on_count_until_now(recorder: SpanRecorder, clock: Clock) -> None:
    """The report is written within a step of its own, and is to tell of it what there is."""
    with span("report"):
        clock.now += 2
        with span("teardown"):
            clock.now += 1
            timeline = recorder.timeline()
    assert {one.step: one.own_s for one in timeline.spans} == {"report": 2.0, "teardown": 1.0}
    assert timeline.wall_s == 3.0
    assert timeline.unaccounted_s == 0.0


def test_what_was_before_the_recorder_is_a_step(clock: Clock) -> None:
    """pytest's start is over when the first storage test is known."""
    recorder = SpanRecorder("gw0", begin=990.0)
    recorder.add("start", 990.0, 998.0)
    timeline = recorder.timeline()
    assert (timeline.process, timeline.wall_s, timeline.unaccounted_s) == ("gw0", 10.0, 2.0)


def test_another_thread_has_its_own_steps(recorder: SpanRecorder, clock: Clock) -> None:
    """They lie within none of pytest's own, and bear the thread's name."""

    def boot() -> None:
        with span("boot", cell="qcow2"):
            clock.now += 4

    with span("beside", cell="raw"):
        worker = threading.Thread(target=boot, name="vmstorage-boot_0")
        worker.start()
        worker.join()
    timeline = recorder.timeline()
    assert [(one.step, one.thread, one.cell, one.own_s) for one in timeline.spans] == [
        ("boot", "vmstorage-boot_0", "qcow2", 4.0),
        ("beside", "", "raw", 4.0),
    ]
    assert timeline.accounted_s == 4.0


def test_spans_are_handed_to_the_journal_once(recorder: SpanRecorder, clock: Clock) -> None:
    """As plain values, with the process that they are of."""
    with span("boot"):
        clock.now += 1
    (first,) = recorder.unwritten()
    assert (first["process"], first["span"]["step"]) == ("pytest", "boot")
    assert recorder.unwritten() == []


def test_a_step_that_takes_ten_times_its_usual_is_said_once(recorder: SpanRecorder, clock: Clock) -> None:
    """With its cell, its usual time, and what it waits for; the outermost of what it waits for tells most."""
    with span("restore", cell="raw-none"), waiting_for("libvirt: restoring the guest"), waiting_for("poll"):
        clock.now += 6.9
        assert recorder.slow() == []
        clock.now += 1
        (said,) = recorder.slow()
        assert recorder.slow() == []
    assert said == (
        "slow: a guest is restored from a saved one (raw-none): 8 s so far, usually 0.7 s;"
        " it waits for libvirt: restoring the guest"
    )


def test_a_step_is_held_against_what_the_run_saw_of_it(recorder: SpanRecorder, clock: Clock) -> None:
    """A window has no usual time until its workload was run once; another workload says nothing of it."""
    with span("window", workload="fio a"):
        clock.now += 100
        assert recorder.slow() == []
    with span("window", workload="fio b"):
        clock.now += 5000
        assert recorder.slow() == []
    with span("window", workload="fio a"):
        clock.now += 990
        assert recorder.slow() == []
        clock.now += 20
        assert len(recorder.slow()) == 1


def test_a_short_step_is_not_slow_at_once(recorder: SpanRecorder, clock: Clock) -> None:
    """Ten times a millisecond is nothing that anybody waits for."""
    with span("looks"):
        clock.now += 0.001
    with span("looks"):
        clock.now += SLOW_S
        assert recorder.slow() == []
        clock.now += 0.1
        assert len(recorder.slow()) == 1


def test_a_step_that_lasts_as_long_as_others_is_never_slow(recorder: SpanRecorder, clock: Clock) -> None:
    """Waiting for guests that others make takes no time at all, or as long as these take."""
    with span("beside"):
        clock.now += 0.001
    with span("beside"):
        clock.now += 600
        assert recorder.slow() == []


def test_only_the_innermost_step_is_slow(recorder: SpanRecorder, clock: Clock) -> None:
    """The step around it waits for that, and takes no time of its own meanwhile."""
    with span("opening"):
        clock.now += 1
        with span("appliance"):
            clock.now += 600
            assert recorder.slow() == []
        assert recorder.slow() == []


def test_what_is_slow_is_said_while_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a thread of its own, as the one that waits cannot; it ends with the recording."""
    monkeypatch.setattr(spans, "SLOW_S", 0.0)
    monkeypatch.setattr(spans, "SLOW_FACTOR", 0)
    monkeypatch.setattr(spans, "_LOOK_S", 0.01)
    said: list[str] = []
    heard = threading.Event()

    def say(sentence: str) -> None:
        said.append(sentence)
        heard.set()

    with recording(SpanRecorder(), say), span("boot"):
        assert heard.wait(30)
    assert said[0].startswith("slow: a guest boots")
    assert not [one for one in threading.enumerate() if one.name == "vmstorage-watch"]


def test_nothing_is_timed_where_no_run_records() -> None:
    """The core is used without pytest, too."""
    assert not spans._RECORDERS
    with span("boot"), waiting_for("nobody"):
        time.sleep(0)

"""The meter: when it reads, what it loses, and that nothing of it holds a round up or outlives it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from pytest_vmstorage.errors import GuestDiedError, HypervisorError, LostError
from pytest_vmstorage.measure import meter as measured
from pytest_vmstorage.measure.meter import Meter
from pytest_vmstorage.results.series import Counts, Series


class Clock(threading.Event):
    """A clock that goes on only while somebody waits, and an event that is set when `ends_s` have passed."""

    def __init__(self, ends_s: float) -> None:
        super().__init__()
        self.now_s = 1000.0
        self._ends_s = self.now_s + ends_s

    def __call__(self) -> float:
        """The time."""
        return self.now_s

    def wait(self, timeout: float | None = None) -> bool:
        """Let the time pass."""
        assert timeout is not None
        self.now_s = min(self.now_s + timeout, self._ends_s)
        return self.now_s >= self._ends_s

    def take(self, seconds: float) -> None:
        """Let an answer take so long."""
        self.now_s += seconds


def counts(number: int) -> Counts:
    """Those of a disk that has only read."""
    return Counts(number, 0, 4096 * number, 0)


def metered(clock: Clock, count: Callable[[], Counts | None]) -> Series | None:
    """The series of a window on that clock; its thread is waited for, so that no time is lost by chance."""
    with Meter(count, clock=clock, stopped=clock) as meter:
        while meter._thread.is_alive():
            meter._thread.join(0.1)
        meter.stop()
        return meter.series("QEMU", 0.25)


def answers(*given: int | Exception | None) -> Callable[[], Counts | None]:
    """A disk whose readings are these, one after the other."""
    left = iter(given)

    def count() -> Counts | None:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return None if answer is None else counts(answer)

    return count


LOST = HypervisorError("no answer.", code="VM509")
DIED = GuestDiedError("The guest ended.", code="VM502")


def test_a_window_is_read_twice_a_second_and_at_its_end() -> None:
    """Before the tool begins, then each half second, then once it has ended; whatever is counted has its step."""
    made = metered(Clock(1.75), answers(5, 15, 35, 45, 46))
    assert made is not None
    assert (made.steps_ms, made.reads) == ((500, 500, 500, 250), (10, 20, 10, 1))
    assert (made.begin_ms, made.lost) == (0, 0)
    assert (made.counted_by, made.warm_up_s) == ("QEMU", 0.25)


def test_a_window_shorter_than_a_step_has_one() -> None:
    """dd of a few MiB takes less."""
    made = metered(Clock(0.2), answers(5, 8))
    assert made is not None
    assert (made.steps_ms, made.reads) == ((200,), (3,))


@pytest.mark.parametrize(
    ("given", "steps_ms", "reads", "gaps"),
    [
        ((5, 6, LOST, 8, 9), (500, 1000, 500), (1, 2, 1), (1,)),
        ((LOST, 6, 7, 8, 9), (500, 500, 500), (1, 1, 1), ()),
        ((5, 6, 7, 8, LOST), (500, 500, 500), (1, 1, 1), ()),
        ((5, KeyError("rd_bytes"), 7, 8, 9), (1000, 500, 500), (2, 1, 1), (0,)),
    ],
)
def test_a_lost_reading_is_told(
    given: tuple[int | Exception, ...], steps_ms: tuple[int, ...], reads: tuple[int, ...], gaps: tuple[int, ...]
) -> None:
    """It never fails the round, whatever was raised; what was counted meanwhile is in the longer step."""
    made = metered(Clock(2.0), answers(*given))
    assert made is not None
    assert (made.lost, made.steps_ms, made.reads, made.gaps) == (1, steps_ms, reads, gaps)
    assert sum(made.steps_ms) + made.begin_ms == (1500 if given[-1] is LOST else 2000)


def test_readings_that_are_all_lost_are_told_too() -> None:
    """There are no steps, and it is not as if nothing could count."""
    assert metered(Clock(1.0), answers(LOST, LOST, LOST)) == Series(lost=3, warm_up_s=0.25)


def test_moments_that_pass_while_an_answer_is_waited_for_are_lost() -> None:
    """A reading that took 1.2 s is one in place of three; what comes next comes at its own time."""
    clock, numbers = Clock(3.0), iter(range(10))

    def count() -> Counts:
        number = next(numbers)
        clock.take(1.2 if number == 1 else 0)
        return counts(number)

    made = metered(clock, count)
    assert made is not None
    assert (made.lost, made.edges_s) == (2, (0.0, 1.1, 2.0, 2.5, 3.0))


def test_where_nothing_counts_there_is_no_series_and_no_thread() -> None:
    """It is asked once."""
    asked: list[int] = []
    with Meter(lambda: asked.append(1)) as meter:  # type: ignore[func-returns-value]
        assert "vmstorage-meter" not in [thread.name for thread in threading.enumerate()]
        assert meter.series("host") is None
    assert asked == [1]


def test_counts_that_are_known_are_not_read_again() -> None:
    """The first reading is theirs, as of the tool's start; the disk is asked half a second later."""
    clock, numbers = Clock(1.5), iter(range(5, 10))
    with Meter(lambda: counts(next(numbers)), first=counts(3), clock=clock, stopped=clock) as meter:
        meter._thread.join(10)
        meter.stop()
        made = meter.series("QEMU")
    assert made is not None
    assert (made.edges_s, made.reads, next(numbers)) == ((0.0, 0.5, 1.0, 1.5), (2, 1, 1), 8)


@pytest.mark.parametrize("end", [DIED, LostError("The link was cut.", code="VM402")], ids=["guest died", "host lost"])
def test_what_has_ended_is_not_asked_again(end: Exception) -> None:
    """The readings end with the guest, or the link to its host, and the round by its own error."""
    asked: list[int] = []

    def count() -> Counts:
        asked.append(1)
        if len(asked) > 2:
            raise end
        return counts(len(asked))

    with Meter(count, clock=(clock := Clock(60.0)), stopped=clock) as meter:
        meter._thread.join(10)
        assert not meter._thread.is_alive()
    assert len(asked) == 3


@pytest.fixture
def answer() -> Iterator[threading.Event]:
    """An event that lets a reading be answered, which it is at last."""
    event = threading.Event()
    yield event
    event.set()


def test_an_answer_that_does_not_come_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch, answer: threading.Event
) -> None:
    """The window's end waits for a bounded time, the last reading is lost, and what comes later is in no series."""
    monkeypatch.setattr(measured, "LAST_S", 0.05)
    numbers = iter(range(10))

    def count() -> Counts:
        number = next(numbers)
        if number:
            answer.wait(60)
        return counts(number)

    with Meter(count) as meter:
        meter.stop()
        made = meter.series("QEMU")
    assert made is not None
    assert (made.lost, made.steps_ms) == (1, ())
    assert meter._thread.is_alive()
    assert meter._thread.daemon
    answer.set()
    meter._thread.join(10)
    assert made.steps_ms == ()
    assert next(numbers) == 2, "nothing is read after the window"


def test_ctrl_c_ends_the_thread_without_a_last_reading() -> None:
    """Whatever ends the window early: nobody wants the counts of a round that failed."""
    asked: list[int] = []

    def count() -> Counts:
        asked.append(1)
        return counts(len(asked))

    with pytest.raises(KeyboardInterrupt), Meter(count) as meter:
        raise KeyboardInterrupt
    assert not meter._thread.is_alive()
    assert asked == [1]

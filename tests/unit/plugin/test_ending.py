"""Signals that end a run: the first interrupts it, later ones do not take its report."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_vmstorage.plugin import ending
from pytest_vmstorage.plugin.ending import OrderlyEnd

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    """Each signal as a process of its own has it; afterwards as it was."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in SIGNALS[1:]:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def installed() -> Iterator[OrderlyEnd]:
    """The plugin at work."""
    made = OrderlyEnd()
    made.install()
    yield made
    made.give_back()


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_interrupts_and_no_other_does(
    installed: OrderlyEnd, number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whichever comes; who presses Ctrl-C again is told that the run ends."""
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    for again in SIGNALS:
        signal.raise_signal(again)
    assert capfd.readouterr().err.count("vmstorage: the run ends: what it made is removed") == len(SIGNALS)
    installed.pytest_keyboard_interrupt()
    signal.raise_signal(number)


def test_an_interrupt_that_somebody_swallowed_can_be_repeated(
    installed: OrderlyEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the session does not end some seconds later, Ctrl-C interrupts anew; once it ends it never does."""
    now = 100.0
    monkeypatch.setattr(ending.time, "monotonic", lambda: now)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    now += 11
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    installed.pytest_keyboard_interrupt()
    now += 11
    signal.raise_signal(signal.SIGINT)


def test_all_is_given_back(installed: OrderlyEnd) -> None:
    """A process in which several runs take place has its own signals again."""
    installed.give_back()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert [signal.getsignal(number) for number in SIGNALS[1:]] == [signal.SIG_DFL] * 2


@pytest.mark.parametrize("taken", [signal.SIG_IGN, lambda _number, _frame: None], ids=["ignored", "own"])
def test_what_others_have_taken_stays(taken: Any) -> None:
    """As nohup ignores SIGHUP."""
    signal.signal(signal.SIGHUP, taken)
    made = OrderlyEnd()
    made.install()
    assert signal.getsignal(signal.SIGHUP) is taken
    made.give_back()
    assert signal.getsignal(signal.SIGHUP) is taken


def test_another_thread_takes_none() -> None:
    """Python gives signals to the main thread alone."""
    made = OrderlyEnd()
    thread = threading.Thread(target=made.install)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

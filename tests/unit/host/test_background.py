"""Something that is done in a thread while this one goes on, or waits for it no longer than it wants to."""

from __future__ import annotations

import threading

import pytest

from pytest_vmstorage.host.background import begin, in_background


def test_it_is_done_while_the_block_goes_on() -> None:
    """And what it returns can be had more than once."""
    goes_on = threading.Event()
    with in_background(lambda: goes_on.wait(60)) as waiting:
        goes_on.set()
        assert [waiting(), waiting()] == [True, True]


def test_what_it_raises_is_raised_where_it_is_waited_for() -> None:
    """Nowhere else: who does not ask is told nothing."""
    with in_background(lambda: 1 // 0) as dividing, pytest.raises(ZeroDivisionError):
        dividing()
    with in_background(lambda: 1 // 0):
        pass


def test_it_has_ended_when_the_block_has() -> None:
    """Also where that failed: nothing of it goes on in what comes next."""
    done = threading.Event()

    def slowly() -> None:
        threading.Event().wait(0.05)
        done.set()

    with pytest.raises(KeyError), in_background(slowly):
        raise KeyError
    assert done.is_set()


def test_what_was_begun_can_be_given_up() -> None:
    """Its thread keeps no process; its result or error can be had later."""
    goes_on = threading.Event()
    begun = begin(lambda: goes_on.wait(60), "vmstorage-test")
    (thread,) = (one for one in threading.enumerate() if one.name == "vmstorage-test")
    assert thread.daemon
    with pytest.raises(TimeoutError):
        begun.result(0.01)
    goes_on.set()
    assert begun.result(60) is True
    with pytest.raises(ZeroDivisionError):
        begin(lambda: 1 // 0, "vmstorage-test").result(60)

"""Something that is done in a thread while this one goes on."""

from __future__ import annotations

import threading

import pytest

from pytest_vmstorage.host.background import in_background


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

"""A thread on one CPU for a moment, and those that begin meanwhile."""

from __future__ import annotations

import os
import threading

import pytest

from pytest_vmstorage.provision.one_cpu import on_one_cpu


def test_a_thread_is_on_its_first_cpu_and_then_on_all_again() -> None:
    """Also where what it did there failed."""
    allowed = os.sched_getaffinity(0)
    with on_one_cpu():
        assert os.sched_getaffinity(0) == {min(allowed)}
    assert os.sched_getaffinity(0) == allowed
    with pytest.raises(ZeroDivisionError), on_one_cpu():
        1 / 0  # noqa: B018 (it fails)
    assert os.sched_getaffinity(0) == allowed


def test_threads_that_began_meanwhile_are_set_free() -> None:
    """libvirt's own live as long as its driver, and QEMU would inherit theirs; of others nothing is changed."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("this process has one CPU")
    allowed, is_over = os.sched_getaffinity(0), threading.Event()
    first = threading.Thread(target=is_over.wait)
    first.start()
    assert first.native_id is not None
    os.sched_setaffinity(first.native_id, {max(allowed)})
    began: list[threading.Thread] = []

    def begin() -> None:
        began.append(threading.Thread(target=is_over.wait))
        began[-1].start()
        is_over.wait()

    try:
        with on_one_cpu():
            began.append(threading.Thread(target=begin))
            began[0].start()
            while len(began) < 2 or began[1].native_id is None:
                pass
            assert os.sched_getaffinity(began[1].native_id) == {min(allowed)}
        assert [os.sched_getaffinity(one.native_id or 0) for one in began] == [allowed, allowed]
        assert os.sched_getaffinity(first.native_id) == {max(allowed)}
    finally:
        is_over.set()
        for one in (first, *began):
            one.join()

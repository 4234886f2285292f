"""What libvirt knows of a QEMU stays valid: its modules are counted at once, and its driver is opened on one CPU."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pytest_vmstorage.guest.libvirt import capabilities_cache
from pytest_vmstorage.guest.libvirt.capabilities_cache import on_one_cpu

LATEST = """
import ctypes, sys
from pathlib import Path
import libvirt
from pytest_vmstorage.guest.libvirt.capabilities_cache import count_all_modules

latest = getattr(ctypes.CDLL("libvirt.so.0"), "virGetSelfLastChanged")
latest.restype = ctypes.c_long
print(count_all_modules(), latest())
"""


def test_libvirt_takes_the_latest_of_all_modules_for_its_own_time(tmp_path: Path, monkeypatch) -> None:
    """Of those in its folder, before any of them is loaded; in a process of its own, as libvirt forgets none."""
    names = ["libvirt_driver_qemu.so", "libvirt_driver_secret.so"]
    for name in (*names, "README"):
        (tmp_path / name).write_text("")
    monkeypatch.setenv("LIBVIRT_DRIVER_DIR", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", LATEST], capture_output=True, text=True, check=True)
    latest = max(int((tmp_path / name).stat().st_ctime) for name in names)
    assert done.stdout.split() == ["2", str(latest)]


def test_where_libvirt_is_not_loaded_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor where it has no such function."""
    monkeypatch.setattr(capabilities_cache, "_LIBRARY", "libnobodyhas.so.0")
    assert capabilities_cache.count_all_modules() == 0
    monkeypatch.setattr(capabilities_cache, "_LIBRARY", "libc.so.6")
    assert capabilities_cache.count_all_modules() == 0


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

"""libvirt's driver modules are all counted before it looks at what it knows of QEMU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vmstorage.provision import driver_modules

LATEST = """
import ctypes, sys
from pathlib import Path
import libvirt
from pytest_vmstorage.provision.driver_modules import count_all_modules

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
    monkeypatch.setattr(driver_modules, "_loaded_from", lambda: None)
    assert driver_modules.count_all_modules() == 0
    monkeypatch.setattr(driver_modules, "_loaded_from", lambda: Path("libc.so.6"))
    assert driver_modules.count_all_modules() == 0

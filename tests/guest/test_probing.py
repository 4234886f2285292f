"""How often libvirt asks QEMU what it can, where its driver modules were unpacked at different times."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vmstorage.host.folders import cache_folder

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "probing.py"
pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="benchmarks are not part of a source distribution")
SHARED = runpy.run_path(str(SCRIPT)) if SCRIPT.is_file() else {}
"""The test that is run, where libvirt's modules lie, and what makes copies of them: times are measured there."""

UNCOUNTED = """
from pytest_vmstorage.guest.libvirt import hypervisor

hypervisor.count_all_modules = lambda: 0
"""


@pytest.fixture
def apart(tmp_path: Path) -> Path:
    """A copy of libvirt's modules of which the QEMU driver's is older than the others, in whole seconds."""
    folder: Path = SHARED["copies"](tmp_path / "modules", apart=True)
    first = SHARED["FIRST"]
    seconds = {path.name: int(path.stat().st_ctime) for path in folder.iterdir()}
    assert "libvirt_driver_secret.so" in seconds
    assert seconds[first] < min(second for name, second in seconds.items() if name != first)
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache with the appliance and nothing that libvirt found out about QEMU."""
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "appliance").symlink_to(cache_folder() / "appliance")
    return folder


def run(folder: Path, modules: Path, cache: Path) -> str:
    """What libvirt logs of the commands that it runs in a pytest run that sees these modules."""
    (folder / "test_it.py").write_text(SHARED["TEST"])
    log = folder / "libvirt.log"
    log.unlink(missing_ok=True)
    script = 'mount --bind "$0" "$1" && shift && exec "$@"'
    as_root = [] if os.geteuid() == 0 else ["-r"]
    argv = [
        "unshare",
        "-m",
        *as_root,
        "sh",
        "-c",
        script,
        str(modules),
        str(SHARED["MODULES"]),
        sys.executable,
        "-m",
        "pytest",
    ]
    done = subprocess.run(
        [*argv, "-q", "-p", "no:cacheprovider", "--vm-boot=fresh", f"--vm-dir={folder}/disks"],
        cwd=folder,
        env={
            **os.environ,
            "VMSTORAGE_CACHE": str(cache),
            "LIBVIRT_LOG_OUTPUTS": f"1:file:{log}",
            "LIBVIRT_LOG_FILTERS": "1:util.command 1:driver",
        },
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    text = log.read_text()
    assert "Module load secret" in text, "libvirt loaded no module in the middle: nothing was provoked"
    return text


def probes(log: str) -> int:
    """How often QEMU was started to be asked what it can."""
    return len(re.findall(r"About to run .*qemu-system-\w+ .*-machine none", log))


def test_a_qemu_that_did_not_change_is_asked_by_the_first_run_alone(tmp_path: Path, apart: Path, cache: Path) -> None:
    """Neither when a module is loaded that is newer than the first, nor by the next process."""
    first = run(tmp_path, apart, cache)
    assert probes(first) > 0
    assert "Module load secret" in first.rpartition("-machine none")[2], "QEMU was asked again within a run"
    assert probes(run(tmp_path, apart, cache)) == 0


def test_a_qemu_that_is_asked_while_a_guest_begins_is_not_waited_for(tmp_path: Path, apart: Path, cache: Path) -> None:
    """It is adopted then, and libvirt would wait 40 s for each that nobody reaps; here its modules are not counted."""
    (tmp_path / "conftest.py").write_text(UNCOUNTED)
    log = run(tmp_path, apart, cache)
    assert "-machine none" in log.partition("Module load secret")[2], "QEMU was not asked while the guest began"
    assert "Failed to terminate process" not in log

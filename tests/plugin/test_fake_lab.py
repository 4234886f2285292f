"""A page's lines for a fake lab, run as they stand there while another job holds this machine's lease.

Tests of `testing.lab`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from projects import RANDOM_WRITE, flat, text_of

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "set-a-threshold.md"

HOLD = """
import sys
from pytest_vmstorage.errors import HostError
from pytest_vmstorage.host.lock import HostLease
from pytest_vmstorage.host.shell import LocalShell
try:
    HostLease(LocalShell(), "here", wait_s=0).keep()
except HostError as error:
    assert "in use by" in str(error)
print("held", flush=True)
sys.stdin.read()
"""
"""A process that holds the lease of this machine, unless a job that measures here holds it already."""

TESTS = (
    RANDOM_WRITE
    + """
from pytest_vmstorage import Metric, Workload

class MyTool(Workload):
    tool = "mytool"
    metrics = (Metric(name="seconds", unit="s", better="lower"),)
    def argv(self, target): return ("mytool",)

@pytest.mark.parametrize("format", ["raw", "qcow2"])
@pytest.mark.parametrize("bus", ["virtio-blk", "usb"])
def test_write(measure, storage):
    result = measure(FIO)
    assert result.iops == pytest.approx(10000 * SPEED if storage.format == "qcow2" else 10000, rel=0.2)

def test_own(measure):
    assert measure(MyTool()).seconds == 42
"""
)


def lines_of_the_page():
    """The conftest.py with the fake lab."""
    if not PAGE.is_file():
        pytest.skip("documents are not here")
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    (block,) = [block for block in blocks if "make_lab" in block]
    return block


@pytest.fixture
def leased():
    """Another process holds the lease of this machine."""
    with subprocess.Popen([sys.executable, "-c", HOLD], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield
        process.stdin.close()


@pytest.fixture
def own(project, monkeypatch):
    """A user's project, with the page's lines in its conftest.py and no other fake."""
    monkeypatch.delenv("PYTEST_PLUGINS")
    lines = lines_of_the_page()
    speed = re.search(r'"qcow2-\*": ([\d.]+)', lines)
    project.write(conftest=lines, test_it=f"SPEED = {speed[1]}\n{TESTS}")
    return project


@pytest.mark.usefixtures("leased")
@pytest.mark.parametrize("options", [(), ("--vm-wait=0",)], ids=["default", "no wait"])
def test_the_lines_of_the_page(own, options):
    """Cells measure as the options say, the one that dies fails, an own tool answers; nobody is waited for."""
    # in a process that can be ended: one that waits for the lease does so for ten minutes
    result = own.pytester.runpytest_subprocess("-v", *options, timeout=60)
    result.assert_outcomes(passed=4, failed=1)
    text = text_of(result)
    assert "test_write[raw-usb] FAILED" in text
    assert "The guest ended" in flat(result)
    assert "vmstorage: the lab is a fake: no guest is made, and all figures are made up" in text
    assert "in use by" not in text
    assert not [path for path in own.path.glob(".fake-lab/leases/*") if path.is_file()]

"""The host device's own counters."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_vmstorage.host.counters import device_stat, read_device_stat
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.testing.shell import FakeShell

# Linux 6.18, a virtio disk with a volatile cache
FIELDS = "6965474 880122 317428572 1016214 11293246 584468 551779195 2075482 0 791472 3140541 582214 7 1134 41979"
VDA = f"vda yes {FIELDS} 177008 6864\n"


def test_the_probes_line_is_read_in_bytes() -> None:
    """Sectors of 512 bytes, and the sixteenth field."""
    stat = read_device_stat(VDA)
    assert stat is not None
    assert (stat.name, stat.read_bytes, stat.written_bytes) == ("vda", 317428572 * 512, 551779195 * 512)
    assert stat.flushes == 177008


@pytest.mark.parametrize(
    "line", [VDA.replace("yes", "no"), f"sda yes {FIELDS}\n"], ids=["no volatile cache", "Linux before 5.5"]
)
def test_flushes_that_nobody_counts_are_unknown(line: str) -> None:
    """And no 0, which would speak against the cell."""
    stat = read_device_stat(line)
    assert stat is not None
    assert stat.flushes is None


@pytest.mark.parametrize("text", ["", "vda yes\n"])
def test_what_is_no_stat_is_none(text: str) -> None:
    """Nothing printed, or too little."""
    assert read_device_stat(text) is None


def test_a_file_on_no_device_has_no_counters() -> None:
    """A tmpfs has none; the probe says so by its exit status."""
    assert device_stat(FakeShell().answer(re.compile("df --output"), returncode=3), "/dev/shm/x") is None


def test_this_machines_device_counts_what_is_written(tmp_path: Path) -> None:
    """Eight MiB past the page cache, with a flush behind them."""
    path = tmp_path / "file"
    path.touch()
    before = device_stat(LocalShell(), str(path))
    if before is None:
        pytest.skip(f"{tmp_path} lies on no block device")
    line = ["dd", "if=/dev/zero", f"of={path}", "bs=1M", "count=8", "oflag=direct", "conv=fsync", "status=none"]
    if not LocalShell().run(line).ok:
        pytest.skip(f"{tmp_path} has no direct I/O")
    after = device_stat(LocalShell(), str(path))
    assert after is not None
    assert after.written_bytes - before.written_bytes >= 8 * 2**20
    assert after.flushes is None or (before.flushes is not None and after.flushes > before.flushes)

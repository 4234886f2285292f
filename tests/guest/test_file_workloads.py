"""Real ioping, tar, postmark, sqlite and a web server on a real disk of a real guest."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage import Ioping, Iozone, Postmark, Sqlite, StorageConfig, Tar, Web
from pytest_vmstorage.errors import ConfigError, UnsupportedError, WorkloadError
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.measure.runner import measure
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.results.run import Measurement
from pytest_vmstorage.workloads.base import Target, Workload

pytestmark = pytest.mark.restored

DISK = StorageConfig(size="257M")
EXT4 = StorageConfig(size="258M", guest_fs="ext4")


def run(lab: Lab, config: StorageConfig, workload: Workload) -> Measurement:
    """One round of it in that cell."""
    return measure(lab.environment(config), workload, Plan(rounds=1, warmup=0))


def left_behind(lab: Lab, config: StorageConfig) -> list[str]:
    """What lies on the cell's file system beside the test file."""
    names = lab.guest(config).run("ls /mnt/vmstorage").stdout.split()
    return [name for name in names if name not in ("test", "lost+found")]


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (DISK, {"work_size": "16M", "direct": True}),
        (DISK, {"work_size": "16M", "write": True}),
        (EXT4, {"work_size": "16M"}),
        (EXT4, {"directory": True, "read_write": True}),
    ],
    ids=["disk", "disk-write", "file", "directory"],
)
def test_ioping_gives_latencies(lab: Lab, config: StorageConfig, options: dict[str, Any]) -> None:
    """On the disk, on the test file, in a folder: nine requests that took their time."""
    result = run(lab, config, Ioping(interval="10ms", **options))
    assert result.raw[0].split()[0] == "9"
    assert 5e-6 < result.min <= result.avg <= result.max < 5
    assert result.iops == pytest.approx(1 / result.avg, rel=0.01)
    assert "ioping" in result.guest
    if config is EXT4:
        assert left_behind(lab, EXT4) == []


def test_tar_packs_and_unpacks_a_tree_of_its_own(lab: Lab) -> None:
    """Twice each, all of it through the disk: written as tree, archives and files, read back after each drop."""
    workload = Tar(files=60, folders=12, total_size="8M")
    result = run(lab, EXT4, workload)
    moved = result.samples[0].moved
    assert result.seconds == pytest.approx(result.pack_1 + result.pack_2 + result.unpack_1 + result.unpack_2)
    assert moved.guest_written_bytes is not None
    assert moved.guest_read_bytes is not None
    assert moved.guest_written_bytes > 4 * workload.total_size
    assert moved.guest_read_bytes > 4 * workload.total_size
    assert left_behind(lab, EXT4) == []


def test_a_tree_that_does_not_fit_is_refused_with_both_sizes(lab: Lab) -> None:
    """Before anything of it is made."""
    with pytest.raises(ConfigError, match=r"^tar .* makes files of 503 MiB, but the disk has \d+ MiB"):
        run(lab, EXT4, Tar(files=60, total_size="100M"))
    assert left_behind(lab, EXT4) == []


def test_files_are_not_made_where_there_is_no_file_system(lab: Lab) -> None:
    """The cell has to have one."""
    with pytest.raises(ConfigError, match=r'makes files.*guest_fs="ext4"'):
        run(lab, DISK, Tar())


def test_postmark_counts_its_transactions(lab: Lab) -> None:
    """Its own words and the stopwatch agree; what it deleted is gone, and so are folder and settings."""
    result = run(lab, EXT4, Postmark(number=500, transactions=1000))
    assert " seconds of transactions (" in result.raw[0]
    assert 10 < result.tps < 1e6
    assert result.read_bw < result.write_bw
    assert result.seconds > 1000 / result.tps
    assert left_behind(lab, EXT4) == []
    assert not lab.guest(EXT4).run("ls /tmp/vmstorage-postmark.own").ok


def test_a_postmark_that_cannot_make_its_files_gives_no_figure(lab: Lab) -> None:
    """ext4 has too few inodes here; postmark itself goes on and prints rates."""
    few = StorageConfig(size="259M", guest_fs="ext4", guest_mkfs="-N 1000")
    with pytest.raises(
        WorkloadError, match=r"exit status 1(: .*)?\. \[VM701\]\n(.*\n)*.*Error: cannot open '/mnt/vmstorage/"
    ):
        run(lab, few, Postmark(number=3000, size=(1, 2), transactions=10, subdirectories=0))
    assert left_behind(lab, few) == []


@pytest.mark.parametrize(
    ("options", "flushes"),
    [({}, 2), ({"journal_mode": "WAL", "index": True}, 1), ({"synchronous": "OFF", "runs": 2}, 0)],
    ids=["default", "wal", "off"],
)
def test_sqlite_makes_each_insertion_durable(lab: Lab, options: dict[str, Any], flushes: int) -> None:
    """At least as many flushes an insertion as its pragmas promise, and none worth mentioning without."""
    workload = Sqlite(insertions=100, **options)
    result = run(lab, EXT4, workload)
    asked = result.samples[0].moved.layer_flushes
    assert asked is not None
    assert result.insertions == pytest.approx(100 * workload.runs / result.seconds)
    assert asked >= 100 * flushes
    assert flushes or asked < 20
    assert left_behind(lab, EXT4) == []


def test_web_pages_come_from_the_disk(lab: Lab) -> None:
    """Each page is read from the disk about once, whatever was asked for twice; server and pages are gone after."""
    # few enough that a busy host is asked for each of them several times
    web = Web(pages=40, size="64k", duration=2)
    result = run(lab, EXT4, web)
    read = result.samples[0].moved.guest_read_bytes
    assert read is not None
    assert 0.9 * web.pages * web.size < read < 2 * web.pages * web.size
    assert result.requests > 50
    assert 0 < result.lat_p50 <= result.lat_p99 < 5
    assert result.bw == pytest.approx(result.requests * web.size / 2**20, rel=0.1)
    assert left_behind(lab, EXT4) == []
    assert "nginx" not in lab.guest(EXT4).run("ps -e; ls /tmp").stdout


def test_a_page_that_is_missing_gives_no_figure(lab: Lab) -> None:
    """An answer that says so is not a page."""

    class Fewer(Web):
        def setup(self, target: Target) -> tuple[tuple[str, ...], ...]:
            return (*super().setup(target), ("rm", f"{target.folder}/vmstorage-nginx/p1"))

    with pytest.raises(WorkloadError, match="Not every page was served: Non-2xx or 3xx responses"):
        run(lab, EXT4, Fewer(pages=2, duration=1))
    assert left_behind(lab, EXT4) == []


def test_without_iozone_the_cell_is_skipped(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The appliance has none, as Debian's main archive has none."""
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(UnsupportedError, match="needs iozone, which neither the guest nor this machine has"):
        run(lab, EXT4, Iozone())
    assert left_behind(lab, EXT4) == []


def test_a_program_of_the_user_reaches_the_guest_whole(lab: Lab) -> None:
    """In pieces over the agent, and runs there; that it is no iozone is told."""
    program = Path("/usr/bin/dd").resolve()

    class Watched(Iozone):
        def setup(self, target: Target) -> tuple[tuple[str, ...], ...]:
            look = ("/bin/sh", "-c", f"sha256sum {target.scratch}/vmstorage-iozone.own/iozone >/tmp/sum")
            return (*super().setup(target), look)

    with pytest.raises(WorkloadError, match=r"dd: unrecognized|invalid option|Try '.*--help'"):
        run(lab, EXT4, Watched(binary=str(program)))
    seen = lab.guest(EXT4).run("cat /tmp/sum; ls /tmp/vmstorage-iozone.own").stdout.split()
    assert seen == [hashlib.sha256(program.read_bytes()).hexdigest(), "/tmp/vmstorage-iozone.own/iozone"]
    assert left_behind(lab, EXT4) == []


@pytest.mark.skipif(shutil.which("iozone") is None, reason="iozone is in Debian's non-free archive, and not here")
def test_iozone_gives_its_matrix(lab: Lab) -> None:
    """Each pair of sizes, each test of it, written to the disk."""
    iozone = Iozone(file_size=("4M", "8M"), record_size=("64k", "8M"))
    result = run(lab, EXT4, iozone)
    assert len(result.metrics) == 18
    assert all(result.figure(metric.name) > 0 for metric in result.metrics)
    written = result.samples[0].moved.guest_written_bytes
    assert written is not None
    assert written > 3 * (4 + 8 + 8) * 2**20
    assert left_behind(lab, EXT4) == []

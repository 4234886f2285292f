"""Rounds in turns on real guests: each lives through its pauses, one of them is at work, and none is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_vmstorage import Fio
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.guest.file_system import frozen
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.lab.opening import lease_book
from pytest_vmstorage.measure.runner import measure
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.results.packed import unpacked
from pytest_vmstorage.testing.system import interpose

THREE = """
import pytest
from pytest_vmstorage import Fio

@pytest.mark.parametrize("cache", ["none", "writeback"])
@pytest.mark.parametrize("format", ["raw", "qcow2"])
@pytest.mark.storage(size="64M")
def test_random_write(measure):
    measure(Fio(rw="randwrite", bs="4k", iodepth=8, size="16M", runtime=1, time_based=True), warmup=0)
"""
CELLS = 4


def start(folder: Path, *options: str, conftest: str = "") -> subprocess.Popen[str]:
    """A pytest run of the cells, its disks below the folder."""
    (folder / "test_it.py").write_text(THREE)
    (folder / "conftest.py").write_text(conftest)
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--vm-dir={folder}/disks", *options]
    return subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def measurements(folder: Path) -> list[dict[str, object]]:
    """What the run saved."""
    found: list[dict[str, object]] = unpacked(json.loads((folder / "r.json").read_text()))["measurements"]
    return found


def rounds(folder: Path) -> list[tuple[int, str, str]]:
    """Each round's place in the run, its cell and its guest, in the order of the run."""
    taken = [
        (sample["order"], str(one["nodeid"]), sample["boot"])
        for one in measurements(folder)
        for sample in one["samples"]  # type: ignore[attr-defined]
    ]
    return sorted(taken)


def test_guests_wait_for_their_turns(tmp_path: Path) -> None:
    """Every pass has each cell once; each cell has one guest for all its rounds; nothing is left."""
    process = start(tmp_path, "--vm-rounds=3", "--vm-seed=5", "--vm-report=r.json", "--vm-details")
    text, _ = process.communicate(timeout=400)
    assert process.returncode == 0, text
    taken = rounds(tmp_path)
    assert len(taken) == 3 * CELLS
    for first in range(0, len(taken), CELLS):
        assert len({cell for _, cell, _ in taken[first : first + CELLS]}) == CELLS
    assert len({boot for _, _, boot in taken}) == len({(cell, boot) for _, cell, boot in taken}) == CELLS
    assert "in turns with 3 other cells, --vm-seed=5" in " ".join(text.split())
    assert list((tmp_path / "disks").iterdir()) == []


def test_without_room_guests_are_booted_again(tmp_path: Path) -> None:
    """A host that has no memory to spare: each round has a guest of its own, filled and proven anew."""
    conftest = (
        "from pytest_vmstorage.lab.factory import GuestFactory\n"
        "GuestFactory.spare_memory_bytes = lambda self: 2**29 - 1\n"
    )
    process = start(tmp_path, "--vm-rounds=2", "--vm-report=r.json", "-k", "none", conftest=conftest)
    text, _ = process.communicate(timeout=400)
    assert process.returncode == 0, text
    taken = rounds(tmp_path)
    # the last of a pass may be the first of the next
    assert len({boot for _, _, boot in taken}) >= 3
    assert all(proof["status"] == "proven" for one in measurements(tmp_path) for proof in one["proof"])  # type: ignore[attr-defined]


def guests_of(folder: Path) -> list[str]:
    """Pids of QEMU processes whose disks lie below the folder."""
    return pids(f"{folder}/disks")


def pids(pattern: str) -> list[str]:
    """Pids of QEMU processes whose command lines match."""
    argv = ["pgrep", "-f", f"^[^ ]*qemu.*{pattern}"]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.split()


def own_guests(folder: Path) -> list[str]:
    """Pids of those that are measured: one that is booted to be saved ends when it is."""
    lines = {pid: Path(f"/proc/{pid}/cmdline") for pid in guests_of(folder)}
    return [pid for pid, path in lines.items() if path.exists() and b"-saved," not in path.read_bytes()]


def in_the_middle(process: subprocess.Popen[str], folder: Path) -> None:
    """Stop the run when three guests are there and rounds were taken: it stands still when this returns."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        journals = list((folder / ".vmstorage").glob("*.jsonl"))
        process.send_signal(signal.SIGSTOP)
        # of what is counted now one may have been told to end: a run lets its guests go one at a time
        if len(own_guests(folder)) >= 3 and journals and journals[0].read_text().count('"sample"') >= 2:
            return
        process.send_signal(signal.SIGCONT)
        time.sleep(0.2)
    process.kill()
    pytest.fail(process.communicate()[0])


def test_ctrl_c_among_waiting_guests(tmp_path: Path) -> None:
    """All guests go, paused or not; what was measured stands in the report."""
    process = start(tmp_path, "--vm-rounds=20", "--vm-report=r.csv", "--vm-details")
    in_the_middle(process, tmp_path)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    text, _ = process.communicate(timeout=180)
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert re.search(r"IOPS", text)
    assert "interrupted" in text
    assert guests_of(tmp_path) == []
    assert list((tmp_path / "disks").iterdir()) == []
    # which cells had their turn by then, the seed decided
    assert (tmp_path / "r.csv").read_text().count("test_it.py::test_random_write[") >= 2


def test_kill_9_among_waiting_guests(tmp_path: Path) -> None:
    """One reap removes every guest that waited and the one at work, their disks and the lease."""
    process = start(tmp_path, "--vm-rounds=20")
    in_the_middle(process, tmp_path)
    process.kill()
    process.communicate()
    # the one at work and one that waits, at least
    assert len(own_guests(tmp_path)) >= 2
    subprocess.run([sys.executable, "-m", "pytest_vmstorage.cli.command", "reap"], check=True, timeout=60)
    assert guests_of(tmp_path) == []
    assert list((tmp_path / "disks").iterdir()) == []
    assert not [lease for lease in lease_book() if lease.folder.startswith(str(tmp_path))]


def test_a_paused_guest_does_nothing_and_loses_nothing(lab: Lab) -> None:
    """Its processors stand still, its disk's data is written back, and its clock goes on where it stopped."""
    first, second = StorageConfig(size="48M", cache="writeback"), StorageConfig(size="49M")
    lab.expect((first, second))
    guest = lab.guest(first)
    guest.run("head -c 4096 /dev/urandom >/tmp/data; dd if=/tmp/data of=/dev/vdb conv=fsync status=none", timeout_s=60)
    before = float(guest.run("cut -d' ' -f1 /proc/uptime").stdout)
    lab.guest(second)
    (pid,) = pids(guest.machine.spec.uuid)
    begin = _cpu_ticks(int(pid))
    time.sleep(2)
    assert _cpu_ticks(int(pid)) - begin <= 2
    lab.expect((first,))
    assert lab.guest(first) is guest
    lab.expect(())
    after = float(guest.run("cut -d' ' -f1 /proc/uptime").stdout)
    # it was not there while the other guest booted, which takes longer than that
    assert after - before < 2.0
    again = guest.run("dd if=/dev/vdb bs=4096 count=1 iflag=direct status=none | sha1sum; sha1sum </tmp/data").stdout
    assert len(set(again.splitlines())) == 1


def _cpu_ticks(pid: int) -> int:
    """What the process took of any CPU so far, in clock ticks."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(words[11]) + int(words[12])


def test_guests_boot_side_by_side(lab: Lab) -> None:
    """The next cell's guest is there, proven and paused, when its turn comes; one that cannot be is told then."""
    if (os.cpu_count() or 1) < 2:
        pytest.skip("one core boots one guest")
    cells = [StorageConfig(size=size) for size in ("50M", "51M", "52M")]
    lab.expect(cells)
    lab.drop()
    lab.factory.settle()
    lab.guest(cells[0])
    assert len(pids(f"guest=vms-{lab.lease.run_id}")) == 2
    second = lab.guest(cells[1])
    assert second.proof
    assert second.run("true").ok
    lab.expect(())
    lab.drop()


@pytest.mark.restored
@pytest.mark.parametrize(
    "fields", [{}, {"format": "qcow2", "bus": "usb"}, {"format": "vmdk", "cache": "writeback"}], ids=str
)
def test_a_disk_made_later_is_filled_on_the_host(
    lab: Lab, fields: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under emulation: up to the byte that the same test filled in the cell before; its guest writes nothing."""
    monkeypatch.setattr(lab.provisioner, "is_to_be_restored", lambda _config: True)
    first, second = StorageConfig(size="53M"), StorageConfig(size="53M", scheduler="none", **fields)
    work = Fio(rw="randread", bs="4k", size="16M", runtime=1, time_based=True)
    lab.drop()
    lab.expect((first,), alike=(second,))
    measure(lab.environment(first), work, Plan(rounds=1, warmup=0))
    lab.expect((second,))
    guest = lab.guest(second)
    is_emulated = lab.accel.used == "tcg"
    measured = measure(lab.environment(guest.config), work, Plan(rounds=1, warmup=0))
    stat = guest.shell.read(f"/sys/block/{Path(guest.disk).name}/stat").split()
    assert int(stat[6]) * 512 == (0 if is_emulated else 2**24)
    (state,) = [proof.found for proof in measured.proof if proof.field == "state"]
    assert state == (
        "16M written on the host before the guest began" if is_emulated else "16M written before the rounds"
    )
    count = "dd if=$1 bs=1M skip=$2 count=1 status=none | tr -d '\\0' | wc -c"
    bytes_of = [int(guest.run(["sh", "-c", count, "sh", guest.disk, str(mib)]).stdout) for mib in (0, 7, 15, 16, 52)]
    assert all(one > 0.99 * 2**20 for one in bytes_of[:3])
    assert bytes_of[3:] == [0, 0]
    assert guest.run("pgrep -x fio").returncode == 1
    lab.expect(())
    lab.drop()


@pytest.mark.restored
@pytest.mark.parametrize("kind", ["raw", "qcow2"])
@pytest.mark.parametrize(("guest_fs", "size"), [("ext4", "96M"), ("xfs", "320M")])
def test_a_disk_made_later_has_the_file_system_of_an_earlier_guest(
    lab: Lab, guest_fs: str, size: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under emulation: as that guest left it, allocated alike, its test file with other data; it makes none itself."""
    monkeypatch.setattr(lab.provisioner, "is_to_be_restored", lambda _config: True)
    fields = {"guest_fs": guest_fs, "size": size, "format": kind, "guest_mount": "noatime"}
    cells = [StorageConfig(**fields, cache=cache) for cache in ("none", "writeback", "directsync")]
    work = Fio(rw="randread", bs="4k", size="16M", runtime=1, time_based=True)
    lab.drop()
    found = []
    for number, config in enumerate(cells):
        lab.expect((config,), alike=cells[number + 1 :])
        guest, system = lab.guest(config), lab.environment(config)
        measured = measure(system, work, Plan(rounds=1, warmup=0))
        made, image = guest.file_system, guest.machine.host_disk
        assert made is not None
        is_copied = number > 0 and lab.accel.used == "tcg"
        assert (made.is_copied, image.has_guest_fs) == (is_copied, is_copied)
        (state,) = [proof.found for proof in measured.proof if proof.field == "state"]
        assert state == (
            "16M written on the host before the guest began" if is_copied else "16M written before the rounds"
        )
        lists = guest.run(f"filefrag -v {made.path} | grep -E '^ +[0-9]+:'; stat -c '%s %b' {made.path}").stdout
        pages = guest.run(f"dd if={made.path} bs=4k count=4096 status=none iflag=direct | sha1sum").stdout
        with frozen(guest.shell, made, 2**24):
            image_map = lab.shell.run(["qemu-img", "map", "-U", "-f", kind, "--output=json", image.path]).stdout
        found.append((lists, pages, made.size_bytes, allocated(image_map)))
        lab.expect(())
        lab.drop()
    lists, pages, sizes, maps = (set(column) for column in zip(*found, strict=True))
    assert [len(one) for one in (lists, sizes, pages)] == [1, 1, 3]
    if kind == "qcow2":
        assert len(maps) == 1


def allocated(listing: str) -> tuple[tuple[int, int, bool], ...]:
    """What of the disk is allocated, by `qemu-img map`, and whether it is data; not where it lies in the image."""
    found: list[tuple[int, int, bool]] = []
    for one in json.loads(listing):
        begin, end, is_data = one["start"], one["start"] + one["length"], one["data"]
        if not one["present"]:
            continue
        if found and found[-1][1:] == (begin, is_data):
            begin = found.pop()[0]
        found.append((begin, end, is_data))
    return tuple(found)


def test_disks_are_filled_side_by_side(lab: Lab) -> None:
    """Under emulation: the next cell's disk is full, and its guest stands still, when the first round begins."""
    if (os.cpu_count() or 1) < 2:
        pytest.skip("one core boots one guest")
    first, second = StorageConfig(size="53M", cache="writeback"), StorageConfig(size="54M", cache="unsafe")
    work, at_work = Fio(rw="randread", bs="4k", size="16M", runtime=1, time_based=True), []
    lab.drop()
    lab.expect((first, second), alike=(second,))
    system = lab.environment(first)
    (waiting,) = lab.pool.waiting.values()
    assert waiting.guest is not None
    (pid,) = pids(waiting.guest.machine.spec.uuid)
    measure(interpose(system, lambda: at_work.append(_cpu_ticks(int(pid)))), work, Plan(rounds=1, warmup=0))
    assert _cpu_ticks(int(pid)) - at_work[0] <= 2
    assert waiting.regions.written_bytes == (2**24 if lab.accel.used == "tcg" else 0)
    guest = lab.guest(second)
    assert guest is waiting.guest
    stat = f"/sys/block/{Path(guest.disk).name}/stat"
    written = [int(guest.shell.read(stat).split()[6]) * 512]
    measured = measure(lab.environment(guest.config), work, Plan(rounds=1, warmup=0))
    written.append(int(guest.shell.read(stat).split()[6]) * 512)
    assert written == ([2**24, 2**24] if lab.accel.used == "tcg" else [0, 2**24])
    (state,) = [proof.found for proof in measured.proof if proof.field == "state"]
    assert state == "16M written before the rounds"
    lab.expect(())
    lab.drop()

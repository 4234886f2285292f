"""Real guests: what a round cost, and what the host was like around it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_vmstorage import Dd, Fio, StorageConfig
from pytest_vmstorage.cli.show import show_cell
from pytest_vmstorage.config.settings import Hygiene
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.guest.guest import Guest
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.measure.runner import measure
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.results.cost import cpu_per_io, flushes_per_write, host_bytes_per_guest_byte, switches_per_io
from pytest_vmstorage.results.counters import IoCounters
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.storage.image import image_facts
from pytest_vmstorage.testing.system import interpose

pytestmark = pytest.mark.restored

THREADS = StorageConfig(size="256M", io="threads", iothread=True)
JOB = Fio(rw="randwrite", bs="4k", iodepth=8, size="32M", runtime=1, time_based=True)
SYNCED = Fio(rw="randwrite", bs="4k", size="32M", runtime=1, time_based=True, fsync=1)
CYCLE = "while :; do :; done"


def qemu_pid(lab: Lab, uuid: str) -> int:
    """The guest's QEMU."""
    return int(lab.shell.run(["pgrep", "-f", "--", f"-uuid {uuid}"]).stdout.split()[0])


def process_seconds(pid: int) -> float:
    """CPU seconds of the whole process so far, by the kernel's other count."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / 100


def test_a_rounds_cpu_time_is_that_of_qemus_threads(lab: Lab) -> None:
    """Classes of a cell with an I/O thread and workers, together what the process took, and the guest's I/Os."""
    guest = lab.guest(THREADS)
    pid = qemu_pid(lab, guest.machine.spec.uuid)
    used: list[float] = []
    system = interpose(lab.environment(guest.config), lambda: used.append(process_seconds(pid)))
    measured = measure(system, JOB, Plan(rounds=2, warmup=0))
    used.append(process_seconds(pid))
    cost = measured.cost
    assert {"vCPU", "iothread", "main loop"} <= cost.cpu_s.keys()
    # workers that are still there, or that have ended meanwhile
    assert {"worker", "ended"} & cost.cpu_s.keys()
    assert cost.cpu_s["vCPU"] > 0.2
    assert sum(cost.cpu_s.values()) <= used[-1] - used[0] + 0.1
    done = [json.loads(raw[raw.index("{") :])["jobs"][0]["write"]["total_ios"] for raw in measured.raw]
    assert measured.moved.layer_writes == pytest.approx(sum(done), rel=0.02, abs=20)
    assert 0 < sum(cpu_per_io(cost, measured.moved).values()) < 0.1
    assert (switches_per_io(cost, measured.moved) or 0) > 0
    assert host_bytes_per_guest_byte(measured.moved) == pytest.approx(1, rel=0.2)


def test_a_cell_without_an_io_thread_has_none_in_its_cost(lab: Lab) -> None:
    """QEMU's monitor has a thread of that kind, which serves no disk."""
    guest = lab.guest(StorageConfig(size="256M"))
    measured = measure(lab.environment(guest.config), JOB, Plan(rounds=1, warmup=0))
    assert "iothread" not in measured.cost.cpu_s
    assert measured.cost.cpu_s["main loop"] > 0


def test_each_fsync_is_a_flush(lab: Lab) -> None:
    """One for each write where the job syncs each; next to none where it does not.

    The guest's kernel counts each such flush as a write too.
    """
    guest = lab.guest(StorageConfig(size="256M"))
    synced = measure(lab.environment(guest.config), SYNCED, Plan(rounds=1, warmup=0))
    plain = measure(lab.environment(guest.config), JOB, Plan(rounds=1, warmup=0))
    assert flushes_per_write(synced.moved) == pytest.approx(1, rel=0.1)
    assert (flushes_per_write(plain.moved) or 0) < 0.01


def test_where_qemu_may_run_and_who_else_ran_is_put_down(lab: Lab, tmp_path: Path) -> None:
    """The guest is pinned to one CPU, and beside it runs something of QEMU's name that computes."""
    guest = lab.guest(StorageConfig(size="256M"))
    pid = qemu_pid(lab, guest.machine.spec.uuid)
    other = tmp_path / "qemu-kvm"
    shutil.copy(shutil.which("bash") or "", other)
    subprocess.run(["taskset", "-acp", "0", str(pid)], check=True, capture_output=True)
    with subprocess.Popen([str(other), "-c", CYCLE]) as process:
        measured = measure(lab.environment(guest.config), JOB, Plan(rounds=1, warmup=0))
        process.kill()
    assert measured.around is not None
    assert measured.around.may_run == "0"
    assert (measured.around.others or 0) >= 1
    assert any("other QEMU processes were at work" in caution.says for caution in measured.cautions)
    below = lab.shell.run(["df", "--output=source", guest.machine.spec.disk]).stdout.split()[-1]
    if below.startswith("/dev/"):
        assert Path(below).name.startswith(measured.around.device)


def test_the_report_and_show_have_it(lab: Lab) -> None:
    """A buffered tool through a cached disk is spoken against, a direct one past the host's cache is not."""
    cached = measure(
        lab.environment(StorageConfig(size="256M", cache="writeback")),
        Dd(bs="1M", count=32, conv="fsync"),
        Plan(rounds=1, warmup=0),
    )
    direct = measure(lab.environment(StorageConfig(size="256M")), JOB, Plan(rounds=5, warmup=0))
    run = Run(started="2026-01-02T03:04:05+00:00", hosts=(lab.facts,), measurements=(cached, direct))
    run = Run.model_validate_json(run.model_dump_json())
    sections = {section.title: section.lines for section in build_table(run).sections}
    cautions = [line for line in sections["what speaks against figures"] if " can hold " in line]
    assert [line.partition(" lies in the way")[0] for line in cautions] == [
        "the guest's memory",
        "the host's page cache",
    ]
    assert all("works on [1 of 2 measurements]; remedy: size= above " in line for line in cautions)
    costs = next(lines for title, lines in sections.items() if title.startswith("cost beside speed"))
    assert len(costs) == 2
    assert all(" CPU [vCPU " in line for line in costs)
    shown = show_cell(run, direct.config.label, "x")
    assert any(line.startswith("  CPU of QEMU per guest I/O: ") for line in shown)
    assert any(line.startswith("  steady state of iops: ") and "over 5 rounds" in line for line in shown)
    if not direct.steadiness.is_steady:
        assert len(sections["not steady"]) == 1
    else:
        assert "not steady" not in sections


def test_zeros_that_would_be_stored_as_nothing_are_refused(lab: Lab) -> None:
    """By QEMU, and by the guest's file system; measured all the same they really take no room in the image."""
    zeros = Dd(bs="1M", count=16, oflag="direct", conv="fsync")
    config = StorageConfig(size="128M", discard="unmap", detect_zeroes="unmap")
    guest = lab.guest(config)
    with pytest.raises(ConfigError, match=r"stored as nothing: QEMU discards what zeros are written to"):
        measure(lab.environment(guest.config), zeros, Plan(rounds=1, warmup=0))
    left = Plan(rounds=1, warmup=0, hygiene=Hygiene(without=("zero-check",)))
    assert "--vm-without=zero-check" in measure(lab.environment(guest.config), zeros, left).hygiene["zeros"]
    assert image_facts(lab.shell, guest.machine.spec.disk).allocated_bytes < 16 * 2**20
    stored = lab.guest(StorageConfig(size="128M"))
    assert "like data" in measure(lab.environment(stored.config), zeros, Plan(rounds=1, warmup=0)).hygiene["zeros"]
    assert image_facts(lab.shell, stored.machine.spec.disk).allocated_bytes >= 16 * 2**20
    packing = lab.guest(StorageConfig(size="256M", guest_fs="btrfs", guest_mount="compress=zlib"))
    with pytest.raises(ConfigError, match=r"btrfs on /mnt/vmstorage compresses \(compress=zlib"):
        measure(lab.environment(packing.config), zeros, Plan(rounds=1, warmup=0))


def test_a_native_row_has_a_host_and_no_cost(lab: Lab) -> None:
    """There is no QEMU whose threads took anything."""
    row = lab.environment(StorageConfig(size="256M", backing="native"))
    measured = measure(lab.environment(row.config), JOB, Plan(rounds=1, warmup=0))
    assert measured.cost.cpu_s == {}
    assert measured.around is not None
    assert measured.around.may_run == "no QEMU"
    assert measured.around.memory_bytes == lab.facts.memory_bytes


BUFFERED = Dd(rw="read", bs="1M", count=32)
DIRECT = Dd(rw="read", bs="1M", count=32, iflag="direct")
MOST = 31 * 2**20
LITTLE = 2**20


def twice(lab: Lab, guest: Guest, workload: Dd, *left_out: str) -> list[IoCounters]:
    """What the layers moved in each of two rounds, all steps taken but these."""
    plan = Plan(rounds=2, warmup=0, hygiene=Hygiene(without=left_out))
    with lab.alone():
        measured = measure(lab.environment(guest.config), workload, plan)
    assert sum("--vm-without" in text for text in measured.hygiene.values()) == len(left_out)
    return [sample.moved for sample in measured.samples]


def test_a_guests_cache_that_is_not_dropped_answers_the_second_round(lab: Lab) -> None:
    """By default the guest's disk is read in each round; left out, in the first alone.

    That takes a file: of a whole disk the kernel itself drops all pages when the last program closes it.
    """
    guest = lab.guest(StorageConfig(size="128M", guest_fs="ext4"))
    assert all((moved.guest_read_bytes or 0) >= MOST for moved in twice(lab, guest, BUFFERED))
    assert (twice(lab, guest, BUFFERED, "guest-caches")[1].guest_read_bytes or 0) <= LITTLE


def test_a_hosts_cache_that_is_not_dropped_answers_for_the_device(lab: Lab) -> None:
    """What the guest reads past its own cache comes from the host's, which has it since the fill."""
    guest = lab.guest(StorageConfig(size="128M", cache="writeback"))
    if lab.environment(guest.config).drop_caches() != "dropped before each round":
        pytest.skip("dropping all of the host's cache takes root")
    dropped = twice(lab, guest, DIRECT)
    assert all((moved.host_read_bytes or 0) >= MOST for moved in dropped)
    kept: list[IoCounters] = []
    # QEMU's own program is read again where it was dropped before: 1.1 MiB were seen, in one round; and guests of other
    # workers, which measure meanwhile, drop all of the host's cache before each of their rounds
    for _ in range(8):
        kept += twice(lab, guest, DIRECT, "host-caches")
        if min(moved.host_read_bytes or 0 for moved in kept[1:]) <= LITTLE:
            break
    assert min(moved.host_read_bytes or 0 for moved in kept[1:]) <= LITTLE
    assert all((moved.guest_read_bytes or 0) >= MOST for moved in kept)


def test_a_test_file_is_named_and_goes(lab: Lab) -> None:
    """With the guest's disk, or with the native row; a whole disk is no file."""
    once = Plan(rounds=1, warmup=0)
    guest = lab.guest(StorageConfig(size="128M", guest_fs="ext4"))
    said = measure(lab.environment(guest.config), DIRECT, once).hygiene["test file"]
    assert re.fullmatch(r"\d+M on ext4 in the guest, removed with the guest's disk", said)
    native = lab.environment(StorageConfig(size="128M", backing="native"))
    assert measure(native, DIRECT, once).hygiene["test file"] == "128M on the host, removed after the row"
    whole = lab.guest(StorageConfig(size="128M"))
    lab.factory.settle()
    assert "test file" not in measure(lab.environment(whole.config), DIRECT, once).hygiene
    paths = [guest.machine.spec.disk, native.paths.disk]
    assert not any(lab.shell.run(["test", "-e", path]).ok for path in paths)

"""States of the disk, native rows, and cells that change while they are measured: with real tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vmstorage import Dd, Fio, Hdparm, StorageConfig
from pytest_vmstorage.errors import UnsupportedError, WorkloadError
from pytest_vmstorage.guest.agent import AgentShell
from pytest_vmstorage.lab.environments import HostEnvironment
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.measure.runner import measure
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.results.run import Measurement, proven_fields
from pytest_vmstorage.storage.space import fragments
from pytest_vmstorage.testing.system import interpose

pytestmark = pytest.mark.restored

MIB = 2**20
READ = Fio(rw="read", bs="256k", iodepth=4, size="16M")
ONCE = Plan(rounds=1, warmup=0)


def state_of(measured: Measurement) -> tuple[str, str]:
    """What was found of the disk's state, and whether that proves it."""
    return next((proof.found, proof.status) for proof in measured.proof if proof.field == "state")


def test_a_rewritten_disk_has_been_written_twice(lab: Lab) -> None:
    """QEMU counts the bytes: the whole disk, two times, before the first round."""
    guest = lab.guest(StorageConfig(state="rewritten", size="48M"))
    measured = measure(lab.environment(guest.config), READ, ONCE)
    assert (lab.environment(guest.config).look().moved.layer_written_bytes or 0) >= 2 * 48 * MIB
    assert state_of(measured) == ("48M written twice before the rounds", "proven")
    name = Path(guest.disk).name
    stat = guest.shell.read(f"/sys/block/{name}/stat").split()
    assert isinstance(guest.shell, AgentShell)
    assert guest.shell.disk_sectors(name) == (int(stat[2]), int(stat[6])), "the agent's counts are the kernel's"


@pytest.mark.parametrize(("kind", "factor"), [("raw", 1), ("qcow2", 50)])
def test_an_aged_image_lies_in_pieces(lab: Lab, kind: str, factor: int) -> None:
    """And one that is filled in order does not: the seeded order of the writes is what makes the difference.

    A raw file's pieces are its file system's, and ext4 gives 8 MiB at once; a qcow2 image has its clusters.
    """
    pieces = {}
    for state in ("filled", "aged"):
        guest = lab.guest(StorageConfig(format=kind, state=state, size="96M"))
        measured = measure(lab.environment(guest.config), Fio(rw="read", bs="1M", size="96M"), ONCE)
        pieces[state] = fragments(lab.shell, guest.config, guest.machine.spec.disk) or 0
        assert state_of(measured)[1] == "proven"
    assert pieces["aged"] > factor * pieces["filled"]


def test_a_native_row_runs_on_the_host(lab: Lab) -> None:
    """fio and dd on a file beside the images, with the host device's own counters; the file goes with the row."""
    native = lab.environment(StorageConfig(backing="native", preallocation="full", size="64M"))
    assert isinstance(native, HostEnvironment)
    assert native.run(["test", "-f", native.disk]).ok
    read = measure(lab.environment(native.config), Fio(rw="randread", bs="64k", iodepth=4, size="64M"), ONCE)
    assert read.iops > 0
    assert (read.samples[0].moved.guest_read_bytes or 0) >= 60 * MIB
    assert {"size", "preallocation", "state"} <= set(proven_fields(read.proof))
    assert read.guest["fio"]
    written = measure(lab.environment(native.config), Dd(rw="write", oflag="direct", conv="fsync", count=32), ONCE)
    assert written.bw > 0
    with pytest.raises(UnsupportedError, match=r"hdparm -t times block devices, and .* is a file"):
        measure(lab.environment(native.config), Hdparm(t=True), ONCE)
    lab.drop()
    lab.factory.settle()
    assert not lab.shell.run(["test", "-e", native.disk]).ok


def test_a_write_cache_that_is_turned_off_in_the_run_is_seen(lab: Lab) -> None:
    """The guest's kernel does it, as a tool may; the figures of a cell that became another are none."""
    guest = lab.guest(StorageConfig(size="56M"))
    system = lab.environment(guest.config)
    measure(system, READ, ONCE)
    name = guest.disk.rpartition("/")[2]
    command = f"echo 'write through' >/sys/block/{name}/queue/write_cache"
    with pytest.raises(WorkloadError, match=r"INVALID: after the last round cache is .*write through"):
        measure(interpose(system, lambda: turn_off(guest.run(command))), READ, ONCE)
    lab.drop()


def turn_off(done: object) -> None:
    """The sabotage worked: without it the test would show nothing."""
    assert getattr(done, "ok", False)

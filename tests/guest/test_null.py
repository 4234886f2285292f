"""Disks without storage: QEMU's null driver on every bus of real guests, and what its row proves of itself."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pytest_vmstorage import Dd, Fio, Hdparm, Ioping, StorageConfig, Tar
from pytest_vmstorage.config.cell import FIELDS
from pytest_vmstorage.errors import AttestationError, ConfigError, WorkloadError
from pytest_vmstorage.guest import disk_xml as testdisk_module
from pytest_vmstorage.guest.domain_xml import GuestSpec, domain_xml
from pytest_vmstorage.host.lease import Lease
from pytest_vmstorage.lab import factory as pool_module
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.measure.runner import measure
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.report.details import LEGEND, native_lines
from pytest_vmstorage.results.counters import NO_STORAGE
from pytest_vmstorage.results.run import Run, proven_fields

MIB = 2**20
WRITE = Fio(rw="randwrite", bs="16k", iodepth=8, size="64M", runtime=1, time_based=True)
ONCE = Plan(rounds=1, warmup=0)
CELLS: list[dict[str, Any]] = [
    {"bus": "virtio-blk"},
    {"bus": "virtio-blk", "iothread": True, "queues": 2, "vcpus": 2, "cache": "writeback"},
    {"bus": "virtio-scsi", "iothread": True, "cache": "unsafe"},
    {"bus": "lsilogic", "cache": "directsync"},
    {"bus": "vmpvscsi"},
    {"bus": "ide", "cache": "writethrough"},
    {"bus": "sata", "cache": "writethrough"},
    {"bus": "usb"},
    {"bus": "nvme", "cache": "directsync"},
]


def blocks_of(lab: Lab, path: str) -> int:
    """How many blocks of 512 bytes the file takes on the host."""
    return int(lab.shell.run(["stat", "-c", "%b", path]).stdout)


@pytest.mark.parametrize("values", CELLS, ids=lambda values: "-".join(map(str, values.values())))
def test_a_null_row_writes_nothing_on_the_host(lab: Lab, values: dict[str, Any]) -> None:
    """The guest writes many MiB, the file that libvirt insists on stays as it was, and each field is proven."""
    config = StorageConfig(backing="null", size="96M", **values)
    guest = lab.guest(config)
    path = guest.machine.spec.disk
    before = blocks_of(lab, path)
    measured = measure(lab.environment(guest.config), WRITE, ONCE)
    moved = measured.moved
    assert (moved.guest_written_bytes or 0) > 4 * MIB
    assert (moved.layer_written_bytes or 0) > 4 * MIB
    assert (moved.host_written_bytes or 0) < MIB
    assert blocks_of(lab, path) == before <= 8
    assert measured.served_by == NO_STORAGE
    assert set(proven_fields(measured.proof)) == {
        "accel",
        *(name for name in FIELDS if not config.lacks(name)),
    }
    assert {proof.field for proof in measured.proof if config.lacks(proof.field)} == {"state"}
    assert measured.around is not None
    assert measured.around.device == "none"
    assert moved.device_written_bytes is None


def test_a_null_disk_reads_zeroes_and_takes_the_usual_tools(lab: Lab) -> None:
    """It has its size, keeps nothing, and cannot be mounted, which is why guest_fs is refused there."""
    guest = lab.guest(StorageConfig(backing="null", size="96M"))
    assert guest.facts.disk_bytes == 96 * MIB
    assert guest.run(f"dd if=/dev/urandom of={guest.disk} bs=1M count=4 oflag=direct 2>/dev/null").ok
    read = guest.run(f"dd if={guest.disk} bs=1M count=4 iflag=direct 2>/dev/null | tr -d '\\000' | wc -c")
    assert read.stdout.strip() == "0"
    made = guest.run(f"mkfs.ext4 -q -F {guest.disk} && mkdir -p /run/n && mount {guest.disk} /run/n")
    assert made.returncode == 32
    assert "superblock" in made.stderr
    for workload in (Dd(bs="1M", count=16, oflag="direct"), Hdparm(t=True), Ioping(count=3)):
        measured = measure(lab.environment(guest.config), workload, ONCE)
        assert measured.figure(measured.primary) > 0


def test_the_report_has_percent_of_both_and_the_time_of_an_io(lab: Lab) -> None:
    """The same job on the host, on a file in a guest, and in a guest without storage."""
    job = Fio(rw="randread", bs="4k", iodepth=1, size="32M", runtime=1, time_based=True)
    cells = [StorageConfig(size="96M", backing=backing) for backing in ("native", "file", "null")]
    rows = [measure(lab.environment(config), job, ONCE) for config in cells]
    line, *legends = native_lines(Run(started="2026-01-02T03:04:05+00:00", hosts=(lab.facts,), measurements=rows))
    share = r"\d+% \(spread unknown\)"
    assert re.match(f"raw-none-virtio-blk-off, .*: {share} of native and {share} of null-none-virtio-blk ", line)
    assert re.search(r"an I/O takes .* \(spread unknown\) more than natively \(.*\), .* than on null \(.*\)$", line)
    assert legends == [LEGEND]


@pytest.mark.parametrize(
    ("workload", "does"),
    [(Fio(rw="write", bs="64k", size="4M", verify="crc32c"), "checks what it reads"), (Tar(), "makes files")],
    ids=["verify", "tar"],
)
def test_what_needs_its_data_is_refused(lab: Lab, workload: Any, does: str) -> None:
    """In one sentence, before the tool runs."""
    guest = lab.guest(StorageConfig(backing="null", size="96M"))
    with pytest.raises(ConfigError, match=f"{does}, and the disk of backing=null keeps nothing and reads zeroes"):
        measure(lab.environment(guest.config), workload, ONCE)


def test_a_null_row_on_a_file_is_caught(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where libvirt would take the override for nothing, the device is on the file after all."""

    def without(spec: GuestSpec, lease: Lease | None = None) -> str:
        assert spec.config is not None
        return domain_xml(spec.model_copy(update={"config": spec.config.model_copy(update={"backing": "file"})}), lease)

    monkeypatch.setattr(pool_module, "domain_xml", without)
    with pytest.raises(AttestationError) as caught:
        lab.guest(StorageConfig(backing="null", size="97M"))
    assert caught.value.field == "backing of null-none-virtio-blk"
    assert (caught.value.asked, caught.value.found) == ("null (null-co)", "raw (QMP query-named-block-nodes)")


def test_a_null_disk_of_another_size_is_caught(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size is the null driver's own option, and no image tells it."""
    real = testdisk_module.null_node
    monkeypatch.setattr(testdisk_module, "null_node", lambda config: {**real(config), "size": 64 * MIB})
    with pytest.raises(AttestationError, match="size of null-none-virtio-blk was asked to be 98M but is 64M"):
        lab.guest(StorageConfig(backing="null", size="98M"))


def test_writes_on_the_host_contradict_a_null_row(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """What QEMU wrote has come from somewhere: such a round gives no figure."""
    guest = lab.guest(StorageConfig(backing="null", size="96M"))
    system = lab.environment(guest.config)
    look = system.look
    looks = iter([0, 64 * MIB])

    def more() -> Any:
        seen, extra = look(), next(looks)
        written = (seen.moved.host_written_bytes or 0) + extra
        return seen.model_copy(update={"moved": seen.moved.model_copy(update={"host_written_bytes": written})})

    monkeypatch.setattr(system, "look", more)
    # all of a look at one time
    monkeypatch.setattr(system, "begin_look", lambda: more)
    with pytest.raises(WorkloadError, match=r"INVALID: the disk is QEMU's null driver, .* and QEMU wrote 64.* MiB on"):
        measure(system, Dd(bs="1M", count=8, oflag="direct"), ONCE)

"""Rows on QEMU's null driver: made without a host's disk, accounted for without one, and named for what they have.

Tests of one feature through several packages, of `measure.proof.domain` and `measure.preconditioning` among others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage import Fio, Tar
from pytest_vmstorage.analysis.yardsticks import Yardsticks
from pytest_vmstorage.config.cell import FIELDS, StorageConfig
from pytest_vmstorage.config.rules.backing import OF_STORAGE
from pytest_vmstorage.errors import ConfigError, UnsupportedError, WorkloadError
from pytest_vmstorage.guest.libvirt.messages import null_lacks
from pytest_vmstorage.host.counters import Look
from pytest_vmstorage.host.watch import HostWatch
from pytest_vmstorage.measure.preconditioning import check_fits
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.report.csv import render_csv
from pytest_vmstorage.report.sections import build_sections
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.results.cautions import WorkingSet
from pytest_vmstorage.results.counters import NO_STORAGE, IoCounters, stored
from pytest_vmstorage.results.run import Proof
from pytest_vmstorage.storage.disk import folder_bytes
from pytest_vmstorage.storage.space import HEADROOM_BYTES, space_needed
from pytest_vmstorage.testing.builders import make_measurement, make_run
from pytest_vmstorage.testing.guest import FakeDomain, FakeHypervisor
from pytest_vmstorage.testing.lab import make_guest_shell, make_lab
from pytest_vmstorage.testing.shell import FakeShell
from unit.measure.test_runner import MIB, Scene

NULL = StorageConfig(backing="null")


def test_its_name_has_what_it_has() -> None:
    """Cache and bus, and whatever else of the guest was chosen."""
    assert str(NULL) == "null-none-virtio-blk"
    config = StorageConfig(backing="null", cache="unsafe", bus="virtio-scsi", iothread=True, queues=2, vcpus=2)
    assert str(config) == "null-unsafe-virtio-scsi-iothread=yes-queues=2-vcpus=2"
    assert {name for name in FIELDS if NULL.lacks(name)} == {*OF_STORAGE}
    assert not any(StorageConfig().lacks(name) for name in FIELDS)


def test_it_takes_no_room() -> None:
    """The folder needs no more than is kept beside any disk, whatever the size."""
    assert space_needed(StorageConfig(backing="null", size="64T")) == HEADROOM_BYTES
    assert folder_bytes(StorageConfig(backing="null", size="64T")) == 0


@pytest.mark.parametrize(
    "cell", [{}, {"bus": "virtio-scsi", "iothread": True, "cache": "unsafe"}, {"bus": "nvme", "cache": "writethrough"}]
)
def test_a_guest_is_made_and_proven(tmp_path: Path, cell: Mapping[str, Any]) -> None:
    """As any other; what only an image has is no field of its proof."""
    config = StorageConfig(backing="null", **cell)
    lab = make_lab(tmp_path, hypervisor=FakeHypervisor(lambda _xml: FakeDomain(make_guest_shell(config))))
    guest = lab.guest(config)
    fields = {proof.field: proof.status for proof in guest.proof}
    assert (fields["backing"], fields["state"]) == ("proven", "unprovable")
    assert fields.keys() & {*OF_STORAGE} == {"state"}
    assert not [line for line in lab.shell.lines if line.startswith("qemu-img info")]  # type: ignore[attr-defined]
    lab.close()


def test_an_old_libvirt_is_told_before_a_guest_is_made(tmp_path: Path) -> None:
    """It would drop the element or die of it; an NVMe disk has its own command line."""
    nvme = StorageConfig(backing="null", bus="nvme")
    lab = make_lab(tmp_path, hypervisor=FakeHypervisor(lambda _xml: FakeDomain(make_guest_shell(nvme))))
    lab.provisioner.libvirt = "8.0.0"
    with pytest.raises(UnsupportedError, match=r"on virtio-blk here: libvirt 8\.0\.0 has no qemu:override; 8\.5 has\."):
        lab.guest(NULL)
    assert lab.guest(nvme).proof
    lab.close()
    assert null_lacks("sata", "8.5.0") == null_lacks("nvme", "6.0.0") == ""


def test_the_host_has_no_device_below_it() -> None:
    """Nothing is asked about one, and what others do to the host's devices is not counted."""
    shell = FakeShell().answer(re.compile(""))
    state = HostWatch(shell, "").begin()()
    assert (state.device, state.scheduler, state.write_cache) == ("none", "none", "none")
    assert HostWatch(shell, "").look().device is None


def test_nothing_is_filled_and_the_proof_stays() -> None:
    """The first round meets what any round meets."""
    scene = Scene(backing="null")
    state = Proof(field="state", asked="filled", found="unknown", status="unprovable", where="", why="keeps nothing")
    scene.prove(state)
    measured = scene.measure(rounds=1, warmup=0)
    assert "fill" not in scene.events
    assert scene.targets() == [(0, 16)]
    assert measured.proof == (state,)
    assert measured.served_by == NO_STORAGE
    assert measured.hygiene["state"] == "none, nothing is kept"


@pytest.mark.parametrize(
    ("workload", "does"),
    [
        (Tar(), "makes files"),
        (Fio(rw="write", bs="4k", size="1M", verify="crc32c"), "checks what it reads"),
        (Fio.from_job, "checks what it reads"),
    ],
    ids=["files", "fio", "job"],
)
def test_what_needs_its_data_is_one_sentence(workload: Any, does: str, tmp_path: Path) -> None:
    """A file system would not mount, and what is verified would be zeroes."""
    if workload == Fio.from_job:
        job = tmp_path / "check.fio"
        job.write_text("[check]\nrw=write\nbs=4k\nsize=1M\nverify=md5\n")
        workload = Fio.from_job(job)
    with pytest.raises(ConfigError, match=f"{does}, and the disk of backing=null keeps nothing and reads zeroes"):
        check_fits(NULL, workload, Plan(rounds=1))


def test_what_qemu_stored_contradicts_it() -> None:
    """A little is its log and console; a guest that reads its tools is no storage of the disk's."""
    gib = IoCounters(layer_written_bytes=2**30, host_written_bytes=2 * MIB, host_read_bytes=2**30)
    assert stored(gib) == stored(IoCounters()) == ""
    said = stored(gib.model_copy(update={"host_written_bytes": 2**29}))
    assert said == "the disk is QEMU's null driver, which stores nothing, and QEMU wrote 512 MiB on the host"
    scene = Scene(backing="null")
    looks = iter([IoCounters(host_written_bytes=at) for at in (0, 64 * MIB)])
    scene.system.look = lambda: Look(moved=next(looks))
    with pytest.raises(WorkloadError, match="INVALID: the disk is QEMU's null driver"):
        scene.measure(rounds=1, warmup=0)


def test_no_flush_is_owed_to_a_device() -> None:
    """Writethrough promises one for each write, and there is nothing to flush."""
    scene = Scene(backing="null", cache="writethrough")
    looks = iter([IoCounters(layer_written_bytes=at, layer_flushes=at, host_flushes=7) for at in (0, MIB)])
    scene.system.look = lambda: Look(moved=next(looks))
    assert scene.measure(rounds=1, warmup=0).bw == 1


def test_no_cache_of_the_host_holds_it() -> None:
    """In no cache mode; the guest's memory may lie before it as before any disk."""
    config = StorageConfig(backing="null", cache="writeback", size="8G")
    direct = WorkingSet(label="fio", size_bytes=MIB, is_direct=True)
    assert direct.holders(config, 2**40) == ()
    assert direct.note(config, None) == "1M"
    assert direct.model_copy(update={"is_direct": False}).holders(config, 2**40) == ("the guest's memory",)


def test_it_is_not_held_against_a_native_row() -> None:
    """Also not against that of a device which somebody called null."""
    yardsticks = Yardsticks()
    yardsticks.check(make_measurement(StorageConfig(backing="native:null"), iops=(1000,) * 3))
    row = make_measurement(NULL, iops=(100000,))
    moved = IoCounters(layer_read_bytes=2**30, layer_written_bytes=0, host_read_bytes=2**30, host_written_bytes=0)
    row = row.model_copy(update={"samples": (row.samples[0].model_copy(update={"moved": moved}),)})
    yardsticks.check(row)


def test_the_table_has_nothing_where_it_has_nothing() -> None:
    """And the caption does not say of it what the others have in common."""
    run = make_run(
        make_measurement(StorageConfig(), iops=(1000,)),
        make_measurement(StorageConfig(format="qcow2"), iops=(900,)),
        make_measurement(NULL, iops=(3000,)),
    )
    table = build_table(run)
    assert table.axes == ("format", "backing")
    assert [row.axes for row in table.rows] == [("raw", "file"), ("qcow2", "file"), ("-", "null")]
    assert table.caption == "all rows with an image: none, virtio-blk, preallocation off, size 1G"
    assert build_table(make_run(make_measurement(NULL))).caption == "one row: none, virtio-blk, size 1G, backing null"
    _, _, other, null = [line.split(",") for line in render_csv(run).splitlines()]
    assert (other[3], null[3]) == ("qcow2", "")
    assert (other[4], null[4]) == ("none", "none")


def test_what_a_row_lacks_does_not_unprove_the_others() -> None:
    """The format of two rows is proven, though the third has none."""

    def row(config: StorageConfig, *fields: str) -> Any:
        proofs = [Proof(field=name, asked="x", found="x", status="proven", where="y") for name in fields]
        return make_measurement(config).model_copy(update={"proof": tuple(proofs)})

    run = make_run(row(StorageConfig(), "format", "cache"), row(NULL, "cache"))
    lines = next(one.lines for one in build_sections(run, None) if one.title.startswith("proof"))
    assert lines == ("proven: format, cache",)

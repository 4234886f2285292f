"""Every value of every axis, on real guests: what libvirt, QEMU and the guest say of it."""

from __future__ import annotations

from typing import get_args
from xml.etree import ElementTree as ET

import pytest

from pytest_vmstorage.config.cell import FIELDS, StorageConfig
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.results.run import proven_fields
from pytest_vmstorage.storage.image import image_facts, observed_preallocation

# each value of each axis at least once, each cache mode on two buses; usb's write-through modes are in test_attest
CELLS: list[dict[str, object]] = [
    {},
    {"cache": "directsync", "bus": "virtio-scsi", "preallocation": "falloc", "iothread": True, "queues": 2, "vcpus": 2},
    {"cache": "writethrough", "bus": "ide", "preallocation": "full"},
    {"cache": "writeback", "bus": "sata"},
    {"cache": "unsafe", "preallocation": "full", "state": "fresh"},
    {"cache": "writeback", "bus": "usb"},
    {"cache": "writethrough", "bus": "nvme", "io": "io_uring"},
    {"cache": "unsafe", "bus": "lsilogic", "machine": "pc"},
    {"cache": "directsync", "bus": "vmpvscsi", "io": "native"},
    {
        "format": "qcow2",
        "bus": "virtio-scsi",
        "preallocation": "metadata",
        "discard": "unmap",
        "detect_zeroes": "unmap",
    },
    {"format": "qcow2", "cache": "directsync", "bus": "sata", "cluster_size": "128k", "extended_l2": True},
    {"format": "qcow2", "cache": "writethrough", "preallocation": "falloc", "lazy_refcounts": True},
    {"format": "qcow2", "cache": "writeback", "bus": "ide", "preallocation": "metadata", "l2_cache_size": "1M"},
    {"format": "qcow2", "cache": "unsafe", "bus": "nvme", "preallocation": "full", "detect_zeroes": "on"},
    {"io": "native", "iothread": True, "queues": 2, "queue_size": 512, "vcpus": 2},
    {"format": "vmdk", "io": "io_uring"},
    {"format": "vmdk", "subformat": "monolithicFlat", "cache": "writeback"},
    {"format": "vmdk", "subformat": "twoGbMaxExtentSparse"},
    {"format": "vmdk", "subformat": "twoGbMaxExtentFlat", "bus": "virtio-scsi"},
    {"format": "vdi", "cache": "writethrough"},
    {"format": "qed", "cache": "directsync"},
    {"format": "vpc", "cache": "unsafe"},
    {"format": "vpc", "subformat": "fixed"},
    {"state": "rewritten", "scheduler": "bfq"},
    {"format": "qcow2", "state": "aged", "memory": "1G"},
]

ON_EACH_BUS = 9
"""So many of these, the first ones, are all buses."""


def test_every_value_has_a_cell_here() -> None:
    """A value that is added must be booted below; a bus among the first, which `script/test --quick` boots."""
    first = {cell.get("bus", "virtio-blk") for cell in CELLS[:ON_EACH_BUS]}
    assert first == set(get_args(StorageConfig.model_fields["bus"].annotation))
    for axis in ("format", "cache", "bus", "preallocation", "state", "machine", "io", "discard", "detect_zeroes"):
        field = StorageConfig.model_fields[axis]
        there = {cell.get(axis, field.default) for cell in CELLS}
        # q35 is what auto comes to
        assert there | {"q35"} >= set(get_args(field.annotation)), axis


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(cell, id=str(StorageConfig(**cell)), marks=[pytest.mark.quick] if place < ON_EACH_BUS else [])
        for place, cell in enumerate(CELLS)
    ],
)
def test_cell_is_what_its_id_says(lab: Lab, cell: dict[str, object]) -> None:
    """Every field but the state, which is made later, is proven; the guest's own view is checked here once more."""
    config = StorageConfig(**cell, size="128M")
    guest = lab.guest(config)
    assert set(proven_fields(guest.proof)) >= {*FIELDS, "accel"} - {"state"}
    assert not [proof for proof in guest.proof if proof.status == "contradicted"]
    assert ("state" in proven_fields(guest.proof)) is (config.state == "fresh")

    disk = ET.fromstring(guest.machine.domain.xml()).find("devices/disk[serial='vmstorage-test']")
    assert (disk is None) is (config.bus == "nvme")
    if disk is not None:
        driver = disk.find("driver")
        assert driver is not None
        assert (driver.get("type"), driver.get("cache")) == (config.format, config.cache)
    assert guest.facts.disk_bytes == config.size
    through = config.cache in ("writethrough", "directsync") and config.bus != "nvme"
    assert guest.facts.write_cache == ("write through" if through else "write back")
    image = image_facts(lab.shell, guest.machine.spec.disk)
    assert observed_preallocation(config, image) == config.preallocation


def test_guest_is_shared_until_the_configuration_changes(lab: Lab) -> None:
    """The same configuration gets the same guest; another one a new guest with an empty disk."""
    first = lab.guest(StorageConfig(size="64M"))
    first.run(f"echo marker >{first.disk}")
    assert lab.guest(StorageConfig(size="64M")) is first
    second = lab.guest(StorageConfig(size="65M"))
    assert second is not first
    assert "marker" not in second.run(f"head -c 6 {second.disk}").stdout


def test_guest_is_a_testinfra_host(lab: Lab) -> None:
    """`guest.host` answers testinfra's questions through the agent, quotes and return codes included."""
    guest = lab.guest(StorageConfig(size="64M"))
    assert guest.host.run("printf %%s %s", "it's").stdout == "it's"
    assert guest.host.run("exit 3").rc == 3
    assert guest.host.file("/etc/passwd").contains("root")
    assert guest.host.file(guest.disk).exists


def test_output_larger_than_a_message_arrives_whole(lab: Lab) -> None:
    """Three megabytes of output, more than libvirt passes in one answer, come back unharmed."""
    guest = lab.guest(StorageConfig(size="64M"))
    done = guest.run("seq 1 430000")
    assert done.stdout == "".join(f"{number}\n" for number in range(1, 430001))


def test_command_is_killed_at_its_time_limit(lab: Lab) -> None:
    """A command over its time limit gives 124, and the guest can be used on."""
    guest = lab.guest(StorageConfig(size="64M"))
    done = guest.run("sleep 60", timeout_s=0.5)
    assert done.returncode == 124
    assert done.seconds < 10
    assert guest.run("echo alive").stdout == "alive\n"

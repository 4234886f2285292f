"""Every value of every axis, on real guests: what libvirt, QEMU and the guest say of it."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.lab import Lab
from pytest_vmstorage.provision.disk import image_facts, observed_preallocation

# each value of each axis at least once, each cache mode on two buses
CELLS = [
    ("raw", "none", "virtio-blk", "off"),
    ("raw", "directsync", "virtio-scsi", "falloc"),
    ("raw", "writethrough", "ide", "full"),
    ("raw", "writeback", "sata", "off"),
    ("raw", "unsafe", "virtio-blk", "full"),
    ("qcow2", "none", "virtio-scsi", "metadata"),
    ("qcow2", "directsync", "sata", "off"),
    ("qcow2", "writethrough", "virtio-blk", "falloc"),
    ("qcow2", "writeback", "ide", "metadata"),
    ("qcow2", "unsafe", "virtio-scsi", "full"),
]

DRIVERS = {"virtio-blk": "virtio_blk", "virtio-scsi": "sd", "ide": "sd", "sata": "sd"}


@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_cell_is_what_its_id_says(lab: Lab, cell: tuple[str, str, str, str]) -> None:
    """The live XML, the guest's sysfs and the image all agree with the configuration."""
    config = StorageConfig(**dict(zip(("format", "cache", "bus", "preallocation"), cell, strict=True)), size="128M")
    guest = lab.guest(config)

    disk = ET.fromstring(guest.machine.domain.xml()).find("devices/disk[serial='vmstorage-test']")
    assert disk is not None
    driver, target = disk.find("driver"), disk.find("target")
    assert driver is not None
    assert target is not None
    assert (driver.get("type"), driver.get("cache")) == (config.format, config.cache)
    assert target.get("bus") == {"virtio-blk": "virtio", "virtio-scsi": "scsi"}.get(config.bus, config.bus)

    assert guest.facts.disk_bytes == config.size
    assert guest.facts.driver == DRIVERS[config.bus]
    through = config.cache in ("writethrough", "directsync")
    assert guest.facts.write_cache == ("write through" if through else "write back")

    # libvirt would quietly give an LSI controller, and its driver would then be sym53c8xx
    if config.bus == "virtio-scsi":
        assert "virtio_scsi" in guest.run("cat /sys/class/scsi_host/host*/proc_name").stdout

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

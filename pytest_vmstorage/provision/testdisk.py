"""The disk under test in libvirt's XML: its element, its controller, and NVMe's command line; pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree as ET

from pytest_vmstorage.config import Bus, Cache, StorageConfig
from pytest_vmstorage.rules.device import SCSI_MODELS

TEST_ALIAS = "ua-test"
"""Alias of the disk under test; libvirt keeps users' aliases that begin with "ua-"."""

TEST_SERIAL = "vmstorage-test"
QEMU_NAMESPACE = "http://libvirt.org/schemas/domain/qemu/1.0"

# bus -> target device and libvirt's name of the bus
TARGETS: Mapping[Bus, tuple[str, str]] = {
    "virtio-blk": ("vdb", "virtio"),
    "virtio-scsi": ("sda", "scsi"),
    "lsilogic": ("sda", "scsi"),
    "vmpvscsi": ("sda", "scsi"),
    "ide": ("hda", "ide"),
    "sata": ("sda", "sata"),
    "usb": ("sda", "usb"),
}

# cache mode -> (direct, no-flush) of the block nodes and write-cache of the device, as libvirt has them
CACHE_FLAGS: Mapping[Cache, tuple[bool, bool, bool]] = {
    "none": (True, False, True),
    "directsync": (True, False, False),
    "writethrough": (False, False, False),
    "writeback": (False, False, True),
    "unsafe": (False, True, True),
}


def disk_elements(config: StorageConfig, path: str) -> Iterator[ET.Element]:
    """The controller, if the bus needs one said, and the disk; nothing for NVMe, which old libvirt has not."""
    if config.bus in SCSI_MODELS:
        # said, for libvirt would silently take an LSI 53C895A on pc
        controller = ET.Element("controller", type="scsi", index="0", model=config.bus)
        if config.bus == "virtio-scsi":
            _driver(controller, _queue_options(config))
        yield controller
    yield ET.Element("controller", type="usb", index="0", model="qemu-xhci" if config.bus == "usb" else "none")
    if config.bus != "nvme":
        yield _disk(config, path)


def _disk(config: StorageConfig, path: str) -> ET.Element:
    device, bus = TARGETS[config.bus]
    disk = ET.Element("disk", type="file", device="disk")
    options = {
        "name": "qemu",
        "type": config.format,
        "cache": config.cache,
        "io": config.io,
        "discard": config.discard,
        "detect_zeroes": config.detect_zeroes,
    }
    driver = _driver(disk, {**options, **(_queue_options(config) if config.bus == "virtio-blk" else {})})
    if config.l2_cache_size is not None:
        size = ET.SubElement(ET.SubElement(driver, "metadata_cache"), "max_size", unit="bytes")
        size.text = str(config.l2_cache_size)
    ET.SubElement(disk, "source", file=path)
    ET.SubElement(disk, "target", dev=device, bus=bus)
    ET.SubElement(disk, "serial").text = TEST_SERIAL
    ET.SubElement(disk, "alias", name=TEST_ALIAS)
    return disk


def _queue_options(config: StorageConfig) -> dict[str, str]:
    asked = {
        "iothread": "1" if config.iothread else "",
        "queues": str(config.queues or ""),
        "queue_size": str(config.queue_size or ""),
    }
    return {name: value for name, value in asked.items() if value}


def _driver(parent: ET.Element, options: Mapping[str, str]) -> ET.Element:
    return ET.SubElement(parent, "driver", dict(options)) if options else parent


def nvme_commandline(config: StorageConfig, path: str) -> ET.Element:
    """QEMU options for an NVMe disk, with the block nodes that libvirt would make of the cache mode.

    libvirt has this bus since 11.5 only; on older ones it knows nothing of such a disk. The PCI address is one
    that libvirt does not give away.
    """
    direct, no_flush, write_cache = CACHE_FLAGS[config.cache]
    cache = {"direct": direct, "no-flush": no_flush}
    storage: dict[str, object] = {"driver": "file", "filename": path, "node-name": f"{TEST_ALIAS}-storage"}
    storage |= {"cache": cache, "aio": config.io, "auto-read-only": True, "discard": config.discard}
    layer: dict[str, object] = {"driver": config.format, "node-name": f"{TEST_ALIAS}-format"}
    layer |= {
        "file": storage["node-name"],
        "cache": cache,
        "discard": config.discard,
        "detect-zeroes": config.detect_zeroes,
    }
    if config.l2_cache_size is not None:
        layer["cache-size"] = config.l2_cache_size
    device: dict[str, object] = {"driver": "nvme", "id": TEST_ALIAS, "drive": layer["node-name"], "serial": TEST_SERIAL}
    device |= {"write-cache": "on" if write_cache else "off"}
    device |= {"bus": "pci.0" if config.machine_type == "pc" else "pcie.0", "addr": "0x1e"}
    ET.register_namespace("qemu", QEMU_NAMESPACE)
    commandline = ET.Element(f"{{{QEMU_NAMESPACE}}}commandline")
    for word in ("-blockdev", json.dumps(storage), "-blockdev", json.dumps(layer), "-device", json.dumps(device)):
        ET.SubElement(commandline, f"{{{QEMU_NAMESPACE}}}arg", value=word)
    return commandline

"""The disk under test in libvirt's XML: its element, its controller, and NVMe's command line; pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from xml.etree import ElementTree as ET

from pytest_vmstorage.config.buses import BUSES, CACHES
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.qcow2_cache import combined_bytes, node_options
from pytest_vmstorage.storage.encryption import SECRET, driver_of, encryption_element, secret_object
from pytest_vmstorage.storage.layers import layer_paths

TEST_ALIAS = "ua-test"
"""Alias of the disk under test; libvirt keeps users' aliases that begin with "ua-"."""

TEST_SERIAL = "vmstorage-test"
NULL_NODE = f"{TEST_ALIAS}-null"
"""Name of the block node of a disk without storage."""

QEMU_NAMESPACE = "http://libvirt.org/schemas/domain/qemu/1.0"

LIMITS: Mapping[str, str] = {"total_iops_sec": "iops", "total_bytes_sec": "bps"}
"""libvirt's names of what limits a disk, which are the fields', and those of QMP for the same."""


def disk_elements(config: StorageConfig, path: str, secret: str, *, is_block: bool = False) -> Iterator[ET.Element]:
    """The controller, if the bus needs one said, and the disk; nothing for NVMe, which old libvirt has not.

    `secret` is the UUID under which libvirt knows an encrypted disk's passphrase.
    """
    if BUSES[config.bus].is_scsi_model:
        # said, for libvirt would silently take an LSI 53C895A on pc
        controller = ET.Element("controller", type="scsi", index="0", model=config.bus)
        if config.bus == "virtio-scsi":
            _driver(controller, _queue_options(config))
        yield controller
    yield ET.Element("controller", type="usb", index="0", model="qemu-xhci" if config.bus == "usb" else "none")
    if config.bus != "nvme":
        yield _disk(config, path, secret, is_block=is_block)


def _disk(config: StorageConfig, path: str, secret: str, *, is_block: bool) -> ET.Element:
    bus = BUSES[config.bus]
    disk = ET.Element("disk", type="block" if is_block else "file", device="disk")
    options = {
        "name": "qemu",
        "type": config.format,
        "cache": config.cache,
        "io": config.io,
        "discard": config.discard,
        "detect_zeroes": config.detect_zeroes,
        # a full host would otherwise pause the guest, and its tool would wait for ever
        "error_policy": "report",
    }
    driver = _driver(disk, {**options, **(_queue_options(config) if config.bus == "virtio-blk" else {})})
    cached = combined_bytes(config)
    if cached is not None:
        size = ET.SubElement(ET.SubElement(driver, "metadata_cache"), "max_size", unit="bytes")
        size.text = str(cached)
    source = _source(disk, config, path, secret, is_block=is_block)
    if is_block and config.format == "raw":
        # the guest gets the cell's size, whatever the device has
        ET.SubElement(ET.SubElement(source, "slices"), "slice", type="storage", offset="0", size=str(config.size))
    if config.encryption == "luks":
        _backing_store(disk, config, path, secret)
    limits = limits_of(config)
    if limits:
        iotune = ET.SubElement(disk, "iotune")
        for name, limit in limits.items():
            ET.SubElement(iotune, name).text = str(limit)
    ET.SubElement(disk, "target", dev=bus.target, bus=bus.libvirt)
    ET.SubElement(disk, "serial").text = TEST_SERIAL
    ET.SubElement(disk, "alias", name=TEST_ALIAS)
    return disk


def limits_of(config: StorageConfig) -> Mapping[str, int]:
    """What the disk serves at most in a second, I/Os and bytes, by libvirt's names; nothing of what has no limit."""
    limits = {name: getattr(config, name) for name in LIMITS}
    return {name: limit for name, limit in limits.items() if limit is not None}


def nvme_limits(config: StorageConfig) -> Mapping[str, object]:
    """Arguments of QMP's `block_set_io_throttle` for an NVMe disk with limits, nothing for any other.

    libvirt gives that command itself for each disk that it knows, which this one is not.
    """
    limits = limits_of(config)
    if config.bus != "nvme" or not limits:
        return {}
    # QEMU wants all six said, and takes 0 for none
    unlimited = {f"{kind}{way}": 0 for kind in LIMITS.values() for way in ("", "_rd", "_wr")}
    return {"id": TEST_ALIAS, **unlimited, **{LIMITS[name]: limit for name, limit in limits.items()}}


def _source(parent: ET.Element, config: StorageConfig, path: str, secret: str, *, is_block: bool) -> ET.Element:
    source = ET.SubElement(parent, "source", {"dev" if is_block else "file": path})
    if config.encryption == "luks":
        source.append(encryption_element(secret))
    return source


def _backing_store(disk: ET.Element, config: StorageConfig, path: str, secret: str) -> None:
    """Each encrypted backing file, which libvirt does not find by itself; of others it reads the image's header."""
    parent = disk
    for layer in layer_paths(config, path):
        parent = ET.SubElement(parent, "backingStore", type="file")
        ET.SubElement(parent, "format", type=config.format)
        _source(parent, config, layer, secret, is_block=False)
    ET.SubElement(parent, "backingStore")


def _queue_options(config: StorageConfig) -> dict[str, str]:
    asked = {
        "iothread": "1" if config.iothread else "",
        "queues": str(config.queues or ""),
        "queue_size": str(config.queue_size or ""),
    }
    return {name: value for name, value in asked.items() if value}


def _driver(parent: ET.Element, options: Mapping[str, str]) -> ET.Element:
    return ET.SubElement(parent, "driver", dict(options)) if options else parent


def qemu_elements(config: StorageConfig, path: str) -> Iterator[ET.Element]:
    """What libvirt has no element for, in its QEMU namespace: an NVMe disk, and a disk without storage."""
    ET.register_namespace("qemu", QEMU_NAMESPACE)
    if config.bus == "nvme":
        yield nvme_commandline(config, path)
    elif config.is_null:
        yield _arguments("-blockdev", json.dumps(null_node(config)))
        yield _null_override()


def _arguments(*words: str) -> ET.Element:
    commandline = ET.Element(f"{{{QEMU_NAMESPACE}}}commandline")
    for word in words:
        ET.SubElement(commandline, f"{{{QEMU_NAMESPACE}}}arg", value=word)
    return commandline


def _cache_of_node(config: StorageConfig) -> dict[str, object]:
    mode = CACHES[config.cache]
    return {"cache": {"direct": mode.direct, "no-flush": mode.no_flush}}


def null_node(config: StorageConfig) -> Mapping[str, object]:
    """The options of QEMU's null driver for a disk of the cell's size; zeroes are read, and not what lay in memory."""
    node: dict[str, object] = {"driver": "null-co", "node-name": NULL_NODE, "size": config.size, "read-zeroes": True}
    return node | _cache_of_node(config)


def add_arguments(domain: ET.Element, words: Sequence[str]) -> None:
    """Add words to the domain's one list of QEMU's own options."""
    ET.register_namespace("qemu", QEMU_NAMESPACE)
    tag = f"{{{QEMU_NAMESPACE}}}commandline"
    there = domain.find(tag)
    commandline = ET.SubElement(domain, tag) if there is None else there
    for word in words:
        ET.SubElement(commandline, f"{{{QEMU_NAMESPACE}}}arg", value=word)


def _null_override() -> ET.Element:
    """Put the disk's device on the null node: libvirt has no such disk, and gives the device that of an empty file.

    The file's node stays, with nothing on it. Tried on every bus, with and without an iothread.
    """
    override = ET.Element(f"{{{QEMU_NAMESPACE}}}override")
    device = ET.SubElement(override, f"{{{QEMU_NAMESPACE}}}device", alias=TEST_ALIAS)
    frontend = ET.SubElement(device, f"{{{QEMU_NAMESPACE}}}frontend")
    ET.SubElement(frontend, f"{{{QEMU_NAMESPACE}}}property", name="drive", type="string", value=NULL_NODE)
    return override


def nvme_commandline(config: StorageConfig, path: str) -> ET.Element:
    """QEMU options for an NVMe disk, with the block nodes that libvirt would make of the cache mode.

    libvirt has this bus since 11.5 only; on older ones it knows nothing of such a disk. The PCI address is one
    that libvirt does not give away.
    """
    write_cache = CACHES[config.cache].write_cache
    nodes = [null_node(config)] if config.is_null else list(_nodes(config, path))
    device: dict[str, object] = {"driver": "nvme", "id": TEST_ALIAS, "drive": nodes[-1]["node-name"]}
    device |= {"serial": TEST_SERIAL, "write-cache": "on" if write_cache else "off"}
    device |= {"bus": "pci.0" if config.machine_type == "pc" else "pcie.0", "addr": "0x1e"}
    words = ["-object", secret_object()] if config.encryption == "luks" else []
    for node in nodes:
        words += ["-blockdev", json.dumps(node)]
    return _arguments(*words, "-device", json.dumps(device))


def _nodes(config: StorageConfig, path: str) -> Iterator[dict[str, object]]:
    """Block nodes for -blockdev: the lowest layer's file and format first, the image's last."""
    cache = _cache_of_node(config)
    below = None
    layers = layer_paths(config, path)
    for number, layer in reversed(list(enumerate((path, *layers)))):
        name = TEST_ALIAS if number == 0 else f"{TEST_ALIAS}-{number}"
        storage: dict[str, object] = {"driver": driver_of(layer), "filename": layer, "node-name": f"{name}-storage"}
        yield storage | cache | {"aio": config.io, "auto-read-only": True, "discard": config.discard}
        node: dict[str, object] = {"driver": config.format, "node-name": f"{name}-format", "file": f"{name}-storage"}
        node |= cache | {"discard": config.discard, "detect-zeroes": config.detect_zeroes if number == 0 else "off"}
        if number > 0:
            node |= {"read-only": True}
        if driver_of(layer) == "host_device" and config.format == "raw":
            node |= {"offset": 0, "size": config.size}
        if layers:
            node |= {"backing": below}
        node |= node_options(config)
        if config.encryption == "luks":
            node |= {"encrypt": {"format": "luks", "key-secret": SECRET}}
        below = f"{name}-format"
        yield node

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
"""libvirt's names of a disk's limits, which are also the fields of the cell, with QMP's names."""


def element(tag: str, *content: ET.Element | str | None, **attributes: str) -> ET.Element:
    """An XML element with these children or this text; None stands for a child that is left out."""
    made = ET.Element(tag, attributes)
    for one in content:
        if isinstance(one, str):
            made.text = one
        elif one is not None:
            made.append(one)
    return made


def disk_elements(config: StorageConfig, path: str, secret: str, *, is_block: bool) -> Iterator[ET.Element]:
    """The controller, where the bus needs an explicit one, and the disk; no disk for NVMe, which old libvirt lacks.

    `secret` is the UUID under which libvirt knows an encrypted disk's passphrase.
    """
    if BUSES[config.bus].is_scsi_model:
        # explicit, because libvirt would silently take an LSI 53C895A on pc
        options = _queue_options(config) if config.bus == "virtio-scsi" else {}
        driver = element("driver", **options) if options else None
        yield element("controller", driver, type="scsi", index="0", model=config.bus)
    yield element("controller", type="usb", index="0", model="qemu-xhci" if config.bus == "usb" else "none")
    if config.bus != "nvme":
        yield _disk(config, path, secret, is_block=is_block)


def _disk(config: StorageConfig, path: str, secret: str, *, is_block: bool) -> ET.Element:
    bus, cached, limits = BUSES[config.bus], combined_bytes(config), limits_of(config)
    size = element("max_size", str(cached), unit="bytes")
    options = {
        "name": "qemu",
        "type": config.format,
        "cache": config.cache,
        "io": config.io,
        "discard": config.discard,
        "detect_zeroes": config.detect_zeroes,
        # a full host would otherwise pause the guest, and its tool would wait for ever
        "error_policy": "report",
        **(_queue_options(config) if config.bus == "virtio-blk" else {}),
    }
    source = _source(config, path, secret, is_block=is_block)
    if is_block and config.format == "raw":
        # the guest gets the cell's size, whatever the device has
        source.append(element("slices", element("slice", type="storage", offset="0", size=str(config.size))))
    return element(
        "disk",
        element("driver", element("metadata_cache", size) if cached is not None else None, **options),
        source,
        _backing_store(config, layer_paths(config, path), secret) if config.encryption == "luks" else None,
        element("iotune", *(element(name, str(limit)) for name, limit in limits.items())) if limits else None,
        element("target", dev=bus.target, bus=bus.libvirt),
        element("serial", TEST_SERIAL),
        element("alias", name=TEST_ALIAS),
        type="block" if is_block else "file",
        device="disk",
    )


def limits_of(config: StorageConfig) -> Mapping[str, int]:
    """The disk's limits that the cell has, in I/Os and bytes per second, by libvirt's names."""
    limits = {name: getattr(config, name) for name in LIMITS}
    return {name: limit for name, limit in limits.items() if limit is not None}


def nvme_limits(config: StorageConfig) -> Mapping[str, object]:
    """Arguments of QMP's `block_set_io_throttle` for an NVMe disk with limits, empty for any other disk.

    libvirt gives that command itself for each disk that it knows, and it does not know this one.
    """
    limits = limits_of(config)
    if config.bus != "nvme" or not limits:
        return {}
    # QEMU requires all six, and takes 0 for no limit
    unlimited = {f"{kind}{way}": 0 for kind in LIMITS.values() for way in ("", "_rd", "_wr")}
    return {"id": TEST_ALIAS, **unlimited, **{LIMITS[name]: limit for name, limit in limits.items()}}


def _source(config: StorageConfig, path: str, secret: str, *, is_block: bool = False) -> ET.Element:
    encryption = encryption_element(secret) if config.encryption == "luks" else None
    return element("source", encryption, **{"dev" if is_block else "file": path})


def _backing_store(config: StorageConfig, layers: Sequence[str], secret: str) -> ET.Element:
    """The encrypted backing files: libvirt finds only those that are not encrypted, in the image's header."""
    if not layers:
        return element("backingStore")
    source, below = _source(config, layers[0], secret), _backing_store(config, layers[1:], secret)
    return element("backingStore", element("format", type=config.format), source, below, type="file")


def _queue_options(config: StorageConfig) -> dict[str, str]:
    asked = {
        "iothread": "1" if config.iothread else "",
        "queues": str(config.queues or ""),
        "queue_size": str(config.queue_size or ""),
    }
    return {name: value for name, value in asked.items() if value}


def qemu_elements(config: StorageConfig | None, path: str, options: Sequence[str]) -> Iterator[ET.Element]:
    """libvirt's QEMU namespace: NVMe disks and disks without storage, for which it has no element, and QEMU `options`.

    The capability that is deleted is the list of features that a processor lacks. With it libvirt asks each guest that
    begins for every property of its processor, 400 answers one by one, and QEMU reads each question byte by byte
    (monitor_can_read in monitor/monitor.c, 7.2): half a second on slow cores. Without it libvirt asks for all features
    at once (qemuProcessFetchGuestCPU in qemu_process.c, 9.0). QEMU's command line is the same (tried on libvirt 9.0).
    """
    ET.register_namespace("qemu", QEMU_NAMESPACE)
    words, is_overridden = list(options), False
    if config is not None and config.bus == "nvme":
        words = [*_nvme_options(config, path), *words]
    elif config is not None and config.is_null:
        words, is_overridden = ["-blockdev", json.dumps(null_node(config)), *words], True
    if words:
        yield _qemu("commandline", *(_qemu("arg", value=word) for word in words))
    if is_overridden:
        # libvirt has no such disk, and gives the device the node of an empty file, which stays with nothing on it
        # (tried on every bus, with and without an iothread)
        drive = _qemu("property", name="drive", type="string", value=NULL_NODE)
        yield _qemu("override", _qemu("device", _qemu("frontend", drive), alias=TEST_ALIAS))
    yield _qemu("capabilities", _qemu("del", capability="cpu-unavailable-features"))


def _qemu(tag: str, *content: ET.Element, **attributes: str) -> ET.Element:
    return element(f"{{{QEMU_NAMESPACE}}}{tag}", *content, **attributes)


def null_node(config: StorageConfig) -> Mapping[str, object]:
    """Options of QEMU's null driver for a disk of the cell's size, which reads as zeroes and not as stale memory."""
    node: dict[str, object] = {"driver": "null-co", "node-name": NULL_NODE, "size": config.size, "read-zeroes": True}
    return node | _cache_of_node(config)


def _cache_of_node(config: StorageConfig) -> dict[str, object]:
    mode = CACHES[config.cache]
    return {"cache": {"direct": mode.direct, "no-flush": mode.no_flush}}


def _nvme_options(config: StorageConfig, path: str) -> list[str]:
    """QEMU options for an NVMe disk, with the block nodes that libvirt would make of the cache mode.

    libvirt has this bus only since 11.5. libvirt never assigns the PCI address that is used here.
    """
    nodes = [null_node(config)] if config.is_null else list(_nodes(config, path))
    device: dict[str, object] = {"driver": "nvme", "id": TEST_ALIAS, "drive": nodes[-1]["node-name"]}
    device |= {"serial": TEST_SERIAL, "write-cache": "on" if CACHES[config.cache].write_cache else "off"}
    device |= {"bus": "pci.0" if config.machine_type == "pc" else "pcie.0", "addr": "0x1e"}
    words = ["-object", secret_object()] if config.encryption == "luks" else []
    for node in nodes:
        words += ["-blockdev", json.dumps(node)]
    return [*words, "-device", json.dumps(device)]


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

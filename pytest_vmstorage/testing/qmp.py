"""Answers of QEMU 7.2's monitor about the disk under test, made from the XML that the guest was started with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from pytest_vmstorage.config.buses import BUSES, CACHES, Bus
from pytest_vmstorage.errors import HypervisorError
from pytest_vmstorage.guest.disk_xml import LIMITS, QEMU_NAMESPACE, TEST_ALIAS

_DEVICE = f"/machine/peripheral/{TEST_ALIAS}"
_OWNER = "/machine/peripheral/owner"


class _Disk(NamedTuple):
    """The disk as the XML has it: its driver's options, and those of the controller behind which it sits.

    `null` has the options of QEMU's null driver where the device is on that, and is empty of a disk with storage.
    `limits` are those of its iotune, by libvirt's names.
    """

    bus: Bus
    path: str
    options: Mapping[str, str]
    controller: Mapping[str, str]
    is_encrypted: bool = False
    null: Mapping[str, Any] = {}
    limits: Mapping[str, int] = {}

    @property
    def inserted(self) -> Mapping[str, Any]:
        """QEMU's description of the image in the device, or of the null node."""
        limits = {name: self.limits.get(field, 0) for field, name in LIMITS.items()}
        if self.null:
            return {"node-name": self.null["node-name"], "image": {"virtual-size": self.null["size"]}, **limits}
        return {"node-name": "libvirt-1-format", "encrypted": self.is_encrypted, **limits}


def answer_monitor(xml: str, command: str, arguments: Mapping[str, Any]) -> Any:
    """The answer to one QMP command; raises HypervisorError for one it does not know."""
    tree = ET.fromstring(xml or "<domain/>")  # noqa: S314 (our own XML)
    disk = _nvme(tree) or _disk(tree)
    if command == "query-kvm":
        return {"enabled": tree.get("type") == "kvm", "present": True}
    if command == "query-version":
        return {"qemu": {"major": 7, "minor": 2, "micro": 22}, "package": "Debian 1:7.2+dfsg-7+deb12u18"}
    if command in ("qom-get", "qom-list"):
        there = _objects(tree, disk)[arguments["path"]]
        return there[arguments["property"]] if command == "qom-get" else [{"name": name} for name in there]
    if command in ("query-block", "query-blockstats", "query-named-block-nodes"):
        return _blocks(disk, command) if disk is not None else []
    raise HypervisorError(f"monitor command {command} failed: The command {command} has not been found.", code="VM509")


def _disk(tree: ET.Element) -> _Disk | None:
    found = [one for one in tree.iterfind("devices/disk") if one.find(f"alias[@name='{TEST_ALIAS}']") is not None]
    if not found:
        return None
    (disk,) = found
    kind = disk.find("target").get("bus")  # type: ignore[union-attr]
    controller = tree.find(f"devices/controller[@type='{kind}']")
    model = controller.get("model") if controller is not None else None
    names = [name for name, bus in BUSES.items() if bus.libvirt == kind]
    # libvirt's choice of a SCSI controller where the XML names none
    bus: Bus = next((name for name in names if len(names) == 1 or name == model), "lsilogic")
    source = disk.find("source")
    path = "" if source is None else source.get("file", source.get("dev", ""))
    is_encrypted = source is not None and source.find("encryption") is not None
    null = _arguments(tree)[0] if tree.find(f"{{{QEMU_NAMESPACE}}}override") is not None else {}
    limits = {one.tag: int(one.text or 0) for one in disk.iterfind("iotune/*")}
    return _Disk(bus, path, _driver(disk), _driver(controller), is_encrypted, null, limits)


def _driver(element: ET.Element | None) -> Mapping[str, str]:
    driver = None if element is None else element.find("driver")
    return {} if driver is None else dict(driver.attrib)


def _arguments(tree: ET.Element) -> list[dict[str, Any]]:
    """The argument of each option of qemu:commandline."""
    words = [one.get("value", "") for one in tree.iter(f"{{{QEMU_NAMESPACE}}}arg")]
    return [json.loads(word) for word in words[1::2]]


def _nvme(tree: ET.Element) -> _Disk | None:
    *nodes, device = _arguments(tree) or [{}]
    if device.get("driver") != "nvme":
        return None
    storage, layer = nodes[-2:] if len(nodes) > 1 else (nodes[0], nodes[0])
    flags = (layer["cache"]["direct"], layer["cache"]["no-flush"], device["write-cache"] == "on")
    cache = next(name for name, mode in CACHES.items() if mode.flags == flags)
    options = {"type": layer["driver"], "cache": cache, "detect_zeroes": layer.get("detect-zeroes", "off")}
    null = layer if layer["driver"] == "null-co" else {}
    return _Disk("nvme", storage.get("filename", ""), options, {}, "encrypt" in layer, null)


def _objects(tree: ET.Element, disk: _Disk | None) -> Mapping[str, Mapping[str, Any]]:
    kind = tree.find("os/type")
    name = {"pc": "pc-i440fx-7.2", "q35": "pc-q35-7.2"}.get(kind.get("machine", "") if kind is not None else "", "none")
    objects: dict[str, Mapping[str, Any]] = {"/machine": {"type": f"{name}-machine"}}
    if disk is None:
        return objects
    model, _, owner = BUSES[disk.bus].qemu.partition(" on ")
    virtio = disk.controller if disk.bus == "virtio-scsi" else disk.options
    thread = {"iothread": "/objects/iothread1" if "iothread" in virtio else ""}
    queues, size = int(virtio.get("queues", 1)), int(virtio.get("queue_size", 256))
    # 7.2 does not hand the option on to the disk inside usb-storage
    write_cache = "auto" if disk.bus == "usb" else "on" if CACHES[disk.options["cache"]].write_cache else "off"  # type: ignore[index]
    device: dict[str, Any] = {"type": model, "write-cache": write_cache, "parent_bus": f"{_OWNER}/bus.0"}
    if disk.bus == "virtio-blk":
        device |= {"num-queues": queues, "queue-size": size, **thread}
    above: dict[str, Any] = {"type": owner or "q35-pcihost"}
    if disk.bus == "virtio-scsi":
        above |= {"num_queues": queues, "virtqueue_size": size, **thread}
    return objects | {_DEVICE: device, _OWNER: above}


def _blocks(disk: _Disk, command: str) -> Any:
    if command == "query-blockstats":
        return [{"qdev": TEST_ALIAS}]
    if command == "query-block":
        return [{"qdev": TEST_ALIAS, "inserted": disk.inserted}]
    direct, no_flush, _ = CACHES[disk.options["cache"]].flags  # type: ignore[index]
    nodes = _null_nodes(disk.null) if disk.null else []
    if disk.bus == "nvme" and nodes:
        return nodes
    common = {"file": disk.path, "ro": False, "cache": {"direct": direct, "no-flush": no_flush, "writeback": True}}
    zeroes = disk.options.get("detect_zeroes", "off")
    return [
        *nodes,
        {"node-name": "libvirt-1-format", "drv": disk.options["type"], "detect_zeroes": zeroes, **common},
        {"node-name": "libvirt-1-storage", "drv": "file", "detect_zeroes": "off", **common},
    ]


def _null_nodes(null: Mapping[str, Any]) -> list[dict[str, Any]]:
    told = {"drv": null["driver"], "file": f"json:{json.dumps({'driver': 'null-co', 'size': null['size']})}"}
    cache = {**null["cache"], "writeback": True}
    return [{"node-name": null["node-name"], "detect_zeroes": "off", "ro": False, "cache": cache, **told}]

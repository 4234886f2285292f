"""The proof of a cell: the answers of libvirt, QEMU, the host and the guest, field by field; pure.

A request alone proves nothing: libvirt, QEMU and qemu-img accept options without effect
(tried on libvirt 9.0 with QEMU 7.2).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from xml.etree import ElementTree as ET

from pytest_vmstorage.config.buses import BUSES, CACHES
from pytest_vmstorage.config.cell import FIELDS, StorageConfig
from pytest_vmstorage.config.qcow2_cache import CACHE_FIELDS
from pytest_vmstorage.config.settings import Accel
from pytest_vmstorage.errors import AttestationError
from pytest_vmstorage.guest.disk_xml import QEMU_NAMESPACE, TEST_ALIAS
from pytest_vmstorage.guest.facts import GuestFacts
from pytest_vmstorage.measure.proof.claim import (
    BLOCK,
    BLOCK_NODES,
    BLOCK_STATS,
    COMMAND_LINE,
    DEFAULT,
    DEVICE,
    LOG,
    XML,
    asked_text,
    by_name,
    claim,
    unprovable,
)
from pytest_vmstorage.measure.proof.domain import limits_in_qemu, limits_in_xml, of_emulator, of_null
from pytest_vmstorage.measure.proof.evidence import Evidence
from pytest_vmstorage.measure.proof.file_systems import of_host_fs
from pytest_vmstorage.measure.proof.guest import of_guest
from pytest_vmstorage.measure.proof.image import block_proofs, cache_sizes, of_image, of_layers
from pytest_vmstorage.results.run import Proof
from pytest_vmstorage.units import format_size


def attest(config: StorageConfig, accel: Accel, evidence: Evidence) -> tuple[Proof, ...]:
    """Proofs of each field from host, QEMU and image."""
    tree = ET.fromstring(evidence.xml)  # noqa: S314 (libvirt's own)
    return (
        *_of_domain(config, accel, tree),
        *of_emulator(config, tree, evidence),
        *(_of_nvme_options(config, tree) if config.bus == "nvme" else _of_disk_element(config, tree)),
        *_of_nodes(config, evidence),
        *_of_device(config, evidence),
        *limits_in_qemu(config, evidence.inserted),
        *_of_command_line(config, evidence),
        *(of_null(config, evidence) if config.is_null else _of_storage(config, evidence)),
        claim("machine", config.machine_type, _machine_type(evidence.machine), "QMP qom-get of the machine"),
        claim("accel", accel, "kvm" if evidence.kvm else "tcg", "QMP query-kvm"),
    )


def _of_storage(config: StorageConfig, evidence: Evidence) -> Iterator[Proof]:
    """Proofs from the image and the storage below it."""
    yield from of_image(config, evidence.info, evidence.image, evidence.inserted)
    yield from of_layers(config, evidence)
    yield from of_host_fs(config, evidence.ground)
    if evidence.node is not None:
        yield from block_proofs(config, evidence.node, evidence.block)


def attest_guest(config: StorageConfig, facts: GuestFacts) -> tuple[Proof, ...]:
    """Proofs of the fields that the guest itself can see."""
    return tuple(of_guest(config, facts))


def conclude(config: StorageConfig, proofs: Iterable[Proof]) -> tuple[Proof, ...]:
    """All proofs in the order of the fields; a field that no source reports gets an unprovable one.

    Fields that the cell lacks are left out, except a disk's state, to which rounds refer.
    Raises AttestationError where a source contradicts: a figure of such a cell would bear a wrong label.
    """
    has = [name for name in FIELDS if name == "state" or not config.lacks(name)]
    there = [proof for proof in proofs if proof.field in (*has, "accel")]
    contradicted = [proof for proof in there if proof.status == "contradicted"]
    if contradicted:
        first, *others = contradicted
        also = "; ".join(f"{p.field} is {p.found} ({p.where}), not {p.asked}" for p in others)
        raise AttestationError(
            f"{first.field} of {config}",
            asked=first.asked,
            found=f"{first.found} ({first.where})",
            hint=f"Also: {also}." if also else "Leave the cell out, or use another host.",
            code="VM601",
        )
    known = {proof.field for proof in there}
    silent = [unprovable(name, config, "no source here reports it") for name in has if name not in known]
    order = {name: number for number, name in enumerate((*FIELDS, "accel"))}
    return tuple(sorted([*there, *silent], key=lambda proof: order.get(proof.field, len(order))))


def _machine_type(name: str) -> str:
    """pc or q35 of "pc-q35-7.2", "pc-i440fx-7.2-machine"; any other name as it is."""
    return "q35" if "q35" in name else "pc" if name.startswith("pc") else name


# fields in the domain that libvirt made


def _of_domain(config: StorageConfig, accel: Accel, tree: ET.Element) -> Iterator[Proof]:
    kind = tree.find("os/type")
    yield claim("accel", accel, "tcg" if tree.get("type") == "qemu" else str(tree.get("type")), XML)
    yield claim("machine", config.machine_type, _machine_type(kind.get("machine", "") if kind is not None else ""), XML)
    vcpu = tree.find("vcpu")
    present = "none" if vcpu is None else vcpu.get("current") or vcpu.text or "none"
    yield claim("vcpus", str(config.vcpus), present, XML)
    yield claim("memory", format_size(config.memory), _memory(tree), XML)


def _memory(tree: ET.Element) -> str:
    """The domain's memory, in KiB in live XML; a balloon may leave the guest less."""
    given = [tree.find(name) for name in ("memory", "currentMemory")]
    sizes = {_UNITS[one.get("unit", "KiB")] * int(one.text or 0) for one in given if one is not None}
    return " of ".join(format_size(size) for size in sorted(sizes)) or "none"


_UNITS = {"b": 1, "bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def _of_disk_element(config: StorageConfig, tree: ET.Element) -> Iterator[Proof]:
    disks = (one for one in tree.iterfind("devices/disk") if _attribute(one, "alias", "name") == TEST_ALIAS)
    disk = next(disks, ET.Element("disk"))
    for field, name in _DRIVER_ATTRIBUTES.items():
        yield claim(field, str(getattr(config, field)), _attribute(disk, "driver", name) or "not said", XML)
    controller = _controller(disk, tree)
    yield _bus_of_element(config, disk, controller)
    options = disk if not BUSES[config.bus].is_scsi_model else controller
    threaded = bool(_attribute(options, "driver", "iothread"))
    yield claim("iothread", asked_text(config.iothread), asked_text(threaded), XML)
    for field in ("queues", "queue_size"):
        yield claim(field, asked_text(getattr(config, field)), _attribute(options, "driver", field) or DEFAULT, XML)
    cache_bytes = disk.findtext("driver/metadata_cache/max_size")
    yield from cache_sizes(config, {"cache-size": int(cache_bytes) if cache_bytes else None}, XML)
    yield from limits_in_xml(config, disk)


_DRIVER_ATTRIBUTES = {name: name for name in ("cache", "io", "discard", "detect_zeroes")} | {"format": "type"}


def _attribute(element: ET.Element, child: str, name: str) -> str:
    found = element.find(child)
    return "" if found is None else found.get(name, "")


def _controller(disk: ET.Element, tree: ET.Element) -> ET.Element:
    kind, index = _attribute(disk, "target", "bus"), _attribute(disk, "address", "controller") or "0"
    there = (one for one in tree.iterfind("devices/controller") if (one.get("type"), one.get("index")) == (kind, index))
    return next(there, ET.Element("controller"))


def _bus_of_element(config: StorageConfig, disk: ET.Element, controller: ET.Element) -> Proof:
    asked, found = BUSES[config.bus].libvirt, _attribute(disk, "target", "bus") or "no such disk"
    if BUSES[config.bus].is_scsi_model:
        asked, found = f"{asked}, {config.bus}", f"{found}, {controller.get('model', 'no model')}"
    return claim("bus", asked, found, XML)


def _of_nvme_options(config: StorageConfig, tree: ET.Element) -> Iterator[Proof]:
    """Fields that other buses have on the disk's element: here they are options of the device, left to QEMU."""
    words = (one.get("value", "") for one in tree.iter(f"{{{QEMU_NAMESPACE}}}arg"))
    options = (json.loads(word) for word in words if word.startswith("{"))
    device: Mapping[str, str] = next((one for one in options if one.get("id") == TEST_ALIAS), {})
    yield claim("bus", config.bus, str(device.get("driver", "no such device")), XML)
    yield claim("iothread", asked_text(config.iothread), asked_text("iothread" in device), XML)
    for field in ("queues", "queue_size"):
        yield claim(field, asked_text(getattr(config, field)), DEFAULT, XML)


# fields in the device that QEMU made


def _of_nodes(config: StorageConfig, evidence: Evidence) -> Iterator[Proof]:
    if not evidence.nodes:
        yield claim("format", config.format, "no block node of the disk", BLOCK_NODES)
        return
    first = evidence.nodes[0]
    # newer libvirt puts nothing on top of a raw image's file
    kind = "raw" if first["drv"] in ("file", "host_device") else first["drv"]
    yield claim("format", config.format, kind, BLOCK_NODES)
    yield claim("detect_zeroes", config.detect_zeroes, first["detect_zeroes"], BLOCK_NODES)
    mode = CACHES[config.cache]
    asked = f"direct {_on(mode.direct)}, no-flush {_on(mode.no_flush)}"
    for node in evidence.nodes:
        found = f"direct {_on(node['cache']['direct'])}, no-flush {_on(node['cache']['no-flush'])}"
        where = f"{BLOCK_NODES}, {node['drv']}"
        yield claim("cache", f"{config.cache} ({asked})", found, where, holds=asked == found)
    yield _state(config, evidence)


def _on(flag: object) -> str:
    return "on" if flag else "off"


def _state(config: StorageConfig, evidence: Evidence) -> Proof:
    where = BLOCK_STATS
    if config.is_null:
        why = "QEMU's null driver keeps nothing: nothing is filled, and every block is as good as any"
        return unprovable("state", config, why, where=BLOCK_NODES)
    if config.arrives_filled:
        return unprovable("state", config, "the image arrives filled, and QEMU did not write it", where=where)
    if config.state != "fresh":
        return unprovable("state", config, "the disk is written for its first measurement, which tells", where=where)
    if evidence.written_bytes is None:
        return unprovable("state", config, "QEMU does not count for this device", where=where)
    found = f"{evidence.written_bytes} bytes written"
    return claim("state", "fresh (0 bytes written)", found, where, holds=evidence.written_bytes == 0)


def _of_device(config: StorageConfig, evidence: Evidence) -> Iterator[Proof]:
    device, controller = evidence.device, evidence.controller
    model = str(device.get("type", "no such device"))
    if model != "nvme":
        model = f"{model} on {controller.get('type', 'nothing')}"
    asked = BUSES[config.bus].qemu
    yield claim("bus", by_name(config.bus, asked), model, DEVICE, holds=model == asked)
    yield _write_cache(config, device.get("write-cache"))
    yield from _write_cache_in_effect(config, evidence.inserted)
    virtio = controller if config.bus == "virtio-scsi" else device
    if "iothread" in virtio:
        yield claim("iothread", asked_text(config.iothread), asked_text(bool(virtio["iothread"])), DEVICE)
    names = {"queues": ("num-queues", "num_queues"), "queue_size": ("queue-size", "virtqueue_size")}
    for field, spellings in names.items():
        found = next((str(virtio[name]) for name in spellings if name in virtio), None)
        asked = asked_text(getattr(config, field))
        if found is not None:
            yield claim(field, asked, found, DEVICE, holds=asked in (DEFAULT, found))


def _write_cache(config: StorageConfig, found: str | None) -> Proof:
    where = f"{DEVICE}, write-cache"
    asked = _on(CACHES[config.cache].write_cache)
    if found is None:
        return unprovable("cache", config, "this device has no such property", where=where)
    # "auto" comes from -drive, and means "on" unless something else was chosen (QEMU hw/block/block.c)
    effective = "on" if found == "auto" else found
    return claim(
        "cache", f"{config.cache} (write-cache {asked})", f"write-cache {found}", where, holds=effective == asked
    )


def _write_cache_in_effect(config: StorageConfig, inserted: Mapping[str, Any]) -> Iterator[Proof]:
    """The write cache as it is now: the property has its value at the start, which the guest may have changed."""
    if "writeback" in inserted:
        asked, found = _on(CACHES[config.cache].write_cache), _on(inserted["writeback"])
        where = f"{BLOCK}, writeback"
        said = f"{config.cache} (write-cache {asked})"
        yield claim("cache", said, f"write-cache {found}", where, holds=asked == found)


def _of_command_line(config: StorageConfig, evidence: Evidence) -> Iterator[Proof]:
    if not evidence.blockdevs:
        why = "QEMU's log, where its command line stands, cannot be read"
        names = ("io", "discard", *(name for name in CACHE_FIELDS if getattr(config, name)))
        yield from (unprovable(name, config, why, where=COMMAND_LINE) for name in names)
        return
    layer, storage = evidence.blockdevs[0], evidence.blockdevs[-1]
    beside = [one for one in evidence.nodes if one["drv"] == "file" and one["file"] != evidence.disk]
    extents = beside if config.format == "vmdk" else []
    if extents and config.io != "threads":
        # seen by strace on QEMU 7.2: the option reaches the descriptor alone
        yield claim("io", config.io, "threads for the extents, which are files of their own", BLOCK_NODES)
    yield claim("io", config.io, str(storage.get("aio", "threads")), COMMAND_LINE)
    yield claim("discard", config.discard, str(layer.get("discard", "ignore")), COMMAND_LINE)
    yield from cache_sizes(config, layer, COMMAND_LINE)
    if config.io != "threads" and evidence.fallbacks is not None:
        found = "; ".join(evidence.fallbacks) or "no word of a fallback"
        yield claim("io", config.io, found, LOG, holds=not evidence.fallbacks)

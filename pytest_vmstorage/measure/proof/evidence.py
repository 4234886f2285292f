"""Gathers what libvirt, QEMU and the image say of a guest, once, while it boots: a few QMP calls, one qemu-img."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import GuestError
from pytest_vmstorage.guest.disk_xml import TEST_ALIAS
from pytest_vmstorage.guest.emulator import RunningEmulator, running_emulator
from pytest_vmstorage.guest.instance import StartedGuest
from pytest_vmstorage.guest.protocol import Domain
from pytest_vmstorage.host.counters import HostLook
from pytest_vmstorage.host.device_node import NodeFacts, node_facts
from pytest_vmstorage.host.file_systems import FileSystem, look_at
from pytest_vmstorage.host.shell import Shell, check
from pytest_vmstorage.results.counters import IoCounters, read_block_stats
from pytest_vmstorage.storage.block import BlockPlace
from pytest_vmstorage.storage.encryption import image_name, secret_argv
from pytest_vmstorage.storage.image import ImageFacts


class Evidence(BaseModel):
    """What libvirt, QEMU and the image say of one guest, read once; properties are QOM's, by its names.

    `nodes` are the block nodes of the disk, the format's first; `blockdevs` what QEMU was started with for them.
    `ground` is the file system that holds the image, None under a block device. `node` is what QEMU opened, `block`
    the block device that it ought to be.
    `fallbacks` are lines of QEMU's log about an io mode it could not have; None where the log cannot be read.
    `chain` and `checks` are what qemu-img says of the image and of each backing file below it, the image first;
    `below` is what QEMU was started with for those below. None of `inserted`, QMP's word for what is in the device,
    is there without a device. `qemu` is the version of what runs the guest; `emulator` what that is, where the cell
    names one. Of a disk without storage nothing is asked but QEMU: `info`, `chain`, `ground` and `node` are empty, and
    `nodes` is the one that the device is on.
    """

    model_config = ConfigDict(frozen=True)

    disk: str
    xml: str
    machine: str
    kvm: bool
    nodes: tuple[Mapping[str, Any], ...]
    device: Mapping[str, Any]
    controller: Mapping[str, Any]
    written_bytes: int | None
    image: ImageFacts | None
    info: Mapping[str, Any]
    ground: FileSystem | None = None
    node: NodeFacts | None = None
    block: BlockPlace | None = None
    blockdevs: tuple[Mapping[str, Any], ...] = ()
    fallbacks: tuple[str, ...] | None = None
    chain: tuple[Mapping[str, Any], ...] = ()
    checks: tuple[Mapping[str, Any], ...] = ()
    below: tuple[Mapping[str, Any], ...] = ()
    inserted: Mapping[str, Any] = {}
    qemu: str = ""
    emulator: RunningEmulator | None = None


_OF_DEVICE = ("write-cache", "num-queues", "queue-size", "iothread", "parent_bus")
_OF_CONTROLLER = ("num_queues", "virtqueue_size", "iothread")
_OF_NODE = ("node-name", "drv", "file", "cache", "detect_zeroes", "ro")
_OF_INSERTED = ("backing_file_depth", "encrypted")
_LIMITS = ("iops", "bps")
_FALLBACK = re.compile("falling back", re.IGNORECASE)


def gather(machine: StartedGuest, shell: Shell, log: str) -> Evidence:
    """Ask libvirt, QEMU, and qemu-img on the host; `log` is the path of the guest's QEMU log there.

    Raises GuestError with the console's tail where the guest ends meanwhile, HypervisorError, ProvisionError.
    """
    try:
        return _gather(machine, shell, shell.read(log) if log else "")
    except GuestError as error:
        error.console = machine.console_tail()
        raise


def _gather(machine: StartedGuest, shell: Shell, log: str) -> Evidence:
    domain, disk = machine.domain, machine.spec.disk
    blocks = [one for one in domain.monitor("query-block") if TEST_ALIAS in one.get("qdev", "")]
    path = _path(blocks[0]["qdev"]) if blocks else f"/machine/peripheral/{TEST_ALIAS}"
    device, controller = _device(domain, path) if blocks else ({}, {})
    inserted = blocks[0].get("inserted", {}) if blocks else {}
    is_null, top = machine.config.is_null, inserted.get("node-name", "")
    chain = () if is_null else image_chain(shell, machine.config.format, disk)
    nodes = _nodes(domain, top, disk, is_null=is_null)
    return Evidence(
        disk=disk,
        xml=domain.xml(),
        machine=str(domain.monitor("qom-get", path="/machine", property="type")),
        kvm=bool(domain.monitor("query-kvm")["enabled"]),
        nodes=nodes,
        device=device,
        controller=controller,
        written_bytes=_written(domain),
        image=machine.image,
        info=chain[0] if chain else {},
        ground=None if machine.spec.is_block or is_null else _ground(machine.config, shell, disk),
        blockdevs=blockdevs(log, disk),
        fallbacks=fallback_lines(log) if log else None,
        chain=chain,
        checks=tuple(image_check(shell, machine.config, one["filename"]) for one in chain if one["format"] == "qcow2"),
        below=tuple(option for one in chain[1:] for option in blockdevs(log, one["filename"])),
        inserted=_inserted(inserted),
        node=None if is_null else node_facts(shell, _opened(nodes, disk)),
        qemu=_version(domain.monitor("query-version")),
        emulator=_emulator(machine, shell),
        block=machine.disk.block if machine.disk is not None and machine.spec.is_block else None,
    )


def _version(told: Mapping[str, Any]) -> str:
    """QEMU's version as its binary prints it: "7.2.22 (Debian 1:7.2+dfsg-7)"."""
    number = ".".join(str(told["qemu"][part]) for part in ("major", "minor", "micro"))
    package = told.get("package", "").strip()
    return f"{number} ({package})" if package else number


def _emulator(machine: StartedGuest, shell: Shell) -> RunningEmulator | None:
    named = machine.config.emulator
    return running_emulator(shell, named, machine.spec.uuid) if named else None


def fallback_lines(log: str) -> tuple[str, ...]:
    """Lines of QEMU's log about an io mode that it could not have."""
    return tuple(line for line in log.splitlines() if _FALLBACK.search(line))


def _opened(nodes: Sequence[Mapping[str, Any]], disk: str) -> str:
    """The path that QEMU has open for the disk, by its own word; that of the label where it tells none."""
    files = [one["file"] for one in nodes if one["drv"] in ("file", "host_device")]
    return next((file for file in files if file == disk), files[0] if files else disk)


def _ground(config: StorageConfig, shell: Shell, disk: str) -> FileSystem | None:
    return look_at(shell, disk, defaults=config.host_fs != "as-found", superblock=bool(config.host_mkfs))


def _path(qdev: str) -> str:
    """QOM's path of a device that QEMU names by its path or by its id."""
    return qdev if qdev.startswith("/") else f"/machine/peripheral/{qdev}"


def _device(domain: Domain, path: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    device = _properties(domain, path, _OF_DEVICE)
    # a virtio backend and a SCSI disk are plugged into a bus, which is a child of what owns it
    owner = str(device.pop("parent_bus", "")).rpartition("/")[0]
    if not owner:
        return device, {}
    return device, _properties(domain, owner, _OF_CONTROLLER)


def _properties(domain: Domain, path: str, wanted: Sequence[str]) -> dict[str, Any]:
    """Its type, and of the wanted properties those that it has."""
    there = {one["name"] for one in domain.monitor("qom-list", path=path)}
    names = ["type", *(name for name in wanted if name in there)]
    return {name: domain.monitor("qom-get", path=path, property=name) for name in names}


def _nodes(domain: Domain, top: str, disk: str, *, is_null: bool) -> tuple[Mapping[str, Any], ...]:
    """The block node the device is on, then those of the disk's file and of the files that belong to it.

    A disk without storage has none below, and the empty file's that libvirt insists on are no part of it.
    """
    nodes = domain.monitor("query-named-block-nodes", flat=True)
    # backing files and a vmdk's extents; a node's "file" may be JSON with the path in it
    ours = re.compile(
        rf"(^|\")({re.escape(disk)}|{re.escape(str(PurePosixPath(disk).with_suffix('')))}[-.][^/\"]*)($|\")"
    )
    found = [one for one in nodes if one["node-name"] == top or (not is_null and ours.search(one["file"]))]
    found.sort(key=lambda one: one["node-name"] != top)
    return tuple({name: one[name] for name in _OF_NODE} for one in found)


def _inserted(there: Mapping[str, Any]) -> Mapping[str, Any]:
    """What QEMU says of the image in the device: what is below it, whether it is encrypted, its size and limits.

    `writeback` is whether the device's write cache is on by now, whatever it began with.
    """
    known = {name: value for name, value in there.items() if name in _OF_INSERTED or name.startswith(_LIMITS)}
    nested = {
        "virtual-size": there.get("image", {}).get("virtual-size"),
        "writeback": there.get("cache", {}).get("writeback"),
    }
    return known | {name: value for name, value in nested.items() if value is not None}


def _written(domain: Domain) -> int | None:
    for one in domain.monitor("query-blockstats"):
        if TEST_ALIAS in one.get("qdev", ""):
            return int(one["stats"]["wr_bytes"])
    return None


def block_counters(machine: StartedGuest) -> Mapping[str, int]:
    """What QEMU's block layer has moved so far for the guest's disk; nothing where QEMU does not count for it."""
    stats = [one for one in machine.domain.monitor("query-blockstats") if TEST_ALIAS in one.get("qdev", "")]
    return read_block_stats(stats[0]["stats"]) if stats else {}


def io_counters(host: HostLook, block: Mapping[str, int], guest: Mapping[str, int]) -> IoCounters:
    """What the guest's disk, QEMU's block layer and QEMU's process have moved so far; `guest` are the disk's own."""
    return IoCounters(**guest, **block, **host.io, **(host.device.as_counters() if host.device is not None else {}))


def image_chain(shell: Shell, kind: str, disk: str) -> tuple[Mapping[str, Any], ...]:
    """What qemu-img finds when it looks for itself: at the image, then at what lies below it; raises ProvisionError.

    A fixed vpc has its signature at the end, where no probe looks; opened as a vpc, qemu-img insists on it.
    """
    chosen = ("-f", "vpc") if kind == "vpc" else ()
    done = shell.run(["qemu-img", "info", "-U", "--backing-chain", "--output=json", *chosen, disk])
    chain = json.loads(check(done, f"looking at the image {disk}").stdout)
    return tuple({name: value for name, value in one.items() if name != "children"} for one in chain)


def image_check(shell: Shell, config: StorageConfig, path: str) -> Mapping[str, Any]:
    """What qemu-img counts in a qcow2: clusters, compressed ones, errors; nothing where it cannot open the image."""
    argv = ["qemu-img", "check", "-U", "--output=json", *secret_argv(config), image_name(config, path)]
    done = shell.run(argv)
    # 2 and 3 are errors and leaks, which the counts tell
    return dict(json.loads(done.stdout)) if done.returncode in (0, 2, 3) else {}


def blockdevs(log: str, disk: str) -> tuple[Mapping[str, Any], ...]:
    """The -blockdev options of the disk in a log that begins with QEMU's command line: the format's, the file's."""
    found = list(_options(log))
    files = [one for one in found if one.get("filename") == disk]
    layers = [one for one in found if files and one.get("file") == files[0].get("node-name")]
    return (*layers, *files)


def _options(log: str) -> Iterator[Mapping[str, Any]]:
    for line in log.splitlines():
        if line.startswith("-blockdev "):
            _, text = shlex.split(line.rstrip(" \\"))
            yield json.loads(text)

"""Evidence of a guest: libvirt, QEMU and qemu-img are asked once, while it boots, by a few QMP calls."""

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
from pytest_vmstorage.results.series import Counts, read_qemu_counts
from pytest_vmstorage.storage.block import BlockPlace
from pytest_vmstorage.storage.encryption import image_name, secret_argv
from pytest_vmstorage.storage.image import ImageFacts


class Evidence(BaseModel):
    """Answers of libvirt, QEMU and qemu-img about one guest, read once; properties have the names of QEMU's QOM.

    `nodes` are the block nodes of the disk, the format's first; `blockdevs` are QEMU's options for them. `ground` is
    the file system that holds the image, None under a block device. `node` is the file that QEMU opened, `block` the
    block device that it ought to be. `fallbacks` are lines of QEMU's log about an io mode that it could not use; None
    where the log cannot be read. `chain` and `checks` are qemu-img's answers about the image and each backing file
    below it, the image first; `below` are QEMU's options for those below. `inserted` is QMP's word for the medium in
    the device; it is empty without a device. `qemu` is the version of the emulator that runs the guest; `emulator` is
    that emulator, where the cell names one. For a disk without storage only QEMU is asked: `info`, `chain`, `ground`
    and `node` are empty, and `nodes` has the node of the device alone.
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
    is_null, named, top = machine.config.is_null, machine.config.emulator, inserted.get("node-name", "")
    chain = () if is_null else image_chain(shell, machine.config.format, disk)
    nodes = _nodes(domain, top, disk, is_null=is_null)
    written = _block_stats(domain)
    return Evidence(
        disk=disk,
        xml=domain.xml(),
        machine=str(domain.monitor("qom-get", path="/machine", property="type")),
        kvm=bool(domain.monitor("query-kvm")["enabled"]),
        nodes=nodes,
        device=device,
        controller=controller,
        written_bytes=int(written["wr_bytes"]) if written is not None else None,
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
        emulator=running_emulator(shell, named, machine.spec.uuid) if named else None,
        block=machine.disk.block if machine.disk is not None and machine.spec.is_block else None,
    )


def _version(told: Mapping[str, Any]) -> str:
    """QEMU's version as its binary prints it: "7.2.22 (Debian 1:7.2+dfsg-7)"."""
    number = ".".join(str(told["qemu"][part]) for part in ("major", "minor", "micro"))
    package = told.get("package", "").strip()
    return f"{number} ({package})" if package else number


def fallback_lines(log: str) -> tuple[str, ...]:
    """Lines of QEMU's log about an io mode that it could not use."""
    return tuple(line for line in log.splitlines() if _FALLBACK.search(line))


def _opened(nodes: Sequence[Mapping[str, Any]], disk: str) -> str:
    """The path that QEMU reports as open for the disk; the label's path where QEMU reports none."""
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
    """The type of the object at `path`, and those of the wanted properties that it has."""
    there = {one["name"] for one in domain.monitor("qom-list", path=path)}
    names = ["type", *(name for name in wanted if name in there)]
    return {name: domain.monitor("qom-get", path=path, property=name) for name in names}


def _nodes(domain: Domain, top: str, disk: str, *, is_null: bool) -> tuple[Mapping[str, Any], ...]:
    """The device's block node, then the nodes of the disk's file and of the files that belong to it.

    A disk without storage has no nodes below; those of the empty file that libvirt insists on do not belong to it.
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
    """QEMU's answer about the image in the device: its depth, encryption, size and limits.

    `writeback` says whether the device's write cache is on now, whatever it was at the start.
    """
    known = {name: value for name, value in there.items() if name in _OF_INSERTED or name.startswith(_LIMITS)}
    nested = {
        "virtual-size": there.get("image", {}).get("virtual-size"),
        "writeback": there.get("cache", {}).get("writeback"),
    }
    return known | {name: value for name, value in nested.items() if value is not None}


def _block_stats(domain: Domain) -> Mapping[str, Any] | None:
    """QEMU's counters of the disk under test; None where QEMU does not count for it."""
    stats = (one["stats"] for one in domain.monitor("query-blockstats") if TEST_ALIAS in one.get("qdev", ""))
    return next(stats, None)


def block_counters(machine: StartedGuest) -> tuple[Mapping[str, int], Counts | None]:
    """Bytes and requests that QEMU's block layer has moved so far for the disk, and the counts of a series.

    Both are of one answer; where QEMU does not count, the first is empty and the second None.
    """
    stats = _block_stats(machine.domain)
    return (read_block_stats(stats), read_qemu_counts(stats)) if stats is not None else ({}, None)


def io_counters(host: HostLook, block: Mapping[str, int], guest: Mapping[str, int]) -> IoCounters:
    """Bytes moved so far by the guest's disk, QEMU's block layer and QEMU's process; `guest` has the disk's own."""
    return IoCounters(**guest, **block, **host.io, **(host.device.as_counters() if host.device is not None else {}))


def image_chain(shell: Shell, kind: str, disk: str) -> tuple[Mapping[str, Any], ...]:
    """Properties that qemu-img finds by probing: of the image, then of each file below it; raises ProvisionError.

    A fixed vpc has its signature at the end, where no probe looks; opened as vpc, it must have the signature.
    """
    chosen = ("-f", "vpc") if kind == "vpc" else ()
    done = shell.run(["qemu-img", "info", "-U", "--backing-chain", "--output=json", *chosen, disk])
    chain = json.loads(check(done, f"looking at the image {disk}").stdout)
    return tuple({name: value for name, value in one.items() if name != "children"} for one in chain)


def image_check(shell: Shell, config: StorageConfig, path: str) -> Mapping[str, Any]:
    """Counts of `qemu-img check` in a qcow2: clusters, compressed ones, errors; empty where it cannot open it."""
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

"""Proofs from libvirt and QEMU about a domain: its emulator, the disk's limits, a disk without storage; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree as ET

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.guest.disk_xml import LIMITS
from pytest_vmstorage.measure.proof.claim import BLOCK, BLOCK_NODES, DEFAULT, XML, asked_text, claim, unprovable
from pytest_vmstorage.measure.proof.evidence import Evidence
from pytest_vmstorage.results.run import Proof
from pytest_vmstorage.units import format_size

PROCESS = "/proc of QEMU's process"
VERSION = "QMP query-version"


def of_emulator(config: StorageConfig, tree: ET.Element, evidence: Evidence) -> Iterator[Proof]:
    """Proofs for `emulator`: its path in the live XML; where the cell names one also its file and version."""
    asked, path = asked_text(config.emulator), tree.findtext("devices/emulator") or "not said"
    yield claim("emulator", asked, path, XML, holds=asked in (DEFAULT, path))
    running = evidence.emulator
    if config.emulator is None or running is None:
        return
    if not running.exe:
        why = "this user may not read on the host which file QEMU's process runs"
        yield unprovable("emulator", config, why, where=PROCESS)
    elif running.is_script:
        yield unprovable(
            "emulator", config, "it is a script, which starts another file", found=running.exe, where=PROCESS
        )
    else:
        yield claim("emulator", asked, running.exe, PROCESS, holds=running.is_named)
    named = f"{asked} (QEMU {running.version})"
    yield claim("emulator", named, f"QEMU {evidence.qemu}", VERSION, holds=running.version == evidence.qemu)


NO_LIMIT = "no limit"


def limits_in_xml(config: StorageConfig, disk: ET.Element) -> Iterator[Proof]:
    """Proofs from the disk's element in the live XML; an NVMe disk has no such element."""
    for field in LIMITS:
        # read_iops_sec, total_iops_sec_max and size_iops_sec are of one kind
        kind = field.removeprefix("total")
        there = {one.tag: int(one.text or 0) for one in disk.iterfind("iotune/*") if kind in one.tag}
        yield _claim(config, field, there, field, XML)


def limits_in_qemu(config: StorageConfig, inserted: Mapping[str, Any]) -> Iterator[Proof]:
    """Proofs from QMP's `inserted`, which has the limits of every disk; no proofs where QEMU did not report them."""
    for field, kind in LIMITS.items():
        if kind in inserted:
            there = {name: int(value) for name, value in inserted.items() if name.startswith(kind)}
            yield _claim(config, field, there, kind, BLOCK)


def _claim(config: StorageConfig, field: str, there: Mapping[str, int], total: str, where: str) -> Proof:
    """The claim holds where the limit asked for is the only one of its kind."""
    found = sorted(((name, value) for name, value in there.items() if value), key=lambda one: one[0] != total)
    words = [_text(field, value) if name == total else f"{name} {_text(field, value)}" for name, value in found]
    limit = getattr(config, field)
    asked = NO_LIMIT if limit is None else _text(field, limit)
    return claim(field, asked, ", ".join(words) or NO_LIMIT, where)


def _text(field: str, value: int) -> str:
    return format_size(value) if field == "total_bytes_sec" else str(value)


DRIVERS = ("null-co", "null-aio")
"""QEMU's null drivers; both are leaves of the block graph, under which there can be nothing."""


def of_null(config: StorageConfig, evidence: Evidence) -> Iterator[Proof]:
    """Proofs for `backing` and `size`, from the node that the disk's device is on."""
    kind = evidence.nodes[0]["drv"] if evidence.nodes else "no block node"
    yield claim("backing", "null (null-co)", str(kind), BLOCK_NODES, holds=kind in DRIVERS)
    found = format_size(int(evidence.inserted.get("virtual-size", 0)))
    yield claim("size", format_size(config.size), found, BLOCK)

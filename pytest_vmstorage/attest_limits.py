"""What libvirt and QEMU say of a disk's limits: how many I/Os and bytes it serves in a second; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree as ET

from pytest_vmstorage.claim import BLOCK, XML, claim
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.provision.testdisk import LIMITS
from pytest_vmstorage.results import Proof
from pytest_vmstorage.units import format_size

NO_LIMIT = "no limit"


def limits_in_xml(config: StorageConfig, disk: ET.Element) -> Iterator[Proof]:
    """Proofs from the disk's element in the live XML, which an NVMe disk has not."""
    for field in LIMITS:
        # read_iops_sec, total_iops_sec_max and size_iops_sec are of one kind
        kind = field.removeprefix("total")
        there = {one.tag: int(one.text or 0) for one in disk.iterfind("iotune/*") if kind in one.tag}
        yield _claim(config, field, there, field, XML)


def limits_in_qemu(config: StorageConfig, inserted: Mapping[str, Any]) -> Iterator[Proof]:
    """Proofs from QMP's `inserted`, which has them of every disk; none where QEMU did not tell."""
    for field, kind in LIMITS.items():
        if kind in inserted:
            there = {name: int(value) for name, value in inserted.items() if name.startswith(kind)}
            yield _claim(config, field, there, kind, BLOCK)


def _claim(config: StorageConfig, field: str, there: Mapping[str, int], total: str, where: str) -> Proof:
    """Holds where the limit asked for is the only one of its kind."""
    found = sorted(((name, value) for name, value in there.items() if value), key=lambda one: one[0] != total)
    words = [_text(field, value) if name == total else f"{name} {_text(field, value)}" for name, value in found]
    limit = getattr(config, field)
    asked = NO_LIMIT if limit is None else _text(field, limit)
    return claim(field, asked, ", ".join(words) or NO_LIMIT, where)


def _text(field: str, value: int) -> str:
    return format_size(value) if field == "total_bytes_sec" else str(value)

"""What the five studies of examples/studies printed, as rates: higher is faster, each in the study's own unit."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from pytest_vmstorage.config.cell import StorageConfig

PROXMOX4 = Path(__file__).parent / "published" / "proxmox4.csv"
"""KiB/s of fio and kIOPS of ioping, of the Intel SSD: one study's tables."""

KINDS: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    "hdd": {
        "randread": {"file": 950, "lvm": 450, "native": 200, "device": 200},
        "randwrite": {"lvm": 400, "file": 330, "native": 290, "device": 290},
        # raw was the host's memory
        "read": {"file": 4000, "lvm": 190, "native": 190, "device": 190},
        "write": {"file": 190, "lvm": 190, "native": 190, "device": 190},
    },
    "ssd": {
        "randread": {"file": 30_000, "lvm": 30_000, "native": 90_000, "device": 30_000},
        "randwrite": {"file": 5500, "native": 4200},
        "read": {"lvm": 190, "native": 370, "device": 370},
        "write": {},
    },
    "nvme": {
        "randread": {"file": 35_000, "lvm": 35_000, "native": 200_000, "device": 35_000},
        "randwrite": {"file": 35_000, "lvm": 35_000, "native": 190_000, "device": 35_000},
        "read": {},
        "write": {"file": 2150, "lvm": 2150, "native": 1700, "device": 2150},
    },
}
"""MB/s in order and IOPS at random, by class of device and ground."""

ZFS: Mapping[str, Mapping[str, float]] = {
    "sqlite": {"raw": 1 / 1299.97, "qcow2": 1 / 1085.8, "zvol": 1 / 1434.07},
    "web": {"raw": 6249.33, "qcow2": 6205.42, "zvol": 6065.95},
    "fio as tiobench randread": {"raw": 997.68, "zvol": 1453.97},
    "fio as tiobench randwrite": {"raw": 0.59, "zvol": 0.58},
}

NOT_PRINTED = 1.0


@cache
def _tables() -> Mapping[tuple[str, str, str, str], float]:
    with PROXMOX4.open() as stream:
        rows = list(csv.DictReader(stream))
    return {(row["workload"], row["bus"], row["format"], row["cache"]): float(row["rate"]) for row in rows}


def _proxmox4(workload: str, cell: StorageConfig) -> float:
    name = " ".join(workload.split()[:3])
    place = ("native", "", "") if cell.is_native else (cell.bus, cell.format, cell.cache)
    return _tables()[(name, *place)]


def _devices(workload: str, cell: StorageConfig) -> float:
    return KINDS[os.environ["KIND"]][workload.split()[1]].get(cell.backing_kind, NOT_PRINTED)


def _vm_io_2010(workload: str, cell: StorageConfig) -> float:
    """In words alone: nearly native, alike, far above, sometimes faster."""
    if workload.startswith("postmark"):
        return 1.0 if cell.is_native else 0.95 if cell.bus == "virtio-blk" else 0.5
    if workload.startswith("dd write 1M direct"):
        return 5.0 if cell.cache == "writeback" and not cell.is_native else 1.0
    if workload.startswith("dd write 1M fdatasync"):
        return 1.0 if cell.is_native else 1.05
    return NOT_PRINTED


def _kvm_disk_2013(workload: str, cell: StorageConfig) -> float:
    """The ratios, from tar's 30 and dd's 78 MB/s."""
    if cell.backing_kind == "partition":
        by_cache = {"writethrough": 1.0, "writeback": 0.9, "none": 0.9}
    else:
        by_cache = {"writeback": 1.0, "none": 0.9, "writethrough": 0.3}
    own = {"full": 1.125, "metadata": 1.06}.get(cell.preallocation, 1.0) * (0.775 if cell.format == "qcow2" else 1.0)
    return (30 if workload.startswith("tar") else 78) * by_cache[cell.cache] * own


def _zfs_formats(workload: str, cell: StorageConfig) -> float:
    format_ = "zvol" if cell.backing_kind == "zvol" else cell.format
    found = next((table for name, table in ZFS.items() if workload.startswith(name)), {})
    return found.get(format_, NOT_PRINTED)


_STUDIES: Mapping[str, Callable[[str, StorageConfig], float]] = {
    "test_proxmox4.py": _proxmox4,
    "test_devices.py": _devices,
    "test_vm_io_2010.py": _vm_io_2010,
    "test_kvm_disk_2013.py": _kvm_disk_2013,
    "test_zfs_formats.py": _zfs_formats,
}


def rate(study: str, workload: str, cell: StorageConfig) -> float:
    """What that study printed of that workload in that cell; 1 where it printed nothing."""
    return _STUDIES[study](workload, cell)

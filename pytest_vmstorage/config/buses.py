"""Records of buses and cache modes, from which XML, proof and the guest's modules come.

A new bus is one record here, its name in `Bus`, and a recording of a real guest for the proof.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

Cache = Literal["none", "directsync", "writethrough", "writeback", "unsafe"]
Bus = Literal["virtio-blk", "virtio-scsi", "ide", "sata", "usb", "nvme", "lsilogic", "vmpvscsi"]


class BusRecord(BaseModel):
    """A bus in the names of libvirt, QEMU and Linux.

    `libvirt` is libvirt's name of the bus and `target` the disk's name there, both "" where libvirt has no such disk
    and qemu:commandline makes it. A bus that `is_scsi_model` is a SCSI controller, whose model has the bus's name in
    libvirt. `qemu_disk` and `qemu_owner` are QEMU's types of the device that holds the disk and of its parent, "" where
    a proof does not read the parent; `devices` are the bus's devices as `-device help` lists them.

    `modules` are loaded in the guest before its agent starts: virtio-blk is there from the initrd. Most others are
    probed in the background: the disk may appear up to a second (usb: 2 s) after the agent's first answer. `driver` is
    Linux's driver of the disk, with that of its controller where there are two.

    `is_virtio`: it has iothreads and queues. `is_ata`: QEMU saves what a disk says of itself, so that a saved guest is
    for disks of one size. `is_restorable`: the guest looks at its disk afresh when the driver is bound again.
    `proven_restored` are the accelerators under which restored guests were shown to have the figures of booted ones, by
    20 interleaved pairs or more: docs/explanation/restored-guests.md has their table, and that of usb, whose pairs show
    a difference.
    """

    model_config = ConfigDict(frozen=True)

    libvirt: str
    target: str
    is_scsi_model: bool = False
    qemu_disk: str
    qemu_owner: str = ""
    devices: tuple[str, ...]
    modules: tuple[str, ...] = ()
    driver: str
    is_virtio: bool = False
    is_ata: bool = False
    is_restorable: bool = True
    proven_restored: tuple[str, ...] = ()

    @property
    def qemu(self) -> str:
        """QEMU's types as a proof has them: "scsi-hd on pvscsi", "nvme"."""
        return f"{self.qemu_disk} on {self.qemu_owner}" if self.qemu_owner else self.qemu_disk


_SCSI: Final[Mapping[str, Any]] = {"libvirt": "scsi", "target": "sda", "is_scsi_model": True, "qemu_disk": "scsi-hd"}

BUSES: Final[Mapping[Bus, BusRecord]] = MappingProxyType({
    "virtio-blk": BusRecord(
        libvirt="virtio", target="vdb", qemu_disk="virtio-blk-device", qemu_owner="virtio-blk-pci",
        devices=("virtio-blk-pci",), driver="virtio_blk", is_virtio=True, proven_restored=("tcg",),
    ),
    "virtio-scsi": BusRecord(
        **_SCSI, qemu_owner="virtio-scsi-device", devices=("virtio-scsi-pci",), modules=("virtio_scsi", "sd_mod"),
        driver="sd on virtio_scsi", is_virtio=True, proven_restored=("tcg",),
    ),
    "ide": BusRecord(
        libvirt="ide", target="hda", qemu_disk="ide-hd", qemu_owner="piix3-ide", devices=("ide-hd",),
        modules=("ata_piix", "sd_mod"), driver="sd on ata_piix", is_ata=True, proven_restored=("tcg",),
    ),
    "sata": BusRecord(
        libvirt="sata", target="sda", qemu_disk="ide-hd", qemu_owner="ich9-ahci", devices=("ide-hd", "ich9-ahci"),
        modules=("ahci", "sd_mod"), driver="sd on ahci", is_ata=True, proven_restored=("tcg",),
    ),
    "usb": BusRecord(
        libvirt="usb", target="sda", qemu_disk="scsi-hd", qemu_owner="usb-storage",
        devices=("usb-storage", "qemu-xhci"), modules=("xhci_pci", "uas", "usb_storage", "sd_mod"),
        driver="sd on usb-storage",
    ),
    "nvme": BusRecord(
        libvirt="", target="", qemu_disk="nvme", devices=("nvme",), modules=("nvme",), driver="nvme",
        # QEMU cannot save a guest with NVMe
        is_restorable=False,
    ),
    "lsilogic": BusRecord(
        **_SCSI, qemu_owner="lsi53c895a", devices=("lsi53c895a",), modules=("sym53c8xx", "sd_mod"),
        driver="sd on sym53c8xx",
    ),
    "vmpvscsi": BusRecord(
        **_SCSI, qemu_owner="pvscsi", devices=("pvscsi",), modules=("vmw_pvscsi", "sd_mod"),
        driver="sd on vmw_pvscsi",
    ),
})  # fmt: skip


class CacheMode(BaseModel):
    """A cache mode as libvirt makes it: `direct` and `no_flush` of the block nodes, `write_cache` of the device."""

    model_config = ConfigDict(frozen=True)

    direct: bool
    no_flush: bool = False
    write_cache: bool

    @property
    def flags(self) -> tuple[bool, bool, bool]:
        """Direct, no-flush and write-cache, as QMP has them."""
        return self.direct, self.no_flush, self.write_cache


CACHES: Final[Mapping[Cache, CacheMode]] = MappingProxyType(
    {
        "none": CacheMode(direct=True, write_cache=True),
        "directsync": CacheMode(direct=True, write_cache=False),
        "writethrough": CacheMode(direct=False, write_cache=False),
        "writeback": CacheMode(direct=False, write_cache=True),
        "unsafe": CacheMode(direct=False, no_flush=True, write_cache=True),
    }
)

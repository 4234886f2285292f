"""A claim: what was asked of a field beside what one source says of it, made into a Proof; pure."""

from __future__ import annotations

from pytest_vmstorage.config.buses import Bus
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.results.run import Proof
from pytest_vmstorage.units import format_size

XML = "live XML"
COMMAND_LINE = "QEMU's command line"
LOG = "QEMU's log"
BLOCK_NODES = "QMP query-named-block-nodes"
DEVICE = "QMP qom-get of the device"
IMAGE = "qemu-img info"
DEVICE_SIZE = "blockdev of the device"
CHECK = "qemu-img check"
BLOCK = "QMP query-block"
BLOCK_STATS = "QMP query-blockstats"
EXTENTS = "stat and filefrag of the image"
GUEST = "guest sysfs"

DEFAULT = "default"
"""What stands for a field that was left to QEMU."""


def claim(field: str, asked: str, found: str, where: str, *, holds: bool | None = None) -> Proof:
    """Proven where it `holds`, by default where both texts are the same; contradicted otherwise."""
    holds = asked == found if holds is None else holds
    return Proof(field=field, asked=asked, found=found, where=where, status="proven" if holds else "contradicted")


def unprovable(field: str, config: StorageConfig, why: str, *, found: str = "unknown", where: str = "") -> Proof:
    """A field of which this source cannot tell, and why, in a clause."""
    asked = asked_text(getattr(config, field))
    return Proof(field=field, asked=asked, found=found, where=where, status="unprovable", why=why)


def by_name(bus: Bus, name: str) -> str:
    """A bus as it stands in a proof: with what it is called where something else than its name is read."""
    return bus if name == bus else f"{bus} ({name})"


def asked_text(value: object) -> str:
    """A field's value as it stands in a proof: yes and no, and "default" for what was left to QEMU."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return DEFAULT if value is None else str(value)


def size_text(value: int | None) -> str:
    """A size in bytes as it stands in a proof: "64k", "default"."""
    return DEFAULT if value is None else format_size(value)

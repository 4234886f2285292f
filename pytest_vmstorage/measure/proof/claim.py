"""Claims: the value asked of a field and the value one source reports, made into a Proof; pure."""

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
"""Text for a field that was left to QEMU."""


def claim(field: str, asked: str, found: str, where: str, *, holds: bool | None = None) -> Proof:
    """A Proof that is proven where the claim `holds`, by default where both texts are equal; contradicted otherwise."""
    holds = asked == found if holds is None else holds
    return Proof(field=field, asked=asked, found=found, where=where, status="proven" if holds else "contradicted")


def unprovable(field: str, config: StorageConfig, why: str, *, found: str = "unknown", where: str = "") -> Proof:
    """A Proof for a field that this source cannot show; `why` is a clause."""
    asked = asked_text(getattr(config, field))
    return Proof(field=field, asked=asked, found=found, where=where, status="unprovable", why=why)


def by_name(bus: Bus, name: str) -> str:
    """A bus as proofs show it: with the name that the source uses, where that differs from its own."""
    return bus if name == bus else f"{bus} ({name})"


def asked_text(value: object) -> str:
    """A field's value as proofs show it: yes and no for booleans, "default" where it was left to QEMU."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return DEFAULT if value is None else str(value)


def size_text(value: int | None) -> str:
    """A size in bytes as proofs show it: "64k", "default"."""
    return DEFAULT if value is None else format_size(value)

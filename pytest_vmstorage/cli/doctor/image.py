"""Which images can be made on a host: formats, preallocation, and what is inside qcow2; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from pytest_vmstorage.cli.doctor.seen import AxisFinding, Seen
from pytest_vmstorage.config.cell import Format
from pytest_vmstorage.config.qcow2_cache import CACHE_FIELDS
from pytest_vmstorage.config.rules.image import SUBFORMATS
from pytest_vmstorage.guest.libvirt.messages import is_since

_MADE = "qemu-img made one"


def formats(seen: Seen) -> Iterator[AxisFinding]:
    """By an image of each."""
    return (seen.tried("format", name, f"format.{name}", _MADE) for name in get_args(Format))


def subformats(seen: Seen) -> Iterator[AxisFinding]:
    """By an image of each."""
    for of, names in SUBFORMATS.items():
        for name in names:
            done = "qemu-img convert made one" if name == "streamOptimized" else _MADE
            yield seen.tried("subformat", name, f"subformat.{name}", f"{of}: {done}")


def preallocations(seen: Seen) -> Iterator[AxisFinding]:
    """By images, and by what they take on the folder's file system."""
    yield seen.tried("preallocation", "off", "format.raw", "raw and qcow2")
    yield seen.tried("preallocation", "metadata", "metadata", f"qcow2: {_MADE}")
    # qemu-img writes zeros where the file system has no fallocate, and the cell would be full under another name
    first = "fallocate" if not seen.trial("fallocate").ok else "falloc"
    for value, name, done in (("falloc", first, "fallocate"), ("full", "full", "all blocks")):
        found = seen.tried("preallocation", value, name, f"raw and qcow2: {done} took room on the file system")
        extents = seen.trial("extents")
        if found.status == "yes" and not extents.ok:
            why = f"falloc and full cannot be told apart here, filefrag does not show unwritten extents: {extents.said}"
            found = found.model_copy(update={"status": "limited", "why": why})
        yield found


def cluster_sizes(seen: Seen) -> Iterator[AxisFinding]:
    """By qcow2 images at both ends of the range."""
    yield seen.tried("cluster_size", "512", "cluster_size.least", f"qcow2: {_MADE}")
    yield seen.tried(
        "cluster_size", "2M", "cluster_size.most", f"qcow2: {_MADE}; every power of two between is as good"
    )


def lazy_refcounts(seen: Seen) -> Iterator[AxisFinding]:
    """By a qcow2 image."""
    yield seen.tried("lazy_refcounts", "yes", "lazy_refcounts", f"qcow2: {_MADE}")


def extended_l2(seen: Seen) -> Iterator[AxisFinding]:
    """By a qcow2 image."""
    yield seen.tried("extended_l2", "yes", "extended_l2", f"qcow2 with clusters of 16k or more: {_MADE}")


def l2_cache_sizes(seen: Seen) -> Iterator[AxisFinding]:
    """By libvirt's version."""
    if seen.has_guests and not is_since(seen.libvirt, (7, 0)):
        why = f"libvirt {seen.libvirt} has no metadata_cache; 7.0 has"
        yield from (AxisFinding(axis=name, value="any", status="no", why=why) for name in CACHE_FIELDS)
        return
    why = "qcow2; it shows only where the disk is larger than what the cache covers"
    yield from (seen.needs_guest(name, "any", why) for name in CACHE_FIELDS)


def compressions(seen: Seen) -> Iterator[AxisFinding]:
    """By images with compressed clusters."""
    yield seen.tried("compression", "off", "format.qcow2", "qcow2's default")
    for name in ("zlib", "zstd"):
        yield seen.tried("compression", name, f"compression.{name}", "qcow2: qemu-img convert -c made one")


def encryptions(seen: Seen) -> Iterator[AxisFinding]:
    """By a qcow2 image with LUKS."""
    yield seen.tried("encryption", "off", "format.qcow2", "qcow2's default")
    yield seen.tried("encryption", "luks", "encryption.luks", f"qcow2: {_MADE}")


def backing_chains(seen: Seen) -> Iterator[AxisFinding]:
    """By an image upon another."""
    yield seen.tried("backing_chain", "1 to 64", "chain", "qcow2: qemu-img made an image upon another")


def snapshots(seen: Seen) -> Iterator[AxisFinding]:
    """By an internal snapshot."""
    yield seen.tried("snapshots", "1 to 64", "snapshot", "qcow2: qemu-img snapshot made one")

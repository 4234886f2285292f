"""Images that can be made on a host: formats, preallocation, and the content of a qcow2; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from pytest_vmstorage.cli.doctor.seen import AxisFinding, Observations, finding
from pytest_vmstorage.config.cell import Format
from pytest_vmstorage.config.qcow2_cache import CACHE_FIELDS
from pytest_vmstorage.config.rules.image import SUBFORMATS
from pytest_vmstorage.guest.libvirt.messages import is_since

_MADE = "qemu-img made one"
_CONVERTED = "qemu-img convert made one"

_TRIED = (
    *(("format", name, f"format.{name}", _MADE) for name in get_args(Format)),
    *(
        ("subformat", name, f"subformat.{name}", f"{of}: {_CONVERTED if name == 'streamOptimized' else _MADE}")
        for of, names in SUBFORMATS.items()
        for name in names
    ),
    ("preallocation", "off", "format.raw", "raw and qcow2"),
    ("preallocation", "metadata", "metadata", f"qcow2: {_MADE}"),
    ("cluster_size", "512", "cluster_size.least", f"qcow2: {_MADE}"),
    ("cluster_size", "2M", "cluster_size.most", f"qcow2: {_MADE}; every power of two between is as good"),
    ("lazy_refcounts", "yes", "lazy_refcounts", f"qcow2: {_MADE}"),
    ("extended_l2", "yes", "extended_l2", f"qcow2 with clusters of 16k or more: {_MADE}"),
    ("compression", "off", "format.qcow2", "qcow2's default"),
    *(("compression", name, f"compression.{name}", "qcow2: qemu-img convert -c made one") for name in ("zlib", "zstd")),
    ("encryption", "off", "format.qcow2", "qcow2's default"),
    ("encryption", "luks", "encryption.luks", f"qcow2: {_MADE}"),
    ("backing_chain", "1 to 64", "chain", "qcow2: qemu-img made an image upon another"),
    ("snapshots", "1 to 64", "snapshot", "qcow2: qemu-img snapshot made one"),
)
"""Axis and value, the trial that decides, and what it did."""


def findings(seen: Observations) -> Iterator[AxisFinding]:
    """By an image of each kind, made in the folder."""
    yield from (seen.tried(*one) for one in _TRIED)
    yield from _preallocations(seen)
    yield from _cache_sizes(seen)


def _preallocations(seen: Observations) -> Iterator[AxisFinding]:
    """By what images take on the folder's file system."""
    # qemu-img writes zeros where the file system has no fallocate, and the cell would be full under another name
    first = "fallocate" if not seen.trial("fallocate").ok else "falloc"
    for value, name, done in (("falloc", first, "fallocate"), ("full", "full", "all blocks")):
        found = seen.tried("preallocation", value, name, f"raw and qcow2: {done} took room on the file system")
        extents = seen.trial("extents")
        if found.status == "yes" and not extents.ok:
            why = f"falloc and full cannot be told apart here, filefrag does not show unwritten extents: {extents.said}"
            found = finding("preallocation", value, "limited", why)
        yield found


def _cache_sizes(seen: Observations) -> Iterator[AxisFinding]:
    """By libvirt's version."""
    if seen.has_guests and not is_since(seen.libvirt, (7, 0)):
        why = f"libvirt {seen.libvirt} has no metadata_cache; 7.0 has"
        return (finding(name, "any", "no", why) for name in CACHE_FIELDS)
    why = "qcow2; it shows only where the disk is larger than what the cache covers"
    return (seen.needs_guest(name, "any", why) for name in CACHE_FIELDS)

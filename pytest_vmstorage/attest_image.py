"""What the image on the host says of its cell's fields; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_vmstorage.claim import (
    BLOCK,
    CHECK,
    DEFAULT,
    DEVICE_SIZE,
    EXTENTS,
    IDLE,
    IMAGE,
    asked_text,
    claim,
    size_text,
    unprovable,
)
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.provision.disk import ImageFacts, observed_preallocation
from pytest_vmstorage.qcow2_cache import CACHE_FIELDS, covered_bytes, found_sizes, l2_bytes
from pytest_vmstorage.results import Proof
from pytest_vmstorage.rules.image import LAYER_FIELDS, QCOW2_FIELDS
from pytest_vmstorage.units import format_size


def of_image(
    config: StorageConfig, info: Mapping[str, Any], image: ImageFacts | None, inserted: Mapping[str, Any]
) -> Iterator[Proof]:
    """Proofs from `qemu-img info` of the image itself, what it takes on its file system, and QMP's `inserted`."""
    special = info.get("format-specific", {}).get("data", {})
    yield claim("format", config.format, str(info.get("format")), IMAGE)
    # raw on a block device is as long as the device, and QEMU cuts the cell's size out of it
    is_cut = image is not None and image.is_block and config.format == "raw"
    size = inserted if is_cut else info
    found = format_size(int(size.get("virtual-size", 0)))
    yield claim("size", format_size(config.size), found, BLOCK if is_cut else IMAGE)
    yield from _preallocation(config, image)
    yield from _subformat(config, special, image)
    if config.discard == "unmap" and config.format not in ("raw", "qcow2"):
        why = f"{IDLE}: QEMU's {config.format} driver knows no discard"
        yield unprovable("discard", config, why, found="ignored", where=IMAGE)
    if config.format != "qcow2":
        why = f"{config.format} has none"
        yield from (claim(name, DEFAULT, why, IMAGE, holds=not getattr(config, name)) for name in QCOW2_FIELDS)
        for name in (*LAYER_FIELDS, "encryption"):
            yield claim(name, asked_text(getattr(config, name)), why, IMAGE, holds=not config.is_chosen(name))
        return
    # what 0.10 lacks (zero clusters, lazy refcounts) is part of what the format's name promises
    yield claim("format", "qcow2 compat 1.1", f"qcow2 compat {special.get('compat')}", IMAGE)
    cluster = int(info.get("cluster-size", 0))
    asked = size_text(config.cluster_size)
    yield claim("cluster_size", asked, size_text(cluster), IMAGE, holds=asked in (DEFAULT, size_text(cluster)))
    for field in ("lazy_refcounts", "extended_l2"):
        found = asked_text(bool(special.get(field.replace("_", "-"), False)))
        yield claim(field, asked_text(getattr(config, field)), found, IMAGE)
    yield from _idle_cache(config)


def _preallocation(config: StorageConfig, image: ImageFacts | None) -> Iterator[Proof]:
    found = "unknown" if image is None else observed_preallocation(config, image)
    if image is not None and image.is_block and config.format == "raw":
        why = "a block device, which has all its blocks"
        yield claim("preallocation", config.preallocation, why, DEVICE_SIZE, holds=config.preallocation == "off")
    elif found == "falloc or full" and config.preallocation in ("falloc", "full"):
        why = "the file system shows no extents, and falloc and full differ in nothing else"
        yield unprovable("preallocation", config, why, found=found, where=EXTENTS)
    else:
        # of a block device the tables' length tells, and no file system is asked
        where = CHECK if image is not None and image.is_block else EXTENTS
        yield claim("preallocation", config.preallocation, found, where)


def _subformat(config: StorageConfig, special: Mapping[str, Any], image: ImageFacts | None) -> Iterator[Proof]:
    asked = asked_text(config.subformat)
    if config.format == "vmdk":
        found = str(special.get("create-type"))
        yield claim("subformat", asked, found, IMAGE, holds=(config.subformat or "monolithicSparse") == found)
    elif config.format == "vpc" and image is not None:
        # the header does not tell in qemu-img's words; only a fixed image is as long as its disk
        found = "fixed" if image.length_bytes >= config.size else "dynamic"
        yield claim("subformat", asked, found, EXTENTS, holds=(config.subformat or "dynamic") == found)
    else:
        yield claim("subformat", asked, f"{config.format} has none", IMAGE, holds=config.subformat is None)


def cache_sizes(config: StorageConfig, options: Mapping[str, Any], where: str) -> Iterator[Proof]:
    """What a block node's options give the caches of a qcow2's tables, against what the cell asks for."""
    for name, found in found_sizes(config, options).items():
        yield claim(name, size_text(getattr(config, name)), size_text(found), where)


def _idle_cache(config: StorageConfig) -> Iterator[Proof]:
    """A warning where the L2 cache asked for holds the tables of the whole disk, as the default does."""
    covered, cached = covered_bytes(config), size_text(l2_bytes(config))
    if covered is None or covered < config.size:
        return
    name = next(name for name in CACHE_FIELDS if getattr(config, name) is not None)
    why = f"{IDLE}: L2 tables of {cached} cover {size_text(covered)}, and the disk has {size_text(config.size)}"
    yield unprovable(name, config, why, found=size_text(getattr(config, name)), where=IMAGE)

"""Proofs from the host: the image, the block device, the layers in a qcow2 and below it; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.qcow2_cache import CACHE_FIELDS, combined_bytes, covered_bytes, found_sizes, l2_bytes
from pytest_vmstorage.config.rules.image import LAYER_FIELDS, QCOW2_FIELDS
from pytest_vmstorage.host.device_node import NodeFacts
from pytest_vmstorage.measure.proof.claim import (
    BLOCK,
    BLOCK_NODES,
    CHECK,
    COMMAND_LINE,
    DEFAULT,
    DEVICE_SIZE,
    EXTENTS,
    IMAGE,
    asked_text,
    claim,
    size_text,
    unprovable,
)
from pytest_vmstorage.measure.proof.evidence import Evidence
from pytest_vmstorage.results.run import IDLE, Proof
from pytest_vmstorage.storage.block import BlockPlace
from pytest_vmstorage.storage.image import ImageFacts, observed_preallocation
from pytest_vmstorage.storage.layers import rewritten_bytes
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


NODE = "stat and sysfs of what QEMU opened"


def block_proofs(config: StorageConfig, node: NodeFacts, place: BlockPlace | None = None) -> tuple[Proof, ...]:
    """Proofs for `backing`: the node's kind, and for a listed device that it is the very device.

    For `native` without a name the node is the file on the host that the workload runs on.
    """
    if place is None:
        return (claim("backing", config.backing, str(node), NODE, holds=_is_plain(config) and node.kind == "file"),)
    # a listed device may be device mapper's (multipath), which is a whole device all the same
    kinds = ("device", "dm") if place.kind == "device" else (place.kind,)
    asked = f"{place.description} ({place.number})"
    return (
        claim("backing", config.backing, str(node), NODE, holds=node.kind in kinds and not _is_plain(config)),
        claim("backing", asked, str(node), NODE, holds=node.number == place.number),
    )


def _is_plain(config: StorageConfig) -> bool:
    """Whether the cell's disk is a file on the host."""
    return config.backing_kind == "file" or config.backing == "native" or config.host_fs != "as-found"


def of_layers(config: StorageConfig, evidence: Evidence) -> Iterator[Proof]:
    """Proofs of a qcow2's layers, and of a vmdk's compressed grains; other formats have none."""
    if config.subformat == "streamOptimized":
        yield _compressed_extents(evidence)
    if config.format != "qcow2" or not evidence.chain:
        return
    yield from _compression(config, evidence)
    yield from _encryption(config, evidence)
    yield from _backing_chain(config, evidence)
    yield from _snapshots(config, evidence)
    if config.arrives_filled:
        yield _filled(config, evidence)


def _count(evidence: Evidence, name: str) -> int:
    """Clusters of that kind in all images of the chain; qemu-img leaves out kinds with a count of 0."""
    return sum(int(one.get(name, 0)) for one in evidence.checks)


def _is_counted(evidence: Evidence) -> bool:
    return len(evidence.checks) == len(evidence.chain) and all(evidence.checks)


def _compression(config: StorageConfig, evidence: Evidence) -> Iterator[Proof]:
    if not _is_counted(evidence):
        yield unprovable("compression", config, "qemu-img cannot look into the image", where=CHECK)
        return
    allocated, compressed = _count(evidence, "allocated-clusters"), _count(evidence, "compressed-clusters")
    found = f"{compressed} of {allocated} clusters compressed" if compressed else "off"
    # clusters that do not shrink are stored uncompressed; the data written here all shrinks
    holds = compressed == 0 if config.compression == "off" else compressed == allocated > 0
    yield claim("compression", config.compression, found, CHECK, holds=holds)
    if config.compression != "off":
        kinds = {one.get("format-specific", {}).get("data", {}).get("compression-type") for one in evidence.chain}
        yield claim("compression", config.compression, " and ".join(sorted(map(str, kinds))), IMAGE)


def _encryption(config: StorageConfig, evidence: Evidence) -> Iterator[Proof]:
    kinds = []
    for one in evidence.chain:
        said = one.get("format-specific", {}).get("data", {}).get("encrypt", {}).get("format", "off")
        kinds.append(said if one.get("encrypted", False) else "off")
    for kind in dict.fromkeys(kinds):
        images = f"{kinds.count(kind)} of {len(kinds)} images" if len(kinds) > 1 else ""
        found = f"{kind} ({images})" if images else kind
        yield claim("encryption", config.encryption, found, IMAGE, holds=kind == config.encryption)
    if "encrypted" in evidence.inserted:
        found = "encrypted" if evidence.inserted["encrypted"] else "off"
        holds = (found == "off") is (config.encryption == "off")
        yield claim("encryption", config.encryption, found, BLOCK, holds=holds)


def _backing_chain(config: StorageConfig, evidence: Evidence) -> Iterator[Proof]:
    asked, depth = str(config.backing_chain), len(evidence.chain) - 1
    below = [str(one.get("format")) for one in evidence.chain[1:]]
    others = sorted({kind for kind in below if kind != "qcow2"})
    found = f"{depth}, {' and '.join(others)} among them" if others else str(depth)
    yield claim("backing_chain", asked, found, IMAGE)
    if "backing_file_depth" in evidence.inserted:
        yield claim("backing_chain", asked, str(evidence.inserted["backing_file_depth"]), BLOCK)
    if not config.backing_chain or not _is_counted(evidence):
        return
    top, *shares = [int(one.get("allocated-clusters", 0)) for one in evidence.checks]
    found = f"{asked} with {', '.join(map(str, shares))} clusters, {top} above them"
    # the units take turns, so that the shares differ by one unit at most; half of the mean is far below that
    is_shared = all(2 * share * len(shares) >= sum(shares) > 0 for share in shares)
    yield claim("backing_chain", asked, found, CHECK, holds=top == 0 and is_shared)
    yield from _options_below(config, evidence)


def _options_below(config: StorageConfig, evidence: Evidence) -> Iterator[Proof]:
    """Proofs of options on the images below: reads end there, so options of the top image alone have no effect."""
    if not evidence.below:
        yield unprovable("io", config, "QEMU's log does not mention the backing files", where=COMMAND_LINE)
    for one in evidence.below:
        if "filename" in one:
            where = f"{COMMAND_LINE}, {one['filename'].rpartition('/')[2]}"
            yield claim("io", config.io, str(one.get("aio", "threads")), where)
        elif combined_bytes(config) is not None:
            yield from cache_sizes(config, one, f"{COMMAND_LINE}, {one.get('node-name')}")
    if config.discard != "ignore" or config.detect_zeroes != "off":
        # both concern writes, and these nodes are opened read-only
        writable = [one["file"] for one in evidence.nodes[1:] if one["drv"] == "qcow2" and not one["ro"]]
        found = f"{len(writable)} backing files are writable" if writable else "all backing files are read-only"
        for field in ("discard", "detect_zeroes"):
            yield claim(field, str(getattr(config, field)), found, BLOCK_NODES, holds=not writable)


def _snapshots(config: StorageConfig, evidence: Evidence) -> Iterator[Proof]:
    asked, there = str(config.snapshots), len(evidence.chain[0].get("snapshots", ()))
    yield claim("snapshots", asked, str(there), IMAGE)
    if not config.snapshots or not _is_counted(evidence):
        return
    counted, cluster = evidence.checks[0], int(evidence.chain[0].get("cluster-size", 0))
    theirs = int(counted["image-end-offset"]) - int(counted.get("allocated-clusters", 0)) * cluster
    wrong = int(counted.get("check-errors", 0)) + int(counted.get("corruptions", 0)) + int(counted.get("leaks", 0))
    found = f"{there} with {theirs // 2**20} MiB that are not the disk's own, {wrong} errors"
    yield claim("snapshots", asked, found, CHECK, holds=theirs >= rewritten_bytes(config) and wrong == 0)


def _filled(config: StorageConfig, evidence: Evidence) -> Proof:
    if not _is_counted(evidence):
        return unprovable("state", config, "qemu-img cannot look into the image", where=CHECK)
    # every cluster lies in one image of the chain alone
    allocated, total = _count(evidence, "allocated-clusters"), int(evidence.checks[0].get("total-clusters", 0))
    found = f"{allocated} of {total} clusters hold data"
    return claim("state", config.state, found, CHECK, holds=allocated >= total > 0)


def _compressed_extents(evidence: Evidence) -> Proof:
    extents = evidence.info.get("format-specific", {}).get("data", {}).get("extents", ())
    packed = sum(bool(one.get("compressed")) for one in extents)
    found = f"streamOptimized, {packed} of {len(extents)} extents compressed"
    return claim("subformat", "streamOptimized", found, IMAGE, holds=packed == len(extents) > 0)

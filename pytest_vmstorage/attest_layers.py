"""What is in a qcow2 and below it, as qemu-img and QEMU count it: compression, encryption, chain, snapshots; pure."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_vmstorage.attest_image import cache_sizes
from pytest_vmstorage.claim import BLOCK, BLOCK_NODES, CHECK, COMMAND_LINE, IMAGE, claim, unprovable
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.evidence import Evidence
from pytest_vmstorage.provision.layers import rewritten_bytes
from pytest_vmstorage.qcow2_cache import combined_bytes
from pytest_vmstorage.results import Proof


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
    """Clusters of that kind in all images of the chain; qemu-img leaves out what there is none of."""
    return sum(int(one.get(name, 0)) for one in evidence.checks)


def _is_counted(evidence: Evidence) -> bool:
    return len(evidence.checks) == len(evidence.chain) and all(evidence.checks)


def _compression(config: StorageConfig, evidence: Evidence) -> Iterator[Proof]:
    if not _is_counted(evidence):
        yield unprovable("compression", config, "qemu-img cannot look into the image", where=CHECK)
        return
    allocated, compressed = _count(evidence, "allocated-clusters"), _count(evidence, "compressed-clusters")
    found = f"{compressed} of {allocated} clusters compressed" if compressed else "off"
    # a cluster that would not shrink is stored as it is; none does so of the data written here
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
    """Reads end in the images below, so that what is set on the top image alone is not in effect."""
    if not evidence.below:
        yield unprovable("io", config, "QEMU's log does not tell of the backing files", where=COMMAND_LINE)
    for one in evidence.below:
        if "filename" in one:
            where = f"{COMMAND_LINE}, {one['filename'].rpartition('/')[2]}"
            yield claim("io", config.io, str(one.get("aio", "threads")), where)
        elif combined_bytes(config) is not None:
            yield from cache_sizes(config, one, f"{COMMAND_LINE}, {one.get('node-name')}")
    if config.discard != "ignore" or config.detect_zeroes != "off":
        # both are of writes, and these nodes are opened read-only
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

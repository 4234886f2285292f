"""What is known of a cell without a guest: its file or device. What only a guest has is no field of it; pure."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_vmstorage.attest import conclude
from pytest_vmstorage.attest_block import block_proofs
from pytest_vmstorage.attest_fs import of_host_fs
from pytest_vmstorage.claim import EXTENTS, claim, unprovable
from pytest_vmstorage.file_system import FileSystem
from pytest_vmstorage.provision.disk import observed_preallocation
from pytest_vmstorage.provision.hostdisk import HostDisk
from pytest_vmstorage.provision.node import NodeFacts
from pytest_vmstorage.results import Proof
from pytest_vmstorage.rules.ground import ON_THE_HOST
from pytest_vmstorage.units import format_size


def conclude_native(disk: HostDisk, node: NodeFacts, ground: FileSystem | None) -> tuple[Proof, ...]:
    """A proof for each field that a row without a guest has; `ground` is what holds its file, None below a device.

    Raises AttestationError where a source contradicts.
    """
    proofs = (*_of_file(disk), *block_proofs(disk.config, node, disk.block if disk.is_block else None))
    made = (*proofs, *of_host_fs(disk.config, ground))
    return tuple(proof for proof in conclude(disk.config, made) if proof.field in ON_THE_HOST)


def _of_file(disk: HostDisk) -> Iterator[Proof]:
    config, image = disk.config, disk.image
    yield unprovable("state", config, "it is made before the rounds, after this proof", where=EXTENTS)
    if image is None:
        return
    if disk.is_block:
        where = "blockdev --getsize64"
        enough = image.length_bytes >= config.size
        yield claim("size", format_size(config.size), format_size(image.length_bytes), where, holds=enough)
        yield claim("preallocation", config.preallocation, "off", "a block device has all its blocks")
        return
    found = observed_preallocation(config, image)
    if found == "falloc or full" and config.preallocation in ("falloc", "full"):
        why = "the file system shows no extents, and falloc and full differ in nothing else"
        yield unprovable("preallocation", config, why, found=found, where=EXTENTS)
    else:
        yield claim("preallocation", config.preallocation, found, EXTENTS)
    yield claim("size", format_size(config.size), format_size(image.length_bytes), EXTENTS)

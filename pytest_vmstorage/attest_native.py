"""What is known of a cell without a guest: its file or device. What only a guest has is no field of it; pure."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_vmstorage.claim import EXTENTS, claim, unprovable
from pytest_vmstorage.provision.disk import observed_preallocation
from pytest_vmstorage.provision.hostdisk import HostDisk
from pytest_vmstorage.results import Proof
from pytest_vmstorage.units import format_size


def native_proofs(disk: HostDisk) -> tuple[Proof, ...]:
    """A proof for each field that a row without a guest has."""
    return tuple(_of_file(disk))


def _of_file(disk: HostDisk) -> Iterator[Proof]:
    config, image = disk.config, disk.image
    if image is None or disk.is_block:
        return
    found = observed_preallocation(config, image)
    if found == "falloc or full" and config.preallocation in ("falloc", "full"):
        why = "the file system shows no extents, and falloc and full differ in nothing else"
        yield unprovable("preallocation", config, why, found=found, where=EXTENTS)
    else:
        yield claim("preallocation", config.preallocation, found, EXTENTS)
    yield claim("size", format_size(config.size), format_size(image.length_bytes), EXTENTS)
    why = "it is made before the rounds, after this proof"
    yield unprovable("state", config, why, where=EXTENTS)

"""Is a row without a guest what its id says: its file or device on the host.

Tests of `measure.proof.without_guest`; its machines have theirs in `lab.test_machines`, its images in
`measure.test_image_operations`.
"""

from __future__ import annotations

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import AttestationError
from pytest_vmstorage.host.device_node import NodeFacts
from pytest_vmstorage.host.file_systems import FileSystem
from pytest_vmstorage.measure.proof.without_guest import conclude_native
from pytest_vmstorage.results.run import Proof
from pytest_vmstorage.storage.block import BlockPlace
from pytest_vmstorage.storage.disk import HostDisk
from pytest_vmstorage.storage.image import ImageFacts

SIZE = 64 * 2**20
PATH = "/srv/vmstorage/disk"
FILE = NodeFacts(path=PATH, kind="file", size_bytes=SIZE)
EXT4 = FileSystem(kind="ext4", device="/dev/sda1", mountpoint="/srv", options=("rw", "relatime"))


def proofs_of(preallocation: str, image: ImageFacts) -> dict[str, Proof]:
    """The proofs by field of a row with that preallocation, whose file was found so."""
    config = StorageConfig(backing="native", preallocation=preallocation, size=SIZE)
    return {one.field: one for one in conclude_native(HostDisk(config=config, path=PATH, image=image), FILE, EXT4)}


def found(*, allocated: int = SIZE, length: int = SIZE, unwritten: bool | None = None) -> ImageFacts:
    """What a file system says of the file."""
    return ImageFacts(length_bytes=length, allocated_bytes=allocated, unwritten=unwritten)


@pytest.mark.parametrize(
    ("preallocation", "image"),
    [("off", found(allocated=0)), ("falloc", found(unwritten=True)), ("full", found(unwritten=False))],
)
def test_a_file_is_what_its_preallocation_says(preallocation: str, image: ImageFacts) -> None:
    """Its blocks and its length are proven; the state, which is made later, and what only guests have are not told."""
    proofs = proofs_of(preallocation, image)
    assert (proofs["preallocation"].status, proofs["preallocation"].found) == ("proven", preallocation)
    assert (proofs["size"].status, proofs["size"].found) == ("proven", "64M")
    assert proofs["state"].status == "unprovable"
    assert proofs["backing"].status == "proven"
    assert not {"format", "cache", "bus", "vcpus"} & {*proofs}


@pytest.mark.parametrize("preallocation", ["falloc", "full"])
def test_falloc_and_full_are_not_told_apart_without_extents(preallocation: str) -> None:
    """On such a file system the row says so, and neither that it is proven nor that it is contradicted."""
    proof = proofs_of(preallocation, found())["preallocation"]
    assert (proof.status, proof.found) == ("unprovable", "falloc or full")
    assert proof.why.startswith("the file system shows no extents")


@pytest.mark.parametrize(
    ("preallocation", "image", "field"),
    [
        # blocks that nobody asked for, with and without extents
        ("off", found(), "preallocation"),
        ("off", found(unwritten=True), "preallocation"),
        ("falloc", found(unwritten=False), "preallocation"),
        ("full", found(unwritten=True), "preallocation"),
        ("full", found(allocated=0), "preallocation"),
        ("off", found(allocated=0, length=SIZE // 2), "size"),
    ],
)
def test_a_file_that_is_something_else_ends_the_row(preallocation: str, image: ImageFacts, field: str) -> None:
    """The first contradiction names its field."""
    with pytest.raises(AttestationError, match=field):
        proofs_of(preallocation, image)


@pytest.mark.parametrize(("length", "is_enough"), [(SIZE, True), (2 * SIZE, True), (SIZE - 512, False)])
def test_a_device_is_at_least_as_large_as_its_disk(length: int, is_enough: bool) -> None:
    """It has all its blocks, and no file system lies below it."""
    place = BlockPlace(
        path="/dev/sdb", kind="device", name="d", description="device d", size_bytes=length, number="8:16"
    )
    config = StorageConfig(backing="native:d", size=SIZE)
    image = ImageFacts(length_bytes=length, allocated_bytes=0, unwritten=None, is_block=True)
    disk = HostDisk(config=config, path=place.path, image=image, block=place)
    node = NodeFacts(path=place.path, kind="device", number="8:16", name="sdb", size_bytes=length)
    if not is_enough:
        with pytest.raises(AttestationError, match="size"):
            conclude_native(disk, node, None)
        return
    proofs = {one.field: one for one in conclude_native(disk, node, None)}
    assert proofs["size"].status == "proven"
    assert proofs["preallocation"].where == "a block device has all its blocks"

"""What is in an image and below it, on real guests: each value read by its guest, and images that lie about it."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vmstorage.config import cell as config_module
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import ListedDevice
from pytest_vmstorage.config.qcow2_cache import CACHE_FIELDS
from pytest_vmstorage.errors import AttestationError, HypervisorError
from pytest_vmstorage.guest.domain_xml import GuestSpec, domain_xml
from pytest_vmstorage.guest.guest import Guest
from pytest_vmstorage.host.lease import Lease
from pytest_vmstorage.host.shell import LocalShell, Shell, check
from pytest_vmstorage.lab import factory
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.results.run import proven_fields
from pytest_vmstorage.storage import disk as hostdisk_module
from pytest_vmstorage.storage import layers
from pytest_vmstorage.storage.image import ImageFacts, image_files, is_block, make_disk, remove_disk
from pytest_vmstorage.storage.layers import Piece, pattern, pieces_after_snapshot, pieces_of_layer, whole_disk

pytestmark = pytest.mark.restored

FIELDS = {
    *("format", "subformat", "cache", "bus", "io", "discard", "detect_zeroes", "preallocation", "size"),
    *("cluster_size", "extended_l2", *CACHE_FIELDS, "compression", "encryption", "backing_chain", "snapshots"),
}
"""What an image can lie about."""

CELLS: list[dict[str, object]] = [
    {"compression": "zlib", "cluster_size": "4k"},
    {"compression": "zstd", "cache": "writeback"},
    {"compression": "zstd", "backing_chain": 2, "extended_l2": True},
    {"encryption": "luks"},
    {"encryption": "luks", "snapshots": 2, "bus": "sata"},
    {"encryption": "luks", "backing_chain": 2, "discard": "unmap", "detect_zeroes": "unmap"},
    {"encryption": "luks", "backing_chain": 1, "bus": "nvme", "io": "native", "l2_cache_size": "1M"},
    {"backing_chain": 3, "io": "native", "detect_zeroes": "on"},
    {"backing_chain": 1, "bus": "nvme", "cache": "unsafe"},
    {"snapshots": 3, "cluster_size": "128k"},
    {"format": "vmdk", "subformat": "streamOptimized"},
]

# sizes that no other test uses: the lab remembers which cells failed
SIZES = itertools.count(801)


def cell(**values: object) -> StorageConfig:
    """A qcow2 unless said otherwise, of a size of its own: small, for a guest reads all of it."""
    return StorageConfig(**{"format": "qcow2", "size": 16 * 2**20 + next(SIZES) * 512, **values})


def expected(config: StorageConfig) -> str:
    """The digest of all that the guest must find on its disk."""
    block, disk = pattern(config), bytearray(config.size)
    depth = range(config.backing_chain)
    writes = [list(pieces_of_layer(config, number)) for number in depth] or [list(whole_disk(config))]
    writes += [list(pieces_after_snapshot(config, number)) for number in range(config.snapshots)]
    for offset, length in itertools.chain.from_iterable(writes):
        disk[offset : offset + length] = (block * (length // len(block) + 1))[:length]
    return hashlib.sha256(disk).hexdigest()


def read_all(guest: Guest) -> str:
    """The digest of the disk as the guest reads it."""
    return guest.run(f"sha256sum {guest.disk}", timeout_s=60).stdout.split()[0]


@pytest.mark.parametrize("values", CELLS, ids=lambda values: str(cell(**values)))
def test_a_guest_reads_what_lies_in_its_images_layers(lab: Lab, values: dict[str, object]) -> None:
    """Every field of the image is proven, and every byte is there."""
    config = cell(**values)
    guest = lab.guest(config)
    assert set(proven_fields(guest.proof)) >= FIELDS
    assert not [proof for proof in guest.proof if proof.status == "contradicted"]
    assert ("state" in proven_fields(guest.proof)) is (config.arrives_filled and config.format == "qcow2")
    if config.arrives_filled:
        assert read_all(guest) == expected(config)


SLICES = [
    ({"l2_cache_size": "384k"}, 96),
    ({"l2_cache_size": "384k", "bus": "nvme"}, 96),
    ({"metadata_cache_size": "384k"}, 32),
]
"""Cells of 4 GiB, whose L2 tables are 128 slices of 4 KiB, and how many of these QEMU is to keep."""


@pytest.mark.parametrize(("values", "slices"), SLICES, ids=str)
def test_qemu_caches_as_much_of_l2_tables_as_the_cell_says(lab: Lab, values: dict[str, object], slices: int) -> None:
    """By QEMU's own events: the places of its cache for slices of L2 tables, and the slices that it read anew."""
    config = StorageConfig(format="qcow2", preallocation="metadata", state="fresh", size="4G", **values)
    guest = lab.guest(config)
    assert set(CACHE_FIELDS) <= set(proven_fields(guest.proof))
    domain, event = guest.machine.domain, "qcow2_cache_get*"
    domain.monitor("trace-event-set-state", name=event, enable=True)
    job = f"--filename={guest.disk} --rw=randread --bs=4k --number_ios=2000 --direct=1 --ioengine=psync --size=100%"
    assert guest.run(f"fio --name=reads {job}", timeout_s=120).returncode == 0
    domain.monitor("trace-event-set-state", name=event, enable=False)
    log = lab.shell.read(lab.services.log(guest.machine))
    places = {found[1] for found in re.finditer(r"qcow2_cache_get_done .*is_l2_cache 1 index (\d+)", log)}
    asked, read = (
        len(re.findall(rf"{name} .*is_l2_cache 1", log)) for name in ("qcow2_cache_get", "qcow2_cache_get_read")
    )
    assert len(places) == slices
    # of 128 slices, each as likely as any other, that share is not in the cache; at first none is
    assert abs(read / asked - (128 - slices) / 128) < 0.1


def test_a_guest_writes_over_its_layers(lab: Lab) -> None:
    """The first write copies: the guest reads its own data back, and the backing files stay what they were."""
    config = cell(backing_chain=2)
    guest = lab.guest(config)
    below = image_files(lab.shell, guest.machine.spec.disk)[1:]
    assert len(below) == 2
    before = lab.shell.run(["sha256sum", *below]).stdout
    assert guest.run(f"printf mine | dd of={guest.disk} bs=4k seek=7 conv=notrunc,fsync,sync").returncode == 0
    assert guest.run(f"dd if={guest.disk} bs=4k skip=7 count=1 iflag=direct | head -c 4").stdout == "mine"
    assert lab.shell.run(["sha256sum", *below]).stdout == before


def test_a_guest_cannot_write_over_compressed_grains(lab: Lab) -> None:
    """What QEMU's vmdk driver wrote compressed it never writes again; a guest gets an I/O error."""
    guest = lab.guest(cell(format="vmdk", subformat="streamOptimized"))
    done = guest.run(f"dd if=/dev/zero of={guest.disk} bs=64k count=1 oflag=direct conv=notrunc")
    assert not done.ok
    assert "Input/output error" in done.stderr


def test_nothing_of_the_layers_is_left(lab: Lab) -> None:
    """Backing files and the block that filled them go with their guest."""
    disk = lab.guest(cell(backing_chain=2)).machine.spec.disk
    folder, stem = disk.rsplit("/", 1)
    stem = stem.removesuffix(".qcow2")
    there = lab.shell.run(["ls", folder]).stdout.split()
    assert [one for one in there if one.startswith(f"{stem}.")] == [
        *(f"{stem}.{number}-of-2.qcow2" for number in (1, 2)),
        f"{stem}.qcow2",
    ]
    lab.drop()
    lab.factory.settle()
    assert not [one for one in lab.shell.run(["ls", folder]).stdout.split() if one.startswith(f"{stem}.")]


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """What sabotages, and is undone."""
    with monkeypatch.context() as context:
        yield context


def make_image_as(patch: pytest.MonkeyPatch, **values: object) -> None:
    """Let images be those of another cell than their own."""

    def other(shell: Shell, config: StorageConfig, path: str) -> ImageFacts:
        return make_disk(shell, config.model_copy(update=values), path)

    patch.setattr(hostdisk_module, "make_disk", other)


LIARS = [
    ("compression", {"compression": "zstd"}, {"compression": "off", "backing_chain": 0}, "off"),
    ("compression", {"compression": "zstd"}, {"compression": "zlib"}, "zlib"),
    ("compression", {}, {"compression": "zlib"}, "26"),
    ("backing_chain", {"backing_chain": 2}, {"backing_chain": 1}, "1"),
    ("backing_chain", {}, {"backing_chain": 1}, "1"),
    ("snapshots", {"snapshots": 3}, {"snapshots": 2}, "2"),
    ("snapshots", {}, {"snapshots": 1}, "1"),
    ("subformat", {"format": "vmdk", "subformat": "streamOptimized"}, {"subformat": None}, "monolithicSparse"),
]


@pytest.mark.parametrize(("field", "labelled", "made", "found"), LIARS, ids=lambda value: str(value).replace(" ", ""))
def test_an_image_that_holds_something_else_is_caught(
    lab: Lab,
    patch: pytest.MonkeyPatch,
    field: str,
    labelled: dict[str, object],
    made: dict[str, object],
    found: str,
) -> None:
    """Made as another cell's image is; both values are told."""
    make_image_as(patch, **made)
    config = cell(**labelled)
    assert field in contradicted(lab, config, found)


def contradicted(lab: Lab, config: StorageConfig, found: str) -> str:
    """The error's text, and the fields it names; the value found stands in it."""
    with pytest.raises(AttestationError) as error:
        lab.guest(config)
    text = str(error.value)
    assert f" is {found}" in text or error.value.found.startswith(found), text
    return text


def test_an_image_that_was_not_encrypted_is_caught(lab: Lab, patch: pytest.MonkeyPatch) -> None:
    """QEMU refuses a passphrase for nothing; where libvirt is not told of any, the proof sees it."""
    make_image_as(patch, encryption="off")
    with pytest.raises(HypervisorError, match="encrypt"):
        lab.guest(cell(encryption="luks"))

    def untold(spec: GuestSpec, lease: Lease | None = None) -> str:
        assert spec.config is not None
        plain = spec.config.model_copy(update={"encryption": "off"})
        return domain_xml(spec.model_copy(update={"config": plain}), lease)

    patch.setattr(factory, "domain_xml", untold)
    text = contradicted(lab, cell(encryption="luks"), "off")
    assert text.startswith("encryption of ")


@pytest.mark.parametrize("field", ["backing_chain", "snapshots"])
def test_a_layer_without_data_is_caught(lab: Lab, patch: pytest.MonkeyPatch, field: str) -> None:
    """There are as many as were asked for, and the last one holds nothing that a reader would meet."""
    real, count = layers.write, itertools.count(1)
    config = cell(**{field: 2})

    def all_but_the_last(shell: Shell, cell: StorageConfig, path: str, block: str, pieces: Iterator[Piece]) -> None:
        # the image, then after each of two snapshots; or the one backing file and the other
        if next(count) < {"backing_chain": 2, "snapshots": 3}[field]:
            real(shell, cell, path, block, pieces)

    patch.setattr(layers, "write", all_but_the_last)
    text = contradicted(lab, config, "2 with ")
    assert text.startswith(f"{field} of ")
    assert next(count) > 2


def test_an_l2_cache_of_the_top_image_alone_is_caught(lab: Lab, patch: pytest.MonkeyPatch) -> None:
    """libvirt does not set it below, where the data lie; seen where no rule refuses it."""
    patch.setattr(config_module, "broken_rules", lambda _cell: ())
    text = contradicted(lab, cell(backing_chain=1, l2_cache_size="1M"), "default")
    assert text.startswith("l2_cache_size of ")


def test_data_that_were_not_written_everywhere_are_caught(lab: Lab, patch: pytest.MonkeyPatch) -> None:
    """An image that arrives filled is filled, or its cell says nothing."""
    patch.setattr(layers, "whole_disk", lambda _config: iter([(0, 2**20)]))
    text = contradicted(lab, cell(compression="zstd"), "16 of 26")
    assert text.startswith("state of ")


@pytest.fixture
def device(lab: Lab, patch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """A block device of 100 MiB, larger than what a cell below asks for, as if vmstorage.toml listed it."""
    image = tmp_path / "device"
    with image.open("wb") as stream:
        stream.truncate(100 * 2**20)
    made = check(LocalShell().run(["losetup", "--find", "--show", str(image)]), "making a loop device")
    listed = ListedDevice(name="spare", kind="device", id=f"loop:{image}")
    patch.setattr(lab.factory._disks, "_host", lab.host.model_copy(update={"devices": (listed,)}))
    yield made.stdout.strip()
    lab.drop()
    lab.factory.settle()
    check(LocalShell().run(["losetup", "--detach", made.stdout.strip()]), "removing a loop device")


@pytest.mark.parametrize(
    "values",
    [
        {"format": "raw"},
        {"format": "raw", "bus": "nvme", "discard": "unmap"},
        {"format": "qcow2", "preallocation": "metadata"},
        {"format": "qcow2", "encryption": "luks", "bus": "virtio-scsi"},
    ],
    ids=str,
)
def test_a_disk_on_a_block_device_has_the_cells_size_and_the_device_stays(
    lab: Lab, device: str, values: dict[str, object]
) -> None:
    """The guest gets 64 MiB of 100; every field of the image is proven, and nothing removes the device's node."""
    config = StorageConfig(backing="device", size="64M", **values)
    guest = lab.guest(config)
    assert set(proven_fields(guest.proof)) >= {*FIELDS, "backing", "host_fs"}
    assert guest.facts.disk_bytes == config.size
    assert guest.run(f"printf mine | dd of={guest.disk} bs=4k seek=3 conv=notrunc,fsync,sync").returncode == 0
    assert lab.environment(guest.config).drop_caches() == "dropped before each round"
    if config.format == "raw":
        found = lab.shell.run(["sh", "-c", f"dd if={device} bs=4k skip=3 count=1 status=none | head -c 4"])
        assert found.stdout == "mine"
    lab.drop()
    lab.factory.settle()
    assert is_block(lab.shell, device)
    remove_disk(lab.shell, device)
    assert is_block(lab.shell, device)


def test_raw_on_a_device_of_which_the_guest_got_all_is_caught(lab: Lab, patch: pytest.MonkeyPatch, device: str) -> None:
    """Without a slice the guest would see the whole device."""
    assert is_block(lab.shell, device)
    real = domain_xml

    def unsliced(spec: GuestSpec, lease: Lease | None = None) -> str:
        text = real(spec, lease)
        begin, end = text.index("<slices>"), text.index("</slices>") + len("</slices>")
        return text[:begin] + text[end:]

    patch.setattr(factory, "domain_xml", unsliced)
    with pytest.raises(AttestationError, match=r"size of .* was asked to be 63M but is 100M \(QMP query-block\)"):
        lab.guest(StorageConfig(backing="device", size="63M"))

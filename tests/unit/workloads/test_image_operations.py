"""Operations on whole images: what is asked for, how each is done where, and what is left out and why.

Tests of `workloads.image_operations` and `storage.operations.files`.
"""

from __future__ import annotations

import re

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.measure.image_operations import operation_script
from pytest_vmstorage.storage.operations.files import FileImage, Impossible, OperationStep, room_needed, shared_bytes
from pytest_vmstorage.units import format_figure
from pytest_vmstorage.workloads.base import Target
from pytest_vmstorage.workloads.image_operations import OPERATIONS, ImageOperations, check_cell, space_line

MIB = 2**20


def steps(*, shares_blocks: bool = False, convert_to: str | None = None, **cell: object) -> dict[str, str]:
    """How each operation is done on images of that cell: its lines, or why it cannot be."""
    config = StorageConfig(**{"size": "1G", **cell})
    work = ImageOperations(data="64M", convert_to=convert_to)
    kind = "xfs" if shares_blocks else "ext4"
    place = FileImage(config, "/srv/i", work, kind=kind, shares_blocks=shares_blocks)
    return {
        name: "; ".join(step.lines) if isinstance(step, OperationStep) else f"NO: {step.why}"
        for name, step in place.steps.items()
    }


def test_options_have_defaults_and_labels() -> None:
    """The column says how much data, and whatever else was chosen; operations keep their own order."""
    assert ImageOperations().label == "image operations 64M"
    some = ImageOperations(data="1M", operations=["delete", "create"], convert_to="vmdk")
    assert some.operations == ("create", "delete")
    assert some.label == "image operations 1M create,delete to vmdk"
    assert ImageOperations(operations="snapshot").operations == ("snapshot",)
    assert ImageOperations().operations == OPERATIONS


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"data": "1000"}, r"ImageOperations\(data=1000\) cannot be written in whole clusters\. Give 1M or more"),
        ({"data": 0}, "cannot be written in whole clusters"),
        ({"operations": ["burn"]}, "ImageOperations has no operation 'burn'. It has: create, preallocate, snapshot"),
        ({"operations": []}, "ImageOperations has nothing to do"),
        ({"operations": None}, "ImageOperations has no operation 'None'"),
        ({"convert_to": "zip"}, "convert_to='zip'"),
        ({"size": "1G"}, r"ImageOperations has no option 'size'\. It has: data, operations, convert_to"),
    ],
)
def test_a_slip_is_a_sentence(options: dict[str, object], sentence: str) -> None:
    """When the workload is made."""
    with pytest.raises(ConfigError, match=sentence):
        ImageOperations(**options)


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ({"backing": "native"}, "has no image to create and delete"),
        ({"backing": "device:d"}, "backing=device:d has no image"),
        ({"backing": "partition"}, "has no image"),
        ({"backing": "lvm", "format": "qcow2"}, "the volume itself is created, cloned and resized, not a qcow2"),
        ({"backing_chain": 1, "format": "qcow2"}, "these operations make their own"),
        ({"snapshots": 1, "format": "qcow2"}, "these operations make their own"),
    ],
)
def test_a_cell_without_images_is_refused(cell: dict[str, object], why: str) -> None:
    """With the reason and what to do."""
    with pytest.raises(ConfigError, match=f"cannot be measured with measure_image: .*{why}"):
        check_cell(StorageConfig(**cell))


def test_data_must_fit_the_image() -> None:
    """And its clusters."""
    with pytest.raises(ConfigError, match="image operations 64M writes 64M, but the image has 32M"):
        ImageOperations().check_fits(StorageConfig(size="32M"))
    with pytest.raises(ConfigError, match="cannot be written in whole clusters of 2M"):
        ImageOperations(data="3M").check_fits(StorageConfig(format="qcow2", cluster_size="2M"))
    ImageOperations(data="32M").check_fits(StorageConfig(size="32M"))


def test_it_is_no_command_for_a_guest() -> None:
    """The sentence names the fixture."""
    with pytest.raises(ConfigError, match=r"not on /dev/vdb\. Run it with measure_image"):
        ImageOperations().argv(Target(path="/dev/vdb", size_bytes=1))


def test_a_round_is_read() -> None:
    """Seconds and bytes by operation; what takes room says how much, and all together is the primary figure."""
    made = ["part create 10.0 10.5", space_line("create", 0, 4096)]
    text = "\n".join([*made, "part delete 11.0 11.25", space_line("delete", 8192, 0)])
    work = ImageOperations(operations=["create", "delete"])
    assert work.parse(text) == {
        "seconds": 0.75,
        "create": 0.5,
        "create_before": 0,
        "create_after": 4096,
        "create_taken": 4096,
        "delete": 0.25,
        "delete_before": 8192,
        "delete_after": 0,
    }
    assert {metric.name for metric in work.metrics} == set(work.parse(text))
    assert work.shown == ("create", "create_taken", "delete")
    assert {metric.unit for metric in work.metrics} == {"s", "B"}
    assert {metric.better for metric in work.metrics} == {"lower"}


@pytest.mark.parametrize("text", ["", "part create 1.0 2.0", "taken create 0 1"])
def test_a_round_without_a_time_or_room_is_no_figure(text: str) -> None:
    """It is an error with the output."""
    with pytest.raises(WorkloadError):
        ImageOperations().parse(text)


def test_raw_has_what_qemu_img_can_do() -> None:
    """No snapshot and no clone on ext4: each says so."""
    done = steps()
    assert done["create"] == "qemu-img create -q -f raw -o preallocation=off /srv/i/image.raw 1073741824"
    assert done["preallocate"] == "qemu-img create -q -f raw -o preallocation=full /srv/i/full.raw 1073741824"
    assert done["convert"] == "qemu-img convert -q -f raw -O qcow2 /srv/i/image.raw /srv/i/converted.qcow2"
    assert done["resize"] == f"qemu-img resize -f raw -q /srv/i/image.raw +{64 * MIB}"
    assert done["delete"] == 'rm -f -- "$1"/*'
    assert (
        done["snapshot"]
        == "NO: raw has no internal snapshots, which only qcow2 has, and ext4 shares no blocks between files"
    )
    assert done["clone"] == "NO: raw has no backing files, and ext4 shares no blocks between files"
    assert tuple(done) == OPERATIONS


def test_a_file_system_that_shares_blocks_does_what_raw_cannot() -> None:
    """Snapshot, rollback and clone by cp --reflink=always."""
    done = steps(shares_blocks=True)
    assert done["snapshot"] == "cp --reflink=always -- /srv/i/image.raw /srv/i/snapshot.raw"
    assert done["rollback"] == "cp --reflink=always -- /srv/i/snapshot.raw /srv/i/image.raw"
    assert done["clone"] == "cp --reflink=always -- /srv/i/image.raw /srv/i/clone.raw"


def test_qcow2_does_it_by_itself() -> None:
    """Also where the file system shares blocks; the clone lies on the image and preallocates nothing."""
    done = steps(format="qcow2", preallocation="metadata", shares_blocks=True)
    name = 'json:{"driver": "qcow2", "file": {"driver": "file", "filename": "/srv/i/image.qcow2"}, "backing": null}'
    assert done["snapshot"] == f"qemu-img snapshot -q -c s1 '{name}'"
    assert done["rollback"] == f"qemu-img snapshot -q -a s1 '{name}'"
    assert "preallocation=off" in done["clone"]
    assert done["clone"].endswith("-u -b /srv/i/image.qcow2 -F qcow2 /srv/i/clone.qcow2 1073741824")
    assert done["resize"] == f"qemu-img resize --preallocation=metadata -q '{name}' +{64 * MIB}"
    assert "preallocation=metadata" in done["create"]
    assert "preallocation=full" in done["preallocate"]


def test_the_cells_own_options_go_into_what_is_made_of_it() -> None:
    """Clusters, compression and encryption; another format is made with its defaults."""
    own = steps(format="qcow2", cluster_size="128k", compression="zstd", convert_to="qcow2")
    assert " -O qcow2 -c -o preallocation=off,compat=1.1,cluster_size=131072" in own["convert"]
    assert "compression_type=zstd" in own["create"]
    locked = steps(format="qcow2", encryption="luks")
    assert all("--object" in locked[name] for name in ("create", "snapshot", "clone", "convert", "resize"))
    assert " -o " not in locked["convert"]


@pytest.mark.parametrize(
    ("cell", "lacks"),
    [
        ({"format": "raw"}, {"snapshot", "rollback", "clone"}),
        ({"format": "raw", "preallocation": "full"}, {"preallocate", "snapshot", "rollback", "clone"}),
        ({"format": "qcow2"}, set()),
        ({"format": "qed"}, {"preallocate", "snapshot", "rollback"}),
        ({"format": "vmdk"}, {"preallocate", "snapshot", "rollback", "resize"}),
        ({"format": "vmdk", "subformat": "monolithicFlat"}, {"preallocate", "snapshot", "rollback", "clone", "resize"}),
        ({"format": "vdi"}, {"preallocate", "snapshot", "rollback", "clone", "resize"}),
        ({"format": "vpc"}, {"preallocate", "snapshot", "rollback", "clone", "resize"}),
    ],
)
def test_what_a_format_cannot_do_is_left_out(cell: dict[str, object], lacks: set[str]) -> None:
    """As qemu-img of QEMU 7.2 has it, tried; every reason names the format or the cell's own preallocation."""
    done = steps(**cell)
    assert {name for name, how in done.items() if how.startswith("NO: ")} == lacks
    assert all(str(cell["format"]) in done[name] or "own preallocation" in done[name] for name in lacks)


def test_an_image_in_several_files_is_not_shared() -> None:
    """Its descriptor names the others."""
    done = steps(format="vmdk", subformat="monolithicFlat", shares_blocks=True)
    assert done["clone"].startswith("NO: vmdk monolithicFlat takes no backing files, and a copy of its file alone")


def test_the_script_times_lines_and_sync() -> None:
    """Tools are in memory first; files and folder are synced within the time."""
    script = operation_script("clone", ("cp --reflink=always -- /a /b",))
    head, _, body = script.partition("run() {")
    assert "cp --version" in head
    assert "sync --version" in head
    assert re.search(r'cp --reflink=always -- /a /b\nsync -- "\$1"/\* "\$1"\n}\npart clone run "\$1"\n$', body)


FILEFRAG = """Filesystem type is: 58465342
File size of /x/image.raw is 8192 (16 blocks of 512 bytes)
 ext:     logical_offset:        physical_offset: length:   expected: flags:
   0:        0..       7:       1000..      1007:      8:             shared
   1:        8..      15:       2000..      2007:      8:       1008: last,eof
/x/image.raw: 2 extents found
File size of /x/clone.raw is 8192 (16 blocks of 512 bytes)
 ext:     logical_offset:        physical_offset: length:   expected: flags:
   0:        0..       7:       1000..      1007:      8:             shared
   1:        8..      15:       3000..      3007:      8:       1008: last,eof
/x/clone.raw: 2 extents found
"""


def test_a_shared_block_is_counted_once() -> None:
    """As filefrag tells of two files of xfs, of which one half is shared."""
    assert shared_bytes(FILEFRAG) == 8 * 512
    assert shared_bytes("") == 0


def test_room_is_asked_for_what_a_round_has_at_once() -> None:
    """A second image in full costs the disk's size; a volume's files are those it is converted into."""
    sparse = StorageConfig(size="1G")
    assert room_needed(sparse, 64 * MIB) >= 1024 * MIB + 192 * MIB
    assert room_needed(sparse, 64 * MIB, preallocates=False) < 512 * MIB
    assert room_needed(StorageConfig(size="1G", preallocation="full"), 64 * MIB) >= 2048 * MIB
    assert room_needed(StorageConfig(size="1G", backing="lvm"), 64 * MIB) == 128 * MIB


def test_bytes_are_shown_in_binary_units() -> None:
    """And may be none, or less than before."""
    assert [format_figure(value, "B") for value in (0, 4096, 64 * MIB, -64 * MIB)] == [
        *("0 B", "4 KiB", "64 MiB", "-64 MiB")
    ]


def test_every_place_knows_every_operation() -> None:
    """An operation that a place forgot would be a gap."""
    for kind in ("raw", "qcow2", "vmdk", "vdi", "qed", "vpc"):
        place = FileImage(StorageConfig(format=kind), "/i", ImageOperations(), kind="ext4", shares_blocks=False)
        assert set(place.steps) == set(OPERATIONS)
        assert all(step.why for step in place.steps.values() if isinstance(step, Impossible))

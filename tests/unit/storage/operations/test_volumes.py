"""Image operations on volumes at the level of their commands.

They are run for real in tests/guest/test_volumes.py (LVM) and tests/lab/test_machine.py (LVM, OpenZFS 2.1.11); lines of
zfs here are its manual's (OpenZFS 2.1). Tests of `storage.operations.volumes`.
"""

from __future__ import annotations

import re

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import SpaceError
from pytest_vmstorage.storage.operations.files import OperationStep
from pytest_vmstorage.storage.operations.volumes import LvmImage, VolumeImage, ZvolImage
from pytest_vmstorage.storage.volume import VolumeRoom
from pytest_vmstorage.testing.shell import FakeShell
from pytest_vmstorage.workloads.image_operations import OPERATIONS, ImageOperations

MIB = 2**20
WORK = ImageOperations(data="8M")


def zvol(free_bytes: int = 2**40) -> ZvolImage:
    """A ZFS volume of 1 GiB below tank/vms."""
    room = VolumeRoom(name="tank/vms", free_bytes=free_bytes)
    return ZvolImage(StorageConfig(backing="zvol", size="1G"), "/srv/i", WORK, room, "r1", (3, 4))


def lvm() -> LvmImage:
    """A logical volume of 50 MiB in vg0, with extents of 4 MiB."""
    room = VolumeRoom(name="vg0", free_bytes=2**40, unit_bytes=4 * MIB)
    return LvmImage(StorageConfig(backing="lvm", size="50M"), "/srv/i", WORK, room, "r1", (3, 4))


def lines(place: VolumeImage) -> dict[str, str]:
    """The first line of each operation, or why it cannot be."""
    return {name: step.lines[0] if isinstance(step, OperationStep) else step.why for name, step in place.steps.items()}


def test_zfs_has_all_but_preallocation() -> None:
    """The clone bears the run's mark, is waited for, and goes before what it was made of."""
    done = lines(zvol())
    assert set(done) == {*OPERATIONS}
    assert done["create"] == "zfs create -V 1073741824 -o vmstorage:run=r1 tank/vms/vms-r1-3"
    assert done["snapshot"] == "zfs snapshot tank/vms/vms-r1-3@s1"
    assert done["rollback"] == "zfs rollback tank/vms/vms-r1-3@s1"
    assert done["clone"] == "zfs clone -o vmstorage:run=r1 tank/vms/vms-r1-3@s1 tank/vms/vms-r1-4"
    assert done["resize"] == f"zfs set volsize={2**30 + 8 * MIB} tank/vms/vms-r1-3"
    assert done["delete"] == "zfs destroy -r tank/vms/vms-r1-3"
    assert done["preallocate"].startswith("a ZFS volume is reserved when it is made")
    clone = zvol().steps["clone"]
    assert isinstance(clone, OperationStep)
    assert clone.undo == ("zfs destroy tank/vms/vms-r1-4",)
    assert "/dev/zvol/tank/vms/vms-r1-4" in clone.lines[1]


def test_lvm_rounds_up_to_extents() -> None:
    """Volume, room of the snapshot, growth; the snapshot bears the run's tag and a name that a reaper knows."""
    done = lines(lvm())
    assert set(done) == {*OPERATIONS}
    assert done["create"].endswith(f"--addtag vmstorage-r1 --size {52 * MIB}b --name vms-r1-3 vg0")
    snapshot = "lvcreate --yes --snapshot --addtag vmstorage-r1"
    assert done["snapshot"] == f"{snapshot} --size {16 * MIB}b --name vms-r1-4 vg0/vms-r1-3"
    assert done["rollback"] == "lvconvert --yes --merge --interval 0 vg0/vms-r1-4"
    assert done["resize"] == f"lvextend --size +{8 * MIB}b vg0/vms-r1-3"
    assert done["convert"] == "qemu-img convert -q -f raw -O qcow2 /dev/vg0/vms-r1-3 /srv/i/converted.qcow2"
    assert "writable snapshot" in done["clone"]


def test_what_a_zvol_takes_is_used_of_it_and_its_clone() -> None:
    """Other volumes of the pool do not count; a file that it was converted into does."""
    shell = FakeShell()
    listed = "tank/vms/vms-r1-3\t1000000\ntank/vms/vms-r1-4\t2000\ntank/other\t5\n"
    shell.answer(["zfs", "list", "-Hp", "-t", "volume", "-o", "name,used"], listed)
    shell.answer(re.compile("^find "), "8\n")
    assert zvol().taken(shell) == 1002000 + 4096


def test_what_is_left_of_a_zvol_goes_clone_first() -> None:
    """After a round that was cut short."""
    shell = FakeShell()
    shell.answer(re.compile("mindepth 1 -delete"))
    marked = "tank/vms/vms-r1-3\tr1\ntank/vms/vms-r1-4\tr1\n"
    shell.answer(["zfs", "list", "-Hp", "-t", "volume", "-o", "name,vmstorage:run"], marked)
    shell.answer(re.compile("^zfs destroy -r "))
    zvol().clear(shell)
    assert [line for line in shell.lines if "destroy" in line] == [
        "zfs destroy -r tank/vms/vms-r1-4",
        "zfs destroy -r tank/vms/vms-r1-3",
    ]


def test_a_pool_without_the_room_is_refused() -> None:
    """With what is needed for."""
    with pytest.raises(SpaceError, match=r"tank/vms has 1 GiB free, but the image operations need 1\.02 GiB"):
        zvol(2**30).check_room()

"""LVM volumes on a real device mapper: a guest is the host here, because the machine of the tests may lack one.

lvm2 of this machine and its libraries are copied into the guest, which has this machine's Debian or an older one.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import LabHost, find_host
from pytest_vmstorage.config.inventory_file import load_inventory
from pytest_vmstorage.errors import HostError, ProvisionError, SpaceError
from pytest_vmstorage.host.device_node import node_facts
from pytest_vmstorage.host.shell import CommandResult, Shell, check
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.measure.image_operations import Bench, measure_images
from pytest_vmstorage.measure.proof.image import block_proofs
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.storage.block import find_block, make_block, plan_line, reap_blocks, remove_block
from pytest_vmstorage.storage.device import device_facts
from pytest_vmstorage.storage.operations.volumes import LvmImage
from pytest_vmstorage.storage.volume import find_group
from pytest_vmstorage.workloads.image_operations import OPERATIONS, ImageOperations

FOLDER = "/run/lvm-trial"
# without udev nothing but LVM makes the nodes; dmeventd is not there
NO_UDEV = "activation { udev_sync = 0 udev_rules = 0 monitoring = 0 }\nglobal { use_lvmpolld = 0 }\n"
COMMANDS = ("pvcreate", "vgcreate", "vgs", "lvs", "lvcreate", "lvremove", "lvconvert", "lvextend")
QEMU_TOOLS = ("qemu-img", "qemu-io")


class LvmShell:
    """The guest's shell with LVM's commands in its PATH."""

    def __init__(self, guest: Shell) -> None:
        self.guest = guest

    def run(self, argv: Sequence[str], *, timeout_s: float | None = None, stdin: bytes | None = None) -> CommandResult:
        """Run argv there."""
        path = f"PATH={FOLDER}:/usr/sbin:/usr/bin:/sbin:/bin"
        return self.guest.run(["env", path, *argv], timeout_s=timeout_s, stdin=stdin)

    def put(self, source: Path, target: str) -> None:
        """Copy a file there."""
        self.guest.put(source, target)

    def read(self, path: str) -> str:
        """Read a file there."""
        return self.guest.read(path)


def lvm_archive() -> bytes:
    """The programs, what they are linked with, and a script for each of their commands."""
    programs = {name: shutil.which(name, path="/usr/sbin:/sbin:/usr/bin") for name in ("lvm", *QEMU_TOOLS)}
    assert all(programs.values()), f"install lvm2 and qemu-utils: {programs}"
    paths = [str(path) for path in programs.values()]
    linked = subprocess.run(["ldd", *paths], capture_output=True, text=True, check=True).stdout
    libraries = sorted({*re.findall(r"(/\S+) \(0x", linked)})
    (loader,) = [path for path in libraries if "ld-linux" in path]
    start = f"exec {FOLDER}/{Path(loader).name} --library-path {FOLDER} {FOLDER}"
    script = f'#!/bin/sh\nexport LVM_SYSTEM_DIR={FOLDER}\n{start}/lvm "${{0##*/}}" "$@"\n'
    files = dict.fromkeys(COMMANDS, script) | {"lvm.conf": NO_UDEV}
    files |= {name: f'#!/bin/sh\n{start}/{name}.bin "$@"\n' for name in QEMU_TOOLS}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, path in programs.items():
            # LVM goes by its own name
            archive.add(Path(str(path)).resolve(), name if name == "lvm" else f"{name}.bin")
        for path in libraries:
            archive.add(Path(path).resolve(), Path(path).name)
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.mode, info.size = 0o755, len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return stream.getvalue()


@pytest.fixture(scope="module")
def shell(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> LvmShell:
    """A guest whose measured disk is the only physical volume of the group vg0."""
    guest = lab.guest(StorageConfig(size="300M"))
    archive = tmp_path_factory.mktemp("lvm") / "lvm.tar.gz"
    archive.write_bytes(lvm_archive())
    lvm = LvmShell(guest.shell)
    lvm.run(["mkdir", FOLDER])
    lvm.put(archive, f"{FOLDER}.tar.gz")
    check(lvm.run(["tar", "-xzf", f"{FOLDER}.tar.gz", "-C", FOLDER]), "unpacking LVM")
    check(lvm.run(["busybox", "modprobe", "-a", "dm_mod", "dm_snapshot"]), "loading the device mapper")
    check(lvm.run(["vgcreate", "--yes", "vg0", guest.disk]), "making the group")
    return lvm


def host(entry: str = "") -> LabHost:
    """The guest as a lab host that lists the group."""
    return find_host(None, "/run", load_inventory(f"[hosts.local.volume_groups.vg0]\n{entry}", "vmstorage.toml"))


LVM = StorageConfig(backing="lvm", size="50M")


def test_a_volume_is_made_proven_and_removed(shell: LvmShell) -> None:
    """Rounded up to whole extents, tagged, a real LV in the eyes of the kernel, gone at the end."""
    found = find_block(shell, host(), LVM)
    assert found.size_bytes == 52 * 2**20
    assert plan_line(found) == "lvm vg0: volume group vg0, 296 MiB free: a volume of 52 MiB is made there and removed."
    made = make_block(shell, host(), LVM, run_id="r1", number=1)
    assert (made.path, made.volume, made.size_bytes) == ("/dev/vg0/vms-r1-1", "vg0/vms-r1-1", 52 * 2**20)
    assert "extents of 4 MiB" in made.description
    node = node_facts(shell, made.path)
    assert (node.kind, node.name, node.size_bytes) == ("lvm", "vg0-vms--r1--1", 52 * 2**20)
    assert [proof.status for proof in block_proofs(LVM, node, made)] == ["proven", "proven"]
    tags = shell.run(["lvs", "--noheadings", "-o", "lv_tags", made.volume]).stdout.strip()
    assert tags == "vmstorage-r1"
    remove_block(shell, made)
    assert shell.run(["lvs", "--noheadings"]).stdout.strip() == ""
    remove_block(shell, made)


def test_what_lay_there_before_is_no_question(shell: LvmShell) -> None:
    """A new volume where an old one had a file system: lvcreate asks nothing, and the signature is gone."""
    first = make_block(shell, host(), LVM, run_id="r1", number=1)
    check(shell.run(["mkfs.ext4", "-q", first.path]), "making a file system")
    remove_block(shell, first)
    again = make_block(shell, host(), LVM, run_id="r1", number=2)
    assert shell.run(["wipefs", "--no-act", "--noheadings", again.path]).stdout == ""
    remove_block(shell, again)


def test_a_dead_runs_volumes_are_found_by_their_tag(shell: LvmShell) -> None:
    """Those of another run, of the user, and of the user with a copied tag stay."""
    for number in (1, 2):
        make_block(shell, host(), LVM, run_id="dead", number=number)
    alive = make_block(shell, host(), LVM, run_id="alive", number=1)
    for more in (["--name", "users"], ["--name", "tagged", "--addtag", "vmstorage-dead"]):
        check(shell.run(["lvcreate", "--yes", "--size", "8m", *more, "vg0"]), "making a volume")
    assert reap_blocks(shell, "dead") == [
        "LVM volume vg0/vms-dead-1",
        "LVM volume vg0/vms-dead-2",
    ]
    assert reap_blocks(shell, "dead") == []
    left = shell.run(["lvs", "--noheadings", "-o", "lv_name"]).stdout.split()
    assert sorted(left) == ["tagged", "users", "vms-alive-1"]
    remove_block(shell, alive)
    check(shell.run(["lvremove", "--yes", "vg0/users", "vg0/tagged"]), "tidying up")


def test_a_volume_in_use_is_not_removed_silently(shell: LvmShell) -> None:
    """A mounted one stays, with LVM's own words; unmounted it goes. The disk below holds what is mounted."""
    made = make_block(shell, host(), LVM, run_id="r1", number=1)
    check(shell.run(["mkfs.ext4", "-q", made.path]), "making a file system")
    check(shell.run(["sh", "-c", f"mkdir -p /run/m && mount {made.path} /run/m"]), "mounting")
    assert device_facts(shell, "/dev/vdb", ("/run/m", "/proc")).holds == ("/run/m",)
    with pytest.raises(ProvisionError, match=r"removing the LVM volume vg0/vms-r1-1 failed: .*in use"):
        remove_block(shell, made)
    check(shell.run(["umount", "/run/m"]), "unmounting")
    remove_block(shell, made)


def test_what_a_group_cannot_give_is_refused(shell: LvmShell) -> None:
    """No room, and no such group, by name and by UUID."""
    with pytest.raises(HostError, match=r"group vg0 has 296 MiB free, but .* needs 300 MiB\. Free some space"):
        find_block(shell, host(), StorageConfig(backing="lvm", size="300M"))
    with pytest.raises(HostError, match="is listed as vg1, but no groups there are called so"):
        find_block(shell, host('name = "vg1"'), LVM)
    uuid = shell.run(["vgs", "--noheadings", "-o", "vg_uuid"]).stdout.strip()
    assert find_block(shell, host(f'vg_uuid = "{uuid}"'), LVM).size_bytes == 52 * 2**20
    with pytest.raises(HostError, match="but no groups there are called so"):
        find_block(shell, host(f'vg_uuid = "{uuid[:-1]}_"'), LVM)


def test_the_disk_of_a_group_is_refused_as_a_device(shell: LvmShell) -> None:
    """With a volume in use the device has a holder, which sysfs names by the device mapper's name."""
    made = make_block(shell, host(), LVM, run_id="r1", number=1)
    text = '[hosts.local.devices.d]\nid = "vmstorage-test"\nallow_destroy = true'
    listed = find_host(None, "/run", load_inventory(text, "vmstorage.toml"))
    with pytest.raises(HostError) as caught:
        find_block(shell, listed, StorageConfig(backing="device", size="50M"))
    remove_block(shell, made)
    assert "is held by vg0-vms--r1--1 (on vdb)." in str(caught.value)
    assert "carries LVM2_member (on vdb)" in str(caught.value)


def test_image_operations_on_a_volume(shell: LvmShell) -> None:
    """Snapshot, rollback by merging, conversion into a file, growth, removal: each looked at, and nothing is left."""
    config, workload = StorageConfig(backing="lvm", size="50M"), ImageOperations(data="8M")
    check(shell.run(["mkdir", "-p", "/run/i/images-1"]), "making the folder")
    (group,) = host().volume_groups
    place = LvmImage(config, "/run/i/images-1", workload, find_group(shell, group), "r1", (7, 8))
    place.check_room()
    bench = Bench(shell=shell, config=config, host="local", place=place, scratch="/run/i")
    result = measure_images(bench, workload, Plan(rounds=1))
    assert {one.metric.name for one in result.left_out} & {*OPERATIONS} == {"preallocate", "clone"}
    assert (result.create_taken, result.delete_before, result.delete_after) == (52 * 2**20, 60 * 2**20, 0)
    assert result.rollback_before == 68 * 2**20
    assert result.rollback_after == 52 * 2**20
    assert 8 * 2**20 <= result.convert_taken < 9 * 2**20
    assert result.hygiene["rollback"] == "by lvconvert --merge"
    assert {proof.field for proof in result.proof if proof.status == "proven"} >= {"backing", "size", "format"}
    assert shell.run(["lvs", "--noheadings"]).stdout.strip() == ""


def test_a_volume_and_its_snapshot_must_fit_the_group(shell: LvmShell) -> None:
    """Before anything is made."""
    config, workload = StorageConfig(backing="lvm", size="280M"), ImageOperations(data="64M")
    (group,) = host().volume_groups
    place = LvmImage(config, "/run/i", workload, find_group(shell, group), "r1", (7, 8))
    with pytest.raises(SpaceError, match=r"vg0 has 296 MiB free, but the image operations need 41\d MiB: the volume"):
        place.check_room()

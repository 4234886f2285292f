"""Every refusal on real loop devices, and what is written to those that are not refused."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import LabHost, find_host
from pytest_vmstorage.config.inventory_file import load_inventory
from pytest_vmstorage.errors import ForeignPathError, HostError, ProvisionError, UnsupportedError, VmStorageError
from pytest_vmstorage.host.device_node import node_facts
from pytest_vmstorage.host.guard import Guard
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.measure.proof.image import block_proofs
from pytest_vmstorage.storage.block import find_block, make_block, plan_line, remove_block
from pytest_vmstorage.storage.device import device_facts, refusals

SHELL = LocalShell()
DEVICE = StorageConfig(backing="device", size="64M")
PARTITION = StorageConfig(backing="partition", size="8M")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loop devices are root's")

Loop = Callable[..., str]


def run(*argv: str, stdin: str = "") -> str:
    """What a command that must succeed prints."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False, input=stdin)
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


@pytest.fixture
def undo() -> Iterator[ExitStack]:
    """What a test made is undone in reverse order."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def loop(tmp_path: Path, undo: ExitStack) -> Loop:
    """Make a file of 128 MiB and attach it."""

    def attach(name: str = "a.img", *options: str) -> str:
        with (tmp_path / name).open("wb") as stream:
            stream.truncate(128 * 2**20)
        node = run("losetup", "--find", "--show", *options, str(tmp_path / name))
        undo.callback(run, "losetup", "--detach", node)
        return node

    return attach


def host_of(tmp_path: Path, entries: str, folder: str = "/var/tmp") -> LabHost:
    """This machine with an inventory."""
    text = entries.replace("DIR", str(tmp_path))
    return find_host(None, folder, load_inventory(text, "vmstorage.toml"))


def listing(tmp_path: Path, more: str = "", folder: str = "/var/tmp") -> LabHost:
    """This machine with the loop device of a.img listed."""
    return host_of(tmp_path, f'[hosts.local.devices.trial]\nid = "loop:DIR/a.img"\n{more}', folder)


def refusal(host: LabHost, config: StorageConfig = DEVICE) -> str:
    """The sentence with which a device is refused, by find_block and by make_block alike."""
    said = []
    for verb in (lambda: find_block(SHELL, host, config), lambda: make(host, config)):
        with pytest.raises(HostError) as caught:
            verb()
        said.append(str(caught.value))
    assert said[0] == said[1]
    return said[0]


def make(host: LabHost, config: StorageConfig = DEVICE) -> None:
    """Claim the device for a cell."""
    make_block(SHELL, host, config, run_id="r1", number=1)


def partitioned(loop: Loop, undo: ExitStack) -> tuple[str, str]:
    """A loop device with two partitions, and the UUID of the first."""
    node = loop()
    one = str(uuid.uuid4())
    run("sfdisk", "-q", node, stdin=f'label: gpt\nsize=16MiB,uuid={one},name="of trial"\nsize=32MiB,name=other\n')
    run("partx", "--update", node)
    # the kernel of a CI machine may look for partitions at another time: they are there, or this is told
    assert Path(f"{node}p1").exists()
    undo.callback(run, "partx", "--delete", node)
    return node, one


# refused, whatever stands beside the id


def test_a_mounted_device_is_refused(loop: Loop, tmp_path: Path, undo: ExitStack) -> None:
    """Mounted here: where, which device, what to do; allow_destroy changes nothing."""
    node = loop()
    mount(node, tmp_path / "m", undo)
    said = refusal(listing(tmp_path, "allow_destroy = true"))
    name = f"The device trial ({node}, 128 MiB, loop:{tmp_path}/a.img)"
    assert said.startswith(f"{name} is mounted: {Path(node).name} at {tmp_path}/m. Unmount it, or list another device.")


def mount(node: str, point: Path, undo: ExitStack, kind: str = "ext4") -> None:
    """Make a file system on the node and mount it."""
    run(f"mkfs.{kind}", "-q", node)
    point.mkdir()
    run("mount", node, str(point))
    undo.callback(run, "umount", str(point))


def test_a_mounted_btrfs_is_refused_as_mounted(loop: Loop, tmp_path: Path, undo: ExitStack) -> None:
    """btrfs mounts bear a number of their own and not the device's."""
    mount(loop(), tmp_path / "m", undo, "btrfs")
    said = refusal(listing(tmp_path, "allow_destroy = true"))
    assert f"at {tmp_path}/m" in said
    assert "carries btrfs" in said


def test_a_device_mounted_in_another_namespace_is_refused(loop: Loop, tmp_path: Path, undo: ExitStack) -> None:
    """A container's mount is not in our own table."""
    node = loop()
    run("mkfs.ext4", "-q", node)
    (tmp_path / "m").mkdir()
    script = f"mount --make-rprivate / && mount {node} {tmp_path}/m && echo mounted && read _"
    other = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    undo.callback(other.communicate)
    assert other.stdout is not None
    assert other.stdout.readline() == "mounted\n"
    assert f"{tmp_path}/m" not in Path("/proc/self/mountinfo").read_text()
    assert f"at {tmp_path}/m" in refusal(listing(tmp_path, "allow_destroy = true"))


def test_a_device_with_a_mounted_partition_is_refused(loop: Loop, tmp_path: Path, undo: ExitStack) -> None:
    """Writing to the whole would destroy the part."""
    node, _ = partitioned(loop, undo)
    mount(f"{node}p2", tmp_path / "m", undo)
    said = refusal(listing(tmp_path, "allow_destroy = true"))
    assert f"is mounted: {Path(node).name}p2 at {tmp_path}/m." in said


def test_swap_is_refused(loop: Loop, tmp_path: Path, undo: ExitStack) -> None:
    """As the kernel's list of swap says."""
    node = loop()
    run("mkswap", "-q", node)
    run("swapon", node)
    undo.callback(run, "swapoff", node)
    assert f"is swapped to: {node}. Run swapoff on it" in refusal(listing(tmp_path, "allow_destroy = true"))


def test_a_device_under_another_loop_device_is_refused(loop: Loop, tmp_path: Path, undo: ExitStack) -> None:
    """A holder that sysfs does not list; one that it does, the device mapper's, is in test_volumes."""
    node = loop()
    upper = run("losetup", "--find", "--show", node)
    undo.callback(run, "losetup", "--detach", upper)
    said = refusal(listing(tmp_path, "allow_destroy = true"))
    assert f"is held by {Path(upper).name} (on {Path(node).name})." in said


def test_a_device_that_another_process_has_open_is_refused(loop: Loop, tmp_path: Path) -> None:
    """Exclusively, as a RAID or another tool has it, or plainly, as QEMU has its disks."""
    node = loop()
    for flags, is_busy in ((os.O_RDONLY | os.O_EXCL, True), (os.O_RDONLY, False)):
        handle = os.open(node, flags)
        try:
            said = refusal(listing(tmp_path, "allow_destroy = true"))
        finally:
            os.close(handle)
        assert f"(pid {os.getpid()})" in said
        assert ("refuses to open it exclusively" in said) is is_busy
    make(listing(tmp_path))


def md_superblock(node: str) -> None:
    """A RAID member's superblock, version 1.2 (include/uapi/linux/raid/md_p.h); mdadm cannot make one without md."""
    block = bytearray(256)
    struct.pack_into("<4I16s32sQIIQII", block, 0, 0xA92B4EFC, 1, 0, 0, bytes(range(16)), b"vm:0", 1, 1, 0, 2048, 0, 2)
    struct.pack_into("<4Q2I16s", block, 128, 2048, 2048, 8, 0, 0, 0, bytes(range(16, 32)))
    struct.pack_into("<3Q2I", block, 192, 0, 1, 0, 0, 128)
    block += struct.pack("<2H", 0, 1) + b"\xff" * 252
    total = sum(struct.unpack(f"<{len(block) // 4}I", block))
    struct.pack_into("<I", block, 216, (total & 0xFFFFFFFF) + (total >> 32))
    write_at(node, 4096, bytes(block))
    assert "correct" in run("mdadm", "--examine", node)


def zfs_uberblocks(node: str) -> None:
    """Eight uberblocks in the first label of a pool's member, which blkid knows it by; no ZFS can be had here."""
    for number in range(8):
        write_at(node, 2**17 + 1024 * number, struct.pack("<5Q", 0x00BAB10C, 5000, 10 + number, 1, 1700000000))


def write_at(node: str, offset: int, data: bytes) -> None:
    """Write to the device."""
    with Path(node).open("r+b") as stream:
        stream.seek(offset)
        stream.write(data)


MEMBERS: dict[str, Callable[[str], object]] = {
    "LVM2_member": lambda node: run("pvcreate", "--yes", "--devices", node, node),
    "btrfs": lambda node: run("mkfs.btrfs", "-q", node),
    "linux_raid_member": md_superblock,
    "zfs_member": zfs_uberblocks,
}


@pytest.mark.parametrize("member", MEMBERS)
def test_a_member_of_something_larger_is_refused(loop: Loop, tmp_path: Path, member: str) -> None:
    """allow_destroy stands beside the id and does not help."""
    node = loop()
    MEMBERS[member](node)
    said = refusal(listing(tmp_path, "allow_destroy = true"))
    assert f"is a part of something larger: it carries {member} (on {Path(node).name})" in said


def test_a_partition_of_a_member_is_refused(loop: Loop, tmp_path: Path, undo: ExitStack) -> None:
    """A RAID over whole devices may have a partition table in its data, which the kernel shows on each of them."""
    node, one = partitioned(loop, undo)
    zfs_uberblocks(node)
    host = host_of(tmp_path, f'[hosts.local.partitions.p]\nid = "by-partuuid/{one}"\nallow_destroy = true')
    assert f"it carries zfs_member (on {Path(node).name})" in refusal(host, PARTITION)


def test_a_read_only_device_is_refused(loop: Loop, tmp_path: Path) -> None:
    """And nothing about it is unknown because it could not be opened for writing."""
    node = loop("a.img", "--read-only")
    assert f"is read-only. Run blockdev --setrw {node}" in refusal(listing(tmp_path))


def test_a_device_that_is_too_small_is_refused(loop: Loop, tmp_path: Path) -> None:
    """A qcow2 image has tables besides, which a device of the disk's own size has no room for."""
    loop()
    assert "smaller than the 256 MiB" in refusal(listing(tmp_path), StorageConfig(backing="device", size="256M"))
    exact = StorageConfig(backing="device", size="128M")
    assert find_block(SHELL, listing(tmp_path), exact).size_bytes == exact.size
    qcow2 = StorageConfig(backing="device", format="qcow2", size="128M")
    assert "that the cell needs. Lower its size." in refusal(listing(tmp_path), qcow2)


@pytest.mark.parametrize("kind", ["ext4", "btrfs"])
def test_a_device_that_holds_the_runs_folder_is_refused(loop: Loop, tmp_path: Path, undo: ExitStack, kind: str) -> None:
    """Named as such, since that it is mounted says less."""
    mount(loop(), tmp_path / "m", undo, kind)
    said = refusal(listing(tmp_path, "allow_destroy = true", folder=f"{tmp_path}/m"))
    assert f"holds {tmp_path}/m of this host. List another device." in said


def test_the_device_of_the_root_file_system_is_refused(tmp_path: Path) -> None:
    """Whatever this machine has booted from, if it is a device."""
    number = run("findmnt", "-nro", "MAJ:MIN", "-T", "/")
    sysfs = Path(f"/sys/dev/block/{number}")
    if not sysfs.exists():
        pytest.skip(f"/ lies on no block device here, but on {number}")
    facts = device_facts(SHELL, f"/dev/{sysfs.resolve().name}", ("/var/tmp",))
    assert "/" in facts.holds
    (entry,) = listing(tmp_path).devices
    assert "holds /" in refusals(facts, entry.model_copy(update={"allow_destroy": True}), 1)[0].what


def test_what_is_not_listed_is_refused(loop: Loop, tmp_path: Path) -> None:
    """An empty device that nobody uses, and that the inventory does not name."""
    facts = device_facts(SHELL, loop(), ())
    (only,) = refusals(facts, None, 1)
    assert only.what == (
        f"{facts.node} (128 MiB) is not listed in vmstorage.toml, and nothing is written to a device that is not."
    )
    assert not refusals(facts, listing(tmp_path).devices[0], 1)


# refused unless allow_destroy stands beside the id

SIGNED: dict[str, Callable[[str], object]] = {
    "ext4": lambda node: run("mkfs.ext4", "-q", node),
    "crypto_LUKS": lambda node: run(
        *("cryptsetup", "luksFormat", "-q", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", node, "-"),
        stdin="secret",
    ),
    "swap": lambda node: run("mkswap", "-q", node),
    "gpt": lambda node: run("sfdisk", "-q", node, stdin="label: gpt\nsize=8MiB\n"),
    "dos": lambda node: run("sfdisk", "-q", node, stdin="label: dos\nsize=8MiB\n"),
}


@pytest.mark.parametrize("kind", SIGNED)
def test_a_signature_needs_permission_and_goes_with_it(loop: Loop, tmp_path: Path, kind: str) -> None:
    """Refused and untouched without allow_destroy; named in the plan, and wiped, with it."""
    node = loop()
    SIGNED[kind](node)
    before = Path(node).read_bytes()
    said = refusal(listing(tmp_path))
    assert f"carries {kind} (on {Path(node).name})" in said
    assert "Write allow_destroy = true beside its id" in said
    allowed = listing(tmp_path, "allow_destroy = true")
    assert f"then lost: {kind} (on {Path(node).name})" in plan_line(find_block(SHELL, allowed, DEVICE))
    assert Path(node).read_bytes() == before
    make(allowed)
    assert run("wipefs", "--no-act", "--noheadings", node) == ""


def test_what_is_refused_is_not_written_to(loop: Loop, tmp_path: Path) -> None:
    """Not a byte, though everything was tried."""
    node = loop()
    SIGNED["ext4"](node)
    handle = os.open(node, os.O_RDONLY | os.O_EXCL)
    before = Path(node).read_bytes()
    try:
        refusal(listing(tmp_path, "allow_destroy = true"))
    finally:
        os.close(handle)
    assert Path(node).read_bytes() == before


# found, written, given back


def test_an_empty_device_is_found_and_given_back_empty(loop: Loop, tmp_path: Path) -> None:
    """Described with all by which a user knows it; what the cell left on it is wiped at its end."""
    node = loop()
    host = listing(tmp_path)
    place = find_block(SHELL, host, DEVICE)
    assert place.description == f"device trial: {node}, 128 MiB, loop:{tmp_path}/a.img"
    assert plan_line(place) == f"{place.description}: will be overwritten."
    made = make_block(SHELL, host, DEVICE, run_id="r1", number=1)
    assert (made.path, made.number) == (node, place.number)
    SIGNED["ext4"](node)
    remove_block(SHELL, made)
    assert find_block(SHELL, host, DEVICE) == place


def test_the_guard_lets_a_listed_device_be_written_to_while_a_cell_has_it(loop: Loop, tmp_path: Path) -> None:
    """Not before it was looked at, and not after it was given back; the one beside it never."""
    node, other = loop(), loop("b.img")
    shell = LocalShell(Guard([f"{tmp_path}/run-1/"]))
    write = ("dd", "if=/dev/zero", "bs=512", "count=1")

    def may_write(path: str) -> bool:
        try:
            return shell.run([*write, f"of={path}"]).ok
        except ForeignPathError:
            return False

    host, before = listing(tmp_path), may_write(node)
    made = make_block(shell, host, DEVICE, run_id="r1", number=1)
    meanwhile = (may_write(node), may_write(other))
    remove_block(shell, made)
    assert (before, meanwhile, may_write(node)) == (False, (True, False), False)


def test_a_device_that_became_another_is_left_alone(loop: Loop, tmp_path: Path) -> None:
    """At the end of a cell the node must still be what was claimed."""
    loop()
    other = loop("b.img")
    made = make_block(SHELL, listing(tmp_path), DEVICE, run_id="r1", number=1)
    SIGNED["ext4"](other)
    with pytest.raises(ProvisionError, match="is no longer the same device, so it was left alone"):
        remove_block(SHELL, made.model_copy(update={"path": other}))
    assert "ext4" in run("wipefs", "--no-act", "--noheadings", other)


def test_a_partition_is_found_by_its_uuid_and_its_label(loop: Loop, tmp_path: Path, undo: ExitStack) -> None:
    """Its device's partition table is no signature of it, and its neighbour's mount is none of its business."""
    node, one = partitioned(loop, undo)
    mount(f"{node}p2", tmp_path / "m", undo)
    for stable in (f"by-partuuid/{one.upper()}", "/dev/disk/by-partlabel/of trial"):
        host = host_of(tmp_path, f'[hosts.local.partitions.p]\nid = "{stable}"')
        assert find_block(SHELL, host, PARTITION).path == f"{node}p1"
    made = make_block(SHELL, host, PARTITION, run_id="r1", number=1)
    SIGNED["ext4"](f"{node}p1")
    remove_block(SHELL, made)
    assert run("wipefs", "--no-act", "--noheadings", f"{node}p1") == ""
    assert "gpt" in run("wipefs", "--no-act", "--noheadings", node)


def test_a_device_is_found_by_its_link_below_dev_disk(loop: Loop, tmp_path: Path, undo: ExitStack) -> None:
    """As `ls /dev/disk/by-id` shows it, with and without the folder; udev makes such links, and here is none."""
    node, name = loop(), f"vmstorage-trial-{uuid.uuid4().hex}"
    folder = Path("/dev/disk/by-id")
    for made in (folder.parent, folder):
        if not made.is_dir():
            made.mkdir()
            undo.callback(made.rmdir)
    (folder / name).symlink_to(f"../../{Path(node).name}")
    undo.callback((folder / name).unlink)
    for stable in (f"/dev/disk/by-id/{name}", f"by-id/{name}", name):
        host = host_of(tmp_path, f'[hosts.local.devices.trial]\nid = "{stable}"')
        place = find_block(SHELL, host, DEVICE)
        assert (place.path, place.description) == (node, f"device trial: {node}, 128 MiB, {name}")


ON_A_PARTITION = """
import pytest
from pytest_vmstorage import Fio

@pytest.mark.storage(backing="partition", size="8M")
@pytest.mark.parametrize("format", ["raw", "qcow2"])
def test_it(measure, guest):
    assert measure(Fio(rw="randwrite", bs="4k", size="4M", runtime=1), rounds=1, warmup=0).iops > 10
    assert ("backing", "proven") in [(proof.field, proof.status) for proof in guest.proof]
"""


def pytest_in(folder: Path, *options: str) -> str:
    """What a pytest run there that ends green prints."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--vm-dir={folder}/disks", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "COLUMNS": "160"},
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_cells_on_a_partition_are_planned_and_measured(loop: Loop, tmp_path: Path, undo: ExitStack) -> None:
    """The plan names it and writes nothing; the run names it first, measures, and leaves the neighbour as it was."""
    node, one = partitioned(loop, undo)
    SIGNED["ext4"](f"{node}p1")
    before = [digest(f"{node}p{number}") for number in (1, 2)]
    entry = f'[hosts.local.partitions.p]\nid = "by-partuuid/{one}"\nallow_destroy = true\n'
    (tmp_path / "list.toml").write_text(entry)
    (tmp_path / "test_it.py").write_text(ON_A_PARTITION)
    line = f"backing=partition: partition p: {node}p1, 16 MiB, by-partuuid/{one}: "
    plan = pytest_in(tmp_path, "--vm-inventory=list.toml", "--vm-plan")
    assert re.search(rf"^{re.escape(line)}.*ext4", plan, re.MULTILINE)
    assert [digest(f"{node}p{number}") for number in (1, 2)] == before
    text = pytest_in(tmp_path, "--vm-inventory=list.toml")
    assert text.index(f"vmstorage: {line}") < text.index("test_it.py ..")
    assert "backing partition" in text
    assert re.search(r"^raw .*\d +(±|n=)\d", text, re.MULTILINE)
    assert re.search(r"^qcow2 .*\d +(±|n=)\d", text, re.MULTILINE)
    assert digest(f"{node}p2") == before[1]
    assert digest(f"{node}p1") != before[0]
    assert run("wipefs", "--no-act", "--noheadings", f"{node}p1") == ""


def digest(node: str) -> str:
    """Of all that is on it."""
    return run("sha256sum", node).split()[0]


def test_two_partitions_with_one_label_are_told_apart_by_nobody(loop: Loop, tmp_path: Path, undo: ExitStack) -> None:
    """Disks that were cloned have the same UUIDs and labels; both nodes stand in the sentence."""
    node = loop()
    run("sfdisk", "-q", node, stdin="label: gpt\nsize=16MiB,name=twin\nsize=16MiB,name=twin\n")
    run("partx", "--update", node)
    undo.callback(run, "partx", "--delete", node)
    host = host_of(tmp_path, '[hosts.local.partitions.p]\nid = "by-partlabel/twin"')
    assert f"have it: {node}p1, {node}p2. List it by an id that only it has." in refusal(host, PARTITION)


def test_a_file_that_no_loop_device_has_is_not_found(tmp_path: Path) -> None:
    """The id, and that no device has it."""
    assert f"trial is listed as loop:{tmp_path}/a.img, but no device has it." in refusal(listing(tmp_path))


def test_without_a_device_mapper_lvm_is_unsupported(tmp_path: Path) -> None:
    """A skip with its reason, never a device of another kind."""
    host = host_of(tmp_path, '[hosts.local.volume_groups.vg0]\n[hosts.local.datasets.tank]\nname = "tank/vms"')
    if "device-mapper" not in Path("/proc/misc").read_text():
        with pytest.raises(UnsupportedError, match="no device mapper"):
            find_block(SHELL, host, StorageConfig(backing="lvm"))
    with pytest.raises(VmStorageError, match=r"zfs is not installed|ZFS cannot be used|but ZFS says"):
        find_block(SHELL, host, StorageConfig(backing="zvol"))


# proven


def test_a_node_is_what_it_is(loop: Loop, tmp_path: Path, undo: ExitStack) -> None:
    """File, device, partition, and a link to one, as the host's kernel has them; the proof follows that."""
    node, one = partitioned(loop, undo)
    (tmp_path / "link").symlink_to(f"{node}p1")
    assert str(node_facts(SHELL, str(tmp_path / "a.img"))) == "a regular file"
    assert node_facts(SHELL, node).kind == "device"
    found = node_facts(SHELL, str(tmp_path / "link"))
    assert (found.kind, found.name, found.size_bytes) == ("partition", f"{Path(node).name}p1", 16 * 2**20)
    assert node_facts(SHELL, "/dev/null").kind == "other"
    place = find_block(SHELL, host_of(tmp_path, f'[hosts.local.partitions.p]\nid = "by-partuuid/{one}"'), PARTITION)
    assert [proof.status for proof in block_proofs(PARTITION, found, place)] == ["proven", "proven"]
    for path in (str(tmp_path / "a.img"), f"{node}p2", node):
        proofs = block_proofs(PARTITION, node_facts(SHELL, path), place)
        assert "contradicted" in [proof.status for proof in proofs], path

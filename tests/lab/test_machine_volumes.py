"""ZFS volumes on a real pool, and a real LVM with udev, by the functions that make, prove, find and remove them."""

from __future__ import annotations

import pytest
from machine import INVENTORY, Machine, MachineShell

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import LabHost, find_host
from pytest_vmstorage.config.inventory_file import load_inventory
from pytest_vmstorage.errors import HostError, ProvisionError
from pytest_vmstorage.host.device_node import node_facts
from pytest_vmstorage.host.shell import check
from pytest_vmstorage.measure.proof.image import block_proofs
from pytest_vmstorage.storage.block import find_block, make_block, reap_blocks, remove_block
from pytest_vmstorage.storage.device import device_facts

pytestmark = pytest.mark.labvm

MIB = 2**20
ZVOL = StorageConfig(backing="zvol", size="64M")


@pytest.fixture
def shell(machine: Machine) -> MachineShell:
    """Commands on the machine."""
    return machine.shell


def host(text: str = INVENTORY) -> LabHost:
    """The machine with what an inventory lists for it."""
    return find_host("labvm", "/run", load_inventory(text, "vmstorage.toml"))


@pytest.mark.parametrize(("kind", "name"), [("zvol", "zd"), ("lvm", "vg0-vms--r1--1")])
def test_a_volume_is_made_proven_and_removed(machine: Machine, shell: MachineShell, kind: str, name: str) -> None:
    """A node that udev made, the kind of thing it says it is, gone at the end; removing twice is no error."""
    config = StorageConfig(backing=kind, size="64M")
    made = make_block(shell, host(), config, run_id="r1", number=1)
    node = node_facts(shell, made.path)
    assert (node.kind, node.size_bytes) == (kind, 64 * MIB)
    assert node.name.startswith(name)
    assert [proof.status for proof in block_proofs(config, node, made)] == ["proven", "proven"]
    check(shell.run(["dd", "if=/dev/urandom", f"of={made.path}", "bs=1M", "count=8", "oflag=direct"]), "writing")
    remove_block(shell, made)
    assert machine.volumes() == ([], [])
    remove_block(shell, made)


def test_a_zvol_is_reserved_and_says_what_it_is(shell: MachineShell) -> None:
    """Not sparse; block size and compression are noted, since a figure depends on both."""
    made = make_block(shell, host(), ZVOL, run_id="r1", number=1)
    said = shell.run(["zfs", "get", "-Hp", "-o", "value", "refreservation,volsize", made.volume]).stdout.split()
    remove_block(shell, made)
    assert int(said[0]) >= int(said[1]) == 64 * MIB
    assert "volblocksize 8 KiB, compression lz4" in made.description


def test_a_dead_runs_zvols_are_found_by_property_and_name(machine: Machine, shell: MachineShell) -> None:
    """Those of another run, of the user, and a copy that kept the property stay; snapshots and clones go too."""
    for number in (1, 2):
        make_block(shell, host(), ZVOL, run_id="dead", number=number)
    alive = make_block(shell, host(), ZVOL, run_id="alive", number=1)
    for line in (
        "zfs snapshot tank/vms/vms-dead-1@s1",
        "zfs clone -o vmstorage:run=dead tank/vms/vms-dead-1@s1 tank/vms/vms-dead-3",
        "zfs create -s -V 8M tank/vms/users",
        "zfs create -s -V 8M -o vmstorage:run=dead tank/vms/copied",
    ):
        check(shell.run(line.split()), line)
    said = reap_blocks(shell, "dead")
    assert said == [f"ZFS volume tank/vms/vms-dead-{number}" for number in (3, 2, 1)]
    assert reap_blocks(shell, "dead") == []
    assert sorted(machine.volumes()[1]) == ["tank/vms/copied", "tank/vms/users", "tank/vms/vms-alive-1"]
    remove_block(shell, alive)
    check(shell.run(["sh", "-c", "zfs destroy tank/vms/users && zfs destroy tank/vms/copied"]), "tidying up")


def test_a_zvol_in_use_is_not_removed_silently(shell: MachineShell) -> None:
    """A mounted one stays, with ZFS's own words; unmounted it goes."""
    made = make_block(shell, host(), ZVOL, run_id="r1", number=1)
    check(shell.run(["sh", "-c", f"mkfs.ext4 -q {made.path} && mkdir -p /run/m && mount {made.path} /run/m"]), "mount")
    try:
        with pytest.raises(ProvisionError, match=r"removing the ZFS volume tank/vms/vms-r1-1 failed: .*busy"):
            remove_block(shell, made)
        facts = device_facts(shell, made.path, ())
        assert [one.what for one in facts.mounts] == ["/run/m"]
    finally:
        check(shell.run(["umount", "/run/m"]), "unmounting")
    remove_block(shell, made)
    assert shell.run(["zfs", "list", "-H", "-t", "volume"]).stdout == ""


def test_what_a_dataset_cannot_give_is_refused_before_anything_is_made(machine: Machine, shell: MachineShell) -> None:
    """No such dataset, one that is a volume, no room; the reservation takes more than the size, and is counted."""
    for dataset, sentence in (("tank/none", "dataset does not exist"), ("nopool", "dataset does not exist")):
        listed = f'[hosts.labvm.datasets.tank]\nname = "{dataset}"\n'
        with pytest.raises(HostError, match=rf"is listed as {dataset}, but ZFS says: .*{sentence}"):
            find_block(shell, host(listed), ZVOL)
    free = int(shell.run(["zfs", "list", "-Hpo", "available", "tank/vms"]).stdout)
    # it would fit by its size alone, and its metadata not
    just = StorageConfig(backing="zvol", size=str(free // MIB * MIB - MIB))
    with pytest.raises(HostError, match=r"The dataset tank/vms has .* free, but .* needs"):
        find_block(shell, host(), just)
    assert machine.volumes() == ([], [])


@pytest.mark.parametrize(("disk", "member"), [("labvm-pool", "zfs_member"), ("labvm-vg", "LVM2_member")])
def test_the_disk_of_a_pool_or_group_is_refused_as_a_device(shell: MachineShell, disk: str, member: str) -> None:
    """allow_destroy does not change that."""
    listed = f'[hosts.labvm.devices.d]\nid = "virtio-{disk}"\nallow_destroy = true\n'
    with pytest.raises(HostError) as caught:
        find_block(shell, host(listed), StorageConfig(backing="device", size="64M"))
    assert f"carries {member}" in str(caught.value)

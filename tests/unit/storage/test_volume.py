"""LVM and ZFS volumes at the level of their commands.

LVM runs for real in tests/guest/test_volumes.py, LVM with udev and ZFS on a pool (2.1.11) in tests/lab. What zfs prints
here is taken from its manual (zfs-list(8), zfs-create(8) of OpenZFS 2.1) and from reports to its issue tracker, with
version and number beside each.
"""

from __future__ import annotations

import json
import re

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import LabHost, find_host
from pytest_vmstorage.config.inventory_file import load_inventory
from pytest_vmstorage.errors import HostError, ProvisionError, UnsupportedError
from pytest_vmstorage.host.shell import NOT_FOUND, CommandResult
from pytest_vmstorage.storage import volume as volume_module
from pytest_vmstorage.storage.block import find_block, make_block, plan_line, reap_blocks, remove_block
from pytest_vmstorage.storage.volume import find_dataset, leftover_lvs, leftover_zvols, make_zvol
from pytest_vmstorage.testing.shell import Asked, FakeShell

ZVOL = StorageConfig(backing="zvol", size="1G")
LVM = StorageConfig(backing="lvm", size="1G")
NAME = "tank/vms/vms-r1-1"
LIST = ["zfs", "list", "-Hp", "-t", "filesystem", "-o", "name,available", "tank/vms"]
LOOK = ["zfs", "list", "-Hp", "-t", "volume", "-o", "volsize,volblocksize,compression,primarycache", NAME]
MARKED = ["zfs", "list", "-Hp", "-t", "volume", "-o", "name,vmstorage:run"]
CREATE = ["zfs", "create", "-V", "1073741824", "-o", "vmstorage:run=r1", NAME]
TRIAL = ["zfs", "create", "-n", "-P", "-V", "1073741824", "tank/vms/vms-trial-0"]
DESTROY = ["zfs", "destroy", "-r", NAME]
ROOT = ["id", "-u"]


def host() -> LabHost:
    """This machine with a dataset and a group listed."""
    text = '[hosts.local.datasets.tank]\nname = "tank/vms"\n[hosts.local.volume_groups.vg0]\n'
    return find_host(None, "/run", load_inventory(text, "vmstorage.toml"))


def zfs() -> FakeShell:
    """A host with the dataset tank/vms and room in it, and no LVM."""
    shell = FakeShell()
    shell.answer(LIST, "tank/vms\t61890744320\n")
    shell.answer(LOOK, "1073741824\t16384\ton\tall\n")
    shell.answer(MARKED, f"tank/disk\t-\ntank/vms/vms-other-1\tother\ntank/vms/copy\tr1\n{NAME}\tr1\n")
    shell.answer(CREATE)
    shell.answer(TRIAL, "create\ttank/vms/vms-trial-0\nproperty\trefreservation\t1107820544\n")
    shell.answer(DESTROY)
    shell.answer(re.compile(r"^sh -c '# reads\ni=0; until"))
    shell.answer(["stat", "-L", "-c", "%t %T", "--", f"/dev/zvol/{NAME}"], "e6 10\n")
    shell.answer(ROOT, "0\n")
    shell.answer(re.compile("^lvs "), returncode=NOT_FOUND)
    return shell


def test_a_zvol_is_made_marked_and_described() -> None:
    """Not sparse, with the run's property, its block size recorded; the node is waited for before it is looked at."""
    shell = zfs()
    found = find_block(shell, host(), ZVOL)
    assert (
        plan_line(found) == "zvol tank: dataset tank/vms, 57.6 GiB free: a volume of 1 GiB is made there and removed."
    )
    assert not any(line.startswith("zfs create -V") for line in shell.lines)
    made = make_block(shell, host(), ZVOL, run_id="r1", number=1)
    assert (made.path, made.volume, made.number) == (f"/dev/zvol/{NAME}", NAME, "230:16")
    assert "volblocksize 16 KiB, compression on, primarycache all" in made.description
    lines = [line for line in shell.lines if "until" in line or line.startswith(("zfs create -V", "stat"))]
    assert [line.split()[0] for line in lines] == ["zfs", "sh", "stat"]
    remove_block(shell, made)
    assert shell.lines[-1] == f"zfs destroy -r {NAME}"


def test_a_zvol_that_was_rounded_up_has_the_size_it_says() -> None:
    """zfs-create(8): size is rounded up to the nearest multiple of the blocksize."""
    shell = zfs().answer(LOOK, "1073750016\t16384\ton\tall\n")
    assert make_block(shell, host(), ZVOL, run_id="r1", number=1).size_bytes == 1073750016


def test_a_pool_without_the_space_says_so_when_the_zvol_is_made() -> None:
    """`available` may promise more than a reservation with its metadata takes (0.7.6, openzfs/zfs#7312)."""
    shell = zfs().answer(CREATE, stderr=f"cannot create '{NAME}': out of space\n", returncode=1)
    with pytest.raises(ProvisionError, match=f"making the ZFS volume {NAME} failed: .*: out of space"):
        make_block(shell, host(), ZVOL, run_id="r1", number=1)
    # enough for its size alone
    with pytest.raises(HostError, match=r"The dataset tank/vms has 1\.02 GiB free, but .* needs 1\.03 GiB"):
        find_block(zfs().answer(LIST, "tank/vms\t1100000000\n"), host(), ZVOL)


def test_a_zvol_whose_node_never_comes_is_removed() -> None:
    """volmode=none, or no udev."""
    shell = zfs().answer(re.compile(r"^sh -c '# reads\ni=0; until"), returncode=1)
    room = find_dataset(shell, host().datasets[0])
    with pytest.raises(ProvisionError, match=rf"/dev/zvol/{NAME} did not come up within 20 s\. Does udev run there\?"):
        make_zvol(shell, room, 2**30, run_id="r1", number=1)
    assert shell.lines[-1] == f"zfs destroy -r {NAME}"


def test_a_zvol_that_is_busy_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """udev looks into a volume that was just made or closed (0.8.1, openzfs/zfs#9359)."""
    monkeypatch.setattr(volume_module.time, "sleep", lambda _: None)
    shell, tries = zfs(), iter((1, 1, 0))

    def busy(asked: Asked) -> CommandResult:
        said = f"cannot destroy '{NAME}': dataset is busy\n"
        return CommandResult(argv=asked.argv, returncode=next(tries), stdout="", stderr=said, seconds=0)

    made = make_block(shell, host(), ZVOL, run_id="r1", number=1)
    remove_block(shell.do(DESTROY, busy), made)
    assert shell.lines.count(f"zfs destroy -r {NAME}") == 3
    monkeypatch.setattr(volume_module, "_NODE_S", 0.0)
    with pytest.raises(ProvisionError, match=r"removing the ZFS volume .* failed: .*dataset is busy"):
        remove_block(shell.answer(DESTROY, stderr="dataset is busy\n", returncode=1), made)


def test_only_what_bears_property_and_name_is_a_runs() -> None:
    """A user property is inherited, and stays in a received copy."""
    assert leftover_zvols(zfs(), "r1") == (NAME,)
    assert leftover_zvols(zfs(), "r2") == ()
    shell = zfs()
    assert reap_blocks(shell, "r1") == [f"ZFS volume {NAME}"]
    assert [line for line in shell.lines if "destroy" in line] == [f"zfs destroy -r {NAME}"]


def test_a_zvol_that_is_gone_is_removed() -> None:
    """Removing twice is no error, and asks for no second destroy."""
    shell = zfs().answer(MARKED, "tank/disk\t-\n")
    made = make_block(shell, host(), ZVOL, run_id="r1", number=1)
    remove_block(shell, made)
    assert not any("destroy" in line for line in shell.lines)


WITHOUT_ZFS = {
    "zfs is not installed on this host. Install OpenZFS.": (NOT_FOUND, "zfs: command not found"),
    # Ubuntu 22.04 with OpenZFS 2.1.5, openzfs/zfs#18593
    "ZFS cannot be used on this host: Try running '/sbin/modprobe zfs' as root to load them.": (
        1,
        "The ZFS modules are not loaded.\nTry running '/sbin/modprobe zfs' as root to load them.\n",
    ),
}


@pytest.mark.parametrize("sentence", WITHOUT_ZFS)
def test_without_zfs_a_zvol_is_unsupported(sentence: str) -> None:
    """A skip with its reason, and nothing for the reaper to do."""
    code, said = WITHOUT_ZFS[sentence]
    shell = zfs().answer(re.compile("^zfs list"), stderr=said, returncode=code)
    with pytest.raises(UnsupportedError) as caught:
        find_block(shell, host(), ZVOL)
    assert caught.value.told == sentence
    assert reap_blocks(shell, "r1") == []


@pytest.mark.parametrize(
    "said",
    [
        "cannot open 'tank/vms': dataset does not exist",
        # 0.6.5.4, openzfs/zfs#4286: listed is a volume
        "cannot open 'tank/vms': operation not applicable to datasets of this type",
    ],
)
def test_a_dataset_that_cannot_hold_volumes_is_told(said: str) -> None:
    """In ZFS's own words."""
    with pytest.raises(HostError) as caught:
        find_block(zfs().answer(LIST, stderr=f"{said}\n", returncode=1), host(), ZVOL)
    assert str(caught.value).startswith(f"The dataset tank is listed as tank/vms, but ZFS says: {said}.")


# LVM where it is not


def test_without_lvm_or_a_device_mapper_a_volume_is_unsupported() -> None:
    """Kernel and tools each have a sentence of their own."""
    mapper = re.compile("device-mapper")
    with pytest.raises(UnsupportedError, match="The kernel of this host has no device mapper"):
        find_block(FakeShell().answer(mapper, returncode=1), host(), LVM)
    shell = FakeShell().answer(mapper).answer(re.compile("^vgs "), returncode=NOT_FOUND)
    with pytest.raises(UnsupportedError, match=r"vgs is not installed on this host\. Install lvm2\."):
        find_block(shell, host(), LVM)


def test_a_user_who_is_not_root_has_no_volumes_to_reap() -> None:
    """LVM would fail for him at each start of a run."""
    shell = FakeShell().answer(ROOT, "1000\n")
    assert reap_blocks(shell, "r1") == []
    assert shell.lines == ["id -u"]


def test_a_damaged_run_id_becomes_no_selection() -> None:
    """It comes from a lease file."""
    for leftovers in (leftover_lvs, leftover_zvols):
        with pytest.raises(ProvisionError, match=r"is not a run's id"):
            leftovers(zfs(), 'r1" || lv_name=~"."')


def test_a_tag_on_a_volume_of_another_name_is_not_the_runs() -> None:
    """LVM's report as lvm2 2.03.16 prints it."""
    rows = [{"vg_name": "vg0", "lv_name": name} for name in ("vms-r1-1", "vms-r10-1", "data", "vms-r1-1-copy")]
    shell = FakeShell().answer(re.compile("^lvs "), json.dumps({"report": [{"lv": rows}]}))
    assert leftover_lvs(shell, "r1") == ("vg0/vms-r1-1",)

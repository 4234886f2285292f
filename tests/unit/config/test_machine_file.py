"""[machines.NAME] of vmstorage.toml: what is read, and the sentence for each slip."""

from __future__ import annotations

import pytest

from pytest_vmstorage.config.inventory import ListedDevice, ListedMachine
from pytest_vmstorage.config.inventory_file import load_inventory
from pytest_vmstorage.errors import ConfigError

ESX = """
[machines.esx-guest]
ssh = "root@10.0.0.5"
disk = "/dev/disk/by-id/wwn-0x5002538e40a1b2c3"
allow_destroy = true
label = {format = "vmfs", bus = "pvscsi", queues = 8, thin = true}

[machines.here]
ssh = "local"
folder = "/srv/bench/"

[machines.cloud]
folder = "/mnt"
"""


def test_machines_are_read() -> None:
    """Over ssh or here, a disk or a folder; what the label has is text, whatever TOML makes of it."""
    machines = load_inventory(ESX, "f.toml").machines
    disk = ListedDevice(name="esx-guest", kind="device", id="wwn-0x5002538e40a1b2c3", allow_destroy=True)
    label = {"format": "vmfs", "bus": "pvscsi", "queues": "8", "thin": "yes"}
    assert machines == {
        "esx-guest": ListedMachine(name="esx-guest", ssh="root@10.0.0.5", disk=disk, label=label),
        "here": ListedMachine(name="here", folder="/srv/bench"),
        "cloud": ListedMachine(name="cloud", folder="/mnt"),
    }
    assert (machines["esx-guest"].target, machines["here"].target) == ("root@10.0.0.5", "this machine")


@pytest.mark.parametrize(
    ("disk", "kind", "known_as"),
    [
        ("wwn-0x5002538e40a1b2c3", "device", "wwn-0x5002538e40a1b2c3"),
        ("ata-X_1-part2", "partition", "ata-X_1-part2"),
        ("/dev/disk/by-partuuid/ABCD-01", "partition", "by-partuuid/abcd-01"),
        ("loop:/srv/disk.raw", "device", "loop:/srv/disk.raw"),
    ],
)
def test_a_disk_is_known_by_what_does_not_change(disk: str, kind: str, known_as: str) -> None:
    """A whole disk or a partition, told by the id."""
    found = load_inventory(f'[machines.m]\ndisk = "{disk}"', "f.toml").machines["m"].disk
    assert found is not None
    assert (found.kind, found.id, found.allow_destroy) == (kind, known_as, False)


@pytest.mark.parametrize("disk", ["/dev/sdb", "sdb", "/dev/nvme0n1p2", "/dev/dm-3"])
def test_a_name_of_today_is_kept_to_ask_the_machine(disk: str) -> None:
    """Nothing is written to it: which id it has only the machine can tell, and it is refused when it told."""
    found = load_inventory(f'[machines.m]\ndisk = "{disk}"', "f.toml").machines["m"].disk
    assert found is not None
    assert found.id == disk


M = "[machines.m]\n"
SLIPS = {
    "machines = 1": "f.toml: machines = 1 is not a table. Write [machines] above its keys.",
    "[machines.'a b']\nfolder = '/x'": "f.toml, [machines]: 'a b' is not a name. Use letters, digits, dots, -",
    f"[hosts.m]\n{M}folder = '/x'": "f.toml, [machines.m]: m is a host's name, and rows of both would bear it.",
    "[machines.local]\nfolder = '/x'": "f.toml, [machines.local]: local is a host's name,",
    f"{M}port = 22": "f.toml, [machines.m]: 'port' is not known. Known here: ssh, disk, folder, allow_destroy, label.",
    f"{M}ssh = '-oProxy'\nfolder = '/x'": "f.toml, [machines.m]: ssh = '-oProxy' is not a host name. Write NAME or",
    f"{M}ssh = 'a:22'\nfolder = '/x'": "f.toml, [machines.m]: ssh = 'a:22' is not a host name.",
    f"{M}ssh = 5\nfolder = '/x'": 'f.toml, [machines.m]: ssh = 5 is not a text. Write ssh = "...".',
    M: "f.toml, [machines.m]: neither disk nor folder is given, and one of them says what is measured. Write ",
    f"{M}disk = 'wwn-0x5'\nfolder = '/x'": "f.toml, [machines.m]: both disk and folder are given, and one of them",
    f"{M}folder = 'x'": "f.toml, [machines.m]: folder = 'x' is not the path of a folder below /.",
    f"{M}folder = '/'": "f.toml, [machines.m]: folder = '/' is not the path of a folder below /.",
    f"{M}folder = '/x'\nallow_destroy = true": "f.toml, [machines.m]: allow_destroy is a disk's, and a folder keeps",
    f"{M}disk = '/srv/disk'": "f.toml, [machines.m]: disk = '/srv/disk' is not a disk. For a file on it write ",
    f"{M}disk = 'pci-0000:00:1f.2'": "f.toml, [machines.m]: disk = 'pci-0000:00:1f.2' names the place a device is",
    f"{M}disk = 'by-uuid/1'": "f.toml, [machines.m]: disk = 'by-uuid/1' names a file system, and measuring destroys",
    f"{M}disk = '/dev/mapper/x'": "f.toml, [machines.m]: disk = '/dev/mapper/x' is a name that may be another device's",
    f"{M}disk = 'wwn-0x5'\nallow_destroy = 1": "f.toml, [machines.m]: allow_destroy = 1 is neither true nor false.",
    f"{M}folder = '/x'\nlabel = 'vmfs'": "f.toml, [machines.m]: label = 'vmfs' is not a table. Write [machines.m.lab",
    f"{M}folder = '/x'\nlabel.'a b' = 'x'": "f.toml, [machines.m.label]: 'a b' is not the name of a field.",
    f"{M}folder = '/x'\nlabel.size = '1G'": "f.toml, [machines.m.label]: 'size' is looked at on the machine,",
    f"{M}folder = '/x'\nlabel.bus = ''": "f.toml, [machines.m.label]: bus = '' is not a text.",
    f"{M}folder = '/x'\nlabel.bus = ['x']": "f.toml, [machines.m.label]: bus = ['x'] is not a text.",
}


@pytest.mark.parametrize("text", SLIPS)
def test_a_slip_is_told_with_file_key_and_remedy(text: str) -> None:
    """One sentence, and what to do."""
    with pytest.raises(ConfigError) as caught:
        load_inventory(text, "f.toml")
    assert str(caught.value).startswith(SLIPS[text])
    assert caught.value.hint

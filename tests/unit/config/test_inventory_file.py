"""Reading vmstorage.toml: what it may say, and one sentence for each slip."""

from __future__ import annotations

import pytest

from pytest_vmstorage.config.inventory import ListedDataset, ListedGroup
from pytest_vmstorage.config.inventory_file import load_inventory
from pytest_vmstorage.errors import ConfigError

LOCAL = "[hosts.local]\n"
DEVICE = "[hosts.local.devices.d]\n"
PARTITION = "[hosts.local.partitions.p]\n"
GROUP = "[hosts.local.volume_groups.vg0]\n"
DATASET = "[hosts.local.datasets.tank]\n"


def device_id(text: str, kind: str = "devices") -> str:
    """The id of the one device that is listed so."""
    inventory = load_inventory(f"[hosts.local.{kind}.d]\nid = '{text}'", "f.toml")
    host = inventory.hosts["local"]
    (entry,) = (*host.devices, *host.partitions)
    assert not entry.allow_destroy
    return entry.id


@pytest.mark.parametrize(
    ("text", "stable"),
    [
        ("wwn-0x5002538e40a1b2c3", "wwn-0x5002538e40a1b2c3"),
        ("by-id/ata-Samsung_SSD_850_S21N", "ata-Samsung_SSD_850_S21N"),
        ("/dev/disk/by-id/nvme-eui.0025385b71b00b5e", "nvme-eui.0025385b71b00b5e"),
        ("S21NXAGH123456X", "S21NXAGH123456X"),
        ("0x5002538e40a1b2c3", "0x5002538e40a1b2c3"),
        ("dm-uuid-mpath-36001405", "dm-uuid-mpath-36001405"),
        ("loop:/var/tmp/a b.img", "loop:/var/tmp/a b.img"),
    ],
)
def test_a_device_is_listed_by_what_stays(text: str, stable: str) -> None:
    """by-id names with or without their folder, WWN, serial number, multipath, and for trials a loop device's file."""
    assert device_id(text) == stable


@pytest.mark.parametrize(
    ("text", "stable"),
    [
        ("by-partuuid/0A1B2C3D-01", "by-partuuid/0a1b2c3d-01"),
        ("/dev/disk/by-partlabel/my data", "by-partlabel/my data"),
        ("wwn-0x5002538e40a1b2c3-part2", "wwn-0x5002538e40a1b2c3-part2"),
    ],
)
def test_a_partition_is_listed_by_what_stays(text: str, stable: str) -> None:
    """Its UUID in whatever letters, its label, or its device's id and number."""
    assert device_id(text, "partitions") == stable


def test_groups_and_datasets_have_names() -> None:
    """The key where nothing else is said."""
    text = f'{GROUP}[hosts.local.volume_groups.b]\nname = "data-vg"\n{DATASET}[hosts.local.datasets.b]\nname = "t/v"\n'
    uuid = "tZ1pD2-abcd-EFGH-ijkl-MNOP-qrst-uvwXYZ"
    host = load_inventory(f'{text}[hosts.local.volume_groups.c]\nvg_uuid = "{uuid}"', "f.toml").hosts["local"]
    assert host.volume_groups == (
        ListedGroup(name="vg0", vg="vg0"),
        ListedGroup(name="b", vg="data-vg"),
        ListedGroup(name="c", uuid=uuid),
    )
    assert host.datasets == (ListedDataset(name="tank", dataset="tank"), ListedDataset(name="b", dataset="t/v"))


def test_a_host_has_cpus_and_tags() -> None:
    """None of both where the file says nothing."""
    host = load_inventory(f"{LOCAL}cpus = '8, 2-4'\ntags = ['nvme', 'rack-1']", "f.toml").hosts["local"]
    assert (host.cpus, host.tags) == ((2, 3, 4, 8), ("nvme", "rack-1"))
    assert load_inventory(LOCAL, "f.toml").hosts["local"].cpus == ()


def test_an_empty_file_lists_nothing() -> None:
    """Which is no mistake."""
    assert load_inventory("", "f.toml").hosts == {}
    assert load_inventory(LOCAL, "f.toml").hosts["local"].folder is None


UNSTABLE = "is a name that may be another device's after the next boot. Give a stable id:"
PLACE = "names the place a device is plugged into, not the device. Give a stable id:"

SLIPS = {
    "[hosts": "f.toml is not TOML: ",
    "host = 1": "f.toml: 'host' is not known. Did you mean 'hosts'? Known here: hosts, machines, images.",
    "hosts = 1": "f.toml: hosts = 1 is not a table. Write [hosts] above its keys.",
    "[hosts]\nlocal = 1": "f.toml, [hosts]: local = 1 is not a table. Write [hosts.local] above its keys.",
    "[hosts.'lab 01']": "f.toml, [hosts]: 'lab 01' is not a host name. Write NAME or USER@NAME; a port",
    f"{LOCAL}disk = 1": "f.toml, [hosts.local]: 'disk' is not known. Known here: uri, ssh, folder, cpus, tags,",
    f"{LOCAL}uri = 'x'": "f.toml, [hosts.local]: uri is another machine's, and local is this one. Take uri away,",
    f"{LOCAL}ssh = 'x'": "f.toml, [hosts.local]: ssh is another machine's, and local is this one. Take ssh away,",
    "[hosts.b]\nssh = '-oProxy'": "f.toml, [hosts.b]: ssh = '-oProxy' is not a host name. Write NAME or USER@NAME;",
    "[hosts.b]\nuri = 5": 'f.toml, [hosts.b]: uri = 5 is not a text. Write uri = "...".',
    f"{LOCAL}folder = 'x'": "f.toml, [hosts.local]: folder = 'x' is not absolute. Write it from / on.",
    f"{LOCAL}folder = ''": "f.toml, [hosts.local]: folder = '' is not a text. Write folder = \"...\".",
    "[hosts.all]": "f.toml, [hosts]: 'all' is not a host name: --vm-host=all means every host here. Give",
    f"{LOCAL}cpus = '5-2'": "f.toml, [hosts.local]: cpus = '5-2' is not a list of CPUs. Write those on which QEMU may",
    f"{LOCAL}cpus = [2, 3]": 'f.toml, [hosts.local]: cpus = [2, 3] is not a text. Write cpus = "...".',
    f"{LOCAL}tags = 'nvme'": "f.toml, [hosts.local]: tags = 'nvme' is not a list. Write tags = [...].",
    f"{LOCAL}tags = ['a,b']": "f.toml, [hosts.local]: tags has 'a,b', which is not a tag. Use letters, digits,",
    f"{LOCAL}tags = ['a', 'a']": "f.toml, [hosts.local]: tags = ['a', 'a'] has 'a' twice. Take one of them away.",
    f"{LOCAL}devices = 'sdb'": "f.toml, [hosts.local]: devices = 'sdb' is not a table. Write [hosts.local.dev",
    f"{LOCAL}devices.d = 'sdb'": "f.toml, [hosts.local.devices]: d = 'sdb' is not a table. Write [hosts.local.dev",
    "[hosts.local.devices.'a-b']\nid = 'x'": "f.toml, [hosts.local.devices]: 'a-b' is not a name. Use letters,",
    DEVICE: "f.toml, [hosts.local.devices.d]: id is missing. Give a stable id:",
    f"{DEVICE}id = 7": "f.toml, [hosts.local.devices.d]: id = 7 is not a text.",
    f"{DEVICE}id = 'x'\nserial = 'y'": "[hosts.local.devices.d]: 'serial' is not known. Known here: id, allow_destroy.",
    f"{DEVICE}id = 'x'\nallow_destroy = 'yes'": "allow_destroy = 'yes' is neither true nor false. Write allow_destroy",
    f"{DEVICE}id = 'x'\nid = 'y'": "f.toml is not TOML: Cannot overwrite a value",
    f"{DEVICE}id = '/dev/sdb'": f"f.toml, [hosts.local.devices.d]: id = '/dev/sdb' {UNSTABLE}",
    f"{DEVICE}id = 'vda'": f"id = 'vda' {UNSTABLE}",
    f"{DEVICE}id = 'nvme0n1'": f"id = 'nvme0n1' {UNSTABLE}",
    f"{DEVICE}id = '/dev/nvme1n1p2'": f"id = '/dev/nvme1n1p2' {UNSTABLE}",
    f"{DEVICE}id = 'loop0'": f"id = 'loop0' {UNSTABLE}",
    f"{DEVICE}id = 'dm-3'": f"id = 'dm-3' {UNSTABLE}",
    f"{DEVICE}id = 'md0'": f"id = 'md0' {UNSTABLE}",
    f"{DEVICE}id = '/dev/mapper/vg0-lv'": f"id = '/dev/mapper/vg0-lv' {UNSTABLE}",
    f"{DEVICE}id = '/dev/disk/by-path/pci-0000:00:1f.2-ata-1'": PLACE,
    f"{DEVICE}id = 'pci-0000:00:1f.2-ata-1'": PLACE,
    f"{DEVICE}id = 'by-uuid/1234'": "id = 'by-uuid/1234' names a file system, and measuring destroys that.",
    f"{DEVICE}id = 'by-partuuid/1234'": "id = 'by-partuuid/1234' is a partition's. List it under partitions.",
    f"{DEVICE}id = 'by-id/'": "id = 'by-id/' is not the id of a device.",
    f"{DEVICE}id = 'by-id/a/../b'": "id = 'by-id/a/../b' is not the id of a device.",
    f"{DEVICE}id = 'loop:a.img'": "id = 'loop:a.img' is not the file of a loop device. Write loop:/FILE",
    f"{PARTITION}id = 'loop:/a.img'": "id = 'loop:/a.img' is not the file of a loop device.",
    f"{PARTITION}id = 'sda1'": "id = 'sda1' is a name that may be another partition's after the next boot.",
    f"{GROUP}name = 'a/b'": "[hosts.local.volume_groups.vg0]: name = 'a/b' is not the name of a volume group. `vgs`",
    f"{GROUP}name = '-f'": "name = '-f' is not the name of a volume group.",
    f"{GROUP}vg_uuid = 'abc'": "vg_uuid = 'abc' is not the UUID of a volume group. `vgs -o vg_uuid` shows it.",
    f"{GROUP}name = 'a'\nvg_uuid = 'tZ1pD2-abcd-EFGH-ijkl-MNOP-qrst-uvwXYZ'": "name and vg_uuid both say which group",
    f"{GROUP}allow_destroy = true": "'allow_destroy' is not known. Known here: name, vg_uuid.",
    f"{DATASET}name = '/tank'": "[hosts.local.datasets.tank]: name = '/tank' is not the name of a dataset. `zfs",
    f"{DATASET}name = 'tank@snap'": "name = 'tank@snap' is not the name of a dataset.",
    f"{DEVICE}id = 'x'\n[hosts.local.devices.e]\nid = 'by-id/x'": "[hosts.local]: d and e are the same thing.",
    f"{GROUP}[hosts.local.volume_groups.b]\nname = 'vg0'": "[hosts.local]: vg0 and b are the same thing.",
}


@pytest.mark.parametrize("text", SLIPS, ids=[text.replace("\n", " ")[:60] for text in SLIPS])
def test_a_slip_is_told_with_file_key_and_remedy(text: str) -> None:
    """One sentence, and what to do."""
    with pytest.raises(ConfigError) as caught:
        load_inventory(text, "f.toml")
    assert SLIPS[text] in str(caught.value)
    assert str(caught.value).startswith("f.toml")
    assert caught.value.hint
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "uri",
    [
        "qemu+ext://x?command=/tmp/x",
        "qemu+ext:///system",
        "qemu+ssh://lab01/system?command=/tmp/x",
        "qemu+ssh://lab01/system?no_tty=1&COMMAND=/tmp/x",
        "qemu://[x",
    ],
)
def test_a_uri_that_runs_a_program_here_is_refused(uri: str) -> None:
    """Whoever writes the file would run it as whoever runs pytest."""
    with pytest.raises(ConfigError, match=r"^f.toml, \[hosts.lab01\]: uri = ") as error:
        load_inventory(f"[hosts.lab01]\nuri = {uri!r}", "f.toml")
    assert error.value.hint == 'Write for example "qemu+ssh://root@lab01/system".'

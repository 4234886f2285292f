"""Which device an id means, and all that speaks against writing to one: from what two scripts say of a host."""

from __future__ import annotations

import re

import pytest

from pytest_vmstorage.config.inventory import ListedDevice, find_host
from pytest_vmstorage.errors import HostError
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.storage.device import (
    DeviceFacts,
    DeviceUse,
    describe,
    device_facts,
    find_node,
    matching_nodes,
    read_facts,
    refusals,
)
from pytest_vmstorage.testing.shell import FakeShell

LISTING = """\
node\tsda\t0\t
wwid\tsda\tnaa.5002538e40a1b2c3
serial\tsda\tS21NXAGH123456X     \n\
node\tsda1\t1\tsda
partuuid\tsda1\t0A1B2C3D-01
partlabel\tsda1\tmy\\ data
node\tnvme0n1\t0\t
wwid\tnvme0n1\teui.0025385b71b00b5e
serial\tnvme0n1\tS4EVNX0M
node\tvdb\t0\t
serial\tvdb\tscratch
node\tloop3\t0\t
backing_file\tloop3\t/var/tmp/a  b.img
link\tsda\tby-id/ata-Samsung_SSD_850_S21NXAGH123456X
link\tsda1\tby-id/ata-Samsung_SSD_850_S21NXAGH123456X-part1
link\tsda1\tby-partuuid/0a1b2c3d-01
link\tdm-0\tby-id/dm-uuid-mpath-36001405
"""
"""What device_list.sh says of a host with udev, in the kernel's and udev's spellings of Linux 6.1 and udev 252."""


@pytest.mark.parametrize(
    ("wanted", "node"),
    [
        ("wwn-0x5002538e40a1b2c3", "/dev/sda"),
        ("0x5002538e40a1b2c3", "/dev/sda"),
        ("5002538e40a1b2c3", "/dev/sda"),
        ("S21NXAGH123456X", "/dev/sda"),
        ("ata-Samsung_SSD_850_S21NXAGH123456X", "/dev/sda"),
        ("nvme-eui.0025385b71b00b5e", "/dev/nvme0n1"),
        ("virtio-scratch", "/dev/vdb"),
        ("scratch", "/dev/vdb"),
        ("loop:/var/tmp/a  b.img", "/dev/loop3"),
        ("dm-uuid-mpath-36001405", "/dev/dm-0"),
        ("wwn-0x5002538e40a1b2c3-part1", "/dev/sda1"),
        ("ata-Samsung_SSD_850_S21NXAGH123456X-part1", "/dev/sda1"),
        ("by-partuuid/0a1b2c3d-01", "/dev/sda1"),
        ("by-partlabel/my data", "/dev/sda1"),
        (r"by-partlabel/my\x20data", "/dev/sda1"),
    ],
)
def test_an_id_means_one_node(wanted: str, node: str) -> None:
    """With udev's links and by what the kernel alone says."""
    assert matching_nodes(LISTING, wanted) == (node,)
    without_udev = "".join(line for line in LISTING.splitlines(keepends=True) if not line.startswith("link"))
    if not wanted.startswith(("ata-", "dm-")):
        assert matching_nodes(without_udev, wanted) == (node,)


@pytest.mark.parametrize("wanted", ["", "sda", "S21N", "wwn-0x5002538e40a1b2c3-part2", "/var/tmp/a  b.img", "x"])
def test_what_is_no_id_means_nothing(wanted: str) -> None:
    """Neither a node's name nor a part of an id."""
    assert matching_nodes(LISTING, wanted) == ()


def test_two_devices_of_one_id_are_refused() -> None:
    """Both are named; a serial number of a cheap bridge may be everybody's."""
    twins = f"{LISTING}node\tsdb\t0\t\nserial\tsdb\tS21NXAGH123456X\n"
    shell = FakeShell().answer(re.compile("^sh -c"), twins)
    listed = ListedDevice(name="fast", kind="device", id="S21NXAGH123456X")
    with pytest.raises(HostError) as caught:
        find_node(shell, find_host("lab01", None), listed)
    assert caught.value.told == (
        "The device fast is listed as S21NXAGH123456X, but 2 devices of lab01 have it: /dev/sda, /dev/sdb. List it by"
        " an id that only it has."
    )


def test_an_absent_device_is_told() -> None:
    """Not found is neither unsupported nor a slip in the file."""
    shell = FakeShell().answer(re.compile("^sh -c"), LISTING)
    with pytest.raises(HostError, match=r"listed as gone, but no device has it\. Look on lab01 whether"):
        find_node(shell, find_host("lab01", None), ListedDevice(name="d", kind="device", id="gone"))


FACTS = """\
self\tsdb\t8:16\t976773168\t0\twhole
model\tSamsung SSD 850 \n\
signature\tsdb\tgpt
signature\tsdb\tPMBR
signature\tsdb1\text4
holder\tsdb2\tvg0-root
mount\t/dev/sdb1\t/mnt/a
mount\t/dev/sdb1\t/mnt/a
swap\t/dev/sdb3
holds\t/
opener\tsmartd (pid 812)
busy
end
"""

LISTED = ListedDevice(name="fast", kind="device", id="wwn-0x5002538e40a1b2c3")
CLEAN = DeviceFacts(node="/dev/sdb", number="8:16", size_bytes=500107862016, model="Samsung SSD 850")


def test_the_scripts_words_become_facts() -> None:
    """Each under its name, each once."""
    assert read_facts(FACTS, "/dev/sdb") == DeviceFacts(
        node="/dev/sdb",
        number="8:16",
        size_bytes=500107862016,
        model="Samsung SSD 850",
        mounts=(DeviceUse("sdb1", "/mnt/a"),),
        swaps=("/dev/sdb3",),
        holders=(DeviceUse("sdb2", "vg0-root"),),
        openers=("smartd (pid 812)",),
        signatures=(DeviceUse("sdb", "gpt"), DeviceUse("sdb", "PMBR"), DeviceUse("sdb1", "ext4")),
        holds=("/",),
        is_busy=True,
    )


def test_a_partition_has_its_disks_memberships_but_not_its_table() -> None:
    """The table is why there is a partition; a RAID over the disk concerns it."""
    text = (
        "self\tsdb1\t8:17\t2048\t1\tpartition\nsignature\tsdb1\text4\nsignature\tsdb\tgpt\n"
        "signature\tsdb\tisw_raid_member\nend\n"
    )
    facts = read_facts(text, "/dev/sdb1")
    assert (facts.is_partition, facts.read_only) == (True, True)
    assert facts.signatures == (DeviceUse("sdb1", "ext4"), DeviceUse("sdb", "isw_raid_member"))


@pytest.mark.parametrize("text", ["", "missing\t/dev/sdb\n", FACTS.replace("end\n", ""), "end\n"])
def test_an_answer_that_is_cut_is_no_clean_bill(text: str) -> None:
    """Whatever the script could not tell may be the mount."""
    with pytest.raises(HostError, match=r"/dev/sdb (cannot be examined, so nothing is written to it|is not a block)"):
        read_facts(text, "/dev/sdb")


def test_what_is_no_device_is_told_by_the_real_script() -> None:
    """A regular file is not examined."""
    with pytest.raises(HostError, match="/etc/passwd is not a block device"):
        device_facts(LocalShell(), "/etc/passwd", ())


def test_a_clean_device_is_not_refused() -> None:
    """And is described as a user knows it."""
    assert refusals(CLEAN, LISTED, 2**30) == ()
    assert describe(CLEAN, LISTED) == "device fast: /dev/sdb, Samsung SSD 850, 466 GiB, wwn-0x5002538e40a1b2c3"


NAME = "The device fast (/dev/sdb, Samsung SSD 850, 466 GiB, wwn-0x5002538e40a1b2c3)"
MEMBERS = ("linux_raid_member", "LVM2_member", "LVM1_member", "zfs_member", "btrfs", "isw_raid_member", "bcache")

REFUSED = {
    "root": ({"holds": ("/", "/srv/vm")}, "holds / and /srv/vm of this host. List another device."),
    "mounted": (
        {"mounts": (DeviceUse("sdb1", "/a"), DeviceUse("sdb2", "/b"))},
        "is mounted: sdb1 at /a, sdb2 at /b. Unmount it, or list another device.",
    ),
    "swap": ({"swaps": ("/dev/sdb3",)}, "is swapped to: /dev/sdb3. Run swapoff on it, or list another device."),
    "held": (
        {"holders": (DeviceUse("sdb2", "md0"),)},
        "is held by md0 (on sdb2). Detach what holds it, or list another device.",
    ),
    "open": (
        {"openers": ("qemu-system-x86 (pid 7)",)},
        "is open in qemu-system-x86 (pid 7). End that process, or list another device.",
    ),
    "busy": (
        {"is_busy": True},
        "is busy: the kernel refuses to open it exclusively. Find who uses it (`lsof /dev/sdb`, another container), or"
        " list another device.",
    ),
    "unseen": (
        {"unseen": ("signatures of sdb (Permission denied)",)},
        "cannot be examined: signatures of sdb (Permission denied). Examining a device takes root and util-linux on"
        " its host.",
    ),
    "read-only": ({"read_only": True}, "is read-only. Run blockdev --setrw /dev/sdb, or list another device."),
    "small": ({"size_bytes": 2**29}, "is smaller than the 1 GiB that the cell needs. Lower its size."),
    "part": ({"is_partition": True}, "is a partition. List it under partitions."),
    **{
        member: (
            {"signatures": (DeviceUse("sdb", "gpt"), DeviceUse("sdb2", member))},
            f"is a part of something larger: it carries {member} (on sdb2), and allow_destroy does not change that."
            " Take it out of that and run `wipefs --all` on it yourself, or list another device.",
        )
        for member in MEMBERS
    },
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("allow_destroy", [False, True])
def test_a_refusal_says_what_was_found_and_what_to_do(case: str, *, allow_destroy: bool) -> None:
    """With and without permission to destroy: one sentence about the device, one remedy."""
    update, sentence = REFUSED[case]
    facts = CLEAN.model_copy(update=update)
    (only,) = refusals(facts, LISTED.model_copy(update={"allow_destroy": allow_destroy}), 2**30)
    assert f"{only.what} {only.hint}".replace("512 MiB", "466 GiB") == f"{NAME} {sentence}"


@pytest.mark.parametrize("kind", ["ext4", "crypto_LUKS", "swap", "gpt", "dos", "PMBR", "something new"])
def test_a_signature_is_refused_unless_it_may_be_destroyed(kind: str) -> None:
    """Any kind, also one that nobody here has heard of."""
    facts = CLEAN.model_copy(update={"signatures": (DeviceUse("sdb", kind), DeviceUse("sdb", kind))})
    (only,) = refusals(facts, LISTED, 1)
    assert only.what == f"{NAME} carries {kind} (on sdb)."
    assert only.hint.startswith("Write allow_destroy = true beside its id if all that is on it may be lost")
    assert refusals(facts, LISTED.model_copy(update={"allow_destroy": True}), 1) == ()


def test_all_refusals_are_told_the_weightiest_first() -> None:
    """What the user meets first is what must not be overlooked."""
    found = refusals(read_facts(FACTS, "/dev/sdb"), LISTED, 2**50)
    words = ["holds /", "is mounted", "is swapped to", "is held by", "is open in", "is smaller", "carries gpt"]
    assert [word for word, one in zip(words, found, strict=True) if word in one.what] == words

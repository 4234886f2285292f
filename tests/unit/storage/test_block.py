"""Which entry of vmstorage.toml a cell means, how much it needs, and whether the disk is what it should lie on."""

from __future__ import annotations

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import LabHost, find_host
from pytest_vmstorage.config.inventory_file import load_inventory
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.host.device_node import NodeFacts
from pytest_vmstorage.measure.proof.image import block_proofs
from pytest_vmstorage.storage.block import BlockPlace, choose_listed, needed_bytes, needs_block, plan_line

TEXT = """
[hosts.local.devices.a]
id = "one"
[hosts.local.devices.b]
id = "two"
[hosts.local.partitions.a]
id = "by-partuuid/1"
[hosts.local.volume_groups.vg0]
"""


def host() -> LabHost:
    """This machine with two devices, of which one has a partition's name, and a group."""
    return find_host(None, None, load_inventory(TEXT, "/p/vmstorage.toml"))


@pytest.mark.parametrize(
    ("backing", "kind", "name"),
    [
        ("device:a", "device", "a"),
        ("device:b", "device", "b"),
        ("partition", "partition", "a"),
        ("lvm", "lvm", "vg0"),
        ("native:vg0", "lvm", "vg0"),
        ("native:b", "device", "b"),
    ],
)
def test_a_cell_means_the_entry_of_its_kind_and_name(backing: str, kind: str, name: str) -> None:
    """The name may be left out where there is one only; native may lie on any of them."""
    found = choose_listed(host(), StorageConfig(backing=backing))
    assert (found.kind, found.name) == (kind, name)


UNCLEAR = {
    "device": 'backing=device may be any of several in /p/vmstorage.toml. Write one of "device:a", "device:b".',
    "device:c": "backing=device:c needs a device called c that is listed for local in /p/vmstorage.toml. List it there:"
    ' [hosts.local.devices.c] with id = "wwn-0x...".',
    "zvol": "backing=zvol needs a ZFS dataset that is listed for local in /p/vmstorage.toml. List it there:"
    ' [hosts.local.datasets.NAME] with name = "tank/vms".',
    "native:a": "a is a device and a partition of local in /p/vmstorage.toml. Give them different names.",
    "native:vg1": "backing=native:vg1 needs a device called vg1 that is listed for local in /p/vmstorage.toml. List it"
    ' there: [hosts.local.devices.vg1] with id = "wwn-0x...".',
}


@pytest.mark.parametrize("backing", UNCLEAR)
def test_what_is_not_listed_or_unclear_is_a_users_mistake(backing: str) -> None:
    """With the very lines that are missing."""
    with pytest.raises(ConfigError) as caught:
        choose_listed(host(), StorageConfig(backing=backing))
    assert caught.value.told == UNCLEAR[backing]


def test_without_a_file_the_sentence_names_the_one_to_write() -> None:
    """And the host as the file would call it."""
    with pytest.raises(ConfigError, match=r"listed for lab01 in vmstorage\.toml\. List it there: \[hosts\.lab01\.dev"):
        choose_listed(find_host("lab01", None), StorageConfig(backing="device"))


@pytest.mark.parametrize(
    ("backing", "needs"),
    [("file", False), ("native", False), ("native:a", True), ("device", True), ("zvol:x", True), ("lvm", True)],
)
def test_which_cells_need_a_device(backing: str, needs: bool) -> None:
    """All but files and the bare native row."""
    assert needs_block(StorageConfig(backing=backing)) is needs


def test_a_qcow2_image_needs_room_for_its_tables() -> None:
    """More with small clusters and with subclusters, and a header where it is encrypted."""
    size = 2**30

    def needed(**values: object) -> int:
        return needed_bytes(StorageConfig(backing="device", size=size, **values))

    assert needed() == size
    plain = needed(format="qcow2")
    assert size < plain < size + 2**20
    assert needed(format="qcow2", cluster_size="4k") > plain + 2**20
    assert needed(format="qcow2", extended_l2=True) > plain
    assert needed(format="qcow2", encryption="luks") == plain + 2 * 2**20


DEVICE = NodeFacts(path="/dev/sdb", kind="device", number="8:16", name="sdb", size_bytes=2**30)
PLACE = BlockPlace(
    path="/dev/sdb", kind="device", name="a", description="device a: /dev/sdb", size_bytes=2**30, number="8:16"
)


def statuses(backing: str, node: NodeFacts, place: BlockPlace | None = None) -> list[str]:
    """The proofs' statuses."""
    proofs = block_proofs(StorageConfig(backing=backing), node, place)
    assert {proof.field for proof in proofs} == {"backing"}
    return [proof.status for proof in proofs]


def test_a_file_is_proven_to_be_one() -> None:
    """And a device in its place is a contradiction."""
    file = NodeFacts(path="/a.raw", kind="file")
    (proof,) = block_proofs(StorageConfig(), file)
    assert (proof.asked, proof.found, proof.status) == ("file", "a regular file", "proven")
    assert statuses("native", file) == ["proven"]
    assert statuses("file", DEVICE) == ["contradicted"]
    assert statuses("native", DEVICE) == ["contradicted"]


def test_a_device_is_proven_to_be_the_listed_one() -> None:
    """A file, another device, and a thing of another kind in its place are contradictions with both values."""
    assert statuses("device:a", DEVICE, PLACE) == ["proven", "proven"]
    assert statuses("native:a", DEVICE, PLACE) == ["proven", "proven"]
    assert statuses("device:a", NodeFacts(path="/a.raw", kind="file"), PLACE) == ["contradicted", "contradicted"]
    other = DEVICE.model_copy(update={"number": "8:32", "name": "sdc"})
    proofs = block_proofs(StorageConfig(backing="device:a"), other, PLACE)
    assert [(proof.status, proof.asked, proof.found) for proof in proofs] == [
        ("proven", "device:a", "device sdc (8:32)"),
        ("contradicted", "device a: /dev/sdb (8:16)", "device sdc (8:32)"),
    ]
    assert statuses("device:a", DEVICE.model_copy(update={"kind": "partition"}), PLACE) == ["contradicted", "proven"]
    # multipath
    assert statuses("device:a", DEVICE.model_copy(update={"kind": "dm"}), PLACE) == ["proven", "proven"]


def test_a_device_without_its_place_is_not_believed() -> None:
    """Whoever forgets to say what was claimed gets no proof for it."""
    assert statuses("device:a", DEVICE) == ["contradicted"]
    assert statuses("file", DEVICE, PLACE) == ["contradicted", "proven"]


def test_the_plan_says_what_is_lost() -> None:
    """Before anything is written."""
    assert plan_line(PLACE) == "device a: /dev/sdb: will be overwritten."
    signed = PLACE.model_copy(update={"signatures": ("gpt (on sdb)", "ext4 (on sdb1)")})
    assert plan_line(signed) == (
        "device a: /dev/sdb: will be overwritten; on it now and then lost: gpt (on sdb), ext4 (on sdb1)."
    )

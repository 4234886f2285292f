"""The domain XML of every cell, read back by a parser.

Tests of `guest.domain_xml` and `guest.disk_xml`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import get_args
from xml.etree import ElementTree as ET

import pytest

from pytest_vmstorage.config.buses import BUSES, CACHES, Bus, Cache
from pytest_vmstorage.config.cell import Format, StorageConfig
from pytest_vmstorage.config.settings import Accel
from pytest_vmstorage.guest.disk_xml import NULL_NODE, QEMU_NAMESPACE, TEST_ALIAS, TEST_SERIAL, nvme_limits
from pytest_vmstorage.guest.domain_xml import AGENT_PORT, LEASE_NAMESPACE, ROOT_SERIAL, GuestSpec, domain_xml
from pytest_vmstorage.guest.pinning import Pinning
from pytest_vmstorage.host.lease import Lease, Owner
from pytest_vmstorage.storage.encryption import secrets_of

UUID = "6f7f5bb6-6ad5-4b19-8b7c-3d3f1b6f2d10"
OWNER = Owner(host="lab", boot_id="b-1", pid=77, started_ticks=12345)
LEASE = Lease(run_id="0123456789", owner=OWNER, expires=1700000000.6, uri=None, ssh=None, folder="/srv/run-0123456789")


def spec(config: StorageConfig | None = None, **fields: object) -> GuestSpec:
    """A guest of that cell under TCG."""
    known = {
        "name": "vms-0123456789-1",
        "uuid": UUID,
        "config": config,
        "disk": "/srv/disk-1",
        "kernel": "/a/kernel",
        "initrd": "/a/initrd",
        "cmdline": "console=ttyS0 quiet",
        "root": "/a/root",
        "console": "/srv/console",
        "accel": "tcg",
        "emulator": "/usr/bin/qemu-system-x86_64",
    }
    return GuestSpec.model_validate({**known, **fields})


def parsed(config: StorageConfig | None = None, lease: Lease | None = None, **fields: object) -> ET.Element:
    """The XML as a parser sees it."""
    return ET.fromstring(domain_xml(spec(config, **fields), lease))


def find(tree: ET.Element, path: str) -> ET.Element:
    """The only element at that path."""
    found = tree.findall(path)
    assert len(found) == 1, f"{path}: {len(found)} elements"
    return found[0]


def disk_under_test(tree: ET.Element) -> ET.Element:
    """The disk under test."""
    return next(disk for disk in tree.findall("devices/disk") if disk.findtext("serial") == TEST_SERIAL)


@pytest.mark.parametrize("config", [None, StorageConfig(), StorageConfig(bus="nvme"), StorageConfig(backing="null")])
def test_libvirt_asks_for_all_of_the_processor_at_once(config: StorageConfig | None) -> None:
    """It asks for 400 properties one by one where QEMU could tell which features the processor lacks."""
    left_out = find(parsed(config), f"{{{QEMU_NAMESPACE}}}capabilities/{{{QEMU_NAMESPACE}}}del")
    assert left_out.attrib == {"capability": "cpu-unavailable-features"}


@pytest.mark.parametrize("kind", get_args(Format))
def test_the_format_is_said_and_never_probed(kind: Format) -> None:
    """A raw image that a guest wrote a qcow2 header into would otherwise be opened as one."""
    assert find(disk_under_test(parsed(StorageConfig(format=kind))), "driver").get("type") == kind


@pytest.mark.parametrize("cache", get_args(Cache))
def test_the_cache_mode_stands_on_the_disk_under_test_alone(cache: Cache) -> None:
    """The root disk keeps libvirt's default."""
    tree = parsed(StorageConfig(cache=cache))
    assert find(disk_under_test(tree), "driver").get("cache") == cache
    root = next(disk for disk in tree.findall("devices/disk") if disk.findtext("serial") == ROOT_SERIAL)
    assert find(root, "driver").get("cache") is None


@pytest.mark.parametrize(
    ("bus", "target", "name"),
    [
        ("virtio-blk", "virtio", "vdb"),
        ("virtio-scsi", "scsi", "sda"),
        ("lsilogic", "scsi", "sda"),
        ("vmpvscsi", "scsi", "sda"),
        ("ide", "ide", "hda"),
        ("sata", "sata", "sda"),
        ("usb", "usb", "sda"),
    ],
)
def test_the_bus_is_libvirts_name_of_it(bus: Bus, target: str, name: str) -> None:
    """Each bus has its target; there is no name twice."""
    tree = parsed(StorageConfig(bus=bus))
    assert find(disk_under_test(tree), "target").attrib == {"dev": name, "bus": target}
    names = [element.get("dev") for element in tree.findall("devices/disk/target")]
    assert len(set(names)) == len(names) == 2


def test_every_bus_has_a_case_here() -> None:
    """A bus that is added must be checked above."""
    (mark,) = (mark for mark in test_the_bus_is_libvirts_name_of_it.pytestmark if mark.name == "parametrize")
    assert set(get_args(Bus)) - {"nvme"} == {case[0] for case in mark.args[1]}


@pytest.mark.parametrize("bus", get_args(Bus))
def test_a_scsi_bus_brings_its_controller_and_no_other_bus_does(bus: Bus) -> None:
    """Without it libvirt silently makes an LSI 53C895A."""
    models = [
        controller.get("model")
        for controller in parsed(StorageConfig(bus=bus)).findall("devices/controller")
        if controller.get("type") == "scsi"
    ]
    assert models == ([bus] if BUSES[bus].is_scsi_model else [])


@pytest.mark.parametrize("bus", get_args(Bus))
def test_usb_has_its_controller_and_no_other_bus_has_one(bus: Bus) -> None:
    """A controller that nobody asked for costs boot time."""
    (controller,) = [
        one.get("model") for one in parsed(StorageConfig(bus=bus)).findall("devices/controller[@type='usb']")
    ]
    assert controller == ("qemu-xhci" if bus == "usb" else "none")


@pytest.mark.parametrize("bus", get_args(Bus))
def test_the_machine_has_the_bus(bus: Bus) -> None:
    """q35 has no IDE: QEMU would refuse such a guest."""
    assert find(parsed(StorageConfig(bus=bus)), "os/type").get("machine") == ("pc" if bus == "ide" else "q35")


def test_the_disk_under_test_can_be_found_again() -> None:
    """Its alias is one that libvirt keeps, its serial short enough for virtio-blk, its path the cell's."""
    disk = disk_under_test(parsed(StorageConfig()))
    assert find(disk, "alias").get("name") == TEST_ALIAS
    assert TEST_ALIAS.startswith("ua-")
    assert len(TEST_SERIAL) <= 20
    assert len(ROOT_SERIAL) <= 20
    assert find(disk, "source").get("file") == "/srv/disk-1"
    assert disk.find("readonly") is None


def driver_options(**values: object) -> dict[str, str]:
    """The options of the disk's driver in a cell with these values."""
    return find(disk_under_test(parsed(StorageConfig(**values))), "driver").attrib


def test_what_a_tool_would_choose_is_said() -> None:
    """The defaults of libvirt and QEMU are not the same in every version."""
    assert driver_options() == {
        "name": "qemu",
        "type": "raw",
        "cache": "none",
        "io": "threads",
        "discard": "ignore",
        "detect_zeroes": "off",
        "error_policy": "report",
    }


def test_queues_and_iothread_stand_where_the_bus_has_them() -> None:
    """On the disk for virtio-blk, on the controller for virtio-scsi; the thread itself is declared."""
    values = {"iothread": True, "queues": 4, "vcpus": 4}
    options = driver_options(**values, queue_size=256)
    assert (options["iothread"], options["queues"], options["queue_size"]) == ("1", "4", "256")
    tree = parsed(StorageConfig(bus="virtio-scsi", **values))
    assert find(tree, "devices/controller[@type='scsi']/driver").attrib == {"iothread": "1", "queues": "4"}
    assert "iothread" not in find(disk_under_test(tree), "driver").attrib
    assert tree.findtext("iothreads") == "1"
    assert parsed(StorageConfig()).find("iothreads") is None


@pytest.mark.parametrize(
    ("asked", "says_bytes"),
    [
        ({"metadata_cache_size": "1M"}, 2**20),
        # the sum of which QEMU first takes four clusters for refcounts
        ({"l2_cache_size": "1M"}, 2**20 + 4 * 2**16),
        ({"l2_cache_size": "1M", "cluster_size": "128k"}, 2**20 + 4 * 2**17),
    ],
    ids=str,
)
def test_cache_sizes_are_libvirts_metadata_cache(asked: dict[str, object], says_bytes: int) -> None:
    """In bytes; libvirt knows the sum alone."""
    disk = disk_under_test(parsed(StorageConfig(format="qcow2", **asked)))
    size = find(disk, "driver/metadata_cache/max_size")
    assert (size.text, size.get("unit")) == (str(says_bytes), "bytes")


@pytest.mark.parametrize(
    ("axis", "option"), [("l2_cache_size", "l2-cache-size"), ("metadata_cache_size", "cache-size")]
)
def test_an_nvme_disks_cache_sizes_are_qemus_own(axis: str, option: str) -> None:
    """Each by its name, and the other not at all."""
    words = qemu_words(parsed(StorageConfig(bus="nvme", format="qcow2", **{axis: "1M"})))
    layer = json.loads(words[3])
    assert {name: size for name, size in layer.items() if "cache-size" in name} == {option: 2**20}


LIMITS = {"total_iops_sec": 200, "total_bytes_sec": "50M"}


@pytest.mark.parametrize("more", [{}, {"bus": "usb"}, {"backing": "null"}], ids=str)
def test_limits_are_libvirts_iotune(more: dict[str, object]) -> None:
    """In I/Os and bytes; only those that were asked for, and no element without any."""
    both = find(disk_under_test(parsed(StorageConfig(**LIMITS, **more))), "iotune")
    assert {one.tag: one.text for one in both} == {"total_iops_sec": "200", "total_bytes_sec": "52428800"}
    (only,) = find(disk_under_test(parsed(StorageConfig(total_iops_sec=200, **more))), "iotune")
    assert (only.tag, only.text) == ("total_iops_sec", "200")
    assert disk_under_test(parsed(StorageConfig(**more))).find("iotune") is None


def test_an_nvme_disks_limits_are_said_to_qemu() -> None:
    """libvirt does not know the disk; QEMU wants to be told of all six."""
    none = {"bps_rd": 0, "bps_wr": 0, "iops_rd": 0, "iops_wr": 0}
    assert nvme_limits(StorageConfig(bus="nvme", total_iops_sec=200)) == {
        "id": TEST_ALIAS,
        "iops": 200,
        "bps": 0,
        **none,
    }
    both = nvme_limits(StorageConfig(bus="nvme", **LIMITS))
    assert (both["iops"], both["bps"]) == (200, 50 * 2**20)
    assert nvme_limits(StorageConfig(bus="nvme")) == nvme_limits(StorageConfig(**LIMITS)) == {}


@pytest.mark.parametrize("cache", get_args(Cache))
def test_nvme_is_qemus_own_words(cache: Cache) -> None:
    """The block nodes libvirt would make of the cache mode, and the device behind them; libvirt has no disk."""
    config = StorageConfig(bus="nvme", format="qcow2", cache=cache, l2_cache_size="1M", detect_zeroes="on")
    tree = parsed(config)
    assert len(tree.findall("devices/disk")) == 1
    words = qemu_words(tree)
    assert words[::2] == ["-blockdev", "-blockdev", "-device"]
    storage, layer, device = (json.loads(word) for word in words[1::2])
    direct, no_flush, write_cache = CACHES[cache].flags
    assert storage["cache"] == layer["cache"] == {"direct": direct, "no-flush": no_flush}
    assert (storage["filename"], storage["aio"]) == ("/srv/disk-1", "threads")
    assert (layer["driver"], layer["file"], layer["l2-cache-size"]) == ("qcow2", storage["node-name"], 2**20)
    assert layer["detect-zeroes"] == "on"
    assert (device["driver"], device["drive"], device["id"]) == ("nvme", layer["node-name"], TEST_ALIAS)
    assert (device["serial"], device["write-cache"]) == (TEST_SERIAL, "on" if write_cache else "off")


@pytest.mark.parametrize(("machine", "bus"), [("q35", "pcie.0"), ("pc", "pci.0")])
def test_nvme_sits_on_the_machines_own_bus(machine: str, bus: str) -> None:
    """Its name depends on the machine."""
    tree = parsed(StorageConfig(bus="nvme", machine=machine))
    *_, device = tree.iter(f"{{{QEMU_NAMESPACE}}}arg")
    assert json.loads(device.get("value", ""))["bus"] == bus


def qemu_words(tree: ET.Element) -> list[str]:
    """QEMU's options of an NVMe disk."""
    return [arg.get("value", "") for arg in tree.findall(f"{{{QEMU_NAMESPACE}}}commandline/{{{QEMU_NAMESPACE}}}arg")]


def test_a_block_device_is_cut_to_the_cells_size() -> None:
    """The guest sees what was asked for, whatever the device has; qcow2 knows its own size."""
    for kind in ("raw", "qcow2"):
        disk = disk_under_test(parsed(StorageConfig(format=kind, size="64M"), disk="/dev/sdx", is_block=True))
        assert disk.get("type") == "block"
        assert find(disk, "source").attrib == {"dev": "/dev/sdx"}
        slices = [one.attrib for one in disk.iterfind("source/slices/slice")]
        assert slices == ([{"type": "storage", "offset": "0", "size": str(64 * 2**20)}] if kind == "raw" else [])
    words = qemu_words(parsed(StorageConfig(bus="nvme", size="64M"), disk="/dev/sdx", is_block=True))
    storage, layer = (json.loads(word) for word in words[1:4:2])
    assert (storage["driver"], storage["filename"]) == ("host_device", "/dev/sdx")
    assert (layer["offset"], layer["size"]) == (0, 64 * 2**20)


@pytest.mark.parametrize(
    ("cache", "direct", "no_flush"), [("none", True, False), ("writeback", False, False), ("unsafe", False, True)]
)
def test_a_null_disks_device_is_put_on_qemus_null_driver(cache: Cache, direct: bool, no_flush: bool) -> None:
    """libvirt's own disk gives bus, cache and alias; one property of its device is another, and no file is named."""
    config = StorageConfig(backing="null", cache=cache, size="64M")
    tree = parsed(config)
    option, text = qemu_words(tree)
    assert (option, json.loads(text)) == (
        "-blockdev",
        {
            "driver": "null-co",
            "node-name": NULL_NODE,
            "size": 64 * 2**20,
            "read-zeroes": True,
            "cache": {"direct": direct, "no-flush": no_flush},
        },
    )
    assert find(disk_under_test(tree), "alias").get("name") == TEST_ALIAS
    assert find(tree, f"{{{QEMU_NAMESPACE}}}override/{{{QEMU_NAMESPACE}}}device").get("alias") == TEST_ALIAS
    assert find(tree, f".//{{{QEMU_NAMESPACE}}}frontend/{{{QEMU_NAMESPACE}}}property").attrib == {
        "name": "drive",
        "type": "string",
        "value": NULL_NODE,
    }


def test_a_null_nvme_disk_has_no_file_at_all() -> None:
    """Its device is ours, and needs nothing of libvirt's overridden."""
    tree = parsed(StorageConfig(backing="null", bus="nvme"))
    words = qemu_words(tree)
    assert words[::2] == ["-blockdev", "-device"]
    node, device = (json.loads(word) for word in words[1::2])
    assert (node["driver"], device["drive"], device["write-cache"]) == ("null-co", node["node-name"], "on")
    assert tree.find(f"{{{QEMU_NAMESPACE}}}override") is None
    assert "/srv/disk-1" not in ET.tostring(tree, encoding="unicode")


def test_an_encrypted_disk_names_its_passphrase_in_every_layer() -> None:
    """libvirt knows it by the guest's UUID; of backing files it would not know without being told."""
    config = StorageConfig(format="qcow2", encryption="luks", backing_chain=2)
    tree = parsed(config, disk="/srv/disk-1.qcow2")
    disk = disk_under_test(tree)
    assert [one.get("uuid") for one in disk.iterfind(".//encryption/secret")] == [UUID] * 3
    assert secrets_of(tree) == (UUID,)
    files = [one.get("file") for one in disk.iter("source")]
    assert files == ["/srv/disk-1.qcow2", "/srv/disk-1.1-of-2.qcow2", "/srv/disk-1.2-of-2.qcow2"]
    assert len(disk.findall(".//backingStore")) == 3
    plain = parsed(StorageConfig(format="qcow2", backing_chain=2))
    assert (plain.find(".//encryption"), plain.find(".//backingStore")) == (None, None)
    assert secrets_of(plain) == ()


def test_nvme_has_all_layers_of_its_disk() -> None:
    """The lowest first, each with its passphrase, the cache mode and the io mode; those below cannot be written."""
    config = StorageConfig(format="qcow2", bus="nvme", encryption="luks", backing_chain=1, io="native", discard="unmap")
    words = qemu_words(parsed(config, disk="/srv/d.qcow2"))
    secret, *nodes, _ = (json.loads(word) for word in words[1::2])
    assert (secret["qom-type"], words[0]) == ("secret", "-object")
    base, below, top, layer = nodes
    assert [one["filename"] for one in (base, top)] == ["/srv/d.1-of-1.qcow2", "/srv/d.qcow2"]
    assert {one["aio"] for one in (base, top)} == {"native"}
    assert (below["backing"], below["read-only"], layer["backing"]) == (None, True, below["node-name"])
    assert below["encrypt"] == layer["encrypt"] == {"format": "luks", "key-secret": secret["id"]}


@pytest.mark.parametrize(
    ("fields", "text", "current"),
    [
        ({"config": StorageConfig(bus="nvme")}, "2", "1"),
        ({"config": StorageConfig(bus="nvme"), "accel": "kvm"}, "1", None),
        ({"config": StorageConfig(bus="nvme", vcpus=2), "vcpus": 2}, "2", None),
        ({"config": StorageConfig()}, "2", "1"),
        ({"config": StorageConfig(), "accel": "kvm"}, "1", None),
    ],
)
def test_one_emulated_cpu_has_a_second_one_that_is_absent(
    fields: dict[str, object], text: str, current: str | None
) -> None:
    """QEMU before 8.1 leaves memory barriers out where there can be one CPU only, and I/O is then lost."""
    vcpu = find(parsed(**fields), "vcpu")
    assert (vcpu.text, vcpu.get("current")) == (text, current)


def test_the_root_is_read_only_and_not_the_disk_under_test() -> None:
    """All guests share it; the measured disk holds nothing but the measurement."""
    root = parsed(StorageConfig()).findall("devices/disk")[0]
    assert root.findtext("serial") == ROOT_SERIAL
    assert root.find("readonly") is not None
    assert find(root, "source").get("file") == "/a/root"


def test_a_daemon_leaves_the_root_to_its_owner() -> None:
    """It never gives a read-only disk back; the disk under test it gives to QEMU's user, and takes away again."""
    root, tested = parsed(StorageConfig(), is_relabeled=True).findall("devices/disk")[:2]
    assert find(root, "source/seclabel").attrib == {"model": "dac", "relabel": "no"}
    assert tested.find("source/seclabel") is None
    assert parsed(StorageConfig()).find("devices/disk/source/seclabel") is None


def test_a_canary_has_its_root_alone() -> None:
    """A guest without a cell is no reason for a second disk."""
    assert len(parsed(None).findall("devices/disk")) == 1


@pytest.mark.parametrize(("accel", "kind", "cpu"), [("kvm", "kvm", "host-passthrough"), ("tcg", "qemu", None)])
def test_acceleration_is_the_domains_type(accel: str, kind: str, cpu: str | None) -> None:
    """TCG knows no host-passthrough."""
    tree = parsed(StorageConfig(), accel=accel)
    assert tree.get("type") == kind
    element = tree.find("cpu")
    assert (element.get("mode") if element is not None else None) == cpu


def test_a_guest_boots_straight_into_its_kernel_and_ends_when_it_fails() -> None:
    """Panic and reboot end it, so that its death is seen at once."""
    tree = parsed(StorageConfig(), memory_bytes=2**29, vcpus=2)
    assert [tree.findtext(f"os/{name}") for name in ("kernel", "initrd", "cmdline")] == [
        "/a/kernel",
        "/a/initrd",
        "console=ttyS0 quiet",
    ]
    assert [tree.findtext(name) for name in ("on_poweroff", "on_reboot", "on_crash")] == ["destroy"] * 3
    assert (find(tree, "memory").get("unit"), tree.findtext("memory"), tree.findtext("vcpu")) == ("b", "536870912", "2")
    assert (tree.findtext("name"), tree.findtext("uuid")) == ("vms-0123456789-1", UUID)


def test_a_guest_has_an_agent_and_a_console_and_no_network() -> None:
    """These are the two ways in and out."""
    tree = parsed(StorageConfig())
    assert find(tree, "devices/channel/target").attrib == {"type": "virtio", "name": AGENT_PORT}
    assert find(tree, "devices/serial/source").get("path") == "/srv/console"
    assert tree.find("devices/interface") is None


def test_a_path_with_xml_in_it_is_escaped() -> None:
    """A folder may be called anything."""
    assert (
        find(disk_under_test(parsed(StorageConfig(), disk="/srv/<a> & 'b'\"")), "source").get("file")
        == "/srv/<a> & 'b'\""
    )


def test_the_lease_stands_in_the_metadata() -> None:
    """Whoever finds the guest can say whose it is; without a lease there is no metadata."""
    lease = find(parsed(StorageConfig(), LEASE), f"metadata/{{{LEASE_NAMESPACE}}}lease")
    assert lease.attrib == {
        "run": "0123456789",
        "host": "lab",
        "boot_id": "b-1",
        "pid": "77",
        "started_ticks": "12345",
        "expires": "1700000001",
    }
    assert parsed(StorageConfig()).find("metadata") is None


@pytest.fixture(scope="module")
def schema() -> Iterator[Callable[[str], None]]:
    """libvirt's own schema, by its test driver: no QEMU and no daemon, but libvirt itself is needed."""
    try:
        import libvirt

        connection = libvirt.open("test:///default")
    except Exception as error:
        # a libvirtError cannot be named where libvirt is not there
        pytest.skip(f"no libvirt with a test driver here: {error}")
    yield lambda xml: connection.defineXMLFlags(xml, libvirt.VIR_DOMAIN_DEFINE_VALIDATE).undefine()
    connection.close()


@pytest.mark.parametrize("bus", get_args(Bus))
@pytest.mark.parametrize("accel", get_args(Accel))
def test_libvirts_schema_has_every_word_of_it(schema: Callable[[str], None], bus: Bus, accel: Accel) -> None:
    """An unknown element is refused by the schema, and without it silently dropped."""
    # no element and no attribute follows from both
    for axes in (*({"cache": cache} for cache in get_args(Cache)), *({"format": kind} for kind in get_args(Format))):
        schema(domain_xml(spec(StorageConfig(bus=bus, **axes), accel=accel), LEASE))
    schema(domain_xml(spec(StorageConfig(bus=bus, io="native", discard="unmap", detect_zeroes="unmap"), accel=accel)))
    for more in ({"encryption": "luks", "backing_chain": 2}, {"encryption": "luks"}):
        schema(domain_xml(spec(StorageConfig(bus=bus, format="qcow2", **more), accel=accel), LEASE))
    schema(domain_xml(spec(StorageConfig(bus=bus), accel=accel, disk="/dev/sdx", is_block=True), LEASE))
    schema(domain_xml(spec(StorageConfig(bus=bus, backing="null"), accel=accel), LEASE))
    schema(domain_xml(spec(StorageConfig(bus=bus, **LIMITS), accel=accel), LEASE))
    if BUSES[bus].is_virtio:
        schema(domain_xml(spec(StorageConfig(bus=bus, iothread=True, queues=2, vcpus=2), accel=accel), LEASE))
        pinning = Pinning(vcpus=(2,), iothread=1, others=0)
        schema(domain_xml(spec(StorageConfig(bus=bus, iothread=True), accel=accel, pinning=pinning), LEASE))
        schema(domain_xml(spec(StorageConfig(bus=bus), accel=accel, pinning=Pinning(within=(0, 2))), LEASE))
    with pytest.raises(Exception, match="failed to validate against schema"):
        schema(domain_xml(spec(StorageConfig(bus=bus))).replace("<devices>", "<devices><teapot/>"))


def test_pinned_threads_have_a_cpu_each() -> None:
    """Every vCPU, the I/O thread and all else; nothing of it where they could not be pinned, or nobody asked."""
    cell = StorageConfig(vcpus=2, iothread=True)
    tuned = find(parsed(cell, vcpus=2, pinning=Pinning(vcpus=(2, 3), iothread=1, others=0)), "cputune")
    assert [(one.tag, dict(one.attrib)) for one in tuned] == [
        ("vcpupin", {"vcpu": "0", "cpuset": "2"}),
        ("vcpupin", {"vcpu": "1", "cpuset": "3"}),
        ("emulatorpin", {"cpuset": "0"}),
        ("iothreadpin", {"iothread": "1", "cpuset": "1"}),
    ]
    for pinning in (None, Pinning(why_not="too few")):
        assert parsed(cell, pinning=pinning).find("cputune") is None


def test_all_of_qemu_has_the_cpus_that_its_host_lists() -> None:
    """By the vCPUs' cpuset, which libvirt takes for every thread that has none of its own; in libvirt's schema."""
    together = Pinning(within=(2, 3, 8))
    for vcpus in (1, 2):
        xml = parsed(StorageConfig(vcpus=vcpus), vcpus=vcpus, pinning=together)
        assert find(xml, "vcpu").get("cpuset") == "2-3,8"
        assert xml.find("cputune") is None
    assert find(parsed(StorageConfig(vcpus=2), vcpus=2), "vcpu").get("cpuset") is None

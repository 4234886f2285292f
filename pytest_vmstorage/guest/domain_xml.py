"""From a StorageConfig and paths to libvirt's domain XML; pure."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from xml.etree import ElementTree as ET

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import DEFAULT_MEMORY_BYTES, StorageConfig
from pytest_vmstorage.config.cpu_list import format_cpus
from pytest_vmstorage.config.settings import Accel
from pytest_vmstorage.guest.cloud_image.image import ImageBoot
from pytest_vmstorage.guest.disk_xml import QEMU_NAMESPACE, add_arguments, disk_elements, qemu_elements
from pytest_vmstorage.guest.pinning import Pinning
from pytest_vmstorage.host.lease import Lease

LEASE_NAMESPACE = "https://pypi.org/project/pytest-vmstorage/lease/1"
"""XML namespace of the lease in a domain's metadata."""

NOBODY = "00000000-0000-0000-0000-000000000000"
"""A UUID that stands for any."""

ROOT_SERIAL = "vmstorage-root"
SEED_SERIAL = "vmstorage-seed"
AGENT_PORT = "org.qemu.guest_agent.0"


class GuestSpec(BaseModel):
    """All that a guest's XML is made from: paths on the lab host, memory in bytes, the cell's disk.

    With `is_block` the disk is a block device of the host, of which the guest gets the cell's size; with `is_filled` it
    was written on the host already. `pinning` is None where nobody asked for it. With `image` the guest boots from
    that, and not from kernel and root. `root_sha256` is that of the file which is its root, or lies below it; the XML
    does not say it. With `is_relabeled` a daemon gives QEMU's user what it opens. `genid` is the guest's generation,
    None for a guest that no other is restored from: its kernel takes another one for the sign to forget what random
    numbers it had.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    uuid: str
    genid: str | None = None
    config: StorageConfig | None
    disk: str
    is_block: bool = False
    is_filled: bool = False
    is_relabeled: bool = False
    kernel: str
    initrd: str
    cmdline: str
    root: str
    root_sha256: str = ""
    console: str
    accel: Accel
    emulator: str
    vcpus: int = 1
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    pinning: Pinning | None = None
    image: ImageBoot | None = None


def machine(config: StorageConfig | None) -> str:
    """The machine type of a cell's guest; a canary's is that of most cells."""
    return config.machine_type if config is not None else "q35"


def domain_xml(spec: GuestSpec, lease: Lease | None = None) -> str:
    """The XML of a transient guest with the disk under test, booted straight into its kernel, or from its own image.

    Source of the element names: libvirt.org/formatdomain.html; of the choices: tried on libvirt 9.0.
    """
    domain = ET.Element("domain", type="kvm" if spec.accel == "kvm" else "qemu")
    _identity(domain, spec)
    if lease is not None:
        domain.append(_metadata(lease))
    _add(domain, "memory", str(spec.memory_bytes), unit="b")
    _vcpu(domain, spec)
    if spec.config is not None and spec.config.iothread:
        _add(domain, "iothreads", "1")
    if spec.pinning is not None and spec.pinning.others is not None:
        domain.append(_cputune(spec.pinning))
    _os(domain, spec)
    ET.SubElement(ET.SubElement(domain, "features"), "acpi")
    if spec.accel == "kvm":
        ET.SubElement(domain, "cpu", mode="host-passthrough")
    ET.SubElement(domain, "clock", offset="utc")
    # a panic or reboot ends the guest, so that its death is seen at once and not after a time limit
    for event in ("on_poweroff", "on_reboot", "on_crash"):
        _add(domain, event, "destroy")
    _devices(domain, spec)
    if spec.config is not None:
        domain.extend(qemu_elements(spec.config, spec.disk))
    if spec.image is not None:
        add_arguments(domain, spec.image.door.arguments(machine(spec.config)))
    domain.append(_left_out())
    return ET.tostring(domain, encoding="unicode")


def _left_out() -> ET.Element:
    """What of QEMU libvirt is not to use: the list of features that a processor lacks.

    With it libvirt asks each guest that begins for every property of its processor, 400 answers one by one, and QEMU
    reads what it is asked byte by byte (monitor_can_read in monitor/monitor.c, 7.2): half a second on slow cores.
    Without it libvirt asks for all features at once (qemuProcessFetchGuestCPU in qemu_process.c, 9.0). QEMU's command
    line is the same (tried on libvirt 9.0).
    """
    ET.register_namespace("qemu", QEMU_NAMESPACE)
    capabilities = ET.Element(f"{{{QEMU_NAMESPACE}}}capabilities")
    ET.SubElement(capabilities, f"{{{QEMU_NAMESPACE}}}del", capability="cpu-unavailable-features")
    return capabilities


def _identity(domain: ET.Element, spec: GuestSpec) -> None:
    _add(domain, "name", spec.name)
    _add(domain, "uuid", spec.uuid)
    if spec.genid is not None:
        _add(domain, "genid", spec.genid)


def definition_sha256(spec: GuestSpec) -> str:
    """SHA-256 in hexadecimal of the XML without what each guest has for itself: names, and paths of its files."""
    paths = {what: what for what in ("name", "disk", "kernel", "initrd", "root", "console")}
    image = spec.image
    if image is not None:
        door = image.door and image.door.model_copy(update={"port": 0, "mac": "", "folder": ""})
        image = image.model_copy(update={"overlay": "overlay", "seed": "seed", "door": door})
    genid = spec.genid and NOBODY
    neutral = spec.model_copy(update={**paths, "uuid": NOBODY, "genid": genid, "image": image})
    return sha256(domain_xml(neutral).encode()).hexdigest()


def _vcpu(domain: ET.Element, spec: GuestSpec) -> None:
    # QEMU before 8.1 leaves memory barriers out where one emulated CPU is all there can be (qemu commit c914d46d0a64),
    # and I/O is lost: on 7.2 half of the guests with NVMe waited 30 s for a command, and one of 300 jobs on virtio-blk
    # waited for ever on a busy host; a second CPU that is not there helps
    # QEMU's other threads have the vCPUs' cpuset where nothing else is said of them
    within = {"cpuset": format_cpus(spec.pinning.within)} if spec.pinning and spec.pinning.within else {}
    if spec.vcpus == 1 and spec.accel == "tcg":
        _add(domain, "vcpu", "2", current="1", **within)
    else:
        _add(domain, "vcpu", str(spec.vcpus), **within)


def _cputune(pinning: Pinning) -> ET.Element:
    # by sched_setaffinity where there is no cgroup: the embedded driver and an ordinary user may (tried on 9.0)
    cputune = ET.Element("cputune")
    for number, cpu in enumerate(pinning.vcpus):
        ET.SubElement(cputune, "vcpupin", vcpu=str(number), cpuset=str(cpu))
    ET.SubElement(cputune, "emulatorpin", cpuset=str(pinning.others))
    if pinning.iothread is not None:
        ET.SubElement(cputune, "iothreadpin", iothread="1", cpuset=str(pinning.iothread))
    return cputune


def _os(domain: ET.Element, spec: GuestSpec) -> None:
    os_element = ET.SubElement(domain, "os")
    _add(os_element, "type", "hvm", arch="x86_64", machine=machine(spec.config))
    if spec.image is not None:
        # its own boot loader, found by the firmware on the one disk that has a place in the order
        return
    _add(os_element, "kernel", spec.kernel)
    _add(os_element, "initrd", spec.initrd)
    _add(os_element, "cmdline", spec.cmdline)


def _devices(domain: ET.Element, spec: GuestSpec) -> None:
    devices = ET.SubElement(domain, "devices")
    _add(devices, "emulator", spec.emulator)
    devices.extend([_root_disk(spec)] if spec.image is None else _image_disks(spec.image))
    if spec.config is not None:
        devices.extend(disk_elements(spec.config, spec.disk, spec.uuid, is_block=spec.is_block))
    else:
        ET.SubElement(devices, "controller", type="usb", index="0", model="none")
    serial = ET.SubElement(devices, "serial", type="file")
    ET.SubElement(serial, "source", path=spec.console)
    ET.SubElement(serial, "target", port="0")
    channel = ET.SubElement(devices, "channel", type="unix")
    ET.SubElement(channel, "target", type="virtio", name=AGENT_PORT)
    ET.SubElement(devices, "memballoon", model="none")
    # a guest without it has no entropy for seconds, and mkfs waits for some
    rng = ET.SubElement(devices, "rng", model="virtio")
    _add(rng, "backend", "/dev/urandom", model="random")


def _root_disk(spec: GuestSpec) -> ET.Element:
    disk = ET.Element("disk", type="file", device="disk")
    ET.SubElement(disk, "driver", name="qemu", type="raw")
    source = ET.SubElement(disk, "source", file=spec.root)
    if spec.is_relabeled:
        # anybody may read it, and libvirt never gives a read-only disk back: other guests might still have it
        ET.SubElement(source, "seclabel", model="dac", relabel="no")
    ET.SubElement(disk, "target", dev="vda", bus="virtio")
    ET.SubElement(disk, "readonly")
    _add(disk, "serial", ROOT_SERIAL)
    return disk


def _image_disks(image: ImageBoot) -> Iterator[ET.Element]:
    """The guest's root over the user's image, and its seed; what is written there is lost with the guest."""
    root = ET.Element("disk", type="file", device="disk")
    ET.SubElement(root, "driver", name="qemu", type="qcow2", cache="unsafe", discard="unmap")
    ET.SubElement(root, "source", file=image.overlay)
    ET.SubElement(root, "target", dev="vda", bus="virtio")
    ET.SubElement(root, "boot", order="1")
    _add(root, "serial", ROOT_SERIAL)
    yield root
    seed = ET.Element("disk", type="file", device="disk")
    ET.SubElement(seed, "driver", name="qemu", type="raw")
    ET.SubElement(seed, "source", file=image.seed)
    ET.SubElement(seed, "target", dev="vdc", bus="virtio")
    ET.SubElement(seed, "readonly")
    _add(seed, "serial", SEED_SERIAL)
    yield seed


def _metadata(lease: Lease) -> ET.Element:
    ET.register_namespace("v", LEASE_NAMESPACE)
    metadata = ET.Element("metadata")
    owner = lease.owner
    ET.SubElement(
        metadata,
        f"{{{LEASE_NAMESPACE}}}lease",
        run=lease.run_id,
        host=owner.host,
        boot_id=owner.boot_id,
        pid=str(owner.pid),
        started_ticks=str(owner.started_ticks),
        expires=f"{lease.expires:.0f}",
    )
    return metadata


def _add(parent: ET.Element, tag: str, text: str, **attributes: str) -> None:
    ET.SubElement(parent, tag, attributes).text = text

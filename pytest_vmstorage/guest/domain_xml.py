"""From a StorageConfig and paths to libvirt's domain XML; pure."""

from __future__ import annotations

from hashlib import sha256
from xml.etree import ElementTree as ET

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import DEFAULT_MEMORY_BYTES, StorageConfig
from pytest_vmstorage.config.cpu_list import format_cpus
from pytest_vmstorage.config.settings import Accel
from pytest_vmstorage.guest.cloud_image.image import ImageBoot
from pytest_vmstorage.guest.disk_xml import disk_elements, element, qemu_elements
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
    """The XML of a transient guest with the disk under test, which boots its kernel directly, or its own image.

    Source of the element names: libvirt.org/formatdomain.html; of the choices: tried on libvirt 9.0.
    """
    config, pinning, image = spec.config, spec.pinning, spec.image
    domain = element(
        "domain",
        element("name", spec.name),
        element("uuid", spec.uuid),
        element("genid", spec.genid) if spec.genid is not None else None,
        _metadata(lease) if lease is not None else None,
        element("memory", str(spec.memory_bytes), unit="b"),
        _vcpu(spec),
        element("iothreads", "1") if config is not None and config.iothread else None,
        _cputune(pinning) if pinning is not None and pinning.others is not None else None,
        _os(spec),
        element("features", element("acpi")),
        element("cpu", mode="host-passthrough") if spec.accel == "kvm" else None,
        element("clock", offset="utc"),
        # a panic or reboot ends the guest, so that its death is seen at once and not after a time limit
        *(element(event, "destroy") for event in ("on_poweroff", "on_reboot", "on_crash")),
        _devices(spec),
        *qemu_elements(config, spec.disk, image.door.arguments(machine(config)) if image is not None else ()),
        type="kvm" if spec.accel == "kvm" else "qemu",
    )
    return ET.tostring(domain, encoding="unicode")


def definition_sha256(spec: GuestSpec) -> str:
    """SHA-256 in hexadecimal of the XML without each guest's own values: names, and paths of its files."""
    paths = {what: what for what in ("name", "disk", "kernel", "initrd", "root", "console")}
    image = spec.image
    if image is not None:
        door = image.door.model_copy(update={"port": 0, "mac": "", "folder": ""})
        image = image.model_copy(update={"overlay": "overlay", "seed": "seed", "door": door})
    genid = spec.genid and NOBODY
    neutral = spec.model_copy(update={**paths, "uuid": NOBODY, "genid": genid, "image": image})
    return sha256(domain_xml(neutral).encode()).hexdigest()


def _vcpu(spec: GuestSpec) -> ET.Element:
    # QEMU's other threads have the vCPUs' cpuset where none is given for them
    within = {"cpuset": format_cpus(spec.pinning.within)} if spec.pinning and spec.pinning.within else {}
    if spec.vcpus == 1 and spec.accel == "tcg":
        # QEMU before 8.1 leaves memory barriers out where there can be only one emulated CPU (qemu commit
        # c914d46d0a64), and I/O is lost: on 7.2 half of the guests with NVMe waited 30 s for a command, and one of 300
        # jobs on virtio-blk waited for ever on a busy host; a second CPU that is not there helps
        return element("vcpu", "2", current="1", **within)
    return element("vcpu", str(spec.vcpus), **within)


def _cputune(pinning: Pinning) -> ET.Element:
    # by sched_setaffinity where there is no cgroup: the embedded driver and an ordinary user may (tried on 9.0)
    iothread = element("iothreadpin", iothread="1", cpuset=str(pinning.iothread))
    return element(
        "cputune",
        *(element("vcpupin", vcpu=str(number), cpuset=str(cpu)) for number, cpu in enumerate(pinning.vcpus)),
        element("emulatorpin", cpuset=str(pinning.others)),
        iothread if pinning.iothread is not None else None,
    )


def _os(spec: GuestSpec) -> ET.Element:
    kind = element("type", "hvm", arch="x86_64", machine=machine(spec.config))
    if spec.image is not None:
        # the firmware finds the image's own boot loader on the one disk that has a place in the boot order
        return element("os", kind)
    boot = (element(name, getattr(spec, name)) for name in ("kernel", "initrd", "cmdline"))
    return element("os", kind, *boot)


def _devices(spec: GuestSpec) -> ET.Element:
    config, no_usb = spec.config, element("controller", type="usb", index="0", model="none")
    return element(
        "devices",
        element("emulator", spec.emulator),
        *_boot_disks(spec),
        *([no_usb] if config is None else disk_elements(config, spec.disk, spec.uuid, is_block=spec.is_block)),
        element("serial", element("source", path=spec.console), element("target", port="0"), type="file"),
        element("channel", element("target", type="virtio", name=AGENT_PORT), type="unix"),
        element("memballoon", model="none"),
        # a guest without it has no entropy for seconds, and mkfs waits for some
        element("rng", element("backend", "/dev/urandom", model="random"), model="virtio"),
    )


def _boot_disks(spec: GuestSpec) -> list[ET.Element]:
    """The appliance's root; or a root over the user's image, whose writes are lost with the guest, and its seed."""
    if spec.image is None:
        # anybody may read it, and libvirt never gives a read-only disk back: other guests might still have it
        label = element("seclabel", model="dac", relabel="no") if spec.is_relabeled else None
        return [_boot_disk(element("source", label, file=spec.root), "vda", "readonly", ROOT_SERIAL, type="raw")]
    root, seed = (element("source", file=path) for path in (spec.image.overlay, spec.image.seed))
    return [
        _boot_disk(root, "vda", "boot", ROOT_SERIAL, type="qcow2", cache="unsafe", discard="unmap"),
        _boot_disk(seed, "vdc", "readonly", SEED_SERIAL, type="raw"),
    ]


def _boot_disk(source: ET.Element, target: str, kind: str, serial: str, **driver: str) -> ET.Element:
    return element(
        "disk",
        element("driver", name="qemu", **driver),
        source,
        element("target", dev=target, bus="virtio"),
        element("boot", order="1") if kind == "boot" else element("readonly"),
        element("serial", serial),
        type="file",
        device="disk",
    )


def _metadata(lease: Lease) -> ET.Element:
    ET.register_namespace("v", LEASE_NAMESPACE)
    told = {
        "run": lease.run_id,
        **{name: str(getattr(lease.owner, name)) for name in ("host", "boot_id", "pid", "started_ticks")},
        "expires": f"{lease.expires:.0f}",
    }
    return element("metadata", element(f"{{{LEASE_NAMESPACE}}}lease", **told))

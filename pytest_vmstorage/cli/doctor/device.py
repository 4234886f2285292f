"""Which devices and machines a guest on a host can have: pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

from pytest_vmstorage.cli.doctor.seen import NO_GUEST, AxisFinding, Seen, Status
from pytest_vmstorage.config.buses import BUSES, CACHES, Bus, Cache
from pytest_vmstorage.config.cell import SMALLEST_MEMORY_BYTES, Discard, Io, Machine
from pytest_vmstorage.config.rules.device import LEAST_BYTES_SEC, LEAST_IOPS_SEC
from pytest_vmstorage.units import format_about, format_size

MACHINES = ("q35", "pc")


SCHEDULERS: Mapping[str, str] = {"mq-deadline": "mq_deadline", "kyber": "kyber_iosched", "bfq": "bfq"}
"""Modules of the guest's I/O schedulers; none needs no module."""


def caches(seen: Seen) -> Iterator[AxisFinding]:
    """By O_DIRECT in the folder, and by what usb-storage does with the write cache."""
    for name in get_args(Cache):
        direct, write_cache = CACHES[name].direct, CACHES[name].write_cache
        trial = seen.trial("direct")
        if direct and not trial.ok:
            yield AxisFinding(axis="cache", value=name, status="no", why=f"no O_DIRECT in the folder: {trial.said}")
            continue
        way = "O_DIRECT works in the folder" if direct else "through the host's page cache"
        if seen.has_guests and not write_cache and seen.trial("usb_write_cache").said == "auto":
            usb = f"usb-storage of QEMU {seen.qemu} leaves its disk's write cache on, tried"
            yield AxisFinding(axis="cache", value=name, status="limited", why=f"{way}; not on usb: {usb}")
        else:
            yield seen.needs_guest("cache", name, way)


def buses(seen: Seen) -> Iterator[AxisFinding]:
    """By libvirt's list for each machine type, QEMU's devices and the guest kernel's drivers."""
    there = seen.trial("devices").said.split()
    for bus in get_args(Bus):
        lacking = [name for name in BUSES[bus].devices if name not in there]
        modules = [name for name in BUSES[bus].modules if name not in seen.modules]
        status, why = _bus_in_libvirt(bus, seen)
        if not seen.has_guests:
            status, why = "no", NO_GUEST
        elif lacking:
            status, why = "no", f"QEMU {seen.qemu} has no device {' and no '.join(lacking)}"
        elif modules:
            status, why = "no", f"the guest appliance's kernel lacks {' and '.join(modules)}"
        yield AxisFinding(axis="bus", value=bus, status=status, why=why)


def _bus_in_libvirt(bus: Bus, seen: Seen) -> tuple[Status, str]:
    if bus == "nvme":
        if any("nvme" in known for known in seen.buses.values()):
            return "yes", f"by qemu:commandline, though libvirt {seen.libvirt} has the bus itself"
        return "yes", f"by qemu:commandline: libvirt {seen.libvirt} has no such bus (11.5 has)"
    machines = [name for name in MACHINES if BUSES[bus].libvirt in seen.buses.get(name, ())]
    if not machines:
        return "no", f"libvirt {seen.libvirt} has it for no machine type here"
    lacking = [name for name in MACHINES if name not in machines]
    also = f", not on {lacking[0]}" if lacking else ""
    return "limited" if lacking else "yes", f"on {' and '.join(machines)}{also}, says libvirt {seen.libvirt}"


def machines(seen: Seen) -> Iterator[AxisFinding]:
    """By libvirt's capabilities."""
    for name in get_args(Machine):
        if name == "auto":
            yield seen.needs_guest("machine", name, "pc for bus ide, otherwise q35")
        elif seen.has_guests and not seen.buses.get(name):
            yield AxisFinding(axis="machine", value=name, status="no", why=f"QEMU {seen.qemu} has no such machine")
        else:
            yield seen.needs_guest("machine", name, f"libvirt {seen.libvirt} can start it")


def ios(seen: Seen) -> Iterator[AxisFinding]:
    """By a write of qemu-io with each in the folder."""
    for name in get_args(Io):
        found = seen.tried("io", name, f"io.{name}", "qemu-io wrote with it in the folder")
        disabled = seen.trial("io_uring_disabled").said
        if name == "io_uring" and found.status == "no" and disabled in ("1", "2"):
            found = found.model_copy(update={"why": f"{found.why} (kernel.io_uring_disabled={disabled})"})
        yield found


def iothreads(seen: Seen) -> Iterator[AxisFinding]:
    """With virtio in QEMU they are there."""
    yield seen.needs_guest("iothread", "yes", "virtio-blk and virtio-scsi")


def queues(seen: Seen) -> Iterator[AxisFinding]:
    """As many as a guest has vCPUs make a difference."""
    yield seen.needs_guest("queues", "1 or more", "virtio-blk and virtio-scsi; a guest uses no more than it has vCPUs")


def queue_sizes(seen: Seen) -> Iterator[AxisFinding]:
    """QEMU's own limits."""
    yield seen.needs_guest("queue_size", "4 to 1024", "virtio-blk; powers of two")


def discards(seen: Seen) -> Iterator[AxisFinding]:
    """By a hole punched into a file in the folder."""
    for name in get_args(Discard):
        yield _punching(seen, "discard", name)


def detect_zeroes(seen: Seen) -> Iterator[AxisFinding]:
    """The same hole; `on` writes zeros more cheaply and punches none."""
    for name in ("off", "on", "unmap"):
        yield _punching(seen, "detect_zeroes", name)


def _punching(seen: Seen, axis: str, value: str) -> AxisFinding:
    if value != "unmap":
        return seen.needs_guest(axis, value, "QEMU's own")
    trial = seen.trial("punch")
    if not trial.ok:
        why = f"the folder's file system punches no holes, so that discards free nothing: {trial.said}"
        return AxisFinding(axis=axis, value=value, status="limited", why=why)
    return seen.needs_guest(axis, value, "raw and qcow2: the folder's file system punches holes, tried")


def limits(seen: Seen) -> Iterator[AxisFinding]:
    """QEMU's throttle, which every version here has."""
    least = {"total_iops_sec": str(LEAST_IOPS_SEC), "total_bytes_sec": format_size(LEAST_BYTES_SEC)}
    for axis, value in least.items():
        yield seen.needs_guest(axis, f"{value} or more", "by QEMU's throttle, on every bus")


def schedulers(seen: Seen) -> Iterator[AxisFinding]:
    """By the guest kernel's modules."""
    yield seen.needs_guest("scheduler", "default", "what the guest's kernel takes")
    yield seen.needs_guest("scheduler", "none", "every kernel has it")
    for name, module in SCHEDULERS.items():
        if seen.has_guests and module not in seen.modules:
            why = f"the guest appliance's kernel lacks {module}"
            yield AxisFinding(axis="scheduler", value=name, status="no", why=why)
        else:
            yield seen.needs_guest("scheduler", name, f"{module} is in the guest appliance")


def vcpus(seen: Seen) -> Iterator[AxisFinding]:
    """By the host's cores."""
    cores = seen.number("cores")
    yield seen.needs_guest("vcpus", f"1 to {cores}", "as many as the host has cores")
    why = f"the host has {cores} cores, which more vCPUs would share"
    status: Status = "limited" if seen.has_guests else "no"
    yield AxisFinding(axis="vcpus", value="more", status=status, why=why if seen.has_guests else NO_GUEST)


def emulators(seen: Seen) -> Iterator[AxisFinding]:
    """The host's own by its version; another one is looked at when a cell names it."""
    yield seen.needs_guest("emulator", "default", f"QEMU {seen.qemu}, the host's own")
    yield seen.needs_guest("emulator", "a path", "any other QEMU on the host; it is tried before a guest is made")


def memories(seen: Seen) -> Iterator[AxisFinding]:
    """By the host's available memory."""
    free = seen.number("memory_kib") * 1024
    least, most = format_size(SMALLEST_MEMORY_BYTES), format_about(free)
    if free < SMALLEST_MEMORY_BYTES:
        yield AxisFinding(axis="memory", value=least, status="no", why=f"the host has {most} available")
        return
    yield seen.needs_guest("memory", f"{least} to {most}", "what the host has available now")

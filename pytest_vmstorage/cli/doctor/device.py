"""Devices and machine types that a guest on a host can have: pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

from pytest_vmstorage.cli.doctor.seen import NO_GUEST, AxisFinding, Observations, Status, finding
from pytest_vmstorage.config.buses import BUSES, CACHES, Bus, Cache
from pytest_vmstorage.config.cell import SMALLEST_MEMORY_BYTES, Discard, Io, Machine
from pytest_vmstorage.config.rules.device import LEAST_BYTES_SEC, LEAST_IOPS_SEC
from pytest_vmstorage.units import format_about, format_size

MACHINES = ("q35", "pc")


SCHEDULERS: Mapping[str, str] = {"mq-deadline": "mq_deadline", "kyber": "kyber_iosched", "bfq": "bfq"}
"""Modules of the guest's I/O schedulers; none needs no module."""


_IN_ANY_GUEST = (
    ("machine", "auto", "pc for bus ide, otherwise q35"),
    ("iothread", "yes", "virtio-blk and virtio-scsi"),
    ("queues", "1 or more", "virtio-blk and virtio-scsi; a guest uses no more than it has vCPUs"),
    ("queue_size", "4 to 1024", "virtio-blk; powers of two"),
    ("total_iops_sec", f"{LEAST_IOPS_SEC} or more", "by QEMU's throttle, on every bus"),
    ("total_bytes_sec", f"{format_size(LEAST_BYTES_SEC)} or more", "by QEMU's throttle, on every bus"),
    ("scheduler", "default", "what the guest's kernel takes"),
    ("scheduler", "none", "every kernel has it"),
)


def findings(seen: Observations) -> Iterator[AxisFinding]:
    """By trials in the folder, libvirt's capabilities, QEMU's devices and the guest kernel's modules."""
    yield from (seen.needs_guest(*one) for one in _IN_ANY_GUEST)
    for judge in (_caches, _buses, _machines, _ios, _punchers, _schedulers, _vcpus, _memories):
        yield from judge(seen)
    yield seen.needs_guest("emulator", "default", f"QEMU {seen.qemu}, the host's own")
    yield seen.needs_guest("emulator", "a path", "any other QEMU on the host; it is tried before a guest is made")


def _caches(seen: Observations) -> Iterator[AxisFinding]:
    """By O_DIRECT in the folder, and by what usb-storage does with the write cache."""
    for name in get_args(Cache):
        direct, write_cache = CACHES[name].direct, CACHES[name].write_cache
        trial = seen.trial("direct")
        if direct and not trial.ok:
            yield finding("cache", name, "no", f"no O_DIRECT in the folder: {trial.said}")
            continue
        way = "O_DIRECT works in the folder" if direct else "through the host's page cache"
        if seen.has_guests and not write_cache and seen.trial("usb_write_cache").said == "auto":
            usb = f"usb-storage of QEMU {seen.qemu} leaves its disk's write cache on, tried"
            yield finding("cache", name, "limited", f"{way}; not on usb: {usb}")
        else:
            yield seen.needs_guest("cache", name, way)


def _buses(seen: Observations) -> Iterator[AxisFinding]:
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
        yield finding("bus", bus, status, why)


def _bus_in_libvirt(bus: Bus, seen: Observations) -> tuple[Status, str]:
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


def _machines(seen: Observations) -> Iterator[AxisFinding]:
    """By libvirt's capabilities."""
    for name in get_args(Machine)[1:]:
        if seen.has_guests and not seen.buses.get(name):
            yield finding("machine", name, "no", f"QEMU {seen.qemu} has no such machine")
        else:
            yield seen.needs_guest("machine", name, f"libvirt {seen.libvirt} can start it")


def _ios(seen: Observations) -> Iterator[AxisFinding]:
    """By a write of qemu-io with each in the folder."""
    for name in get_args(Io):
        found = seen.tried("io", name, f"io.{name}", "qemu-io wrote with it in the folder")
        disabled = seen.trial("io_uring_disabled").said
        if name == "io_uring" and found.status == "no" and disabled in ("1", "2"):
            found = found.model_copy(update={"why": f"{found.why} (kernel.io_uring_disabled={disabled})"})
        yield found


def _punchers(seen: Observations) -> Iterator[AxisFinding]:
    """By a hole punched into a file in the folder; detect_zeroes=on writes zeros more cheaply and punches none."""
    for axis, values in (("discard", get_args(Discard)), ("detect_zeroes", ("off", "on", "unmap"))):
        yield from (_punching(seen, axis, value) for value in values)


def _punching(seen: Observations, axis: str, value: str) -> AxisFinding:
    if value != "unmap":
        return seen.needs_guest(axis, value, "QEMU's own")
    trial = seen.trial("punch")
    if not trial.ok:
        why = f"the folder's file system punches no holes, so that discards free nothing: {trial.said}"
        return finding(axis, value, "limited", why)
    return seen.needs_guest(axis, value, "raw and qcow2: the folder's file system punches holes, tried")


def _schedulers(seen: Observations) -> Iterator[AxisFinding]:
    """By the guest kernel's modules."""
    for name, module in SCHEDULERS.items():
        if seen.has_guests and module not in seen.modules:
            why = f"the guest appliance's kernel lacks {module}"
            yield finding("scheduler", name, "no", why)
        else:
            yield seen.needs_guest("scheduler", name, f"{module} is in the guest appliance")


def _vcpus(seen: Observations) -> Iterator[AxisFinding]:
    """By the host's cores."""
    cores = seen.number("cores")
    yield seen.needs_guest("vcpus", f"1 to {cores}", "as many as the host has cores")
    why = f"the host has {cores} cores, which more vCPUs would share"
    status: Status = "limited" if seen.has_guests else "no"
    yield finding("vcpus", "more", status, why if seen.has_guests else NO_GUEST)


def _memories(seen: Observations) -> Iterator[AxisFinding]:
    """By the host's available memory."""
    free = seen.number("memory_kib") * 1024
    least, most = format_size(SMALLEST_MEMORY_BYTES), format_about(free)
    if free < SMALLEST_MEMORY_BYTES:
        yield finding("memory", least, "no", f"the host has {most} available")
        return
    yield seen.needs_guest("memory", f"{least} to {most}", "what the host has available now")

"""Backings of an image, and file systems on host and guest, that a host can have: pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

from pytest_vmstorage.cli.doctor.seen import NO_GUEST, AxisFinding, Observations, finding
from pytest_vmstorage.config.cell import SMALLEST_BYTES, GuestFs, HostFs, State
from pytest_vmstorage.config.rules.backing import BACKINGS
from pytest_vmstorage.guest.libvirt.messages import null_lacks
from pytest_vmstorage.storage.space import HEADROOM_BYTES
from pytest_vmstorage.units import format_about

_LISTED = {
    "partition": "needs a partition listed in vmstorage.toml",
    "lvm": "needs a volume group listed in vmstorage.toml",
    "zvol": "needs a dataset listed in vmstorage.toml",
    "device": "needs a device listed in vmstorage.toml",
    "machine": "needs a machine listed in vmstorage.toml, which ssh reaches",
}

GUEST_FS: Mapping[str, tuple[str, str]] = {
    "ext3": ("ext4", "e2fsprogs"),
    "ext4": ("ext4", "e2fsprogs"),
    "xfs": ("xfs", "xfsprogs"),
    "btrfs": ("btrfs", "btrfs-progs"),
}
"""Kernel module and Debian package of a file system in the guest (ext4 mounts ext3)."""


def findings(seen: Observations) -> Iterator[AxisFinding]:
    """By the folder, root rights, the host's kernel and tools, and what the guest appliance has."""
    for judge in (_states, _backings, _host_fs, _guest_fs):
        yield from judge(seen)


def _states(seen: Observations) -> Iterator[AxisFinding]:
    """By the guest's fio, which writes what is there before a measurement."""
    yield seen.needs_guest("state", "fresh", "nothing is written before")
    for name in get_args(State)[1:]:
        if seen.has_guests and "fio" not in seen.tools:
            yield finding("state", name, "no", "the guest appliance has no fio to write it with")
        else:
            yield seen.needs_guest("state", name, f"written by fio {seen.tools.get('fio')} in the guest")


def _backings(seen: Observations) -> Iterator[AxisFinding]:
    """By the folder, root rights, and what the host's kernel and tools are."""
    for kind in BACKINGS:
        if kind == "file":
            yield _file(seen)
        elif kind == "native":
            yield seen.tried("backing", kind, "tool.fio", f"fio on the host: {seen.trial('tool.fio').said}")
        elif kind == "null":
            yield _null(seen)
        elif listed := [one for one in seen.listed if one.value.startswith(f"{kind}:")]:
            yield from listed
        else:
            lacking = _lacking(kind, seen)
            yield finding("backing", kind, "no" if lacking else "limited", lacking or _LISTED[kind])


def _file(seen: Observations) -> AxisFinding:
    free = seen.folder.free_bytes if seen.folder else 0
    if free < SMALLEST_BYTES + HEADROOM_BYTES:
        why = f"the folder has {format_about(free)} free, and {format_about(HEADROOM_BYTES)} are kept beside a disk"
        return finding("backing", "file", "no", why)
    done = f"qemu-img made an image in the folder, which has {format_about(free)} free"
    return seen.tried("backing", "file", "format.raw", done)


def _null(seen: Observations) -> AxisFinding:
    lacking = null_lacks("virtio-blk", seen.libvirt)
    if seen.has_guests and lacking:
        return finding("backing", "null", "limited", f"on nvme only: {lacking}")
    return seen.needs_guest("backing", "null", "QEMU's null driver: no storage, and nothing is written")


def _lacking(kind: str, seen: Observations) -> str:
    """The requirement that a block device of that kind lacks, "" where it lacks none."""
    if not seen.is_root:
        # first, because the other trials need root
        return "needs root on the host"
    needs = {"lvm": ("dev.mapper/control", "tool.lvm"), "zvol": ("dev.zfs", "tool.zfs")}.get(kind, ())
    names = {"dev.mapper/control": "the host's kernel has no device mapper", "dev.zfs": "the host's kernel has no ZFS"}
    for name in needs:
        trial = seen.trial(name)
        if not trial.ok:
            return f"{names[name]}: {trial.said}" if name in names else trial.said
    return "" if seen.has_guests else NO_GUEST


def _host_fs(seen: Observations) -> Iterator[AxisFinding]:
    """By a file system of each made, mounted from a loop device and unmounted."""
    yield seen.tried("host_fs", "as-found", "format.raw", _as_found(seen))
    for name in get_args(HostFs)[1:]:
        yield _made_fs(seen, "host_fs", name, name)
    made = [name for name in get_args(HostFs)[1:] if seen.trial(f"host_fs.{name}").ok]
    for axis in ("host_mkfs", "host_mount"):
        yield _made_fs(seen, axis, "any", *made[:1], why=f"with host_fs {', '.join(made)}")


def _as_found(seen: Observations) -> str:
    options, compression = seen.trial("mount_options"), seen.trial("zfs_compression")
    kind = seen.folder.file_system if seen.folder else "its file system"
    packed = [word for word in options.said.split(",") if word.startswith("compress")]
    told = f"compression {compression.said}" if kind == "zfs" else f"compression {packed[0]}" if packed else ""
    mounted = f"mounted {options.said}" if options.ok else ""
    return ", ".join(part for part in (kind, mounted, told) if part)


def _made_fs(seen: Observations, axis: str, value: str, fs: str = "", *, why: str = "") -> AxisFinding:
    if not seen.is_root:
        return finding(axis, value, "no", "needs root on the host, for a loop device and a mount")
    if not seen.trial("dev.loop-control").ok:
        said = seen.trial("dev.loop-control").said
        return finding(axis, value, "no", f"the host's kernel has no loop devices: {said}")
    if not fs:
        return finding(axis, value, "no", "no file system can be made and mounted here")
    return seen.tried(axis, value, f"host_fs.{fs}", why or "made on a loop device and mounted")


def _guest_fs(seen: Observations) -> Iterator[AxisFinding]:
    """By the guest kernel's modules and the guest's mkfs."""
    yield seen.needs_guest("guest_fs", "none", "the raw device")
    possible = []
    for name in get_args(GuestFs)[1:]:
        module, package = GUEST_FS[name]
        lacking = [what for what, there in ((module, seen.modules), (package, seen.tools)) if what not in there]
        if seen.has_guests and lacking:
            why = f"the guest appliance has no {' and no '.join(lacking)}"
            yield finding("guest_fs", name, "no", why)
        else:
            possible.append(name)
            version = seen.tools.get(package, "")
            yield seen.needs_guest(
                "guest_fs", name, f"{package} {version} and module {module} are in the guest appliance"
            )
    for axis in ("guest_mkfs", "guest_mount"):
        if possible:
            yield seen.needs_guest(axis, "any", f"with guest_fs {', '.join(possible)}")
        else:
            yield finding(axis, "any", "no", "no file system can be made in the guest")

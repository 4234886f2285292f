"""Volumes for one cell: LVM logical volumes and ZFS volumes, made, found again by their run's mark, and removed.

LVM: a thick volume in a listed group, named vms-RUN-N and tagged vmstorage-RUN, which lvcreate rounds up to whole
extents. ZFS: a volume vms-RUN-N below a listed dataset that bears the user property vmstorage:run=RUN; it is not
sparse (`zfs create -V` without -s), so that a pool without the space says so before the measurement and not in it.
Blocks are still allocated at their first write, and volblocksize is the pool's default.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.inventory import ListedDataset, ListedGroup
from pytest_vmstorage.errors import HostError, ProvisionError, UnsupportedError
from pytest_vmstorage.host.guard import READS
from pytest_vmstorage.host.shell import NOT_FOUND, CommandResult, Shell, check
from pytest_vmstorage.units import format_about

RUN_PROPERTY = "vmstorage:run"

CACHED_IN_ARC = "primarycache all"
"""Part of the description of a zvol whose data ZFS keeps in memory, also under direct I/O."""

_NODE_S = 20.0
"""Time limit for a zvol's node: udev makes the link after zfs create has returned."""

_TIME_S = 120.0
_UNITS = ("--units", "b", "--nosuffix", "--reportformat", "json")
_LOOKED_AT = "volsize,volblocksize,compression,primarycache"
_NAME = re.compile(r"vms-(?P<run>\w+)-\d+")
_RUN = re.compile(r"\w+")


class VolumeRoom(BaseModel):
    """Where a volume can be made: the group's or dataset's full name, free bytes, the unit sizes are rounded up to."""

    model_config = ConfigDict(frozen=True)

    name: str
    free_bytes: int
    unit_bytes: int = 1


class Volume(BaseModel):
    """A volume that was made: its device node, "GROUP/NAME" or "DATASET/NAME", its size, and a note for the row."""

    model_config = ConfigDict(frozen=True)

    path: str
    name: str
    size_bytes: int
    note: str = ""


def volume_name(run_id: str, number: int) -> str:
    """The name of the volume for a run's guest of that number."""
    return f"vms-{run_id}-{number}"


# LVM


def find_group(shell: Shell, listed: ListedGroup) -> VolumeRoom:
    """The listed volume group; raises UnsupportedError without LVM, HostError where there is no such group."""
    _check_device_mapper(shell)
    # a selection: the name as an argument could be read as an option, and fails for a group that is gone
    wanted = f'vg_uuid="{listed.uuid}"' if listed.uuid else f'vg_name="{listed.vg}"'
    fields = "vg_name,vg_free,vg_extent_size"
    rows = _lvm(shell, ["vgs", *_UNITS, "-o", fields, "--select", wanted], "looking at the volume groups")
    what = listed.uuid or listed.vg
    if len(rows) != 1:
        raise HostError(
            f"The volume group {listed.name} is listed as {what}, but {len(rows) or 'no'} groups there are called so.",
            hint="`vgs -o vg_name,vg_uuid` shows them; list it by vg_uuid where several have one name.",
            code="VM432",
        )
    row = rows[0]
    return VolumeRoom(name=row["vg_name"], free_bytes=int(row["vg_free"]), unit_bytes=int(row["vg_extent_size"]))


def make_lv(shell: Shell, room: VolumeRoom, size_bytes: int, *, run_id: str, number: int) -> Volume:
    """Make the volume in that group; raises ProvisionError, and then leaves none.

    Old signatures in its extents are wiped.
    """
    full = f"{room.name}/{volume_name(run_id, number)}"
    done = shell.run(lvcreate_argv(full, size_bytes, run_id), timeout_s=_TIME_S)
    check(done, f"making the LVM volume {full}")
    try:
        (row,) = _lvm(shell, ["lvs", *_UNITS, "-o", "lv_path,lv_size", full], f"looking at {full}")
        _wait_for(shell, row["lv_path"])
    except ProvisionError:
        remove_lv(shell, full, run_id)
        raise
    note = f"extents of {format_about(room.unit_bytes)}"
    return Volume(path=row["lv_path"], name=full, size_bytes=int(row["lv_size"]), note=note)


def lvcreate_argv(full: str, size_bytes: int, run_id: str) -> tuple[str, ...]:
    """The line that makes the thick volume GROUP/NAME."""
    group, _, name = full.partition("/")
    argv = ("lvcreate", "--yes", "--wipesignatures", "y", "--type", "linear", "--addtag", f"vmstorage-{run_id}")
    return (*argv, "--size", f"{size_bytes}b", "--name", name, group)


def lvs_bytes(shell: Shell, run_id: str, names: Sequence[str]) -> int:
    """Bytes that the existing ones of a run's volumes, GROUP/NAME each, take of their group."""
    wanted = f"lv_tags=vmstorage-{_checked(run_id)}"
    rows = _lvm(shell, ["lvs", *_UNITS, "-o", "vg_name,lv_name,lv_size", "--select", wanted], "looking at LVM volumes")
    return sum(int(row["lv_size"]) for row in rows if f"{row['vg_name']}/{row['lv_name']}" in names)


def leftover_lvs(shell: Shell, run_id: str) -> tuple[str, ...]:
    """All volumes of a run, as GROUP/NAME, by tag and name, in every group; none where there is no LVM."""
    argv = ["lvs", *_UNITS, "-o", "vg_name,lv_name", "--select", f"lv_tags=vmstorage-{_checked(run_id)}"]
    done = shell.run(argv, timeout_s=_TIME_S)
    if done.returncode == NOT_FOUND:
        return ()
    rows = _rows(check(done, "looking for LVM volumes"))
    return tuple(f"{row['vg_name']}/{row['lv_name']}" for row in rows if _is_of(row["lv_name"], run_id))


def remove_lv(shell: Shell, name: str, run_id: str) -> None:
    """Remove GROUP/NAME if it bears that run's tag; a missing volume is not an error. Raises ProvisionError."""
    if name in leftover_lvs(shell, run_id):
        check(shell.run(["lvremove", "--yes", "--force", name], timeout_s=_TIME_S), f"removing the LVM volume {name}")


def _check_device_mapper(shell: Shell) -> None:
    # modprobe first, as lvm itself would: the module may exist and not be loaded
    probe = "grep -q ' device-mapper$' /proc/misc || modprobe dm_mod 2>/dev/null; grep -q ' device-mapper$' /proc/misc"
    if not shell.run(["sh", "-c", probe]).ok:
        raise UnsupportedError(
            "The kernel of this host has no device mapper, so LVM volumes cannot be made.",
            hint="`modprobe dm_mod` there tells why.",
            code="VM421",
        )


def _lvm(shell: Shell, argv: Sequence[str], doing: str) -> list[dict[str, Any]]:
    done = shell.run(argv, timeout_s=_TIME_S)
    if done.returncode == NOT_FOUND:
        raise UnsupportedError(f"{argv[0]} is not installed on this host.", hint="Install lvm2.", code="VM420")
    return _rows(check(done, doing))


def _rows(done: CommandResult) -> list[dict[str, Any]]:
    """The one table of an LVM report, by the name of its kind ("vg", "lv")."""
    (table,) = json.loads(done.stdout)["report"]
    (rows,) = table.values()
    return list(rows)


# ZFS


def find_dataset(shell: Shell, listed: ListedDataset) -> VolumeRoom:
    """The listed dataset; raises UnsupportedError without ZFS, HostError where there is no such file system."""
    done = shell.run(["zfs", "list", "-Hp", "-t", "filesystem", "-o", "name,available", listed.dataset])
    said = done.tail(1)
    if done.returncode == NOT_FOUND:
        raise UnsupportedError("zfs is not installed on this host.", hint="Install OpenZFS.", code="VM420")
    if "ZFS modules" in done.stderr or "/dev/zfs" in done.stderr:
        raise UnsupportedError(f"ZFS cannot be used on this host: {said.rstrip('.')}.", code="VM439")
    if not done.ok:
        raise HostError(
            f"The dataset {listed.name} is listed as {listed.dataset}, but ZFS says: {said.rstrip('.')}.",
            hint="`zfs list -t filesystem` shows those there are.",
            code="VM432",
        )
    name, free = done.stdout.rstrip("\n").split("\t")
    return VolumeRoom(name=name, free_bytes=int(free))


def zvol_reserves(shell: Shell, room: VolumeRoom, size_bytes: int) -> int:
    """Bytes of the pool that a volume of that size would reserve, with its metadata, by a dry run.

    ZFS itself computes them from the pool's layout (zfs-create(8), -n -P); the size where it prints none.
    """
    argv = ["zfs", "create", "-n", "-P", "-V", str(size_bytes), f"{room.name}/{volume_name('trial', 0)}"]
    said = shell.run(argv, timeout_s=_TIME_S).stdout
    rows = [line.split("\t") for line in said.splitlines()]
    told = [row[2] for row in rows if row[:2] == ["property", "refreservation"] and len(row) > 2]
    return max([size_bytes, *(int(text) for text in told if text.isdigit())])


def make_zvol(shell: Shell, room: VolumeRoom, size_bytes: int, *, run_id: str, number: int) -> Volume:
    """Make the volume below that dataset and wait for its node; raises ProvisionError, and then leaves none.

    ZFS rounds the size up to whole blocks of volblocksize (zfs-create(8)).
    """
    name = f"{room.name}/{volume_name(run_id, number)}"
    done = shell.run(zvol_argv(name, size_bytes, run_id), timeout_s=_TIME_S)
    check(done, f"making the ZFS volume {name}")
    try:
        path = f"/dev/zvol/{name}"
        _wait_for(shell, path)
        listed = shell.run(["zfs", "list", "-Hp", "-t", "volume", "-o", _LOOKED_AT, name])
        size, block, compression, cached = check(listed, f"looking at {name}").stdout.rstrip("\n").split("\t")
    except ProvisionError:
        remove_zvol(shell, name, run_id)
        raise
    note = f"volblocksize {format_about(int(block))}, compression {compression}, primarycache {cached}"
    return Volume(path=path, name=name, size_bytes=int(size), note=note)


def zvol_argv(name: str, size_bytes: int, run_id: str) -> tuple[str, ...]:
    """The line that makes the volume DATASET/NAME."""
    return ("zfs", "create", "-V", str(size_bytes), "-o", f"{RUN_PROPERTY}={run_id}", name)


def zvols_bytes(shell: Shell, names: Sequence[str]) -> int:
    """Bytes that the existing ones of those volumes take of their pool, with snapshots and reservations (`used`)."""
    done = check(shell.run(["zfs", "list", "-Hp", "-t", "volume", "-o", "name,used"]), "looking at ZFS volumes")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return sum(int(used) for name, used in rows if name in names)


def leftover_zvols(shell: Shell, run_id: str) -> tuple[str, ...]:
    """All volumes of a run by property and name, in every pool, clones first; none where there is no ZFS."""
    done = shell.run(["zfs", "list", "-Hp", "-t", "volume", "-o", f"name,{RUN_PROPERTY}"], timeout_s=_TIME_S)
    if done.returncode == NOT_FOUND or "ZFS modules" in done.stderr or "/dev/zfs" in done.stderr:
        return ()
    rows = [line.split("\t") for line in check(done, "looking for ZFS volumes").stdout.splitlines()]
    _checked(run_id)
    there = [name for name, run in rows if run == run_id and _is_of(name.rpartition("/")[2], run_id)]
    # a clone has a higher number than its origin, which cannot be destroyed before it
    return tuple(sorted(there, key=lambda name: int(name.rpartition("-")[2]), reverse=True))


def remove_zvol(shell: Shell, name: str, run_id: str) -> None:
    """Destroy the volume, and its snapshots, if it bears that run's property; a missing volume is not an error.

    Raises ProvisionError, also where another volume was cloned from it (zfs-destroy(8), -r).
    """
    if name not in leftover_zvols(shell, run_id):
        return
    deadline = time.monotonic() + _NODE_S
    while True:
        done = shell.run(["zfs", "destroy", "-r", name], timeout_s=_TIME_S)
        # udev looks into a volume that was just closed, and ZFS then calls it busy
        if done.ok or "busy" not in done.stderr or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    check(done, f"removing the ZFS volume {name}")


def wait_argv(path: str) -> tuple[str, ...]:
    """The line that waits until the block device exists, and fails after 20 s."""
    tries = f'{READS}\ni=0; until [ -b "$1" ]; do i=$((i+1)); [ $i -lt {_NODE_S * 10:.0f} ] || exit 1; sleep 0.1; done'
    return ("sh", "-c", tries, "sh", path)


def _wait_for(shell: Shell, path: str) -> None:
    done = shell.run(wait_argv(path), timeout_s=_NODE_S * 2)
    if not done.ok:
        raise ProvisionError(
            f"{path} did not come up within {_NODE_S:.0f} s.",
            hint="Does udev run there? Is a dataset's volmode none?",
            code="VM534",
        )


def _is_of(name: str, run_id: str) -> bool:
    """Whether a volume's name is of that run: a snapshot may have copied the mark alone."""
    match = _NAME.fullmatch(name)
    return match is not None and match["run"] == run_id


def _checked(run_id: str) -> str:
    # the id becomes part of a selection, and comes from a lease that may be damaged
    if _RUN.fullmatch(run_id) is None:
        raise ProvisionError(f"{run_id!r} is not a run's id.", code="VM447")
    return run_id

"""Block devices of the host under a cell's image: found, checked, made, removed.

A device or partition is written to only if vmstorage.toml lists it and nothing speaks against it. Signatures on it are
wiped before the cell begins, and only where `allow_destroy` permits it; those that the cell itself left are wiped when
it ends, so that the next cell finds the device empty.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import LabHost, Listed, ListedDataset, ListedDevice, ListedGroup
from pytest_vmstorage.config.rules.backing import BLOCK_BACKINGS
from pytest_vmstorage.errors import ConfigError, HostError, ProvisionError
from pytest_vmstorage.host.guard import guard_of
from pytest_vmstorage.host.shell import Shell, check
from pytest_vmstorage.storage.device import describe, device_facts, find_node, refusals
from pytest_vmstorage.storage.host_file_system import host_fs_bytes
from pytest_vmstorage.storage.space import bytes_on_device
from pytest_vmstorage.storage.volume import (
    VolumeRoom,
    find_dataset,
    find_group,
    leftover_lvs,
    leftover_zvols,
    make_lv,
    make_zvol,
    remove_lv,
    remove_zvol,
    zvol_reserves,
)
from pytest_vmstorage.units import format_about

_WHERE = {"lvm": "volume group", "zvol": "dataset"}
_ENTRIES = {
    "device": ("devices", "a device", 'id = "wwn-0x..."'),
    "partition": ("partitions", "a partition", 'id = "by-partuuid/..."'),
    "lvm": ("volume_groups", "an LVM volume group", 'name = "vg0"'),
    "zvol": ("datasets", "a ZFS dataset", 'name = "tank/vms"'),
}
"""The table of vmstorage.toml for each kind, a noun for its entries, and an example of what an entry holds."""


class BlockPlace(BaseModel):
    """A block device under a cell's image: `name` is vmstorage.toml's; `path` is "" for a volume yet to be made.

    `number` is MAJOR:MINOR, "" where it is not yet known; `volume` is the volume made, "GROUP/NAME" or "DATASET/NAME";
    `signatures` will be wiped, or were.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    kind: Literal["device", "partition", "lvm", "zvol"]
    name: str
    description: str
    size_bytes: int
    number: str = ""
    volume: str = ""
    run_id: str = ""
    signatures: tuple[str, ...] = ()


def needs_block(config: StorageConfig) -> bool:
    """Whether the cell's disk, or the file system made for it, lies on a block device that vmstorage.toml lists."""
    # a foreign machine's disk is on that machine, and not on the host
    return not config.is_machine and (config.backing_kind in BLOCK_BACKINGS or bool(config.backing_name))


def find_block(shell: Shell, host: LabHost, config: StorageConfig) -> BlockPlace:
    """The block device that the cell's disk will lie on, with all checks and no write.

    Raises ConfigError where no entry, or more than one, is meant, HostError where it must not be written to,
    UnsupportedError where the host lacks kernel or tools for it.
    """
    listed = choose_listed(host, config)
    if isinstance(listed, ListedDevice):
        return _find_device(shell, host, listed, needed_bytes(config))
    room, size = _find_room(shell, listed, config)
    return _volume_place(listed, room, size, f"{format_about(room.free_bytes)} free")


def make_block(shell: Shell, host: LabHost, config: StorageConfig, *, run_id: str, number: int) -> BlockPlace:
    """Check again, then make the volume, or wipe the device's signatures; `path` may then be written to.

    Raises as `find_block` does, and ProvisionError.
    """
    listed = choose_listed(host, config)
    if isinstance(listed, ListedDevice):
        place = _find_device(shell, host, listed, needed_bytes(config))
        guard_of(shell).allow(place.path)
        if place.signatures:
            _wipe(shell, place.path)
        return place.model_copy(update={"run_id": run_id})
    room, size = _find_room(shell, listed, config)
    make = make_lv if isinstance(listed, ListedGroup) else make_zvol
    volume = make(shell, room, size, run_id=run_id, number=number)
    guard_of(shell).allow(volume.path)
    made = _volume_place(listed, room, volume.size_bytes, f"{volume.note}, {volume.path}")
    number_found = _number(shell, volume.path)
    return made.model_copy(
        update={"path": volume.path, "volume": volume.name, "run_id": run_id, "number": number_found}
    )


def remove_block(shell: Shell, place: BlockPlace) -> None:
    """Remove the volume, or the signatures that a cell left on a device; its guest must be gone. ProvisionError."""
    if place.kind == "lvm":
        remove_lv(shell, place.volume, place.run_id)
    elif place.kind == "zvol":
        remove_zvol(shell, place.volume, place.run_id)
    elif place.run_id:
        facts = device_facts(shell, place.path, ())
        if facts.number != place.number:
            raise ProvisionError(f"{place.path} is no longer the same device, so it was left alone.", code="VM432")
        _wipe(shell, place.path)
    guard_of(shell).forbid(place.path)


def reap_blocks(shell: Shell, run_id: str, *, look_only: bool = False) -> list[str]:
    """Remove the volumes of a dead run, found by tag or property; returns a phrase for each. ProvisionError.

    With `look_only` they are only listed. Devices and partitions bear no mark: a killed run's leftovers on them are
    found as signatures.
    """
    if shell.run(["id", "-u"]).stdout.strip() != "0":
        # a user who is not root has made no volume, and may not list any
        return []
    said = []
    for kind, leftovers, remove in (("LVM", leftover_lvs, remove_lv), ("ZFS", leftover_zvols, remove_zvol)):
        for name in leftovers(shell, run_id):
            if not look_only:
                remove(shell, name, run_id)
            said.append(f"{kind} volume {name}")
    return said


def plan_line(place: BlockPlace) -> str:
    """The device that will be written to, in one line for --vm-plan."""
    if place.kind in ("lvm", "zvol"):
        return f"{place.description}: a volume of {format_about(place.size_bytes)} is made there and removed."
    lost = f"; on it now and then lost: {', '.join(place.signatures)}" if place.signatures else ""
    return f"{place.description}: will be overwritten{lost}."


def choose_listed(host: LabHost, config: StorageConfig) -> Listed:
    """The entry of vmstorage.toml that the cell means; raises ConfigError where there is none, or several."""
    # a file system made for the image, and a workload without a guest, may lie on any of them
    kind = config.backing_kind if config.backing_kind in BLOCK_BACKINGS else None
    entries = [one for one in host.listed(kind) if config.backing_name in ("", one.name)]
    if len(entries) == 1:
        return entries[0]
    file = host.inventory or "vmstorage.toml"
    if entries and config.backing_name:
        kinds = " and a ".join(one.kind for one in entries)
        raise ConfigError(
            f"{config.backing_name} is a {kinds} of {host.listed_as} in {file}.",
            hint="Give them different names.",
            code="VM430",
        )
    if entries:
        names = ", ".join(f'"{kind}:{one.name}"' for one in entries)
        raise ConfigError(
            f"backing={config.backing} may be any of several in {file}.", hint=f"Write one of {names}.", code="VM430"
        )
    of = f" called {config.backing_name}" if config.backing_name else ""
    table, noun, example = _ENTRIES[kind or "device"]
    raise ConfigError(
        f"backing={config.backing} needs {noun}{of} that is listed for {host.listed_as} in {file}.",
        hint=f"List it there: [hosts.{host.listed_as}.{table}.{config.backing_name or 'NAME'}] with {example}.",
        code="VM430",
    )


def needed_bytes(config: StorageConfig) -> int:
    """The size that the device below needs, for the disk with its format's tables or for the file system made there."""
    return bytes_on_device(config) if config.host_fs == "as-found" else host_fs_bytes(config)


def _find_device(shell: Shell, host: LabHost, listed: ListedDevice, needed: int) -> BlockPlace:
    node = find_node(shell, host, listed)
    facts = device_facts(shell, node, (host.folder,))
    found = refusals(facts, listed, needed)
    if found:
        first, *others = found
        also = " ".join(one.what for one in others)
        raise HostError(first.what, hint=f"{first.hint}{f' Also: {also}' if also else ''}", code=first.code)
    return BlockPlace(
        path=facts.node,
        kind=listed.kind,
        name=listed.name,
        description=describe(facts, listed),
        size_bytes=facts.size_bytes,
        number=facts.number,
        signatures=tuple(dict.fromkeys(map(str, facts.signatures))),
    )


def _find_room(shell: Shell, listed: ListedGroup | ListedDataset, config: StorageConfig) -> tuple[VolumeRoom, int]:
    """The group or dataset, and the bytes that the cell's volume takes there."""
    room = find_group(shell, listed) if isinstance(listed, ListedGroup) else find_dataset(shell, listed)
    size = -(-needed_bytes(config) // room.unit_bytes) * room.unit_bytes
    takes = zvol_reserves(shell, room, size) if isinstance(listed, ListedDataset) else size
    if room.free_bytes < takes:
        raise HostError(
            f"The {_WHERE[listed.kind]} {room.name} has {format_about(room.free_bytes)} free, but {config} needs"
            f" {format_about(takes)}.",
            hint="Free some space there, list another one, or lower the size.",
            code="VM438",
        )
    return room, size


def _volume_place(listed: ListedGroup | ListedDataset, room: VolumeRoom, size: int, note: str) -> BlockPlace:
    description = f"{listed.kind} {listed.name}: {_WHERE[listed.kind]} {room.name}, {note}"
    return BlockPlace(path="", kind=listed.kind, name=listed.name, description=description, size_bytes=size)


def _wipe(shell: Shell, path: str) -> None:
    """Wipe all signatures on the device, opened exclusively: without --force wipefs refuses a device in use."""
    check(shell.run(["wipefs", "--all", "--", path]), f"wiping the signatures of {path}")


def _number(shell: Shell, path: str) -> str:
    done = check(shell.run(["stat", "-L", "-c", "%t %T", "--", path]), f"looking at {path}")
    return ":".join(str(int(word, 16)) for word in done.stdout.split())

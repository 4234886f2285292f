"""Reading vmstorage.toml: TOML text -> Inventory, and a sentence with file, key and remedy for each slip.

A device is listed by what no reboot and no other cable changes. Accepted are a name below /dev/disk/by-id (or its
WWN or serial number as such), by-partuuid/UUID and by-partlabel/LABEL for a partition, and for trying things out
loop:/FILE, the loop device that is attached to that file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.inventory import (
    HOST_NAME,
    LOCAL,
    Inventory,
    Listed,
    ListedDataset,
    ListedDevice,
    ListedGroup,
    ListedHost,
)

NAME = "vmstorage.toml"

_HOST_KEYS = ("uri", "ssh", "folder", "devices", "partitions", "volume_groups", "datasets")
_ENTRY_NAME = re.compile(r"\w[\w.]*")
_VG_NAME = re.compile(r"[\w+.][\w+.-]*")
_VG_UUID = re.compile(r"\w{6}(?:-\w{4}){5}-\w{6}")
_DATASET = re.compile(r"[A-Za-z][\w.: -]*(?:/[\w.: -]+)*")

_KERNEL_NAME = re.compile(
    r"(?:/dev/)?(?:(?:[shvx]|xv)d[a-z]+\d*|(?:nvme\d+n|mmcblk|loop|nbd|pmem|nullb|md|zd|ram|sr)\d+(?:p\d+)?|dm-\d+)"
)
_PLACE_NAME = re.compile(r"(?:by-path/|pci-|platform-|acpi-|ccw-|virtio-pci-|ip-).*")
_FOLDERS = ("by-id/", "by-partuuid/", "by-partlabel/")
_STABLE = (
    'Give a stable id: a name below /dev/disk/by-id such as id = "wwn-0x5002538e40a1b2c3", a WWN or a serial number,'
    " or by-partuuid/UUID of a partition; `ls -l /dev/disk/by-id` shows them."
)


def find_inventory(start: Path) -> Path | None:
    """The vmstorage.toml in that folder, or in the nearest folder above it that has one."""
    folders = (start.absolute(), *start.absolute().parents)
    return next((folder / NAME for folder in folders if (folder / NAME).is_file()), None)


def read_inventory(path: Path, name: str) -> Inventory:
    """The inventory in that file, which messages call `name`; raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise ConfigError(f"{name} cannot be read: {reason}.", hint="Name a TOML file.") from None
    return load_inventory(text, name)


def load_inventory(text: str, source: str) -> Inventory:
    """The inventory that a file says, checked key by key; raises ConfigError, one sentence with file and key."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not TOML: {error}.", hint="Correct that line.") from None
    _known(document, ("hosts",), source)
    hosts = _tables(document, "hosts", source)
    return Inventory(source=source, hosts={name: _host(name, table, source) for name, table in hosts.items()})


def _host(name: str, table: Mapping[str, Any], source: str) -> ListedHost:
    where = f"{source}, [hosts.{name}]"
    if HOST_NAME.fullmatch(name) is None:
        raise ConfigError(f"{where}: {name!r} is not a host name.", hint="Write NAME or USER@NAME.")
    _known(table, _HOST_KEYS, where)
    if name == LOCAL:
        for key in ("uri", "ssh"):
            if key in table:
                raise ConfigError(
                    f"{where}: {key} is another machine's, and {LOCAL} is this one.",
                    hint=f"Take {key} away, or give the host another name.",
                )
    ssh = _text(table, "ssh", where)
    if ssh is not None and HOST_NAME.fullmatch(ssh) is None:
        raise ConfigError(f"{where}: ssh = {ssh!r} is not a host name.", hint="Write NAME or USER@NAME.")
    folder = _text(table, "folder", where)
    if folder is not None and not folder.startswith("/"):
        raise ConfigError(f"{where}: folder = {folder!r} is not absolute.", hint="Write it from / on.")
    host = ListedHost(
        uri=_text(table, "uri", where),
        ssh=ssh,
        folder=folder,
        devices=tuple(_device("device", one, where, entry) for one, where, entry in _entries(table, "devices", where)),
        partitions=tuple(
            _device("partition", one, where, entry) for one, where, entry in _entries(table, "partitions", where)
        ),
        volume_groups=tuple(_group(one, where, entry) for one, where, entry in _entries(table, "volume_groups", where)),
        datasets=tuple(_dataset(one, where, entry) for one, where, entry in _entries(table, "datasets", where)),
    )
    _no_twins(host, where)
    return host


def _entries(table: Mapping[str, Any], kind: str, where: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Name, place in the file and content of each entry of a kind."""
    head = where.removesuffix("]")
    for name, entry in _tables(table, kind, where, f"{head.rpartition('[')[2]}.").items():
        here = f"{head}.{kind}.{name}]"
        if _ENTRY_NAME.fullmatch(name) is None:
            # it stands behind the colon in backing="device:NAME", and with that in test ids, which - divides
            raise ConfigError(f"{here}: {name!r} is not a name.", hint="Use letters, digits, _ and dots.")
        yield name, here, entry


def _device(kind: Any, name: str, where: str, entry: Mapping[str, Any]) -> ListedDevice:
    _known(entry, ("id", "allow_destroy"), where)
    text = _text(entry, "id", where)
    if text is None:
        raise ConfigError(f"{where}: id is missing, and it says which {kind} that is.", hint=_STABLE)
    allow = entry.get("allow_destroy", False)
    if not isinstance(allow, bool):
        raise ConfigError(
            f"{where}: allow_destroy = {allow!r} is neither true nor false.",
            hint=f"Write allow_destroy = true only where all that is on the {kind} may be lost.",
        )
    return ListedDevice(name=name, kind=kind, id=_stable_id(text, where, kind), allow_destroy=allow)


def _stable_id(text: str, where: str, kind: str) -> str:
    """The id without /dev/disk/ and by-id/ before it; raises ConfigError where it may be another device tomorrow."""
    what = f"{where}: id = {text!r}"
    if text.startswith("loop:"):
        if not text.startswith("loop:/") or kind == "partition":
            raise ConfigError(
                f"{what} is not the file of a loop device.",
                hint="Write loop:/FILE for a whole loop device, and by-partuuid/UUID for a partition of one.",
            )
        return text
    short = text.removeprefix("/dev/disk/")
    if _KERNEL_NAME.fullmatch(text) or (short == text and text.startswith("/")):
        raise ConfigError(f"{what} is a name that may be another {kind}'s after the next boot.", hint=_STABLE)
    if _PLACE_NAME.fullmatch(short):
        raise ConfigError(f"{what} names the place a {kind} is plugged into, not the {kind}.", hint=_STABLE)
    if short.startswith(("by-uuid/", "by-label/")):
        raise ConfigError(f"{what} names a file system, and measuring destroys that.", hint=_STABLE)
    if "/" in short and (not short.startswith(_FOLDERS) or short.count("/") > 1 or short.endswith("/")):
        raise ConfigError(f"{what} is no id of a {kind}.", hint=_STABLE)
    if kind == "device" and short.startswith(("by-partuuid/", "by-partlabel/")):
        raise ConfigError(f"{what} is a partition's.", hint="List it under partitions.")
    # the kernel writes a partition's UUID in small letters, gdisk in capitals
    return short.lower() if short.startswith("by-partuuid/") else short.removeprefix("by-id/")


def _group(name: str, where: str, entry: Mapping[str, Any]) -> ListedGroup:
    _known(entry, ("name", "vg_uuid"), where)
    vg, uuid = _text(entry, "name", where), _text(entry, "vg_uuid", where)
    if vg is not None and uuid is not None:
        raise ConfigError(f"{where}: name and vg_uuid both say which group that is.", hint="Take one of them away.")
    if vg is not None and (_VG_NAME.fullmatch(vg) is None or vg in (".", "..")):
        raise ConfigError(f"{where}: name = {vg!r} is no volume group's name.", hint="`vgs` shows them.")
    if uuid is not None and _VG_UUID.fullmatch(uuid) is None:
        raise ConfigError(f"{where}: vg_uuid = {uuid!r} is no volume group's UUID.", hint="`vgs -o vg_uuid` shows it.")
    return ListedGroup(name=name, vg="" if uuid else vg or name, uuid=uuid or "")


def _dataset(name: str, where: str, entry: Mapping[str, Any]) -> ListedDataset:
    _known(entry, ("name",), where)
    dataset = _text(entry, "name", where) or name
    if _DATASET.fullmatch(dataset) is None:
        raise ConfigError(f"{where}: name = {dataset!r} is no dataset's name.", hint="`zfs list` shows them.")
    return ListedDataset(name=name, dataset=dataset)


def _no_twins(host: ListedHost, where: str) -> None:
    """Refuse one thing under two names: a claim on one would not be seen as a claim on the other."""
    seen: dict[object, str] = {}
    entries: tuple[Listed, ...] = (*host.devices, *host.partitions, *host.volume_groups, *host.datasets)
    for entry in entries:
        key = entry.model_dump(exclude={"name", "kind", "allow_destroy"})
        first = seen.setdefault(tuple(key.items()), entry.name)
        if first != entry.name:
            raise ConfigError(f"{where}: {first} and {entry.name} are the same thing.", hint="Take one of them away.")


def _tables(document: Mapping[str, Any], name: str, where: str, head: str = "") -> Mapping[str, Mapping[str, Any]]:
    tables = document.get(name, {})
    if not isinstance(tables, dict):
        raise ConfigError(f"{where}: {name} = {tables!r} is not a table.", hint=f"Write [{head}{name}.NAME] above it.")
    for one, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(
                f"{where}: {name}.{one} = {table!r} is not a table.", hint=f"Write [{head}{name}.{one}] above its keys."
            )
    return tables


def _text(table: Mapping[str, Any], key: str, where: str) -> str | None:
    value = table.get(key)
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ConfigError(f"{where}: {key} = {value!r} is not a text.", hint=f'Write {key} = "...".')
    return value


def _known(names: Iterable[str], known: Iterable[str], where: str) -> None:
    for name in names:
        if name not in known:
            raise ConfigError(f"{where}: {name!r} is not known.", hint=f"Known here: {', '.join(known)}.")

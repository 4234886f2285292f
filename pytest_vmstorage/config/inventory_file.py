"""Reading vmstorage.toml: TOML text -> Inventory, and a sentence with file, key and remedy for each slip.

A device is listed by what no reboot and no other cable changes. Accepted are a name below /dev/disk/by-id (or its WWN
or serial number as such), by-partuuid/UUID and by-partlabel/LABEL for a partition, and for trying things out
loop:/FILE, the loop device that is attached to that file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from pytest_vmstorage.config.cpu_list import parse_cpus
from pytest_vmstorage.config.guest_image import read_images
from pytest_vmstorage.config.inventory import (
    ALL,
    HOST_NAME,
    LOCAL,
    Inventory,
    Listed,
    ListedDataset,
    ListedDevice,
    ListedGroup,
    ListedHost,
    ListedMachine,
)
from pytest_vmstorage.config.ownership import is_of, is_open, owned_here, this_user
from pytest_vmstorage.config.toml import flag_of, known_keys, tables_of, text_of
from pytest_vmstorage.config.toml import known_keys as _known
from pytest_vmstorage.config.toml import tables_of as _tables
from pytest_vmstorage.config.toml import text_of as _text
from pytest_vmstorage.config.user_input import parse_toml, read_user_text
from pytest_vmstorage.errors import ConfigError

_KERNEL_NAME = re.compile(
    r"(?:/dev/)?(?:(?:[shvx]|xv)d[a-z]+\d*|(?:nvme\d+n|mmcblk|loop|nbd|pmem|nullb|md|zd|ram|sr)\d+(?:p\d+)?|dm-\d+)"
)
_PLACE_NAME = re.compile(r"(?:by-path/|pci-|platform-|acpi-|ccw-|virtio-pci-|ip-).*")
_FOLDERS = ("by-id/", "by-partuuid/", "by-partlabel/")
STABLE = (
    'Give a stable id: a name below /dev/disk/by-id such as {key} = "wwn-0x5002538e40a1b2c3", a WWN or a serial number,'
    " or by-partuuid/UUID of a partition; `ls -l /dev/disk/by-id` shows them."
)
"""What to do about an id that is none, with `{key}` for the key it stands under."""

LOST = "Write allow_destroy = true only where all that is on the {kind} may be lost."
"""What to do about an allow_destroy that is neither, with `{kind}` for what it is of."""


def stable_id(text: str, where: str, kind: str, key: str = "id") -> str:
    """The id without /dev/disk/ and by-id/ before it; raises ConfigError where it may be another device tomorrow."""
    what, hint = f"{where}: {key} = {text!r}", STABLE.format(key=key)
    if text.startswith("loop:"):
        if not text.startswith("loop:/") or kind == "partition":
            raise ConfigError(
                f"{what} is not the file of a loop device.",
                hint="Write loop:/FILE for a whole loop device, and by-partuuid/UUID for a partition of one.",
            )
        return text
    short = text.removeprefix("/dev/disk/")
    if is_kernel_name(text) or (short == text and text.startswith("/")):
        raise ConfigError(f"{what} is a name that may be another {kind}'s after the next boot.", hint=hint)
    if _PLACE_NAME.fullmatch(short):
        raise ConfigError(f"{what} names the place a {kind} is plugged into, not the {kind}.", hint=hint)
    if short.startswith(("by-uuid/", "by-label/")):
        raise ConfigError(f"{what} names a file system, and measuring destroys that.", hint=hint)
    if "/" in short and (not short.startswith(_FOLDERS) or short.count("/") > 1 or short.endswith("/")):
        raise ConfigError(f"{what} is no id of a {kind}.", hint=hint)
    if kind == "device" and short.startswith(("by-partuuid/", "by-partlabel/")):
        raise ConfigError(f"{what} is a partition's.", hint="List it under partitions.")
    # the kernel writes a partition's UUID in small letters, gdisk in capitals
    return short.lower() if short.startswith("by-partuuid/") else short.removeprefix("by-id/")


def is_kernel_name(text: str) -> bool:
    """Whether that is a name the kernel gives anew at each boot, such as /dev/sdb or nvme0n1p1."""
    return _KERNEL_NAME.fullmatch(text) is not None


def kind_of_id(text: str) -> str:
    """Either "partition", for an id that only a partition has, or "device"."""
    short = text.removeprefix("/dev/disk/")
    is_part = short.startswith(("by-partuuid/", "by-partlabel/")) or re.search(r"-part\d+$", short) is not None
    return "partition" if is_part else "device"


_KEYS = ("ssh", "disk", "folder", "allow_destroy", "label")
_NAME = re.compile(r"\w[\w.-]*")
_FIELD = re.compile(r"[A-Za-z]\w*")
_LOOKED_AT = ("host", "accel", "backing", "state", "size", "workload")
"""What a row has of its own, so that nobody need state it."""


def read_machines(document: Mapping[str, Any], source: str, hosts: Collection[str]) -> Mapping[str, ListedMachine]:
    """The machines that a file lists, by name; `hosts` are the names it has given away. Raises ConfigError."""
    tables = tables_of(document, "machines", source)
    return {name: _machine(name, table, source, hosts) for name, table in tables.items()}


def _machine(name: str, table: Mapping[str, Any], source: str, hosts: Collection[str]) -> ListedMachine:
    where = f"{source}, [machines.{name}]"
    if _NAME.fullmatch(name) is None:
        raise ConfigError(f"{where}: {name!r} is not a name.", hint="Use letters, digits, dots, - and _.")
    if name in hosts or name == LOCAL:
        raise ConfigError(f"{where}: {name} is a host's name, and rows of both would bear it.", hint="Name it anew.")
    known_keys(table, _KEYS, where)
    ssh = text_of(table, "ssh", where)
    if ssh is not None and HOST_NAME.fullmatch(ssh) is None:
        raise ConfigError(
            f"{where}: ssh = {ssh!r} is not a host name.",
            hint=f'Write NAME or USER@NAME; "{LOCAL}" is this machine; a port belongs into ~/.ssh/config.',
        )
    folder, disk = _folder(table, where), _disk(name, table, where)
    if (disk is None) == (folder is None):
        what = "neither disk nor folder" if disk is None else "both disk and folder"
        raise ConfigError(
            f"{where} has {what}, and one of them says what is measured.",
            hint='Write disk = "wwn-0x5002538e40a1b2c3" for a whole disk that may be overwritten, or folder = "/srv/x"'
            " for a file that is made there and removed.",
        )
    if folder is not None and "allow_destroy" in table:
        raise ConfigError(
            f"{where}: allow_destroy is a disk's, and a folder keeps what is in it.", hint="Take it away."
        )
    target = None if ssh in (None, LOCAL) else ssh
    return ListedMachine(name=name, ssh=target, disk=disk, folder=folder, label=_label(table, where))


def _folder(table: Mapping[str, Any], where: str) -> str | None:
    folder = text_of(table, "folder", where)
    if folder is not None and (not folder.startswith("/") or folder.rstrip("/") == ""):
        raise ConfigError(f"{where}: folder = {folder!r} is no folder's path from / on.", hint='Write "/srv/bench".')
    return folder.rstrip("/") if folder is not None else None


def _disk(name: str, table: Mapping[str, Any], where: str) -> ListedDevice | None:
    text = text_of(table, "disk", where)
    if text is None:
        return None
    if text.startswith("/") and not text.startswith("/dev/"):
        raise ConfigError(f"{where}: disk = {text!r} is no disk.", hint=f"For a file on it write folder = {text!r}.")
    kind: Any = kind_of_id(text)
    allow = flag_of(table, "allow_destroy", where, LOST.format(kind=kind))
    # a name of today is kept as it is, so that the machine can be asked which id that disk has: nothing is written
    found = text if is_kernel_name(text) else stable_id(text, where, kind, "disk")
    return ListedDevice(name=name, kind=kind, id=found, allow_destroy=allow)


def _label(table: Mapping[str, Any], where: str) -> Mapping[str, str]:
    label = table.get("label", {})
    if not isinstance(label, dict):
        raise ConfigError(f"{where}: label = {label!r} is not a table.", hint='Write label = {format = "vmfs"}.')
    for key, value in label.items():
        if _FIELD.fullmatch(key) is None or key in _LOOKED_AT:
            reason = "is looked at there, and not stated" if key in _LOOKED_AT else "is no name of a field"
            raise ConfigError(
                f"{where}: label.{key} {reason}.", hint='Write label = {format = "vmfs", bus = "pvscsi"}.'
            )
        if not isinstance(value, str | int | float) or not str(value).strip():
            raise ConfigError(f"{where}: label.{key} = {value!r} is no text.", hint=f'Write {key} = "...".')
    return {key: _said(value) for key, value in label.items()}


def _said(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value).strip()


NAME = "vmstorage.toml"

_URI = 'Write for example "qemu+ssh://root@lab01/system".'
_HOST_KEYS = ("uri", "ssh", "folder", "cpus", "tags", "devices", "partitions", "volume_groups", "datasets")
_ENTRY_NAME = re.compile(r"\w[\w.]*")
_TAG = re.compile(r"\w[\w.-]*")
_VG_NAME = re.compile(r"[\w+.][\w+.-]*")
_VG_UUID = re.compile(r"\w{6}(?:-\w{4}){5}-\w{6}")
_DATASET = re.compile(r"[A-Za-z][\w.: -]*(?:/[\w.: -]+)*")


class FoundInventory(NamedTuple):
    """The vmstorage.toml to read, None where there is none; `ignored` has a sentence for each nearer one."""

    path: Path | None
    ignored: tuple[str, ...] = ()


def find_inventory(start: Path) -> FoundInventory:
    """The vmstorage.toml in that folder, or in the nearest folder above it that has one of the user's own or root's.

    Another user's is ignored: it says to which devices root writes, and where disks lie (git has the same rule).
    """
    ignored: list[str] = []
    for folder in (start.absolute(), *start.absolute().parents):
        path = folder / NAME
        if not path.is_symlink() and not path.exists():
            continue
        reason = _why_ignored(path)
        if not reason:
            return FoundInventory(path, tuple(ignored))
        ignored.append(f"{path} is ignored: {reason}.")
    return FoundInventory(None, tuple(ignored))


def _why_ignored(path: Path) -> str:
    try:
        if not path.is_file():
            return "it is not a regular file"
        own, *above = owned_here(path)
    except (OSError, RuntimeError) as error:
        # RuntimeError is pathlib's for links that lead in a circle
        return f"it cannot be looked at ({getattr(error, 'strerror', None) or 'its links lead in a circle'})"
    if not is_of(this_user(), own):
        return f"it belongs to the user {own.owner}. Name it with --vm-inventory={path} if it is to be used"
    if is_open(own) or any(map(is_open, above)):
        return (
            f"others may write to it or to a folder above. Take that right away, or name it with --vm-inventory={path}"
        )
    return ""


def read_inventory(path: Path, name: str) -> Inventory:
    """The inventory in that file, which messages call `name`; raises ConfigError."""
    return load_inventory(read_user_text(path, name, hint="Name a TOML file."), name)


def load_inventory(text: str, source: str) -> Inventory:
    """The inventory that a file says, checked key by key; raises ConfigError, one sentence with file and key."""
    document = parse_toml(text, source)
    _known(document, ("hosts", "machines", "images"), source)
    hosts = _tables(document, "hosts", source)
    return Inventory(
        source=source,
        hosts={name: _host(name, table, source) for name, table in hosts.items()},
        machines=read_machines(document, source, hosts),
        images=read_images(document, source),
    )


def _host(name: str, table: Mapping[str, Any], source: str) -> ListedHost:
    where = f"{source}, [hosts.{name}]"
    if HOST_NAME.fullmatch(name) is None:
        raise ConfigError(f"{where}: {name!r} is not a host name.", hint="Write NAME or USER@NAME.")
    if name == ALL:
        raise ConfigError(f"{where}: --vm-host={ALL} means every host here.", hint="Give the host another name.")
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
        uri=_uri(table, where),
        ssh=ssh,
        folder=folder,
        cpus=_cpus(table, where),
        tags=_tags(table, where),
        devices=tuple(_device("device", one, where, entry) for one, where, entry in _entries(table, "devices", where)),
        partitions=tuple(
            _device("partition", one, where, entry) for one, where, entry in _entries(table, "partitions", where)
        ),
        volume_groups=tuple(_group(one, where, entry) for one, where, entry in _entries(table, "volume_groups", where)),
        datasets=tuple(_dataset(one, where, entry) for one, where, entry in _entries(table, "datasets", where)),
    )
    _no_twins(host, where)
    return host


def _uri(table: Mapping[str, Any], where: str) -> str | None:
    """A libvirt URI, which must not have libvirt run a program of somebody's choice here (libvirt.org/uri.html)."""
    uri = _text(table, "uri", where)
    if uri is None:
        return None
    try:
        parts = urlsplit(uri)
        asked = {name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True, separator="&")}
    except ValueError as error:
        raise ConfigError(f"{where}: uri = {uri!r} is no URI: {error}.", hint=_URI) from None
    if parts.scheme.partition("+")[2] == "ext" or "command" in asked:
        raise ConfigError(f"{where}: uri = {uri!r} would have libvirt run a program on this machine.", hint=_URI)
    return uri


def _cpus(table: Mapping[str, Any], where: str) -> tuple[int, ...]:
    text = _text(table, "cpus", where)
    if text is None:
        return ()
    try:
        return parse_cpus(text)
    except ConfigError:
        hint = 'Write those on which QEMU may run, for example cpus = "2-5,8".'
        raise ConfigError(f"{where}: cpus = {text!r} is no list of CPUs.", hint=hint) from None


def _tags(table: Mapping[str, Any], where: str) -> tuple[str, ...]:
    tags = table.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ConfigError(f"{where}: tags = {tags!r} is no list of texts.", hint='Write tags = ["nvme"].')
    for tag in tags:
        if _TAG.fullmatch(tag) is None:
            raise ConfigError(f"{where}: tags has {tag!r}, which is no tag.", hint="Use letters, digits, _, . and -.")
        if tags.count(tag) > 1:
            raise ConfigError(f"{where}: tags has {tag!r} twice.", hint="Take one of them away.")
    return tuple(tags)


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
        raise ConfigError(f"{where}: id is missing, and it says which {kind} that is.", hint=STABLE.format(key="id"))
    allow = flag_of(entry, "allow_destroy", where, LOST.format(kind=kind))
    return ListedDevice(name=name, kind=kind, id=stable_id(text, where, kind), allow_destroy=allow)


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

"""Reading vmstorage.toml: TOML text -> Inventory. Only a run that has one loads this.

A device is listed by what no reboot and no other cable changes. Accepted are a name below /dev/disk/by-id (or its WWN
or serial number as such), by-partuuid/UUID and by-partlabel/LABEL for a partition, and for trying things out
loop:/FILE, the loop device that is attached to that file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from pytest_vmstorage.config.cpu_list import parse_cpus
from pytest_vmstorage.config.guest_image import NamedImage
from pytest_vmstorage.config.inventory import (
    ALL,
    HOST_NAME,
    LOCAL,
    STABLE,
    Inventory,
    ListedDataset,
    ListedDevice,
    ListedGroup,
    ListedHost,
    ListedMachine,
    is_kernel_name,
)
from pytest_vmstorage.config.toml import PlainName, SlipError, Text, TomlTable, load_toml, matching, place
from pytest_vmstorage.config.user_input import read_user_text
from pytest_vmstorage.errors import ConfigError

_PLACE_NAME = re.compile(r"(?:by-path/|pci-|platform-|acpi-|ccw-|virtio-pci-|ip-).*")
_FOLDERS = ("by-id/", "by-partuuid/", "by-partlabel/")

_Kind = Literal["device", "partition"]


def _stable_id(text: str, kind: _Kind) -> str:
    """The id without /dev/disk/ and by-id/ before it; raises SlipError where it may be another device tomorrow."""
    if text.startswith("loop:"):
        if not text.startswith("loop:/") or kind == "partition":
            raise SlipError(
                "is not the file of a loop device",
                "Write loop:/FILE for a whole loop device, and by-partuuid/UUID for a partition of one.",
            )
        return text
    short = text.removeprefix("/dev/disk/")
    if is_kernel_name(text) or (short == text and text.startswith("/")):
        raise SlipError(f"is a name that may be another {kind}'s after the next boot", STABLE, code="VM221")
    if _PLACE_NAME.fullmatch(short):
        raise SlipError(f"names the place a {kind} is plugged into, not the {kind}", STABLE, code="VM221")
    if short.startswith(("by-uuid/", "by-label/")):
        raise SlipError("names a file system, and measuring destroys that", STABLE, code="VM221")
    if "/" in short and (not short.startswith(_FOLDERS) or short.count("/") > 1 or short.endswith("/")):
        raise SlipError(f"is not the id of a {kind}", STABLE, code="VM221")
    if kind == "device" and short.startswith(("by-partuuid/", "by-partlabel/")):
        raise SlipError("is a partition's", "List it under partitions.", code="VM221")
    # the kernel writes a partition's UUID in small letters, gdisk in capitals
    return short.lower() if short.startswith("by-partuuid/") else short.removeprefix("by-id/")


def _kind_of_id(text: str) -> _Kind:
    """Either "partition", for an id that only a partition has, or "device"."""
    short = text.removeprefix("/dev/disk/")
    is_part = short.startswith(("by-partuuid/", "by-partlabel/")) or re.search(r"-part\d+$", short) is not None
    return "partition" if is_part else "device"


def _machine_disk(text: str) -> str:
    if text.startswith("/") and not text.startswith("/dev/"):
        raise SlipError("is not a disk", f"For a file on it write folder = {text!r}.", code="VM221")
    # a name of today is kept as it is, so that the machine can be asked which id that disk has: nothing is written
    return text if is_kernel_name(text) else _stable_id(text, _kind_of_id(text))


def _uri(uri: str) -> str:
    """A libvirt URI, which must not have libvirt run a program of somebody's choice here (libvirt.org/uri.html)."""
    hint = 'Write for example "qemu+ssh://root@lab01/system".'
    try:
        parts = urlsplit(uri)
        asked = {name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True, separator="&")}
    except ValueError as error:
        raise SlipError(f"is not a URI: {error}", hint, code="VM223") from None
    if parts.scheme.partition("+")[2] == "ext" or "command" in asked:
        raise SlipError("would have libvirt run a program on this machine", hint, code="VM223")
    return uri


def _cpus(text: str) -> str:
    try:
        parse_cpus(text)
    except ConfigError:
        hint = 'Write those on which QEMU may run, for example cpus = "2-5,8".'
        raise SlipError("is not a list of CPUs", hint) from None
    return text


def _each_once(tags: tuple[str, ...]) -> tuple[str, ...]:
    for tag in tags:
        if tags.count(tag) > 1:
            raise SlipError(f"has {tag!r} twice", "Take one of them away.")
    return tags


def _may_destroy(value: object) -> object:
    if not isinstance(value, bool):
        raise SlipError("is neither true nor false", "Write {key} = true only where all that is on it may be lost.")
    return value


def _label_text(value: object) -> str:
    if not isinstance(value, str | int | float) or not str(value).strip():
        raise SlipError("is not a text", 'Write {key} = "...".')
    return ("yes" if value else "no") if isinstance(value, bool) else str(value).strip()


def _label_key(key: str) -> str:
    hint = 'Write label = {format = "vmfs", bus = "pvscsi"}.'
    if key in ("host", "accel", "backing", "state", "size", "workload"):
        raise SlipError("is looked at on the machine, and not stated", hint)
    if re.fullmatch(r"[A-Za-z]\w*", key) is None:
        raise SlipError("is not the name of a field", hint)
    return key


def _host_name(name: str) -> str:
    if name == ALL:
        raise SlipError(f"is not a host name: --vm-host={ALL} means every host here", "Give the host another name.")
    return name


def _named(tables: object) -> object:
    """The tables with their own names as `name` where they give no other."""
    if not isinstance(tables, dict):
        return tables
    return {name: {"name": name, **table} if isinstance(table, dict) else table for name, table in tables.items()}


_IS_HOST_NAME = matching(HOST_NAME, "is not a host name", "Write NAME or USER@NAME; a port belongs into ~/.ssh/config.")
_Ssh = Annotated[Text, _IS_HOST_NAME]
_HostName = Annotated[str, _IS_HOST_NAME, AfterValidator(_host_name)]
# it stands behind the colon in backing="device:NAME", and with that in test ids, which - divides
_EntryName = Annotated[str, matching(r"\w[\w.]*", "is not a name", "Use letters, digits, _ and dots.")]
_Tag = Annotated[str, matching(r"\w[\w.-]*", "is not a tag", "Use letters, digits, _, . and -.")]
_Folder = Annotated[Text, matching("(?s)/.*", "is not absolute", "Write it from / on.")]
_MachineFolder = Annotated[Text, matching("(?s)/+[^/].*", "is not the path of a folder below /", 'Write "/srv/bench".')]
_VgName = matching(r"(?!\.\.?$)[\w+.][\w+.-]*", "is not the name of a volume group", "`vgs` shows them.")
_VgUuid = matching(r"\w{6}(?:-\w{4}){5}-\w{6}", "is not the UUID of a volume group", "`vgs -o vg_uuid` shows it.")
_DatasetName = matching(r"[A-Za-z][\w.: -]*(?:/[\w.: -]+)*", "is not the name of a dataset", "`zfs list` shows them.")


_ID = Field(description=STABLE.format(key="id"))


class _Device(TomlTable):
    id: Annotated[Text, AfterValidator(lambda text: _stable_id(text, "device")), _ID]
    allow_destroy: Annotated[bool, BeforeValidator(_may_destroy)] = False


class _Partition(_Device):
    id: Annotated[Text, AfterValidator(lambda text: _stable_id(text, "partition")), _ID]


class _Group(TomlTable):
    name: Annotated[Text, _VgName] | None = None
    vg_uuid: Annotated[Text, _VgUuid] | None = None

    @model_validator(mode="after")
    def _is_named_once(self) -> Self:
        if self.name is not None and self.vg_uuid is not None:
            raise SlipError("name and vg_uuid both say which group that is", "Take one of them away.", of_table=True)
        return self


class _Dataset(TomlTable):
    name: Annotated[Text, _DatasetName]


class _Host(TomlTable):
    uri: Annotated[Text, AfterValidator(_uri)] | None = None
    ssh: _Ssh | None = None
    folder: _Folder | None = None
    cpus: Annotated[Text, AfterValidator(_cpus)] | None = None
    tags: Annotated[tuple[_Tag, ...], AfterValidator(_each_once)] = ()
    devices: Mapping[_EntryName, _Device] = {}
    partitions: Mapping[_EntryName, _Partition] = {}
    volume_groups: Mapping[_EntryName, _Group] = {}
    datasets: Annotated[Mapping[_EntryName, _Dataset], BeforeValidator(_named)] = {}


class _Machine(TomlTable):
    ssh: _Ssh | None = None
    disk: Annotated[Text, AfterValidator(_machine_disk)] | None = None
    folder: _MachineFolder | None = None
    allow_destroy: Annotated[bool, BeforeValidator(_may_destroy)] = False
    label: Mapping[Annotated[str, AfterValidator(_label_key)], Annotated[str, BeforeValidator(_label_text)]] = {}

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        if (self.disk is None) == (self.folder is None):
            given = "neither disk nor folder is" if self.disk is None else "both disk and folder are"
            raise SlipError(
                f"{given} given, and one of them says what is measured",
                'Write disk = "wwn-0x5002538e40a1b2c3" for a whole disk that may be overwritten, or folder = "/srv/x"'
                " for a file that is made there and removed.",
                of_table=True,
            )
        if self.folder is not None and "allow_destroy" in self.model_fields_set:
            reason = "allow_destroy is a disk's, and a folder keeps what is in it"
            raise SlipError(reason, "Take it away.", of_table=True)
        return self


class _InventoryFile(TomlTable):
    hosts: Mapping[_HostName, _Host] = {}
    machines: Mapping[PlainName, _Machine] = {}
    images: Mapping[PlainName, NamedImage] = {}


def read_inventory(path: Path, name: str) -> Inventory:
    """The inventory in that file, which messages call `name`; raises ConfigError."""
    return load_inventory(read_user_text(path, name, hint="Name a TOML file."), name)


def load_inventory(text: str, source: str) -> Inventory:
    """The inventory that a file says; raises ConfigError, one sentence with file and key."""
    file = load_toml(_InventoryFile, text, source, code="VM220")
    for name in file.machines:
        if name in file.hosts or name == LOCAL:
            where = place(source, "machines", name)
            raise ConfigError(
                f"{where}: {name} is a host's name, and rows of both would bear it.", hint="Name it anew.", code="VM222"
            )
    return Inventory(
        source=source,
        hosts={name: _host(name, table, place(source, "hosts", name)) for name, table in file.hosts.items()},
        machines={name: _machine(name, table) for name, table in file.machines.items()},
        images=file.images,
    )


def _machine(name: str, table: _Machine) -> ListedMachine:
    disk = table.disk and ListedDevice(
        name=name, kind=_kind_of_id(table.disk), id=table.disk, allow_destroy=table.allow_destroy
    )
    return ListedMachine(
        name=name,
        ssh=None if table.ssh == LOCAL else table.ssh,
        disk=disk or None,
        folder=table.folder and table.folder.rstrip("/"),
        label=table.label,
    )


def _host(name: str, table: _Host, where: str) -> ListedHost:
    for key in table.model_fields_set & {"uri", "ssh"} if name == LOCAL else ():
        hint = f"Take {key} away, or give the host another name."
        raise ConfigError(f"{where}: {key} is another machine's, and {LOCAL} is this one.", hint=hint, code="VM224")
    host = ListedHost(
        **table.model_dump(include={"uri", "ssh", "folder", "tags"}),
        cpus=parse_cpus(table.cpus) if table.cpus else (),
        devices=tuple(ListedDevice(name=n, kind="device", **dict(one)) for n, one in table.devices.items()),
        partitions=tuple(ListedDevice(name=n, kind="partition", **dict(one)) for n, one in table.partitions.items()),
        volume_groups=tuple(
            ListedGroup(name=n, vg="" if one.vg_uuid else one.name or n, uuid=one.vg_uuid or "")
            for n, one in table.volume_groups.items()
        ),
        datasets=tuple(ListedDataset(name=n, dataset=one.name) for n, one in table.datasets.items()),
    )
    # one thing under two names: a claim on one would not be seen as a claim on the other
    seen: dict[object, str] = {}
    for entry in host.listed():
        what = tuple(entry.model_dump(exclude={"name", "kind", "allow_destroy"}).items())
        if (first := seen.setdefault(what, entry.name)) != entry.name:
            raise ConfigError(
                f"{where}: {first} and {entry.name} are the same thing.", hint="Take one of them away.", code="VM222"
            )
    return host

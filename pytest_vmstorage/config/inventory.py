"""The hosts, machines, devices and images that a user lists, and which of the hosts --vm-host means."""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Literal

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.guest_image import NamedImage
from pytest_vmstorage.errors import ConfigError

LOCAL = "local"
"""Name of this machine, used through the embedded driver where no host is asked for."""

ALL = "all"
"""Stands for every host that vmstorage.toml lists."""

HOST_NAME = re.compile(r"(?:\w[\w.-]*@)?[A-Za-z0-9][\w.-]*")


class ListedDevice(BaseModel):
    """A whole device or a partition that a user allows to be measured, known by an id that no reboot changes.

    `allow_destroy` says that what its signatures stand for may be lost.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    kind: Literal["device", "partition"]
    id: str
    allow_destroy: bool = False


class ListedGroup(BaseModel):
    """An LVM volume group in which volumes may be made, known by its name `vg`, or by `uuid` where that is given."""

    model_config = ConfigDict(frozen=True)

    name: str
    kind: Literal["lvm"] = "lvm"
    vg: str = ""
    uuid: str = ""


class ListedDataset(BaseModel):
    """A ZFS dataset below which zvols may be made, by its full name such as "tank/vms"."""

    model_config = ConfigDict(frozen=True)

    name: str
    kind: Literal["zvol"] = "zvol"
    dataset: str


Listed = ListedDevice | ListedGroup | ListedDataset
"""An entry of vmstorage.toml on which disks may lie; `name` is what stands behind the colon of a cell's backing."""


class ListedMachine(BaseModel):
    """A machine that the plugin did not make: reached by `ssh`, None for this one; measured on a disk or in a folder.

    `disk` is listed like any device; its id is a name of today where the user gave no other, and is then refused.
    `label` is what the user states of what lies below, by field; nothing here can prove it.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    ssh: str | None = None
    disk: ListedDevice | None = None
    folder: str | None = None
    label: Mapping[str, str] = {}

    @property
    def target(self) -> str:
        """Where it is, in a message."""
        return self.ssh or "this machine"


class ListedHost(BaseModel):
    """A host as vmstorage.toml has it; None where it leaves something to the defaults.

    `cpus` are those on which its QEMU may run, all of them for (); `tags` are names by which hosts are chosen.
    """

    model_config = ConfigDict(frozen=True)

    uri: str | None = None
    ssh: str | None = None
    folder: str | None = None
    cpus: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    devices: tuple[ListedDevice, ...] = ()
    partitions: tuple[ListedDevice, ...] = ()
    volume_groups: tuple[ListedGroup, ...] = ()
    datasets: tuple[ListedDataset, ...] = ()


class Inventory(BaseModel):
    """What a vmstorage.toml says: hosts, machines and images by name; `source` is the file's name for messages."""

    model_config = ConfigDict(frozen=True)

    source: str
    hosts: Mapping[str, ListedHost] = {}
    machines: Mapping[str, ListedMachine] = {}
    images: Mapping[str, NamedImage] = {}


class LabHost(BaseModel):
    """A machine that runs guests. `uri` is None for the embedded driver of this process; `ssh` is None here.

    `folder` is where the disks under test lie on that machine, `is_folder_named` whether somebody named it. `listed_as`
    is its name in the inventory `inventory`, a file's name, "" where there is none; what that lists there are the
    devices and volumes that may be written to. `cpus` are the only ones on which its QEMU may run, where there are any.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    uri: str | None
    ssh: str | None
    folder: str
    is_folder_named: bool = False
    listed_as: str = LOCAL
    inventory: str = ""
    cpus: tuple[int, ...] = ()
    devices: tuple[ListedDevice, ...] = ()
    partitions: tuple[ListedDevice, ...] = ()
    volume_groups: tuple[ListedGroup, ...] = ()
    datasets: tuple[ListedDataset, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether the host is this machine."""
        return self.ssh is None

    def listed(self, kind: str | None = None) -> Iterator[Listed]:
        """What may be written to: "device", "partition", "lvm" or "zvol", all of them for None."""
        entries: tuple[Listed, ...] = (*self.devices, *self.partitions, *self.volume_groups, *self.datasets)
        return (entry for entry in entries if kind in (None, entry.kind))


def find_host(name: str | None, folder: str | None, inventory: Inventory | None = None) -> LabHost:
    """The host of that name: this machine for None or "local", otherwise `qemu+ssh://NAME/system`.

    What the inventory says of it replaces these defaults, and `folder` replaces the inventory's. Raises ConfigError
    where the name cannot be a host's.
    """
    listed_as = LOCAL if name is None else name
    entry = inventory.hosts.get(listed_as, ListedHost()) if inventory else ListedHost()
    return _reached(listed_as, folder or entry.folder, entry).model_copy(
        update={
            "is_folder_named": bool(folder or entry.folder),
            "listed_as": listed_as,
            "inventory": inventory.source if inventory else "",
            "cpus": entry.cpus,
            "devices": entry.devices,
            "partitions": entry.partitions,
            "volume_groups": entry.volume_groups,
            "datasets": entry.datasets,
        }
    )


def _reached(name: str, folder: str | None, entry: ListedHost) -> LabHost:
    """The host without what is listed for it."""
    if name == LOCAL:
        return LabHost(name=socket.gethostname(), uri=None, ssh=None, folder=folder or _local_folder())
    if HOST_NAME.fullmatch(name) is None:
        raise ConfigError(f"--vm-host={name} is not a host name.", hint="Write NAME or USER@NAME.")
    ssh = entry.ssh or name
    # no_tty: without it an ssh that wants a password waits for ever on the terminal (libvirt.org/remote)
    uri = entry.uri or f"qemu+ssh://{ssh}/system?no_tty=1"
    return LabHost(name=name, uri=uri, ssh=ssh, folder=folder or "/var/lib/libvirt/images/vmstorage")


def _local_folder() -> str:
    # /var/tmp and not /tmp: the latter is often a tmpfs, which is memory and no disk
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # a container may run under a number that has no name
        user = str(os.getuid())
    return f"/var/tmp/pytest-vmstorage-{user}"


TAG = "tag:"


def choose_hosts(text: str, inventory: Inventory | None) -> tuple[str, ...]:
    """The hosts in the order in which they are first meant, each once; this machine for "".

    Raises ConfigError, one sentence, for what is empty, unknown or given twice, and for one machine under two names.
    """
    if not text:
        return (LOCAL,)
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not part:
            raise ConfigError(f"--vm-host={text} has an empty name.", hint="Write names with one comma between.")
        if parts.count(part) > 1:
            raise ConfigError(f"--vm-host={text} has {part} twice.", hint="Take one of them away.")
    hosts = tuple(dict.fromkeys(name for part in parts for name in _meant(part, text, inventory)))
    _no_twins(hosts, text, inventory)
    return hosts


def _meant(part: str, text: str, inventory: Inventory | None) -> Iterator[str]:
    """The hosts that one part means."""
    if part != ALL and not part.startswith(TAG):
        if HOST_NAME.fullmatch(part) is None:
            raise ConfigError(
                f"--vm-host={text}: {part!r} is not a host name.", hint="Write NAME, USER@NAME, tag:TAG or all."
            )
        yield part
        return
    if inventory is None or not inventory.hosts:
        where = f"{inventory.source} lists none" if inventory else "there is no vmstorage.toml"
        raise ConfigError(
            f"--vm-host={text}: {part} is of hosts that are listed, and {where}.", hint="List them under [hosts.NAME]."
        )
    tag = part.removeprefix(TAG)
    found = [name for name, entry in inventory.hosts.items() if part == ALL or tag in entry.tags]
    if not found:
        tags = dict.fromkeys(one for entry in inventory.hosts.values() for one in entry.tags)
        there = f"It has: {', '.join(tags)}." if tags else 'Write tags = ["nvme"] into a host\'s entry.'
        raise ConfigError(f"--vm-host={text}: no host in {inventory.source} has the tag {tag!r}.", hint=there)
    yield from found


def _no_twins(hosts: tuple[str, ...], text: str, inventory: Inventory | None) -> None:
    """Refuse one machine under two names: two measurements would run side by side on it."""
    for one, other in combinations((find_host(name, None, inventory) for name in hosts), 2):
        if one.ssh == other.ssh:
            reached = f"both by ssh to {one.ssh}"
            raise ConfigError(
                f"--vm-host={text}: {one.listed_as} and {other.listed_as} are one machine, {reached}.",
                hint="Name one of them.",
            )

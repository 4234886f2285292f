"""The hosts, machines, devices and images that a user lists, the file they are in, and the hosts of --vm-host.

Most runs have no such file: reading one is in `inventory_file`, whose tables take 10 ms to make.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.guest_image import NamedImage
from pytest_vmstorage.config.ownership import is_of, is_open, owned_here, this_user
from pytest_vmstorage.errors import ConfigError

LOCAL = "local"
"""The name of this machine, used through the embedded driver where --vm-host names no host."""

ALL = "all"
"""The word for every host that vmstorage.toml lists."""

TAG = "tag:"

HOST_NAME = re.compile(r"(?:\w[\w.-]*@)?[A-Za-z0-9][\w.-]*")

_FILE_NAME = "vmstorage.toml"

_KERNEL_NAME = re.compile(
    r"(?:/dev/)?(?:(?:[shvx]|xv)d[a-z]+\d*|(?:nvme\d+n|mmcblk|loop|nbd|pmem|nullb|md|zd|ram|sr)\d+(?:p\d+)?|dm-\d+)"
)
STABLE = (
    'Give a stable id: a name below /dev/disk/by-id such as {key} = "wwn-0x5002538e40a1b2c3", a WWN or a serial number,'
    " or by-partuuid/UUID of a partition; `ls -l /dev/disk/by-id` shows them."
)
"""The remedy for an id that may change, with `{key}` for the key it stands under."""


class ListedDevice(BaseModel):
    """A whole device or a partition that a user allows to be measured, known by an id that no reboot changes.

    With `allow_destroy` its file systems, and all else that has a signature on it, may be lost.
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
"""An entry of vmstorage.toml on which disks may lie; `name` stands behind the colon of a cell's backing."""


class ListedMachine(BaseModel):
    """A machine that the plugin did not make: reached by `ssh`, None for this one; measured on a disk or in a folder.

    `disk` is listed like any device; its id may be a kernel's name, which is refused later together with the stable id.
    `label` has the user's statements on the storage below, by field; nothing here can prove them.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    ssh: str | None = None
    disk: ListedDevice | None = None
    folder: str | None = None
    label: Mapping[str, str] = {}

    @property
    def target(self) -> str:
        """The machine's address in a message."""
        return self.ssh or "this machine"


class Listing(BaseModel):
    """The entries that vmstorage.toml has for a host, and the CPUs on which its QEMU may run, all of them for ()."""

    model_config = ConfigDict(frozen=True)

    cpus: tuple[int, ...] = ()
    devices: tuple[ListedDevice, ...] = ()
    partitions: tuple[ListedDevice, ...] = ()
    volume_groups: tuple[ListedGroup, ...] = ()
    datasets: tuple[ListedDataset, ...] = ()

    def listed(self, kind: str | None = None) -> Iterator[Listed]:
        """The entries that disks may be written to: "device", "partition", "lvm" or "zvol", all of them for None."""
        entries: tuple[Listed, ...] = (*self.devices, *self.partitions, *self.volume_groups, *self.datasets)
        return (entry for entry in entries if kind in (None, entry.kind))


class ListedHost(Listing):
    """A host as vmstorage.toml has it, None for the defaults; `tags` are names by which hosts are chosen."""

    uri: str | None = None
    ssh: str | None = None
    folder: str | None = None
    tags: tuple[str, ...] = ()


class Inventory(BaseModel):
    """The content of a vmstorage.toml: hosts, machines and images by name; `source` names the file in messages."""

    model_config = ConfigDict(frozen=True)

    source: str
    hosts: Mapping[str, ListedHost] = {}
    machines: Mapping[str, ListedMachine] = {}
    images: Mapping[str, NamedImage] = {}


class LabHost(Listing):
    """A machine that runs guests. `uri` is None for the embedded driver of this process; `ssh` is None here.

    `folder` holds the disks under test on that machine, `is_folder_named` is whether somebody named it. `listed_as` is
    its name in the file `inventory`, "" where there is none.
    """

    name: str
    uri: str | None
    ssh: str | None
    folder: str
    is_folder_named: bool = False
    listed_as: str = LOCAL
    inventory: str = ""

    @property
    def is_local(self) -> bool:
        """Whether the host is this machine."""
        return self.ssh is None


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
        path = folder / _FILE_NAME
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


def is_kernel_name(text: str) -> bool:
    """Whether the kernel gives that name anew at each boot, such as /dev/sdb or nvme0n1p1."""
    return _KERNEL_NAME.fullmatch(text) is not None


def find_host(name: str | None, folder: str | None, inventory: Inventory | None = None) -> LabHost:
    """The host of that name: this machine for None or "local", otherwise `qemu+ssh://NAME/system`.

    The inventory's entry replaces these defaults, and `folder` replaces the entry's. Raises ConfigError for a name that
    no host can have.
    """
    name = LOCAL if name is None else name
    entry = inventory.hosts.get(name, ListedHost()) if inventory else ListedHost()
    folder = folder or entry.folder
    shared: dict[str, Any] = {
        "is_folder_named": bool(folder),
        "listed_as": name,
        "inventory": inventory.source if inventory else "",
        **{field: getattr(entry, field) for field in Listing.model_fields},
    }
    if name == LOCAL:
        return LabHost(name=socket.gethostname(), uri=None, ssh=None, folder=folder or _local_folder(), **shared)
    if HOST_NAME.fullmatch(name) is None:
        raise ConfigError(f"--vm-host={name} is not a host name.", hint="Write NAME or USER@NAME.", code="VM210")
    ssh = entry.ssh or name
    # no_tty: without it an ssh that wants a password waits for ever on the terminal (libvirt.org/remote)
    uri = entry.uri or f"qemu+ssh://{ssh}/system?no_tty=1"
    return LabHost(name=name, uri=uri, ssh=ssh, folder=folder or "/var/lib/libvirt/images/vmstorage", **shared)


def _local_folder() -> str:
    # /var/tmp and not /tmp: the latter is often a tmpfs, which is memory and no disk
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # a container may run under a number that has no name
        user = str(os.getuid())
    return f"/var/tmp/pytest-vmstorage-{user}"


def choose_hosts(text: str, inventory: Inventory | None) -> tuple[str, ...]:
    """The hosts of --vm-host in order, each once; this machine for "".

    Raises ConfigError, one sentence, for an empty, unknown or repeated name, and for one machine under two names.
    """
    if not text:
        return (LOCAL,)
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not part:
            raise ConfigError(
                f"--vm-host={text} has an empty name.", hint="Write names with one comma between.", code="VM210"
            )
        if parts.count(part) > 1:
            raise ConfigError(f"--vm-host={text} has {part} twice.", hint="Take one of them away.", code="VM210")
    hosts = tuple(dict.fromkeys(name for part in parts for name in _meant(part, text, inventory)))
    # one machine under two names: two measurements would run at the same time on it
    for one, other in combinations((find_host(name, None, inventory) for name in hosts), 2):
        if one.ssh == other.ssh:
            names = f"{one.listed_as} and {other.listed_as} are one machine, both by ssh to {one.ssh}"
            raise ConfigError(f"--vm-host={text}: {names}.", hint="Name one of them.", code="VM210")
    return hosts


def _meant(part: str, text: str, inventory: Inventory | None) -> Iterator[str]:
    """The hosts of one part of --vm-host."""
    if part != ALL and not part.startswith(TAG):
        if HOST_NAME.fullmatch(part) is None:
            hint = "Write NAME, USER@NAME, tag:TAG or all."
            raise ConfigError(f"--vm-host={text}: {part!r} is not a host name.", hint=hint, code="VM210")
        yield part
        return
    if inventory is None or not inventory.hosts:
        where = f"{inventory.source} lists none" if inventory else "there is no vmstorage.toml"
        raise ConfigError(
            f"--vm-host={text}: {part} needs a list of hosts, and {where}.",
            hint="List them under [hosts.NAME].",
            code="VM211",
        )
    tag = part.removeprefix(TAG)
    found = [name for name, entry in inventory.hosts.items() if part == ALL or tag in entry.tags]
    if not found:
        tags = dict.fromkeys(one for entry in inventory.hosts.values() for one in entry.tags)
        there = f"It has: {', '.join(tags)}." if tags else 'Write tags = ["nvme"] into a host\'s entry.'
        raise ConfigError(
            f"--vm-host={text}: no host in {inventory.source} has the tag {tag!r}.", hint=there, code="VM211"
        )
    yield from found

"""Facts of a listed device on the host, and every reason against writing to it; nothing is written here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.inventory import LabHost, ListedDevice
from pytest_vmstorage.errors import HostError
from pytest_vmstorage.host.shell import Shell, check
from pytest_vmstorage.units import format_about

_TIME_S = 60.0
_EXAMINING = "Examining a device takes root and util-linux on its host."
_OTHER_MEMBERS = ("btrfs", "bcache", "drbd", "ceph_bluestore", "stratis", "DM_snapshot_cow")


class DeviceUse(NamedTuple):
    """A finding on one node of a device: `on` is the device, a partition of it, or its whole disk."""

    on: str
    what: str

    def __str__(self) -> str:
        return f"{self.what} (on {self.on})"


class DeviceFacts(BaseModel):
    """A block device as the host knows it: sizes in bytes, `number` is MAJOR:MINOR.

    `mounts`, `swaps`, `holders` and `signatures` are those of the device, of its partitions and of the device whose
    partition it is, in every mount namespace that can be seen; `openers` are processes that have it open; `is_busy`
    says that it cannot be opened exclusively; `holds` are folders that lie on it; `unseen` are facts that are hidden.
    """

    model_config = ConfigDict(frozen=True)

    node: str
    number: str
    size_bytes: int
    is_partition: bool = False
    read_only: bool = False
    model: str = ""
    mounts: tuple[DeviceUse, ...] = ()
    swaps: tuple[str, ...] = ()
    holders: tuple[DeviceUse, ...] = ()
    openers: tuple[str, ...] = ()
    signatures: tuple[DeviceUse, ...] = ()
    holds: tuple[str, ...] = ()
    is_busy: bool = False
    unseen: tuple[str, ...] = ()


class Refusal(NamedTuple):
    """A reason not to write to a device, in one sentence, its remedy and its code."""

    what: str
    hint: str
    code: str


# which device that is


def find_node(shell: Shell, host: LabHost, listed: ListedDevice) -> str:
    """The device node that a listed id stands for; raises HostError where there is none, or more than one."""
    script = (resources.files(__package__ or "") / "device_list.sh").read_text()
    argv = ["sh", "-c", script, "sh", "partitions" if listed.kind == "partition" else ""]
    text = check(shell.run(argv, timeout_s=_TIME_S), f"listing the block devices of {host.name}").stdout
    nodes = matching_nodes(text, listed.id)
    if len(nodes) != 1:
        also = f"{len(nodes)} devices of {host.name} have it: {', '.join(nodes)}" if nodes else "no device has it"
        raise HostError(
            f"The {listed.kind} {listed.name} is listed as {listed.id}, but {also}.",
            hint="List it by an id that only it has." if nodes else f"Look on {host.name} whether it is plugged in.",
            code="VM432",
        )
    return nodes[0]


def matching_nodes(listing: str, wanted: str) -> tuple[str, ...]:
    """Nodes for which device_list.sh lists that id, in its order."""
    rows = [line.split("\t") for line in listing.splitlines()]
    numbers = {row[1]: (row[2], row[3]) for row in rows if row[0] == "node"}
    found = []
    for kind, name, *rest in rows:
        if kind == "node":
            continue
        text = "\t".join(rest)
        if wanted in set(_names(kind, text)):
            found.append(name)
        # a partition is known by its device's id as well, as udev has it
        found += [
            part
            for part, (number, whole) in numbers.items()
            if whole == name and number != "0" and wanted in {f"{one}-part{number}" for one in _names(kind, text)}
        ]
    return tuple(f"/dev/{name}" for name in dict.fromkeys(found))


def _names(kind: str, text: str) -> Iterator[str]:
    """The names of a device that has this WWN, serial number, backing file or link."""
    match kind:
        case "link":
            yield text.removeprefix("by-id/")
        case "backing_file":
            yield f"loop:{text}"
        case "partuuid":
            yield f"by-partuuid/{text.lower()}"
        case "partlabel":
            # blkid puts a backslash before a blank; udev writes it as x20 behind one
            label = re.sub(r"\\(.)", r"\1", text)
            yield from (f"by-partlabel/{label}", f"by-partlabel/{label.replace(' ', chr(92) + 'x20')}")
        case _:
            yield from _hardware_names(kind, " ".join(text.split()))


def _hardware_names(kind: str, text: str) -> Iterator[str]:
    yield text
    if kind == "serial":
        # virtio's are 20 characters at most
        yield f"virtio-{text}"
        return
    # udev: wwn-0x5002538e40a1b2c3 and nvme-eui.0025385b71b00b5e; the kernel: naa.5002538e40a1b2c3
    yield f"nvme-{text}"
    if re.fullmatch(r"(?:naa|eui)\.[0-9a-f]+", text):
        digits = text[4:]
        yield from (digits, f"0x{digits}", f"wwn-0x{digits}")


# what is to be known of it


def device_facts(shell: Shell, node: str, folders: Sequence[str]) -> DeviceFacts:
    """Look at the device, and whether those folders lie on it; raises HostError where it cannot be looked at."""
    script = (resources.files(__package__ or "") / "device_facts.sh").read_text()
    done = shell.run(["sh", "-c", script, "sh", node, *folders], timeout_s=_TIME_S)
    return read_facts(check(done, f"looking at {node}").stdout, node)


def read_facts(text: str, node: str) -> DeviceFacts:
    """The output of device_facts.sh; raises HostError where it is not of a block device, or ended early."""
    rows = [line.split("\t") for line in text.splitlines()]
    if rows[:1] == [["missing", node]]:
        raise HostError(
            f"{node} is not a block device.", hint="List a device that has a node of its own.", code="VM432"
        )
    if rows[-1:] != [["end"]] or rows[0][0] != "self":
        raise HostError(f"{node} cannot be examined, so nothing is written to it.", hint=_EXAMINING, code="VM433")
    _, name, number, sectors, read_only, kind = rows[0]

    def pairs(key: str) -> tuple[DeviceUse, ...]:
        return tuple(dict.fromkeys(DeviceUse(row[1].removeprefix("/dev/"), row[2]) for row in rows if row[0] == key))

    def words(key: str) -> tuple[str, ...]:
        return tuple(row[1].strip() for row in rows if row[0] == key)

    is_partition = kind == "partition"
    return DeviceFacts(
        node=f"/dev/{name}",
        number=number,
        size_bytes=int(sectors) * 512,
        is_partition=is_partition,
        read_only=read_only != "0",
        model=" ".join(words("model")),
        mounts=pairs("mount"),
        swaps=words("swap"),
        holders=pairs("holder"),
        openers=words("opener"),
        # a partition lies in a table, which does not mean that somebody uses the partition
        signatures=tuple(one for one in pairs("signature") if not is_partition or one.on == name or is_member(one)),
        holds=words("holds"),
        is_busy=["busy"] in rows,
        unseen=tuple(f"{row[1]} ({row[2]})" for row in rows if row[0] == "unknown"),
    )


def is_member(signature: DeviceUse) -> bool:
    """Whether a signature marks the device as a member of something larger, such as md, LVM, ZFS or btrfs."""
    return signature.what.endswith("_member") or signature.what in _OTHER_MEMBERS


# what speaks against it


def refusals(facts: DeviceFacts, listed: ListedDevice | None, needed_bytes: int) -> tuple[Refusal, ...]:
    """The reasons that forbid writing to the device, the weightiest first; none where it may be written to; pure."""
    return tuple(_refusals(facts, listed, needed_bytes))


def describe(facts: DeviceFacts, listed: ListedDevice) -> str:
    """The device in a message: "device fastssd: /dev/sdb, Samsung SSD 850, 465 GiB, wwn-0x5002538e40a1b2c3"."""
    return f"{listed.kind} {listed.name}: {_details(facts, listed)}"


def _details(facts: DeviceFacts, listed: ListedDevice) -> str:
    known = (facts.node, facts.model, format_about(facts.size_bytes), listed.id)
    return ", ".join(word for word in known if word)


def _refusals(facts: DeviceFacts, listed: ListedDevice | None, needed_bytes: int) -> Iterator[Refusal]:
    if listed is None:
        yield Refusal(
            f"{facts.node} ({format_about(facts.size_bytes)}) is not listed in vmstorage.toml, and nothing is written"
            " to a device that is not.",
            "List it by its stable id if all that is on it may be lost.",
            "VM437",
        )
        return
    name = f"The {listed.kind} {listed.name} ({_details(facts, listed)})"
    other = f"or list another {listed.kind}"
    if facts.is_partition != (listed.kind == "partition"):
        yield Refusal(
            f"{name} is {'a partition' if facts.is_partition else 'a whole device'}.",
            f"List it under {'partitions' if facts.is_partition else 'devices'}.",
            "VM436",
        )
    yield from _used(facts, name, other)
    if facts.unseen:
        # a device that is not known to be unused counts as used
        yield Refusal(f"{name} cannot be examined: {'; '.join(facts.unseen)}.", _EXAMINING, "VM433")
    if facts.read_only:
        yield Refusal(f"{name} is read-only.", f"Run blockdev --setrw {facts.node}, {other}.", "VM436")
    if facts.size_bytes < needed_bytes:
        yield Refusal(
            f"{name} is smaller than the {format_about(needed_bytes)} that the cell needs.", "Lower its size.", "VM436"
        )
    yield from _signed(facts, listed, name, other)


def _used(facts: DeviceFacts, name: str, other: str) -> Iterator[Refusal]:
    if facts.holds:
        yield Refusal(f"{name} holds {' and '.join(facts.holds)} of this host.", f"L{other[4:]}.", "VM434")
    if facts.mounts:
        mounts = ", ".join(f"{on} at {point}" for on, point in facts.mounts)
        yield Refusal(f"{name} is mounted: {mounts}.", f"Unmount it, {other}.", "VM434")
    if facts.swaps:
        yield Refusal(f"{name} is swapped to: {', '.join(facts.swaps)}.", f"Run swapoff on it, {other}.", "VM434")
    if facts.holders:
        yield Refusal(
            f"{name} is held by {', '.join(map(str, facts.holders))}.", f"Detach what holds it, {other}.", "VM434"
        )
    if facts.openers:
        yield Refusal(f"{name} is open in {', '.join(facts.openers)}.", f"End that process, {other}.", "VM434")
    if facts.is_busy and not (facts.mounts or facts.swaps or facts.holders):
        yield Refusal(
            f"{name} is busy: the kernel refuses to open it exclusively.",
            f"Find who uses it (`lsof {facts.node}`, another container), {other}.",
            "VM434",
        )


def _signed(facts: DeviceFacts, listed: ListedDevice, name: str, other: str) -> Iterator[Refusal]:
    members = tuple(one for one in facts.signatures if is_member(one))
    if members:
        yield Refusal(
            f"{name} is a part of something larger: it carries {_carried(members)}, and allow_destroy does not change"
            " that.",
            f"Take it out of that and run `wipefs --all` on it yourself, {other}.",
            "VM435",
        )
    elif facts.signatures and not listed.allow_destroy:
        yield Refusal(
            f"{name} carries {_carried(facts.signatures)}.",
            f"Write allow_destroy = true beside its id if all that is on it may be lost, {other}.",
            "VM435",
        )


def _carried(signatures: Sequence[DeviceUse]) -> str:
    return ", ".join(dict.fromkeys(map(str, signatures)))

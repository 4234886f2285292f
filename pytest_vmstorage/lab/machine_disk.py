"""The disk under test on a machine that the plugin did not make: found, checked, made, removed.

The rules for writing to a disk are those for a host's listed disk; in a folder a file is made and removed.
"""

from __future__ import annotations

import json
from importlib import resources

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import STABLE, LabHost, ListedDevice, ListedMachine, is_kernel_name
from pytest_vmstorage.errors import ConfigError, HostError
from pytest_vmstorage.host.folders import check_room, folder_facts
from pytest_vmstorage.host.shell import Shell, check
from pytest_vmstorage.storage.block import find_block, make_block, plan_line, remove_block
from pytest_vmstorage.storage.disk import HostDisk
from pytest_vmstorage.storage.space import HEADROOM_BYTES
from pytest_vmstorage.units import format_about

_TOOLS = {
    "disk": ("awk", "blkid", "blockdev", "dd", "find", "findmnt", "flock", "sed", "stat", "sync", "timeout", "wipefs"),
    "folder": ("dd", "df", "flock", "stat", "sync", "timeout", "truncate"),
}
"""Programs that are run there in addition to the workload's own tool, by the kind of place that is measured."""

_MISSING = 'for tool; do command -v "$tool" >/dev/null || echo "$tool"; done'


def check_tools(shell: Shell, listed: ListedMachine) -> None:
    """Raise HostError with the names of missing programs, and where the machine cannot be reached."""
    tools = _TOOLS["folder" if listed.disk is None else "disk"]
    done = check(shell.run(["sh", "-c", _MISSING, "sh", *tools]), f"looking for programs on {listed.name}")
    missing = done.stdout.split()
    if missing:
        raise HostError(
            f"The machine {listed.name} ({listed.target}) lacks {', '.join(missing)}.",
            hint="Install what has it there (on Debian coreutils, util-linux, findutils, mawk, sed).",
            code="VM440",
        )


def plan_disk(shell: Shell, listed: ListedMachine, config: StorageConfig, source: str) -> str:
    """The place that will be written to, in one line, after all checks and without a write.

    Raises ConfigError for a disk that is not listed by a stable id, HostError where it must not be written to.
    """
    _check_state(listed, config)
    if listed.disk is None:
        return f"{listed.target}, a file of {format_about(config.size)} is made in {listed.folder} and removed."
    _check_id(shell, listed, listed.disk, source)
    return f"{listed.target}, {plan_line(find_block(shell, _as_host(listed, source), config))}"


def make_machine_disk(
    shell: Shell, listed: ListedMachine, config: StorageConfig, source: str, folder: str, number: int
) -> HostDisk:
    """Check again, then wipe the disk as far as it may be wiped, or make a file of the cell's size in `folder`.

    Raises what `plan_disk` raises, and ProvisionError.
    """
    _check_state(listed, config)
    if listed.disk is not None:
        _check_id(shell, listed, listed.disk, source)
        block = make_block(shell, _as_host(listed, source), config, run_id="machine", number=number)
        return HostDisk(config=config, path=block.path, block=block)
    check_room(folder_facts(shell, folder), config.size + HEADROOM_BYTES, f"a file of {format_about(config.size)}")
    path = f"{folder}/disk-{number}.raw"
    # a file of another run would hold data already
    check(shell.run(["sh", "-c", 'set -C; : >"$1"', "sh", path]), f"making {path} on {listed.name}")
    check(shell.run(["truncate", "-s", str(config.size), "--", path]), f"making {path} on {listed.name}")
    return HostDisk(config=config, path=path)


def remove_machine_disk(shell: Shell, disk: HostDisk) -> None:
    """Remove the file, or the signatures that a cell left on a disk. Raises ProvisionError, HostError."""
    if disk.block is not None:
        remove_block(shell, disk.block)
    else:
        check(shell.run(["rm", "-f", "--", disk.path]), f"removing {disk.path}")


def _as_host(listed: ListedMachine, source: str) -> LabHost:
    """The machine as a host on which its one disk is listed."""
    disks = (listed.disk,) if listed.disk is not None else ()
    return LabHost(
        name=listed.name,
        uri=None,
        ssh=listed.ssh,
        folder="/",
        listed_as=listed.name,
        inventory=source,
        devices=tuple(one for one in disks if one.kind == "device"),
        partitions=tuple(one for one in disks if one.kind == "partition"),
    )


def _check_state(listed: ListedMachine, config: StorageConfig) -> None:
    if listed.disk is not None and config.state == "fresh":
        raise ConfigError(
            f"{config} cannot be had: what the disk of {listed.name} held before is not known, so that none of its"
            " blocks is surely fresh.",
            hint='Use state="filled", or measure in a folder there.',
            code="VM441",
        )


def _check_id(shell: Shell, listed: ListedMachine, disk: ListedDevice, source: str) -> None:
    """Raise ConfigError for a name that the kernel assigns at each boot; it proposes the disk's stable name."""
    if not is_kernel_name(disk.id):
        return
    node = disk.id.removeprefix("/dev/")
    what = f"{source}, [machines.{listed.name}]: disk = {json.dumps(disk.id)} is a name that may be"
    script = (resources.files("pytest_vmstorage.storage") / "device_list.sh").read_text()
    done = check(shell.run(["sh", "-c", script, "sh", "partitions"]), f"listing the block devices of {listed.name}")
    names = stable_names(done.stdout, node)
    if names:
        where = f"/dev/disk/{names[0]}" if names[0].startswith("by-") else names[0]
        raise ConfigError(
            f"{what} another disk's after the next boot; on that machine it is {where} now.",
            hint=f'Write disk = "{names[0].removeprefix("by-id/")}" if all that is on it may be lost.',
            code="VM221",
        )
    raise ConfigError(
        f"{what} another disk's after the next boot, and on that machine it has no other.",
        hint="Give that disk a serial number where it is made (on ESX disk.EnableUUID), or measure in a folder on it."
        f" {STABLE.format(key='disk')}",
        code="VM221",
    )


def stable_names(listing: str, node: str) -> tuple[str, ...]:
    """Stable names of a node in device_list.sh's output: links below /dev/disk first, then WWN and serial number."""
    rows = [line.split("\t") for line in listing.splitlines()]
    own = [(row[0], " ".join("\t".join(row[2:]).split())) for row in rows if row[0] != "node" and row[1] == node]
    links = [text for kind, text in own if kind == "link"]
    parts = [f"by-partuuid/{text.lower()}" for kind, text in own if kind == "partuuid"]
    ids = [text for wanted in ("wwid", "serial") for kind, text in own if kind == wanted and text]
    files = [f"loop:{text}" for kind, text in own if kind == "backing_file"]
    # a WWN names a disk wherever it is plugged in
    return tuple(dict.fromkeys([*sorted(links, key=lambda text: "/wwn-" not in text), *parts, *ids, *files]))

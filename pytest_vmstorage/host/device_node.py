"""The kind of a path on the host: a regular file, or a kind of block device."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.host.shell import Shell, check

NodeKind = Literal["file", "device", "partition", "lvm", "zvol", "dm", "other"]

_SCRIPT = """
set -- $(stat -L -c '%f %t %T' -- "$1") || exit 1
mode=$((0x$1 & 0170000))
case $mode in
$((0100000))) echo file; exit ;;
$((0060000))) ;;
*) echo other; exit ;;
esac
sys=/sys/dev/block/$((0x$2)):$((0x$3))
kind=device
case "$(readlink -f "$sys")" in */zd[0-9]*) kind=zvol ;; esac
if [ -r "$sys/dm/uuid" ]; then
    case "$(cat "$sys/dm/uuid")" in LVM-*) kind=lvm ;; *) kind=dm ;; esac
fi
[ ! -e "$sys/partition" ] || kind=partition
real=$(readlink -f "$sys")
echo "$kind $((0x$2)):$((0x$3)) $(cat "$sys/size") ${real##*/} $(cat "$sys/dm/name" 2>/dev/null)"
"""


class NodeFacts(BaseModel):
    """A path's kind; `number` is a block device's MAJOR:MINOR, `name` the kernel's or device mapper's, sizes in bytes.

    "dm" is a device of the device mapper that is not LVM's; "other" is neither a file nor a block device.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    kind: NodeKind
    number: str = ""
    name: str = ""
    size_bytes: int = 0

    def __str__(self) -> str:
        if not self.number:
            return "a regular file" if self.kind == "file" else "neither a file nor a block device"
        return f"{self.kind} {self.name} ({self.number})"


def node_facts(shell: Shell, path: str) -> NodeFacts:
    """The facts of the path that QEMU opened, links followed; raises ProvisionError where nothing is there."""
    words = check(shell.run(["sh", "-c", _SCRIPT, "sh", path]), f"looking at {path}").stdout.split()
    found: dict[str, object] = {"path": path, "kind": words[0]}
    if len(words) > 1:
        found |= {"number": words[1], "size_bytes": int(words[2]) * 512, "name": words[-1]}
    return NodeFacts.model_validate(found)

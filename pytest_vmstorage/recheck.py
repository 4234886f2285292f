"""One look into a guest after the last round: whether its disk is still what was proven before the first I/O."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_vmstorage.command import Shell
from pytest_vmstorage.guest import GuestFacts
from pytest_vmstorage.kernel_log import TROUBLE

# one command, for each costs an emulated guest a tenth of a second
_LOOK = r"""
name=${1##*/}
read -r cache <"/sys/block/$name/queue/write_cache"; echo "cache|$cache"
read -r scheduler <"/sys/block/$name/queue/scheduler"; echo "scheduler|$scheduler"
while read -r device _ _ options _; do [ "$device" = "$1" ] && echo "options|$options"; done </proc/mounts
dmesg | grep -m 1 -E -- "$2" | sed 's/^/trouble|/'
"""


def changed_in_guest(shell: Shell, facts: GuestFacts) -> str:
    """What is no longer as the facts have it, in a clause; "" where all is, and the kernel logged no trouble."""
    done = shell.run(["/bin/sh", "-c", _LOOK, "sh", facts.disk, TROUBLE], timeout_s=60)
    return "; ".join(_changes(done.stdout, facts))


def _changes(text: str, facts: GuestFacts) -> Iterator[str]:
    said = dict(line.split("|", 1) for line in text.splitlines() if "|" in line)
    if "trouble" in said:
        yield f"the guest's kernel had trouble with its disk: {said['trouble'].strip()}"
    words = said.get("scheduler", "").split()
    now = {
        "cache": (facts.write_cache, said.get("cache", "unknown")),
        "scheduler": (facts.scheduler, next((word.strip("[]") for word in words if word.startswith("[")), "unknown")),
    }
    if facts.mounted:
        options = said.get("options", "").split(",")
        now["guest_mount"] = ("rw", "rw" if "rw" in options else options[0] or "not mounted")
    for field, (then, found) in now.items():
        if then != found:
            yield f"after the last round {field} is {found} (guest sysfs), not {then}"

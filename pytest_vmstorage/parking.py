"""A disk that a guest lets go before it is saved, and looks at afresh when it is restored.

What the guest knows of a disk it learns when its driver is bound: size, write cache, queues. A guest that was saved
without it therefore has nothing of a disk from its state, and all of it from the disk that it then has.

The shell that lets the disk go is saved with the guest, and waits. When it is told what time it is, it sets the clock,
binds the driver and answers what every guest is asked first: an emulated guest that was just restored takes long to
begin its first process, and this one is there.
"""

from __future__ import annotations

import hashlib
import time

from pytest_vmstorage.agent import AgentShell
from pytest_vmstorage.command import Shell
from pytest_vmstorage.errors import GuestError, HypervisorError
from pytest_vmstorage.guest_facts import NO_DISK, PROBE
from pytest_vmstorage.parked_fio import END_PARKED_FIO, PARK_FIO
from pytest_vmstorage.provision.domain import ROOT_SERIAL

PARK_S = 15.0
"""How long a guest that was just booted may take until its disk is there, and is let go."""

WAKE_S = 20.0
READY_S = 2.0
"""How long a restored guest's shell may take until it listens: it was saved as it was about to, or did already."""

WARM = ("date", "timeout", "fio", "dd", "blockdev", "mkfs.ext4", "mount", "stat", "truncate")
"""Programs that are in a saved guest's cache: what nearly every guest runs."""

WARM_MODULE = "ext4"
"""Driver of the file system that most guests with one have; it has nothing of a disk before it mounts one."""

_FILES = "/run/vmstorage-parked"
_WAKE, _SAID, _ERRORS = (f"{_FILES}.{what}" for what in ("wake", "said", "errors"))
_DONE, _NOT, _END = "woken", "not woken", "woken\n"
_PARK = f"""
set -e
find_disk() {{
    for path in /sys/block/*; do
        case ${{path##*/}} in {NO_DISK}) continue ;; esac
        serial=
        if [ -r "$path/serial" ]; then read -r serial <"$path/serial" || :; fi
        if [ "$serial" != {ROOT_SERIAL} ]; then return 0; fi
    done
    return 1
}}
look() {{
{PROBE}
}}
until find_disk; do sleep 0.05; done
device=$(cd -P -- "$path/device" && pwd)
# a SCSI disk is let go with what it is plugged into
while :; do
    case ${{device##*/}} in virtio*|????:??:??.?) break ;; '') exit 1 ;; esac
    device=${{device%/*}}
done
driver=$(cd -P -- "$device/driver" && pwd)
echo "${{device##*/}}" >"$driver/unbind"
# waits until the kernel has random numbers to give: only then does it take a fork for a reason to have others
head -c 1 /dev/random >/dev/null
mkfifo {_WAKE}
# read from their files now, and not by every guest that is restored
for tool in {" ".join(WARM)}; do "$tool" --version >/dev/null 2>&1 </dev/null || :; done
modprobe -q {WARM_MODULE} || :
{PARK_FIO}
set +e
{{
    read -r now fills <{_WAKE}
    if [ "$fills" = no ]; then
{END_PARKED_FIO}
    fi
    if date -s "@$now" >/dev/null && echo "${{device##*/}}" >"$driver/bind"; then
        # SCSI and ATA disks come in the background
        tries=0
        until find_disk || [ $tries -ge 200 ]; do tries=$((tries + 1)); sleep 0.02; done
        look
        echo {_DONE}
    else
        echo {_NOT}
    fi
}} >{_SAID} 2>{_ERRORS} </dev/null &
"""

PARKING = hashlib.sha256(_PARK.encode()).hexdigest()
"""Stands for what a saved guest does when it is restored: one that was saved to do something else is of no use."""


def park(shell: Shell) -> None:
    """Have a booted guest let its disk go; raises GuestError where it does not."""
    done = shell.run(["/bin/sh", "-c", _PARK], timeout_s=PARK_S)
    if not done.ok:
        raise GuestError(f"The guest that was to be saved does not let its disk go: {done.tail(1)}.")


def wake(shell: AgentShell, *, fills: bool) -> None:
    """Tell a restored guest what time it is; it sets its clock and looks at its disk. Raises GuestError.

    Unless its disk is to be filled nothing waits for that any longer.
    """
    deadline = time.monotonic() + READY_S
    while True:
        try:
            # the agent's open does not wait for a reader
            return shell.write(_WAKE, f"{time.time():.6f} {'yes' if fills else 'no'}\n".encode())
        except HypervisorError as error:
            if time.monotonic() > deadline:
                raise GuestError(f"The restored guest does not wake: {error.what}") from None
            time.sleep(0.02)


def wait_until_awake(shell: AgentShell) -> str:
    """Wait until a guest that was woken has seen its disk; returns what PROBE printed. Raises GuestError."""
    try:
        *lines, last = shell.follow(_SAID, _END, timeout_s=WAKE_S).splitlines() or [""]
    except HypervisorError as error:
        raise GuestError(f"The restored guest says nothing: {error.what}") from None
    if last != _DONE:
        errors = shell.read(_ERRORS).strip().splitlines() or [f"it does not say so in {WAKE_S:.0f} s"]
        raise GuestError(f"The restored guest does not find its disk: {errors[-1]}.")
    return "\n".join(lines)

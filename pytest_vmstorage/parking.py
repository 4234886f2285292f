"""A disk that a guest lets go before it is saved, and looks at afresh when it is restored.

What the guest knows of a disk it learns when its driver is bound: size, write cache, queues. A guest that was saved
without it therefore has nothing of a disk from its state, and all of it from the disk that it then has.
"""

from __future__ import annotations

import time

from pytest_vmstorage.command import Shell
from pytest_vmstorage.errors import GuestError
from pytest_vmstorage.provision.domain import ROOT_SERIAL

PARK_S = 15.0
"""How long a guest that was just booted may take until its disk is there, and is let go."""

WAKE_S = 20.0
_KNOWN = "/run/vmstorage-parked"
_PARK = f"""
set -e
while [ ! -s {_KNOWN} ]; do
    for path in /sys/block/*; do
        case ${{path##*/}} in loop*|ram*|zram*|sr*|fd*|nullb*) continue ;; esac
        serial=
        if [ -r "$path/serial" ]; then read -r serial <"$path/serial" || :; fi
        if [ "$serial" = {ROOT_SERIAL} ]; then continue; fi
        device=$(cd -P -- "$path/device" && pwd)
        # a SCSI disk is let go with what it is plugged into
        while :; do
            case ${{device##*/}} in virtio*|????:??:??.?) break ;; '') exit 1 ;; esac
            device=${{device%/*}}
        done
        driver=$(cd -P -- "$device/driver" && pwd)
        echo "${{device##*/}} $driver" >{_KNOWN}
        echo "${{device##*/}}" >"$driver/unbind"
        break
    done
    [ -s {_KNOWN} ] || sleep 0.05
done
# waits until the kernel has random numbers to give: only then does it take a fork for a reason to have others
head -c 1 /dev/random >/dev/null
"""
_WAKE = f"""
date -s "@$1" >/dev/null
read -r device driver <{_KNOWN} && rm {_KNOWN} && echo "$device" >"$driver/bind"
"""


def park(shell: Shell) -> None:
    """Have a booted guest let its disk go; raises GuestError where it does not."""
    done = shell.run(["/bin/sh", "-c", _PARK], timeout_s=PARK_S)
    if not done.ok:
        raise GuestError(f"The guest that was to be saved does not let its disk go: {done.tail(1)}.")


def wake(shell: Shell) -> None:
    """Tell a restored guest what time it is, and have it look at its disk; raises GuestError where it does not."""
    done = shell.run(["/bin/sh", "-c", _WAKE, "sh", f"{time.time():.6f}"], timeout_s=WAKE_S)
    if not done.ok:
        raise GuestError(f"The restored guest does not find its disk: {done.tail(1)}.")

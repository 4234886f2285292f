"""What waits in a guest while it is saved: a disk that the guest lets go and looks at afresh, and a fio that has begun.

What the guest knows of a disk it learns when its driver is bound: size, write cache, queues. A guest that was saved
without it therefore has nothing of a disk from its state, and all of it from the disk that it then has.

The shell that lets the disk go is saved with the guest, and waits. When it is told what time it is, it sets the clock,
binds the driver and answers what every guest is asked first: an emulated guest that was just restored takes long to
begin its first process, and this one is there.

To begin fio takes an emulated guest a second, most of it for the linking of its 62 libraries: as long as it takes to
fill a disk of 300 MiB.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Sequence

from pytest_vmstorage.errors import GuestError, HypervisorError, WorkloadError
from pytest_vmstorage.guest.agent import AgentShell
from pytest_vmstorage.guest.domain_xml import ROOT_SERIAL
from pytest_vmstorage.guest.facts import NO_DISK, PROBE
from pytest_vmstorage.host.shell import TIMED_OUT, CommandResult, Shell, check_time, run_line

_END_S = 20.0
_FIO_FILES = "/run/vmstorage-parked-fio"
# the pid is there as long as there is something to wait for, or to end
_PID, _JOB, _CODE, _FIO_SAID = (f"{_FIO_FILES}.{what}" for what in ("pid", "job", "code", "said"))

PARK_FIO = f"""
mkfifo {_JOB} {_CODE}
{{
    fio --output-format=terse --output=/dev/null {_JOB} >{_FIO_SAID} 2>&1 &
    echo $! >{_PID}
    wait $! && code=0 || code=$?
    [ ! -s {_PID} ] || echo $code >{_CODE}
}} >/dev/null 2>&1 </dev/null &
tries=0
until [ -s {_PID} ] && read -r pid <{_PID} && grep -qs partner /proc/$pid/wchan || [ $tries -ge 100 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
[ -d /proc/$pid ] || {{ echo "no fio waits there: $(cat {_FIO_SAID})" >&2; exit 1; }}
"""
"""Lines of sh, for `set -e`, that begin it and wait until it waits for who writes its job file, which is a pipe."""

_BY_PARKED_FIO = f"""
# one that was killed and not asked for yet still has its pid, but no program any more, and reads nothing
if [ -s {_PID} ] && read -r pid <{_PID} && [ -e "/proc/$pid/exe" ]; then
    for word; do
        case $word in
            fio | --output*) ;;
            --name=*) printf '[%s]\\n' "${{word#--name=}}" ;;
            *) printf '%s\\n' "${{word#--}}" ;;
        esac
    done >{_JOB}
    read -r code <{_CODE}
    : >{_PID}
    [ "$code" = 0 ] || cat {_FIO_SAID} >&2
    exit "$code"
fi
exec "$@"
"""
END_PARKED_FIO = f"""
if [ -s {_PID} ]; then
    read -r pid <{_PID}
    : >{_PID}
    # a job without --thread is a process of its own
    kill -KILL "$pid" $(cat "/proc/$pid/task/$pid/children") 2>/dev/null || :
fi
"""
"""Lines of sh that end one which nobody needs, or that did not end in time."""


def run_fio(shell: Shell, words: Sequence[str], *, is_parked: bool, timeout_s: float) -> CommandResult:
    """What fio says with these words, of which it is the first; where one is parked, the first time by that one."""
    if not is_parked:
        return run_line(shell, 'exec "$@"', *words, timeout_s=timeout_s)
    done = run_line(shell, _BY_PARKED_FIO, *words, timeout_s=timeout_s)
    if done.returncode == TIMED_OUT:
        # what was ended is who waited for it, and that is what is told
        with contextlib.suppress(WorkloadError):
            end_parked_fio(shell)
    return done


def end_parked_fio(shell: Shell) -> None:
    """End it where it still waits, or works: it would take its memory from what is measured. Raises WorkloadError."""
    done = run_line(shell, END_PARKED_FIO, timeout_s=_END_S)
    what = "Ending the fio that waits in the guest"
    check_time(done, what)
    if not done.ok:
        raise WorkloadError(f"{what} failed.", output=done.tail())


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

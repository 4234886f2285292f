"""Parking: before a guest is saved it releases its disk and starts a fio that waits, and a restored guest uses both.

A guest learns a disk's size, write cache and queues when the driver is bound. A guest that was saved without a bound
driver therefore has nothing of a disk from its state, and everything from the disk that it then has.

The shell that releases the disk is saved with the guest, and waits. When it gets the time of day, it sets the clock,
binds the driver and prints the facts that every guest is asked for first: an emulated guest that was just restored
takes long to start its first process, and this one runs already.

To start fio takes an emulated guest a second, most of it for the linking of its 62 libraries: as long as it takes to
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
# the file has the pid as long as there is a fio to wait for, or to end
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
"""Lines of sh, for `set -e`, that start fio and wait until it waits for a writer of its job file, which is a pipe."""

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
"""Lines of sh that end a parked fio that is not needed, or that did not end in time."""


def run_fio(shell: Shell, words: Sequence[str], *, is_parked: bool, timeout_s: float) -> CommandResult:
    """Run fio, the first of these words, with the others; a parked fio does the first run. Returns its output."""
    if not is_parked:
        return run_line(shell, 'exec "$@"', *words, timeout_s=timeout_s)
    done = run_line(shell, _BY_PARKED_FIO, *words, timeout_s=timeout_s)
    if done.returncode == TIMED_OUT:
        # the time limit ended the shell that waits for fio, and its result is the one to return
        with contextlib.suppress(WorkloadError):
            end_parked_fio(shell)
    return done


def end_parked_fio(shell: Shell) -> None:
    """End a parked fio that waits or works: its memory would be missing in the measurement. Raises WorkloadError."""
    done = run_line(shell, END_PARKED_FIO, timeout_s=_END_S)
    what = "Ending the fio that waits in the guest"
    check_time(done, what)
    if not done.ok:
        raise WorkloadError(f"{what} failed.", output=done.tail(), code="VM516")


PARK_S = 60.0
"""Time that a guest that was just booted has to find and release its disk; a busy host that emulates it takes long."""

WAKE_S = 20.0
READY_S = 2.0
"""Time until a restored guest's shell listens: it was saved while it listened, or just before."""

WARM = ("date", "timeout", "fio", "dd", "blockdev", "mkfs.ext4", "mount", "stat", "truncate")
"""Programs in a saved guest's page cache, because nearly every guest runs them."""

WARM_MODULE = "ext4"
"""Driver of the most frequent file system; it holds nothing of a disk before it mounts one."""

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
"""Digest of the script that a saved guest runs when it is restored: a guest saved with another script is of no use."""


def park(shell: Shell) -> None:
    """Make a booted guest release its disk; raises GuestError where it does not."""
    done = shell.run(["/bin/sh", "-c", _PARK], timeout_s=PARK_S)
    if not done.ok:
        raise GuestError(f"The guest to be saved does not release its disk: {done.tail(1)}.", code="VM516")


def wake(shell: AgentShell, *, fills: bool) -> None:
    """Send a restored guest the time of day; it sets its clock and looks at its disk. Raises GuestError.

    The parked fio ends unless the guest fills its disk.
    """
    deadline = time.monotonic() + READY_S
    while True:
        try:
            # the agent's open does not wait for a reader
            return shell.write(_WAKE, f"{time.time():.6f} {'yes' if fills else 'no'}\n".encode())
        except HypervisorError as error:
            if time.monotonic() > deadline:
                raise GuestError(f"The restored guest does not wake: {error.what}", code="VM516") from None
            time.sleep(0.02)


def wait_until_awake(shell: AgentShell) -> str:
    """Wait until a woken guest has seen its disk; returns the output of PROBE. Raises GuestError."""
    try:
        *lines, last = shell.follow(_SAID, _END, timeout_s=WAKE_S).splitlines() or [""]
    except HypervisorError as error:
        raise GuestError(f"The restored guest says nothing: {error.what}", code="VM516") from None
    if last != _DONE:
        errors = shell.read(_ERRORS).strip().splitlines() or [f"it does not say so in {WAKE_S:.0f} s"]
        raise GuestError(f"The restored guest does not find its disk: {errors[-1]}.", code="VM516")
    return "\n".join(lines)

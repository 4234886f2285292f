"""A fio that was begun in a guest before that was saved, and waits in each restored one for what it is to write.

To begin fio takes an emulated guest a second, most of it for the linking of its 62 libraries: as long as it takes to
fill a disk of 300 MiB.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from pytest_vmstorage.command import TIMED_OUT, CommandResult, Shell, check_time, run_line
from pytest_vmstorage.errors import WorkloadError

_END_S = 20.0
_FILES = "/run/vmstorage-parked-fio"
# the pid is there as long as there is something to wait for, or to end
_PID, _JOB, _CODE, _SAID = (f"{_FILES}.{what}" for what in ("pid", "job", "code", "said"))

PARK_FIO = f"""
mkfifo {_JOB} {_CODE}
{{
    fio --output-format=terse --output=/dev/null {_JOB} >{_SAID} 2>&1 &
    echo $! >{_PID}
    wait $! && code=0 || code=$?
    [ ! -s {_PID} ] || echo $code >{_CODE}
}} >/dev/null 2>&1 </dev/null &
tries=0
until [ -s {_PID} ] && read -r pid <{_PID} && grep -qs partner /proc/$pid/wchan || [ $tries -ge 100 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
[ -d /proc/$pid ] || {{ echo "no fio waits there: $(cat {_SAID})" >&2; exit 1; }}
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
    [ "$code" = 0 ] || cat {_SAID} >&2
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

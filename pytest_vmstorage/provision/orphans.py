"""Commands of a dead run that go on by themselves on its host, such as fio of a native row: found and ended."""

from __future__ import annotations

import re

from pytest_vmstorage.command import Shell
from pytest_vmstorage.errors import ProvisionError

_RUN = re.compile(r"\w+")

# The run's id comes by stdin, so that neither this script nor the ssh that carries it has it among its words.
# A command with a terminal and a parent is somebody's who looks at the run's files. Guests are left to libvirt.
_SCRIPT = r"""
exec 2>/dev/null
read -r run
pattern='(run|vms(torage)?)-%s([^[:alnum:]]|$)\n'
named() { printf "$pattern" "$run" | grep -lzsE -f - /proc/[0-9]*/cmdline | cut -d/ -f3; }
left() {
    for pid in $(named); do
        stat=$(cat "/proc/$pid/stat") || continue
        name=${stat#*(} name=${name%)*}
        set -- ${stat##*) }
        case $name in qemu-system* | qemu-kvm) continue ;; esac
        [ "$1" != Z ] && { [ "$2" = 1 ] || [ "$5" = 0 ]; } || continue
        tr '\0' '\n' <"/proc/$pid/cmdline" | grep -qx -e -uuid || echo "$pid $name"
    done
}
found=$(left)
[ -n "$found" ] && echo "$found" || exit 0
[ "$1" = look ] && exit
tries=0
while :; do
    kill -KILL $(echo "$found" | cut -d' ' -f1)
    sleep 0.1
    found=$(left)
    [ -n "$found" ] || exit 0
    [ $((tries += 1)) -lt 100 ] || exit 1
done
"""


def end_orphans(shell: Shell, run_id: str, *, look_only: bool = False) -> list[str]:
    """Kill commands that have the run's folder or volumes among their words; a phrase for each.

    With `look_only` they are only told. Raises ProvisionError where one stays.
    """
    if _RUN.fullmatch(run_id) is None:
        # it becomes a part of a pattern, and a lease from which it comes may be damaged
        raise ProvisionError(f"{run_id!r} is no run's id.")
    done = shell.run(["sh", "-c", _SCRIPT, "sh", "look" if look_only else "end"], stdin=f"{run_id}\n".encode())
    found = [line.split(" ", 1) for line in done.stdout.splitlines()]
    said = [f"{name} (pid {pid})" for pid, name in found]
    if not done.ok:
        raise ProvisionError(
            f"a command of it goes on: {', '.join(said)}.",
            hint="It may be another user's, or wait for a disk that does not answer: end it there.",
        )
    return said

"""Bash scripts of workloads: fresh folders on a disk with room, and parts timed by bash's own EPOCHREALTIME."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pytest_vmstorage.errors import WorkloadError

FRESH = r"""
set -eo pipefail
fresh() { rm -rf "$@"; mkdir "$@"; }
check_room() {
  local free
  free=$(df -B1 --output=avail "$1" | tail -n 1)
  if [ "$free" -lt "$2" ]; then
    echo "$3 $2 bytes, and $1 has $free: make the disk larger" >&2
    exit 1
  fi
}
random_line() { head -c 8388608 /dev/urandom | tr -d '\000\n'; }
"""
"""Begins a script that makes files: it ends at a failure.

`fresh FOLDER...` makes empty folders, `check_room FOLDER BYTES "the pages need"` fails on a disk without that room, and
`random_line` prints one line of about 8 MB without NUL, which every awk reads whole.
"""

TIMED = r"""
set -eo pipefail
part() {
  local name=$1 begin=$EPOCHREALTIME
  shift
  "$@"
  echo "part $name $begin $EPOCHREALTIME"
}
"""
"""Begins a script: `part NAME COMMAND...` runs the command and prints when it began and ended; it ends at a failure."""

_PART = re.compile(r"^part (\S+) (\d+\.\d+) (\d+\.\d+)$", re.MULTILINE)


def bash(script: str, *words: str) -> tuple[str, ...]:
    """The argv of that script, in the C locale, with these words as its arguments."""
    return ("env", "LC_ALL=C", "bash", "-c", script, "bash", *words)


def seconds_of(names: Sequence[str], text: str) -> dict[str, float]:
    """The duration of each of these parts; raises WorkloadError where one is missing or took no time."""
    found = {name: float(end) - float(begin) for name, begin, end in _PART.findall(text)}
    for name in names:
        if name not in found:
            hint = "It needs bash 5 where it runs."
            raise WorkloadError(f"The part {name!r} printed no time.", hint=hint, output=text, code="VM702")
        if found[name] <= 0:
            raise WorkloadError(f"The part {name!r} took no time: the clock was set back.", output=text, code="VM711")
    return {name: found[name] for name in names}

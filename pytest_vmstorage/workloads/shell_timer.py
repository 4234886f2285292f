"""Parts of a script timed where it runs, without a process of their own: bash's EPOCHREALTIME, microseconds."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pytest_vmstorage.errors import WorkloadError

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
    """How long each of these parts took; raises WorkloadError where one is missing or took no time."""
    found = {name: float(end) - float(begin) for name, begin, end in _PART.findall(text)}
    for name in names:
        if name not in found:
            raise WorkloadError(
                f"The part {name!r} printed no time.", hint="It needs bash 5 where it runs.", output=text
            )
        if found[name] <= 0:
            raise WorkloadError(f"The part {name!r} took no time: the clock was set back.", output=text)
    return {name: found[name] for name in names}

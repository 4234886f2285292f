"""Lists of CPUs as the kernel writes them: "0-3,8" (cpuset(7)); pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from pytest_vmstorage.errors import ConfigError

_LIST = re.compile(r"\d{1,5}(?:-\d{1,5})?(?:,\d{1,5}(?:-\d{1,5})?)*")


def read_cpus(text: str) -> tuple[int, ...]:
    """The CPUs of a list that the kernel wrote, in its order; () for an empty list."""
    spans = (part.partition("-") for part in filter(None, text.strip().split(",")))
    return tuple(cpu for first, _, last in spans for cpu in range(int(first), int(last or first) + 1))


def parse_cpus(text: str) -> tuple[int, ...]:
    """The CPUs of a list that a user wrote, each once, ascending; raises ConfigError."""
    plain = text.replace(" ", "")
    cpus = tuple(sorted(set(read_cpus(plain)))) if _LIST.fullmatch(plain) else ()
    if not cpus or any(int(a) > int(b) for a, b in re.findall(r"(\d+)-(\d+)", plain)):
        raise ConfigError(f"{text!r} is not a list of CPUs.", hint='Write for example "2-5,8".', code="VM113")
    return cpus


def format_cpus(cpus: Iterable[int]) -> str:
    """The shortest list: (2, 3, 4, 8) is "2-4,8"."""
    runs = groupby(enumerate(sorted(set(cpus))), key=lambda pair: pair[1] - pair[0])
    spans = ([cpu for _, cpu in run] for _, run in runs)
    return ",".join(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in spans)

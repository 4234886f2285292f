"""Division of cells among several hosts: each cell stays with the host that measured it before; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Work(NamedTuple):
    """A test: its cell, its expected seconds, and the host that it is for, "" for any.

    `place` is its number in the order of the run; `on_host` says that it measures without a guest. `able` are the only
    hosts that meet its needs, () where all of them do.
    """

    place: int
    cell: str
    seconds: float
    host: str = ""
    on_host: bool = False
    able: tuple[str, ...] = ()


def divide(work: Sequence[Work], hosts: Sequence[str], homes: Mapping[int, str]) -> dict[str, list[Work]]:
    """Each host's tests in their order.

    A test goes to the host that it is for, or to its home in `homes`, which has places as keys; tests of one cell
    share a guest and stay together otherwise. New cells go to the least loaded host, the longest first.
    """
    found: dict[int, str] = {}
    cells: dict[str, list[Work]] = {}
    for one in work:
        home = one.host or homes.get(one.place, "")
        if home in hosts and home in (one.able or hosts):
            found[one.place] = home
        cells.setdefault(one.cell, []).append(one)
    load = dict.fromkeys(hosts, 0.0)
    for one in work:
        if one.place in found:
            load[found[one.place]] += one.seconds
    for tests in sorted(cells.values(), key=lambda tests: -sum(one.seconds for one in tests if one.place not in found)):
        there = Counter(found[one.place] for one in tests if one.place in found)
        able = [name for name in hosts if name in tests[0].able] or hosts
        host = there.most_common(1)[0][0] if there else min(able, key=lambda name: load[name])
        for one in tests:
            if one.place not in found:
                found[one.place] = host
                load[host] += one.seconds
    return {host: [one for one in work if found[one.place] == host] for host in hosts}

"""A diagnosis as lines of text: what guests would run on, then a table of the axes; pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from pytest_vmstorage.cli.doctor.examine import Diagnosis
from pytest_vmstorage.cli.doctor.seen import AxisFinding
from pytest_vmstorage.guest.libvirt.messages import IO_HELPER, IO_HELPER_PACKAGE
from pytest_vmstorage.results.host import HostFacts
from pytest_vmstorage.units import format_about

_GAP = "  "
_NARROWEST_WHY = 40
"""Below this a reason is no longer read; the lines then are wider than the terminal."""


def diagnosis_lines(found: Diagnosis, width: int) -> Sequence[str]:
    """The lines to print, the table's at most `width` characters wide where that leaves room for the reasons."""
    header = [*_header(found, found.host), ""] if found.host is not None else []
    return [*header, *_table(found.findings, width)]


def _header(found: Diagnosis, facts: HostFacts) -> Iterator[str]:
    yield f"host          {facts.name}: {facts.cpu}, {facts.cores} cores, {format_about(facts.memory_bytes)}"
    yield f"kernel        {facts.kernel}, CPU governor {facts.governor}"
    yield f"hypervisor    QEMU {facts.qemu}, libvirt {facts.libvirt}"
    yield f"acceleration  {facts.accel}: {facts.accel_reason}"
    yield f"disks         {facts.folder} on {facts.file_system} ({facts.device}), {format_about(found.free_bytes)} free"
    yield f"appliance     kernel {found.kernel}, in {found.appliance}"
    if found.io_helper:
        yield f"guests        can be restored from saved ones: {found.io_helper} is there"
    else:
        yield f"guests        are booted each: {IO_HELPER} is missing; install {IO_HELPER_PACKAGE}"
    dropped = "dropped before each round" if found.drops_caches else "images are evicted by advice: not root"
    yield f"host caches   {dropped}"


def _table(findings: Sequence[AxisFinding], width: int) -> Iterator[str]:
    if not findings:
        return
    rows = [("axis", "value", "here", "why"), *((one.axis, one.value, one.status, one.why) for one in findings)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    left = sum(widths) + 3 * len(_GAP)
    last = ""
    for axis, value, status, why in rows:
        # an axis is named once, where its values begin
        words = ("" if axis == last else axis, value, status)
        start = _GAP.join(word.ljust(size) for word, size in zip(words, widths, strict=True)) + _GAP
        room = max(width - left, _NARROWEST_WHY)
        first, *more = textwrap.wrap(why, room, break_on_hyphens=False) or [""]
        yield (start + first).rstrip()
        yield from (" " * left + line for line in more)
        last = axis

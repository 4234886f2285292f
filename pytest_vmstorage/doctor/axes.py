"""The findings of all axes, in the order in which they stand in a test id; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pytest_vmstorage.config import AXES
from pytest_vmstorage.doctor import device, ground, image
from pytest_vmstorage.doctor.finding import Finding
from pytest_vmstorage.doctor.seen import Seen

_JUDGES: tuple[Callable[[Seen], Iterator[Finding]], ...] = (
    *(image.formats, image.subformats, image.preallocations, image.cluster_sizes, image.lazy_refcounts),
    *(image.extended_l2, image.l2_cache_sizes, image.compressions, image.encryptions, image.backing_chains),
    *(image.snapshots, device.caches, device.buses, device.machines, device.ios, device.iothreads, device.queues),
    *(device.queue_sizes, device.discards, device.detect_zeroes, device.limits, device.schedulers, device.vcpus),
    *(device.memories, device.emulators, ground.states, ground.backings, ground.host_fs, ground.guest_fs),
)


def findings(seen: Seen) -> tuple[Finding, ...]:
    """Every value of every axis, as far as values can be listed."""
    found = [finding for judge in _JUDGES for finding in judge(seen)]
    return tuple(sorted(found, key=lambda finding: AXES.index(finding.axis)))

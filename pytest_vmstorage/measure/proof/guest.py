"""Proofs from inside the guest, and whether they still hold after the last round."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from pytest_vmstorage.config.buses import BUSES, CACHES
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.guest.facts import GuestFacts, chosen_scheduler
from pytest_vmstorage.guest.kernel_log import TROUBLE
from pytest_vmstorage.host.shell import Shell, reread
from pytest_vmstorage.measure.proof.claim import DEFAULT, GUEST, by_name, claim, unprovable
from pytest_vmstorage.measure.proof.file_systems import of_guest_fs
from pytest_vmstorage.results.run import IDLE, Proof
from pytest_vmstorage.units import format_about, format_size


def of_guest(config: StorageConfig, facts: GuestFacts) -> Iterator[Proof]:
    """Proofs from the guest's sysfs, its /proc and what it has mounted."""
    yield claim("size", format_size(config.size), format_size(facts.disk_bytes), GUEST)
    yield claim("vcpus", str(config.vcpus), str(facts.cpus), "guest nproc")
    yield _memory_in_guest(config, facts)
    asked = DEFAULT if config.scheduler == "default" else config.scheduler
    yield claim("scheduler", asked, facts.scheduler, GUEST, holds=asked in (DEFAULT, facts.scheduler))
    yield from of_guest_fs(config, facts.mounted, facts.disk)
    driver = f"{facts.driver} on {facts.host_driver}" if facts.host_driver else facts.driver
    yield claim(
        "bus", by_name(config.bus, BUSES[config.bus].driver), driver, GUEST, holds=driver == BUSES[config.bus].driver
    )
    asked = "write back" if CACHES[config.cache].write_cache else "write through"
    if config.bus == "nvme":
        why = "QEMU's NVMe says write back in every mode"
        yield unprovable("cache", config, why, found=facts.write_cache, where=GUEST)
    else:
        same = asked == facts.write_cache
        yield claim("cache", f"{config.cache} ({asked})", facts.write_cache, GUEST, holds=same)
    if config.queues is not None:
        yield _queues_in_guest(config, config.queues, facts)
    if config.discard == "unmap" and not facts.discard_max_bytes:
        why = f"{IDLE}: the guest's disk on {config.bus} takes no discards"
        yield unprovable("discard", config, why, found="discard_max_bytes 0", where=GUEST)


def _memory_in_guest(config: StorageConfig, facts: GuestFacts) -> Proof:
    """MemTotal is what the kernel manages: the guest's memory without what it reserved for itself as it booted."""
    found = facts.memory_kib * 1024
    least = config.memory - kernel_reserves_bytes(config.memory)
    asked = f"{format_size(config.memory)} (MemTotal at least {format_about(least)})"
    where = "guest /proc/meminfo"
    return claim("memory", asked, format_about(found), where, holds=least <= found <= config.memory)


def kernel_reserves_bytes(memory_bytes: int) -> int:
    """The most that MemTotal lacks of a guest's memory: the kernel itself, and 64 bytes for each page."""
    return 64 * 2**20 + memory_bytes // 32


def _queues_in_guest(config: StorageConfig, queues: int, facts: GuestFacts) -> Proof:
    if queues > config.vcpus:
        why = f"{IDLE}: a guest with {config.vcpus} vCPU uses no more queues than that"
        return unprovable("queues", config, why, found=str(facts.queues), where=GUEST)
    return claim("queues", str(queues), str(facts.queues), GUEST)


_TROUBLE = re.compile(rf".*(?:{TROUBLE}|Remounting filesystem read-only).*")


def changed_in_guest(shell: Shell, facts: GuestFacts, console: str) -> str:
    """Changes since the facts were read, in a clause; "" where there are none and the kernel logged no trouble.

    `console` has the kernel's warnings and errors. Files are read through the agent: starting a process takes an
    emulated guest several times as long.
    """
    return "; ".join(_changes(shell, facts, console))


def _changes(shell: Shell, facts: GuestFacts, console: str) -> Iterator[str]:
    trouble = _TROUBLE.search(console)
    if trouble:
        yield f"the guest's kernel had trouble with its disk: {trouble[0].strip()}"
    queue = f"/sys/block/{PurePosixPath(facts.disk).name}/queue"
    now = {
        "cache": (facts.write_cache, reread(shell, f"{queue}/write_cache").strip() or "unknown"),
        "scheduler": (facts.scheduler, chosen_scheduler(reread(shell, f"{queue}/scheduler")) or "unknown"),
    }
    if facts.mounted:
        now["guest_mount"] = ("rw", _writable(reread(shell, "/proc/mounts"), facts.disk))
    for field, (then, found) in now.items():
        if then != found:
            yield f"after the last round {field} is {found} (guest sysfs), not {then}"


def _writable(mounts: str, disk: str) -> str:
    """The mode in which the disk is mounted: "rw", "ro", or "not mounted"."""
    options = [words[3].split(",") for line in mounts.splitlines() if (words := line.split())[:1] == [disk]]
    if not options:
        return "not mounted"
    return "rw" if all("rw" in one for one in options) else options[0][0]

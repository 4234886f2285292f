"""Leases: what a run made, written down before it is made, so that it can be removed whatever kills the run."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

LIFETIME_S = 24 * 3600.0
"""After this a lease of another machine's process, which cannot be looked at from here, counts as dead."""


class Owner(BaseModel):
    """A process that cannot be taken for another: host, boot, pid and the tick it started at."""

    model_config = ConfigDict(frozen=True)

    host: str
    boot_id: str
    pid: int
    started_ticks: int


class HostSetting(BaseModel):
    """A file of the host's sysfs that a run set: what it was, what it is now, and the boot for which that holds."""

    model_config = ConfigDict(frozen=True)

    path: str
    was: str
    now: str
    boot_id: str


class Lease(BaseModel):
    """One run's things on one lab host: `folder` and `root` are folders, `domains` are guests' UUIDs.

    `root` is the embedded driver's private folder ("" without one); `expires` is in seconds since the epoch.
    `kept` says that the user wants the guest to outlive its run. `settings` are the host's that it changed.
    """

    model_config = ConfigDict(frozen=True)

    run_id: str
    owner: Owner
    expires: float
    uri: str | None
    ssh: str | None
    folder: str
    root: str = ""
    domains: tuple[str, ...] = ()
    kept: bool = False
    settings: tuple[HostSetting, ...] = ()


def this_process() -> Owner:
    """The owner that this process is."""
    pid = os.getpid()
    return Owner(host=socket.gethostname(), boot_id=boot_id(), pid=pid, started_ticks=started_ticks(pid) or 0)


def boot_id() -> str:
    """The kernel's id of this boot, from /proc/sys/kernel/random/boot_id."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def started_ticks(pid: int) -> int | None:
    """When that process started, in clock ticks since boot (proc(5), stat field 22); None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # the command name may hold spaces and brackets, so count from the last ")"
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def is_dead(lease: Lease, now: float | None = None) -> bool:
    """Whether the owner is certainly gone: another boot or process here; elsewhere, or kept, past its expiry."""
    expired = (time.time() if now is None else now) > lease.expires
    if lease.owner.host != socket.gethostname():
        return expired
    if lease.owner.boot_id != boot_id():
        return True
    if lease.kept:
        return expired
    return started_ticks(lease.owner.pid) != lease.owner.started_ticks


class LeaseBook:
    """The leases of this user, a file each; a lease is on disk before the thing it names is made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, lease: Lease) -> None:
        """Put the lease on disk, whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        target = self._file(lease.run_id)
        draft = target.with_suffix(".new")
        with draft.open("w") as stream:
            stream.write(lease.model_dump_json())
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(target)

    def drop(self, lease: Lease) -> None:
        """Forget a lease whose things are gone."""
        self._file(lease.run_id).unlink(missing_ok=True)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Let no other process of this user set, or set back, anything of a host meanwhile."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield

    def held_beside(self, mine: Lease) -> tuple[HostSetting, ...]:
        """What other runs that still live have set on the same host."""
        others = [one for one in self if one.run_id != mine.run_id and one.ssh == mine.ssh and one.settings]
        return tuple(setting for one in others if not is_dead(one) for setting in one.settings)

    def __iter__(self) -> Iterator[Lease]:
        for path in sorted(self.folder.glob("*.json")):
            try:
                yield Lease.model_validate_json(path.read_text())
            except (ValidationError, OSError):
                # written by another version, or removed by its owner meanwhile: not ours to judge
                continue

    def _file(self, run_id: str) -> Path:
        return self.folder / f"{run_id}.json"

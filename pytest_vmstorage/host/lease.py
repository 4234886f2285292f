"""Leases: everything a run makes is written down first, so that it can be removed whatever kills the run."""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from pydantic import BaseModel, ConfigDict, ValidationError

from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.leftovers import DAY_S, boot_id, left_drafts, pid_namespace, started_ticks, write_whole

LIFETIME_S = DAY_S
"""Lifetime after which a lease of another machine's process, which cannot be seen from here, counts as dead."""


class Owner(BaseModel):
    """A process, identified beyond doubt by host, boot, pid, pid namespace, and the tick it started at.

    `user` is for people to read.
    """

    model_config = ConfigDict(frozen=True)

    host: str
    boot_id: str
    pid: int
    started_ticks: int
    pid_namespace: str = ""
    user: str = ""


class HostSetting(BaseModel):
    """A file of the host's sysfs that a run set: its values before and now, and the boot for which they hold."""

    model_config = ConfigDict(frozen=True)

    path: str
    was: str
    now: str
    boot_id: str


class Lease(BaseModel):
    """The things of one run on one lab host: `folder` and `root` are folders, `domains` are guests' UUIDs.

    `host` is the lab host's name. `root` is the embedded driver's private folder ("" without one). `expires` is in
    seconds since the epoch. `kept`: the user wants the guest to outlive its run. `settings` are those that it changed.
    """

    model_config = ConfigDict(frozen=True)

    run_id: str
    owner: Owner
    expires: float
    uri: str | None
    ssh: str | None
    folder: str
    host: str = ""
    root: str = ""
    domains: tuple[str, ...] = ()
    kept: bool = False
    settings: tuple[HostSetting, ...] = ()

    @property
    def owned_by(self) -> str:
        """The owner and the start of the lease, in words."""
        owner = self.owner
        since = datetime.fromtimestamp(self.expires - LIFETIME_S, UTC)
        who = f"{owner.user}@{owner.host}" if owner.user else owner.host
        return f"{who}, pid {owner.pid}, since {since:%Y-%m-%d %H:%M:%S} UTC"


def new_lease(folder: str, *, uri: str | None, ssh: str | None, host: str = "", root: str = "") -> Lease:
    """A lease of this process under a new run id, which is appended to `folder`, and to `root` where that is given."""
    run_id = uuid.uuid4().hex[:10]
    return Lease(
        run_id=run_id,
        owner=this_process(),
        expires=time.time() + LIFETIME_S,
        uri=uri,
        ssh=ssh,
        folder=f"{folder}{run_id}",
        host=host,
        root=root and f"{root}{run_id}",
    )


def this_process() -> Owner:
    """This process as an owner."""
    pid = os.getpid()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # a container may run under a user id that has no name
        user = str(os.getuid())
    return Owner(
        host=socket.gethostname(),
        boot_id=boot_id(),
        pid=pid,
        started_ticks=started_ticks(pid) or 0,
        pid_namespace=pid_namespace(),
        user=user,
    )


def is_dead(lease: Lease, now: float | None = None) -> bool:
    """Whether the owner is certainly gone: another boot or process here; elsewhere, or kept, past its expiry."""
    expired = (time.time() if now is None else now) > lease.expires
    if lease.owner.host != socket.gethostname():
        return expired
    if lease.owner.boot_id != boot_id():
        return True
    # a container of the same name and boot has its own pid namespace: its processes cannot be seen from here
    if lease.kept or lease.owner.pid_namespace not in ("", pid_namespace()):
        return expired
    return started_ticks(lease.owner.pid) != lease.owner.started_ticks


class LeaseBook:
    """The leases of this user, a file each; a lease is on disk before the thing it names is made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, lease: Lease) -> None:
        """Put the lease on disk, whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._file(lease.run_id), lease.model_dump_json())

    def drop(self, lease: Lease) -> None:
        """Remove a lease whose things are gone."""
        self._file(lease.run_id).unlink(missing_ok=True)

    def drop_drafts(self) -> None:
        """Remove leases that were half written when their process was killed: nothing was made under them."""
        for draft in left_drafts(self.folder):
            draft.unlink(missing_ok=True)

    @contextlib.contextmanager
    def alone(self, lock: str = "lock") -> Iterator[None]:
        """Keep other processes of this user from changing or restoring settings of a host meanwhile.

        `lock` is "reap.lock" for the removal of what dead runs left, which one process at a time does.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / lock).open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield

    def held_beside(self, mine: Lease) -> tuple[HostSetting, ...]:
        """The settings that other living runs have made on the same host."""
        others = [one for one in self if one.run_id != mine.run_id and one.ssh == mine.ssh and one.settings]
        return tuple(setting for one in others if not is_dead(one) for setting in one.settings)

    def __iter__(self) -> Iterator[Lease]:
        for path in sorted(self.folder.glob("*.json")):
            try:
                yield Lease.model_validate_json(path.read_text())
            except (ValidationError, OSError):
                # another version wrote the file, or its owner removed it meanwhile: left alone
                continue

    def _file(self, run_id: str) -> Path:
        return self.folder / f"{run_id}.json"


class RunLease:
    """This run's lease: written by `begin` before anything it names is made, and dropped once all of them are gone.

    `is_needed` says that something could not be removed: the lease then stays for the next run. `is_kept` says that a
    guest is to outlive the run: the run's folders then stay with the lease, also where the teardown is interrupted.
    """

    def __init__(self, book: LeaseBook, lease: Lease) -> None:
        self.book = book
        self.is_needed = False
        self.is_kept = False
        self._lease = lease
        self._lock = threading.Lock()

    @property
    def lease(self) -> Lease:
        """The lease as it is on disk."""
        return self._lease

    def begin(self) -> None:
        """Put the lease on disk."""
        self.book.write(self._lease)

    def note_domain(self, domain_uuid: str) -> None:
        """Put a guest into the lease, before it is started."""
        self._note(lambda lease: {"domains": (*lease.domains, domain_uuid)})

    def note_settings(self, settings: tuple[HostSetting, ...]) -> None:
        """Put into the lease which settings of the host the run has changed."""
        self._note(lambda _lease: {"settings": settings})

    def keep(self) -> None:
        """Write down that the run's things outlive it: they are no dead run's, and only `reap --kept` removes them."""
        self._note(lambda _lease: {"kept": True})

    def removal(
        self, step: Callable[[], object]
    ) -> Callable[[type[BaseException] | None, BaseException | None, TracebackType | None], None]:
        """The step as an exit callback for an ExitStack, in which it is a part of the teardown.

        Where the step fails, the lease stays and the other steps follow; of several errors the first one is raised.
        """

        def leave(_kind: object, before: BaseException | None, _trace: object) -> None:
            try:
                step()
            except BaseException as error:
                self.is_needed = True
                if not (isinstance(error, VmStorageError) and isinstance(before, VmStorageError)):
                    raise

        return leave

    def end(self) -> None:
        """Drop the lease, unless something that it names is still there."""
        if not (self.is_needed or self.is_kept):
            self.book.drop(self._lease)

    def _note(self, update: Callable[[Lease], Mapping[str, object]]) -> None:
        with self._lock:
            self._lease = self._lease.model_copy(update=update(self._lease))
            self.book.write(self._lease)

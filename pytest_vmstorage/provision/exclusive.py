"""One measurement at a time on a host: a lock that every process of every user of this machine takes."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from pytest_vmstorage.errors import HostError
from pytest_vmstorage.say import Say, silent

_FOLDERS = (Path("/run/lock"), Path("/tmp"))
_NAME = "pytest-vmstorage-{host}.lock"


@contextlib.contextmanager
def measuring_alone(host: str, say: Say = silent) -> Iterator[None]:
    """Hold the measuring lock of that host; says so once where it has to wait. Freed by the kernel if we are killed."""
    handle = _open(_NAME.format(host=host))
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting: another measurement runs on this host")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _open(name: str) -> int:
    for folder in _FOLDERS:
        path = folder / name
        with contextlib.suppress(OSError):
            # an existing file is opened without O_CREAT: the kernel refuses that on another user's file
            # in a sticky folder (fs.protected_regular)
            return os.open(path, os.O_RDONLY)
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
            # whatever the umask: a file that others cannot open is a lock of one's own
            os.fchmod(handle, 0o644)
            return handle
    raise HostError(f"No lock file can be made in {' or '.join(str(folder) for folder in _FOLDERS)}.")

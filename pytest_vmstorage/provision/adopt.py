"""Adopting QEMU: libvirt starts it as an orphan, and a dead orphan is only gone once its new parent has asked for it.

Where process 1 does not ask (a container without an init), or asks rarely, libvirt waits 1 to 80 s for a QEMU that
has already ended. So an orphan made while a guest starts becomes this process's child, and a thread waits for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.02


class _Adoption:
    """How many threads want orphans adopted: the kernel is told so for the process, and not for a thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = 0

    def change(self, by: int) -> None:
        """So many more want it; the kernel hears of it."""
        with self._lock:
            self._wanted += by
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(self._wanted > 0), 0, 0, 0)


_ADOPTION = _Adoption()


@contextlib.contextmanager
def adopting(pid_file: Path) -> Iterator[None]:
    """Within it, orphans of this process's children become its own (prctl(2), Linux 3.4); no longer than needed.

    Several threads may be within it at once. The process whose pid turns up in `pid_file` is waited for in a thread of
    its own, within the context and after it.
    """
    started = threading.Event()
    threading.Thread(target=_wait, args=(pid_file, started), name="vmstorage-wait", daemon=True).start()
    _ADOPTION.change(1)
    try:
        yield
    finally:
        _ADOPTION.change(-1)
        started.set()


def _wait(pid_file: Path, started: threading.Event) -> None:
    """Take the exit status of the process when it ends; also of one that ends before it was started in full."""
    while True:
        # looked at before the file: what is not there afterwards never will be
        last = started.is_set()
        try:
            os.waitpid(int(pid_file.read_text()), 0)
        except (OSError, ValueError):
            # no file yet, or a process that is not ours yet
            if last:
                return
            time.sleep(_POLL_S)
        else:
            return

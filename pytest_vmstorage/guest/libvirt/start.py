"""Starts of guests by one process: in parallel unless a start has to be alone; each orphaned QEMU is adopted.

Where process 1 does not ask (a container without an init), or asks rarely, libvirt waits 1 to 80 s for a QEMU that
has already ended. So an orphan made while a guest starts becomes this process's child, and a thread waits for it: for
the guest, and for each QEMU that libvirt starts to learn what it can (two, of which each would be waited for 40 s).

Children that somebody else started in this process are left to whoever started them. A child that was forked by this
process is in this process's session, or leads one of its own (setsid(2)); a daemon that was adopted is in a session
whose leader it is not, for so daemons are made.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.02


class _Adoption:
    """Counts the threads that want orphans adopted: the kernel has one setting for the whole process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = 0
        self._is_looking = False
        self._awaited: set[int] = set()

    def change(self, by: int) -> None:
        """Count that many more threads, and tell the kernel whether there are any."""
        with self._lock:
            self._wanted += by
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(self._wanted > 0), 0, 0, 0)
            if self._wanted and not self._is_looking:
                self._is_looking = True
                threading.Thread(target=self._look, name="vmstorage-adopt", daemon=True).start()

    def _look(self) -> None:
        """Start a waiting thread for each adopted daemon, until no thread wants adoption; look once more then."""
        while True:
            with self._lock:
                is_last = not self._wanted
                for pid in orphan_daemons() - self._awaited:
                    self._awaited.add(pid)
                    threading.Thread(target=self._wait, args=(pid,), name="vmstorage-wait", daemon=True).start()
                if is_last:
                    self._is_looking = False
                    return
            time.sleep(_POLL_S)

    def _wait(self, pid: int) -> None:
        # another thread may have been sooner
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        with self._lock:
            self._awaited.discard(pid)


_ADOPTION = _Adoption()


def orphan_daemons() -> set[int]:
    """Pids of this process's children, dead or alive, that became daemons and whose parent has ended."""
    own_session = os.getsid(0)
    found = set()
    for pid in _children():
        # session 0 is outside of the container
        session = _stat_field(pid, 3)
        if session not in (None, 0, own_session, pid):
            found.add(pid)
    return found


def _children() -> list[int]:
    """Pids of the children of all threads of this process; not every kernel lists them (CONFIG_PROC_CHILDREN)."""
    lists = list(Path("/proc/self/task").glob("*/children"))
    if not lists:
        pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
        return [pid for pid in pids if _stat_field(pid, 1) == os.getpid()]
    texts = []
    for path in lists:
        # a thread may end meanwhile; its children are another one's then, and are found the next time
        with contextlib.suppress(OSError):
            texts.append(path.read_text())
    return [int(pid) for text in texts for pid in text.split()]


def _stat_field(pid: int, number: int) -> int | None:
    """A number in /proc/PID/stat after the program's name: 1 is the parent, 3 the session; None if it is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[number])
    return None


@contextlib.contextmanager
def adoption(pid_file: Path) -> Iterator[None]:
    """Within it, orphans of this process's children become its own (prctl(2), Linux 3.4); no longer than needed.

    Several threads may be within it at once. The process whose pid turns up in `pid_file`, and each daemon, is waited
    for in a thread of its own, within the context and after it.
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


class Starts:
    """Lets any number of threads start guests at once, or one thread alone; each kind waits for the other.

    `pids` is the folder of QEMU's pid files where this process itself starts QEMU, else None. `probe` makes libvirt
    learn the capabilities of the QEMU at a path.
    """

    def __init__(self, pids: Path | None, probe: Callable[[str], object]) -> None:
        self._pids = pids
        self._probe = probe
        self._learning = threading.Lock()
        self._known: set[tuple[str, int]] = set()
        self._change = threading.Condition()
        self._count = 0

    @contextlib.contextmanager
    def one(self, name: str, emulator: str, *, alone: bool = False) -> Iterator[None]:
        """Context in which the caller starts that guest; no other guest starts meanwhile if it is to be alone."""
        if self._pids is not None:
            self._learn(emulator)
        adopted = adoption(self._pids / f"{name}.pid") if self._pids is not None else contextlib.nullcontext()
        with self._alone() if alone else self._beside(), adopted:
            yield

    def _learn(self, emulator: str) -> None:
        """Probe a QEMU that libvirt does not know, while no QEMU is adopted: it would be waited for 80 s."""
        # libvirt, too, sees by the change time that the binary is new; libvirt reports a missing one
        with contextlib.suppress(OSError):
            binary = (emulator, Path(emulator).stat().st_ctime_ns)
            with self._learning:
                if binary not in self._known:
                    with self._alone():
                        self._probe(emulator)
                    self._known.add(binary)

    @contextlib.contextmanager
    def _beside(self) -> Iterator[None]:
        with self._change:
            self._count += 1
        try:
            yield
        finally:
            with self._change:
                self._count -= 1
                self._change.notify_all()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with self._change:
            self._change.wait_for(lambda: self._count == 0)
            # other threads wait for the condition's own lock
            yield

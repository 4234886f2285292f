"""Starts of guests by one process: side by side, but for what has to be alone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from pytest_vmstorage.provision.adopt import adopting


class Starts:
    """Any number of threads begin a guest at once, or a single one that has to be alone; each waits for the others.

    Where this process itself starts QEMU, `pids` is the folder of its pid files, else None, and `probe` has libvirt ask
    the QEMU at a path what it can.
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
        """Within it that guest is begun; nobody else begins one if it is to be alone."""
        if self._pids is not None:
            self._learn(emulator)
        adopted = adopting(self._pids / f"{name}.pid") if self._pids is not None else contextlib.nullcontext()
        with self._alone() if alone else self._beside(), adopted:
            yield

    def _learn(self, emulator: str) -> None:
        """Have a QEMU that libvirt does not know asked, while none is adopted: that one would be waited for 80 s."""
        # libvirt, too, knows by its change that it is another one now; where there is none, libvirt says so
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
            # who would begin meanwhile waits for the condition's own lock
            yield

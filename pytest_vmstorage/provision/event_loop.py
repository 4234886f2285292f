"""libvirt's event loop, one thread a process; the embedded driver does nothing without it."""

from __future__ import annotations

import atexit
import threading
from typing import Any

_loop: threading.Thread | None = None
_stop = threading.Event()


def start_event_loop(libvirt: Any) -> None:
    """Start the one event loop of this process; the embedded driver does nothing without it."""
    global _loop  # noqa: PLW0603 (libvirt has one event loop a process)
    if _loop is not None:
        return
    # libvirt prints every error to stderr unless a handler takes it; ours are raised anyway. It is none in Python: in
    # that a signal's handler would run, and what this raises, as for Ctrl-C, becomes a SystemError of libvirt's binding
    libvirt.registerErrorHandler({}.setdefault, None)
    libvirt.virEventRegisterDefaultImpl()
    # a timer, so that the loop looks at _stop even when nothing happens
    libvirt.virEventAddTimeout(100, lambda _timer, _opaque: None, None)
    _loop = threading.Thread(target=_run_event_loop, args=(libvirt,), name="libvirt-events", daemon=True)
    _loop.start()
    atexit.register(_stop_event_loop)


def _run_event_loop(libvirt: Any) -> None:
    while not _stop.is_set():
        libvirt.virEventRunDefaultImpl()


def _stop_event_loop() -> None:
    # a thread inside libvirt while the interpreter ends can crash it
    _stop.set()
    if _loop is not None:
        _loop.join(2)

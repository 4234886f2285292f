"""Connections to libvirt, made again where they are lost, the events that come by them, and the event loop."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from pytest_vmstorage.errors import HostError, LostError
from pytest_vmstorage.guest.libvirt.messages import connection_error, io_error_reason
from pytest_vmstorage.host.folders import use_cache_folder
from pytest_vmstorage.host.ssh import UNTIL_SILENT
from pytest_vmstorage.leftovers import write_whole

SILENCE_S = 5
SILENCES = 4
"""A daemon that misses so many keep-alives, so many seconds apart, is lost: libvirt notices after 20 to 25 s.

A host that falls silent is noticed sooner, by the end of the connection's ssh.
"""

AGAIN_S = 5.0
"""Time for a daemon to come back, as after a restart."""

_REASONS = {1: "it ended", 2: f"no answer for {SILENCE_S * SILENCES} s"}


class GuestEvents:
    """The events of all guests of a connection, by the guests' UUIDs; they come in libvirt's own thread."""

    def __init__(self, libvirt: Any, qemu: Any) -> None:
        self._libvirt = libvirt
        self._qemu = qemu
        self._agents: dict[str, threading.Event] = {}
        self._ended: dict[str, threading.Event] = {}
        self._stopped: dict[str, threading.Event] = {}
        self._news: dict[str, threading.Event] = {}
        self._io_errors: dict[str, list[str]] = {}

    def agent(self, uuid: str) -> threading.Event:
        """An event that is set once the guest of that UUID opened its agent's port."""
        return self._agents.setdefault(uuid, threading.Event())

    def ended(self, uuid: str) -> threading.Event:
        """An event that is set once the guest of that UUID is gone."""
        return self._ended.setdefault(uuid, threading.Event())

    def stopped(self, uuid: str) -> threading.Event:
        """An event that is set when QEMU stops the guest of that UUID, for any reason; who looks at it clears it."""
        return self._stopped.setdefault(uuid, threading.Event())

    def news(self, uuid: str) -> threading.Event:
        """An event that is set with each of the others, and when the host is lost; who waits for it clears it."""
        return self._news.setdefault(uuid, threading.Event())

    def io_errors(self, uuid: str) -> list[str]:
        """Reasons of the I/O errors in the guest of that UUID so far; the list grows."""
        return self._io_errors.setdefault(uuid, [])

    def wake(self) -> None:
        """End every wait for news: the connection that would tell of them is lost."""
        for event in list(self._news.values()):
            event.set()

    def watch(self, conn: Any) -> tuple[Callable[[], object], ...]:
        """Register for the events of that connection, and find the guests that ended since the last one was lost.

        Returns what deregisters: libvirt keeps a connection, and its ssh, for as long as it has events to tell.
        """
        lib = self._libvirt

        def on_agent(_conn: Any, dom: Any, state: int, _reason: int, _opaque: Any) -> None:
            if state == lib.VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_CONNECTED:
                self._tell(self.agent, dom.UUIDString())

        def on_lifecycle(_conn: Any, dom: Any, event: int, _detail: int, _opaque: Any) -> None:
            if event in (lib.VIR_DOMAIN_EVENT_STOPPED, lib.VIR_DOMAIN_EVENT_CRASHED):
                self._tell(self.ended, dom.UUIDString())

        numbers = (
            conn.domainEventRegisterAny(None, lib.VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE, on_agent, None),
            conn.domainEventRegisterAny(None, lib.VIR_DOMAIN_EVENT_ID_LIFECYCLE, on_lifecycle, None),
        )
        of_qemu = self._watch_qemu(conn)
        for uuid in [one for one, event in list(self._ended.items()) if not event.is_set()]:
            try:
                conn.lookupByUUIDString(uuid)
            except lib.libvirtError:
                self._tell(self.ended, uuid)
        return (
            *(partial(conn.domainEventDeregisterAny, number) for number in numbers),
            *(partial(self._qemu.qemuMonitorEventDeregister, conn, number) for number in of_qemu),
        )

    def _watch_qemu(self, conn: Any) -> tuple[int, int]:
        """Register for QEMU's own events: libvirt's leave out why an I/O failed, and why a guest was stopped."""

        def on_io_error(_conn: Any, dom: Any, _event: str, _s: int, _us: int, details: str, _opaque: Any) -> None:
            self.io_errors(dom.UUIDString()).append(io_error_reason(details))

        def on_stop(_conn: Any, dom: Any, _event: str, _s: int, _us: int, _details: str, _opaque: Any) -> None:
            self._tell(self.stopped, dom.UUIDString())

        return (
            self._qemu.qemuMonitorEventRegister(conn, None, "BLOCK_IO_ERROR", on_io_error, None, 0),
            self._qemu.qemuMonitorEventRegister(conn, None, "STOP", on_stop, None, 0),
        )

    def _tell(self, event: Callable[[str], threading.Event], uuid: str) -> None:
        event(uuid).set()
        self.news(uuid).set()


class Connection:
    """A connection to the libvirt at `uri`, which tells `events` of its guests; raises HostError where there is none.

    `reach` raises HostError where the host itself cannot be reached: libvirt's own ssh would try for minutes.
    """

    def __init__(self, libvirt: Any, uri: str, events: GuestEvents, reach: Callable[[], object]) -> None:
        self._libvirt, self._uri, self._events, self._reach = libvirt, uri, events, reach
        self._lock = threading.Lock()
        self._gone: LostError | None = None
        self._why = ""
        self._unwatch: tuple[Callable[[], object], ...] = ()
        self._conn = self._open()

    def current(self) -> Any:
        """The connection, made again if it was lost; raises LostError, at once after a first failure."""
        with self._lock:
            if self._gone is not None:
                raise self._gone
            if not self.is_alive(self._conn):
                self._open_again()
            return self._conn

    @property
    def is_to_daemon(self) -> bool:
        """Whether another process runs QEMU, perhaps as another user."""
        return not self._uri.startswith("qemu:///embed")

    def is_alive(self, conn: Any) -> bool:
        """Whether a connection is alive, as far as libvirt knows."""
        try:
            return bool(conn.isAlive())
        except self._libvirt.libvirtError:
            return False

    def lost(self, doing: str) -> LostError:
        """The error of a connection that was lost while it was used."""
        why = f" ({self._why})" if self._why else ""
        place = self._uri.partition("?")[0]
        return LostError(
            f"The connection to libvirt at {place} was lost during: {doing}{why}.",
            hint="Check the network to it, and whether libvirtd was restarted there (journalctl -u libvirtd).",
            code="VM402",
        )

    def close(self) -> None:
        """Close the connection; errors at this point help nobody."""
        with contextlib.suppress(self._libvirt.libvirtError):
            self._conn.unregisterCloseCallback()
        for deregister in self._unwatch:
            with contextlib.suppress(self._libvirt.libvirtError):
                deregister()
        with contextlib.suppress(self._libvirt.libvirtError):
            self._conn.close()

    def _open(self) -> Any:
        lib = self._libvirt
        try:
            conn = lib.open(_with_ssh_until_silent(self._uri))
        except lib.libvirtError as error:
            raise connection_error(self._uri, error) from None
        with contextlib.suppress(lib.libvirtError):
            # remote only
            conn.setKeepAlive(SILENCE_S, SILENCES)
        with contextlib.suppress(lib.libvirtError):
            # not for the embedded driver, which has no connection to lose
            conn.registerCloseCallback(self._on_close, None)
        self._unwatch = self._events.watch(conn)
        return conn

    def _on_close(self, _conn: Any, reason: int, _opaque: Any) -> None:
        self._why = _REASONS.get(reason, "")
        self._events.wake()

    def _open_again(self) -> None:
        try:
            self._reach()
            self._conn = self._open_by(time.monotonic() + AGAIN_S)
        except HostError as error:
            self._gone = self.lost("the run").retold(
                f"The connection to libvirt at {self._uri.partition('?')[0]} was lost and cannot be made again:"
                f" {error.what}"
            )
            self._gone.hint = error.hint
            raise self._gone from None

    def _open_by(self, deadline: float) -> Any:
        while True:
            try:
                return self._open()
            except HostError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)


def _with_ssh_until_silent(uri: str) -> str:
    """The URI, with an ssh for libvirt that ends once the host is silent; raises HostError.

    Where two threads wait for answers when libvirt's own keep-alive ends a connection, libvirt 9.0 tells one of them;
    the other waits for ever, and the process crashes if that ssh ends later. The end of ssh is told to both.
    """
    parts = urlsplit(uri)
    if parts.scheme.partition("+")[2] != "ssh":
        return uri
    return f"{uri}{'&' if parts.query else '?'}command={quote(str(_ssh_until_silent()))}"


def _ssh_until_silent() -> Path:
    """A program that is ssh with further options: a URI has no room for these."""
    path = use_cache_folder() / "libvirt-ssh"
    text = f'#!/bin/sh\nexec ssh {" ".join(UNTIL_SILENT)} "$@"\n'
    if not os.access(path, os.X_OK) or path.read_text() != text:
        write_whole(path, text, executable=True)
    return path


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

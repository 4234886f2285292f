"""What libvirt tells of guests by itself: an agent that is there, an end, a failed I/O."""

from __future__ import annotations

import threading
from typing import Any

from pytest_vmstorage.guest.libvirt.messages import io_error_reason


class GuestEvents:
    """The events of all guests of a connection, by the guests' UUIDs; they come in libvirt's own thread."""

    def __init__(self, libvirt: Any, qemu: Any) -> None:
        self._libvirt = libvirt
        self._qemu = qemu
        self._agents: dict[str, threading.Event] = {}
        self._ended: dict[str, threading.Event] = {}
        self._io_errors: dict[str, list[str]] = {}

    def agent(self, uuid: str) -> threading.Event:
        """Set once the guest of that UUID opened its agent's port, or will never be heard of again."""
        return self._agents.setdefault(uuid, threading.Event())

    def ended(self, uuid: str) -> threading.Event:
        """Set once the guest of that UUID is gone."""
        return self._ended.setdefault(uuid, threading.Event())

    def io_errors(self, uuid: str) -> list[str]:
        """Reasons of I/O errors in the guest of that UUID so far."""
        return self._io_errors.setdefault(uuid, [])

    def wake(self) -> None:
        """Nobody shall wait any longer for an agent: the connection that would tell of it is lost."""
        for event in list(self._agents.values()):
            event.set()

    def watch(self, conn: Any) -> None:
        """Hear of the guests of that connection; those that ended since the one before it are found."""
        lib = self._libvirt

        def on_agent(_conn: Any, dom: Any, state: int, _reason: int, _opaque: Any) -> None:
            if state == lib.VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_CONNECTED:
                self.agent(dom.UUIDString()).set()

        def on_lifecycle(_conn: Any, dom: Any, event: int, _detail: int, _opaque: Any) -> None:
            if event in (lib.VIR_DOMAIN_EVENT_STOPPED, lib.VIR_DOMAIN_EVENT_CRASHED):
                self._end(dom.UUIDString())

        def on_io_error(_conn: Any, dom: Any, _event: str, _s: int, _us: int, details: str, _opaque: Any) -> None:
            self.io_errors(dom.UUIDString()).append(io_error_reason(details))

        conn.domainEventRegisterAny(None, lib.VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE, on_agent, None)
        conn.domainEventRegisterAny(None, lib.VIR_DOMAIN_EVENT_ID_LIFECYCLE, on_lifecycle, None)
        # not by libvirt's own event of it, which leaves QEMU's words out
        self._qemu.qemuMonitorEventRegister(conn, None, "BLOCK_IO_ERROR", on_io_error, None, 0)
        for uuid in [one for one, event in list(self._ended.items()) if not event.is_set()]:
            try:
                conn.lookupByUUIDString(uuid)
            except lib.libvirtError:
                self._end(uuid)

    def _end(self, uuid: str) -> None:
        self.ended(uuid).set()
        self.agent(uuid).set()

"""The only `import libvirt`: connections, guests and their agents; libvirtError is translated in one place."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol
from xml.etree import ElementTree

from pytest_vmstorage.errors import GuestDiedError, GuestError, GuestSilentError, HostError, HypervisorError
from pytest_vmstorage.provision.adopt import adopting
from pytest_vmstorage.provision.encryption import secrets_of
from pytest_vmstorage.provision.event_loop import start_event_loop
from pytest_vmstorage.provision.libvirt_text import bus_names, connection_error, io_error_reason, one_line, version_text
from pytest_vmstorage.provision.passphrases import Passphrases


class Domain(Protocol):
    """A guest as the hypervisor sees it."""

    def wait_for_agent(self, timeout_s: float) -> bool:
        """Wait until the guest's agent opened its port; False at the time limit. Raises GuestDiedError."""

    def agent(self, command: str, arguments: Mapping[str, Any], timeout_s: float) -> Any:
        """One guest-agent command and its return value; raises GuestError, GuestDiedError."""

    def monitor(self, command: str, **arguments: Any) -> Any:
        """One QMP command and its return value; raises HypervisorError."""

    def xml(self) -> str:
        """The live XML, as libvirt made it of ours."""

    def is_active(self) -> bool:
        """Whether QEMU still runs it."""

    def io_errors(self) -> tuple[str, ...]:
        """Why QEMU could not read or write for it, in QEMU's words, such as "No space left on device"."""

    def pause(self) -> None:
        """Stop its processors and write back what QEMU holds for its disk; raises GuestDiedError, HypervisorError."""

    def resume(self) -> None:
        """Let it run on, its clock where it stopped; raises GuestDiedError, HypervisorError."""

    def destroy(self) -> None:
        """End it at once and wait until QEMU is gone; no error if it is gone already."""


class Hypervisor(Protocol):
    """A connection to a lab host's libvirt."""

    def start(self, xml: str) -> Domain:
        """Make and start a transient guest; raises HypervisorError."""

    def find(self, uuid: str) -> Domain | None:
        """The running guest of that UUID, None where there is none."""

    def versions(self) -> Mapping[str, str]:
        """Versions of `qemu` and `libvirt`."""

    def supports_kvm(self, emulator: str) -> bool:
        """Whether libvirt would start a KVM guest at all."""

    def disk_buses(self, emulator: str, machine: str) -> frozenset[str]:
        """libvirt's names of the buses a disk can be on in that machine type; none where there is no such machine."""

    def close(self) -> None:
        """Let the connection go; guests are destroyed before, by their owner."""


class LibvirtHypervisor:
    """A libvirt connection with its event loop; one for the life of a run.

    `pids` is the folder of QEMU's pid files where this process itself starts QEMU, else None.
    """

    def __init__(self, uri: str, *, pids: Path | None = None) -> None:
        self._pids = pids
        libvirt = load_libvirt()
        import libvirt_qemu

        self.qemu = libvirt_qemu
        start_event_loop(libvirt)
        try:
            self._conn = libvirt.open(uri)
        except libvirt.libvirtError as error:
            raise connection_error(uri, error) from None
        with contextlib.suppress(libvirt.libvirtError):
            # remote only: a dead peer is noticed within 25 s instead of at ssh's own time-out
            self._conn.setKeepAlive(5, 5)
        self._libvirt = libvirt
        self._passphrases = Passphrases(libvirt, self._conn, uri if pids else "")
        self._starting = threading.Lock()
        self._agents: dict[str, threading.Event] = {}
        self._ended: dict[str, threading.Event] = {}
        self._io_errors: dict[str, list[str]] = {}
        self._watch()

    def start(self, xml: str) -> LibvirtDomain:
        """Make and start a transient guest from schema-checked XML; raises HypervisorError."""
        flags = self._libvirt.VIR_DOMAIN_START_VALIDATE
        tree = ElementTree.fromstring(xml)  # noqa: S314 (our own XML)
        secrets = secrets_of(tree)
        # two may boot side by side, but orphans are adopted and passphrases known by the process, not by the thread
        with self._starting, translated("starting the guest"), self._passphrases.known(secrets), self._adopting(tree):
            handle = self._conn.createXML(xml, flags)
        return LibvirtDomain(self, handle)

    def _adopting(self, tree: ElementTree.Element) -> contextlib.AbstractContextManager[None]:
        if self._pids is None:
            return contextlib.nullcontext()
        # libvirt starts a QEMU that it does not know to ask what it can; adopted, that one would be waited for 80 s
        self.disk_buses(tree.findtext("devices/emulator", ""), "q35")
        return adopting(self._pids / f"{tree.findtext('name')}.pid")

    def find(self, uuid: str) -> LibvirtDomain | None:
        """The running guest of that UUID, None where there is none."""
        try:
            return LibvirtDomain(self, self._conn.lookupByUUIDString(uuid))
        except self._libvirt.libvirtError:
            return None

    def versions(self) -> Mapping[str, str]:
        """Versions of `qemu` and `libvirt` as the lab host has them."""
        with translated("asking for versions"):
            return {
                "qemu": version_text(self._conn.getVersion()),
                "libvirt": version_text(self._conn.getLibVersion()),
            }

    def supports_kvm(self, emulator: str) -> bool:
        """Whether libvirt's domain capabilities for KVM can be had."""
        try:
            self._conn.getDomainCapabilities(emulator, "x86_64", None, "kvm")
        except self._libvirt.libvirtError:
            return False
        return True

    def disk_buses(self, emulator: str, machine: str) -> frozenset[str]:
        """From libvirt's domain capabilities."""
        try:
            return bus_names(self._conn.getDomainCapabilities(emulator, "x86_64", machine, "qemu"))
        except self._libvirt.libvirtError:
            return frozenset()

    def close(self) -> None:
        """Close the connection; errors at this point help nobody."""
        self._passphrases.close()
        with contextlib.suppress(self._libvirt.libvirtError):
            self._conn.close()

    def agent_event(self, uuid: str) -> threading.Event:
        """Set once the guest of that UUID opened its agent's port."""
        return self._agents.setdefault(uuid, threading.Event())

    def ended_event(self, uuid: str) -> threading.Event:
        """Set once the guest of that UUID is gone."""
        return self._ended.setdefault(uuid, threading.Event())

    def io_errors(self, uuid: str) -> list[str]:
        """Reasons of I/O errors in the guest of that UUID so far."""
        return self._io_errors.setdefault(uuid, [])

    def _watch(self) -> None:
        lib = self._libvirt
        register = self._conn.domainEventRegisterAny

        def on_agent(_conn: Any, dom: Any, state: int, _reason: int, _opaque: Any) -> None:
            if state == lib.VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_CONNECTED:
                self.agent_event(dom.UUIDString()).set()

        def on_lifecycle(_conn: Any, dom: Any, event: int, _detail: int, _opaque: Any) -> None:
            if event in (lib.VIR_DOMAIN_EVENT_STOPPED, lib.VIR_DOMAIN_EVENT_CRASHED):
                self.ended_event(dom.UUIDString()).set()
                self.agent_event(dom.UUIDString()).set()

        def on_io_error(_conn: Any, dom: Any, _event: str, _s: int, _us: int, details: str, _opaque: Any) -> None:
            self.io_errors(dom.UUIDString()).append(io_error_reason(details))

        register(None, lib.VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE, on_agent, None)
        register(None, lib.VIR_DOMAIN_EVENT_ID_LIFECYCLE, on_lifecycle, None)
        # not by libvirt's own event of it, which leaves QEMU's words out
        self.qemu.qemuMonitorEventRegister(self._conn, None, "BLOCK_IO_ERROR", on_io_error, None, 0)


class LibvirtDomain:
    """A running guest of a LibvirtHypervisor."""

    def __init__(self, hypervisor: LibvirtHypervisor, handle: Any) -> None:
        self._qemu = hypervisor.qemu
        self._handle = handle
        self.uuid: str = handle.UUIDString()
        self.name: str = handle.name()
        self._agent_up = hypervisor.agent_event(self.uuid)
        self._ended = hypervisor.ended_event(self.uuid)
        self._io_errors = hypervisor.io_errors(self.uuid)

    def wait_for_agent(self, timeout_s: float) -> bool:
        """Wait for the event that the agent's port was opened; raises GuestDiedError if QEMU ends before."""
        came = self._agent_up.wait(timeout_s)
        if self._ended.is_set():
            raise GuestDiedError("The guest ended before it answered.")
        return came

    def answers(self, timeout_s: float) -> bool:
        """Whether the agent answers within the time; for a guest that was running before this connection."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            try:
                self.agent("guest-ping", {}, 1)
            except GuestDiedError:
                return False
            except GuestError:
                time.sleep(0.1)
            else:
                return True
        return False

    def agent(self, command: str, arguments: Mapping[str, Any], timeout_s: float) -> Any:
        """One agent command; libvirt's time limit is in whole seconds, at least 1."""
        request = json.dumps({"execute": command, "arguments": dict(arguments)})
        with translated(f"guest agent command {command}", ended=self._ended):
            answer = self._qemu.qemuAgentCommand(self._handle, request, max(1, round(timeout_s)), 0)
        return json.loads(answer)["return"]

    def monitor(self, command: str, **arguments: Any) -> Any:
        """One QMP command; taints the domain as custom-monitor and does nothing else."""
        request = json.dumps({"execute": command, "arguments": arguments} if arguments else {"execute": command})
        with translated(f"monitor command {command}", ended=self._ended, patience_s=1.0):
            answer = json.loads(self._qemu.qemuMonitorCommand(self._handle, request, 0))
        if "error" in answer:
            # what QEMU refuses libvirt hands on as an answer like any other
            raise HypervisorError(f"monitor command {command} failed: {answer['error']['desc'].rstrip('.')}.")
        return answer["return"]

    def xml(self) -> str:
        """The live XML."""
        with translated("reading the live XML", ended=self._ended):
            return str(self._handle.XMLDesc(0))

    def is_active(self) -> bool:
        """Whether QEMU still runs it, by the event libvirt sent."""
        return not self._ended.is_set()

    def io_errors(self) -> tuple[str, ...]:
        """By the events that QEMU sent."""
        return tuple(self._io_errors)

    def pause(self) -> None:
        """With QEMU's stop, which flushes."""
        with translated("pausing the guest", ended=self._ended):
            self._handle.suspend()

    def resume(self) -> None:
        """With QEMU's cont."""
        with translated("resuming the guest", ended=self._ended):
            self._handle.resume()

    def destroy(self) -> None:
        """End it; libvirt sends SIGTERM, then SIGKILL, and returns when the process is gone."""
        with contextlib.suppress(GuestDiedError), translated("destroying the guest", ended=self._ended):
            self._handle.destroy()


def load_libvirt() -> Any:
    """The libvirt binding; raises HostError that names the packages where it cannot be imported."""
    try:
        import libvirt
    except ImportError as error:
        raise HostError(
            f"libvirt's Python binding cannot be imported ({error}).",
            hint="Install libvirt-dev, pkg-config and a C compiler, then `pip install libvirt-python`.",
        ) from None
    return libvirt


@contextlib.contextmanager
def translated(doing: str, *, ended: threading.Event | None = None, patience_s: float = 0.0) -> Iterator[None]:
    """Turn libvirtError into HypervisorError, GuestSilentError (agent) or GuestDiedError (domain gone)."""
    # agent and monitor may break before the event comes that says why
    libvirt = load_libvirt()
    try:
        yield
    except libvirt.libvirtError as error:
        code = error.get_error_code() or -1
        message = one_line(error)
        gone = (libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID)
        silent = (libvirt.VIR_ERR_AGENT_UNRESPONSIVE, libvirt.VIR_ERR_AGENT_UNSYNCED)
        if ended is not None and (code in gone or ended.wait(1.0 if code in silent else patience_s)):
            raise GuestDiedError(f"The guest ended during: {doing}.") from None
        if code in silent:
            raise GuestSilentError(f"{doing}: the guest's agent does not answer ({message}).") from None
        raise HypervisorError(f"{doing} failed: {message}.", code=code) from None

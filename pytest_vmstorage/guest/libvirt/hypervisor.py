"""The only `import libvirt`: hypervisors and their guests; libvirtError is translated in one place."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from pytest_vmstorage.errors import GuestDiedError, GuestError, GuestSilentError, HostError, HypervisorError
from pytest_vmstorage.guest.libvirt.capabilities_cache import count_all_modules, on_one_cpu
from pytest_vmstorage.guest.libvirt.confinement import Confinement, read_confinement
from pytest_vmstorage.guest.libvirt.connection import Connection, GuestEvents, start_event_loop
from pytest_vmstorage.guest.libvirt.messages import (
    GIVEN_UP_HINT,
    bus_names,
    given_up,
    is_broken_channel,
    one_line,
    refusal_hint,
    version_text,
)
from pytest_vmstorage.guest.libvirt.secrets import Passphrases
from pytest_vmstorage.guest.libvirt.start import Starts
from pytest_vmstorage.host.background import begin
from pytest_vmstorage.results.spans import waiting_for
from pytest_vmstorage.storage.encryption import secrets_of

AGENT_AGAIN_S = 10.0
"""Time for a restarted libvirtd to find the agent of a guest that it already has."""

MONITOR_S = 30.0
"""Time for QEMU to answer a monitor command; longer than libvirt takes to notice that a connection was lost."""

STATE_S = 600.0
"""Time to write a guest's state to its host's disk: 16 GiB at 30 MiB/s.

To start and to restore a guest has no limit: one that libvirt begins after a run gave up waiting would be nobody's.
"""

EMBED_CONF = """\
stdio_handler = "file"
security_driver = "none"
namespaces = []
cgroup_controllers = []
remember_owner = 0
"""
"""qemu.conf of the embedded driver: without these it wants virtlogd, cgroups and root (tried on libvirt 9.0)."""


class LibvirtHypervisor:
    """A libvirt connection with its event loop for the life of a run, made again if it is lost.

    `pids` is the folder of QEMU's pid files where this process itself starts QEMU, else None. `reach` raises HostError
    where the host cannot be reached.
    """

    def __init__(self, uri: str, *, pids: Path | None = None, reach: Callable[[], object] = lambda: None) -> None:
        self._libvirt = load_libvirt()
        import libvirt_qemu

        self.qemu = libvirt_qemu
        if pids is not None:
            # before libvirt first reads its cache of QEMU's capabilities
            count_all_modules()
        start_event_loop(self._libvirt)
        self.events = GuestEvents(self._libvirt, libvirt_qemu)
        # a daemon looks at its host's processor itself
        with on_one_cpu() if pids is not None else contextlib.nullcontext():
            self.connection = Connection(self._libvirt, uri, self.events, reach)
        self._passphrases = Passphrases(self._libvirt, self.connection.current, uri if pids else "")
        self.forget = self._passphrases.forget
        self._starts = Starts(pids, lambda emulator: self.disk_buses(emulator, "q35"))

    def start(self, xml: str) -> LibvirtDomain:
        """Make and start a transient guest from schema-checked XML; raises HypervisorError."""
        flags, conn = self._libvirt.VIR_DOMAIN_START_VALIDATE, self.connection.current()
        with self._beginning("starting the guest", xml, conn):
            handle = conn.createXML(xml, flags)
        return LibvirtDomain(self, handle, conn)

    def restore(self, xml: str, path: str) -> LibvirtDomain:
        """Continue a saved guest whose file already has that XML; raises HypervisorError."""
        conn = self.connection.current()
        with self._beginning("restoring the guest", xml, conn):
            conn.restoreFlags(path, None, self._libvirt.VIR_DOMAIN_SAVE_RUNNING)
            handle = conn.lookupByUUIDString(ElementTree.fromstring(xml).findtext("uuid", ""))  # noqa: S314 (our own)
        return LibvirtDomain(self, handle, conn)

    @contextlib.contextmanager
    def _beginning(self, doing: str, xml: str, conn: Any) -> Iterator[None]:
        tree = ElementTree.fromstring(xml)  # noqa: S314 (our own XML)
        name, emulator = tree.findtext("name", ""), tree.findtext("devices/emulator", "")
        secrets = secrets_of(tree)
        with (
            # a passphrase is known to the whole process, not to one thread
            self._starts.one(name, emulator, alone=bool(secrets)),
            self._translated(doing, conn),
            self._passphrases.known(secrets),
        ):
            yield

    def find(self, uuid: str) -> LibvirtDomain | None:
        """The running guest of that UUID, None where there is none."""
        conn = self.connection.current()
        with self._translated("looking for a guest", conn):
            try:
                return LibvirtDomain(self, conn.lookupByUUIDString(uuid), conn)
            except self._libvirt.libvirtError as error:
                if error.get_error_code() != self._libvirt.VIR_ERR_NO_DOMAIN:
                    raise
        return None

    def _translated(self, doing: str, conn: Any) -> contextlib.AbstractContextManager[None]:
        return translation(doing, connection=self.connection, is_lost=lambda: not self.connection.is_alive(conn))

    def versions(self) -> Mapping[str, str]:
        """Versions of `qemu` and `libvirt` as the lab host has them."""
        conn = self.connection.current()
        with self._translated("asking for versions", conn):
            return {"qemu": version_text(conn.getVersion()), "libvirt": version_text(conn.getLibVersion())}

    def supports_kvm(self, emulator: str) -> bool:
        """Whether libvirt's domain capabilities for KVM can be had."""
        try:
            self.connection.current().getDomainCapabilities(emulator, "x86_64", None, "kvm")
        except self._libvirt.libvirtError:
            return False
        return True

    def disk_buses(self, emulator: str, machine: str) -> frozenset[str]:
        """The disk buses in libvirt's domain capabilities; none where libvirt does not know the machine type."""
        try:
            return bus_names(self.connection.current().getDomainCapabilities(emulator, "x86_64", machine, "qemu"))
        except self._libvirt.libvirtError:
            return frozenset()

    def confinement(self) -> Confinement:
        """The confinement in libvirt's capabilities."""
        conn = self.connection.current()
        with self._translated("asking for security models", conn):
            return read_confinement(conn.getCapabilities())

    def close(self) -> None:
        """Close the connection; errors at this point help nobody."""
        self._passphrases.close()
        self.connection.close()


def connect_embedded(root: Path, cache: Path, *, as_root: bool) -> LibvirtHypervisor:
    """libvirt's embedded driver, without a daemon and without root; its state is below `root`, a short private folder.

    `cache` outlives the run, because libvirt needs seconds to probe QEMU again. Raises HostError where libvirt's Python
    binding, its QEMU driver or QEMU itself is missing.
    """
    conf = root / "etc" / "qemu.conf"
    conf.parent.mkdir(parents=True, exist_ok=True)
    # an ordinary user may not set these: QEMU then runs as that user anyway
    user = 'user = "root"\ngroup = "root"\n' if as_root else ""
    conf.write_text(EMBED_CONF + user)
    cache.mkdir(parents=True, exist_ok=True)
    if not (root / "cache").exists():
        (root / "cache").symlink_to(cache)
    # the driver logs from inside this process; libvirt reads this when it is first imported
    os.environ.setdefault("LIBVIRT_LOG_OUTPUTS", f"3:file:{root}/libvirt.log")
    return LibvirtHypervisor(f"qemu:///embed?root={root}", pids=root / "run" / "qemu")


class LibvirtDomain:
    """A running guest of a LibvirtHypervisor; `conn` is the connection that `handle` belongs to."""

    def __init__(self, hypervisor: LibvirtHypervisor, handle: Any, conn: Any) -> None:
        self._qemu = hypervisor.qemu
        self._connection = hypervisor.connection
        self._of_connection, self._conn = handle, conn
        self._is_found_again = False
        self.uuid: str = handle.UUIDString()
        self.name: str = handle.name()
        self._agent_up = hypervisor.events.agent(self.uuid)
        self._ended = hypervisor.events.ended(self.uuid)
        self._stopped = hypervisor.events.stopped(self.uuid)
        self._news = hypervisor.events.news(self.uuid)
        self._io_errors = hypervisor.events.io_errors(self.uuid)
        self._unanswered: Future[Any] | None = None

    @property
    def _handle(self) -> Any:
        """The guest in the present connection; raises libvirtError where it is gone, LostError."""
        conn = self._connection.current()
        if conn is not self._conn:
            self._of_connection, self._conn = conn.lookupByUUIDString(self.uuid), conn
            self._is_found_again = True
        return self._of_connection

    def _translated(self, doing: str, patience_s: float = 0.0) -> contextlib.AbstractContextManager[None]:
        return translation(
            doing,
            ended=self._ended,
            patience_s=patience_s,
            connection=self._connection,
            # not the present connection, which another thread may have made in the meantime
            is_lost=lambda: not self._connection.is_alive(self._conn),
        )

    def wait_for_agent(self, timeout_s: float) -> bool:
        """Wait for the event that the agent's port was opened; raises LostError.

        Raises GuestDiedError if QEMU ends before, or gives the guest up because KVM cannot run it.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            # before all is looked at: what comes from now on ends the wait
            self._news.clear()
            if not self._connection.is_alive(self._conn):
                raise self._connection.lost("waiting for the guest to boot")
            if self._ended.is_set():
                raise GuestDiedError("The guest ended before it answered.", code="VM502")
            if self._agent_up.is_set():
                return True
            self._check_not_given_up()
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            self._news.wait(left_s)

    def _check_not_given_up(self) -> None:
        """Raise GuestDiedError where QEMU stopped the guest after an internal error: by itself it never goes on."""
        if not self._stopped.is_set():
            return
        # a stop that comes while QEMU is asked is another one
        self._stopped.clear()
        if (self._told("query-status") or {}).get("status") != "internal-error":
            return
        # it stays so: the next command finds it again
        self._stopped.set()
        line = self._told("human-monitor-command", **{"command-line": "x/1i $pc"})
        raise GuestDiedError(given_up(line or ""), hint=GIVEN_UP_HINT, code="VM502")

    def _told(self, command: str, **arguments: Any) -> Any:
        """What the monitor answers; None where it refuses, or does not answer."""
        with contextlib.suppress(HypervisorError, GuestSilentError):
            return self.monitor(command, **arguments)
        return None

    def answers(self, timeout_s: float) -> bool:
        """Whether the agent answers within the time; for a guest that ran before this connection was made."""
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
        with self._translated(f"guest agent command {command}"):
            handle = self._handle
            if self._is_found_again:
                self._wait_for_its_agent(handle)
            answer = self._agent_answer(handle, request, timeout_s)
        return json.loads(answer)["return"]

    def _agent_answer(self, handle: Any, request: str, timeout_s: float) -> str:
        """The agent's answer; raises GuestDiedError where QEMU gave the guest up meanwhile, libvirtError."""
        try:
            return str(self._qemu.qemuAgentCommand(handle, request, max(1, round(timeout_s)), 0))
        except load_libvirt().libvirtError:
            # a lost connection would first be made again, and the loss be told later by the time limit of ssh
            if self._connection.is_alive(self._conn):
                self._check_not_given_up()
            raise

    def _wait_for_its_agent(self, handle: Any) -> None:
        """Wait until a restarted libvirtd has found the guest's agent; raises libvirtError."""
        libvirt = load_libvirt()
        deadline = time.monotonic() + AGENT_AGAIN_S
        while True:
            try:
                self._qemu.qemuAgentCommand(handle, '{"execute": "guest-ping"}', 1, 0)
                self._is_found_again = False
                return
            except libvirt.libvirtError as error:
                if error.get_error_code() != libvirt.VIR_ERR_AGENT_UNRESPONSIVE or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def monitor(self, command: str, **arguments: Any) -> Any:
        """One QMP command; taints the domain as custom-monitor and does nothing else.

        Raises GuestSilentError where QEMU does not answer within MONITOR_S, and at once while it still owes an answer.
        """
        request = json.dumps({"execute": command, "arguments": arguments} if arguments else {"execute": command})
        doing = f"monitor command {command}"
        with self._translated(doing, patience_s=1.0):
            answer = json.loads(self._answer(doing, lambda on: self._qemu.qemuMonitorCommand(on, request, 0)))
        if "error" in answer:
            # libvirt returns QEMU's refusal like any other answer
            raise HypervisorError(
                f"monitor command {command} failed: {answer['error']['desc'].rstrip('.')}.", code="VM509"
            )
        return answer["return"]

    def _answer(self, doing: str, ask: Callable[[Any], Any], limit_s: float | None = None) -> Any:
        """QEMU's answer, for which libvirt itself would wait without a limit; raises GuestSilentError, libvirtError.

        It has MONITOR_S unless told otherwise. While QEMU owes an earlier answer it is not asked at all.
        """
        limit_s = MONITOR_S if limit_s is None else limit_s
        owed = self._unanswered
        if owed is None or owed.done():
            handle = self._handle
            asked = begin(lambda: ask(handle), "vmstorage-libvirt")
            with contextlib.suppress(TimeoutError):
                return asked.result(limit_s)
            self._unanswered = asked
        raise GuestSilentError(f"{doing}: QEMU has not answered for {limit_s:.0f} s.", code="VM503")

    def xml(self) -> str:
        """The live XML."""
        with self._translated("reading the live XML"):
            return str(self._handle.XMLDesc(0))

    def is_active(self) -> bool:
        """Whether QEMU still runs it, by the event libvirt sent."""
        return not self._ended.is_set()

    def io_errors(self) -> tuple[str, ...]:
        """The reasons in QEMU's events."""
        return tuple(self._io_errors)

    def pause(self) -> None:
        """Pause the guest by QEMU's stop, which flushes."""
        self._do("pausing the guest", lambda handle: handle.suspend())

    def resume(self) -> None:
        """Continue the guest by QEMU's cont."""
        self._do("resuming the guest", lambda handle: handle.resume())

    def save(self, path: str) -> None:
        """Save the guest into a file of libvirt's own format, and end it."""
        self._do("saving the guest", lambda handle: handle.save(path), STATE_S)

    def _do(self, doing: str, what: Callable[[Any], object], limit_s: float | None = None) -> None:
        with self._translated(doing):
            self._answer(doing, what, limit_s)

    def destroy(self) -> None:
        """End it; libvirt sends SIGTERM, then SIGKILL, and returns when the process is gone."""
        with contextlib.suppress(GuestDiedError), self._translated("destroying the guest"):
            self._handle.destroy()


def load_libvirt() -> Any:
    """The libvirt binding; raises HostError that names the packages where it cannot be imported."""
    try:
        import libvirt
    except ImportError as error:
        raise HostError(
            f"libvirt's Python binding cannot be imported ({error}).",
            hint="Install libvirt-dev, pkg-config and a C compiler, then `pip install libvirt-python`.",
            code="VM406",
        ) from None
    return libvirt


@contextlib.contextmanager
def translation(
    doing: str,
    *,
    ended: threading.Event | None = None,
    patience_s: float = 0.0,
    connection: Connection | None = None,
    is_lost: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Turn libvirtError into HypervisorError, GuestSilentError (agent), GuestDiedError (domain gone) or LostError.

    `is_lost` returns whether the connection in use was lost; `connection` may have made another one since.
    """
    # agent and monitor may break before the event comes that says why
    libvirt = load_libvirt()
    try:
        with waiting_for(f"libvirt: {doing}"):
            yield
    except libvirt.libvirtError as error:
        if connection is not None and is_lost():
            raise connection.lost(doing) from None
        number = error.get_error_code() or -1
        message = one_line(error)
        gone = (libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID)
        silent = (libvirt.VIR_ERR_AGENT_UNRESPONSIVE, libvirt.VIR_ERR_AGENT_UNSYNCED)
        # where QEMU was killed the agent's channel breaks first, and the event of its end comes a moment later
        ends_soon = number in silent or is_broken_channel(message)
        if ended is not None and (number in gone or ended.wait(1.0 if ends_soon else patience_s)):
            raise GuestDiedError(f"The guest ended during: {doing}.", code="VM502") from None
        if number in silent:
            raise GuestSilentError(f"{doing}: the guest's agent does not answer ({message}).", code="VM503") from None
        hint = refusal_hint(message) if connection is not None and connection.is_to_daemon else ""
        raise HypervisorError(f"{doing} failed: {message}.", hint=hint, code="VM509", number=number) from None
    except SystemError as error:
        # seen once with a damaged saved guest: libvirt's binding failed without a reason
        raise HypervisorError(
            f"{doing} failed, and libvirt's Python binding gave no reason ({error}).", code="VM509"
        ) from None

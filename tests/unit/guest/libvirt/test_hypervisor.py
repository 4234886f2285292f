"""In which order guests are begun through libvirt; none is begun, real ones are in tests/guest.

Tests of `guest.libvirt.hypervisor` as an implementation of `guest.protocol`.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn, cast

import pytest

from pytest_vmstorage.errors import GuestDiedError, GuestSilentError, LostError
from pytest_vmstorage.guest.domain_xml import domain_xml
from pytest_vmstorage.guest.libvirt import hypervisor as hypervisor_module
from pytest_vmstorage.guest.libvirt.hypervisor import LibvirtDomain, LibvirtHypervisor
from unit.clock import Clock
from unit.guest.restore.test_states import spec


@pytest.mark.parametrize(("encryption", "alone"), [("luks", True), ("off", False)])
def test_a_guest_with_a_passphrase_is_begun_alone(
    monkeypatch: pytest.MonkeyPatch, encryption: str, alone: bool
) -> None:
    """Restored or booted: the process knows the passphrase, and would forget it for another one."""
    pytest.importorskip("libvirt_qemu")
    connection = SimpleNamespace(current=lambda: None, close=lambda: None)
    monkeypatch.setattr(hypervisor_module, "Connection", lambda *_args, **_options: connection)
    monkeypatch.setattr(hypervisor_module, "start_event_loop", lambda _libvirt: None)
    hypervisor = LibvirtHypervisor("qemu:///system")
    begun: list[tuple[str, str, bool]] = []

    def one(name: str, emulator: str, *, alone: bool) -> NoReturn:
        begun.append((name, emulator, alone))
        raise InterruptedError

    monkeypatch.setattr(hypervisor, "_starts", SimpleNamespace(one=one))
    xml = domain_xml(spec(format="qcow2", encryption=encryption))
    for begin in (lambda: hypervisor.start(xml), lambda: hypervisor.restore(xml, "/srv/state-1")):
        with contextlib.suppress(InterruptedError):
            begin()
    assert begun == [("vms-r-1", "/usr/bin/env", alone)] * 2


@pytest.mark.parametrize("is_embedded", [True, False])
def test_the_embedded_driver_is_opened_on_one_cpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, is_embedded: bool
) -> None:
    """It asks the processor of the CPU that it is opened on; a daemon does that by itself."""
    pytest.importorskip("libvirt_qemu")
    seen: list[set[int]] = []

    def connection(*_args: object, **_options: object) -> SimpleNamespace:
        seen.append(os.sched_getaffinity(0))
        return SimpleNamespace(current=lambda: None)

    monkeypatch.setattr(hypervisor_module, "Connection", connection)
    monkeypatch.setattr(hypervisor_module, "start_event_loop", lambda _libvirt: None)
    allowed = os.sched_getaffinity(0)
    LibvirtHypervisor("qemu:///embed?root=/nonexistent", pids=tmp_path if is_embedded else None)
    assert seen == [{min(allowed)} if is_embedded else allowed]
    assert os.sched_getaffinity(0) == allowed


def test_a_monitor_that_does_not_answer_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """libvirt has no limit for it; while an answer is owed nothing more is asked, and after it all goes on."""
    pytest.importorskip("libvirt_qemu")
    monkeypatch.setattr(hypervisor_module, "MONITOR_S", 0.05)
    goes_on = threading.Event()
    asked: list[str] = []

    def command(_handle: object, request: str, _flags: int) -> str:
        asked.append(request)
        goes_on.wait(60)
        return '{"return": {"status": "running"}}'

    conn, event = object(), threading.Event()
    same = {name: lambda _uuid: event for name in ("agent", "ended", "stopped", "news")}
    events = SimpleNamespace(**same, io_errors=lambda _uuid: [])
    hypervisor = SimpleNamespace(
        qemu=SimpleNamespace(qemuMonitorCommand=command),
        connection=SimpleNamespace(current=lambda: conn),
        events=events,
    )
    handle = SimpleNamespace(UUIDString=lambda: "u", name=lambda: "vms-r-1")
    domain = LibvirtDomain(cast("LibvirtHypervisor", hypervisor), handle, conn)
    for _ in range(2):
        with pytest.raises(GuestSilentError, match="monitor command query-status: QEMU has not answered for") as caught:
            domain.monitor("query-status")
        assert caught.value.code == "VM503"
    assert len(asked) == 1
    monkeypatch.setattr(hypervisor_module, "MONITOR_S", 60.0)
    goes_on.set()
    assert domain._unanswered is not None
    domain._unanswered.result(60)
    assert domain.monitor("query-status") == {"status": "running"}


@pytest.mark.parametrize(
    ("call", "doing"), [("suspend", "pausing"), ("resume", "resuming"), ("save", "saving")], ids=str
)
def test_what_qemu_does_not_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, call: str, doing: str) -> None:
    """A guest whose QEMU stands still holds nobody where its turn begins or ends, nor where it is saved."""
    pytest.importorskip("libvirt_qemu")
    monkeypatch.setattr(hypervisor_module, "MONITOR_S", 0.05)
    monkeypatch.setattr(hypervisor_module, "STATE_S", 0.05)
    guest, goes_on = Booting(), threading.Event()
    setattr(guest.handle, call, lambda *_path: goes_on.wait(60))
    wishes = {"suspend": guest.domain.pause, "resume": guest.domain.resume, "save": lambda: guest.domain.save("/state")}
    with pytest.raises(GuestSilentError, match=rf"^{doing} the guest: QEMU has not answered for 0 s\."):
        wishes[call]()
    with pytest.raises(GuestSilentError, match=r"^monitor command query-status: QEMU has not answered"):
        guest.domain.monitor("query-status")
    assert not guest.asked
    goes_on.set()


class Booting:
    """A guest that boots: what happens to it does so while it is looked at whether its connection is alive."""

    def __init__(self, *happens: str, status: str = "running") -> None:
        self._happens = list(happens)
        self._status = status
        self.asked: list[str] = []
        self.looks = 0
        self._events = {name: threading.Event() for name in ("agent", "ended", "stopped", "news")}
        same = {name: lambda _uuid, event=event: event for name, event in self._events.items()}
        self.hypervisor = SimpleNamespace(
            qemu=SimpleNamespace(qemuMonitorCommand=self._answer),
            connection=SimpleNamespace(current=lambda: self, is_alive=self._look),
            events=SimpleNamespace(**same, io_errors=lambda _uuid: []),
        )
        self.handle = SimpleNamespace(UUIDString=lambda: "u", name=lambda: "vms-r-1")
        self.domain = LibvirtDomain(cast("LibvirtHypervisor", self.hypervisor), self.handle, self)

    def _look(self, _conn: object) -> bool:
        self.looks += 1
        if self._happens:
            self._events[self._happens.pop(0)].set()
            self._events["news"].set()
        return True

    def _answer(self, _handle: object, request: str, _flags: int) -> str:
        asked = json.loads(request)
        self.asked.append(asked["execute"])
        told = {"status": self._status} if asked["execute"] == "query-status" else "0xfff0:  0f ae 2f  xrstor (%bx)\r\n"
        return json.dumps({"return": told})


def test_news_that_come_while_a_guest_is_looked_at_end_the_wait() -> None:
    """They are not wiped away by the look that is under way."""
    pytest.importorskip("libvirt_qemu")
    assert Booting("stopped", "agent").domain.wait_for_agent(60)
    with pytest.raises(GuestDiedError, match=r"^The guest ended before it answered\."):
        Booting("stopped", "ended").domain.wait_for_agent(60)


def test_a_guest_that_was_paused_is_waited_for() -> None:
    """By its user, or because its disk is full: it may go on, and QEMU is asked once."""
    pytest.importorskip("libvirt_qemu")
    guest = Booting("stopped", status="paused")
    assert not guest.domain.wait_for_agent(0.1)
    assert guest.asked == ["query-status"]
    # the first, one for the news that came meanwhile, and one at the limit
    assert guest.looks <= 3


def test_a_guest_is_waited_for_until_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that answers in the last tenth of a second is not given up."""
    pytest.importorskip("libvirt_qemu")
    monkeypatch.setattr(hypervisor_module, "time", Clock())
    assert Booting("stopped", "agent", status="paused").domain.wait_for_agent(0.1)


def test_a_guest_that_was_given_up_is_told_each_time() -> None:
    """While it boots, and where its agent no longer answers a command."""
    libvirt = pytest.importorskip("libvirt")
    guest = Booting("stopped", status="internal-error")

    def silent(*_asked: object) -> NoReturn:
        raise libvirt.libvirtError("the guest agent is not responding")

    guest.hypervisor.qemu.qemuAgentCommand = silent
    for wait in (
        lambda: guest.domain.wait_for_agent(60),
        lambda: guest.domain.wait_for_agent(60),
        lambda: guest.domain.agent("guest-ping", {}, 1),
    ):
        with pytest.raises(
            GuestDiedError, match=r"internal error at the instruction 'xrstor \(%bx\)', which"
        ) as caught:
            wait()
        assert caught.value.code == "VM502"


def test_a_loss_is_told_before_qemu_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask QEMU, the connection would be made again, for which ssh may need its whole time limit."""
    libvirt = pytest.importorskip("libvirt")
    guest = Booting("stopped", status="internal-error")
    assert guest.hypervisor.connection.is_alive(guest)

    def lost(*_asked: object) -> NoReturn:
        monkeypatch.setattr(guest.hypervisor.connection, "is_alive", lambda _conn: False)
        raise libvirt.libvirtError("client socket is closed")

    guest.hypervisor.qemu.qemuAgentCommand = lost
    guest.hypervisor.connection.lost = lambda doing: LostError(f"lost during: {doing}.", code="VM402")
    with pytest.raises(LostError, match="lost during: guest agent command guest-ping"):
        guest.domain.agent("guest-ping", {}, 1)
    assert not guest.asked

"""A libvirt connection that is lost and made again, against a libvirt of a few lines."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_vmstorage.errors import HostError, LostError
from pytest_vmstorage.guest.libvirt import connection
from pytest_vmstorage.guest.libvirt.connection import Connection, GuestEvents

URI = "qemu+ssh://lab01/system?no_tty=1"


class LibvirtError(Exception):
    """What libvirt raises."""

    def get_error_message(self) -> str:
        """Its words."""
        return str(self.args[0])


class Conn:
    """A connection of that libvirt; `guests` are the UUIDs that it knows."""

    def __init__(self) -> None:
        self.alive = True
        self.guests: set[str] = set()
        self.on_close: Callable[[Any, int, Any], None] | None = None
        self.registered: list[int] = []
        self.registered_with_qemu: list[int] = []
        self.is_closed = False

    def isAlive(self) -> int:  # noqa: N802
        """As libvirt has it."""
        return int(self.alive)

    def setKeepAlive(self, interval: int, count: int) -> None:  # noqa: N802
        """Remember what was wished."""
        self.keepalive = (interval, count)

    def registerCloseCallback(self, callback: Callable[[Any, int, Any], None], _opaque: Any) -> None:  # noqa: N802
        """Remember it."""
        self.on_close = callback

    def unregisterCloseCallback(self) -> None:  # noqa: N802
        """Nothing."""

    def domainEventRegisterAny(self, *_args: Any) -> int:  # noqa: N802
        """Its number."""
        self.registered.append(len(self.registered) + 5)
        return self.registered[-1]

    def domainEventDeregisterAny(self, number: int) -> None:  # noqa: N802
        """Forget it; libvirt refuses where the connection was closed."""
        assert not self.is_closed
        self.registered.remove(number)

    def lookupByUUIDString(self, uuid: str) -> str:  # noqa: N802
        """The guest of that UUID."""
        if uuid not in self.guests:
            raise LibvirtError("Domain not found")
        return uuid

    def close(self) -> None:
        """Remember it."""
        self.is_closed = True

    def cut(self, reason: int) -> None:
        """Lose it."""
        self.alive = False
        assert self.on_close is not None
        self.on_close(self, reason, None)


class Libvirt:
    """The module; `refusal` is what it says in place of a further connection."""

    libvirtError = LibvirtError  # noqa: N815
    VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE = 1
    VIR_DOMAIN_EVENT_ID_LIFECYCLE = 2
    refusal = ""

    def __init__(self) -> None:
        self.opened: list[Conn] = []
        self.of_qemu: dict[str, Callable[..., None]] = {}

    def qemuMonitorEventRegister(self, conn: Conn, _dom: Any, event: str, callback: Any, *_more: Any) -> int:  # noqa: N802
        """Remember it, and give its number: this is libvirt_qemu too."""
        self.of_qemu[event] = callback
        conn.registered_with_qemu.append(len(conn.registered_with_qemu))
        return conn.registered_with_qemu[-1]

    def qemuMonitorEventDeregister(self, conn: Conn, number: int) -> None:  # noqa: N802
        """Forget it, where the connection is not closed."""
        assert not conn.is_closed
        conn.registered_with_qemu.remove(number)

    def open(self, uri: str) -> Conn:
        """A new connection."""
        assert uri.startswith(f"{URI}&command=")
        if self.refusal:
            raise LibvirtError(self.refusal)
        self.opened.append(Conn())
        return self.opened[-1]


@pytest.fixture
def libvirt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Libvirt:
    """That libvirt."""
    monkeypatch.setenv("VMSTORAGE_CACHE", str(tmp_path / "a cache"))
    return Libvirt()


def connect(libvirt: Libvirt, reach: Callable[[], object] = lambda: None) -> tuple[Connection, GuestEvents]:
    """A connection, and the events that come through it."""
    events = GuestEvents(libvirt, libvirt)
    return Connection(libvirt, URI, events, reach), events


def test_a_connection_that_stands_is_used_again(libvirt: Libvirt) -> None:
    """And its daemon is asked every few seconds whether it is there."""
    made, _ = connect(libvirt)
    assert made.current() is made.current() is libvirt.opened[0]
    assert libvirt.opened[0].keepalive == (5, 4)
    assert made.is_alive(libvirt.opened[0])


def test_a_lost_one_says_why_and_is_made_again_when_it_is_wanted(libvirt: Libvirt) -> None:
    """What was going on is in the sentence, as is libvirt's reason; the ssh of the URI's query is not."""
    made, _ = connect(libvirt)
    libvirt.opened[0].cut(2)
    assert not made.is_alive(libvirt.opened[0])
    assert made.lost("monitor command stop").what == (
        "The connection to libvirt at qemu+ssh://lab01/system was lost during: monitor command stop"
        " (no answer for 20 s)."
    )
    assert made.current() is libvirt.opened[1]


def test_a_closed_one_has_no_events_to_tell(libvirt: Libvirt) -> None:
    """As long as it has, libvirt does not end its ssh."""
    made, _ = connect(libvirt)
    (conn,) = libvirt.opened
    assert (len(conn.registered), len(conn.registered_with_qemu)) == (2, 2)
    made.close()
    assert (conn.registered, conn.registered_with_qemu) == ([], [])
    assert conn.is_closed


def test_guests_that_ended_meanwhile_are_known_afterwards(libvirt: Libvirt) -> None:
    """Their events went nowhere; and nobody waits for news that no event can tell."""
    made, events = connect(libvirt)
    gone, there = events.ended("gone"), events.ended("there")
    waiting = events.news("booting")
    libvirt.opened[0].cut(1)
    assert waiting.is_set()
    assert not events.agent("booting").is_set()
    real = libvirt.open
    libvirt.open = lambda uri: _knowing(real(uri), "there")  # type: ignore[method-assign]
    made.current()
    assert gone.is_set()
    assert not there.is_set()


def test_qemus_own_events_are_those_of_their_guest(libvirt: Libvirt) -> None:
    """A guest that it stops is news for who waits, one that cannot write is not."""
    _, events = connect(libvirt)
    stopped, other = (SimpleNamespace(UUIDString=lambda uuid=uuid: uuid) for uuid in ("stopped", "other"))
    libvirt.of_qemu["STOP"](None, stopped, "STOP", 1, 2, "", None)
    libvirt.of_qemu["BLOCK_IO_ERROR"](None, other, "BLOCK_IO_ERROR", 1, 2, '{"reason": "No space"}', None)
    found = {uuid: (events.stopped(uuid).is_set(), events.news(uuid).is_set()) for uuid in ("stopped", "other")}
    assert found == {"stopped": (True, True), "other": (False, False)}
    assert (events.io_errors("stopped"), events.io_errors("other")) == ([], ["No space"])


def _knowing(conn: Conn, uuid: str) -> Conn:
    conn.guests.add(uuid)
    return conn


def test_a_daemon_that_starts_again_is_waited_for(libvirt: Libvirt, monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd takes its moment."""
    made, _ = connect(libvirt)
    libvirt.opened[0].cut(1)
    libvirt.refusal = "Failed to connect socket"
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        libvirt.refusal = ""

    monkeypatch.setattr(connection.time, "sleep", nap)
    assert made.current() is libvirt.opened[1]
    assert naps == [0.5]


def test_one_that_does_not_come_back_is_lost_for_good(libvirt: Libvirt, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it a second time."""
    monkeypatch.setattr(connection, "AGAIN_S", 0.0)
    made, _ = connect(libvirt)
    libvirt.opened[0].cut(1)
    libvirt.refusal = "Failed to connect socket to '/run/x': No such file or directory"
    for _ in range(2):
        with pytest.raises(LostError) as caught:
            made.current()
        assert caught.value.what == (
            "The connection to libvirt at qemu+ssh://lab01/system was lost and cannot be made again: libvirt at"
            " qemu+ssh://lab01/system cannot be reached: Failed to connect socket to '/run/x': No such file or"
            " directory."
        )
        assert "systemctl enable --now libvirtd" in caught.value.hint
        libvirt.refusal = ""


def test_a_host_that_is_gone_is_not_left_to_libvirts_ssh(libvirt: Libvirt) -> None:
    """Which would try for two minutes."""
    asked: list[int] = []

    def reach() -> None:
        asked.append(1)
        raise HostError("ssh to lab01 failed: no route.", hint="Check that the host is up.")

    made, _ = connect(libvirt, reach)
    assert not asked
    libvirt.opened[0].cut(2)
    with pytest.raises(LostError, match=r"cannot be made again: ssh to lab01 failed: no route\. Check that the host"):
        made.current()
    assert len(libvirt.opened) == 1


@pytest.mark.parametrize(("uri", "sign"), [("qemu+ssh://lab01/system", "?"), (URI, "&")])
def test_libvirts_ssh_ends_once_the_host_is_silent(
    libvirt: Libvirt, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, uri: str, sign: str
) -> None:
    """It is the user's own ssh, with two options more, and written anew where it is not as it should be."""
    opened: list[str] = []
    monkeypatch.setattr(libvirt, "open", lambda uri: opened.append(uri) or Conn())
    program = tmp_path / "a cache" / "libvirt-ssh"
    (tmp_path / "ssh").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "ssh").chmod(0o700)
    for _ in range(2):
        Connection(libvirt, uri, GuestEvents(libvirt, libvirt), lambda: None)
        words = ["-T", "--", "lab01", "sh -c 'two words'"]
        done = subprocess.run([program, *words], env={"PATH": f"{tmp_path}:/bin"}, capture_output=True, check=True)
        given = ["-o", "ServerAliveInterval=3", "-o", "ServerAliveCountMax=3", *words]
        assert done.stdout.decode().splitlines() == given
        program.write_text("something else")
    assert opened == [f"{uri}{sign}command={tmp_path}/a%20cache/libvirt-ssh"] * 2


def test_a_connection_without_ssh_is_left_alone(libvirt: Libvirt, monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS has no program to run."""
    opened: list[str] = []
    monkeypatch.setattr(libvirt, "open", lambda uri: opened.append(uri) or Conn())
    Connection(libvirt, "qemu+tls://lab01/system", GuestEvents(libvirt, libvirt), lambda: None)
    assert opened == ["qemu+tls://lab01/system"]

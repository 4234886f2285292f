"""Guests without QEMU, which speak the guest agent's own protocol: hypervisor, domain, agent, processes."""

from __future__ import annotations

import base64
import itertools
import json
import re
import shlex
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_vmstorage.errors import GuestDiedError, GuestError, GuestSilentError, HypervisorError
from pytest_vmstorage.guest.agent import KILL
from pytest_vmstorage.guest.libvirt.confinement import Confinement
from pytest_vmstorage.testing.qmp import answer_monitor
from pytest_vmstorage.testing.shell import FakeShell


@dataclass(frozen=True)
class CommandWords:
    """A command in a guest: its argv, its time limit, and the files of its input and output, "" where it has none."""

    argv: tuple[str, ...]
    limit_s: float | None
    feed: str = ""
    out: str = ""
    err: str = ""


_REDIRECTED = re.compile(r"^exec .*<(\S+) >(\S+) 2>(\S+)$")


def read_words(words: Sequence[str]) -> CommandWords:
    """The parts of [timeout -s KILL N] /bin/sh -c LINE sh WORD ...; LINE may begin with exec ["$@"] [<I >O 2>E].

    Raises HypervisorError for anything else.
    """
    is_limited = list(words[:3]) == ["timeout", "-s", "KILL"]
    limit_s, words = (float(words[3]), words[4:]) if is_limited else (None, words)
    if list(words[:2]) != ["/bin/sh", "-c"]:
        raise HypervisorError(f"FakeDomain does not run {shlex.join(words)}.", code="VM509")
    first, _, script = words[2].partition("\n")
    if first == 'exec "$@"':
        return CommandWords(tuple(words[4:]), limit_s)
    files = _REDIRECTED.search(first)
    if files is None:
        return CommandWords(tuple(words), limit_s)
    argv = tuple(words[4:]) if '"$@"' in first else ("/bin/sh", "-c", script, *words[3:])
    return CommandWords(argv, limit_s, *files.groups())


@dataclass
class _Process:
    ends: float
    code: int
    said: Mapping[str, bytes]


class GuestProcesses:
    """Processes in a guest, run on a FakeShell; the end of each is told once, as qemu-ga does."""

    def __init__(self) -> None:
        self._running: dict[int, _Process] = {}

    def start(
        self, pid: int, words: Sequence[str], shell: FakeShell, content: Callable[[str], bytes], *, capture: bool
    ) -> None:
        """Begin the process of that id; `content` gives a file's bytes in the guest."""
        asked = read_words(words)
        if KILL in asked.argv:
            self._running[int(asked.argv[-1])] = _Process(0.0, -signal.SIGKILL, {})
            self._running[pid] = _Process(0.0, 0, {})
            return
        stdin = content(asked.feed) if asked.feed not in ("", "/dev/null") else None
        # no limit for the shell: the guest's timeout(1) ends the command, or KILL
        done = shell.run(asked.argv, stdin=stdin)
        said = {"out": done.stdout.encode(), "err": done.stderr.encode()}
        if asked.out:
            shell.files.update({asked.out: said["out"], asked.err: said["err"]})
        is_late = asked.limit_s is not None and done.seconds > asked.limit_s
        code = -signal.SIGKILL if is_late else done.returncode
        captured = said if capture and not asked.out else {}
        self._running[pid] = _Process(time.monotonic() + _lasts_s(asked, done.seconds, capture), code, captured)

    def status(self, pid: int) -> Any:
        """The agent's answer to guest-exec-status; raises HypervisorError for an unknown process."""
        if pid not in self._running:
            raise HypervisorError(
                "guest agent command guest-exec-status failed: Invalid parameter 'pid'.", number=1, code="VM509"
            )
        process = self._running[pid]
        if time.monotonic() < process.ends:
            return {"exited": False}
        del self._running[pid]
        said = {f"{name}-data": base64.b64encode(data).decode() for name, data in process.said.items() if data}
        ended = {"signal": -process.code} if process.code < 0 else {"exitcode": process.code}
        return {"exited": True, **ended, **said}


def _lasts_s(asked: CommandWords, seconds: float, capture: bool) -> float:
    """Seconds of real time: none, unless the command is to be killed."""
    if asked.limit_s is not None and seconds > asked.limit_s:
        return asked.limit_s
    return seconds if capture and asked.limit_s is None else 0.0


MESSAGE_BYTES = 64 * 1024
"""Longer messages to an agent corrupt libvirt's channel to it."""

ANSWER_BYTES = 4 * 2**20
"""Longer answers cannot be passed on by libvirt."""

BLOCK_BYTES = 4096
"""The size of all requests to a fake guest's disk."""

_UUID = re.compile("<uuid>(.*)</uuid>")


@dataclass
class _File:
    path: str
    at: int = 0


@dataclass
class FakeDomain:
    """A guest whose agent runs commands on a FakeShell and whose files are that shell's.

    It answers as qemu-ga does: a finished process can be asked about once, one that a signal killed has no exit code,
    and what does not exist is a HypervisorError. `boots` says whether it ever does and answers, `boot_s` after how many
    seconds; `write_at_most` and `read_at_most` make the agent take and give less than it is asked to; `dies_after` ends
    the guest at that command (0 is before it answers). `asked` is every agent command with its arguments;
    `monitor_answers` is what QMP returns in place of what it would say of the XML. `note` is told of each pause and
    resume, `moved` is how many bytes the disk has read and written by QEMU's count.
    """

    shell: FakeShell
    live_xml: str = ""
    boots: bool = True
    boot_s: float = 0.0
    dies_after: int | None = None
    write_at_most: int = MESSAGE_BYTES
    read_at_most: int = ANSWER_BYTES
    monitor_answers: Mapping[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    note: Callable[[str], object] = str
    moved: tuple[int, int] = (0, 0)
    destroyed: bool = False
    paused: bool = False
    _dead: bool = False
    _limits: Mapping[str, int] = field(default_factory=dict)
    _processes: GuestProcesses = field(default_factory=GuestProcesses)
    _open: dict[int, _File] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1000))

    def wait_for_agent(self, timeout_s: float) -> bool:
        """Whether the agent answers; raises GuestDiedError where the guest dies while it boots.

        Nobody waits for an agent that never will.
        """
        time.sleep(min(self.boot_s, timeout_s))
        if self._dead or self.dies_after == 0:
            self._dead = True
            raise GuestDiedError("The guest ended before it answered.", code="VM502")
        return self.boots and self.boot_s <= timeout_s

    def agent(self, command: str, arguments: Mapping[str, Any], timeout_s: float) -> Any:
        """The return value of an agent command; raises the errors of a LibvirtDomain."""
        del timeout_s
        self.asked.append((command, dict(arguments)))
        if self.dies_after is not None and len(self.asked) > self.dies_after:
            self._dead = True
        self._check_alive(f"guest agent command {command}")
        if self.paused or not self.boots:
            why = "it is paused" if self.paused else "fake"
            raise GuestSilentError(
                f"guest agent command {command}: the guest's agent does not answer ({why}).", code="VM503"
            )
        _check_message({"execute": command, "arguments": dict(arguments)}, MESSAGE_BYTES, command)
        method = getattr(self, f"_{command.replace('-', '_')}", None)
        if method is None:
            raise HypervisorError(
                f"guest agent command {command} failed: the command {command} has not been found.", code="VM509"
            )
        answer = method(**{name.replace("-", "_"): value for name, value in arguments.items()})
        _check_message({"return": answer}, ANSWER_BYTES, command)
        return answer

    def monitor(self, command: str, **arguments: Any) -> Any:
        """The answer of `monitor_answers` to that QMP command, else QEMU's, made from the XML.

        Raises HypervisorError for a command without an answer, GuestDiedError where the guest has ended.
        """
        self._check_alive(f"monitor command {command}")
        if command in self.monitor_answers:
            return self.monitor_answers[command]
        if command == "block_set_io_throttle":
            self._limits = {name: value for name, value in arguments.items() if name != "id"}
            return {}
        answer = answer_monitor(self.live_xml, command, arguments)
        if command == "query-block" and self._limits:
            return [{**one, "inserted": {**one["inserted"], **self._limits}} for one in answer]
        if command == "query-blockstats":
            return [{**one, "stats": block_stats(*self.moved)} for one in answer]
        return answer

    def xml(self) -> str:
        """The XML it was started with."""
        return self.live_xml

    def io_errors(self) -> tuple[str, ...]:
        """None ever."""
        return ()

    def is_active(self) -> bool:
        """Whether the guest has neither died nor been destroyed."""
        return not self._dead

    def die(self) -> None:
        """End the guest as a kernel panic does."""
        self._dead = True

    def pause(self) -> None:
        """Silence the agent until `resume`; raises GuestDiedError."""
        self._check_alive("pausing the guest")
        self.note("pause")
        self.paused = True

    def resume(self) -> None:
        """Let the agent answer again; raises GuestDiedError."""
        self._check_alive("resuming the guest")
        self.note("resume")
        self.paused = False

    def _check_alive(self, doing: str) -> None:
        if self._dead:
            raise GuestDiedError(f"The guest ended during: {doing}.", code="VM502")

    def save(self, path: str) -> None:
        """End the guest, and write its XML into that file of its shell; raises GuestDiedError."""
        self._check_alive("saving the guest")
        self.shell.files[path] = self.live_xml.encode()
        self._dead = True

    def destroy(self) -> None:
        """End the guest; no error if it has ended already."""
        self.destroyed = self._dead = True

    def _guest_ping(self) -> Any:
        return {}

    def _guest_exec(self, path: str, arg: list[str], capture_output: bool = False) -> Any:
        pid = next(self._numbers)
        self._processes.start(pid, [path, *arg], self.shell, self._content, capture=capture_output)
        return {"pid": pid}

    def _guest_exec_status(self, pid: int) -> Any:
        return self._processes.status(pid)

    def _guest_file_open(self, path: str, mode: str = "r") -> Any:
        if mode == "w":
            self.shell.files[path] = b""
        self._content(path)
        handle = next(self._numbers)
        self._open[handle] = _File(path)
        return handle

    def _guest_file_read(self, handle: int, count: int = 4096) -> Any:
        file = self._file(handle)
        data = self._content(file.path)
        piece = data[file.at : file.at + min(count, self.read_at_most)]
        file.at += len(piece)
        text = base64.b64encode(piece).decode()
        # as feof(3): only a read of more than there was meets the end
        return {"count": len(piece), "buf-b64": text, "eof": file.at >= len(data) and len(piece) < count}

    def _guest_file_write(self, handle: int, buf_b64: str) -> Any:
        piece = base64.b64decode(buf_b64)[: self.write_at_most]
        self.shell.files[self._file(handle).path] += piece
        return {"count": len(piece), "eof": False}

    def _guest_file_seek(self, handle: int, offset: int, whence: int) -> Any:
        assert whence == 0, "only from a file's beginning"
        self._file(handle).at = offset
        return {"position": offset, "eof": False}

    def _guest_file_close(self, handle: int) -> Any:
        self._file(handle)
        del self._open[handle]
        return {}

    @property
    def open_files(self) -> list[str]:
        """Paths of files that were opened and not closed."""
        return [file.path for file in self._open.values()]

    def _file(self, handle: int) -> _File:
        if handle not in self._open:
            raise HypervisorError(f"guest agent failed: handle '{handle}' has not been found.", number=1, code="VM509")
        return self._open[handle]

    def _content(self, path: str) -> bytes:
        if path not in self.shell.files:
            raise HypervisorError(
                f"guest agent failed: Failed to open file '{path}': No such file.", number=1, code="VM509"
            )
        return self.shell.files[path]


def block_stats(read_bytes: int, written_bytes: int) -> Mapping[str, int]:
    """The `stats` of query-blockstats of a disk that moved so much in blocks of 4 KiB, each in a tenth of a ms."""
    stats = {"flush_operations": 0, "flush_total_time_ns": 0}
    for kind, moved in (("rd", read_bytes), ("wr", written_bytes)):
        operations = -(-moved // BLOCK_BYTES)
        stats |= {
            f"{kind}_bytes": moved,
            f"{kind}_operations": operations,
            f"{kind}_total_time_ns": operations * 100_000,
        }
    return stats


class FakeHypervisor:
    """A Hypervisor whose guests are FakeDomains made by `boot` from their XML; `domains` has them by UUID.

    The next starts raise one of `refusals` each. `has_kvm` answers `supports_kvm`; `note` gets "close".
    """

    def __init__(
        self, boot: Callable[[str], FakeDomain], *, has_kvm: bool = False, note: Callable[[str], object] = str
    ) -> None:
        self.domains: dict[str, FakeDomain] = {}
        self.refusals: list[BaseException] = []
        self.has_kvm = has_kvm
        self.closed = False
        self.forgotten: list[str] = []
        self.confined = Confinement()
        self._boot = boot
        self._note = note

    def start(self, xml: str) -> FakeDomain:
        """Boot a guest; raises the next of `refusals`, if there is one."""
        if self.refusals:
            raise self.refusals.pop(0)
        domain = self._boot(xml)
        domain.live_xml = domain.live_xml or xml
        self.domains["".join(_UUID.findall(xml))] = domain
        return domain

    def restore(self, xml: str, path: str) -> FakeDomain:
        """Boot a guest of that XML; raises the next of `refusals`, if there is one."""
        del path
        return self.start(xml)

    def find(self, uuid: str) -> FakeDomain | None:
        """The running guest of that UUID, None where there is none."""
        domain = self.domains.get(uuid)
        return domain if domain is not None and domain.is_active() else None

    def forget(self, uuid: str) -> None:
        """Add the UUID to `forgotten`."""
        self.forgotten.append(uuid)

    def versions(self) -> Mapping[str, str]:
        """Versions of Debian 12."""
        return {"qemu": "7.2.22", "libvirt": "9.0.0"}

    def supports_kvm(self, emulator: str) -> bool:
        """The `has_kvm` that it was made with."""
        del emulator
        return self.has_kvm

    def disk_buses(self, emulator: str, machine: str) -> frozenset[str]:
        """Buses of Debian 12; only pc has IDE."""
        del emulator
        there = {"fdc", "sata", "scsi", "usb", "virtio"}
        return frozenset({"pc": there | {"ide"}, "q35": there}.get(machine, ()))

    def confinement(self) -> Confinement:
        """The `confined` of the moment."""
        return self.confined

    def close(self) -> None:
        """Set `closed`, and note "close"."""
        self.closed = True
        self._note("close")

    @property
    def running(self) -> list[FakeDomain]:
        """Guests that have not ended."""
        return [domain for domain in self.domains.values() if domain.is_active()]


def _check_message(message: Mapping[str, Any], limit: int, command: str) -> None:
    size = len(json.dumps(message))
    if size > limit:
        raise GuestError(
            f"guest agent command {command}: a message of {size} bytes, and {limit} is the most.", code="VM506"
        )

"""Evidence of a failure from QEMU, guest and host, as far as they still answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import TypeVar

from pytest_vmstorage.errors import DiskMissingError, GuestDiedError, GuestError, LostError, VmStorageError
from pytest_vmstorage.guest.agent import AgentShell
from pytest_vmstorage.guest.file_system import MOUNTPOINT
from pytest_vmstorage.guest.instance import StartedGuest
from pytest_vmstorage.guest.kernel_log import disk_trouble, last_error, read_only_mount
from pytest_vmstorage.guest.protocol import Domain
from pytest_vmstorage.host.folders import folder_facts
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.results.failures import Room, Symptoms, named

PING_S = 2.0
"""Seconds that the agent may take to answer a ping."""

_ROOM = ("stat", "-f", "-c", "%a %S %c %d", MOUNTPOINT)

Found = TypeVar("Found")


def explain_error(machine: StartedGuest, host: Shell, error: VmStorageError) -> VmStorageError:
    """The error with its name, the evidence and the guest's console."""
    if isinstance(error, LostError):
        return named(error, Symptoms())
    known = named(error, look_for_symptoms(machine, host, error))
    if isinstance(known, GuestError):
        known.console = known.console or machine.console_tail()
    return known


def look_for_symptoms(machine: StartedGuest, host: Shell, error: VmStorageError) -> Symptoms:
    """Symptoms of that guest, its disk and its folder on the host after that error."""
    guest = AgentShell(machine.domain)
    is_asked = machine.spec.image is None or not machine.spec.image.door.is_open
    agent = _agent(machine.domain) if is_asked else ""
    answers = agent == "answers"
    return Symptoms(
        agent=agent,
        io_errors=machine.domain.io_errors(),
        free_bytes=_or(None, lambda: _free_bytes(machine, host)),
        kernel_log=_or("", lambda: _kernel_log(guest, error)) if answers else "",
        read_only=_or("", lambda: read_only_mount(guest)) if answers else "",
        room=_or(None, lambda: _room(machine, guest)) if answers else None,
    )


def _or(nothing: Found, ask: Callable[[], Found]) -> Found:
    """The answer, or `nothing` on an error: the failure itself is reported in any case."""
    try:
        return ask()
    except VmStorageError:
        return nothing


def _agent(domain: Domain) -> str:
    try:
        domain.agent("guest-ping", {}, PING_S)
    except GuestDiedError:
        return ""
    except VmStorageError:
        return "does not answer"
    return "answers"


def _kernel_log(guest: Shell, error: VmStorageError) -> str:
    trouble = disk_trouble(guest)
    return last_error(guest) if not trouble and isinstance(error, DiskMissingError) else trouble


def _free_bytes(machine: StartedGuest, host: Shell) -> int | None:
    disk = machine.disk
    if disk is None or disk.is_block:
        return None
    return folder_facts(host, str(PurePosixPath(machine.spec.disk).parent)).free_bytes


def _room(machine: StartedGuest, guest: Shell) -> Room | None:
    if machine.config.guest_fs == "none":
        return None
    done = guest.run(_ROOM, timeout_s=10)
    if not done.ok:
        return None
    blocks, size, inodes, free_inodes = map(int, done.stdout.split())
    # btrfs counts no inodes
    return Room(free_bytes=blocks * size, free_inodes=free_inodes if inodes else None)

"""The first answer of a guest: through its agent, or by ssh where it is from a user's image without one."""

from __future__ import annotations

import time

from pytest_vmstorage.agent import AgentShell
from pytest_vmstorage.command import Shell, SshShell
from pytest_vmstorage.errors import BootTimeoutError, GuestDiedError, HostError
from pytest_vmstorage.provision.image_ssh import Door
from pytest_vmstorage.provision.machine import Machine
from pytest_vmstorage.units import format_duration

_LATE = "Give it more time with --vm-timeout, or keep it for a look with --vm-keep."
_NO_AGENT = (
    "Give it more time with --vm-timeout; the image needs a boot loader that the BIOS starts, cloud-init or nothing to"
    " wait for, and qemu-guest-agent, enabled. Without an agent --vm-image-reach=ssh reaches it, if it has sshd."
)
_NO_SSHD = (
    "Give it more time with --vm-timeout; the image needs a boot loader that the BIOS starts, cloud-init that reads"
    " NoCloud seeds, and sshd on which root may log in with a key."
)
_AGAIN_S = 1.0


def reach(machine: Machine, timeout_s: float) -> Shell:
    """Wait until the guest answers, and return the shell in it; raises BootTimeoutError, GuestDiedError."""
    image = machine.spec.image
    if image is not None and image.door.is_open:
        return _by_ssh(machine, image.door, timeout_s)
    if not machine.domain.wait_for_agent(timeout_s):
        raise _late(machine, timeout_s, _LATE if image is None else _NO_AGENT)
    return AgentShell(machine.domain)


def _by_ssh(machine: Machine, door: Door, timeout_s: float) -> Shell:
    deadline = time.monotonic() + timeout_s
    shell = SshShell(door.target, door.options)
    while True:
        try:
            shell.run(["true"])
        except HostError as error:
            if not machine.domain.is_active():
                raise GuestDiedError(f"The guest of {machine.config} ended before ssh reached it.") from None
            if time.monotonic() > deadline:
                raise _late(machine, timeout_s, f"ssh's last word: {error.what} {_NO_SSHD}") from None
            time.sleep(_AGAIN_S)
        else:
            return shell


def _late(machine: Machine, timeout_s: float, hint: str) -> BootTimeoutError:
    return BootTimeoutError(
        f"The guest of {machine.config} did not answer within {format_duration(timeout_s)}.", hint=hint
    )

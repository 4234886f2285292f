"""LabHost: where guests run, as two channels: a libvirt URI for guests and a shell for all else."""

from __future__ import annotations

import getpass
import os
import re
import socket

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.command import LocalShell, Shell, SshShell
from pytest_vmstorage.errors import ConfigError

LOCAL = "local"
"""Name of this machine, used through the embedded driver where no host is asked for."""

_HOST_NAME = re.compile(r"(?:\w[\w.-]*@)?[A-Za-z0-9][\w.-]*")


class LabHost(BaseModel):
    """A machine that runs guests. `uri` is None for the embedded driver of this process; `ssh` is None here.

    `folder` is where the disks under test lie on that machine.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    uri: str | None
    ssh: str | None
    folder: str

    @property
    def is_local(self) -> bool:
        """Whether the host is this machine."""
        return self.ssh is None

    def shell(self) -> Shell:
        """A shell on the host."""
        return LocalShell() if self.ssh is None else SshShell(self.ssh)


def find_host(name: str | None, folder: str | None) -> LabHost:
    """The host of that name: this machine for None or "local", otherwise `qemu+ssh://NAME/system`.

    Raises ConfigError where the name cannot be a host's.
    """
    if name is None or name == LOCAL:
        return LabHost(name=socket.gethostname(), uri=None, ssh=None, folder=folder or _local_folder())
    if _HOST_NAME.fullmatch(name) is None:
        raise ConfigError(f"--vm-host={name} is not a host name.", hint="Write NAME or USER@NAME.")
    # no_tty: without it an ssh that wants a password waits for ever on the terminal (libvirt.org/remote)
    uri = f"qemu+ssh://{name}/system?no_tty=1"
    return LabHost(name=name, uri=uri, ssh=name, folder=folder or "/var/lib/libvirt/images/vmstorage")


def _local_folder() -> str:
    # /var/tmp and not /tmp: the latter is often a tmpfs, which is memory and no disk
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # a container may run under a number that has no name
        user = str(os.getuid())
    return f"/var/tmp/pytest-vmstorage-{user}"

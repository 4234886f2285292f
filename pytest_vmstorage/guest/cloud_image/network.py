"""The network of a guest from a user's image, and the keys and port by which ssh reaches it.

Cloud images wait for a network as they boot, for two minutes where there is none. So each guest has one device with
nothing behind it: QEMU's user network, restricted, which forwards one port where ssh is wanted. The seed brings both
keys, so that no key of the guest is taken on trust.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import subprocess

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.errors import HostError
from pytest_vmstorage.leftovers import make_temporary

_ALIAS = "vmstorage-guest"
_FIRST_PORT, _PORTS = 20000, 40000


class ImageKeys:
    """Two key pairs in a folder that goes with this process: the user's, and that of every guest of the run.

    Raises HostError where ssh-keygen is missing.
    """

    def __init__(self) -> None:
        self.folder = make_temporary("keys")
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        for name in ("user", "guest"):
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{name} of vmstorage"]
            try:
                subprocess.run([*argv, "-f", str(self.folder / name)], check=True, stdin=subprocess.DEVNULL)
            except (OSError, subprocess.CalledProcessError):
                raise HostError(
                    "Guests that are reached by ssh need ssh-keygen on this machine.",
                    hint="apt install openssh-client",
                    code="VM515",
                ) from None
        kind, key, *_ = self.text("guest.pub").split()
        (self.folder / "known_hosts").write_text(f"{_ALIAS} {kind} {key}\n")

    def text(self, name: str) -> str:
        """The text of a key file: user, user.pub, guest or guest.pub."""
        return (self.folder / name).read_text()


class Door(BaseModel):
    """One guest's network device with its MAC address, and the port of its host's loopback that leads to its sshd.

    `folder` holds the keys on this machine, "" where ssh is not wanted; `jump` is the ssh target of a lab host, "" for
    this machine.
    """

    model_config = ConfigDict(frozen=True)

    port: int
    mac: str
    folder: str = ""
    jump: str = ""

    @property
    def is_open(self) -> bool:
        """Whether ssh reaches the guest."""
        return bool(self.folder)

    @property
    def target(self) -> str:
        """The ssh target."""
        return "root@127.0.0.1"

    @property
    def options(self) -> tuple[str, ...]:
        """Options of ssh: only this run's keys, and none of the user's known hosts."""
        told = {
            "Port": str(self.port),
            "IdentityFile": f"{self.folder}/user",
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": f"{self.folder}/known_hosts",
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "HostKeyAlias": _ALIAS,
        }
        words = [word for name, value in told.items() for word in ("-o", f"{name}={value}")]
        return (*words, *(("-J", self.jump) if self.jump else ()))

    def arguments(self, machine_type: str) -> tuple[str, ...]:
        """QEMU's options for the network device, at a PCI address that libvirt never assigns."""
        bus = "pci.0" if machine_type == "pc" else "pcie.0"
        forward = f",hostfwd=tcp:127.0.0.1:{self.port}-:22" if self.is_open else ""
        return (
            *("-netdev", f"user,id=vms-net,restrict=on{forward}"),
            *("-device", f"virtio-net-pci,netdev=vms-net,mac={self.mac},bus={bus},addr=0x1d"),
        )


def door_of(name: str, folder: str, jump: str) -> Door:
    """The door of the guest of that name, whose digest gives a port and address that hardly any other guest has."""
    digest = hashlib.sha256(name.encode()).digest()
    mac = ":".join(["52:54:00", *(f"{byte:02x}" for byte in digest[:3])])
    return Door(port=_FIRST_PORT + int.from_bytes(digest[3:7]) % _PORTS, mac=mac, folder=folder, jump=jump)

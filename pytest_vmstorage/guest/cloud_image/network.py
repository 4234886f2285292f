"""The network of a guest from a user's image, and how ssh finds the way in: keys made for the run, and a port.

Cloud images wait for a network as they boot, for two minutes where there is none. So each guest has one device, behind
which there is nothing: QEMU's user network, restricted, which forwards one port where ssh is to come in. Both keys are
told by the seed, so that no key of the guest is taken on trust.
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
    """Two pairs of keys in a folder of this process, gone at its end: the user's, and that of every guest of the run.

    Raises HostError where ssh-keygen is not there.
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
                    "Guests that are reached by ssh need ssh-keygen on this machine.", hint="apt install openssh-client"
                ) from None
        kind, key, *_ = self.text("guest.pub").split()
        (self.folder / "known_hosts").write_text(f"{_ALIAS} {kind} {key}\n")

    def text(self, name: str) -> str:
        """The text of one of its files: user, user.pub, guest, guest.pub."""
        return (self.folder / name).read_text()


class Door(BaseModel):
    """One guest's network device by its address, and the way in: a port of its host's loopback, over another host.

    `folder` holds the keys, on this machine, "" where ssh is not to come in; `jump` is the ssh target of a lab host, ""
    for this machine.
    """

    model_config = ConfigDict(frozen=True)

    port: int
    mac: str
    folder: str = ""
    jump: str = ""

    @property
    def is_open(self) -> bool:
        """Whether ssh is to come in."""
        return bool(self.folder)

    @property
    def target(self) -> str:
        """Whom ssh is to reach."""
        return "root@127.0.0.1"

    @property
    def options(self) -> tuple[str, ...]:
        """What ssh is to be told beside: this run's keys and no others, and no file of the user's about hosts."""
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
        """QEMU's options for the network device, at an address that libvirt does not give away."""
        bus = "pci.0" if machine_type == "pc" else "pcie.0"
        forward = f",hostfwd=tcp:127.0.0.1:{self.port}-:22" if self.is_open else ""
        return (
            *("-netdev", f"user,id=vms-net,restrict=on{forward}"),
            *("-device", f"virtio-net-pci,netdev=vms-net,mac={self.mac},bus={bus},addr=0x1d"),
        )


def door_of(name: str, folder: str, jump: str) -> Door:
    """The way into the guest of that name, which tells its port and address: no other guest's, unless by chance."""
    digest = hashlib.sha256(name.encode()).digest()
    mac = ":".join(["52:54:00", *(f"{byte:02x}" for byte in digest[:3])])
    return Door(port=_FIRST_PORT + int.from_bytes(digest[3:7]) % _PORTS, mac=mac, folder=folder, jump=jump)

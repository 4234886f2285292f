"""How libvirt learns an encrypted disk's passphrase; with the embedded driver real guests try it."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from xml.etree import ElementTree as ET

from pytest_vmstorage.guest.libvirt.secrets import Passphrases
from pytest_vmstorage.storage.encryption import PASSPHRASE

UUID = "6f7f5bb6-6ad5-4b19-8b7c-3d3f1b6f2d10"


class Daemon:
    """A connection to a daemon that writes down what happens to its secrets."""

    def __init__(self) -> None:
        self.did: list[str] = []

    def secretDefineXML(self, xml: str, _flags: int) -> Daemon:  # noqa: N802 (libvirt's name)
        """Define it; one that would stay on the host's disk is no secret of a run."""
        tree = ET.fromstring(xml)
        self.did.append(f"defined {tree.get('ephemeral')} {tree.findtext('uuid')}")
        return self

    def secretLookupByUUIDString(self, uuid: str) -> Daemon:  # noqa: N802 (libvirt's name)
        """It knows one."""
        if uuid != UUID:
            raise LookupError
        return self

    def setValue(self, value: bytes, _flags: int) -> None:  # noqa: N802 (libvirt's name)
        """Its passphrase."""
        self.did.append(value.decode())

    def undefine(self) -> None:
        """Forget it."""
        self.did.append("undefined")


def test_a_daemon_forgets_the_passphrase_when_its_guest_has_started_or_failed_to() -> None:
    """It is in memory alone, for as long as a start takes."""
    daemon = Daemon()
    passphrases = Passphrases(None, lambda: daemon, "")
    with contextlib.suppress(KeyError), passphrases.known((UUID,)):
        daemon.did.append("guest refused")
        raise KeyError
    assert daemon.did == [f"defined yes {UUID}", PASSPHRASE, "guest refused", "undefined"]
    passphrases.close()


def test_what_a_killed_run_left_known_is_forgotten() -> None:
    """By the guest's UUID; one that is not known is no error."""
    daemon = Daemon()
    passphrases = Passphrases(SimpleNamespace(libvirtError=LookupError), lambda: daemon, "")
    passphrases.forget(UUID)
    passphrases.forget("another")
    assert daemon.did == ["undefined"]


def test_a_guest_without_encryption_needs_no_secret_driver() -> None:
    """Nothing is opened, defined or closed."""
    daemon = Daemon()
    passphrases = Passphrases(None, daemon, "qemu:///embed?root=/x")
    with passphrases.known(()):
        pass
    passphrases.close()
    assert daemon.did == []

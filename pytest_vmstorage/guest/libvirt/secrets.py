"""Passphrases of encrypted disks in libvirt's secret store, while their guests start."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pytest_vmstorage.storage.encryption import PASSPHRASE, secret_xml


class Passphrases:
    """Stores the passphrases that a domain's XML names by UUID; `current` returns the libvirt connection.

    `embedded` is the URI of an embedded driver, else "": a driver of its own, below the same root, keeps its secrets.
    """

    def __init__(self, libvirt: Any, current: Callable[[], Any], embedded: str) -> None:
        self._libvirt, self._current, self._embedded = libvirt, current, embedded
        self._own: Any = None

    @contextlib.contextmanager
    def known(self, secrets: Sequence[str]) -> Iterator[None]:
        """Context in which libvirt knows the passphrases; QEMU keeps its own copy. Raises libvirtError."""
        with contextlib.ExitStack() as undo:
            if secrets and self._embedded:
                undo.enter_context(_identity())
            for secret in secrets:
                xml = secret_xml(secret, ephemeral=not self._embedded)
                defined = self._driver().secretDefineXML(xml, 0)
                if not self._embedded:
                    # the embedded driver of libvirt 9.0 crashes at this; its secrets go with its private folder
                    undo.callback(defined.undefine)
                defined.setValue(PASSPHRASE.encode(), 0)
            yield

    def forget(self, secret: str) -> None:
        """Remove a killed run's passphrase: a daemon keeps it until it ends, an embedded driver in its own folder."""
        with contextlib.suppress(self._libvirt.libvirtError):
            self._current().secretLookupByUUIDString(secret).undefine()

    def _driver(self) -> Any:
        if self._embedded and self._own is None:
            self._own = self._libvirt.open(self._embedded.replace("qemu:", "secret:", 1))
        return self._own or self._current()

    def close(self) -> None:
        """Close the connection to the secret store, if there is one."""
        if self._own is not None:
            with contextlib.suppress(self._libvirt.libvirtError):
                self._own.close()


@contextlib.contextmanager
def _identity() -> Iterator[None]:
    """Context in which this thread calls libvirt's embedded drivers with the system's identity.

    A daemon knows the identity of its clients; this process has none, and libvirt 9.0 then refuses to look a secret up
    ("No current identity to elevate", tried). The library exports the functions that set it, outside of its public
    API; where they are missing, libvirt's own error stands.
    """
    library = ctypes.CDLL("libvirt.so.0")
    try:
        system, become = library.virIdentityGetSystem, library.virIdentitySetCurrent
    except AttributeError:
        yield
        return
    system.restype = ctypes.c_void_p
    become.argtypes = [ctypes.c_void_p]
    become(system())
    try:
        yield
    finally:
        become(None)

"""SHA-256 of QEMU's binary, the domain's XML and the guest's image; each is read once."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_vmstorage.guest.domain_xml import GuestSpec, definition_sha256
from pytest_vmstorage.host.shell import Shell

_SUM = '# reads\nsha256sum -- "$(readlink -f -- "$1")"'


class Provenance:
    """Hashes of the parts of the guests on one host; QEMU's modules, firmware and libraries are not among them."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._binaries: dict[str, str] = {}

    def of(self, spec: GuestSpec) -> Mapping[str, str]:
        """The hashes in hexadecimal by field; a hash that the host does not tell is left out."""
        found = {
            "qemu_sha256": self.binary(spec.emulator),
            "domain_xml_sha256": definition_sha256(spec),
            "guest_image_sha256": spec.root_sha256,
        }
        return {what: value for what, value in found.items() if value}

    def binary(self, path: str) -> str:
        """The hash of a program on the host, "" where the host does not tell."""
        if path not in self._binaries:
            done = self._shell.run(["sh", "-c", _SUM, "sh", path])
            self._binaries[path] = done.stdout.partition(" ")[0] if done.ok else ""
        return self._binaries[path]

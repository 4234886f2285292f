"""What a guest was made from: hashes of QEMU, firmware, domain XML and guest image, and the plugin's version."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping

from pytest_vmstorage.guest.domain_xml import GuestSpec, definition_sha256
from pytest_vmstorage.host.shell import Shell

_SUM = '# reads\nsha256sum -- "$(readlink -f -- "$1")"'
_FIRMWARE = "bios-256k.bin"
"""SeaBIOS for the machine types pc and q35 where the domain names no firmware, as ours does (QEMU's hw/i386/x86.c)."""

# QEMU takes the first file of that name in the order of these folders
_SUM_OF_FIRMWARE = f"""# reads
"$1" -L help | while read -r folder; do
  [ -r "$folder/{_FIRMWARE}" ] && sha256sum -- "$folder/{_FIRMWARE}" && break
done"""


class Provenance:
    """Hashes of the parts of the guests on one host; QEMU's modules and libraries are not among them."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._binaries: dict[str, str] = {}
        self._firmware: dict[str, str] = {}

    def of(self, spec: GuestSpec) -> Mapping[str, str]:
        """The hashes in hexadecimal by field, and `plugin`; a hash that the host does not tell is left out."""
        found = {
            "qemu_sha256": self.binary(spec.emulator),
            "firmware_sha256": self._firmware_of(spec.emulator),
            "domain_xml_sha256": definition_sha256(spec),
            "guest_image_sha256": spec.root_sha256,
            "plugin": importlib.metadata.version("pytest-vmstorage"),
        }
        return {what: value for what, value in found.items() if value}

    def _firmware_of(self, path: str) -> str:
        if path not in self._firmware:
            done = self._shell.run(["sh", "-c", _SUM_OF_FIRMWARE, "sh", path])
            self._firmware[path] = done.stdout.partition(" ")[0] if done.ok else ""
        return self._firmware[path]

    def binary(self, path: str) -> str:
        """The hash of a program on the host, "" where the host does not tell."""
        if path not in self._binaries:
            done = self._shell.run(["sh", "-c", _SUM, "sh", path])
            self._binaries[path] = done.stdout.partition(" ")[0] if done.ok else ""
        return self._binaries[path]

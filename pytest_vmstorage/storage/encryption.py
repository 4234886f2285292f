"""The passphrase of encrypted images, as qemu-img, QEMU and libvirt take it; pure."""

from __future__ import annotations

import json
import uuid
from xml.etree import ElementTree as ET

from pytest_vmstorage.config.cell import StorageConfig

# public: such a disk holds nothing but a measurement, and the cipher is the thing measured
PASSPHRASE = "vmstorage"  # noqa: S105 (public on purpose)

SECRET = "vmstorage"  # noqa: S105 (a name)
"""QEMU's name of the object that holds the passphrase."""

TRIES = 5
"""Attempts at making an encrypted image: QEMU 7.2 can fail by chance where it measures CPU time (tried)."""


def secret_argv(config: StorageConfig) -> tuple[str, ...]:
    """Options of qemu-img and qemu-io for opening the cell's images; none without encryption."""
    return ("--object", f"secret,id={SECRET},data={PASSPHRASE}") if config.encryption == "luks" else ()


def secret_object() -> str:
    """QEMU's -object of the passphrase, as JSON."""
    return json.dumps({"qom-type": "secret", "id": SECRET, "data": PASSPHRASE})


def luks_options() -> tuple[str, ...]:
    """qemu-img's -o for LUKS in a qcow2.

    iter-time and hash-alg apply to the key's derivation, which happens once, when the image is opened, and do not
    affect I/O. The slower hash is chosen because QEMU 7.2 measures it by CPU time, and refuses a time of 0 (tried).
    """
    key = f"encrypt.key-secret={SECRET}"
    return ("encrypt.format=luks", key, "encrypt.iter-time=10", "encrypt.hash-alg=sha512")


def image_name(config: StorageConfig, path: str, below: str = "") -> str:
    """The cell's image as qemu-img opens it, without backing files or on the image `below`."""
    if config.format != "qcow2":
        return path
    layer = {**_layer(config, path), "backing": {**_layer(config, below), "backing": None} if below else None}
    return f"json:{json.dumps(layer)}"


def _layer(config: StorageConfig, path: str) -> dict[str, object]:
    layer: dict[str, object] = {"driver": "qcow2", "file": {"driver": driver_of(path), "filename": path}}
    if config.encryption == "luks":
        layer["encrypt"] = {"format": "luks", "key-secret": SECRET}
    return layer


def driver_of(path: str) -> str:
    """QEMU's protocol driver of a path: block devices lie below /dev, where no image lies but in memory."""
    return "host_device" if path.startswith("/dev/") and not path.startswith("/dev/shm/") else "file"


def encryption_element(secret: str) -> ET.Element:
    """The encryption element of a disk's source; `secret` is the UUID of the passphrase in libvirt."""
    element = ET.Element("encryption", format="luks")
    ET.SubElement(element, "secret", type="passphrase", uuid=secret)
    return element


def secret_xml(secret: str, *, ephemeral: bool) -> str:
    """libvirt's XML of the passphrase; an ephemeral one crashes libvirt 9.0's embedded driver, no daemon (tried)."""
    element = ET.Element("secret", ephemeral="yes" if ephemeral else "no", private="yes")
    ET.SubElement(element, "uuid").text = str(uuid.UUID(secret))
    ET.SubElement(element, "description").text = "pytest-vmstorage: of a disk that holds a measurement"
    return ET.tostring(element, encoding="unicode")


def secrets_of(domain: ET.Element) -> tuple[str, ...]:
    """UUIDs of the passphrases that a domain's XML names, each once."""
    found = (one.get("uuid", "") for one in domain.iterfind("devices/disk//encryption/secret"))
    return tuple(dict.fromkeys(found))

"""The beginning of a file that libvirt saved a guest in, with another domain's XML put into it; pure.

Source: struct _virQEMUSaveHeader in libvirt's src/qemu/qemu_saveimage.h, version 2 (libvirt 0.9.5 and later; read and
written with 9.0): 16 bytes of magic, five little-endian numbers of 32 bits, 56 bytes without use, the XML that ends
with a zero byte, a cookie that does so too, and zeros up to `room`. libvirt leaves 64 KiB there for longer XML.
"""

from __future__ import annotations

import struct

from pydantic import BaseModel, ConfigDict

MAGIC = b"LibvirtQemudSave"
VERSION = 2
_NUMBERS = struct.Struct("<5I")
_BEFORE = len(MAGIC) + _NUMBERS.size + 56


class SaveImage(BaseModel):
    """What a saved guest's file says before QEMU's own stream: `xml`, libvirt's `cookie`, and `room` bytes for both."""

    model_config = ConfigDict(frozen=True)

    xml: str
    cookie: bytes
    room: int

    @property
    def size_bytes(self) -> int:
        """How long all of that is; QEMU's stream begins there."""
        return _BEFORE + self.room

    def with_xml(self, xml: str) -> bytes:
        """The same beginning, as long as before, for a domain of that XML, which is to run at once.

        Raises ValueError where it does not fit.
        """
        text = xml.encode() + b"\0"
        content = text + self.cookie
        if len(content) > self.room:
            raise ValueError(f"XML of {len(text)} bytes does not fit into the {self.room} bytes of a saved guest")
        numbers = _NUMBERS.pack(VERSION, self.room, 1, 0, len(text) if self.cookie else 0)
        return MAGIC + numbers + bytes(56) + content.ljust(self.room, b"\0")


def read_save_image(data: bytes) -> SaveImage:
    """Read the beginning of a file; `data` has all of it, and may have more. Raises ValueError for any other file.

    A file that libvirt has not finished has another magic; one whose stream is compressed cannot be used.
    """
    if len(data) < _BEFORE or not data.startswith(MAGIC):
        raise ValueError("it is not what libvirt saves a guest in")
    version, room, _, compressed, cookie_at = _NUMBERS.unpack_from(data, len(MAGIC))
    if version != VERSION or compressed:
        raise ValueError(f"it is of version {version}, compressed by {compressed}, and not of {VERSION} and by 0")
    content = data[_BEFORE : _BEFORE + room]
    if len(content) < room or cookie_at > room:
        raise ValueError("its beginning is not whole")
    xml = content[: cookie_at or room].partition(b"\0")[0].decode()
    cookie = content[cookie_at:].partition(b"\0")[0] + b"\0" if cookie_at else b""
    return SaveImage(xml=xml, cookie=cookie, room=room)

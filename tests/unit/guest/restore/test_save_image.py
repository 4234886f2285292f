"""The beginning of libvirt's saved guests: one of libvirt 9.0 is read, and written anew for another guest.

Tests of the file format in `guest.restore.states`.
"""

from __future__ import annotations

import struct
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from pytest_vmstorage.guest.restore.states import SaveImage, read_save_image

# what libvirt 9.0.0 (Debian 12) wrote for a guest with QEMU 7.2.22, without the zeros at its end
RECORDED = (Path(__file__).parents[2] / "recordings" / "libvirt-9.0-save-head.bin").read_bytes()
ROOM = 70732
WHOLE = RECORDED.ljust(92 + ROOM, b"\0") + b"QEVM and the stream of QEMU"


def test_what_libvirt_wrote_is_read() -> None:
    """XML that parses, a cookie with the processor, and where QEMU's stream begins."""
    head = read_save_image(WHOLE)
    assert ET.fromstring(head.xml).findtext("name") == "vms-e180b457d2-4-saved"
    assert head.cookie.startswith(b"<cookie>")
    assert head.cookie.endswith(b"</cookie>\n\0")
    assert WHOLE[head.size_bytes :].startswith(b"QEVM")


def test_what_is_written_is_as_long_and_says_what_libvirt_said() -> None:
    """With the XML that libvirt wrote it is what libvirt wrote."""
    head = read_save_image(WHOLE)
    assert head.with_xml(head.xml) == WHOLE[: head.size_bytes]
    other = read_save_image(head.with_xml("<domain><name>other</name></domain>") + b"QEVM")
    assert other == SaveImage(xml="<domain><name>other</name></domain>", cookie=head.cookie, room=ROOM)


def test_xml_that_has_no_room_is_refused() -> None:
    """libvirt leaves 64 KiB for it; more would run into QEMU's stream."""
    head = read_save_image(WHOLE)
    assert len(head.with_xml("x" * (ROOM - len(head.cookie) - 1))) == head.size_bytes
    with pytest.raises(ValueError, match="does not fit into the 70732 bytes"):
        head.with_xml("x" * (ROOM - len(head.cookie)))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not what libvirt saves a guest in"),
        (WHOLE[:91], "not what libvirt saves a guest in"),
        (b"LibvirtQemudPart" + WHOLE[16:], "not what libvirt saves a guest in"),
        (WHOLE[:16] + struct.pack("<I", 3) + WHOLE[20:], "it is of version 3"),
        (WHOLE[:28] + struct.pack("<I", 2) + WHOLE[32:], "compressed by 2"),
        (WHOLE[:32] + struct.pack("<I", ROOM + 1) + WHOLE[36:], "its beginning is not whole"),
        (WHOLE[:5000], "its beginning is not whole"),
    ],
    ids=["empty", "short", "unfinished", "version", "compressed", "longer", "cut"],
)
def test_other_files_are_refused(data: bytes, why: str) -> None:
    """Those that libvirt has not finished, of another version, compressed, cut short."""
    with pytest.raises(ValueError, match=why):
        read_save_image(data)

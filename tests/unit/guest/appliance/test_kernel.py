"""The ELF kernel inside a bzImage, on images made here.

Tests of the kernel's half of `guest.appliance.initrd`.
"""

from __future__ import annotations

import gzip
import lzma
import struct
from collections.abc import Callable

import pytest

from pytest_vmstorage.errors import ProvisionError
from pytest_vmstorage.guest.appliance.initrd import has_pvh_entry, payload, vmlinux

PVH_NOTE = struct.pack("<III", 4, 8, 18) + b"Xen\0" + b"\0" * 8
ELF = b"\x7fELF" + b"kernel" * 400 + PVH_NOTE


def bzimage(packed: bytes, *, version: int = 0x020F, setup_sectors: int = 2, offset: int = 64) -> bytes:
    """An image with only the fields the extraction reads, `packed` at `offset` behind the setup sectors."""
    image = bytearray((setup_sectors + 1) * 512 + offset)
    image[0x1F1] = setup_sectors
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", image, 0x206, version)
    struct.pack_into("<II", image, 0x248, offset, len(packed))
    return bytes(image) + packed + b"trailing bytes of the image"


def no_zstd(packed: bytes) -> bytes:
    """For kernels that must not need it."""
    raise AssertionError("zstd was called")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress], ids=["gzip", "xz"])
def test_kernel_comes_out_whole_with_length_bytes_behind_it(pack: Callable[[bytes], bytes]) -> None:
    """The build's four length bytes behind the stream do not disturb, and no byte is lost."""
    packed = pack(ELF) + struct.pack("<I", len(ELF))
    assert vmlinux(bzimage(packed), no_zstd) == ELF


def test_zstd_payload_goes_to_the_tool_without_length_bytes() -> None:
    """The zstd tool would take the length bytes for a damaged second frame."""
    packed = b"\x28\xb5\x2f\xfd" + b"frame" + b"\1\2\3\4"
    given: list[bytes] = []

    def unzstd(data: bytes) -> bytes:
        given.append(data)
        return ELF

    assert vmlinux(bzimage(packed), unzstd) == ELF
    assert given == [b"\x28\xb5\x2f\xfdframe"]


def test_payload_counts_setup_sectors_zero_as_four() -> None:
    """The boot protocol's rule for very old headers."""
    image = bytearray(bzimage(b"PACKED", setup_sectors=4))
    image[0x1F1] = 0
    assert payload(bytes(image)) == b"PACKED"


@pytest.mark.parametrize(
    ("image", "says"),
    [
        (b"too short", "not a bzImage"),
        (b"\0" * 4096, "not a bzImage"),
        (bzimage(b"x", version=0x0207), "older than 2.08"),
        (bzimage(gzip.compress(ELF))[:1620], "cut short"),
        (bzimage(b"\x89LZO and more"), "unknown way"),
        (bzimage(gzip.compress(b"no kernel at all")), "not contain an ELF"),
        (bzimage(b"\x1f\x8b" + b"damaged" * 9), "cannot be decompressed"),
    ],
    ids=["short", "zeros", "old", "cut", "lzo", "no-elf", "damaged"],
)
def test_what_is_no_kernel_is_refused_in_a_sentence(image: bytes, says: str) -> None:
    """Each kind of wrong image gives a ProvisionError that names what is wrong."""
    with pytest.raises(ProvisionError, match=says):
        vmlinux(image, no_zstd)


def test_pvh_entry_is_found_by_its_note_only() -> None:
    """A kernel without CONFIG_PVH also says Xen somewhere."""
    assert has_pvh_entry(ELF)
    assert not has_pvh_entry(b"\x7fELF Xen\0" + struct.pack("<III", 4, 8, 6) + b"Xen\0")

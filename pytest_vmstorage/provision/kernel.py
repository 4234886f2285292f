"""bzImage -> uncompressed ELF vmlinux, which QEMU enters by its PVH note: nothing to decompress in the guest.

Under TCG the decompressor costs as much as all the rest: 4.7 s to init instead of 2.4 s.
Layout: Linux Documentation/arch/x86/boot.rst, fields setup_sects, HdrS, payload_offset and payload_length.
"""

from __future__ import annotations

import lzma
import struct
import zlib
from collections.abc import Callable
from typing import Final

from pytest_vmstorage.errors import ProvisionError

_ELF: Final = b"\x7fELF"
_PAYLOAD_SINCE: Final = 0x0208
_HEADER_BYTES: Final = 0x250
_REPORT: Final = "Report this with the kernel's version: its image has a layout this plugin does not know."


def vmlinux(image: bytes, unzstd: Callable[[bytes], bytes]) -> bytes:
    """The ELF kernel inside a bzImage; `unzstd` is called for a zstd payload only. Raises ProvisionError."""
    packed = payload(image)
    try:
        elf = _decompress(packed, unzstd)
    except (zlib.error, lzma.LZMAError) as why:
        raise ProvisionError(f"The kernel image cannot be decompressed: {why}.", hint=_REPORT) from why
    if not elf.startswith(_ELF):
        raise ProvisionError("What the kernel image holds is no ELF file.", hint=_REPORT)
    return elf


def payload(image: bytes) -> bytes:
    """The compressed kernel in a bzImage, with the four length bytes the kernel's build may put behind it."""
    if len(image) < _HEADER_BYTES or image[0x202:0x206] != b"HdrS":
        raise ProvisionError("The kernel image is no bzImage.", hint=_REPORT)
    (version,) = struct.unpack_from("<H", image, 0x206)
    if version < _PAYLOAD_SINCE:
        raise ProvisionError(f"The kernel image speaks boot protocol {version:#06x}, older than 2.08.", hint=_REPORT)
    setup_sectors: int = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    if start + length > len(image):
        raise ProvisionError("The kernel image is cut short.", hint="Try again: the download may have been damaged.")
    return bytes(image[start : start + length])


def has_pvh_entry(elf: bytes) -> bool:
    """Whether `elf` carries the Xen note PHYS32_ENTRY, without which QEMU refuses an uncompressed kernel."""
    return any(struct.pack("<III", 4, size, 18) + b"Xen\0" in elf for size in (4, 8))


def _decompress(packed: bytes, unzstd: Callable[[bytes], bytes]) -> bytes:
    # Decompressor objects stop at the end of the stream, which leaves the length bytes behind it unread.
    if packed.startswith(b"\xfd7zXZ"):
        return lzma.LZMADecompressor().decompress(packed)
    if packed.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(wbits=31).decompress(packed)
    if packed.startswith(b"\x28\xb5\x2f\xfd"):
        return unzstd(packed[:-4])
    raise ProvisionError(f"The kernel image is compressed in an unknown way ({packed[:4].hex()}).", hint=_REPORT)

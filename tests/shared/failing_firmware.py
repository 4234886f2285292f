"""A firmware that no KVM can run: QEMU stops its guest with an internal error, on hardware and without."""

from __future__ import annotations

SIZE = 65536
INSTRUCTIONS = ("fsts (%bx)", "fldz")
"""Where KVM fails: on hardware at the first, and where it interprets the whole of kernel mode at the one before it."""

# a write to the firmware itself, which is read-only, is emulated; KVM's emulator has none of the FPU's stores:
# mov $0xf000,%ax; mov %ax,%ds; mov $0x100,%bx; fninit; fldz; fsts (%bx); hlt
_CODE = bytes.fromhex("b800f0 8ed8 bb0001 dbe3 d9ee d917 f4")
# ljmp $0xf000,$0
_RESET = bytes.fromhex("ea000000f0")


def firmware() -> bytes:
    """All of it: the code stands at its beginning, and is jumped to from where a processor begins."""
    rom = bytearray(b"\xf4" * SIZE)
    rom[: len(_CODE)] = _CODE
    rom[-16 : -16 + len(_RESET)] = _RESET
    return bytes(rom)

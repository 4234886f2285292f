"""A firmware that no KVM can run: QEMU stops its guest with an internal error, on hardware and without."""

from __future__ import annotations

SIZE = 65536
INSTRUCTION = "fsts (%bx)"
"""What KVM fails at on hardware: where user mode alone is hardware's, it fails at the one before, fldz."""

# ds is the firmware itself, to which a write is emulated; KVM's emulator has none of the FPU's stores:
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

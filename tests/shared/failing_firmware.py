"""Firmwares with which no guest boots: one that no KVM can run, and one that loops for ever."""

from __future__ import annotations

SIZE = 65536
INSTRUCTIONS = ("fsts (%bx)", "fldz")
"""Where KVM fails: on hardware at the first, and where it interprets the whole of kernel mode at the one before it."""

# a write to the firmware itself, which is read-only, is emulated; KVM's emulator has none of the FPU's stores:
# mov $0xf000,%ax; mov %ax,%ds; mov $0x100,%bx; fninit; fldz; fsts (%bx); hlt
_CODE = bytes.fromhex("b800f0 8ed8 bb0001 dbe3 d9ee d917 f4")
# ljmp $0xf000,$0
_TO_CODE = bytes.fromhex("ea000000f0")
# jmp .
_LOOP = bytes.fromhex("ebfe")


def firmware() -> bytes:
    """QEMU stops its guest with an internal error of KVM, on hardware and without."""
    rom = _halted(_TO_CODE)
    rom[: len(_CODE)] = _CODE
    return bytes(rom)


def firmware_that_loops() -> bytes:
    """Its guest jumps to the same instruction for ever."""
    return bytes(_halted(_LOOP))


def _halted(reset: bytes) -> bytearray:
    """A firmware that halts, but for where a processor begins."""
    rom = bytearray(b"\xf4" * SIZE)
    rom[-16 : -16 + len(reset)] = reset
    return rom

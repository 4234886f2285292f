"""The appliance's kernel and initrd as bytes: an uncompressed vmlinux, and an archive of modules; no tool, no root.

Format: Linux Documentation/driver-api/early-userspace/buffer-format.rst.

Under TCG the decompressor costs as much as all the rest: 4.7 s to init instead of 2.4 s.
Layout: Linux Documentation/arch/x86/boot.rst, fields setup_sects, HdrS, payload_offset and payload_length.
"""

from __future__ import annotations

import lzma
import stat
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.errors import ProvisionError

_SIGNATURE_END: Final = b"~Module signature appended~\n"
_ELF: Final = b"\x7fELF"


class Entry(BaseModel):
    """One member: `data` is a file's content or a link's target, `device` the (major, minor) of a node."""

    model_config = ConfigDict(frozen=True)

    path: str
    kind: Literal["file", "folder", "link", "node"] = "file"
    mode: int = 0o644
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


_KIND: Final = {"file": stat.S_IFREG, "folder": stat.S_IFDIR, "link": stat.S_IFLNK, "node": stat.S_IFCHR}


def archive(entries: Iterable[Entry]) -> bytes:
    """The uncompressed archive of `entries`, owned by root and dated 0: same entries, same bytes."""
    members = [_member(number, entry) for number, entry in enumerate(entries, start=1)]
    return b"".join([*members, _member(0, Entry(path="TRAILER!!!", mode=0), kind=0)])


def _member(number: int, entry: Entry, kind: int | None = None) -> bytes:
    name = entry.path.encode() + b"\0"
    mode = (_KIND[entry.kind] if kind is None else kind) | entry.mode
    links = 2 if entry.kind == "folder" else 1
    fields = (number, mode, 0, 0, links, 0, len(entry.data), 0, 0, *entry.device, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def module_name(path: str) -> str:
    """The kernel's name of the module in file `path`: `nvme-core.ko.xz` is nvme_core."""
    return path.rsplit("/", 1)[-1].split(".ko", 1)[0].replace("-", "_")


def plain_module(data: bytes) -> bytes:
    """A module as the kernel loads it fastest: decompressed and without its signature.

    Verifying one takes an emulated CPU longer than linking it; without, the kernel only marks itself tainted.
    """
    if data.startswith(b"\xfd7zXZ"):
        data = lzma.decompress(data)
    elif data.startswith(b"\x1f\x8b"):
        data = zlib.decompress(data, wbits=31)
    if not data.startswith(_ELF):
        raise ProvisionError(
            "A kernel module is compressed in an unknown way.",
            hint="Report this with the kernel's version.",
            code="VM522",
        )
    if not data.endswith(_SIGNATURE_END):
        return data
    # struct module_signature ends in a big-endian length and stands between the signature and the end marker.
    head = len(data) - len(_SIGNATURE_END) - 12
    return data[: head - int.from_bytes(data[head + 8 : head + 12], "big")]


class Module(BaseModel):
    """One kernel module, ready to load after its `needs`; the kernel requests it by its `aliases`."""

    model_config = ConfigDict(frozen=True)

    name: str
    data: bytes
    needs: tuple[str, ...]
    aliases: tuple[str, ...]


def module(path: str, packed: bytes) -> Module:
    """The module in file `path` with content `packed`, without device aliases: the guest has no udev."""
    data = plain_module(packed)
    needs: list[str] = []
    aliases: list[str] = []
    for field in data.split(b"\0"):
        if field.startswith(b"depends="):
            needs += field[8:].decode("ascii").split(",")
        elif field.startswith(b"softdep="):
            needs += _pre(field[8:].decode("ascii").split())
        elif field.startswith(b"alias=") and b":" not in field:
            aliases.append(field[6:].decode("ascii"))
    names = dict.fromkeys(need.replace("-", "_") for need in needs if need)
    return Module(name=module_name(path), data=data, needs=tuple(names), aliases=tuple(dict.fromkeys(aliases)))


def _pre(words: Sequence[str]) -> list[str]:
    if "pre:" not in words:
        return []
    after = words[words.index("pre:") + 1 :]
    return list(after[: after.index("post:")] if "post:" in after else after)


def load_order(wanted: Sequence[str], modules: Mapping[str, Module]) -> tuple[str, ...]:
    """`wanted` modules and their dependencies in load order; names missing in `modules` are built in and left out."""
    order: dict[str, None] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            circle = " -> ".join((*path, name))
            raise ProvisionError(
                f"Kernel modules need each other: {circle}.",
                hint="Report this with the kernel's version.",
                code="VM522",
            )
        if name in order or name not in modules:
            return
        for need in modules[name].needs:
            visit(need, (*path, name))
        order[name] = None

    for name in wanted:
        visit(name, ())
    return tuple(order)


def dependency_file(modules: Mapping[str, Module]) -> str:
    """modules.dep as modprobe reads it: each file in kernel/ and its dependencies, nearest first."""
    lines = []
    for name in sorted(modules):
        before = load_order([name], modules)[:-1]
        lines.append(f"kernel/{name}.ko:" + "".join(f" kernel/{need}.ko" for need in reversed(before)) + "\n")
    return "".join(lines)


def alias_file(modules: Mapping[str, Module]) -> str:
    """modules.alias as modprobe reads it: names, such as fs-xfs, by which the kernel asks for a module."""
    return "".join(f"alias {alias} {name}\n" for name in sorted(modules) for alias in modules[name].aliases)


_PAYLOAD_SINCE: Final = 0x0208
_HEADER_BYTES: Final = 0x250
_REPORT: Final = "Report this with the kernel's version: its image has a layout this plugin does not know."


def vmlinux(image: bytes, unzstd: Callable[[bytes], bytes]) -> bytes:
    """The ELF kernel inside a bzImage; `unzstd` is called for a zstd payload only. Raises ProvisionError."""
    packed = payload(image)
    try:
        elf = _decompress(packed, unzstd)
    except (zlib.error, lzma.LZMAError) as why:
        raise ProvisionError(f"The kernel image cannot be decompressed: {why}.", hint=_REPORT, code="VM522") from why
    if not elf.startswith(_ELF):
        raise ProvisionError("The kernel image does not contain an ELF file.", hint=_REPORT, code="VM522")
    return elf


def payload(image: bytes) -> bytes:
    """The compressed kernel in a bzImage, with the four length bytes that the kernel's build may append."""
    if len(image) < _HEADER_BYTES or image[0x202:0x206] != b"HdrS":
        raise ProvisionError("The kernel image is not a bzImage.", hint=_REPORT, code="VM522")
    (version,) = struct.unpack_from("<H", image, 0x206)
    if version < _PAYLOAD_SINCE:
        raise ProvisionError(
            f"The kernel image speaks boot protocol {version:#06x}, older than 2.08.", hint=_REPORT, code="VM522"
        )
    setup_sectors: int = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    if start + length > len(image):
        raise ProvisionError(
            "The kernel image is cut short.", hint="Try again: the download may have been damaged.", code="VM522"
        )
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
    raise ProvisionError(
        f"The kernel image is compressed in an unknown way ({packed[:4].hex()}).", hint=_REPORT, code="VM522"
    )

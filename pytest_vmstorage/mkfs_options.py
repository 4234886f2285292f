"""Options of mkfs, one by one, beside what the finished file system says of them; pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.file_system import family
from pytest_vmstorage.units import parse_size

# option -> pattern of its value in the output of dumpe2fs -h
_EXT: Mapping[str, str] = {
    "-b": r"^Block size: +(\d+)",
    "-C": r"^Cluster size: +(\d+)",
    "-g": r"^Blocks per group: +(\d+)",
    "-G": r"^Flex block group size: +(\d+)",
    "-I": r"^Inode size:\s+(\d+)",
    "-L": r"^Filesystem volume name: +(.*)",
    "-U": r"^Filesystem UUID: +(.*)",
    "-E stride": r"^RAID stride: +(\d+)",
    "-E stripe_width": r"^RAID stripe width: +(\d+)",
    "-E stripe-width": r"^RAID stripe width: +(\d+)",
}
# ... of xfs_info, whose lines are a section each
_XFS: Mapping[str, str] = {
    "-b size": r"^data .*bsize=(\d+)",
    "-s size": r"sectsz=(\d+)",
    "-n size": r"^naming .*bsize=(\d+)",
    "-i size": r"isize=(\d+)",
    "-i sparse": r"sparse=(\d+)",
    "-i nrext64": r"nrext64=(\d+)",
    "-i maxpct": r"imaxpct=(\d+)",
    "-d agcount": r"agcount=(\d+)",
    "-d sunit": r"^data(?:.*\n)+? +=\s+sunit=(\d+)",
    "-l lazy-count": r"lazy-count=(\d+)",
    "-l version": r"^log .*version=(\d+)",
    **{f"-m {name}": rf"\b{name}=(\d+)" for name in ("crc", "finobt", "rmapbt", "reflink", "bigtime", "inobtcount")},
}
# ... of btrfs inspect-internal dump-super and btrfs filesystem df
_BTRFS: Mapping[str, str] = {
    "-n": r"^nodesize\s+(\d+)",
    "-s": r"^sectorsize\s+(\d+)",
    "--csum": r"^csum_type\s+\d+ \((.*)\)",
    "-L": r"^label\s+(.*)",
    "-m": r"^Metadata, (\w+):",
    "-d": r"^Data, (\w+):",
}
_LONG: Mapping[str, str] = {
    "--nodesize": "-n",
    "--sectorsize": "-s",
    "--checksum": "--csum",
    "--label": "-L",
    "--metadata": "-m",
    "--data": "-d",
    "--features": "-O",
    "--runtime-features": "-R",
}
_WITHOUT_VALUE: Mapping[str, str] = {"ext": "cDFjqv", "xfs": "fKqN", "btrfs": "fKqMv"}
_SUBOPTIONS: Mapping[str, str] = {"ext": "EJOR", "xfs": "bdilmnrs", "btrfs": "OR"}


def read_back(kind: str, options: str, superblock: str) -> Iterator[tuple[str, str | None]]:
    """Each option of mkfs and how it reads in the finished file system: the same text where it is in effect.

    None where nothing can be read of it. `superblock` is the output of dumpe2fs -h, xfs_info, or btrfs.
    """
    for name, value in single_options(kind, options):
        if name in ("-O", "-R"):
            text = f"{name} {value}"
            yield text, _feature(kind, value, text, superblock)
            continue
        pattern = {"ext": _EXT, "xfs": _XFS, "btrfs": _BTRFS}[family(kind)].get(name)
        joint = "=" if " " in name else " "
        text = f"{name}{joint}{value}".rstrip()
        found = re.search(pattern, superblock, re.MULTILINE) if pattern else None
        if found is None:
            yield text, _computed(kind, name, value, text, superblock)
        else:
            same = found[1].lower() == value.lower() or _bytes(value) == _bytes(found[1])
            yield text, text if same else f"{name}{joint}{found[1]}"


def single_options(kind: str, options: str) -> Iterator[tuple[str, str]]:
    """("-d agcount", "8") for each suboption, ("-O", "bigalloc") for each feature, ("-b", "4096") for the rest."""
    words = iter(shlex.split(options))
    for word in words:
        name, is_given, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        name = _LONG.get(name, name) if family(kind) == "btrfs" else name
        if name.startswith("--") or name[1:] not in tuple(_WITHOUT_VALUE[family(kind)]):
            value = value if is_given else next(words, "")
        if name[1:] in tuple(_SUBOPTIONS[family(kind)]):
            for part in value.split(","):
                key, equals, given = part.partition("=")
                # features are names; xfs takes a suboption without a value for 1
                yield (name, part) if name in ("-O", "-R") else (f"{name} {key}", given if equals else "1")
        else:
            yield name, value


def _bytes(text: str) -> int | None:
    try:
        return parse_size(text)
    except ConfigError:
        return None


def _feature(kind: str, feature: str, text: str, superblock: str) -> str | None:
    wanted, name = not feature.startswith("^"), feature.removeprefix("^")
    if family(kind) == "ext":
        line = re.search(r"^Filesystem features: +(.*)", superblock, re.MULTILINE)
        there = line[1].split() if line else None
    else:
        # mkfs.btrfs has short names for what the superblock spells out
        name = {"extref": "EXTENDED_IREF", "mixed-bg": "MIXED_GROUPS"}.get(name, name.upper().replace("-", "_"))
        blocks = re.findall(r"^(?:compat_ro|incompat)_flags\s.*\n\s+\(([^)]*)\)", superblock, re.MULTILINE)
        there = [flag.strip() for block in blocks for flag in block.split("|")] if superblock else None
        if name in ("QUOTA", "BLOCK_GROUP_TREE") and there is not None and name not in there:
            return None
    if there is None:
        return None
    is_there = name in there
    return text if is_there is wanted else f"{name} {'there' if is_there else 'not there'}"


def _computed(kind: str, name: str, value: str, text: str, superblock: str) -> str | None:
    """Options that stand in the file system in another unit; None for those of which nothing can be read."""

    def number(pattern: str) -> int:
        found = re.search(pattern, superblock, re.MULTILINE)
        return int(found[1]) if found else 0

    if family(kind) == "ext" and name == "-m" and number(r"^Block count: +(\d+)"):
        there = number(r"^Reserved block count: +(\d+)")
        # mke2fs rounds down
        wanted = int(float(value) * number(r"^Block count: +(\d+)") / 100)
        return text if there == wanted else f"{there} blocks reserved"
    if family(kind) == "ext" and name == "-J size" and number(r"^Total journal size: +(\d+)"):
        there = number(r"^Total journal size: +(\d+)M")
        return text if value.rstrip("mM") == str(there) else f"-J size={there}"
    if family(kind) == "xfs" and name == "-l size" and number(r"^log .*blocks=(\d+)"):
        there = number(r"^log .*blocks=(\d+)") * number(r"^log .*bsize=(\d+)")
        return text if _bytes(value) == there else f"log of {there} bytes"
    if family(kind) == "xfs" and name == "-d su" and number(r"^data .*bsize=(\d+)"):
        there = number(r"^data(?:.*\n)+? +=\s+sunit=(\d+)") * number(r"^data .*bsize=(\d+)")
        return text if _bytes(value) == there else f"su of {there} bytes"
    if family(kind) == "xfs" and name == "-d sw" and number(r"sunit=(\d+)"):
        there = number(r"swidth=(\d+)") // number(r"sunit=(\d+)")
        return text if value == str(there) else f"-d sw={there}"
    if family(kind) == "btrfs" and name == "-M" and superblock:
        return text if "MIXED_GROUPS" in superblock else "no mixed block groups"
    return None

"""Options of mkfs, one by one, beside what the finished file system says of them; pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping

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
_SHAPELESS = ("-q", "-f", "-F", "-v")
_CHOSEN_BY_MKFS = ("random", "time", "clear", "generate")
_WITHOUT_VALUE: Mapping[str, str] = {"ext": "cDFjqv", "xfs": "fKqN", "btrfs": "fKqMv"}
_SUBOPTIONS: Mapping[str, str] = {"ext": "EJOR", "xfs": "bdilmnrs", "btrfs": "OR"}


def read_back(kind: str, options: str, superblock: str) -> Iterator[tuple[str, str | None]]:
    """Each option of mkfs and how it reads in the finished file system: the same text where it is in effect.

    None where nothing can be read of it, such as a size in xfs's blocks or sectors. `superblock` is the output of
    dumpe2fs -h, xfs_info, or btrfs.
    """
    for name, value in single_options(kind, options):
        if name in _SHAPELESS:
            continue
        if value in _CHOSEN_BY_MKFS or (kind == "xfs" and re.fullmatch(r"\d+[bs]", value)):
            yield f"{name} {value}", None
            continue
        if (family(kind), name) == ("btrfs", "-M"):
            yield name, _feature(kind, "mixed-bg", name, superblock)
            continue
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

    def number(before: str) -> int:
        found = re.search(rf"{before}(\d+)", superblock, re.MULTILINE)
        return int(found[1]) if found else 0

    in_other_units = _IN_OTHER_UNITS.get((family(kind), name))
    if in_other_units is None or not superblock:
        return None
    wanted, there = in_other_units(value, number)
    return text if wanted == there else f"{name}: {there}"


Number = Callable[[str], int]
"""The number in the superblock's text behind what a pattern finds."""

_BLOCK, _SUNIT = "^data .*bsize=", "sunit="
_IN_OTHER_UNITS: Mapping[tuple[str, str], Callable[[str, Number], tuple[int | None, int]]] = {
    # percent of the blocks, rounded down
    ("ext", "-m"): lambda value, number: (
        int(float(value) * number("^Block count: +") / 100),
        number("^Reserved block count: +"),
    ),
    ("ext", "-J size"): lambda value, number: (int(value.rstrip("mM")), number("^Total journal size: +")),
    ("xfs", "-l size"): lambda value, number: (_bytes(value), number("^log .*blocks=") * number("^log .*bsize=")),
    ("xfs", "-d su"): lambda value, number: (_bytes(value), number(_SUNIT) * number(_BLOCK)),
    # these two are given in sectors of 512 bytes and told in blocks
    ("xfs", "-d sunit"): lambda value, number: (int(value) * 512, number(_SUNIT) * number(_BLOCK)),
    ("xfs", "-d swidth"): lambda value, number: (int(value) * 512, number("swidth=") * number(_BLOCK)),
    ("xfs", "-d sw"): lambda value, number: (int(value), number("swidth=") // max(1, number(_SUNIT))),
}

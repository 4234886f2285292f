"""Options of mkfs and mount: the allowed ones, their command lines, and their values in a file system; pure.

Allowed options are listed, and all others refused: mkfs has options that write to another file or device than the given
one (-l logdev=, -r rtdev=, -J device=, -z), copy a folder in, or take a word for one more device.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_vmstorage.config.user_input import check_one_line
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.units import parse_size


@dataclass(frozen=True)
class _Taken:
    """The options that a mkfs may have, from its manual page.

    `flags` and `values` are letters of options without and with a value; `parts` has those whose value is a list, each
    with the names that may stand in it, or None where they are names of features; `long` has long options, each with
    the short one that it stands for.
    """

    flags: str
    values: str
    parts: Mapping[str, frozenset[str] | None]
    long: Mapping[str, str] = field(default_factory=dict)
    only: Mapping[str, frozenset[str]] = field(default_factory=dict)


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_TAKEN: Mapping[str, _Taken] = {
    # mke2fs(8) of e2fsprogs 1.47
    "ext": _Taken(
        flags="DFjqv",
        values="bCegGiILmNorTU",
        parts={
            "E": _names(
                "assume_storage_prezeroed desc_size discard encoding encoding_flags hash_seed lazy_itable_init"
                " lazy_journal_init mmp_update_interval nodiscard num_backup_sb orphan_file_size packed_meta_blocks"
                " quotatype resize root_perms stride stripe-width stripe_width"
            ),
            "J": _names("size fast_commit_size location"),
            "O": None,
        },
        only={
            # an error on the host must not be the host's end
            "e": _names("continue remount-ro"),
            "T": _names("default small floppy news big huge largefile largefile4"),
        },
    ),
    # mkfs.xfs(8) of xfsprogs 6.13
    "xfs": _Taken(
        flags="fKq",
        values="L",
        parts={
            "b": _names("size log"),
            "d": _names("agcount agsize size sunit su swidth sw noalign sectsize concurrency"),
            "i": _names("size log perblock maxpct align attr projid32bit sparse nrext64 exchange"),
            "l": _names("internal size version sunit su lazy-count sectsize agnum concurrency"),
            "m": _names("crc finobt inobtcount uuid rmapbt reflink bigtime autofsck metadir"),
            "n": _names("size log version ftype parent"),
            "r": _names("extsize noalign"),
            "s": _names("size log"),
        },
        only={"l internal": _names("1")},
    ),
    # mkfs.btrfs(8) of btrfs-progs 6.14
    "btrfs": _Taken(
        flags="fKMqv",
        values="bdlLmnsU",
        parts={"O": None, "R": None},
        long={
            "--byte-count": "b", "--checksum": "--csum", "--csum": "--csum", "--data": "d", "--features": "O",
            "--force": "f", "--label": "L", "--metadata": "m", "--mixed": "M", "--nodesize": "n", "--nodiscard": "K",
            "--quiet": "q", "--runtime-features": "R", "--sectorsize": "s", "--uuid": "U", "--verbose": "v",
        },
    ),
}  # fmt: skip

_NO_FILE_SYSTEM = "journal_dev"
"""A feature with which mke2fs makes a journal for another file system instead of a file system."""

_VALUE = re.compile(r"[^/\x00-\x1f\x7f]+")


def family(kind: str) -> str:
    """ext for ext3 and ext4, which share tools and driver; else the kind itself."""
    return "ext" if kind.startswith("ext") else kind


def split_words(options: str, *, field: str) -> list[str]:
    """The words of a command line; raises ConfigError for an open quote or a control character."""
    try:
        words = shlex.split(options)
    except ValueError as error:
        raise ConfigError(
            f"{field}={options!r} cannot be read: {error}.", hint="Close the quote.", code="VM107"
        ) from None
    check_one_line(field, options)
    return words


def check_mkfs_options(kind: str, options: str, *, field: str) -> tuple[str, ...]:
    """The words of those options; raises ConfigError for any that does not only shape this file system."""
    words = split_words(options, field=field)
    refused = next((word for word, name, value in _parsed(kind, words) if not _is_taken(kind, name, value)), None)
    if refused is not None:
        raise ConfigError(
            f"{field}={options!r} cannot be used: {refused!r} is not an option that shapes the {kind}.",
            hint=f"Device and kind are given here; what may be given beside them: {_taken_words(kind)}.",
            code="VM107",
        )
    return tuple(words)


def _parsed(kind: str, words: list[str]) -> Iterator[tuple[str, str, str | None]]:
    """Each option as getopt(3) finds it: the word it is in, its name without "-" ("" for none), its value if any.

    An allowed long name stands for its short one; getopt would also accept the beginning of a name.
    """
    taken, rest = _TAKEN[family(kind)], iter(words)
    with_value = f"{taken.values}{''.join(taken.parts)}"
    for word in rest:
        if word.startswith("--") and "--" in {name[:2] for name in taken.long}:
            name, equals, value = word.partition("=")
            short = taken.long.get(name, "")
            if short in tuple(taken.flags):
                yield word, "" if equals else short, None
            else:
                yield _with_value(word, short, value if equals else None, rest)
            continue
        letters = word[1:] if word.startswith("-") else ""
        if not letters:
            yield word, "", None
        while letters:
            name, letters = letters[0], letters[1:]
            if name in with_value:
                yield _with_value(word, name, letters or None, rest)
                break
            yield word, name if name in taken.flags else "", None


def _with_value(word: str, name: str, joined: str | None, rest: Iterator[str]) -> tuple[str, str, str | None]:
    """An option whose value is joined to it, or is the next word."""
    value = next(rest, None) if joined is None else joined
    return (word if joined is not None or value is None else f"{word} {value}"), name, value


def _is_taken(kind: str, name: str, value: str | None) -> bool:
    taken = _TAKEN[family(kind)]
    if name in tuple(taken.flags):
        return True
    if not name or value is None or not _VALUE.fullmatch(value):
        return False
    if name not in taken.parts:
        return value in taken.only.get(name, (value,))
    parts, names = value.split(","), taken.parts[name]
    if names is None:
        return _NO_FILE_SYSTEM not in parts
    given = [part.partition("=") for part in parts]
    return all(
        key in names and (text or "1") in taken.only.get(f"{name} {key}", (text or "1",)) for key, _, text in given
    )


def _taken_words(kind: str) -> str:
    taken = _TAKEN[family(kind)]
    plain = [f"-{letter}" for letter in f"{taken.flags}{taken.values}"]
    lists = [
        f"-{name} {'FEATURES' if names is None else '|'.join(sorted(names))}" for name, names in taken.parts.items()
    ]
    return ", ".join([*plain, *lists, *(name for name, short in taken.long.items() if name == short)])


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
_SHAPELESS = ("-q", "-f", "-F", "-v")
_CHOSEN_BY_MKFS = ("random", "time", "clear", "generate")


def read_back(kind: str, options: str, superblock: str) -> Iterator[tuple[str, str | None]]:
    """Each option of mkfs with its text in the finished file system: the same text where it is in effect.

    None for an option that cannot be read back, such as a size in xfs's blocks or sectors. `superblock` is the output
    of dumpe2fs -h, xfs_info, or btrfs.
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
    """Checked options as ("-d agcount", "8") for each suboption, ("-O", "bigalloc") for a feature, ("-b", "4096")."""
    parts_of = _TAKEN[family(kind)].parts
    for _, letter, value in _parsed(kind, shlex.split(options)):
        name = letter if letter.startswith("--") else f"-{letter}"
        if letter not in parts_of:
            yield name, value or ""
            continue
        for part in (value or "").split(","):
            key, equals, given = part.partition("=")
            # features are names; xfs takes a suboption without a value for 1
            yield (name, part) if parts_of[letter] is None else (f"{name} {key}", given if equals else "1")


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
    """Options that the file system has in another unit; None for those that cannot be read back."""

    def number(before: str) -> int:
        found = re.search(rf"{before}(\d+)", superblock, re.MULTILINE)
        return int(found[1]) if found else 0

    in_other_units = _IN_OTHER_UNITS.get((family(kind), name))
    if in_other_units is None or not superblock:
        return None
    wanted, there = in_other_units(value, number)
    return text if wanted == there else f"{name}: {there}"


Number = Callable[[str], int]
"""The number in the superblock's text behind a pattern."""

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
    # these two are given in sectors of 512 bytes and printed in blocks
    ("xfs", "-d sunit"): lambda value, number: (int(value) * 512, number(_SUNIT) * number(_BLOCK)),
    ("xfs", "-d swidth"): lambda value, number: (int(value) * 512, number("swidth=") * number(_BLOCK)),
    ("xfs", "-d sw"): lambda value, number: (int(value), number("swidth=") // max(1, number(_SUNIT))),
}

_ERRORS = ("continue", "remount-ro")
"""The kernel's reactions to an error, without the third, which is to panic."""

_MOUNT_ANY = (
    "async atime defaults dev diratime dirsync exec iversion lazytime noatime nodev nodiratime noexec noiversion"
    " nolazytime norelatime nostrictatime nosuid relatime rw strictatime suid sync"
)
_MOUNT: Mapping[str, frozenset[str]] = {
    kind: frozenset(f"{_MOUNT_ANY} {names}".split())
    for kind, names in {
        # Documentation/admin-guide/ext4.rst of Linux 6.12, without what names a file, a block or a cipher
        "ext": "acl auto_da_alloc barrier block_validity bsddf bsdgroups commit data data_err dax debug delalloc"
        " dioread_lock dioread_nolock discard errors grpid grpquota i_version init_itable inlinecrypt"
        " inode_readahead_blks journal_async_commit journal_checksum journal_ioprio max_batch_time max_dir_size_kb"
        " mb_optimize_scan min_batch_time minixdf no_mbcache no_prefetch_block_bitmaps noacl noauto_da_alloc nobarrier"
        " noblock_validity nodelalloc nodioread_nolock nodiscard nogrpid noinit_itable nojournal_checksum nombcache"
        " noquota nouser_xattr prefetch_block_bitmaps prjquota quota resgid resuid stripe sysvgroups user_xattr"
        " usrquota",
        # Documentation/admin-guide/xfs.rst
        "xfs": "allocsize attr2 bsdgroups dax discard filestreams gqnoenforce gquota grpid grpquota ikeep inode32"
        " inode64 largeio logbsize logbufs max_atomic_write noalign noattr2 nodiscard nogrpid noikeep nolargeio noquota"
        " nouuid pqnoenforce pquota prjquota qnoenforce quota sunit swalloc swidth sysvgroups uqnoenforce uquota"
        " usrquota wsync",
        # btrfs(5), without what names a device, a subvolume or a rescue
        "btrfs": "acl autodefrag barrier clear_cache commit compress compress-force datacow datasum discard"
        " enospc_debug flushoncommit max_inline metadata_ratio noacl noautodefrag nobarrier nodatacow nodatasum"
        " nodiscard noenospc_debug noflushoncommit nospace_cache nossd nossd_spread notreelog space_cache ssd"
        " ssd_spread thread_pool treelog user_subvol_rm_allowed",
    }.items()
}
"""Options for how a file system is mounted, not what or where: all others are refused."""


def mkfs_argv(kind: str, options: str, device: str, *, field: str, discard: bool) -> tuple[str, ...]:
    """The mkfs line; without `discard` the blocks below stay what they were. Raises ConfigError for bad options."""
    words = check_mkfs_options(kind, options, field=field)
    if family(kind) != "ext":
        return (f"mkfs.{kind}", "-q", "-f", *(() if discard else ("-K",)), *words, device)
    return (f"mkfs.{kind}", "-q", "-F", *_with_extended(words, discard=discard), device)


def _with_extended(words: Sequence[str], *, discard: bool) -> Iterator[str]:
    """The words with one -E, as mke2fs obeys the last only; inode tables are written at once.

    Otherwise a thread of the kernel writes them while a workload is measured.
    """
    asked: list[str] = []
    others: list[str] = []
    rest = iter(words)
    for word in rest:
        if word.startswith("-E"):
            asked += (word[2:] or next(rest, "")).split(",")
        else:
            others.append(word)
    names = {option.partition("=")[0] for option in asked}
    if not discard and not names & {"discard", "nodiscard"}:
        asked.append("nodiscard")
    if "lazy_itable_init" not in names:
        asked.append("lazy_itable_init=0")
    yield from ("-E", ",".join(asked), *others)


def mount_options(kind: str, options: str, *, field: str) -> tuple[str, ...]:
    """Single mount options of "-o noatime,discard" or "noatime,discard"; raises ConfigError for an unknown one."""
    found: list[str] = []
    words = iter(split_words(options, field=field))
    for word in words:
        text = next(words, "") if word in ("-o", "--options") else re.sub(r"^(-o|--options=)", "", word)
        found += [option for option in text.split(",") if option]
    for option in found:
        name, equals, value = option.partition("=")
        is_value = not equals or (value != "" and "/" not in value)
        if name not in _MOUNT[family(kind)] or not is_value or (name == "errors" and value not in _ERRORS):
            raise ConfigError(
                f"{field}={options!r} cannot be used: {option!r} does not say how the {kind} is mounted.",
                hint=f'Give mount options alone, such as {field}="-o noatime"; those of {kind} are:'
                f" {', '.join(sorted(_MOUNT[family(kind)]))}.",
                code="VM107",
            )
    return tuple(found)

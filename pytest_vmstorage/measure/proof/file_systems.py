"""Proofs from a mounted file system, on the host and in the guest; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pytest_vmstorage.config.buses import CACHES
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.fs_options import family, mount_options, read_back
from pytest_vmstorage.config.rules.backing import BLOCK_BACKINGS
from pytest_vmstorage.host.file_systems import FileSystem
from pytest_vmstorage.measure.proof.claim import DEFAULT, claim, unprovable
from pytest_vmstorage.results.run import Proof
from pytest_vmstorage.units import parse_size

ON_HOST = "host's /proc/self/mountinfo"
IN_GUEST = "guest's /proc/self/mountinfo"
SUPERBLOCK: Mapping[str, str] = {"ext": "dumpe2fs -h", "xfs": "xfs_info", "btrfs": "btrfs inspect-internal dump-super"}

# option -> texts that the kernel prints where it is not in effect; a default that is in effect is not printed
# (show_options of Linux 6.1: fs/proc_namespace.c, fs/xfs/xfs_super.c, fs/btrfs/super.c)
_SILENT: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "": {
        "async": ("sync",),
        "exec": ("noexec",),
        "suid": ("nosuid",),
        "dev": ("nodev",),
        "diratime": ("nodiratime",),
        "atime": ("noatime",),
        "strictatime": ("relatime", "noatime"),
        "nolazytime": ("lazytime",),
        "nostrictatime": (),
        "defaults": (),
    },
    "xfs": {
        "nodiscard": ("discard",),
        "nolargeio": ("largeio",),
        "noikeep": ("ikeep",),
        "align": ("noalign",),
        "nogrpid": ("grpid",),
    },
    "btrfs": {
        "nodiscard": ("discard", "discard=async"),
        "datacow": ("nodatacow",),
        "datasum": ("nodatasum",),
        "barrier": ("nobarrier",),
        "noautodefrag": ("autodefrag",),
        "treelog": ("notreelog",),
        "noflushoncommit": ("flushoncommit",),
        "compress=no": ("compress", "compress-force"),
        "compress=none": ("compress", "compress-force"),
        "nossd": ("ssd", "ssd_spread"),
        "acl": ("noacl",),
        "max_inline=2048": ("max_inline",),
        "commit=30": ("commit",),
    },
}

_PRINTED = (
    *("noatime", "nodiratime", "nosuid", "nodev", "noexec", "nosymfollow"),
    *("nodatacow", "nodatasum", "nobarrier", "noacl", "notreelog", "noalign", "noquota"),
)
"""Options that begin with "no" and are printed wherever they are in effect."""

# option -> pattern of the text that the kernel prints for it: btrfs adds the algorithm and its level
_PRINTED_AS: Mapping[str, str] = {
    "compress": r"compress=zlib(:\d+)?",
    "compress-force": r"compress-force=zlib(:\d+)?",
    "barrier=1": "barrier",
    "barrier=0": "nobarrier",
    "auto_da_alloc=0": "noauto_da_alloc",
    "space_cache": "space_cache(=v1)?",
    "discard": r"discard(=sync)?",
}


def _lies_on_a_device(config: StorageConfig) -> bool:
    """Whether nothing but a block device is below: a listed one, whoever works on it, without a file system made."""
    on_listed = config.is_native and bool(config.backing_name) and config.host_fs == "as-found"
    return config.backing_kind in BLOCK_BACKINGS or on_listed


def of_host_fs(config: StorageConfig, found: FileSystem | None) -> Iterator[Proof]:
    """Proofs of host_fs, host_mkfs and host_mount; `found` is the file system that holds the image, None without one.

    A file system that was made for the cell is mounted on the image's own folder; one that was found never is.
    """
    if found is None and not _lies_on_a_device(config):
        why = "the host did not tell which file system holds the image"
        yield from (unprovable(name, config, why, where=ON_HOST) for name in ("host_fs", "host_mkfs", "host_mount"))
        return
    if found is not None and CACHES[config.cache].direct:
        yield from _of_direct_io(config, found)
    kind = "a block device" if found is None else f"{found.kind} of {found.device}"
    is_own = found is not None and found.is_own
    if found is None or config.host_fs == "as-found":
        holds = config.host_fs == "as-found" and not is_own
        yield claim(
            "host_fs", config.host_fs, f"{kind}{', made for this image' if is_own else ''}", ON_HOST, holds=holds
        )
        for field in ("host_mkfs", "host_mount"):
            told = kind if found is None or field == "host_mkfs" else ",".join(found.options)
            yield claim(field, getattr(config, field) or DEFAULT, told, ON_HOST, holds=not getattr(config, field))
        return
    made = f"{found.kind} made for this image"
    yield claim("host_fs", f"{config.host_fs} made for this image", made if is_own else f"{kind} found there", ON_HOST)
    yield from _of_options("host", config, found, ON_HOST)


def _of_direct_io(config: StorageConfig, found: FileSystem) -> Iterator[Proof]:
    """A warning where the file system takes O_DIRECT and goes through the page cache all the same.

    Seen on Linux 6.18 by the pages that fio with direct=1 made dirty: all of them.
    """
    if found.kind == "ext4" and "data=journal" in found.options:
        why = "ext4 with data=journal takes O_DIRECT and uses the host's page cache all the same"
    elif found.kind == "btrfs" and not {"nodatacow", "nodatasum"} & {*found.options}:
        why = "btrfs with checksums takes O_DIRECT and writes through the host's page cache since Linux 6.15"
    else:
        return
    yield unprovable("cache", config, why, found=f"{found.kind} {','.join(found.options)}", where=ON_HOST)


def of_guest_fs(
    config: StorageConfig, mounted: tuple[FileSystem, ...] | None, disk: str, where: str = IN_GUEST
) -> Iterator[Proof]:
    """Proofs of guest_fs, guest_mkfs and guest_mount; `mounted` are the guest's mounted file systems of that disk."""
    if mounted is None:
        why = "the guest did not tell what it has mounted"
        yield from (unprovable(name, config, why, where=where) for name in ("guest_fs", "guest_mkfs", "guest_mount"))
        return
    kinds = " and ".join(f"{one.kind} of {one.device}" for one in mounted) or f"nothing mounted of {disk}"
    if config.guest_fs == "none":
        yield claim("guest_fs", "none", kinds, where, holds=not mounted)
        for field in ("guest_mkfs", "guest_mount"):
            yield claim(field, DEFAULT, kinds, where, holds=not mounted)
        return
    yield claim("guest_fs", f"{config.guest_fs} of {disk}", kinds, where)
    for one in mounted[:1]:
        yield from _of_options("guest", config, one, where)


def _of_options(side: str, config: StorageConfig, found: FileSystem, where: str) -> Iterator[Proof]:
    field = f"{side}_mkfs"
    text = getattr(config, field)
    # the kind that was asked for: another one is contradicted above, and does not know these options
    tool = SUPERBLOCK.get(family(found.kind), "")
    if not text:
        yield claim(field, DEFAULT, f"mkfs.{found.kind} without options", where, holds=True)
    for option, state in read_back(getattr(config, f"{side}_fs"), text, found.superblock):
        if state is None:
            yield unprovable(field, config, f"{tool} does not tell of {option}", where=tool)
        else:
            yield claim(field, option, state, tool, holds=state == option)
    yield from _of_mount(f"{side}_mount", config, found, where)


def _of_mount(field: str, config: StorageConfig, found: FileSystem, where: str) -> Iterator[Proof]:
    shown = ",".join(found.options)
    asked = mount_options(found.kind, getattr(config, field), field=field)
    if not asked:
        yield claim(field, DEFAULT, shown, where, holds=True)
    # of two that exclude each other the last is in effect, and the kernel alone knows which do
    for option in asked:
        verdict = in_effect(option, found)
        if verdict is None:
            why = f"the kernel does not print {option}, and whether it is a default of {found.kind} is not known"
            yield unprovable(field, config, why, found=shown, where=where)
        else:
            yield claim(field, option, option if verdict else shown, where, holds=verdict)


def in_effect(option: str, found: FileSystem) -> bool | None:
    """Whether the kernel prints a mount option as in effect; None where it prints nothing in either case."""
    if any(_is_printed(option, told) for told in found.options):
        return True
    silent = {**_SILENT[""], **_SILENT.get(family(found.kind), {})}.get(option)
    if silent is not None:
        return not any(told == no or told.startswith(f"{no}=") for no in silent for told in found.options)
    name, given, _ = option.partition("=")
    others = {told.partition("=")[0] for told in found.options}
    opposite = name.removeprefix("no") if name.startswith("no") else f"no{name}"
    # ext4's driver lists all of its options, whatever they are
    is_told = family(found.kind) == "ext" or option in _PRINTED or given or opposite in others
    # what begins with "no" may be a default that is not known here
    return False if is_told or not name.startswith("no") else None


def _is_printed(asked: str, told: str) -> bool:
    if told == asked or re.fullmatch(_PRINTED_AS.get(asked, r"(?!)"), told):
        return True
    (name, is_given, value), (told_name, _, told_value) = asked.partition("="), told.partition("=")
    if not is_given or name != told_name:
        return False
    # compress=zstd is told with its level; 262144 as 256k
    return told_value.startswith(f"{value}:") or _same_size(value, told_value)


def _same_size(one: str, other: str) -> bool:
    sizes: list[int] = []
    for text in (one, other):
        if not re.fullmatch(r"\d+[kKmMgG]?", text):
            return False
        sizes.append(parse_size(text))
    return sizes[0] == sizes[1]

"""File systems on the host or in the guest: made with mkfs, mounted, and looked at."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.fs_options import family
from pytest_vmstorage.errors import ConfigError, ProvisionError, UnsupportedError
from pytest_vmstorage.host.guard import READS
from pytest_vmstorage.host.shell import NOT_FOUND, CommandResult, Shell, run_line

PACKAGES: Mapping[str, str] = {"ext3": "e2fsprogs", "ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}
"""The Debian package that holds the mkfs of each kind."""

MKFS_S = 600.0
"""Time limit of mkfs and of mount: an emulated CPU takes seconds where others take milliseconds."""

MOUNTS = "/proc/self/mountinfo"


class FileSystem(BaseModel):
    """A mounted file system: its kind, device, mount point, and the options in effect as the kernel lists them.

    `superblock` is the output of dumpe2fs, xfs_info or btrfs; "" where nobody asked. `path` is the real path that
    was looked at, "" for a file system out of a list.
    """

    model_config = ConfigDict(frozen=True)

    kind: str
    device: str
    mountpoint: str
    options: tuple[str, ...]
    superblock: str = ""
    path: str = ""

    @property
    def is_own(self) -> bool:
        """Whether the file system is mounted on the very folder of the path, and so was made for it."""
        return bool(self.path) and str(PurePosixPath(self.path).parent) == self.mountpoint


def make_file_system(shell: Shell, argv: Sequence[str], *, asked: str, where: str, before: str = "") -> None:
    """Run that mkfs line; `asked` is the user's field and value, "" if he gave no options, `where` the machine.

    `before` is a line of sh that runs first, whether or not it succeeds.

    Raises UnsupportedError without the tool, ConfigError with mkfs's own words for options it refuses.
    """
    if before:
        done = run_line(shell, f'{before}; exec "$@"', *argv, timeout_s=MKFS_S)
    else:
        done = shell.run(argv, timeout_s=MKFS_S)
    if done.ok:
        return
    tool = argv[0]
    if done.returncode == NOT_FOUND:
        package = PACKAGES[tool.partition(".")[2]]
        raise UnsupportedError(
            f"There is no {tool} {where}.", hint=f"Install the Debian package {package} there.", code="VM420"
        )
    error = ConfigError if asked else ProvisionError
    raise error(f"{tool} failed {where}{asked and f' with {asked}'}: {_first_words(done)}.", code="VM423")


def mount(
    shell: Shell, kind: str, device: str, mountpoint: str, options: Sequence[str], *, asked: str, where: str
) -> None:
    """Mount the device there; the folder is made. Raises UnsupportedError, ConfigError, ProvisionError."""
    chosen = ("-o", ",".join(options)) if options else ()
    # mount's messages are read below, hence LC_ALL=C
    script = '[ -d "$1" ] || mkdir -p -- "$1" || exit; shift; export LC_ALL=C; exec "$@"'
    argv = ["mount", "-t", kind, *chosen, "--", device, mountpoint]
    done = run_line(shell, script, mountpoint, *argv, timeout_s=MKFS_S)
    if done.ok:
        return
    if "unknown filesystem type" in done.stderr:
        raise UnsupportedError(
            f"The kernel {where} knows no {kind}.", hint=f"modprobe {kind} there tells why.", code="VM421"
        )
    if "only root can" in done.stderr or "permission denied" in done.stderr.lower():
        raise UnsupportedError(
            f"A {kind} cannot be mounted {where}: {_first_words(done)}.", hint="That takes root.", code="VM422"
        )
    error = ConfigError if asked else ProvisionError
    raise error(f"mounting the {kind} failed {where}{asked and f' with {asked}'}: {_first_words(done)}.", code="VM423")


def _first_words(done: CommandResult) -> str:
    """The tool's reason: its line before the usage that mkfs prints, or else its first."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    usage = next((number for number, line in enumerate(lines) if line.lower().startswith("usage:")), 0)
    if usage:
        return lines[usage - 1].rstrip(".")
    # versions, notes and warnings are not reasons
    reasons = [line for line in lines if not re.match(r"mke2fs \d|btrfs-progs v|See http|NOTE:|Warning:", line)]
    return (reasons or lines or [f"exit status {done.returncode}"])[0].rstrip(".")


def asked_words(**fields: str) -> str:
    """The fields that the user gave, as they were written: "host_mkfs='-b size=1k' and host_mount='noatime'"."""
    return " and ".join(f"{name}={value!r}" for name, value in fields.items() if value)


def read_mounts(text: str) -> tuple[FileSystem, ...]:
    """The mounts of /proc/self/mountinfo, in its order: of two on one mount point the last is in effect."""
    return tuple(_mounts(text))


def _mounts(text: str) -> Iterator[FileSystem]:
    for line in text.splitlines():
        # optional fields, none or many, stand before the hyphen
        first, _, second = line.partition(" - ")
        before, after = first.split(" "), second.split(" ")
        if len(before) > 5 and len(after) > 2:
            options = dict.fromkeys((*before[5].split(","), *after[2].split(",")))
            yield FileSystem(
                kind=after[0], device=_unescaped(after[1]), mountpoint=_unescaped(before[4]), options=tuple(options)
            )


def _unescaped(text: str) -> str:
    """The text of a field, in which blanks, tabs, newlines and backslashes are written in octal."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def mount_of(mounts: Iterable[FileSystem], path: str) -> FileSystem | None:
    """The mount that a path without symlinks lies on."""
    there = [one for one in mounts if PurePosixPath(path).is_relative_to(one.mountpoint)]
    return max(reversed(there), key=lambda one: len(one.mountpoint), default=None)


_SUPERBLOCK: Mapping[str, str] = {
    "ext": 'dumpe2fs -h "$1" 2>/dev/null',
    "xfs": 'xfs_info "$2"',
    "btrfs": 'btrfs inspect-internal dump-super "$1" && btrfs filesystem df "$2"',
}


def look_at(
    shell: Shell, path: str, *, defaults: bool = True, superblock: bool = False, is_real: bool = False
) -> FileSystem | None:
    """The file system that the path lies on, read anew; None where no mount holds it.

    With `is_real` the path has no links to be followed first. `defaults` adds the options in effect that mountinfo does
    not list, `superblock` the parameters that mkfs chose.
    """
    if is_real:
        real, mounts = path, shell.read(MOUNTS)
    else:
        looked = ["sh", "-c", f'{READS}\nreadlink -f -- "$1" && cat {MOUNTS}', "sh", path]
        real, _, mounts = shell.run(looked, timeout_s=60).stdout.partition("\n")
    found = mount_of(read_mounts(mounts), real)
    if found is None:
        return None
    more: dict[str, object] = {"path": real}
    if defaults and family(found.kind) == "ext":
        # mountinfo leaves out what is the default; the driver's own list has all
        told = shell.read(f"/proc/fs/ext4/{PurePosixPath(found.device).name}/options").split()
        more["options"] = tuple(dict.fromkeys((*found.options, *told)))
    if superblock and family(found.kind) in _SUPERBLOCK:
        argv = ["sh", "-c", f"{READS}\n{_SUPERBLOCK[family(found.kind)]}", "sh", found.device, found.mountpoint]
        more["superblock"] = shell.run(argv, timeout_s=60).stdout
    return found.model_copy(update=more)

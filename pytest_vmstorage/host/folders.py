"""Folders on a host: the folder of one run, the user's cache folder, and how much room a folder has.

Names in /var/tmp can be predicted: whoever makes such a folder first, or may write to its parent, can swap a disk for
a link to any file, and root then writes to that file.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.ownership import Owned, User, open_to_others, owned_here, this_user
from pytest_vmstorage.errors import HostError, SpaceError
from pytest_vmstorage.host.shell import Shell, check
from pytest_vmstorage.units import format_about

_HINT = "Name another one with VMSTORAGE_CACHE=FOLDER in the environment."
_TRIED_BYTES = 64 * 1024
"""The size of the largest file that a run needs there: a full file system still takes an empty file, but no block."""


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The path $VMSTORAGE_CACHE, else pytest-vmstorage in $XDG_CACHE_HOME or ~/.cache; nothing is made."""
    own = environ.get("VMSTORAGE_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    xdg = environ.get("XDG_CACHE_HOME", "")
    # The XDG base directory specification wants a relative path ignored.
    base = Path(xdg) if xdg.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".cache"
    return base / "pytest-vmstorage"


def use_cache_folder() -> Path:
    """The cache folder, made if need be; raises HostError where it cannot be written or another user could change it.

    Its contents are trusted as this user's: the appliance is run, and leases name the things that a later run removes.
    """
    folder = cache_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        reason = open_to_others(this_user(), owned_here(folder), known_names=True)
        if reason:
            raise HostError(f"The cache folder {folder} is not used: {reason}.", hint=_HINT, code="VM410")
        # a file without a name, so that nothing stays if the process is killed
        with tempfile.TemporaryFile(dir=folder) as stream:
            stream.write(bytes(_TRIED_BYTES))
            stream.flush()
    except (OSError, RuntimeError) as error:
        # pathlib raises RuntimeError for links that lead in a circle
        why = getattr(error, "strerror", None) or str(error)
        raise HostError(f"The cache folder {folder} cannot be used: {why}.", hint=_HINT, code="VM410") from None
    return folder


class FolderFacts(BaseModel):
    """The folder the disks lie in: its file system, the device below it, and free space in bytes."""

    model_config = ConfigDict(frozen=True)

    path: str
    file_system: str
    device: str
    free_bytes: int


def folder_facts(shell: Shell, path: str) -> FolderFacts:
    """File system, device and free space of a folder, from df(1)."""
    done = check(shell.run(["df", "-B1", "--output=fstype,avail,source", "--", path]), f"looking at the folder {path}")
    fstype, free, device = done.stdout.splitlines()[-1].split(maxsplit=2)
    return FolderFacts(path=path, file_system=fstype, device=device, free_bytes=int(free))


def check_room(facts: FolderFacts, need: int, what: str) -> None:
    """Raise SpaceError where the folder has less free than `need` bytes; `what` names the thing that needs them."""
    if facts.free_bytes < need:
        raise SpaceError(
            f"{facts.path} has {format_about(facts.free_bytes)} free, but {what} may need {format_about(need)}.",
            hint="Free some space, name another folder with --vm-dir, or ask for a smaller size.",
            code="VM409",
        )


# only its user may list the folder; QEMU, which may be another user, passes through it
_FIND = r"""
path=$1
[ -n "$2" ] || [ ! -L "$path" ] || { echo link; exit 0; }
[ -d "$path" ] || mkdir -p -m 711 -- "$path" || exit 1
real=$(readlink -f -- "$path") || exit 1
echo "user $(id -u) $(id -g) $(id -un) $(id -gn) ${SUDO_UID:-none}"
folder=$real
while :; do
    stat -c 'folder %u %g %a %U %n' -- "$folder" || exit 1
    [ "$folder" != / ] || break
    folder=${folder%/*}
    folder=${folder:-/}
done
read -r id </proc/sys/kernel/random/uuid
try=$real/.vmstorage-write-test-$id
(umask 077; set -C; echo x >"$try") && rm -f -- "$try"
"""
_USER = re.compile(r"^user (\d+) (\d+) (\S+) (\S+) (\S+)$", re.MULTILINE)
_FOLDER = re.compile(r"^folder (\d+) (\d+) ([0-7]+) (\S+) (/.*)$", re.MULTILINE)


def find_folder(shell: Shell, path: str, *, chosen: bool, named: bool = False, shared: bool = False) -> FolderFacts:
    """Make the folder for disks if need be, try to write to it, and return what it lies on.

    The facts have the real path, without links. Raises HostError where it cannot hold disks, or where another user
    could swap a file in it. A tmpfs is memory and not a disk: it is refused unless the user chose the folder for this
    run. A link under the default name may be anybody's: it is refused unless the user `named` the folder, if only in
    vmstorage.toml. A `shared` folder holds images whose names are known.
    """
    done = shell.run(["sh", "-c", _FIND, "sh", path, "named" if chosen or named else ""])
    if done.stdout.strip() == "link":
        raise HostError(
            f"The folder for disks {path} is a link, and whoever made it decides where disks are written.",
            hint="Remove it, or name a folder of your own with --vm-dir=FOLDER.",
            code="VM408",
        )
    if not done.ok:
        raise HostError(
            f"The folder for disks {path} cannot be written: {done.tail(1)}.",
            hint="Name another one with --vm-dir=FOLDER.",
            code="VM408",
        )
    user, folders = _read(done.stdout)
    reason = open_to_others(user, folders, known_names=shared)
    if reason:
        raise HostError(
            f"The folder for disks {path} is not used: {reason}.",
            hint=f"Name a folder of {user.name}'s own with --vm-dir=FOLDER.",
            code="VM408",
        )
    facts = folder_facts(shell, folders[0].path)
    if facts.file_system in ("tmpfs", "ramfs") and not chosen:
        raise HostError(
            f"The folder for disks {path} is a {facts.file_system}, which is memory and no disk.",
            hint="Name a folder on a disk with --vm-dir=FOLDER (a tmpfs named there is used and recorded).",
            code="VM408",
        )
    return facts


def make_run_folder(shell: Shell, path: str, *, shared: bool) -> None:
    """Make the run's own folder, which must not exist yet; where `shared`, QEMU of another user can pass through it.

    Raises HostError.
    """
    done = shell.run(["mkdir", "-m", "711" if shared else "700", "--", path])
    if not done.ok:
        raise HostError(
            f"The run's folder {path} cannot be made: {done.tail(1)}.",
            hint="Name another one with --vm-dir=FOLDER.",
            code="VM408",
        )


def keep_private(shell: Shell, paths: Sequence[str]) -> None:
    """Let only their owner read these files; raises ProvisionError."""
    check(shell.run(["chmod", "600", "--", *paths]), f"closing {paths[0]} to others")


def _read(said: str) -> tuple[User, tuple[Owned, ...]]:
    found = _USER.search(said)
    folders = tuple(
        Owned(path, int(uid), int(gid), int(mode, 8), owner) for uid, gid, mode, owner, path in _FOLDER.findall(said)
    )
    if found is None or not folders:
        raise HostError(
            "The folder for disks cannot be looked at.", hint="Name another one with --vm-dir=FOLDER.", code="VM408"
        )
    uid, gid, name, group, sudo_uid = found.groups()
    return User(int(uid), int(gid), name, group, sudo_uid), folders

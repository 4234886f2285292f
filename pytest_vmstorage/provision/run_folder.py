"""The folder of one run on a host: its user's alone, in a folder where nobody else can put another in its place.

Names in /var/tmp are known before they are there: whoever makes one first, or may write where it lies, can swap a
disk for a link to any file, and root then writes to that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pytest_vmstorage.command import Shell, check
from pytest_vmstorage.errors import HostError
from pytest_vmstorage.ownership import Owned, User, open_to_others
from pytest_vmstorage.provision.disk import FolderFacts, folder_facts

# the folder is made as its user's alone; QEMU, which may be another user, passes through and sees no names
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
    """Make the folder for disks if need be, try whether it can be written, and say what it lies on.

    The path is the real one, without links, from now on. Raises HostError where it cannot hold disks, or where another
    user could put a file in place of one. A tmpfs is memory and no disk: it is refused unless the user chose the folder
    for this run. A link under the default name may be anybody's: it is refused unless the user `named` the folder, if
    only in vmstorage.toml. In a `shared` one lie images whose names are known.
    """
    done = shell.run(["sh", "-c", _FIND, "sh", path, "named" if chosen or named else ""])
    if done.stdout.strip() == "link":
        raise HostError(
            f"The folder for disks {path} is a link, and who made it decides where disks are written.",
            hint="Remove it, or name a folder of your own with --vm-dir=FOLDER.",
        )
    if not done.ok:
        raise HostError(
            f"The folder for disks {path} cannot be written: {done.tail(1)}.",
            hint="Name another one with --vm-dir=FOLDER.",
        )
    user, folders = _read(done.stdout)
    reason = open_to_others(user, folders, known_names=shared)
    if reason:
        raise HostError(
            f"The folder for disks {path} is not used: {reason}.",
            hint=f"Name a folder of {user.name}'s own with --vm-dir=FOLDER.",
        )
    facts = folder_facts(shell, folders[0].path)
    if facts.file_system in ("tmpfs", "ramfs") and not chosen:
        raise HostError(
            f"The folder for disks {path} is a {facts.file_system}, which is memory and no disk.",
            hint="Name a folder on a disk with --vm-dir=FOLDER (a tmpfs named there is used and recorded).",
        )
    return facts


def make_run_folder(shell: Shell, path: str, *, shared: bool) -> None:
    """Make the run's own folder, which must not be there yet; where `shared`, QEMU of another user passes through it.

    Raises HostError.
    """
    done = shell.run(["mkdir", "-m", "711" if shared else "700", "--", path])
    if not done.ok:
        raise HostError(
            f"The run's folder {path} cannot be made: {done.tail(1)}.", hint="Name another one with --vm-dir=FOLDER."
        )


def keep_private(shell: Shell, paths: Sequence[str]) -> None:
    """Let nobody but their owner read these files; raises ProvisionError."""
    check(shell.run(["chmod", "600", "--", *paths]), f"closing {paths[0]} to others")


def _read(said: str) -> tuple[User, tuple[Owned, ...]]:
    found = _USER.search(said)
    folders = tuple(
        Owned(path, int(uid), int(gid), int(mode, 8), owner) for uid, gid, mode, owner, path in _FOLDER.findall(said)
    )
    if found is None or not folders:
        raise HostError("The folder for disks cannot be looked at.", hint="Name another one with --vm-dir=FOLDER.")
    uid, gid, name, group, sudo_uid = found.groups()
    return User(int(uid), int(gid), name, group, sudo_uid), folders
